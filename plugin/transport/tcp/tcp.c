#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define IDLE_CALLS   2048           /* empty calls between looks at the clock */
#define HEALTH_MS    1000           /* between looks at the sockets while nothing moves */
#define QUIET(bound) ((bound) / 12) /* an answer that is so late is told; keepalive's interval */

const char *tcp_name(const struct tcp_comm *comm, const struct tcp_lane *lane, char *who)
{
    snprintf(who, TCP_WHO, "%s peer %s, link %s (%s to %s)",
             comm->base.is_send ? "send to" : "receive from", comm->peer, lane->link, lane->from,
             lane->to);
    return who;
}

enum mn_err tcp_fail(struct tcp_comm *comm, const struct tcp_lane *lane, enum mn_err code,
                     const char *fmt, ...)
{
    char text[512];
    va_list args;
    int none = MN_OK;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (atomic_compare_exchange_strong(&comm->error, &none, (int)code)) {
        char who[TCP_WHO];
        /* Nobody would answer over what came back. */
        for (int i = 0; comm->failover && i < comm->n_all; i++)
            mn_reopen_fail(comm->lanes[i].reopen, 0, NULL, 0);
        mn_log(comm->config->hop && code == MN_ERR_PEER_DEAD ? MN_LOG_INFO : MN_LOG_WARN, __FILE__,
               __LINE__, "%s: %s", tcp_name(comm, lane, who), text);
        return code;
    }
    return (enum mn_err)none;
}

enum mn_err tcp_fail_errno(struct tcp_comm *comm, const struct tcp_lane *lane, int error,
                           const char *doing)
{
    switch (error) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
        return tcp_fail(comm, lane, MN_ERR_LINK_DEAD,
                        "link is silent: no answer from the peer's host within the bound of %u s "
                        "(%s: %s); check the cable and that the host is up",
                        comm->silence_ms / 1000, doing, strerror(error));
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
        return tcp_fail(comm, lane, MN_ERR_PEER_DEAD,
                        "peer is gone: its process ended or closed the connection (%s: %s)", doing,
                        strerror(error));
    default:
        return tcp_fail(comm, lane, MN_ERR_SYS, "%s: %s", doing, strerror(error));
    }
}

int tcp_read_info(const struct tcp_lane *lane, struct tcp_info *info)
{
    socklen_t len = sizeof *info, known = offsetof(struct tcp_info, tcpi_delivery_rate) + 8;

    /* A kernel, or who stands in for one, may know less of it. */
    return !lane->ended && !lane->off && !getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, info, &len) &&
           len >= known;
}

/* Data is not acknowledged, or probes of keepalive or of a closed window are not answered. */
static void look_for_silence(struct tcp_comm *comm, struct tcp_lane *lane,
                             const struct tcp_info *info, uint64_t now)
{
    char who[TCP_WHO];

    if (lane->outage.told_ms || (!info->tcpi_unacked && info->tcpi_probes < 2) ||
        info->tcpi_last_ack_recv <= QUIET(comm->silence_ms) || !tcp_is_last(comm, lane))
        return;
    mn_outage_begin(&lane->outage, now - info->tcpi_last_ack_recv, now, comm->silence_ms,
                    tcp_name(comm, lane, who), "no answer");
    comm->silent++;
}

void tcp_heard(struct tcp_comm *comm)
{
    uint64_t now = mn_now_ms();
    struct tcp_info info;
    char who[TCP_WHO];

    for (int i = 0; i < comm->n_lanes; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (!lane->outage.told_ms || !tcp_read_info(lane, &info) ||
            now - info.tcpi_last_ack_recv <= lane->outage.told_ms)
            continue;
        mn_outage_end(&lane->outage, now, tcp_name(comm, lane, who));
        comm->silent--;
    }
}

/* A sender that cannot go on: is the peer's host silent, or only its process slow? A closed window
 * that is answered is slow; TCP_USER_TIMEOUT would kill it all the same (Linux tcp_probe_timer), so
 * it is off while that lasts, and unanswered probes are counted here instead. */
