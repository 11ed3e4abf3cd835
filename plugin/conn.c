#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plugin/conn_impl.h"
#include "plugin/transport.h"

#define PROTOCOL_VERSION 1

uint64_t mn_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

const char *mn_conn_state_name(enum mn_conn_state state)
{
    static const char *const names[] = {"connect", "hello", "proof", "links",
                                        "plan",    "setup", "lanes", "ready"};
    return state <= MN_CONN_READY ? names[state] : "?";
}

void mn_conn_key(struct mn_conn *conn, const uint8_t nonce[MN_NONCE_SIZE])
{
    static const uint8_t none[MN_KEY_SIZE];

    /* The secret is the key and the public part the message, whichever secret there is. */
    if (memcmp(conn->config->cluster_key, none, MN_KEY_SIZE))
        mn_mac128(conn->config->cluster_key, nonce, MN_NONCE_SIZE, conn->key);
    else
        memcpy(conn->key, nonce, MN_KEY_SIZE);
}

static void proof(const struct mn_conn *conn, int connector, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[2 + sizeof conn->random];

    text[0] = PROTOCOL_VERSION;
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
static enum mn_err refused(const struct mn_conn *conn, const uint8_t *payload, size_t len,
                           struct mn_diag *diag)
{
    char text[768];
    size_t n = len < sizeof text ? len : sizeof text - 1;

    for (size_t i = 0; i < n; i++)
        text[i] =
            (char)((payload[i] < 0x20 && payload[i] != '\n') || payload[i] == 0x7f ? '?'
                                                                                   : payload[i]);
    text[n] = 0;
    return mn_fail(diag, MN_ERR_PROTO, "%s refused: %s", conn->peer_text, text);
}

/* Tells a peer that has proved itself why this end gives up; best effort. */
static void refuse(struct mn_conn *conn, const struct mn_diag *diag)
{
    if (conn->state <= MN_CONN_PROOF)
        return;
    if (!mn_chan_put(&conn->chan, MN_FRAME_ERROR, diag->text, strlen(diag->text)))
        (void)mn_chan_flush(&conn->chan, NULL);
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
        if (len != 17 || payload[0] != PROTOCOL_VERSION)
            return mn_fail(diag, MN_ERR_PROTO,
                           "peer speaks another handshake version (%u, here "
                           "%d): install the same meshnet on every node",
                           len ? payload[0] : 0, PROTOCOL_VERSION);
        memcpy(conn->random[!conn->connector], payload + 1, 16);
        session_key(conn);
        if (conn->connector) {
            proof(conn, 1, mac);
            err = mn_chan_put(&conn->chan, MN_FRAME_PROOF, mac, sizeof mac);
        } else {
            uint8_t hello[17] = {PROTOCOL_VERSION};
            memcpy(hello + 1, conn->random[0], 16);
            err = mn_chan_put(&conn->chan, MN_FRAME_HELLO, hello, sizeof hello);
        }
        conn->state = MN_CONN_PROOF;
        return err;
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
            mn_conn_pack_lanes(conn);
            return MN_OK;
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

static enum mn_err begin(struct mn_conn *conn, struct mn_diag *diag)
{
    uint8_t hello[17] = {PROTOCOL_VERSION};
    enum mn_err err = mn_dial_done(conn->chan.fd, diag);

    if (err)
        return err;
    memcpy(hello + 1, conn->random[1], 16);
    conn->state = MN_CONN_HELLO;
    return mn_chan_put(&conn->chan, MN_FRAME_HELLO, hello, sizeof hello);
}

static enum mn_err step_setup(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err = conn->setup_done ? MN_OK : conn->transport->step(conn, diag);

    if (err)
        return err;
    conn->state = MN_CONN_LANES;
    for (int i = 1; conn->connector && i < conn->n_lanes; i++)
        mn_conn_start_lane(conn, i);
    return MN_OK;
}

static enum mn_err advance(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    uint64_t now = mn_now_ms();

    /* A kernel answers at once, whatever its processes do. */
    if (conn->state == MN_CONN_CONNECT && conn->control.connector != MN_ROUTED &&
        now - conn->started_ms > conn->config->settings.handshake_ms / 3)
        return mn_fail(diag, MN_ERR_LINK_DEAD,
                       "nobody answers; check that the peer still has this address, and the cable");
    if (now > conn->deadline_ms)
        return mn_fail(diag, MN_ERR_TIMEOUT, "no answer within the handshake's deadline (state %s)",
                       mn_conn_state_name(conn->state));
    if (conn->state == MN_CONN_CONNECT)
        err = begin(conn, diag);
    /* A handshake has at most a handful of frames: the loop ends by EAGAIN or state. */
    while (!err && conn->state != MN_CONN_READY) {
        enum mn_frame type;
        uint8_t *payload;
        size_t len;
        if (conn->state == MN_CONN_SETUP && (conn->setup_got || conn->setup_done))
            err = step_setup(conn, diag);
        if (conn->state == MN_CONN_LANES && conn->connector && !conn->lanes_agreed)
            err = mn_conn_step_lanes(conn);
        if (!err || err == MN_ERR_AGAIN) {
            enum mn_err sent = mn_chan_flush(&conn->chan, diag);
            err = sent && sent != MN_ERR_AGAIN ? sent : err;
        }
        if (err)
            break;
        if (conn->state == MN_CONN_LANES && !conn->connector && conn->lanes_agreed) {
            if ((conn->lanes_up & conn->lanes_agreed) != conn->lanes_agreed)
                return MN_ERR_AGAIN;
            if (conn->ready_sent) {
                mn_conn_pack_lanes(conn);
                break;
            }
            conn->ready_sent = 1;
            err = mn_chan_put(&conn->chan, MN_FRAME_READY, NULL, 0);
            continue;
        }
        err = mn_chan_get(&conn->chan, &type, &payload, &len, diag);
        if (!err)
            err = on_frame(conn, type, payload, len, diag);
        else if (err == MN_ERR_PEER_DEAD && conn->state > MN_CONN_PROOF)
            err = mn_fail(diag, err, "%s closed the connection in state %s; its log says why",
                          conn->peer_text, mn_conn_state_name(conn->state));
    }
    return err;
}

enum mn_err mn_conn_step(struct mn_conn *conn, struct mn_diag *diag)
{
    struct mn_diag why = {.text = ""};
    enum mn_err err = advance(conn, &why);

    if (err && err != MN_ERR_AGAIN) {
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
    free(conn);
}
