#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plugin/conn_impl.h"
#include "plugin/relay/able.h"
#include "plugin/reopen.h"
#include "plugin/transport.h"

uint64_t mn_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void mn_conn_progress(struct mn_conn *conn)
{
    conn->idle_ms = 0;
    conn->stepped_ms = mn_now_ms();
}

const char *mn_conn_state_name(enum mn_conn_state state)
{
    static const char *const names[] = {"connect", "hello", "proof", "links",
                                        "plan",    "setup", "lanes", "ready"};
    return state <= MN_CONN_READY ? names[state] : "?";
}

void mn_conn_key(const struct mn_config *config, const uint8_t nonce[MN_NONCE_SIZE],
                 uint8_t key[MN_KEY_SIZE])
{
    const uint8_t *cluster = mn_config_key(config);

    /* The secret is the key and the public part the message, whichever secret there is. */
    if (cluster)
        mn_mac128(cluster, nonce, MN_NONCE_SIZE, key);
    else
        memcpy(key, nonce, MN_KEY_SIZE);
}

static void hello_mac(const uint8_t key[MN_KEY_SIZE], const uint8_t random[16],
                      uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[2 + 16] = {MN_PROTOCOL_VERSION, 'h'};

    memcpy(text + 2, random, 16);
    mn_mac128(key, text, sizeof text, mac);
}

static enum mn_err other_version(const uint8_t *payload, size_t len, struct mn_diag *diag)
{
    return mn_fail(diag, MN_ERR_PROTO,
                   "peer speaks another handshake version (%u, here %d): install the same meshnet "
                   "on every node",
                   len ? payload[0] : 0, MN_PROTOCOL_VERSION);
}

enum mn_err mn_hello_check(const uint8_t key[MN_KEY_SIZE], const uint8_t *payload, size_t len,
                           struct mn_diag *diag)
{
    uint8_t mac[MN_MAC_SIZE];

    if (len != MN_HELLO_SIZE || payload[0] != MN_PROTOCOL_VERSION)
        return other_version(payload, len, diag);
    hello_mac(key, payload + 1, mac);
    return mn_mac_equal(mac, payload + 17, sizeof mac)
               ? MN_OK
               : mn_fail(diag, MN_ERR_AUTH, "a stranger, or a process meant for another listener");
}

size_t mn_hello_version(uint8_t hello[17])
{
    memset(hello, 0, 17);
    hello[0] = MN_PROTOCOL_VERSION;
    return 17;
}

static void proof(const struct mn_conn *conn, int connector, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[2 + sizeof conn->random];

    text[0] = MN_PROTOCOL_VERSION;
    text[1] = connector ? 'c' : 'a';
    memcpy(text + 2, conn->random, sizeof conn->random);
    mn_mac128(conn->key, text, sizeof text, mac);
}

static void session_key(struct mn_conn *conn)
{
    uint8_t text[1 + sizeof conn->random] = {'s'};

    memcpy(text + 1, conn->random, sizeof conn->random);
    mn_mac128(conn->key, text, sizeof text, conn->session);
}

/* The peer's reason, as text to be shown. */
static enum mn_err refused(struct mn_conn *conn, const uint8_t *payload, size_t len,
                           struct mn_diag *diag)
{
    char text[768];
    size_t n = len ? len - 1 : 0;

    conn->again = len && !payload[0];
    n = n < sizeof text ? n : sizeof text - 1;
    memcpy(text, payload + 1, n);
    text[n] = 0;
    return mn_fail(diag, MN_ERR_PROTO, "%s refused: %s", conn->peer_text, text);
}

/* Tells a peer that has proved itself why this end gives up; best effort. */
static void refuse(struct mn_conn *conn, const struct mn_diag *diag)
{
    uint8_t text[1 + sizeof diag->text] = {!conn->again};
    size_t len = strlen(diag->text);

    if (conn->state <= MN_CONN_PROOF)
        return;
    memcpy(text + 1, diag->text, len);
    if (!mn_chan_put(&conn->chan, MN_FRAME_ERROR, text, 1 + len))
        (void)mn_chan_flush(&conn->chan, NULL);
}

