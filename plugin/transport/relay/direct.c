/* The neighbours' own cables as a way: it is taken first, others while it is out
 * (transport.detour).
 *
 * What a relay does of other ways its two ends do: the receiver listens for the data connections
 * and says where, at the set-up in SETUP and later by ATTACHED; a turn's pair is its instance + 1.
 * The line is the handshake's connection. Either end closes it with the data connections, and
 * reopen.h brings another. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/carrier.h"
#include "plugin/conn_impl.h"
#include "plugin/reopen.h"
#include "plugin/transport/relay/flow.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define LOOK_MS    50   /* between looks at the carrier */
#define SILENCE_MS 2000 /* of the line: another way is at hand */
#define PAUSE_MS   500  /* before it is looked at again while it has no carrier */

/* --- the cable -------------------------------------------------------------------------------- */

/* 0: none of its ends here has a carrier. */
static int has_carrier(const struct relay_direct *direct)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), any = fd < 0 || !direct->n_netdevs;

    for (int i = 0; i < direct->n_netdevs && !any; i++) {
        int carrier = mn_has_carrier(fd, direct->netdevs[i]);
        any = carrier > 0 || (carrier < 0 && errno != ENODEV);
    }
    if (fd >= 0)
        close(fd);
    return any;
}

static void look_at_cable(struct relay_comm *comm, struct relay_way *way, uint64_t now_ms)
{
    if (now_ms - comm->direct.looked_ms < LOOK_MS)
        return;
    comm->direct.looked_ms = now_ms;
    if (!has_carrier(&comm->direct))
        relay_way_gone(comm, way, MN_GONE_RELAY, 1, "%s%s has no carrier: the cable is out",
                       comm->direct.netdevs[0], comm->direct.n_netdevs > 1 ? " and others" : "");
}

/* --- set-up ----------------------------------------------------------------------------------- */

static void make_key(struct relay_comm *comm, const struct mn_conn *conn)
{
    static const uint8_t text[] = "direct way";

    mn_mac128(conn->session, text, sizeof text, comm->direct.key);
}

static enum mn_err listen_here(struct relay_comm *comm, struct relay_way *way,
                               uint8_t handles[MN_RELAY_KINDS][MN_HANDLE_SIZE],
                               struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int kind = 0; kind < MN_RELAY_KINDS && !err; kind++)
        err = mn_hop_listen(comm->config, relay_way_device(comm, way), comm->direct.key,
                            handles[kind], &way->hops[kind].hop, diag);
    return err;
}

static enum mn_err dial_there(struct relay_comm *comm, struct relay_way *way,
                              const uint8_t handles[MN_RELAY_KINDS][MN_HANDLE_SIZE],
                              struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int kind = 0; kind < MN_RELAY_KINDS && !err; kind++)
        err = mn_hop_dial(comm->config, relay_way_device(comm, way), comm->direct.key,
                          handles[kind], &way->hops[kind].hop, diag);
    return err;
}

enum mn_err relay_direct_begin(struct relay_comm *comm, const struct mn_conn *conn,
                               struct mn_bytes *out, struct mn_diag *diag)
{
    struct relay_direct *direct = &comm->direct;
    struct relay_way *way = &comm->ways[0];
    uint8_t handles[MN_RELAY_KINDS][MN_HANDLE_SIZE];
    const struct mn_side *own = &conn->side[conn->connector];
    uint64_t sum = 0;

    direct->detour = conn->plan.detour;
    if (!direct->detour)
        return MN_OK;
    make_key(comm, conn);
    for (int i = 0; i < conn->plan.n_pairs; i++) {
        struct mn_pair pair = conn->plan.pairs[i];
        int local = conn->connector ? pair.connector : pair.acceptor;
        mn_strlcpy(direct->netdevs[direct->n_netdevs++], own->locals[local].netdev, IF_NAMESIZE);
        sum += conn->plan.weights[i];
    }
    comm->n_ways = 1;
    way->nodes = (struct mn_relay_way){.n = 2,
                                       .nodes = {(uint16_t)conn->side[1].relay_node,
                                                 (uint16_t)conn->side[0].relay_node}};
    way->weight = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
    way->pair = 1;
    way->state = RELAY_AWAITS;
    if (conn->connector)
        return MN_OK;
    enum mn_err err = listen_here(comm, way, handles, diag);
    if (!err)
        mn_put_raw(out, handles, sizeof handles);
    return err;
}

