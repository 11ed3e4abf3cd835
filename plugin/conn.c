#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin/bytes.h"
#include "plugin/conn.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

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
                                        "plan",    "lanes", "ready"};
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

static void lane_mac(const struct mn_conn *conn, int lane, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[12] = {'l'};
    struct mn_bytes b = {text + 1, text + sizeof text, 0};

    mn_put(&b, conn->id, 8);
    mn_put(&b, (uint64_t)lane, 2);
    mn_mac128(conn->session, text, sizeof text, mac);
}

static void plan_mac(const struct mn_conn *conn, int connector, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[64] = {0};
    struct mn_bytes b = {text, text + sizeof text, 0};

    mn_put(&b, connector ? 'c' : 'a', 1);
    mn_put_raw(&b, conn->links_mac, MN_MAC_SIZE);
    mn_put(&b, (uint64_t)conn->plan.n_pairs, 1);
    mn_put(&b, (uint64_t)conn->plan.lanes_per_pair, 1);
    for (int i = 0; i < conn->plan.n_pairs; i++) {
        mn_put(&b, conn->plan.pairs[i].connector, 1);
        mn_put(&b, conn->plan.pairs[i].acceptor, 1);
    }
    mn_mac128(conn->session, text, sizeof text, mac);
}

static void put_side(const struct mn_conn *conn, struct mn_bytes *b)
{
    const struct mn_side *side = &conn->side[conn->connector];
    size_t name = strlen(side->node);

    mn_put(b, side->node_id, 8);
    mn_put(b, conn->id, 8);
    mn_put(b, conn->control.connector, 1);
    mn_put(b, conn->control.acceptor, 1);
    mn_put(b, (uint64_t)side->sockets_per_link, 1);
    mn_put(b, name, 1);
    mn_put_raw(b, side->node, name);
    mn_put(b, (uint64_t)side->n_locals, 1);
    for (int i = 0; i < side->n_locals; i++) {
        const struct mn_local *l = &side->locals[i];
        mn_put(b, l->addr.family == AF_INET6 ? 6 : 4, 1);
        mn_put_raw(b, l->addr.bytes, 16);
        mn_put(b, (uint64_t)l->addr.prefix, 1);
        mn_put(b, l->nic, 1);
        mn_put(b, (uint64_t)l->speed_mbps, 4);
        mn_put_raw(b, l->netdev, IF_NAMESIZE);
    }
}

static int get_local(struct mn_bytes *b, struct mn_local *l)
{
    uint64_t family = mn_get(b, 1);

    memset(l, 0, sizeof *l);
    l->addr.family = family == 6 ? AF_INET6 : AF_INET;
    mn_get_raw(b, l->addr.bytes, 16);
    l->addr.prefix = (int)mn_get(b, 1);
    l->nic = (uint8_t)mn_get(b, 1);
    l->speed_mbps = (long)mn_get(b, 4);
    mn_get_raw(b, l->netdev, IF_NAMESIZE);
    l->netdev[IF_NAMESIZE - 1] = 0;
    return !b->bad && (family == 4 || family == 6) && l->addr.prefix <= (family == 6 ? 128 : 32);
}

static void clean_name(char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f)
            *name = '?';
}

static enum mn_err get_side(struct mn_conn *conn, uint8_t *payload, size_t len,
                            struct mn_diag *diag)
{
    struct mn_bytes b = {payload, payload + len, 0};
    struct mn_side *side = &conn->side[!conn->connector];

    memset(side, 0, sizeof *side);
    side->node_id = mn_get(&b, 8);
    uint64_t id = mn_get(&b, 8);
    struct mn_pair control;
    control.connector = (uint8_t)mn_get(&b, 1);
    control.acceptor = (uint8_t)mn_get(&b, 1);
    side->sockets_per_link = (int)mn_get(&b, 1);
    uint64_t name = mn_get(&b, 1);
    if (name >= sizeof side->node)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame with a name of %u bytes", (unsigned)name);
    mn_get_raw(&b, side->node, name);
    clean_name(side->node);
    uint64_t count = mn_get(&b, 1);
    if (b.bad || count > MN_MAX_LOCALS || side->sockets_per_link > 8)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame out of bounds");
    for (uint64_t i = 0; i < count; i++)
        if (!get_local(&b, &side->locals[side->n_locals++]))
            return mn_fail(diag, MN_ERR_PROTO, "LINKS frame with a bad address");
    if (b.bad || b.at != b.end)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame of a wrong length");
    if (conn->connector)
        conn->id = id;
    else
        conn->control = control;
    snprintf(conn->peer_text, sizeof conn->peer_text, "%s", side->node);
    if (conn->control.connector == MN_ROUTED)
        return MN_OK;
    if (conn->control.connector >= conn->side[1].n_locals ||
        conn->control.acceptor >= conn->side[0].n_locals)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame names an address that is not there");
    return MN_OK;
}