/* A failure that the next attempt need not have. */
static enum mn_err passing(struct mn_conn *conn, enum mn_err err)
{
    conn->again = 1;
    return err;
}

static enum mn_err on_hello(struct mn_conn *conn, const uint8_t *payload, size_t len,
                            struct mn_diag *diag)
{
    uint8_t text[17] = {MN_PROTOCOL_VERSION};
    enum mn_err err = MN_OK;

    if (!conn->connector)
        err = mn_hello_check(conn->key, payload, len, diag);
    else if (len != sizeof text || payload[0] != MN_PROTOCOL_VERSION)
        err = other_version(payload, len, diag);
    if (err)
        return err;
    memcpy(conn->random[!conn->connector], payload + 1, 16);
    session_key(conn);
    conn->state = MN_CONN_PROOF;
    if (conn->connector) {
        proof(conn, 1, text);
        return mn_chan_put(&conn->chan, MN_FRAME_PROOF, text, MN_MAC_SIZE);
    }
    memcpy(text + 1, conn->random[0], 16);
    return mn_chan_put(&conn->chan, MN_FRAME_HELLO, text, sizeof text);
}

static enum mn_err on_frame(struct mn_conn *conn, enum mn_frame type, uint8_t *payload, size_t len,
                            struct mn_diag *diag)
{
    static const enum mn_frame expected[] = {
        [MN_CONN_HELLO] = MN_FRAME_HELLO, [MN_CONN_PROOF] = MN_FRAME_PROOF,
        [MN_CONN_LINKS] = MN_FRAME_LINKS, [MN_CONN_PLAN] = MN_FRAME_PLAN,
        [MN_CONN_SETUP] = MN_FRAME_SETUP, [MN_CONN_LANES] = MN_FRAME_LANES,
    };
    enum mn_frame want =
        conn->connector && conn->state == MN_CONN_LANES ? MN_FRAME_READY : expected[conn->state];
    uint8_t mac[MN_MAC_SIZE];
    enum mn_err err = MN_OK;

    if (type == MN_FRAME_ERROR && conn->state > MN_CONN_PROOF)
        return refused(conn, payload, len, diag);
    if (type != want)
        return mn_fail(diag, MN_ERR_PROTO, "handshake frame %d in state %s", (int)type,
                       mn_conn_state_name(conn->state));
    switch (conn->state) {
    case MN_CONN_HELLO:
        return on_hello(conn, payload, len, diag);
    case MN_CONN_PROOF:
        proof(conn, !conn->connector, mac);
        if (len != sizeof mac || !mn_mac_equal(mac, payload, sizeof mac))
            return mn_fail(diag, MN_ERR_AUTH,
                           "peer does not know this connection's secret (other "
                           "job on the same port, or another cluster key)");
        conn->state = MN_CONN_LINKS;
        if (conn->connector)
            return mn_conn_send_links(conn);
        proof(conn, 0, mac);
        return mn_chan_put(&conn->chan, MN_FRAME_PROOF, mac, sizeof mac);
    case MN_CONN_LINKS:
        err = mn_conn_get_side(conn, payload, len, diag);
        if (err)
            return err;
        mn_conn_mix_links(conn, payload, len, !conn->connector);
        conn->state = MN_CONN_PLAN;
        if (conn->connector)
            return mn_conn_make_plan(conn, diag);
        err = mn_conn_send_links(conn);
        if (!err)
            err = mn_conn_make_plan(conn, diag);
        return err ? err : mn_conn_send_plan(conn);
    case MN_CONN_PLAN:
        err = mn_conn_check_plan(conn, payload, len, diag);
        if (err)
            return err;
        conn->state = MN_CONN_SETUP;
        if (conn->connector)
            err = mn_conn_send_plan(conn);
        return err ? err : mn_conn_begin_setup(conn, diag);
    case MN_CONN_SETUP:
        conn->setup_got = 1;
        return conn->transport->peer(conn, &(struct mn_bytes){payload, payload + len, 0}, diag);
    case MN_CONN_LANES:
        if (conn->connector) {
            err = mn_conn_get_ready(conn, payload, len, diag);
            if (!err)
                mn_conn_pack_lanes(conn);
            return err;
        }
        conn->lanes_agreed = mn_lane_frame_id(payload, len);
        if (len != 8 || !(conn->lanes_agreed & 1) ||
            (conn->n_lanes < 64 && conn->lanes_agreed >> conn->n_lanes))
            return mn_fail(diag, MN_ERR_PROTO, "LANES frame names sockets that were not planned");
        return MN_OK;
    default:
        return mn_fail(diag, MN_ERR_INTERNAL, "handshake frame in state %s",
                       mn_conn_state_name(conn->state));
    }
}

