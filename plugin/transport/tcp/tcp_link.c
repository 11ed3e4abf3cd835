/* Which sockets and links are of use: looked at now and then, while something is waited for. */
#include <errno.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define LOOK_MS    50
#define GRACE_MS   100 /* a process that ends closes its sockets one after another */
#define FLAP_HOLDS 30  /* a link that goes again within so many times hold_ms flaps */
#define HOLD_MOST  32  /* times its least */
#define SLOW_PART  4   /* of what it should carry beside another link */
#define SLOW_LOOKS 20
#define CLOSED     7 /* TCP_CLOSE of netinet/tcp.h, which does not go together with linux/tcp.h */

struct view {
    int up, data;           /* sockets that can be used; those for data */
    int carrier, busy;      /* busy: no lane has nothing to send */
    uint64_t silent, heard; /* ms for which data was not answered; since the last answer of all */
    uint64_t rate;          /* bytes a second */
};

/* --- sockets that fail ------------------------------------------------------------------------ */

enum mn_err tcp_last_link(struct tcp_comm *comm, const struct tcp_lane *lane, int error,
                          const char *doing)
{
    return tcp_fail_errno(comm, lane, error, doing);
}

static void mark(struct tcp_comm *comm, struct tcp_lane *lane, int error, const char *doing)
{
    lane->broken = (uint16_t)error;
    lane->doing = doing;
    lane->broken_ms = mn_now_ms();
    lane->off = 1;
    comm->failover->n_broken++;
}

enum mn_err tcp_broken(struct tcp_comm *comm, struct tcp_lane *lane, int error, const char *doing)
{
    if (!comm->failover)
        return tcp_fail_errno(comm, lane, error, doing);
    if (!lane->off)
        mark(comm, lane, error, doing);
    return MN_OK;
}

void tcp_shut(struct tcp_comm *comm, struct tcp_lane *lane, enum tcp_state state, int by_reset)
{
    if (lane->fd >= 0 && by_reset)
        mn_socket_reset(lane->fd);
    else if (lane->fd >= 0)
        close(lane->fd);
    comm->base.wakes_changed += lane->fd >= 0;
    comm->failover->n_broken -= lane->broken != 0;
    comm->silent -= lane->outage.told_ms != 0;
    lane->outage.told_ms = 0;
    lane->fd = -1;
    lane->broken = lane->slow = 0;
    lane->state = (uint8_t)state;
    lane->off = 1;
    lane->tx = NULL;
    lane->tx_left = lane->tx_header_left = lane->tx_front_left = 0;
}

void tcp_lane_is_up(struct tcp_comm *comm, struct tcp_lane *lane, int fd, uint64_t attempt)
{
    struct tcp_failover *f = comm->failover;

    lane->fd = fd;
    lane->attempt = attempt;
    lane->state = TCP_UP;
    lane->off = lane->ended = lane->asked = 0;
    lane->log_head = lane->log_tail = 0;
    lane->log_base = lane->pos = 0;
    lane->frames = lane->told_frames = 0;
    lane->stage_at = lane->stage_len = 0;
    lane->acked_ms = f->links[lane->way].up_ms = mn_now_ms();
    tcp_tune(comm, lane);
    comm->base.wakes_changed++;
    if (lane >= comm->lanes + comm->n_lanes)
        tcp_attend_watch(comm, lane);
    if (lane >= comm->lanes + comm->n_lanes && !f->control)
        tcp_choose_control(comm);
    tcp_moved(comm);
}

static void choose_first(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;

    comm->first = NULL;
    for (int i = 0; i < comm->n_lanes; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (lane->off || (comm->first && !f->links[lane->way].well))
            continue;
        comm->first = lane;
        if (f->links[lane->way].well)
            break;
    }
    comm->back_at = 0;
    f->first_turn++;
}

static void begin_gone(struct tcp_comm *comm, struct tcp_link *link, const char *cause,
                       uint64_t now)
{
    const struct tcp_failover *f = comm->failover;

    /* One that had come back goes before all are. */
    int again = link->gone && link->up_ms > link->fell_ms;
    int soon = link->back_ms && now - link->back_ms < (uint64_t)FLAP_HOLDS * link->hold_ms;

    link->fell_ms = now;
    if (!link->gone || again)
        link->hold_ms = again || soon ? link->hold_ms * 2 : f->hold_ms;
    if (link->hold_ms > f->hold_ms * HOLD_MOST)
        link->hold_ms = f->hold_ms * HOLD_MOST;
    if (link->gone)
        return;
    link->gone = 1;
    link->told = 0;
    link->again = 0;
    link->gone_ms = link->stall_ms = now;
    mn_strlcpy(link->cause, cause, sizeof link->cause);
}

