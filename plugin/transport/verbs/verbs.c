/* Life and failure of the verbs transport. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/gpu.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

const char *verbs_name(const struct verbs_comm *comm, int link, char who[VERBS_WHO])
{
    size_t used = (size_t)snprintf(who, VERBS_WHO, "%s peer %s",
                                   comm->base.is_send ? "send to" : "receive from", comm->peer);

    for (int i = 0; i < comm->n_links && used < VERBS_WHO; i++) {
        const struct verbs_link *l = &comm->links[i];
        if (link < 0 || link == i)
            used +=
                (size_t)snprintf(who + used, VERBS_WHO - used, ", link %s (%s port %u, %s to %s)",
                                 l->local.netdev, l->self.device, l->self.port, l->from, l->to);
    }
    return who;
}

/* --- failing ---------------------------------------------------------------------------------- */

enum mn_err verbs_fail_text(struct verbs_comm *comm, int link, enum mn_err code, const char *text)
{
    char who[VERBS_WHO];
    int none = MN_OK;

    if (!atomic_compare_exchange_strong(&comm->error, &none, (int)code))
        return (enum mn_err)none;
    mn_log(comm->config->hop && code == MN_ERR_PEER_DEAD ? MN_LOG_INFO : MN_LOG_WARN, __FILE__,
           __LINE__, "%s: %s", verbs_name(comm, link, who), text);
    return code;
}

enum mn_err verbs_fail(struct verbs_comm *comm, int link, enum mn_err code, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!verbs_error(comm))
        verbs_tell_peer(comm, code, text);
    return verbs_fail_text(comm, link, code, text);
}

enum mn_err verbs_refused(struct verbs_comm *comm, int link, const char *what, int error)
{
    struct verbs_recovery *r = &comm->links[link].recovery;

    if (r->asked)
        return MN_OK;
    if (!verbs_may_lose(comm, link))
        return verbs_fail(comm, link, MN_ERR_SYS, "posting %s: %s", what, strerror(error));
    if (!r->broken)
        snprintf(r->cause, sizeof r->cause, "posting %s: %s", what, strerror(error));
    r->broken = 1;
    comm->hurry = 1;
    verbs_set_away(comm, link, 1);
    return MN_OK;
}

static const char *status_name(enum ibv_wc_status status)
{
    static const struct {
        enum ibv_wc_status status;
        const char *name;
    } names[] = {
        {IBV_WC_LOC_LEN_ERR, "local length error"},
        {IBV_WC_LOC_QP_OP_ERR, "local queue pair error: is the port down?"},
        {IBV_WC_LOC_PROT_ERR, "local protection error: memory not registered"},
        {IBV_WC_WR_FLUSH_ERR, "flushed: the queue pair is in error"},
        {IBV_WC_REM_INV_REQ_ERR, "the peer's device calls a request invalid"},
        {IBV_WC_REM_ACCESS_ERR,
         "the peer's device refuses the access: memory not registered there"},
        {IBV_WC_REM_OP_ERR, "the peer's device failed"},
        {IBV_WC_RETRY_EXC_ERR,
         "no answer on the link; check the cable, the addresses and that the peer is up"},
        {IBV_WC_RNR_RETRY_EXC_ERR, "the peer had no receive request posted"},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status)
            return names[i].name;
    return "unexpected completion status";
}

/* Whether a link may be to blame; of the rest another link would make the same. */
static int is_of_link(enum ibv_wc_status status)
{
    return status != IBV_WC_LOC_LEN_ERR && status != IBV_WC_LOC_PROT_ERR &&
           status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_REM_INV_REQ_ERR;
}

void verbs_broken(struct verbs_comm *comm, int qp, const struct ibv_wc *wc)
{
    int link = comm->qps[qp].link;
    struct verbs_recovery *r = &comm->links[link].recovery;

    if (r->broken || r->asked || comm->broken_ms)
        return;
    if (comm->failover && is_of_link(wc->status)) {
        snprintf(r->cause, sizeof r->cause, "%s (completion status %d, vendor 0x%x)",
                 status_name(wc->status), (int)wc->status, wc->vendor_err);
        r->broken = 1;
        comm->hurry = 1;
        verbs_set_away(comm, link, 1);
        return;
    }
    comm->broken_ms = mn_now_ms();
    comm->broken_link = link;
    snprintf(comm->broken_text, sizeof comm->broken_text, "%s (completion status %d, vendor 0x%x)",
             status_name(wc->status), (int)wc->status, wc->vendor_err);
}

