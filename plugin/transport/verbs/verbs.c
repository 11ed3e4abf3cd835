/* Life, failure and the control connection of the verbs transport. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/gpu.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define IDLE_CALLS   256  /* empty calls between looks at the clock */
#define LOOK_MS      50   /* between looks at the control connection while nothing moves */
#define SILENCE_MS   1000 /* between looks whether it is silent */
#define DRAIN_MS     50   /* what was sent before the peer closed has completed here by then */
#define HUNG_TIMES   4
#define BROKEN_MS    300 /* a peer's word about a broken queue pair is waited for this long */
#define QUIET(bound) ((bound) / 8) /* nothing has moved for so long: time to ask, and to tell */

enum { WHO = 640 };

/* What concerns the peer concerns all links to it: link -1. */
static const char *name(const struct verbs_comm *comm, int link, char who[WHO])
{
    size_t used = (size_t)snprintf(who, WHO, "%s peer %s",
                                   comm->base.is_send ? "send to" : "receive from", comm->peer);

    for (int i = 0; i < comm->n_links && used < WHO; i++) {
        const struct verbs_link *l = &comm->links[i];
        if (link < 0 || link == i)
            used += (size_t)snprintf(who + used, WHO - used, ", link %s (%s port %u, %s to %s)",
                                     l->local.netdev, l->self.device, l->self.port, l->from, l->to);
    }
    return who;
}

/* Takes the new control connection, if it was opened again. */
static void renew_control(struct verbs_comm *comm)
{
    int fd = mn_reopen_take(comm->reopen);
    char who[WHO];

    if (fd < 0)
        return;
    mn_chan_close(&comm->control);
    mn_chan_init(&comm->control, fd);
    mn_socket_keep(fd);
    if (!comm->peer_closed)
        comm->ended_ms = 0;
    MN_WARN("%s: the control connection was opened again", name(comm, -1, who));
}

/* --- failing ---------------------------------------------------------------------------------- */

static void tell_peer(struct verbs_comm *comm, enum mn_err code, const char *text)
{
    uint8_t frame[512];
    struct mn_bytes b = {frame, frame + sizeof frame, 0};
    size_t len = strlen(text);

    renew_control(comm);
    if (comm->control.fd < 0)
        return;
    mn_put(&b, (uint64_t)code, 1);
    mn_put_raw(&b, text, len < sizeof frame - 1 ? len : sizeof frame - 1);
    if (!mn_chan_put(&comm->control, MN_FRAME_FAILED, frame, (size_t)(b.at - frame)))
        (void)mn_chan_flush(&comm->control, NULL);
}

static enum mn_err fail_text(struct verbs_comm *comm, int link, enum mn_err code, const char *text)
{
    char who[WHO];
    int none = MN_OK;

