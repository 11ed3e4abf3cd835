/* Queue pairs towards the peer's: a job, since the kernel may wait for the neighbour. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "plugin/patience.h"
#include "plugin/thread.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define RNR_TIMER  12 /* 0.64 ms */
#define RTR_TRIES  3  /* a neighbour that is silent for a second may just be busy */
#define DRAIN_MOST 65536

static void tell_guess(const struct verbs_comm *comm, const struct verbs_link *link)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&told))
        MN_WARN("%s (%s): the peer %s is in another InfiniBand subnet, and its GID names no router "
                "(FLID): its own LID is used, as NCCL does, and may lead nowhere. The subnet "
                "manager's path is not asked for: give the ports FLIDs, or let these cables be TCP "
                "(transport.kind: tcp, over IPoIB)",
                link->device->name, link->local.netdev, comm->peer);
}

/* GID tables shift when addresses come and go: what counts is the GID that the peer was told. */
static void refresh_gid(struct verbs_link *link)
{
    struct verbs_place place;
    struct mn_local local = link->local;

    mn_strlcpy(local.rdma_device, link->device->name, sizeof local.rdma_device);
    local.rdma_port = link->self.port;
    if (!verbs_place_renew(&local, &place, NULL) && place.device == link->device &&
        !memcmp(place.gid.raw, link->self.gid, sizeof link->self.gid))
        link->self.gid_index = place.gid_index;
}