/* --- life ------------------------------------------------------------------------------------- */

static enum mn_err verbs_open(struct mn_conn *conn, struct mn_comm **out, struct mn_diag *diag)
{
    struct verbs_comm *comm = conn->setup;

    (void)diag;
    mn_chan_init(&comm->control, conn->lanes[0].fd);
    mn_socket_keep(comm->control.fd);
    comm->reopen = conn->reopen;
    conn->reopen = NULL;
    mn_reopen_keep(comm->reopen, conn->config);
    for (int i = 0; i < comm->n_links; i++)
        MN_INFO("%s %s: %s port %u gid %u (%s) to %s port %u gid %u (%s), %d queue pair(s)",
                comm->base.is_send ? "sending to" : "receiving from", comm->peer,
                comm->links[i].self.device, comm->links[i].self.port, comm->links[i].self.gid_index,
                comm->links[i].from, comm->links[i].peer.device, comm->links[i].peer.port,
                comm->links[i].peer.gid_index, comm->links[i].to, comm->links[i].n_qps);
    atomic_store(&comm->job_state, JOB_NONE);
    comm->alarm = atomic_load(&verbs_alarm) - 1; /* what came since the handshake's beginning */
    verbs_attend_join(comm);
    *out = &comm->base;
    return MN_OK;
}

static void tell_links(const struct verbs_comm *comm)
{
    struct verbs_failover sum = {0};
    char who[VERBS_WHO];

    for (int i = 0; i < comm->n_links; i++) {
        const struct verbs_failover *stats = &comm->links[i].recovery.stats;
        sum.lost += stats->lost;
        sum.back += stats->back;
        sum.stall_ms += stats->stall_ms;
        sum.replayed += stats->replayed;
    }
    if (sum.lost)
        MN_INFO("%s: links were given up %u times and came back %u times; %u ms without any, or "
                "with messages waiting for what they had done; %llu bytes were sent again",
                comm->peer, sum.lost, sum.back, sum.stall_ms, (unsigned long long)sum.replayed);
    for (int i = 0; i < comm->n_links; i++) {
        const struct verbs_failover *stats = &comm->links[i].recovery.stats;
        if (stats->lost)
            MN_INFO("%s: given up %u times, came back %u times; %u ms of standing still for it; "
                    "%llu bytes were sent again",
                    verbs_name(comm, i, who), stats->lost, stats->back, stats->stall_ms,
                    (unsigned long long)stats->replayed);
    }
}

static int has_port_down(const struct verbs_comm *comm)
{
    int down = comm->n_away;

    for (int i = 0; i < comm->n_links; i++)
        down |= atomic_load_explicit(&comm->links[i].watch.port_down, memory_order_relaxed) != 0;
    return down != 0;
}

static void verbs_close(struct mn_comm *base)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;

    verbs_attend_leave(comm);
    verbs_say_bye(comm);
    mn_reopen_watch(comm->reopen, -1); /* it may be freed later, and another would lose the word */
    if (comm->stale)
        MN_INFO("%s: %llu completions of earlier requests were dropped", comm->peer,
                (unsigned long long)comm->stale);
    tell_links(comm);
    /* What the peer writes from here on goes nowhere; what a job works at, the peer cannot reach.
     */
    int running = JOB_RUNNING, later = has_port_down(comm);
    int busy = atomic_load(&comm->job_state) == JOB_RUNNING ? comm->job_link : -1;
    for (int i = 0; i < comm->n_links && (later || busy >= 0); i++)
        if (i != busy && !verbs_quiet(comm, i))
            verbs_destroy(comm, i);
    if (atomic_compare_exchange_strong(&comm->job_state, &running, JOB_ABANDONED))
        return;
    if (!later || verbs_free_later(comm))
        verbs_free(comm);
}

static enum mn_err reg(struct mn_comm *base, void *data, size_t size, int type, uint64_t offset,
                       int fd, void **mhandle)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    struct verbs_memory *memory;
    struct mn_diag diag;
    /* Reads of relaxed memory may pass the writes before them on AMD's GPUs: see verbs_flush.c. */
    int relaxed = comm->config->settings.relaxed_ordering &&
                  (type == NCCL_PTR_HOST || mn_gpu_hip.open(0, NULL) != MN_OK);
    /* What a relay passes on is of many; elsewhere a buffer that is sent and received, too, costs
     * one registration and not two. */
    int local = base->is_send && comm->config->hop;
    enum mn_err err = verbs_memory_get(comm->devices, data, size, type, local, fd, offset, relaxed,
                                       &memory, &diag);

    if (!err && type != NCCL_PTR_HOST && !base->is_send) {
        err = verbs_flush_prepare(comm, data, &diag);
        if (err)
            (void)verbs_memory_put(memory, NULL);
    }
    if (err)
        MN_WARN("peer %s: %s", comm->peer, diag.text);
    else
        *mhandle = memory;
    return err;
}

