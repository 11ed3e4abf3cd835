#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/bytes.h"
#include "plugin/conn_impl.h"

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

enum mn_err mn_conn_get_side(struct mn_conn *conn, uint8_t *payload, size_t len,
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
    uint8_t text[1024];
    struct mn_bytes b = {text, text + sizeof text, 0};

    put_side(conn, &b);
    if (b.bad)
        return MN_ERR_INTERNAL;
    mn_conn_mix_links(conn, text, (size_t)(b.at - text), conn->connector);
    return mn_chan_put(&conn->chan, MN_FRAME_LINKS, text, (size_t)(b.at - text));
}

void mn_conn_make_plan(struct mn_conn *conn)
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