int verbs_qp_ready(struct verbs_comm *comm, struct verbs_link *link, const struct mn_rdma_end *to,
                   const struct verbs_qp *qp)
{
    const struct mn_settings *s = &comm->config->settings;
    const struct mn_patience patience = mn_patience(s);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = link->self.mtu < to->mtu ? link->self.mtu : to->mtu,
        .dest_qp_num = qp->peer_number,
        .rq_psn = qp->peer_psn,
        .max_dest_rd_atomic = link->device->attr.max_qp_rd_atom > 0,
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = {.sl = (uint8_t)s->service_level, .port_num = link->self.port},
    };
    if (!verbs_path(&link->self, to, &attr.ah_attr))
        tell_guess(comm, link);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.traffic_class = comm->traffic_class;
    int error = ETIMEDOUT;
    for (int i = 0; i < RTR_TRIES && error; i++) {
        attr.ah_attr.grh.sgid_index = (uint8_t)link->self.gid_index;
        error = link->device->ibv->modify_qp(qp->qp, &attr,
                                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                                 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        if (error)
            refresh_gid(link);
    }
    if (error)
        return error;
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t)patience.timeout,
        .retry_cnt = (uint8_t)patience.retries,
        .rnr_retry = MN_ACK_RETRIES,
        .sq_psn = qp->psn,
        .max_rd_atomic = link->device->attr.max_qp_init_rd_atom > 0,
    };
    return link->device->ibv->modify_qp(qp->qp, &attr,
                                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                            IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                            IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Enhanced connection establishment, in the order of rdma-core and NCCL: the acceptor sets what the
 * connector has, and answers with what its device has made of that; the connector sets the answer.
 * Both before RTR. What one end has not, or the acceptor's device refuses, is left out at both. */
static int set_ece(const struct verbs_link *link, struct verbs_qp *qp)
{
    return qp->ece.vendor_id && qp->peer_ece.vendor_id &&
           !link->device->ibv->set_ece(qp->qp, &qp->peer_ece);
}

/* Whoever has an address may just not answer for it now: its host boots, or the cable is out. */
static int is_silence(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

static void connect_qps(struct verbs_comm *comm, int first, int n)
{
    for (int i = first; i < first + n && !comm->job_diag.code; i++) {
        struct verbs_link *link = &comm->links[comm->qps[i].link];
        if (atomic_load(&comm->job_state) == JOB_ABANDONED)
            break;
        int enhanced = set_ece(link, &comm->qps[i]);
        int error = verbs_qp_ready(comm, link, &link->peer, &comm->qps[i]);
        if (!enhanced || link->device->ibv->query_ece(comm->qps[i].qp, &comm->qps[i].ece))
            comm->qps[i].ece = (struct ibv_ece){0};
        if (!error)
            continue;
        comm->job_again = is_silence(error);
        mn_fail(&comm->job_diag, comm->job_again ? MN_ERR_LINK_DEAD : MN_ERR_SYS,
                "%s port %u (%s, %s, gid %u) cannot reach %s on %s port %u: %s: %s",
                link->device->name, link->self.port, link->local.netdev, link->from,
                link->self.gid_index, link->to, link->peer.device, link->peer.port,
                comm->job_again ? "its address is not answered for; check the cable and that the "
                                  "address is still there"
                                : "the device refuses the connection",
                strerror(error));
    }
}

static void end_job(struct verbs_comm *comm)
{
    int running = JOB_RUNNING;

    if (!atomic_compare_exchange_strong(&comm->job_state, &running, JOB_DONE))
        verbs_free(comm);
}

static void join(struct verbs_job *job)
{
    struct verbs_comm *comm = (struct verbs_comm *)((char *)job - offsetof(struct verbs_comm, job));

    connect_qps(comm, 0, comm->n_qps);
    end_job(comm);
}

/* The end of the queue pairs before: nobody else reads the link's queue while it joins. */
static enum mn_err clear(struct verbs_comm *comm, struct verbs_link *link, struct mn_diag *diag)
{
    struct ibv_wc wcs[VERBS_BATCH];

    verbs_destroy(comm, comm->job_link);
    for (int left = DRAIN_MOST, empty = 0; empty < VERBS_EMPTY && left > 0;) {
        int n = ibv_poll_cq(link->cq, VERBS_BATCH, wcs);
        empty = n > 0 ? 0 : empty + 1;
        left -= n > 0 ? n : 0;
    }
    /* Events of what is destroyed have come: destroying waits for that. */
    if (verbs_is_lost(link))
        return mn_fail(diag, MN_ERR_SYS, "%s or its completion queue has failed (event %d)",
                       link->device->name, atomic_load(&link->watch.fatal) - 1);
    atomic_store_explicit(&link->watch.fatal, 0, memory_order_relaxed);
    return MN_OK;
}

/* New numbers, so that nothing of before reaches them. */
static void make_qps(struct verbs_comm *comm, struct verbs_link *link)
{
    struct mn_diag *diag = &comm->job_diag;
    enum mn_err err = clear(comm, link, diag);

    for (int q = link->first_qp; q < link->first_qp + link->n_qps && !err; q++) {
        struct verbs_qp *qp = &comm->qps[q];
        err = verbs_make_qp(comm, link, qp, diag);
        if (!err)
            err = mn_random(&qp->psn, sizeof qp->psn, diag);
        qp->psn &= 0xffffff;
        qp->consumed = comm->base.is_send ? 0 : comm->rq_depth;
        qp->retired = qp->posted;
        qp->unsignaled = 0;
        qp->probed_ms = qp->owing_ms = 0;
        int error = err ? 0 : verbs_recv_refill(comm, qp);
        if (error)
            err = mn_fail(diag, MN_ERR_SYS, "posting receive requests: %s", strerror(error));
    }
    if (err && !diag->code)
        diag->code = err;
    if (err)
        verbs_destroy(comm, comm->job_link);
}

static void join_again(struct verbs_job *job)
{
    struct verbs_comm *comm = (struct verbs_comm *)((char *)job - offsetof(struct verbs_comm, job));
    struct verbs_link *link = &comm->links[comm->job_link];

    if (comm->job_parts & VERBS_JOB_MAKE)
        make_qps(comm, link);
    if (comm->job_parts & VERBS_JOB_CONNECT && !comm->job_diag.code) {
        refresh_gid(link);
        connect_qps(comm, link->first_qp, link->n_qps);
    }
    end_job(comm);
}

enum mn_err verbs_join_again(struct verbs_comm *comm, int link, int parts)
{
    comm->job.run = join_again;
    comm->job.owner = comm->config;
    comm->job_diag.code = MN_OK;
    comm->job_link = link;
    comm->job_parts = parts;
    atomic_store(&comm->job_state, JOB_RUNNING);
    int error = verbs_work(&comm->job);
    if (!error)
        return MN_OK;
    atomic_store(&comm->job_state, JOB_NONE);
    comm->job_link = -1;
    return mn_fail(&comm->job_diag, MN_ERR_SYS, "starting a thread to make queue pairs: %s",
                   mn_thread_why(error));
}

static void free_comm(struct verbs_job *job)
{
    verbs_free((struct verbs_comm *)((char *)job - offsetof(struct verbs_comm, job)));
}

int verbs_free_later(struct verbs_comm *comm)
{
    comm->job.run = free_comm;
    comm->job.owner = comm->config;
    return verbs_work(&comm->job);
}

enum mn_err verbs_join(struct verbs_comm *comm, struct mn_diag *diag)
{
    comm->job.run = join;
    comm->job.owner = comm->config;
    atomic_store(&comm->job_state, JOB_RUNNING);
    int error = verbs_work(&comm->job);
    if (!error)
        return MN_OK;
    atomic_store(&comm->job_state, JOB_NONE);
    return mn_fail(diag, MN_ERR_SYS, "starting a thread to connect queue pairs: %s",
                   mn_thread_why(error));
}

enum mn_err verbs_step(struct mn_conn *conn, struct mn_diag *diag)
{
    struct verbs_comm *comm = conn->setup;

    if (atomic_load(&comm->job_state) != JOB_DONE)
        return MN_ERR_AGAIN;
    if (comm->job_diag.code && diag)
        *diag = comm->job_diag;
    conn->again |= comm->job_again;
    return comm->job_diag.code;
}

void verbs_cancel(struct mn_conn *conn)
{
    struct verbs_comm *comm = conn->setup;
    int running = JOB_RUNNING;

    conn->setup = NULL;
    if (!atomic_compare_exchange_strong(&comm->job_state, &running, JOB_ABANDONED))
        verbs_free(comm);
}
