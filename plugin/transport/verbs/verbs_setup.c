/* Queue pairs from nothing to ready: what the handshake's SETUP frame carries. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/transport/verbs/pages.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define SETUP_VERSION  5
#define SETUP_FAILOVER 1           /* flag: links may go and come back */
#define SEGMENT_MOST   (16u << 20) /* a link that is slow, and not silent, has done one in time */

void verbs_offer(struct mn_side *self)
{
    struct mn_diag diag;
    int ready = 0;

    self->rdma_text[0] = self->rdma_table[0] = 0;
    for (int i = 0; i < self->n_locals; i++) {
        struct verbs_place place;
        struct mn_rdma_end *end = &self->rdma[i];
        enum mn_err err = self->kind == MN_TRANSPORT_TCP
                              ? MN_ERR_UNSUPPORTED
                              : verbs_place_find(&self->locals[i], &place, &diag);
        memset(end, 0, sizeof *end);
        if (err) {
            end->state = err == MN_ERR_UNSUPPORTED ? MN_RDMA_NONE : MN_RDMA_BROKEN;
            if (end->state == MN_RDMA_BROKEN && !self->rdma_text[0])
                snprintf(self->rdma_text, sizeof self->rdma_text, "%.*s", MN_TABLE_TEXT - 1,
                         diag.text);
            continue;
        }
        ready++;
        end->state = MN_RDMA_READY;
        end->infiniband = place.infiniband;
        end->grh = place.grh;
        end->port = place.port;
        end->mtu = place.mtu;
        end->gid_type = place.gid_type;
        end->gid_index = place.gid_index;
        end->lid = place.lid;
        end->max_message = place.max_message;
        memcpy(end->gid, place.gid.raw, sizeof end->gid);
        mn_strlcpy(end->device, place.device->name, sizeof end->device);
    }
    if (self->kind != MN_TRANSPORT_TCP && ready < self->n_locals)
        verbs_gid_table(NULL, self->rdma_table, sizeof self->rdma_table);
}

void verbs_explain(struct mn_side *self)
{
    verbs_cache_renew();
    verbs_offer(self);
    if (self->kind != MN_TRANSPORT_TCP)
        verbs_gid_table(NULL, self->rdma_table, sizeof self->rdma_table);
}

/* --- making ----------------------------------------------------------------------------------- */

static struct verbs_device *device_named(const char *name)
{
    struct verbs_device *devices;
    int n = verbs_devices(&devices);

    for (int i = 0; i < n; i++)
        if (!strncmp(devices[i].name, name, sizeof((struct mn_rdma_end *)0)->device - 1))
            return &devices[i];
    return NULL;
}

static int qps_of_link(const struct mn_conn *conn)
{
    int most = VERBS_QPS / conn->plan.n_pairs;
    return conn->plan.lanes_per_pair < most ? conn->plan.lanes_per_pair : most;
}

static void name_link(const struct mn_conn *conn, int i, struct verbs_link *link)
{
    const struct mn_pair *pair = &conn->plan.pairs[i];
    int ours = conn->connector;
    int own = ours ? pair->connector : pair->acceptor;
    int other = ours ? pair->acceptor : pair->connector;

    link->self = conn->side[ours].rdma[own];
    link->peer = conn->side[!ours].rdma[other];
    link->local = conn->side[ours].locals[own];
    mn_addr_format(&conn->side[ours].locals[own].addr, link->from, sizeof link->from);
    mn_addr_format(&conn->side[!ours].locals[other].addr, link->to, sizeof link->to);
}