    if (!atomic_compare_exchange_strong(&comm->error, &none, (int)code))
        return (enum mn_err)none;
    MN_WARN("%s: %s", name(comm, link, who), text);
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
        tell_peer(comm, code, text);
    return fail_text(comm, link, code, text);
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

void verbs_broken(struct verbs_comm *comm, int qp, const struct ibv_wc *wc)
{
    if (comm->broken_ms)
        return;
    comm->broken_ms = mn_now_ms();
    comm->broken_link = comm->qps[qp].link;
    snprintf(comm->broken_text, sizeof comm->broken_text, "%s (completion status %d, vendor 0x%x)",
             status_name(wc->status), (int)wc->status, wc->vendor_err);
}

/* --- when nothing moves ----------------------------------------------------------------------- */

static enum mn_err on_control(struct verbs_comm *comm, enum mn_frame type, uint8_t *payload,
                              size_t len)
{
    struct mn_bytes b = {payload, payload + len, 0};
    char text[480];

    if (type == MN_FRAME_BYE && len == 4) {
        comm->peer_closed = 1;
        if (comm->base.is_send)
            verbs_send_landed(comm, (uint32_t)mn_get(&b, 4));
        return MN_OK;
    }
    if (type != MN_FRAME_FAILED || len < 1)
        return verbs_fail(comm, -1, MN_ERR_PROTO, "control frame %d of %zu bytes", (int)type, len);
    uint64_t code = mn_get(&b, 1);
    size_t n = len - 1 < sizeof text - 1 ? len - 1 : sizeof text - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(payload[i + 1] < 0x20 || payload[i + 1] == 0x7f ? '?' : payload[i + 1]);
    text[n] = 0;
    char told[512];
    snprintf(told, sizeof told, "the peer gave up: %s", text);
    return fail_text(comm, comm->broken_link,
                     code == MN_ERR_TOO_LONG ? MN_ERR_TOO_LONG : MN_ERR_PEER_DEAD, told);
}

/* What else than the peer's end of it ends a control connection says nothing of the queue pairs:
 * they are asked at once. */
static void lose_control(struct verbs_comm *comm, const char *why)
{
    char who[WHO];

    mn_chan_close(&comm->control);
    MN_WARN("%s: the control connection is lost (%s); going on without it as long as the queue "
            "pairs work%s",
            name(comm, -1, who), why,
            mn_reopen_lost(comm->reopen) ? "; it is being opened again" : "");
    comm->in_doubt = 1;
}

/* What was on its way by the old one has arrived, or will not. */
static enum mn_err read_old_control(struct verbs_comm *comm)
{
    enum mn_err err = MN_OK;
    enum mn_frame type;
    uint8_t *payload;
    size_t len;

    while (!err && comm->control.fd >= 0 &&
           !mn_chan_get(&comm->control, &type, &payload, &len, NULL))
        err = on_control(comm, type, payload, len);
    return err;
}

/* Its cable may be out while others are not. The old one stays until there is a new one. */
static void look_for_silence(struct verbs_comm *comm, uint64_t now)
{
    if (!comm->base.is_send || comm->control.fd < 0 || now - comm->listened_ms < SILENCE_MS)
        return;
    comm->listened_ms = now;
    if (mn_socket_is_silent(comm->control.fd) && !comm->peer_closed)
        (void)mn_reopen_lost(comm->reopen);
}

static enum mn_err look_at_control(struct verbs_comm *comm, uint64_t now)
{
    struct mn_diag diag = {.text = ""};
    enum mn_frame type;
    uint8_t *payload;
    size_t len;

    if (mn_reopen_is_done(comm->reopen)) {
        enum mn_err err = read_old_control(comm);
        if (err)
            return err;
        renew_control(comm);
    }
    look_for_silence(comm, now);
    for (int i = 0; i < 4 && comm->control.fd >= 0 && !comm->ended_ms; i++) {
        enum mn_err err = mn_chan_get(&comm->control, &type, &payload, &len, &diag);
        if (!err)
            err = on_control(comm, type, payload, len);
        else if (err == MN_ERR_AGAIN)
            return MN_OK;
        else if (err == MN_ERR_PEER_DEAD || (comm->peer_closed && err != MN_ERR_PROTO))
            comm->ended_ms = now, err = MN_OK;
        else if (err == MN_ERR_PROTO)
            err = verbs_fail(comm, -1, err, "%s", diag.text);
        else
            lose_control(comm, diag.text), err = MN_OK;
        if (err)
            return err;
    }
    if (!comm->ended_ms || now - comm->ended_ms < DRAIN_MS)
        return MN_OK;
    if (comm->peer_closed)
        return verbs_fail(comm, -1, MN_ERR_CLOSED, "the peer has closed the connection");
    return verbs_fail(comm, -1, MN_ERR_PEER_DEAD,
                      "peer is gone: its process ended without closing the connection");
}

static void tell_outage(struct verbs_comm *comm, int i, uint64_t since, uint64_t now,
                        const char *what)
{
    struct verbs_link *link = &comm->links[i];
    char who[WHO];

    if (link->outage.told_ms)
        return;
    mn_outage_begin(&link->outage, since, now, comm->config->settings.rdma_silence_ms,
                    name(comm, i, who), what);
    comm->silent++;
}

static unsigned port_down(const struct verbs_link *link)
{
    return atomic_load_explicit(&link->watch.port_down, memory_order_relaxed);
}

/* While a port is down, completions are of what was done before. */
void verbs_heard(struct verbs_comm *comm, int i)
{
    struct verbs_link *link = &comm->links[i];
    char who[WHO];

    if (!link->outage.told_ms || port_down(link))
        return;
    mn_outage_end(&link->outage, mn_now_ms(), name(comm, i, who));
    comm->silent--;
}

/* Asks the peer's device for a sign of life: a write of no bytes, which it acknowledges. It fails
 * where the link is dead though the control connection, over another, is not. */
static enum mn_err probe(struct verbs_comm *comm, int q, uint64_t now)
{
    struct verbs_qp *qp = &comm->qps[q];
    struct verbs_link *link = &comm->links[qp->link];
    struct ibv_send_wr *bad,
        wr = {
            .wr_id = verbs_wr_pack(VERBS_PROBE, 0, 0, (unsigned)q, qp->posted + 1),
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {comm->peer_ring, link->peer_ring_rkey},
        };
    int error = ibv_post_send(qp->qp, &wr, &bad);