/* Ties both LINKS payloads into the plan's hash, whoever sent which. */
static void mix_links(struct mn_conn *conn, const uint8_t *payload, size_t len, int from_connector)
{
    uint8_t text[MN_MAC_SIZE * 2 + 1];

    memcpy(text, conn->links_mac, MN_MAC_SIZE);
    mn_mac128(conn->session, payload, len, text + MN_MAC_SIZE);
    text[MN_MAC_SIZE * 2] = from_connector ? 'c' : 'a';
    mn_mac128(conn->session, text, sizeof text, conn->links_mac);
}

static enum mn_err send_links(struct mn_conn *conn)
{
    uint8_t text[1024];
    struct mn_bytes b = {text, text + sizeof text, 0};

    put_side(conn, &b);
    if (b.bad)
        return MN_ERR_INTERNAL;
    mix_links(conn, text, (size_t)(b.at - text), conn->connector);
    return mn_chan_put(&conn->chan, MN_FRAME_LINKS, text, (size_t)(b.at - text));
}

static void make_plan(struct mn_conn *conn)
{
    mn_plan_make(&conn->side[1], &conn->side[0], conn->control, &conn->plan);
    int pairs = conn->plan.n_pairs ? conn->plan.n_pairs : 1;
    conn->n_lanes = pairs * conn->plan.lanes_per_pair;
    for (int i = 0; i < conn->n_lanes; i++) {
        conn->lanes[i].fd = -1;
        conn->lanes[i].pair = i % pairs; /* neighbours in the list use different cables */
    }
    conn->lanes_up = 1;
}

static enum mn_err send_plan(struct mn_conn *conn)
{
    uint8_t mac[MN_MAC_SIZE];

    plan_mac(conn, conn->connector, mac);
    return mn_chan_put(&conn->chan, MN_FRAME_PLAN, mac, sizeof mac);
}

static enum mn_err check_plan(struct mn_conn *conn, const uint8_t *payload, size_t len,
                              struct mn_diag *diag)
{
    uint8_t mac[MN_MAC_SIZE];

    plan_mac(conn, !conn->connector, mac);
    if (len != sizeof mac || !mn_mac_equal(mac, payload, sizeof mac))
        return mn_fail(diag, MN_ERR_PROTO,
                       "both nodes computed different link plans: install the same meshnet version "
                       "and mesh file on every node");
    return MN_OK;
}

static void start_lane(struct mn_conn *conn, int lane)
{
    const struct mn_pair *pair = &conn->plan.pairs[conn->lanes[lane].pair];
    const struct mn_local *local = &conn->side[1].locals[pair->connector];
    const struct mn_local *remote = &conn->side[0].locals[pair->acceptor];
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    struct mn_diag why;
    int fd;

    uint16_t port = 0;
    if (!getpeername(conn->chan.fd, (struct sockaddr *)&ss, &len))
        port = ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                              : ((struct sockaddr_in *)&ss)->sin_port);
    struct mn_chan *chan = calloc(1, sizeof *chan);
    if (!chan || mn_dial(local, &remote->addr, port, conn->traffic_class, &fd, &why)) {
        MN_WARN("peer %s, link %s: %s; going on without this socket", conn->peer_text,
                local->netdev, chan ? why.text : "out of memory");
        free(chan);
        return;
    }
    mn_chan_init(chan, fd);
    conn->lane_chans[lane] = chan;
}

static void end_lane(struct mn_conn *conn, int lane, const char *why)
{
    const struct mn_pair *pair = &conn->plan.pairs[conn->lanes[lane].pair];

    MN_WARN("peer %s, link %s: %s; going on without this socket (is the cable where the mesh file "
            "says?)",
            conn->peer_text, conn->side[1].locals[pair->connector].netdev, why);
    mn_chan_close(conn->lane_chans[lane]);
    free(conn->lane_chans[lane]);
    conn->lane_chans[lane] = NULL;
}

/* Connector: every lane either comes up or is given up; then the acceptor is told which. */
static enum mn_err step_lanes(struct mn_conn *conn)
{
    int waiting = 0;

    for (int i = 1; i < conn->n_lanes; i++) {
        struct mn_chan *chan = conn->lane_chans[i];
        struct mn_diag why = {.text = ""};
        uint8_t text[10 + MN_MAC_SIZE];
        struct mn_bytes b = {text, text + sizeof text, 0};
        if (!chan)
            continue;
        enum mn_err err = chan->tx_len ? MN_OK : mn_dial_done(chan->fd, &why);
        if (!err && !chan->tx_len) {
            mn_put(&b, conn->id, 8);
            mn_put(&b, (uint64_t)i, 2);
            lane_mac(conn, i, b.at);
            err = mn_chan_put(chan, MN_FRAME_LANE, text, sizeof text);
        }
        if (!err)
            err = mn_chan_flush(chan, &why);
        if (!err) {
            conn->lanes[i].fd = chan->fd;
            conn->lanes_up |= 1ull << i;
            free(chan);
            conn->lane_chans[i] = NULL;
        } else if (err != MN_ERR_AGAIN) {
            end_lane(conn, i, why.text);
        } else if (mn_now_ms() - conn->started_ms > conn->config->settings.handshake_ms / 2) {
            end_lane(conn, i, "no answer to the connection");
        } else {
            waiting = 1;
        }
    }
    if (waiting)
        return MN_ERR_AGAIN;
    uint8_t text[8];
    struct mn_bytes b = {text, text + sizeof text, 0};
    mn_put(&b, conn->lanes_up, 8);
    conn->lanes_agreed = conn->lanes_up;
    return mn_chan_put(&conn->chan, MN_FRAME_LANES, text, sizeof text);
}

