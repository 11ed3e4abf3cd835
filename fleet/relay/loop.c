/* Turns: what is ready, then what is hot, then what has ended. Between two it spins for a moment
 * after something moved, naps while something has to be looked at that wakes nobody, and sleeps
 * else. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "fleet/relay/engine.h"
#include "topo/base/log.h"

#define EVENTS  64
#define RATE_MS 1000
#define NAP_US  100
#define LOOK_US 5 /* between looks at descriptors while it spins: dearer than all that is hot */

uint64_t relayd_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

enum mn_err relayd_watch(struct mn_relay *relay, int fd, unsigned events,
                         struct relayd_source *source, struct mn_diag *diag)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fd, &event) &&
        (errno != EEXIST || epoll_ctl(relay->epoll, EPOLL_CTL_MOD, fd, &event)))
        return mn_fail_errno(diag, "watching a descriptor");
    return MN_OK;
}

static void on_event(struct mn_relay *relay, struct relayd_source *source)
{
    switch (source->what) {
    case RELAYD_LISTENER:
        relayd_arrive(relay);
        break;
    case RELAYD_LOCAL:
        mn_relay_local_step(relay->local);
        break;
    case RELAYD_STOP:
        relay->stopping = 1;
        break;
    case RELAYD_LINE:
        relayd_line_step((struct relayd_line *)source);
        break;
    case RELAYD_HOP: /* is awake */
        break;
    }
}

/* --- now and then ----------------------------------------------------------------------------- */

static int has_unsent(const struct relayd_hop *hop)
{
    return !hop->is_in && hop->state != RELAYD_HOP_ENDED &&
           (hop->sending.n || hop->current || hop->share.queued);
}

/* Whether its pieces are in the last buffers of a trunk. */
static int keeps_the_last(const struct relayd_hop *hop)
{
    const struct relayd_buf *buf = hop->current ? hop->current : hop->sending.first;

    return hop->way && !buf->in->way && buf->in->busy == buf->in->run.count;
}

/* Whoever is sent to has posted, so has to take: a process that does not would keep buffers from
 * others, and is waited for for less when it keeps the last; one a look, which gives some back. */
static void look_whether_taken(struct relayd_hop *hop, int *one)
{
    struct mn_relay *relay = hop->relay;
    unsigned most = relay->config.settings.relay_silence_ms, less = most / MN_RELAY_KEEPS;
    uint64_t silent = relay->now_ms - hop->taken_ms;

    if (hop->failed)
        return;
    if (hop->state <= RELAYD_HOP_MAKING && relay->now_ms - hop->moved_us / 1000 >= most)
        relayd_hop_fail(hop, MN_GONE_RELAY, "no data connection with relay %s for %llu ms",
                        hop->line->peer,
                        (unsigned long long)(relay->now_ms - hop->moved_us / 1000));
    if (!hop->sending.n && !hop->current)
        return;
    less = less < MN_RELAY_KEEPS_MS ? MN_RELAY_KEEPS_MS : less;
    int keeps = silent < most && silent >= less && !*one && keeps_the_last(hop);
    if (silent < most && !keeps)
        return;
    *one |= keeps;
    relayd_hop_fail(hop, hop->way ? MN_GONE_PEER : MN_GONE_RELAY,
                    "%s %s has taken nothing for %llu ms%s", hop->way ? "a process of" : "relay",
                    hop->line->peer, (unsigned long long)silent,
                    keeps ? ", and no buffer is free for others" : "");
}

/* Silence wakes nobody: the transport looks when it is armed. Nor does a completion whose event was
 * lost: Linux' rxe up to 6.1 looks whether a queue is armed after it has let go of the queue's
 * lock. */
static void look_whether_silent(struct relayd_hop *hop)
{
    if (hop->state != RELAYD_HOP_ASLEEP || hop->relay->now_ms - hop->armed_ms < MN_SLEEP_MS)
        return;
    enum mn_err err = hop->comm->ops->arm(hop->comm);
    hop->armed_ms = hop->relay->now_ms;
    if (err == MN_ERR_AGAIN)
        relayd_hop_wake(hop);
    else if (err)
        relayd_hop_broken(hop, err);
}

static void rate(struct relayd_way *way, uint64_t now_ms)
{
    if (now_ms - way->rated_ms[0] < RATE_MS)
        return;
    way->rated_ms[1] = way->rated_ms[0];
    way->rated_bytes[1] = way->rated_bytes[0];
    way->rated_ms[0] = now_ms;
    way->rated_bytes[0] = way->bytes;
}