/* Asks for the queues wanted and for less while the device refuses. */
enum mn_err verbs_make_qp(struct verbs_comm *comm, struct verbs_link *link, struct verbs_qp *qp,
                          struct mn_diag *diag)
{
    const struct ibv_device_attr *attr = &link->device->attr;
    uint32_t most = attr->max_qp_wr > 0 ? (uint32_t)attr->max_qp_wr : 16;
    uint32_t wanted = comm->base.is_send ? VERBS_SQ : VERBS_CTS_SQ;
    struct ibv_qp_init_attr init = {
        .qp_context = &link->watch,
        .send_cq = link->cq,
        .recv_cq = link->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = most < wanted ? most : wanted,
                .max_recv_wr = comm->base.is_send ? 1 : comm->rq_depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = VERBS_INLINE},
    };
    struct ibv_qp_init_attr got;

    for (;;) {
        got = init;
        qp->qp = link->device->ibv->create_qp(link->device->pd, &got);
        if (qp->qp || (errno != EINVAL && errno != ENOMEM && errno != EOPNOTSUPP))
            break;
        if (init.cap.max_inline_data)
            init.cap.max_inline_data = init.cap.max_inline_data > 64 ? 64 : 0;
        else if (init.cap.max_send_wr > 16)
            init.cap.max_send_wr /= 2, init.cap.max_inline_data = VERBS_INLINE;
        else
            break;
    }
    if (!qp->qp)
        return mn_fail_errno(diag,
                             "making a queue pair on %s (%s): %u send and %u receive requests; the "
                             "device has %d queue pairs for all processes, and their memory counts "
                             "as locked (see ulimit -l)",
                             link->device->name, link->local.netdev, init.cap.max_send_wr,
                             init.cap.max_recv_wr, attr->max_qp);
    qp->number = qp->qp->qp_num;
    qp->depth = init.cap.max_send_wr;
    if (!link->n_qps || got.cap.max_inline_data < link->max_inline)
        link->max_inline = got.cap.max_inline_data;
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)comm->config->settings.partition,
                             .port_num = link->self.port,
                             .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
    int error = link->device->ibv->modify_qp(qp->qp, &to,
                                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                                 IBV_QP_ACCESS_FLAGS);
    if (!error && link->device->ibv->query_ece(qp->qp, &qp->ece))
        qp->ece = (struct ibv_ece){0};
    if (!error)
        return MN_OK;
    (void)link->device->ibv->destroy_qp(qp->qp);
    qp->qp = NULL;
    errno = error;
    return mn_fail_errno(diag,
                         "preparing a queue pair on %s port %u with partition %d of its table",
                         link->device->name, link->self.port, comm->config->settings.partition);
}

static enum mn_err make_link(struct verbs_comm *comm, const struct mn_conn *conn, int i,
                             struct mn_diag *diag)
{
    struct verbs_link *link = &comm->links[i];
    int per_link = qps_of_link(conn);
    enum mn_err err = MN_OK;

    name_link(conn, i, link);
    link->device = device_named(link->self.device);
    if (!link->device)
        return mn_fail(diag, MN_ERR_INTERNAL, "RDMA device %s is gone", link->self.device);
    comm->devices |= 1u << link->device->index;
    uint32_t depth = comm->base.is_send ? VERBS_SQ + 1 : VERBS_CTS_SQ + comm->rq_depth;
    depth *= (uint32_t)per_link;
    uint32_t most = (uint32_t)link->device->attr.max_cqe;
    if (comm->config->sleeps)
        err = verbs_channel_make(comm, link, diag);
    if (err)
        return err;
    link->cq = link->device->ibv->create_cq(link->device->context,
                                            (int)(most && depth > most ? most : depth),
                                            &link->watch, link->channel, 0);
    if (!link->cq)
        return mn_fail_errno(diag,
                             "making a completion queue of %u on %s; the device has %d for all "
                             "processes, and their memory counts as locked (see ulimit -l)",
                             depth, link->device->name, link->device->attr.max_cq);
    /* No relaxed ordering here: announcements are read while they are written. */
    link->ring_mr =
        link->device->ibv->reg_mr(link->device->pd, comm->ring, VERBS_RING * sizeof *comm->ring,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!link->ring_mr)
        return mn_fail_errno(diag, "registering %zu bytes with %s (see ulimit -l)",
                             VERBS_RING * sizeof *comm->ring, link->device->name);
    link->watch.device = link->device;
    link->watch.port = link->self.port;
    link->watch.netdev = link->self.infiniband ? NULL : link->local.netdev;
    verbs_watch_add(&link->watch);
    link->first_qp = comm->n_qps;
    for (int q = 0; q < per_link && !err; q++) {
        struct verbs_qp *qp = &comm->qps[comm->n_qps];
        qp->link = (uint8_t)i;
        comm->ways[comm->n_qps].weight = comm->full_weight[comm->n_qps] =
            conn->plan.weights[i] / (uint32_t)per_link + 1;
        err = verbs_make_qp(comm, link, qp, diag);
        if (!err) {
            link->n_qps++;
            comm->n_qps++;
        }
    }
    return err;
}