void tcp_give_up(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t now, const char *cause)
{
    struct tcp_failover *f = comm->failover;
    struct tcp_link *link = &f->links[lane->way];
    uint64_t since = lane->broken ? lane->broken_ms : lane->acked_ms;

    begin_gone(comm, link, cause, now);
    if (lane->log && lane->log_head != lane->log_tail && since < link->stall_ms)
        link->stall_ms = since;
    lane->dialled = 0;
    if (lane >= comm->lanes + comm->n_lanes) {
        tcp_shut(comm, lane, TCP_DOWN, 1);
        if (f->control == lane)
            tcp_choose_control(comm);
        return;
    }
    lane->unsent = lane->tx ? lane->tx_header_left + lane->tx_left : 0;
    tcp_shut(comm, lane, TCP_FENCED, 1);
    f->n_waiting++;
    tcp_say(comm, lane, TCP_SAY_SYNC);
    /* Until the next look: what the receiver asked for is not said over the link that is silent. */
    link->well = 0;
    if (f->control && f->control->way == lane->way)
        tcp_choose_control(comm);
    if (comm->first == lane)
        choose_first(comm);
}

/* The receiver has only a request; its control sockets are its own. */
static void let_go(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t now, const char *cause)
{
    if (comm->base.is_send) {
        tcp_give_up(comm, lane, now, cause);
    } else if (lane >= comm->lanes + comm->n_lanes) {
        /* A word may have been said on it though the present one is another, where the sender was
         * heard since. */
        tcp_shut(comm, lane, TCP_DOWN, 1);
        tcp_choose_control(comm);
    } else if (!lane->asked) {
        struct tcp_link *link = &comm->failover->links[lane->way];
        if (!link->gone)
            mn_strlcpy(link->cause, cause, sizeof link->cause);
        lane->asked = 1;
        tcp_say(comm, lane, TCP_SAY_REQUEST);
    }
}

static void find_broken(struct tcp_comm *comm, struct tcp_lane *lane)
{
    uint8_t byte;

    /* What was read of it waits for its receive: only behind that is its end. */
    if (lane->rx_parked == 2)
        return;
    ssize_t n = recv(lane->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0)
        mark(comm, lane, ECONNRESET, "looking at it");
    else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        mark(comm, lane, errno, "looking at it");
}

/* Nothing comes any more, and what has come is not read: it waits for a message's beginning, which
 * another socket has, or for its receive. The kernel keeps its error behind it. */
static int is_stuck(const struct tcp_lane *lane)
{
    struct tcp_info info;

    return lane->rx_parked && tcp_read_info(lane, &info) && info.tcpi_state == CLOSED;
}

int tcp_any_left(struct tcp_comm *comm)
{
    int left = 0;

    for (int i = 0; i < comm->n_all; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (lane->state == TCP_UP && !lane->broken)
            find_broken(comm, lane);
        left |= lane->state == TCP_UP && !lane->broken;
    }
    return left;
}

/* All are broken: the peer's process has ended, or no link is left. Some are: they are given up,
 * where there is another way, unless that is about to go, too. */
static enum mn_err judge(struct tcp_comm *comm, uint64_t now)
{
    struct tcp_failover *f = comm->failover;
    struct tcp_lane *worst = NULL;
    int left = 0, well = 0;

    for (int i = 0; i < comm->n_all; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (lane->state != TCP_UP)
            continue;
        if (!lane->broken)
            find_broken(comm, lane);
        left += !lane->broken && !(lane->rx_parked == 1 && is_stuck(lane));
        well |= !lane->broken && f->links[lane->way].well;
        if (lane->broken && (!worst || worst->broken == ETIMEDOUT))
            worst = lane;
    }
    if (worst && !left)
        return f->stands_in ? MN_OK : tcp_last_link(comm, worst, worst->broken, worst->doing);
    for (int i = 0; i < comm->n_all; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        char cause[96];
        if (!lane->broken || now - lane->broken_ms < GRACE_MS || !well)
            continue;
        snprintf(cause, sizeof cause, "a socket broke (%s: %s)", lane->doing,
                 strerror(lane->broken));
        let_go(comm, lane, now, cause);
    }
    return MN_OK;
}

/* --- links ------------------------------------------------------------------------------------ */

int tcp_is_last(const struct tcp_comm *comm, const struct tcp_lane *lane)
{
    const struct tcp_failover *f = comm->failover;

    for (int i = 0; f && i < f->n_links; i++)
        if (i != lane->way && f->links[i].well)
            return 0;
    return 1;
}