enum mn_err relay_direct_peer(struct relay_comm *comm, struct mn_bytes *in, struct mn_diag *diag)
{
    uint8_t handles[MN_RELAY_KINDS][MN_HANDLE_SIZE];

    mn_get_raw(in, handles, sizeof handles);
    return in->bad ? MN_OK : dial_there(comm, &comm->ways[0], handles, diag);
}

static void take_line(struct relay_comm *comm, struct relay_way *way, int fd)
{
    struct mn_diag diag = {.text = ""};
    unsigned silence = comm->config->settings.relay_silence_ms;

    if (mn_line_over(comm->config, fd, comm->direct.key, comm->peer,
                     silence < SILENCE_MS ? silence : SILENCE_MS, &way->line, &diag))
        relay_way_gone(comm, way, MN_GONE_RELAY, 0, "%s", diag.text);
}

void relay_direct_open(struct relay_comm *comm, struct mn_conn *conn, int fd)
{
    struct relay_way *way = &comm->ways[0];

    comm->direct.reopen = conn->reopen;
    conn->reopen = NULL;
    mn_reopen_keep(comm->direct.reopen, conn->config);
    if (way->state >= RELAY_AWAITS && way->state != RELAY_IS_REFUSED)
        take_line(comm, way, fd);
    else
        close(fd);
}

void relay_direct_close(struct relay_comm *comm)
{
    mn_reopen_free(comm->direct.reopen);
    comm->direct.reopen = NULL;
    mn_wipe(comm->direct.key, sizeof comm->direct.key);
}

/* --- again ------------------------------------------------------------------------------------ */

static void come_back(struct relay_comm *comm, struct relay_way *way, uint64_t now_ms)
{
    if (way->state == RELAY_RESTS) {
        if (now_ms < way->next_ms || comm->ended_ms)
            return;
        way->next_ms = now_ms + PAUSE_MS;
        if (!has_carrier(&comm->direct) || !mn_reopen_lost(comm->direct.reopen))
            return;
        way->state = RELAY_DIALS;
    }
    int fd = mn_reopen_take(comm->direct.reopen);
    if (fd >= 0)
        take_line(comm, way, fd);
}

void relay_direct_step(struct relay_comm *comm, struct relay_way *way, uint64_t now_ms)
{
    if (way->state >= RELAY_AWAITS && way->line) {
        if (mn_reopen_is_done(comm->direct.reopen)) {
            relay_way_gone(comm, way, MN_GONE_PEER, 0, "the other end has opened its line again");
            way->next_ms = now_ms;
        } else {
            look_at_cable(comm, way, now_ms);
        }
    }
    if (!way->line && way->state <= RELAY_DIALS && comm->direct.reopen)
        come_back(comm, way, now_ms);
}

void relay_direct_attach(struct relay_comm *comm, struct relay_way *way)
{
    struct mn_line_attached f = {.flow = comm->flow, .way = 0, .instance = way->instance + 1};
    struct mn_diag diag = {.text = ""};
    uint8_t payload[MN_LINE_MAX];

    way->state = RELAY_AWAITS;
    if (comm->base.is_send)
        return;
    enum mn_err err = listen_here(comm, way, f.handles, &diag);
    way->instance = f.instance;
    way->pair = f.instance + 1;
    if (!err)
        err = mn_line_put(way->line, MN_LINE_ATTACHED, payload, mn_line_attached_put(&f, payload));
    if (err)
        relay_way_gone(comm, way, MN_GONE_PEER, 1, "%s",
                       diag.text[0] ? diag.text : mn_err_text(err));
}

void relay_direct_attached(struct relay_comm *comm, struct relay_way *way,
                           const struct mn_line_attached *f)
{
    struct mn_diag diag = {.text = ""};

    way->instance = f->instance;
    way->pair = f->instance + 1;
    if (dial_there(comm, way, f->handles, &diag))
        relay_way_gone(comm, way, MN_GONE_PEER, 1, "%s", diag.text);
}
