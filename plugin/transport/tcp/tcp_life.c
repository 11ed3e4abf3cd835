/* A comm's beginning and end. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define LINGER_MAX 256
#define LINGER_MS  10000 /* at least; as long as a link may be silent */
#define CLOSE_MS                                                                                   \
    10000 /* most that closing waits for recovery; no longer than a link may be silent */
#define CLOSE_NAP 100000 /* ns */
#define VAIN_MS   60000
#define VAINS     16  /* peers that are remembered */
#define VAIN_WAIT 100 /* ms, of the next: the peer's kernel may acknowledge 40 ms later */

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

void tcp_tune(const struct tcp_comm *comm, const struct tcp_lane *lane)
{
    /* So that a part waits in the queue of the cable that will send it soonest. */
    int low = 512 << 10;

    mn_socket_tune(lane->fd, comm->silence_ms);
    if (!comm->base.is_send)
        tcp_ack_late(lane);
    if (comm->n_lanes > 1)
        (void)setsockopt(lane->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &low, sizeof low);
}

static void free_comm(struct tcp_comm *comm)
{
    if (!comm)
        return;
    tcp_failover_close(comm);
    for (int i = 0; comm->messages && i < TCP_WINDOW; i++)
        if (comm->messages[i].known && comm->messages[i].aside)
            free(comm->messages[i].into);
    free(comm->sends);
    free(comm->groups);
    free(comm->messages);
    free(comm->order);
    free(comm);
}

static int has_memory(const struct tcp_comm *comm)
{
    return comm->sends || (comm->groups && comm->messages && comm->order);
}

static struct tcp_comm *make(const struct mn_conn *conn)
{
    const struct mn_settings *s = &conn->config->settings;
    struct tcp_comm *comm = calloc(1, sizeof *comm + (size_t)conn->n_lanes * sizeof *comm->lanes);

    if (!comm)
        return NULL;
    if (conn->connector) {
        comm->sends = calloc(TCP_WINDOW, sizeof *comm->sends);
    } else {
        comm->groups = calloc(TCP_GROUPS, sizeof *comm->groups);
        comm->messages = calloc(TCP_WINDOW, sizeof *comm->messages);
        comm->order = malloc(TCP_ORDER);
        comm->ahead = conn->config->hop ? 2 * TCP_FRAME_SIZE + MN_HEAD_SIZE : TCP_FRAME_SIZE;
        comm->polled_max = conn->config->unpolled ? 0 : polled_max();
    }
    comm->base = (struct mn_comm){.ops = &mn_transport_tcp, .is_send = conn->connector};
    comm->config = conn->config;
    comm->silence_ms = s->silence_ms;
    comm->chunk = s->chunk_bytes < TCP_STRIPE_MIN ? TCP_STRIPE_MIN : s->chunk_bytes;
    comm->first = comm->lanes;
    for (int i = 0; i < conn->n_lanes; i++) {
        name_lane(conn, i, &comm->lanes[i]);
        comm->n_lanes += !conn->lanes[i].control;
    }
    comm->n_all = conn->n_lanes;
    mn_strlcpy(comm->peer, conn->peer_text, sizeof comm->peer);
    return comm;
}

enum mn_err tcp_open(struct mn_conn *conn, struct mn_comm **out, struct mn_diag *diag)
{
    struct tcp_comm *comm = make(conn);
    enum mn_err err = MN_OK;

    if (!comm || !has_memory(comm) || tcp_failover_open(comm, conn))
        err = mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection to %s", conn->peer_text);
    for (int i = 0; !err && i < comm->n_all; i++)
        tcp_tune(comm, &comm->lanes[i]);
    if (!err && conn->connector && conn->config->pushes)
        err = tcp_push(comm, diag);
    if (err) {
        free_comm(comm);
        return err;
    }
    /* Who sleeps looks himself now and then, as one does that has a thread. */
    if (comm->failover && !comm->config->hop && !comm->push)
        tcp_attend_join(comm);
    *out = &comm->base;
    return MN_OK;
}

enum mn_err tcp_attend(struct tcp_comm *comm)
{
    enum mn_err err = comm->base.is_send ? tcp_send_arm(comm) : MN_OK;

    comm->failover->stands_in = 1;
    if (!err)
        err = tcp_control(comm);
    if (!err)
        err = tcp_look(comm);
    comm->failover->stands_in = 0;
    return err;
}

int tcp_is_owing(const struct tcp_comm *comm)
{
    const struct tcp_failover *f = comm->failover;
    int under_way = 0;

    if (!f || !comm->eager_bytes || atomic_load(&comm->error))
        return 0;
    for (int i = 0; i < comm->n_lanes; i++)
        under_way |= comm->lanes[i].tx != NULL;
    return comm->n_todo || f->n_waiting || f->n_broken || under_way || !comm->first;
}