/* Connector, once the kernel has an answer. */
static enum mn_err begin(struct mn_conn *conn, struct mn_diag *diag)
{
    uint8_t hello[MN_HELLO_SIZE] = {MN_PROTOCOL_VERSION};
    enum mn_err err = mn_dial_done(conn->chan.fd, diag);

    if (err)
        return err == MN_ERR_AGAIN ? err : passing(conn, err);
    mn_socket_tune(conn->chan.fd, conn->config->settings.silence_ms);
    memcpy(hello + 1, conn->random[1], 16);
    hello_mac(conn->key, conn->random[1], hello + 17);
    conn->state = MN_CONN_HELLO;
    mn_conn_progress(conn);
    return mn_chan_put(&conn->chan, MN_FRAME_HELLO, hello, sizeof hello);
}

/* The next frame, if it is there whole. */
static enum mn_err read_frame(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_frame type;
    uint8_t *payload;
    size_t len;
    enum mn_err err = mn_chan_get(&conn->chan, &type, &payload, &len, diag);

    if (!err) {
        mn_conn_progress(conn);
        return on_frame(conn, type, payload, len, diag);
    }
    if (err == MN_ERR_AGAIN || err == MN_ERR_PROTO)
        return err;
    conn->lost = 1;
    if (conn->state > MN_CONN_PROOF)
        mn_fail(diag, err, "%s closed the connection in state %s; its log says why",
                conn->peer_text, mn_conn_state_name(conn->state));
    else if (conn->connector)
        mn_fail(diag, err,
                "the connection was closed before it was accepted (state %s): the peer has ended, "
                "another process listens at its port, or its listener is crowded by strangers",
                mn_conn_state_name(conn->state));
    return passing(conn, err);
}

/* While the transport is at work: a peer that gives up, or is gone, is heard at once, what else it
 * says is left for later. */
static enum mn_err hear_end(struct mn_conn *conn, struct mn_diag *diag)
{
    uint8_t bytes[MN_FRAME_MAX];
    const uint8_t *payload;
    enum mn_frame type;
    size_t len;
    enum mn_err err = mn_chan_peek(conn->chan.fd, bytes, sizeof bytes, &type, &payload, &len);

    return err == MN_ERR_AGAIN || (!err && type != MN_FRAME_ERROR) ? MN_ERR_AGAIN
                                                                   : read_frame(conn, diag);
}

static enum mn_err step_setup(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err = conn->setup_done ? MN_OK : conn->transport->step(conn, diag);

    if (!err && conn->setup_later)
        err = mn_conn_answer_setup(conn, diag);
    if (err == MN_ERR_AGAIN)
        return hear_end(conn, diag);
    if (err)
        return err;
    conn->state = MN_CONN_LANES;
    mn_conn_progress(conn);
    conn->lanes_ms = conn->stepped_ms;
    for (int i = 1; conn->connector && i < conn->n_lanes; i++)
        mn_conn_start_lane(conn, i);
    return MN_OK;
}

/* Sends what is to be sent. A peer that hangs up may have said why before. */
static enum mn_err flush(struct mn_conn *conn, struct mn_diag *diag)
{
    struct mn_diag why = {.text = ""};
    enum mn_err err = mn_chan_flush(&conn->chan, diag);

    if (!err || err == MN_ERR_AGAIN)
        return err;
    enum mn_err heard = read_frame(conn, &why);
    if (!heard || heard == MN_ERR_AGAIN)
        return passing(conn, err);
    *diag = why;
    return heard;
}

