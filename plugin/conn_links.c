#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/bytes.h"
#include "plugin/conn_impl.h"
#include "plugin/relay/able.h"
#include "plugin/transport.h"
#include "topo/base/clean.h"
#include "topo/base/log.h"
#include "topo/base/once.h"

#define MAX_MBPS (1l << 30) /* the plan multiplies two of them */

static void plan_mac(const struct mn_conn *conn, int connector, uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[128] = {0};
    struct mn_bytes b = {text, text + sizeof text, 0};

    mn_put(&b, connector ? 'c' : 'a', 1);
    mn_put_raw(&b, conn->links_mac, MN_MAC_SIZE);
    mn_put(&b, conn->plan.kind, 1);
    mn_put(&b, conn->plan.detour, 1);
    mn_put(&b, (uint64_t)conn->plan.n_pairs, 1);
    mn_put(&b, (uint64_t)conn->plan.lanes_per_pair, 1);
    for (int i = 0; i < conn->plan.n_pairs; i++) {
        mn_put(&b, conn->plan.pairs[i].connector, 1);
        mn_put(&b, conn->plan.pairs[i].acceptor, 1);
        mn_put(&b, conn->plan.weights[i], 4);
    }
    mn_mac128(conn->session, text, sizeof text, mac);
}

static void put_text(struct mn_bytes *b, const char *text)
{
    size_t len = strlen(text);

    mn_put(b, len, 2);
    mn_put_raw(b, text, len);
}

/* Cut to the field, without control characters (newlines of a table apart): it will be printed. */
static void get_text(struct mn_bytes *b, char *text, size_t size)
{
    uint64_t len = mn_get(b, 2);

    if (len >= size)
        b->bad = 1;
    memset(text, 0, size);
    if (b->bad)
        return;
    mn_get_raw(b, text, len);
    mn_clean_lines(text);
}

static void put_end(struct mn_bytes *b, const struct mn_rdma_end *end)
{
    mn_put(b, end->state, 1);
    mn_put(b, end->infiniband, 1);
    mn_put(b, end->grh, 1);
    mn_put(b, end->port, 1);
    mn_put(b, end->mtu, 1);
    mn_put(b, end->gid_type, 1);
    mn_put(b, end->gid_index, 2);
    mn_put(b, end->lid, 2);
    mn_put(b, end->max_message, 4);
    mn_put_raw(b, end->gid, sizeof end->gid);
    put_text(b, end->device);
}

static int get_end(struct mn_bytes *b, struct mn_rdma_end *end)
{
    end->state = (uint8_t)mn_get(b, 1);
    end->infiniband = (uint8_t)mn_get(b, 1);
    end->grh = (uint8_t)mn_get(b, 1);
    end->port = (uint8_t)mn_get(b, 1);
    end->mtu = (uint8_t)mn_get(b, 1);
    end->gid_type = (uint8_t)mn_get(b, 1);
    end->gid_index = (uint16_t)mn_get(b, 2);
    end->lid = (uint16_t)mn_get(b, 2);
    end->max_message = (uint32_t)mn_get(b, 4);
    mn_get_raw(b, end->gid, sizeof end->gid);
    get_text(b, end->device, sizeof end->device);
    return !b->bad && end->state <= MN_RDMA_BROKEN && end->infiniband <= 1 && end->grh <= 1 &&
           end->mtu <= 5 && end->gid_type <= MN_GID_ROCE_V2;
}

static void put_side(const struct mn_conn *conn, struct mn_bytes *b)
{
    const struct mn_side *side = &conn->side[conn->connector];

    mn_put(b, side->node_id, 8);
    mn_put(b, conn->id, 8);
    mn_put(b, conn->control.connector, 1);
    mn_put(b, conn->control.acceptor, 1);
    mn_put(b, side->kind, 1);
    mn_put(b, side->allow_tcp, 1);
    mn_put(b, side->reach, 1);
    mn_put(b, (uint64_t)side->sockets_per_link, 1);
    mn_put(b, (uint64_t)side->qps_per_link, 1);
    mn_put(b, (uint64_t)side->failover, 1);
    mn_put(b, side->detour, 1);
    mn_put(b, side->relay, 1);
    mn_put(b, (uint64_t)side->relay_node, 2);
    put_text(b, side->node);
    put_text(b, side->rdma_text);
    put_text(b, side->rdma_table);
    mn_put(b, (uint64_t)side->n_locals, 1);
    for (int i = 0; i < side->n_locals; i++) {
        const struct mn_local *l = &side->locals[i];
        mn_put(b, l->addr.family == AF_INET6 ? 6 : 4, 1);
        mn_put_raw(b, l->addr.bytes, 16);
        mn_put(b, (uint64_t)l->addr.prefix, 1);
        mn_put(b, l->nic, 1);
        mn_put(b, l->group, 1);
        mn_put(b, (uint64_t)l->speed_mbps, 4);
        put_text(b, l->netdev);
        put_end(b, &side->rdma[i]);
    }
    mn_conn_put_mesh(conn, b);
}