static void set_limits(struct verbs_comm *comm, const struct mn_conn *conn)
{
    uint32_t segment = SEGMENT_MOST;

    comm->rq_depth = VERBS_RQ;
    for (int i = 0; i < comm->n_links; i++) {
        const struct mn_pair *pair = &conn->plan.pairs[i];
        const struct mn_rdma_end *ends[] = {&conn->side[1].rdma[pair->connector],
                                            &conn->side[0].rdma[pair->acceptor]};
        for (int e = 0; e < 2; e++)
            if (ends[e]->max_message >= 4096 && ends[e]->max_message < segment)
                segment = ends[e]->max_message;
        struct verbs_device *device = device_named(ends[!conn->connector]->device);
        if (device && device->attr.max_qp_wr > 0 &&
            (uint32_t)device->attr.max_qp_wr < comm->rq_depth)
            comm->rq_depth = (uint32_t)device->attr.max_qp_wr;
    }
    comm->max_segment = segment & ~127u;
    uint64_t most = (uint64_t)VERBS_SEGMENTS * comm->max_segment;
    comm->max_message = most > 1u << 30 ? 1u << 30 : (uint32_t)most;
}

static struct verbs_comm *make_comm(const struct mn_conn *conn)
{
    struct verbs_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return NULL;
    comm->base = (struct mn_comm){.ops = &mn_transport_verbs, .is_send = conn->connector};
    comm->config = conn->config;
    comm->n_links = conn->plan.n_pairs;
    comm->broken_link = comm->job_link = -1;
    mn_chan_init(&comm->control, -1);
    mn_strlcpy(comm->peer, conn->peer_text, sizeof comm->peer);
    comm->ring = verbs_pages_new(VERBS_RING * sizeof *comm->ring);
    if (conn->connector) {
        comm->sends = calloc(VERBS_SLOTS, sizeof *comm->sends);
        comm->parts =
            calloc(VERBS_SLOTS * (size_t)(comm->n_links * qps_of_link(conn)), sizeof *comm->parts);
    } else {
        comm->groups = calloc(VERBS_SLOTS, sizeof *comm->groups);
        comm->slots = calloc(VERBS_RING, sizeof *comm->slots);
    }
    if (!comm->ring ||
        (conn->connector ? !comm->sends || !comm->parts : !comm->groups || !comm->slots)) {
        verbs_free(comm);
        return NULL;
    }
    for (int i = 0; conn->connector && i < VERBS_SLOTS; i++)
        comm->sends[i].parts = comm->parts + i * comm->n_links * qps_of_link(conn);
    memset(comm->free_sends, 0xff, sizeof comm->free_sends);
    comm->seq = comm->seq_next = comm->seq_announced = comm->seq_landed = VERBS_FIRST_SEQ;
    return comm;
}

/* Of this connection, of its communicator or of the settings; -1 = none. */
static int own_class(const struct mn_conn *conn)
{
    return conn->traffic_class >= 0 ? conn->traffic_class : conn->config->settings.traffic_class;
}

/* A relay's hops have ways beside each other, and owners that sleep. */
static int wants_failover(const struct verbs_comm *comm)
{
    return comm->config->settings.failover && !comm->config->hop;
}

/* Layout: version 1, flags 1, traffic class + 1 (0 = none) 2, queue pairs 1, ring address 8, {ring
 * key 4} a link, {number 4, psn 4, ECE vendor 4, options 4, mask 4} each. */
static void write_setup(struct verbs_comm *comm, int traffic_class, struct mn_bytes *out)
{
    mn_put(out, SETUP_VERSION, 1);
    mn_put(out, wants_failover(comm) ? SETUP_FAILOVER : 0, 1);
    mn_put(out, (uint64_t)(traffic_class + 1), 2);
    mn_put(out, (uint64_t)comm->n_qps, 1);
    mn_put(out, (uintptr_t)comm->ring, 8);
    for (int i = 0; i < comm->n_links; i++)
        mn_put(out, comm->links[i].ring_mr->rkey, 4);
    for (int i = 0; i < comm->n_qps; i++) {
        mn_put(out, comm->qps[i].number, 4);
        mn_put(out, comm->qps[i].psn, 4);
        mn_put(out, comm->qps[i].ece.vendor_id, 4);
        mn_put(out, comm->qps[i].ece.options, 4);
        mn_put(out, comm->qps[i].ece.comp_mask, 4);
    }
}