/* To a sender that is there: whose control sockets are closed has closed all. */
static int has_to_say(const struct tcp_comm *comm)
{
    const struct tcp_failover *f = comm->failover;

    if (tcp_peer_has_closed(comm))
        return 0;
    for (int i = comm->n_lanes; i < comm->n_all; i++) {
        const struct tcp_lane *control = &comm->lanes[i];
        if (control->broken || (control->state == TCP_UP && f->links[control->way].well))
            return 0;
    }
    return comm->seq_landed || comm->ack_due;
}

/* Sender: its owner was told that they are done, and asks no more. Receiver: no socket is left to
 * say on what has landed. A relay has others to serve, and of what went through it the ends know.
 */
static int has_to_do(const struct tcp_comm *comm)
{
    if (atomic_load(&comm->error))
        return 0;
    if (comm->config->hop)
        return comm->base.is_send && tcp_is_owing(comm);
    if (comm->base.is_send)
        return comm->eager_bytes && tcp_delivery(comm) == TCP_UNDER_WAY;
    return has_to_say(comm);
}

/* Who was waited for in vain of late is not waited for as long by each of many connections to him.
 */
static pthread_mutex_t vain_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vain {
    char peer[sizeof((struct tcp_comm *)0)->peer];
    uint64_t ms;
} vains[VAINS];

/* Of that peer; else the place of who was waited for longest ago. */
static struct vain *vain_of(const char *peer)
{
    struct vain *oldest = vains;

    for (int i = 0; i < VAINS; i++) {
        if (vains[i].ms && !strcmp(vains[i].peer, peer))
            return &vains[i];
        if (vains[i].ms < oldest->ms)
            oldest = &vains[i];
    }
    return oldest;
}

static int was_in_vain(const struct tcp_comm *comm, uint64_t now)
{
    pthread_mutex_lock(&vain_lock);
    const struct vain *v = vain_of(comm->peer);
    int was = v->ms && now - v->ms < VAIN_MS && !strcmp(v->peer, comm->peer);
    pthread_mutex_unlock(&vain_lock);
    return was;
}

static void is_in_vain(const struct tcp_comm *comm)
{
    pthread_mutex_lock(&vain_lock);
    struct vain *v = vain_of(comm->peer);
    mn_strlcpy(v->peer, comm->peer, sizeof v->peer);
    v->ms = mn_now_ms();
    pthread_mutex_unlock(&vain_lock);
}

/* What recovery has left to do, for so long at most. */
static void finish_recovery(struct tcp_comm *comm)
{
    unsigned bound = comm->silence_ms < CLOSE_MS ? comm->silence_ms : CLOSE_MS;
    uint64_t began = mn_now_ms();
    enum mn_err err = MN_OK;

    if (was_in_vain(comm, began) && bound > VAIN_WAIT)
        bound = VAIN_WAIT;
    /* Of the peer's end nobody is told any more. Asked once a turn: when the peer closes just then,
     * what has been delivered looks as if it had not. */
    for (;;) {
        if (err || !tcp_any_left(comm) || !has_to_do(comm))
            return;
        if (mn_now_ms() - began >= bound)
            break;
        err = tcp_attend(comm);
        if (!err && has_to_do(comm))
            nanosleep(&(struct timespec){0, CLOSE_NAP}, NULL);
    }
    is_in_vain(comm);
    if (comm->base.is_send)
        MN_WARN("send to peer %s: closed while a link is out, after waiting %u ms for the peer's "
                "process: up to %u bytes of small messages that were done may not arrive",
                comm->peer, bound, comm->eager_bytes);
    else
        MN_WARN("receive from peer %s: closed while all links are out, after waiting %u ms for "
                "one: the sender may not hear that all has been received",
                comm->peer, bound);
}

void tcp_close(struct mn_comm *base)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    const struct tcp_lane *kept = NULL;

    mn_attend_leave(&comm->attended);
    if (comm->failover)
        finish_recovery(comm);
    if (base->is_send)
        kept = tcp_linger(comm) ? comm->first : NULL;
    else
        tcp_recv_flush_acks(comm);
    if (!base->is_send && comm->failover)
        tcp_say_landed(comm);
    for (int i = 0; i < comm->n_all; i++)
        if (&comm->lanes[i] != kept && comm->lanes[i].fd >= 0)
            close(comm->lanes[i].fd);
    free_comm(comm);
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

    if (!comm->eager_bytes || atomic_load(&comm->error) || !comm->first || comm->first->off)
        return 0;
    pthread_mutex_lock(&linger_lock);
    if (n_lingering < LINGER_MAX) {
        lingering[n_lingering].fd = comm->first->fd;
        lingering[n_lingering++].deadline_ms =
            mn_now_ms() + (comm->silence_ms > LINGER_MS ? comm->silence_ms : LINGER_MS);
        shutdown(comm->first->fd, SHUT_WR);
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