static int get_local(struct mn_bytes *b, struct mn_local *l)
{
    uint64_t family = mn_get(b, 1);

    memset(l, 0, sizeof *l);
    l->addr.family = family == 6 ? AF_INET6 : AF_INET;
    mn_get_raw(b, l->addr.bytes, 16);
    l->addr.prefix = (int)mn_get(b, 1);
    l->nic = (uint8_t)mn_get(b, 1);
    l->group = (uint8_t)mn_get(b, 1);
    l->speed_mbps = (long)mn_get(b, 4);
    get_text(b, l->netdev, sizeof l->netdev);
    return !b->bad && (family == 4 || family == 6) && l->addr.prefix <= (family == 6 ? 128 : 32) &&
           l->speed_mbps <= MAX_MBPS;
}

/* The handle has the acceptor's addresses in an order of its own: which of them the connection came
 * to, its socket tells both ends. */
static void find_acceptor(struct mn_conn *conn)
{
    const struct mn_side *side = &conn->side[0];
    struct sockaddr_storage ss;
    struct mn_addr at;
    socklen_t len = sizeof ss;
    int failed = conn->connector ? getpeername(conn->chan.fd, (struct sockaddr *)&ss, &len)
                                 : getsockname(conn->chan.fd, (struct sockaddr *)&ss, &len);

    if (failed || mn_addr_from_sockaddr((struct sockaddr *)&ss, &at) < 0)
        return;
    for (int i = 0; i < side->n_locals; i++)
        if (mn_addr_equal(&side->locals[i].addr, &at)) {
            conn->control.acceptor = (uint8_t)i;
            return;
        }
}

/* Of another mesh file nobody looks at it. */
static int relay_node_holds(const struct mn_conn *conn, const struct mn_side *side)
{
    const struct mn_relay_own *own = conn->config->relay;

    return !own || side->mesh != own->digest || (size_t)side->relay_node < own->mesh.n_nodes;
}

enum mn_err mn_conn_get_side(struct mn_conn *conn, uint8_t *payload, size_t len,
                             struct mn_diag *diag)
{
    struct mn_bytes b = {payload, payload + len, 0};
    struct mn_side *side = &conn->side[!conn->connector];
    struct mn_mesh_digest mesh;

    memset(side, 0, sizeof *side);
    side->node_id = mn_get(&b, 8);
    uint64_t id = mn_get(&b, 8);
    struct mn_pair control;
    control.connector = (uint8_t)mn_get(&b, 1);
    control.acceptor = (uint8_t)mn_get(&b, 1);
    side->kind = (enum mn_transport_kind)mn_get(&b, 1);
    side->allow_tcp = (enum mn_allow_tcp)mn_get(&b, 1);
    side->reach = (enum mn_reach)mn_get(&b, 1);
    side->sockets_per_link = (int)mn_get(&b, 1);
    side->qps_per_link = (int)mn_get(&b, 1);
    side->failover = (int)mn_get(&b, 1);
    side->detour = (enum mn_detour)mn_get(&b, 1);
    side->relay = (enum mn_relay_able)mn_get(&b, 1);
    side->relay_node = (int)mn_get(&b, 2);
    get_text(&b, side->node, sizeof side->node);
    get_text(&b, side->rdma_text, sizeof side->rdma_text);
    get_text(&b, side->rdma_table, sizeof side->rdma_table);
    uint64_t count = mn_get(&b, 1);
    if (b.bad || count > MN_MAX_LOCALS || side->sockets_per_link > 8 || side->qps_per_link > 4 ||
        side->failover > 1 || side->kind > MN_TRANSPORT_TCP || side->allow_tcp > MN_TCP_AUTO ||
        side->detour > MN_DETOUR_ON || side->reach > MN_REACH_RELAY || side->relay > MN_RELAY_ABLE)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame out of bounds");
    for (uint64_t i = 0; i < count; i++, side->n_locals++)
        if (!get_local(&b, &side->locals[i]) || !get_end(&b, &side->rdma[i]))
            return mn_fail(diag, MN_ERR_PROTO, "LINKS frame with a bad address");
    if (!mn_conn_get_mesh(&b, &mesh) || b.at != b.end)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame of a wrong length");
    side->mesh = mesh.hash;
    if (!relay_node_holds(conn, side))
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame names a node that is not in the mesh");
    if (conn->connector)
        conn->id = id;
    else
        conn->control = control;
    snprintf(conn->peer_text, sizeof conn->peer_text, "%s", side->node);
    enum mn_err err = mn_conn_compare_mesh(conn, &mesh, diag);
    if (err)
        return err;
    if (conn->control.connector == MN_ROUTED)
        return MN_OK;
    find_acceptor(conn);
    if (conn->control.connector >= conn->side[1].n_locals ||
        conn->control.acceptor >= conn->side[0].n_locals)
        return mn_fail(diag, MN_ERR_PROTO, "LINKS frame names an address that is not there");
    return MN_OK;
}

