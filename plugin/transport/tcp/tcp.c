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
#include "plugin/transport/tcp/tcp.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define IDLE_CALLS   2048 /* empty calls between looks at the clock */
#define HEALTH_MS    1000 /* between looks at the sockets while nothing moves */
#define LINGER_MAX   256
#define LINGER_MS    10000          /* at least; as long as a link may be silent */
#define QUIET(bound) ((bound) / 12) /* an answer that is so late is told; keepalive's interval */

enum { WHO = 384 };

static const char *name(const struct tcp_comm *comm, const struct tcp_lane *lane, char who[WHO])
{
    snprintf(who, WHO, "%s peer %s, link %s (%s to %s)",
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
        char who[WHO];
        mn_log(comm->config->hop && code == MN_ERR_PEER_DEAD ? MN_LOG_INFO : MN_LOG_WARN, __FILE__,
               __LINE__, "%s: %s", name(comm, lane, who), text);
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

static int read_info(const struct tcp_lane *lane, struct tcp_info *info)
{
    socklen_t len = sizeof *info;

    return !lane->ended && !getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, info, &len);
}

/* Data is not acknowledged, or probes of keepalive or of a closed window are not answered. */
static void look_for_silence(struct tcp_comm *comm, struct tcp_lane *lane,
                             const struct tcp_info *info, uint64_t now)
{
    char who[WHO];

    if (lane->outage.told_ms || (!info->tcpi_unacked && info->tcpi_probes < 2) ||
        info->tcpi_last_ack_recv <= QUIET(comm->silence_ms))
        return;
    mn_outage_begin(&lane->outage, now - info->tcpi_last_ack_recv, now, comm->silence_ms,
                    name(comm, lane, who), "no answer");
    comm->silent++;
}

void tcp_heard(struct tcp_comm *comm)
{
    uint64_t now = mn_now_ms();
    struct tcp_info info;
    char who[WHO];

    for (int i = 0; i < comm->n_lanes; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (!lane->outage.told_ms || !read_info(lane, &info) ||
            now - info.tcpi_last_ack_recv <= lane->outage.told_ms)
            continue;
        mn_outage_end(&lane->outage, now, name(comm, lane, who));
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

    if (!read_info(lane, &info))
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
        return tcp_fail_errno(comm, lane, ETIMEDOUT, "waiting for room");
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
    return comm->idle++ % IDLE_CALLS ? MN_OK : tcp_look(comm);
}

enum mn_err tcp_look(struct tcp_comm *comm)
{
    uint64_t now = mn_now_ms();

    if (comm->idle <= 1)
        comm->stuck_ms = comm->health_ms = comm->told_ms = now;
    if (now - comm->health_ms < HEALTH_MS && now - comm->health_ms < QUIET(comm->silence_ms))
        return MN_OK;
    comm->health_ms = now;
    if (comm->silent)
        tcp_heard(comm);
    for (int i = 0; i < comm->n_lanes; i++) {
        enum mn_err err = look_at(comm, &comm->lanes[i], now);
        if (err)
            return err;
    }
    return MN_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

static void name_lane(const struct mn_conn *conn, int i, struct tcp_lane *lane)
{
    lane->fd = conn->lanes[i].fd;
    if (!conn->plan.n_pairs) {
        snprintf(lane->link, sizeof lane->link, "routed");
        snprintf(lane->from, sizeof lane->from, "%s", conn->config->node);
        snprintf(lane->to, sizeof lane->to, "%.63s", conn->peer_text);
        return;
    }
    const struct mn_pair *pair = &conn->plan.pairs[conn->lanes[i].pair];
    int ours = conn->connector;
    const struct mn_local *us = &conn->side[ours].locals[ours ? pair->connector : pair->acceptor];
    const struct mn_local *peer =
        &conn->side[!ours].locals[ours ? pair->acceptor : pair->connector];
    mn_strlcpy(lane->link, us->netdev, sizeof lane->link);
    mn_addr_format(&us->addr, lane->from, sizeof lane->from);
    mn_addr_format(&peer->addr, lane->to, sizeof lane->to);
}

/* A receiver never writes data, so TCP would acknowledge each small message with a packet of its
 * own, on the way of the next. The kernel leaves the mode after a pause: it is asked for again with
 * every acknowledgement frame. */
void tcp_ack_late(const struct tcp_lane *lane)
{
    int off = 0;
    (void)setsockopt(lane->fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
}

static uint32_t polled_max(void)
{
    static const char *const sizes[] = {"NCCL_LL128_BUFFSIZE", "NCCL_LL_BUFFSIZE"};
    uint32_t most = TCP_POLLED_MAX;

    for (int i = 0; i < 2; i++) {
        const char *text = getenv(sizes[i]);
        long long bytes = text ? strtoll(text, NULL, 0) : 0;
        if (bytes / TCP_STEPS > most)
            most = bytes / TCP_STEPS < UINT32_MAX ? (uint32_t)(bytes / TCP_STEPS) : UINT32_MAX;
    }
    return most;
}

static enum mn_err tcp_open(struct mn_conn *conn, struct mn_comm **out, struct mn_diag *diag)
{
    const struct mn_settings *s = &conn->config->settings;
    size_t lanes = (size_t)conn->n_lanes;
    struct tcp_comm *comm = calloc(1, sizeof *comm + lanes * sizeof(struct tcp_lane));

    if (comm && conn->connector) {
        comm->sends = calloc(TCP_WINDOW, sizeof *comm->sends);
    } else if (comm) {
        comm->groups = calloc(TCP_GROUPS, sizeof *comm->groups);
        comm->messages = calloc(TCP_WINDOW, sizeof *comm->messages);
        comm->order = malloc(TCP_ORDER);
        comm->ahead = conn->config->hop ? 2 * TCP_FRAME_SIZE + MN_HEAD_SIZE : TCP_FRAME_SIZE;
        comm->polled_max = conn->config->unpolled ? 0 : polled_max();
    }
    if (!comm || (!comm->sends && (!comm->groups || !comm->messages || !comm->order))) {
        if (comm) {
            free(comm->groups);
            free(comm->messages);
            free(comm->order);
        }
        free(comm);
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection to %s", conn->peer_text);
    }
    comm->base = (struct mn_comm){.ops = &mn_transport_tcp, .is_send = conn->connector};
    comm->config = conn->config;
    comm->silence_ms = s->silence_ms;
    comm->chunk = s->chunk_bytes < TCP_STRIPE_MIN ? TCP_STRIPE_MIN : s->chunk_bytes;
    comm->n_lanes = conn->n_lanes;
    mn_strlcpy(comm->peer, conn->peer_text, sizeof comm->peer);
    for (int i = 0; i < comm->n_lanes; i++) {
        name_lane(conn, i, &comm->lanes[i]);
        mn_socket_tune(comm->lanes[i].fd, s->silence_ms);
        if (!conn->connector)
            tcp_ack_late(&comm->lanes[i]);
        if (comm->n_lanes > 1) {
            /* So that a part waits in the queue of the cable that will send it soonest. */
            int low = 512 << 10;
            (void)setsockopt(comm->lanes[i].fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &low, sizeof low);
        }
    }
    if (conn->connector && conn->config->pushes) {
        enum mn_err err = tcp_push(comm, diag);
        if (err) {
            free(comm->sends);
            free(comm);
            return err;
        }
    }
    *out = &comm->base;
    return MN_OK;
}

static void tcp_close(struct mn_comm *base)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    int kept = 0;

    if (base->is_send)
        kept = tcp_linger(comm);
    else
        tcp_recv_flush_acks(comm);
    for (int i = kept; i < comm->n_lanes; i++)
        close(comm->lanes[i].fd);
    for (int i = 0; comm->messages && i < TCP_WINDOW; i++)
        if (comm->messages[i].known && comm->messages[i].aside)
            free(comm->messages[i].into);
    free(comm->sends);
    free(comm->groups);
    free(comm->messages);
    free(comm->order);
    free(comm);
    tcp_linger_sweep();
}

/* A socket closed while the peer still writes to it answers with a reset, which discards what is
 * queued towards the peer. Small sends reported done may be in that queue: the socket is then only
 * shut down here, and closed when the peer has closed its side. */
static pthread_mutex_t linger_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int fd;
    uint64_t deadline_ms;
} lingering[LINGER_MAX];
static int n_lingering;

int tcp_linger(struct tcp_comm *comm)
{
    int taken = 0;

    if (!comm->eager_bytes || atomic_load(&comm->error))
        return 0;
    pthread_mutex_lock(&linger_lock);
    if (n_lingering < LINGER_MAX) {
        lingering[n_lingering].fd = comm->lanes[0].fd;
        lingering[n_lingering++].deadline_ms =
            mn_now_ms() + (comm->silence_ms > LINGER_MS ? comm->silence_ms : LINGER_MS);
        shutdown(comm->lanes[0].fd, SHUT_WR);
        taken = 1;
    }
    pthread_mutex_unlock(&linger_lock);
    return taken;
}

void tcp_linger_sweep(void)
{
    uint8_t sink[256];

    pthread_mutex_lock(&linger_lock);
    for (int i = 0; i < n_lingering; i++) {
        ssize_t n;
        do {
            n = recv(lingering[i].fd, sink, sizeof sink, MSG_DONTWAIT);
        } while (n > 0);
        int waiting = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (waiting && mn_now_ms() < lingering[i].deadline_ms)
            continue;
        close(lingering[i].fd);
        lingering[i--] = lingering[--n_lingering];
    }
    pthread_mutex_unlock(&linger_lock);
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

static enum mn_err tcp_test(struct mn_request *request, int *done, int *sizes)
{
    struct tcp_comm *comm = (struct tcp_comm *)request->comm;

    if (comm->base.is_send)
        return tcp_send_test(comm, (struct tcp_send *)request, done, sizes);
    return tcp_recv_test(comm, (struct tcp_group *)request, done, sizes);
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

/* There is no thread; a socket that lingers stays until its peer has read all. */
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
    .isend = tcp_isend,
    .irecv = tcp_irecv,
    .flush = tcp_flush,
    .test = tcp_test,
    .descriptors = tcp_descriptors,
    .arm = tcp_arm,
    .settle = tcp_settle,
    .settled = tcp_settled,
    .quit = tcp_quit,
};