    if (error)
        return verbs_fail(comm, qp->link, MN_ERR_SYS, "posting a probe: %s", strerror(error));
    qp->posted++;
    qp->unsignaled = 0;
    qp->probed_ms = now;
    link->pending++;
    return MN_OK;
}

/* Since when an answer is due from a queue pair: to a probe, or to what else was sent; 0: nothing
 * is. */
static uint64_t answer_due(const struct verbs_comm *comm, const struct verbs_qp *qp)
{
    if (qp->probed_ms)
        return qp->probed_ms;
    if (comm->base.is_send ? qp->posted != qp->retired : qp->posted - qp->retired >= qp->depth)
        return comm->stuck_ms;
    return 0;
}

/* A device tries a write again and then says that it failed. One that says nothing at all for
 * several times as long will not any more. */
static enum mn_err look_at_writes(struct verbs_comm *comm, uint64_t now)
{
    unsigned silence = comm->config->settings.rdma_silence_ms;
    int stuck = comm->in_doubt || now - comm->stuck_ms > QUIET(silence);
    enum mn_err err = MN_OK;

    comm->in_doubt = 0;

    for (int q = 0; q < comm->n_qps && (stuck || comm->silent) && !comm->broken_ms && !err; q++) {
        struct verbs_qp *qp = &comm->qps[q];
        struct verbs_link *link = &comm->links[qp->link];
        uint64_t due = answer_due(comm, qp);
        if (port_down(link))
            continue; /* what is sent now only shortens the device's patience */
        if (!due && (stuck || link->outage.told_ms))
            err = probe(comm, q, now);
        else if (due && now - due > QUIET(silence))
            tell_outage(comm, qp->link, due, now, "no answer, though the port is up,");
        if (due && now - due > HUNG_TIMES * silence && link->outage.told_ms &&
            now - link->outage.told_ms > HUNG_TIMES * silence)
            err = verbs_fail(comm, qp->link, MN_ERR_LINK_DEAD,
                             "the device has completed none of %u writes for %u s",
                             qp->posted - qp->retired, HUNG_TIMES * silence / 1000);
    }
    return err;
}

static enum mn_err look_at_ports(struct verbs_comm *comm, uint64_t now)
{
    unsigned patience = comm->config->settings.rdma_silence_ms;

    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        int fatal = atomic_load_explicit(&link->watch.fatal, memory_order_relaxed);
        unsigned down = port_down(link), since = down ? (unsigned)now - down : 0;
        if (fatal)
            return verbs_fail(comm, i, MN_ERR_LINK_DEAD, "the device reports an error (event %d)",
                              fatal - 1);
        if (!down || since >= 1u << 31)
            continue;
        tell_outage(comm, i, now - since, now, "the port is down");
        /* Who begins to wait when it is long down waits as long; an outage before is no part of it.
         */
        if (since > patience && now - link->outage.told_ms > patience)
            return verbs_fail(comm, i, MN_ERR_LINK_DEAD,
                              "the port has been down for %u s; check the cable", since / 1000);
    }
    return MN_OK;
}