static void tick(struct mn_relay *relay)
{
    const struct mn_relay_plan *plan = relay->plan;

    if (plan->tick && plan->tick_ms && relay->now_ms - relay->told_ms >= plan->tick_ms) {
        relay->told_ms = relay->now_ms;
        plan->tick(plan->ctx, relay);
    }
    if (relay->now_ms - relay->ticked_ms < RELAYD_TICK_MS)
        return;
    relay->ticked_ms = relay->now_ms;
    if (relay->arrivals.n)
        relayd_arrive(relay);
    relayd_lines_tick(relay);
    for (struct relayd_way *way = relay->ways; way; way = way->next)
        rate(way, relay->now_ms);
    int one = 0;
    for (struct relayd_hop *hop = relay->hops; hop; hop = hop->next)
        if (hop->lost_ms) {
            relayd_hop_lost(hop);
        } else {
            if (has_unsent(hop))
                look_whether_taken(hop, &one);
            if (!hop->failed)
                look_whether_silent(hop);
        }
}

/* --- sleeping --------------------------------------------------------------------------------- */

/* In microseconds, -1: until something comes. */
static int64_t rest(const struct mn_relay *relay)
{
    int64_t most = relay->plan->tick_ms ? (int64_t)relay->plan->tick_ms * 1000 : -1;

    if (relay->spins || relay->stopping || relay->marked)
        return 0;
    if (relay->naps)
        return NAP_US;
    int ticks = relay->arrivals.n || relayd_lines_wait(relay);
    for (const struct relayd_hop *hop = relay->hops; hop && !ticks; hop = hop->next)
        ticks = has_unsent(hop) || hop->lost_ms || hop->state <= RELAYD_HOP_MAKING;
    int64_t look = (ticks ? RELAYD_TICK_MS : relay->hops ? MN_SLEEP_MS : -1) * (int64_t)1000;
    return look >= 0 && (most < 0 || most > look) ? look : most;
}

/* Hops are woken; what else has happened is left in events, *n of them, for after the data. */
static enum mn_err wait_for(struct mn_relay *relay, int64_t us, struct epoll_event events[EVENTS],
                            int *n, struct mn_diag *diag)
{
    struct pollfd fd = {.fd = relay->epoll, .events = POLLIN};
    struct timespec ts = {us / 1000000, us % 1000000 * 1000};
    int all = 0;

    if (us && ppoll(&fd, 1, us < 0 ? NULL : &ts, NULL) < 0 && errno != EINTR)
        return mn_fail_errno(diag, "waiting");
    if (!us && !relay->moved)
        sched_yield(); /* what it waits for may be its own thread's, or a process's beside it */
    uint64_t now_us = relayd_now_us();
    if (us || now_us - relay->looked_us >= LOOK_US) {
        relay->looked_us = now_us;
        all = epoll_wait(relay->epoll, events, EVENTS, 0);
    }
    if (all < 0 && errno != EINTR)
        return mn_fail_errno(diag, "waiting");
    relay->now_ms = now_us / 1000;
    relay->spins = relay->naps = relay->moved = 0;
    *n = 0;
    for (int i = 0; i < all; i++) {
        struct relayd_source *source = events[i].data.ptr;
        if (source->what == RELAYD_HOP)
            relayd_hop_wake((struct relayd_hop *)source);
        else
            events[(*n)++] = events[i];
    }
    return MN_OK;
}

/* Every flow is told, as far as its lines take it at once. */
static void say_farewell(struct mn_relay *relay)
{
    struct mn_diag diag;

    for (struct relayd_way *way = relay->ways; way; way = way->next)
        relayd_way_end(way, NULL, MN_GONE_RELAY, "relay %s is ended",
                       relayd_node_name(relay, relay->self));
    for (struct relayd_line *line = relay->lines; line; line = line->next)
        if (line->up && !line->ended)
            (void)mn_line_step(line->line, &diag);
}

enum mn_err mn_relay_run(struct mn_relay *relay, int stop_fd, struct mn_diag *diag)
{
    struct epoll_event events[EVENTS];
    enum mn_err err = MN_OK;
    int n = 0;

    relay->stop = stop_fd;
    relay->stopping = 0;
    if (stop_fd >= 0)
        err = relayd_watch(relay, stop_fd, EPOLLIN, &relay->at_stop, diag);
    for (int64_t us = 0; !err && !relay->stopping; us = rest(relay)) {
        err = wait_for(relay, us, events, &n, diag);
        for (struct relayd_hop *hop = relay->hops; hop; hop = hop->next)
            relayd_hop_step(hop);
        for (int i = 0; i < n && !err; i++)
            on_event(relay, events[i].data.ptr);
        tick(relay);
        relayd_reap(relay);
    }
    say_farewell(relay);
    if (stop_fd >= 0)
        (void)epoll_ctl(relay->epoll, EPOLL_CTL_DEL, stop_fd, NULL);
    return err;
}
