#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/bytes.h"
#include "plugin/conn_impl.h"
#include "plugin/reopen.h"
#include "plugin/transport.h"
#include "topo/base/log.h"

#define MN_READY_SIZE (2 + MN_MAC_SIZE)

static void lane_mac(const struct mn_conn *conn, int lane, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[12] = {'l'};
    struct mn_bytes b = {text + 1, text + sizeof text, 0};

    mn_put(&b, conn->id, 8);
    mn_put(&b, (uint64_t)lane, 2);
    mn_mac128(conn->session, text, sizeof text, mac);
}

void mn_conn_start_lane(struct mn_conn *conn, int lane)
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
enum mn_err mn_conn_step_lanes(struct mn_conn *conn)
{
    int waiting = 0;

    for (int i = 1; i < conn->n_lanes; i++) {
        struct mn_chan *chan = conn->lane_chans[i];
        struct mn_diag why = {.text = ""};
        uint8_t text[MN_LANE_SIZE];
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
            mn_conn_progress(conn);
            free(chan);
            conn->lane_chans[i] = NULL;
        } else if (err != MN_ERR_AGAIN) {
            end_lane(conn, i, why.text);
        } else if (mn_now_ms() - conn->lanes_ms > conn->config->settings.handshake_ms / 2) {
            /* A kernel answers however seldom it is asked after. */
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

    if (len != MN_LANE_SIZE || conn->state < MN_CONN_PLAN)
        return MN_ERR_PROTO;
    int lane = payload[8] | payload[9] << 8;
    if (lane < 1 || lane >= conn->n_lanes || conn->lanes[lane].fd >= 0)
        return MN_ERR_PROTO;
    lane_mac(conn, lane, mac);
    if (!mn_mac_equal(mac, payload + 10, MN_MAC_SIZE))
        return MN_ERR_AUTH;
    conn->lanes[lane].fd = fd;
    conn->lanes_up |= 1ull << lane;
    mn_conn_progress(conn);
    return MN_OK;
}

static void ready_mac(const struct mn_conn *conn, uint16_t port, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[1 + 8 + 2] = {'d'};
    struct mn_bytes b = {text + 1, text + sizeof text, 0};

    mn_put(&b, conn->id, 8);
    mn_put(&b, port, 2);
    mn_mac128(conn->session, text, sizeof text, mac);
}

enum mn_err mn_conn_send_ready(struct mn_conn *conn)
{
    uint8_t text[MN_READY_SIZE];
    struct mn_bytes b = {text, text + sizeof text, 0};

    if (conn->transport->keeps_control && conn->door)
        conn->reopen = mn_reopen_new(conn, conn->door);
    uint16_t port = conn->reopen || conn->failover ? conn->door : 0;
    mn_put(&b, port, 2);
    ready_mac(conn, port, b.at);
    return mn_chan_put(&conn->chan, MN_FRAME_READY, text, sizeof text);
}

enum mn_err mn_conn_get_ready(struct mn_conn *conn, uint8_t *payload, size_t len,
                              struct mn_diag *diag)
{
    struct mn_bytes b = {payload, payload + len, 0};
    uint16_t port = (uint16_t)mn_get(&b, 2);
    uint8_t mac[MN_MAC_SIZE];

    ready_mac(conn, port, mac);
    if (len != MN_READY_SIZE || !mn_mac_equal(mac, payload + 2, sizeof mac))
        return mn_fail(diag, MN_ERR_PROTO, "READY frame that the peer has not written");
    conn->door = port;
    if (conn->transport->keeps_control && port)
        conn->reopen = mn_reopen_new(conn, port);
    return MN_OK;
}

/* Closes the gaps that lanes given up have left. */
void mn_conn_pack_lanes(struct mn_conn *conn)
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