static enum mn_err look_at(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t now)
{
    struct tcp_info info;
    unsigned timeout = 0;

    if (!tcp_read_info(lane, &info))
        return MN_OK;
    look_for_silence(comm, lane, &info, now);
    if (!comm->base.is_send)
        return MN_OK;
    int closed_window = info.tcpi_unacked == 0 && info.tcpi_notsent_bytes > 0;
    if (closed_window && !lane->slow) {
        lane->slow = 1;
        (void)setsockopt(lane->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    } else if (!closed_window && lane->slow) {
        lane->slow = 0;
        mn_socket_tune(lane->fd, comm->silence_ms);
    }
    if (lane->slow && info.tcpi_probes >= 2 && info.tcpi_last_ack_recv > comm->silence_ms)
        return tcp_broken(comm, lane, ETIMEDOUT, "waiting for room");
    if (!comm->silent && now - comm->stuck_ms > comm->silence_ms &&
        now - comm->told_ms > comm->silence_ms) {
        comm->told_ms = now;
        MN_WARN("send to peer %s, link %s: nothing taken for %llu s; its host answers, so its "
                "process is slow or stopped, not dead; still waiting",
                comm->peer, lane->link, (unsigned long long)(now - comm->stuck_ms) / 1000);
    }
    return MN_OK;
}

enum mn_err tcp_idle(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;
    int hurry = f && (f->n_broken || f->n_waiting || f->n_due);
    enum mn_err err = MN_OK;

    comm->idle++;
    if (f && (++f->calls % TCP_CONTROL_CALLS == 0 || hurry))
        err = tcp_control(comm);
    if (err || !comm->idle) /* what was said has moved something */
        return err;
    return (comm->idle - 1) % IDLE_CALLS && !hurry ? MN_OK : tcp_look(comm);
}

enum mn_err tcp_look(struct tcp_comm *comm)
{
    uint64_t now = mn_now_ms();

    if (comm->idle <= 1)
        comm->stuck_ms = comm->health_ms = comm->told_ms = now;
    enum mn_err err = comm->failover ? tcp_links_look(comm, now) : MN_OK;
    if (err)
        return err;
    if (now - comm->health_ms < HEALTH_MS && now - comm->health_ms < QUIET(comm->silence_ms))
        return MN_OK;
    comm->health_ms = now;
    if (comm->silent)
        tcp_heard(comm);
    for (int i = 0; i < comm->n_lanes; i++) {
        err = look_at(comm, &comm->lanes[i], now);
        if (err)
            return err;
    }
    return MN_OK;
}

/* Nobody was offered this here: the peer alone asked for TCP. */
static enum mn_err refuse_gpu(const struct mn_comm *base)
{
    const struct tcp_comm *comm = (const struct tcp_comm *)base;

    if (comm->config->pointers != NCCL_PTR_HOST)
        MN_WARN("peer %s: GPU memory cannot be registered: the connection is TCP though RDMA was "
                "expected; give all nodes the same transport, or transport.gpu_direct: false",
                comm->peer);
    return MN_ERR_UNSUPPORTED;
}

/* TCP copies from and to any host memory: registration only has to say so. */
static enum mn_err tcp_reg_mr(struct mn_comm *base, void *data, size_t size, int type,
                              void **mhandle)
{
    static char host_memory;

    (void)data;
    (void)size;
    if (type != NCCL_PTR_HOST)
        return refuse_gpu(base);
    *mhandle = &host_memory;
    return MN_OK;
}

static enum mn_err tcp_reg_dmabuf(struct mn_comm *base, void *data, size_t size, int type,
                                  uint64_t offset, int fd, void **mhandle)
{
    (void)data, (void)size, (void)type, (void)offset, (void)fd, (void)mhandle;
    return refuse_gpu(base);
}

static enum mn_err tcp_dereg_mr(struct mn_comm *base, void *mhandle)
{
    (void)base;
    (void)mhandle;
    return MN_OK;
}

/* The copy by recv() is the flush. */
static enum mn_err tcp_flush(struct mn_comm *base, void *data, void *mhandle,
                             struct mn_request **request)
{
    (void)base, (void)data, (void)mhandle;
    *request = NULL;
    return MN_OK;
}

static enum mn_err leave(struct tcp_comm *comm, enum mn_err err)
{
    if (comm->base.is_send && comm->eager_bytes)
        mn_attend_soon(&comm->attended);
    mn_attend_exit(&comm->attended);
    return err;
}

static enum mn_err call_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                              struct mn_request **request)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    mn_attend_enter(&comm->attended);
    return leave(comm, tcp_isend(base, data, size, tag, mhandle, request));
}