/* Over a link that was silent the peer's word comes late. */
static enum mn_err look_at_broken(struct verbs_comm *comm, uint64_t now)
{
    unsigned patience = BROKEN_MS, quiet = QUIET(comm->config->settings.rdma_silence_ms);

    if (!comm->broken_ms || comm->ended_ms)
        return MN_OK;
    if (comm->control.fd >= 0 && comm->broken_link >= 0 &&
        comm->links[comm->broken_link].outage.told_ms && quiet > patience)
        patience = quiet;
    if (now - comm->broken_ms <= patience)
        return MN_OK;
    return verbs_fail(comm, comm->broken_link, MN_ERR_LINK_DEAD, "%s%s", comm->broken_text,
                      comm->control.fd >= 0
                          ? ""
                          : "; the control connection was lost before: the peer's "
                            "process may have ended");
}

enum mn_err verbs_idle(struct verbs_comm *comm)
{
    if (++comm->idle % IDLE_CALLS && !comm->broken_ms)
        return MN_OK;
    uint64_t now = mn_now_ms();
    if (comm->idle <= IDLE_CALLS)
        comm->stuck_ms = now;
    if (now - comm->looked_ms < LOOK_MS && !comm->broken_ms)
        return MN_OK;
    comm->looked_ms = now;
    enum mn_err err = look_at_control(comm, now);
    if (!err)
        err = look_at_ports(comm, now);
    if (!err)
        err = look_at_writes(comm, now);
    return err ? err : look_at_broken(comm, now);
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
    *out = &comm->base;
    return MN_OK;
}

/* A receiver that closes no longer acknowledges what it has received: it says so instead. */
static void verbs_close(struct mn_comm *base)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    uint8_t landed[4];
    struct mn_bytes b = {landed, landed + sizeof landed, 0};

    renew_control(comm);
    mn_put(&b, comm->seq_landed, 4);
    if (comm->control.fd >= 0 && !verbs_error(comm) &&
        !mn_chan_put(&comm->control, MN_FRAME_BYE, landed, sizeof landed))
        (void)mn_chan_flush(&comm->control, NULL);
    if (comm->control.fd >= 0)
        mn_socket_last_words(comm->control.fd, comm->config->settings.rdma_silence_ms);
    if (comm->stale)
        MN_INFO("%s: %llu completions of earlier requests were dropped", comm->peer,
                (unsigned long long)comm->stale);
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
    enum mn_err err =
        verbs_memory_get(comm->devices, data, size, type, fd, offset, relaxed, &memory, &diag);

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

static enum mn_err verbs_test(struct mn_request *request, int *done, int *sizes)
{
    struct verbs_comm *comm = (struct verbs_comm *)request->comm;

    if (comm->base.is_send)
        return verbs_send_test(comm, (struct verbs_send *)request, done, sizes);
    if (verbs_is_flush(comm, request))
        return verbs_flush_test(comm, (struct verbs_flush *)request, done);
    return verbs_recv_test(comm, (struct verbs_group *)request, done, sizes);
}

static void verbs_settle(const struct mn_config *config)
{
    verbs_work_settle(config);
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
    .irecv = verbs_irecv,
    .flush = verbs_flush,
    .test = verbs_test,
    .settle = verbs_settle,
    .quit = verbs_quit,
};