/* NCCL tries by address what it could not register as a DMA-BUF, whatever the properties say. */
static int takes(const struct mn_comm *base, int type, int bit)
{
    return type == NCCL_PTR_CUDA && ((const struct verbs_comm *)base)->config->pointers & bit;
}

static enum mn_err verbs_reg_mr(struct mn_comm *base, void *data, size_t size, int type,
                                void **mhandle)
{
    if (type != NCCL_PTR_HOST && !takes(base, type, NCCL_PTR_CUDA))
        return MN_ERR_UNSUPPORTED;
    return reg(base, data, size, type, 0, -1, mhandle);
}

static enum mn_err verbs_reg_dmabuf(struct mn_comm *base, void *data, size_t size, int type,
                                    uint64_t offset, int fd, void **mhandle)
{
    if (fd < 0)
        return MN_ERR_USAGE;
    if (!takes(base, type, NCCL_PTR_DMABUF))
        return MN_ERR_UNSUPPORTED;
    return reg(base, data, size, type, offset, fd, mhandle);
}

static enum mn_err verbs_dereg_mr(struct mn_comm *base, void *mhandle)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    struct mn_diag diag;
    enum mn_err err = mhandle ? verbs_memory_put(mhandle, &diag) : MN_OK;

    if (err)
        MN_WARN("peer %s: %s", comm->peer, diag.text);
    return err;
}

static enum mn_err call_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                              const int *tags, void **mhandles, struct mn_request **request)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;

    mn_attend_enter(&comm->attended);
    enum mn_err err = verbs_irecv(base, n, data, sizes, tags, mhandles, request);
    mn_attend_exit(&comm->attended);
    return err;
}

static enum mn_err call_flush(struct mn_comm *base, void *data, void *mhandle,
                              struct mn_request **request)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;

    mn_attend_enter(&comm->attended);
    enum mn_err err = verbs_flush(base, data, mhandle, request);
    mn_attend_exit(&comm->attended);
    return err;
}

static enum mn_err recv_test(struct verbs_comm *comm, struct mn_request *request, int *done,
                             int *sizes)
{
    if (verbs_is_flush(comm, request))
        return verbs_flush_test(comm, (struct verbs_flush *)request, done);
    return verbs_recv_test(comm, (struct verbs_group *)request, done, sizes);
}

static enum mn_err call_test(struct mn_request *request, int *done, int *sizes)
{
    struct verbs_comm *comm = (struct verbs_comm *)request->comm;

    if (comm->base.is_send)
        return verbs_send_test(comm, (struct verbs_send *)request, done, sizes);
    mn_attend_enter(&comm->attended);
    enum mn_err err = recv_test(comm, request, done, sizes);
    mn_attend_exit(&comm->attended);
    return err;
}

static void verbs_settle(const struct mn_config *config)
{
    verbs_work_settle(config);
}

static int verbs_settled(const struct mn_config *config)
{
    return !verbs_work_has(config);
}

static void verbs_quit(void)
{
    verbs_work_end();
    verbs_devices_quit();
}

const struct mn_transport mn_transport_verbs = {
    .name = "RDMA",
    .kind = MN_TRANSPORT_VERBS,
    .keeps_control = 1,
    .pointers = verbs_pointers,
    .offer = verbs_offer,
    .explain = verbs_explain,
    .begin = verbs_begin,
    .answer = verbs_answer,
    .peer = verbs_peer,
    .step = verbs_step,
    .cancel = verbs_cancel,
    .open = verbs_open,
    .close = verbs_close,
    .reg_mr = verbs_reg_mr,
    .dereg_mr = verbs_dereg_mr,
    .reg_dmabuf = verbs_reg_dmabuf,
    .isend = verbs_isend,
    .irecv = call_irecv,
    .flush = call_flush,
    .test = call_test,
    .descriptors = verbs_descriptors,
    .arm = verbs_arm,
    .settle = verbs_settle,
    .settled = verbs_settled,
    .quit = verbs_quit,
};