uint64_t mn_lane_frame_id(const uint8_t *payload, size_t len)
{
    uint8_t text[8] = {0};
    struct mn_bytes b = {text, text + sizeof text, 0};

    memcpy(text, payload, len < 8 ? len : 8);
    return mn_get(&b, 8);
}

enum mn_err mn_conn_attach(struct mn_conn *conn, int fd, const uint8_t *payload, size_t len)
{
    uint8_t mac[MN_MAC_SIZE];

    if (len != 10 + MN_MAC_SIZE || conn->state < MN_CONN_PLAN)
        return MN_ERR_PROTO;
    int lane = payload[8] | payload[9] << 8;
    if (lane < 1 || lane >= conn->n_lanes || conn->lanes[lane].fd >= 0)
        return MN_ERR_PROTO;
    lane_mac(conn, lane, mac);
    if (!mn_mac_equal(mac, payload + 10, MN_MAC_SIZE))
        return MN_ERR_AUTH;
    conn->lanes[lane].fd = fd;
    conn->lanes_up |= 1ull << lane;
    return MN_OK;
}

/* Closes the gaps that lanes given up have left. */
static void pack_lanes(struct mn_conn *conn)
{
    int kept = 0;

    conn->lanes[0].fd = conn->chan.fd;
    for (int i = 0; i < conn->n_lanes; i++) {
        if (conn->lanes_agreed >> i & 1)
            conn->lanes[kept++] = conn->lanes[i];
        else if (conn->lanes[i].fd >= 0)
            close(conn->lanes[i].fd);
    }
    conn->n_lanes = kept;
    conn->chan.fd = -1;
    conn->state = MN_CONN_READY;
}

static enum mn_err on_frame(struct mn_conn *conn, enum mn_frame type, uint8_t *payload, size_t len,
                            struct mn_diag *diag)
{
    static const enum mn_frame expected[] = {
        [MN_CONN_HELLO] = MN_FRAME_HELLO, [MN_CONN_PROOF] = MN_FRAME_PROOF,
        [MN_CONN_LINKS] = MN_FRAME_LINKS, [MN_CONN_PLAN] = MN_FRAME_PLAN,
        [MN_CONN_LANES] = MN_FRAME_LANES,
    };
    enum mn_frame want =
        conn->connector && conn->state == MN_CONN_LANES ? MN_FRAME_READY : expected[conn->state];
    uint8_t mac[MN_MAC_SIZE];
    enum mn_err err = MN_OK;

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
            return send_links(conn);
        proof(conn, 0, mac);
        return mn_chan_put(&conn->chan, MN_FRAME_PROOF, mac, sizeof mac);
    case MN_CONN_LINKS:
        err = get_side(conn, payload, len, diag);
        if (err)
            return err;
        mix_links(conn, payload, len, !conn->connector);
        conn->state = MN_CONN_PLAN;
        if (conn->connector) {
            make_plan(conn);
            return MN_OK;
        }
        err = send_links(conn);
        make_plan(conn);
        return err ? err : send_plan(conn);
    case MN_CONN_PLAN:
        err = check_plan(conn, payload, len, diag);
        if (err)
            return err;
        conn->state = MN_CONN_LANES;
        if (!conn->connector)
            return MN_OK;
        for (int i = 1; i < conn->n_lanes; i++)
            start_lane(conn, i);
        return send_plan(conn);
    case MN_CONN_LANES:
        if (conn->connector) {
            pack_lanes(conn);
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

enum mn_err mn_conn_step(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    if (mn_now_ms() > conn->deadline_ms)
        return mn_fail(diag, MN_ERR_TIMEOUT, "no answer within the handshake's deadline (state %s)",
                       mn_conn_state_name(conn->state));
    if (conn->state == MN_CONN_CONNECT)
        err = begin(conn, diag);
    /* A handshake has at most a handful of frames: the loop ends by EAGAIN or state. */
    while (!err && conn->state != MN_CONN_READY) {
        enum mn_frame type;
        uint8_t *payload;
        size_t len;
        if (conn->state == MN_CONN_LANES && conn->connector && !conn->lanes_agreed)
            err = step_lanes(conn);
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
                pack_lanes(conn);
                break;
            }
            conn->ready_sent = 1;
            err = mn_chan_put(&conn->chan, MN_FRAME_READY, NULL, 0);
            continue;
        }
        err = mn_chan_get(&conn->chan, &type, &payload, &len, diag);
        if (!err)
            err = on_frame(conn, type, payload, len, diag);
    }
    return err;
}

void mn_conn_close(struct mn_conn *conn)
{
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