/* Acceptor, all frames read. MN_OK: READY is sent and the connection through. */
static enum mn_err say_ready(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    if ((conn->lanes_up & conn->lanes_agreed) != conn->lanes_agreed)
        return MN_ERR_AGAIN;
    if (!conn->ready_sent)
        err = mn_conn_send_ready(conn);
    conn->ready_sent = 1;
    if (!err)
        err = flush(conn, diag);
    if (!err)
        mn_conn_pack_lanes(conn);
    return err;
}

static enum mn_err advance(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err = conn->state == MN_CONN_CONNECT ? begin(conn, diag) : MN_OK;

    /* A handshake has at most a handful of frames: the loop ends by EAGAIN or state. */
    while (!err && conn->state != MN_CONN_READY) {
        if (conn->state == MN_CONN_SETUP && (conn->setup_got || conn->setup_done))
            err = step_setup(conn, diag);
        if (!err && conn->state == MN_CONN_LANES && conn->connector && !conn->lanes_agreed)
            err = mn_conn_step_lanes(conn);
        if (!err || err == MN_ERR_AGAIN) {
            enum mn_err sent = flush(conn, diag);
            err = sent && sent != MN_ERR_AGAIN ? sent : err;
        }
        if (err)
            break;
        if (conn->state == MN_CONN_LANES && !conn->connector && conn->lanes_agreed)
            err = say_ready(conn, diag);
        else
            err = read_frame(conn, diag);
    }
    return err;
}

/* Nothing came: how long this may go on. */
static enum mn_err look_at_clock(struct mn_conn *conn, struct mn_diag *diag)
{
    unsigned limit = conn->config->settings.handshake_ms;
    uint64_t now = mn_now_ms(), away = now - conn->stepped_ms;

    conn->stepped_ms = now;
    conn->idle_ms += away < limit / MN_PATIENT_CALLS ? (unsigned)away : limit / MN_PATIENT_CALLS;
    if (conn->connector && conn->state == MN_CONN_LANES && conn->lanes_agreed)
        return MN_ERR_AGAIN;
    /* A kernel answers at once, whatever its processes do; one behind others a little later. */
    if (conn->state == MN_CONN_CONNECT &&
        conn->idle_ms > limit / (conn->control.connector == MN_ROUTED ? 2 : 3))
        return passing(conn, mn_fail(diag, MN_ERR_LINK_DEAD, "nobody answers"));
    if (conn->connector && conn->state == MN_CONN_HELLO && conn->patience_ms > limit)
        limit = conn->patience_ms;
    if (conn->idle_ms <= limit)
        return MN_ERR_AGAIN;
    return passing(conn, mn_fail(diag, MN_ERR_TIMEOUT,
                                 "no answer within the handshake's deadline of %u s (state %s)",
                                 limit / 1000, mn_conn_state_name(conn->state)));
}

/* Both sides come to this, one by what failed and one by being told. */
static void note_relay(struct mn_conn *conn, const struct mn_diag *why)
{
    if (conn->plan.kind != MN_TRANSPORT_RELAY || conn->state != MN_CONN_SETUP || conn->lost)
        return;
    mn_relay_note_failed(conn->side[!conn->connector].node_id, why->text);
    conn->relay_failed = conn->again = 1;
}

enum mn_err mn_conn_step(struct mn_conn *conn, struct mn_diag *diag)
{
    struct mn_diag why = {.text = ""};
    enum mn_err err = advance(conn, &why);

    if (err == MN_ERR_AGAIN)
        err = look_at_clock(conn, &why);
    if (err && err != MN_ERR_AGAIN) {
        note_relay(conn, &why);
        refuse(conn, &why);
        if (diag)
            *diag = why;
    }
    return err;
}

void mn_conn_close(struct mn_conn *conn)
{
    if (conn->setup)
        conn->transport->cancel(conn);
    for (int i = 0; i < conn->n_lanes; i++) {
        if (conn->lane_chans[i]) {
            mn_chan_close(conn->lane_chans[i]);
            free(conn->lane_chans[i]);
        }
        if (conn->lanes[i].fd >= 0)
            close(conn->lanes[i].fd);
    }
    mn_chan_close(&conn->chan);
    mn_reopen_free(conn->reopen);
    free(conn);
}