/* Needs no right, and no lock of the kernel's that others may hold for long. */
static int has_carrier(const struct tcp_link *link, int fd)
{
    struct ifreq request = {.ifr_flags = 0};

    if (!link->name[0] || fd < 0)
        return 1;
    mn_strlcpy(request.ifr_name, link->name, sizeof request.ifr_name);
    if (ioctl(fd, SIOCGIFFLAGS, &request))
        return errno != ENODEV;
    return (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

int tcp_has_carrier(const struct tcp_comm *comm, const struct tcp_lane *lane)
{
    return has_carrier(&comm->failover->links[lane->way], lane->fd);
}

static void look_at_lane(const struct tcp_comm *comm, struct tcp_lane *lane, struct view *view,
                         uint64_t now)
{
    int data = lane < comm->lanes + comm->n_lanes;
    uint64_t silent = 0;
    struct tcp_info info;

    if (!tcp_read_info(lane, &info))
        return;
    if (!info.tcpi_unacked || info.tcpi_bytes_acked != lane->acked_bytes)
        lane->acked_ms = now;
    lane->acked_bytes = info.tcpi_bytes_acked;
    if (info.tcpi_unacked)
        silent = now - lane->acked_ms < info.tcpi_last_ack_recv ? now - lane->acked_ms
                                                                : info.tcpi_last_ack_recv;
    else if (info.tcpi_probes >= 2)
        silent = info.tcpi_last_ack_recv;
    view->silent = silent > view->silent ? silent : view->silent;
    view->heard = info.tcpi_last_ack_recv < view->heard ? info.tcpi_last_ack_recv : view->heard;
    view->up++;
    view->data += data;
    if (!data)
        return;
    view->busy &= info.tcpi_unacked && !info.tcpi_delivery_rate_app_limited;
    view->rate += info.tcpi_delivery_rate;
}

static void look_at_links(struct tcp_comm *comm, struct view *views, uint64_t now)
{
    struct tcp_failover *f = comm->failover;
    int fd = -1;

    for (int i = 0; i < f->n_links; i++)
        views[i] = (struct view){.heard = UINT64_MAX, .busy = 1};
    for (int i = 0; i < comm->n_all; i++) {
        look_at_lane(comm, &comm->lanes[i], &views[comm->lanes[i].way], now);
        fd = comm->lanes[i].fd >= 0 ? comm->lanes[i].fd : fd;
    }
    for (int i = 0; i < f->n_links; i++) {
        struct tcp_link *link = &f->links[i];
        struct view *view = &views[i];
        view->carrier = has_carrier(link, fd);
        link->bad_ms = view->carrier ? link->bad_ms : now;
        link->well = view->up && view->carrier && view->silent < f->bound_ms / 2 &&
                     view->heard <= f->heard_ms;
    }
}

static void give_up_link(struct tcp_comm *comm, int link, const struct view *view, uint64_t now)
{
    char cause[96];

    if (view->carrier)
        snprintf(cause, sizeof cause, "no answer for %.1f s", (double)view->silent / 1000);
    else
        snprintf(cause, sizeof cause, "its carrier is lost");
    for (int i = comm->n_all - 1; i >= 0; i--)
        if (comm->lanes[i].way == link && comm->lanes[i].state == TCP_UP)
            let_go(comm, &comm->lanes[i], now, cause);
}

/* Twice in a row a look may catch a link between two bursts; for a second it does not. */
static void look_for_slow(struct tcp_comm *comm, const struct view *views)
{
    struct tcp_failover *f = comm->failover;
    char who[TCP_WHO];
    int best = -1;

    for (int i = 0; i < f->n_links; i++)
        if (views[i].data && views[i].busy && f->links[i].weight &&
            (best < 0 ||
             views[i].rate / f->links[i].weight > views[best].rate / f->links[best].weight))
            best = i;
    for (int i = 0; i < f->n_links && best >= 0; i++) {
        struct tcp_link *link = &f->links[i];
        uint64_t fair = views[best].rate / f->links[best].weight * link->weight;
        int slow = i != best && views[i].data && views[i].busy && views[i].rate * SLOW_PART < fair;
        link->slow_looks = slow ? link->slow_looks + 1 : 0;
        if (link->slow_looks < SLOW_LOOKS || link->slow_told)
            continue;
        link->slow_told = 1;
        MN_WARN("%s: slow: it takes %.1f MB/s, where %s takes %.1f; it gets no more than that; is "
                "its speed as agreed, and does it lose packets?",
                tcp_name(comm, &comm->lanes[link->lane], who), (double)views[i].rate / 1e6,
                f->links[best].name, (double)views[best].rate / 1e6);
    }
}

/* --- the way back ----------------------------------------------------------------------------- */

static enum mn_err come_back(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t now)
{
    struct tcp_link *link = &comm->failover->links[lane->way];
    uint64_t since = link->bad_ms > link->fell_ms ? link->bad_ms : link->fell_ms;
    int control = lane >= comm->lanes + comm->n_lanes;
    uint64_t attempt = 0;

    if (!comm->base.is_send)
        return tcp_take_back(comm, lane);
    if (lane->state != TCP_DOWN || now - since < link->hold_ms)
        return MN_OK;
    if (!lane->dialled)
        lane->dialled = mn_reopen_lost(lane->reopen) != 0;
    int fd = mn_reopen_take_attempt(lane->reopen, &attempt);
    if (fd < 0)
        return MN_OK;
    tcp_lane_is_up(comm, lane, fd, attempt);
    if (!control && !comm->first)
        choose_first(comm);
    if (!control)
        tcp_say(comm, lane, TCP_SAY_JOIN);
    tcp_tell_back(comm, link, now);
    return MN_OK;
}

static int is_whole(const struct tcp_comm *comm, const struct tcp_link *link, enum tcp_state than)
{
    for (int i = 0; i < comm->n_all; i++)
        if (&comm->failover->links[comm->lanes[i].way] == link &&
            (than == TCP_UP ? comm->lanes[i].off : comm->lanes[i].state == than))
            return 0;
    return 1;
}

void tcp_tell_gone(struct tcp_comm *comm, struct tcp_link *link, uint64_t now)
{
    char who[TCP_WHO];

    if (!link->gone || link->told || !is_whole(comm, link, TCP_FENCED))
        return;
    link->told = 1;
    link->sum.gone++;
    link->sum.stall_ms += comm->base.is_send ? now - link->stall_ms : 0;
    link->sum.again += link->again;
    if (comm->base.is_send)
        MN_WARN("%s: out: %s; the connection goes on over other sockets after %llu ms, %llu bytes "
                "are sent again",
                tcp_name(comm, &comm->lanes[link->lane], who), link->cause,
                (unsigned long long)(now - link->stall_ms), (unsigned long long)link->again);
    else
        MN_WARN("%s: out: %s; the connection goes on over other sockets",
                tcp_name(comm, &comm->lanes[link->lane], who), link->cause);
}

void tcp_tell_back(struct tcp_comm *comm, struct tcp_link *link, uint64_t now)
{
    char who[TCP_WHO];

    if (!link->gone || !is_whole(comm, link, TCP_UP))
        return;
    link->sum.back++;
    link->gone = link->told = 0;
    link->cause[0] = 0;
    link->back_ms = now;
    MN_WARN("%s: is back after %.1f s, and is used again",
            tcp_name(comm, &comm->lanes[link->lane], who), (double)(now - link->gone_ms) / 1000);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* The links are dark: what was given up does not come back, what is left carries no data. A peer
 * whose host answers, and whose process has not yet answered SYNC, is slow. */
static enum mn_err look_for_dark(struct tcp_comm *comm, uint64_t now)
{
    struct tcp_failover *f = comm->failover;

    if (f->n_waiting && f->control && !f->control->off && f->links[f->control->way].well) {
        f->dark_ms = 0;
        return MN_OK;
    }
    for (int i = 0; i < comm->n_lanes; i++)
        if (!comm->lanes[i].off && !is_stuck(&comm->lanes[i])) {
            f->dark_ms = 0;
            return MN_OK;
        }
    f->dark_ms = f->dark_ms ? f->dark_ms : now;
    return now - f->dark_ms > comm->silence_ms && !f->stands_in
               ? tcp_last_link(comm, &comm->lanes[0], ETIMEDOUT, "waiting for a link")
               : MN_OK;
}

enum mn_err tcp_links_look(struct tcp_comm *comm, uint64_t now)
{
    struct tcp_failover *f = comm->failover;
    struct view views[TCP_LINKS];
    enum mn_err err = f->n_broken ? judge(comm, now) : MN_OK;

    if (err || now - f->look_ms < LOOK_MS)
        return err;
    /* Who was stopped, or elsewhere, has not waited meanwhile. */
    if (f->dark_ms && f->look_ms && now - f->look_ms > MN_UNSEEN(comm->silence_ms))
        f->dark_ms += now - f->look_ms - MN_UNSEEN(comm->silence_ms);
    f->look_ms = now;
    look_at_links(comm, views, now);
    for (int i = 0; i < f->n_links; i++)
        if (views[i].up && (!views[i].carrier || views[i].silent >= f->bound_ms) &&
            !tcp_is_last(comm, &comm->lanes[f->links[i].lane]))
            give_up_link(comm, i, &views[i], now);
    for (int i = 0; i < f->n_links; i++)
        tcp_tell_gone(comm, &f->links[i], now);
    if (comm->base.is_send)
        look_for_slow(comm, views);
    for (int i = 0; i < comm->n_all && !err; i++)
        err = come_back(comm, &comm->lanes[i], now);
    return err ? err : look_for_dark(comm, now);
}