/* Ties both LINKS payloads into the plan's hash, whoever sent which. */
void mn_conn_mix_links(struct mn_conn *conn, const uint8_t *payload, size_t len, int from_connector)
{
    uint8_t text[MN_MAC_SIZE * 2 + 1];

    memcpy(text, conn->links_mac, MN_MAC_SIZE);
    mn_mac128(conn->session, payload, len, text + MN_MAC_SIZE);
    text[MN_MAC_SIZE * 2] = from_connector ? 'c' : 'a';
    mn_mac128(conn->session, text, sizeof text, conn->links_mac);
}

enum mn_err mn_conn_send_links(struct mn_conn *conn)
{
    uint8_t text[MN_FRAME_MAX - 256]; /* a PLAN frame may follow in the same buffer */
    struct mn_bytes b = {text, text + sizeof text, 0};
    struct mn_side *side = &conn->side[conn->connector];

    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->offer(side);
    side->relay = mn_relay_able(conn->config, conn->side[!conn->connector].node_id);
    put_side(conn, &b);
    if (b.bad)
        return MN_ERR_INTERNAL;
    mn_conn_mix_links(conn, text, (size_t)(b.at - text), conn->connector);
    return mn_chan_put(&conn->chan, MN_FRAME_LINKS, text, (size_t)(b.at - text));
}

/* Once a process and reason, that TCP carries the data though nobody asked for it. Where RDMA was
 * to be had and failed, that is the cause of what may follow. */
static void tell_tcp(const struct mn_conn *conn)
{
    static struct mn_once said;
    const char *why = conn->plan.why_tcp;

    if (!why[0] || !mn_once(&said, why, strlen(why)))
        return;
    if (conn->plan.rdma_failed)
        MN_WARN("peer %s: TCP carries the data, not RDMA: %s", conn->peer_text, why);
    else
        MN_INFO("peer %s: TCP carries the data, not RDMA: %s", conn->peer_text, why);
}

/* Neighbours in the list use different cables. With failover each has a control socket, too: the
 * data sockets may be full of what nobody reads yet. */
static void plan_lanes(struct mn_conn *conn)
{
    int tcp = conn->plan.kind == MN_TRANSPORT_TCP;
    int pairs = tcp && conn->plan.n_pairs ? conn->plan.n_pairs : 1;
    int each = tcp ? conn->plan.lanes_per_pair : 1;

    conn->failover = tcp && pairs * each > 1 && conn->side[0].failover && conn->side[1].failover;
    if (conn->failover && (each + 1) * pairs > MN_MAX_LANES)
        each = MN_MAX_LANES / pairs - 1;
    conn->n_lanes = pairs * (each + conn->failover);
    for (int i = 0; i < conn->n_lanes; i++)
        conn->lanes[i] =
            (struct mn_lane){.fd = -1, .pair = i % pairs, .control = i >= pairs * each};
}

enum mn_err mn_conn_make_plan(struct mn_conn *conn, struct mn_diag *diag)
{
    enum mn_err err =
        mn_plan_make(&conn->side[1], &conn->side[0], conn->control, &conn->plan, diag);
    if (err)
        return err;
    tell_tcp(conn);
    conn->transport = mn_transport_of(conn->plan.kind);
    plan_lanes(conn);
    conn->lanes_up = 1;
    return MN_OK;
}

static enum mn_err put_setup(struct mn_conn *conn, const uint8_t *text, const struct mn_bytes *b,
                             struct mn_diag *diag)
{
    return b->bad ? mn_fail(diag, MN_ERR_INTERNAL, "SETUP frame does not fit")
                  : mn_chan_put(&conn->chan, MN_FRAME_SETUP, text, (size_t)(b->at - text));
}

enum mn_err mn_conn_answer_setup(struct mn_conn *conn, struct mn_diag *diag)
{
    uint8_t text[MN_FRAME_MAX / 2];
    struct mn_bytes b = {text, text + sizeof text, 0};

    conn->transport->answer(conn, &b);
    conn->setup_later = 0;
    return put_setup(conn, text, &b, diag);
}

enum mn_err mn_conn_begin_setup(struct mn_conn *conn, struct mn_diag *diag)
{
    uint8_t text[MN_FRAME_MAX / 2];
    struct mn_bytes b = {text, text + sizeof text, 0};
    enum mn_err err = conn->transport->begin(conn, &b, diag);

    if (err || conn->setup_later)
        return err;
    if (b.at == text) {
        conn->setup_done = 1;
        return MN_OK;
    }
    return put_setup(conn, text, &b, diag);
}

enum mn_err mn_conn_send_plan(struct mn_conn *conn)
{
    uint8_t mac[MN_MAC_SIZE];

    plan_mac(conn, conn->connector, mac);
    return mn_chan_put(&conn->chan, MN_FRAME_PLAN, mac, sizeof mac);
}

enum mn_err mn_conn_check_plan(struct mn_conn *conn, const uint8_t *payload, size_t len,
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