static enum mn_err call_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                              const int *tags, void **mhandles, struct mn_request **request)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    mn_attend_enter(&comm->attended);
    return leave(comm, tcp_irecv(base, n, data, sizes, tags, mhandles, request));
}

static enum mn_err call_test(struct mn_request *request, int *done, int *sizes)
{
    struct tcp_comm *comm = (struct tcp_comm *)request->comm;

    mn_attend_enter(&comm->attended);
    return leave(comm, comm->base.is_send
                           ? tcp_send_test(comm, (struct tcp_send *)request, done, sizes)
                           : tcp_recv_test(comm, (struct tcp_group *)request, done, sizes));
}

static enum mn_err call_arm(struct mn_comm *base)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    mn_attend_enter(&comm->attended);
    return leave(comm, tcp_arm(base));
}

static void tcp_pointers(struct mn_config *config)
{
    config->pointers = NCCL_PTR_HOST;
    for (int d = 0; d < config->n_devices; d++)
        config->devices[d].pointers = NCCL_PTR_HOST;
}

/* The sockets of the handshake are all it needs. */
static void tcp_offer(struct mn_side *self)
{
    (void)self;
}

static enum mn_err tcp_begin(struct mn_conn *conn, struct mn_bytes *out, struct mn_diag *diag)
{
    (void)conn, (void)out, (void)diag;
    return MN_OK;
}

static enum mn_err tcp_peer(struct mn_conn *conn, struct mn_bytes *in, struct mn_diag *diag)
{
    (void)conn, (void)in;
    return mn_fail(diag, MN_ERR_PROTO, "SETUP frame for TCP");
}

static enum mn_err tcp_step(struct mn_conn *conn, struct mn_diag *diag)
{
    (void)conn, (void)diag;
    return MN_OK;
}

static void tcp_cancel(struct mn_conn *conn)
{
    (void)conn;
}

/* A socket that lingers stays until its peer has read all. */
static void tcp_settle(const struct mn_config *config)
{
    (void)config;
    tcp_linger_sweep();
}

static int tcp_settled(const struct mn_config *config)
{
    (void)config;
    return 1;
}

static void tcp_quit(void)
{
    tcp_linger_sweep();
}

const struct mn_transport mn_transport_tcp = {
    .name = "TCP",
    .kind = MN_TRANSPORT_TCP,
    .pointers = tcp_pointers,
    .offer = tcp_offer,
    .explain = tcp_offer,
    .begin = tcp_begin,
    .peer = tcp_peer,
    .step = tcp_step,
    .cancel = tcp_cancel,
    .open = tcp_open,
    .close = tcp_close,
    .reg_mr = tcp_reg_mr,
    .dereg_mr = tcp_dereg_mr,
    .reg_dmabuf = tcp_reg_dmabuf,
    .isend = call_isend,
    .irecv = call_irecv,
    .flush = tcp_flush,
    .test = call_test,
    .descriptors = tcp_descriptors,
    .arm = call_arm,
    .settle = tcp_settle,
    .settled = tcp_settled,
    .quit = tcp_quit,
};