enum mn_err verbs_begin(struct mn_conn *conn, struct mn_bytes *out, struct mn_diag *diag)
{
    struct verbs_comm *comm = make_comm(conn);
    enum mn_err err = MN_OK;

    if (!comm)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection to %s", conn->peer_text);
    conn->setup = comm;
    set_limits(comm, conn);
    for (int i = 0; i < comm->n_links && !err; i++)
        err = make_link(comm, conn, i, diag);
    if (!err && !conn->connector)
        err = verbs_recv_prepare(comm, diag);
    for (int i = 0; i < comm->n_qps && !err; i++) {
        err = mn_random(&comm->qps[i].psn, sizeof comm->qps[i].psn, diag);
        comm->qps[i].psn &= 0xffffff;
        conn->setup_later |= !conn->connector && comm->qps[i].ece.vendor_id;
    }
    if (!err && !conn->setup_later)
        write_setup(comm, own_class(conn), out);
    return err;
}

void verbs_answer(struct mn_conn *conn, struct mn_bytes *out)
{
    write_setup(conn->setup, own_class(conn), out);
}

void verbs_free(struct verbs_comm *comm)
{
    verbs_flush_free(comm);
    for (int i = 0; i < comm->n_qps; i++)
        if (comm->qps[i].qp)
            comm->links[comm->qps[i].link].device->ibv->destroy_qp(comm->qps[i].qp);
    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        if (link->watch.device)
            verbs_watch_remove(&link->watch);
        verbs_channel_settle(link);
        if (link->cq)
            link->device->ibv->destroy_cq(link->cq);
        verbs_channel_free(link);
        if (link->ring_mr)
            link->device->ibv->dereg_mr(link->ring_mr);
    }
    mn_reopen_free(comm->reopen);
    mn_chan_close(&comm->control);
    verbs_pages_free(comm->ring, VERBS_RING * sizeof *comm->ring);
    free(comm->sends);
    free(comm->parts);
    free(comm->groups);
    free(comm->slots);
    free(comm);
}

enum mn_err verbs_peer(struct mn_conn *conn, struct mn_bytes *in, struct mn_diag *diag)
{
    struct verbs_comm *comm = conn->setup;
    uint64_t version = mn_get(in, 1), flags = mn_get(in, 1), peer_class = mn_get(in, 2),
             n_qps = mn_get(in, 1);

    comm->peer_ring = mn_get(in, 8);
    for (int i = 0; i < comm->n_links; i++)
        comm->links[i].peer_ring_rkey = (uint32_t)mn_get(in, 4);
    for (int i = 0; i < comm->n_qps; i++) {
        comm->qps[i].peer_number = (uint32_t)mn_get(in, 4) & 0xffffff;
        comm->qps[i].peer_psn = (uint32_t)mn_get(in, 4) & 0xffffff;
        comm->qps[i].peer_ece.vendor_id = (uint32_t)mn_get(in, 4);
        comm->qps[i].peer_ece.options = (uint32_t)mn_get(in, 4);
        comm->qps[i].peer_ece.comp_mask = (uint32_t)mn_get(in, 4);
    }
    if (in->bad || in->at != in->end || version != SETUP_VERSION || flags > SETUP_FAILOVER ||
        peer_class > 256 || n_qps != (uint64_t)comm->n_qps)
        return mn_fail(diag, MN_ERR_PROTO, "SETUP frame of another kind than the plan's");
    comm->failover = flags && wants_failover(comm) && comm->n_links > 1;
    /* The sender's class is that of the connection: announcements go back by it, too. */
    int traffic_class = own_class(conn);
    if (!conn->connector && peer_class > 0)
        traffic_class = (int)peer_class - 1;
    if (!conn->connector && comm->config->settings.announce_class >= 0)
        traffic_class = comm->config->settings.announce_class;
    comm->traffic_class = (uint8_t)(traffic_class < 0 ? 0 : traffic_class);
    return verbs_join(comm, diag);
}
