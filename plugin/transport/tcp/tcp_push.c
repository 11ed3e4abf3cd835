/* Sends by a thread, for an owner that has more to do: its isend only queues, its test only looks.
 *
 * One thread for all such comms of the process. Of a comm everything that a send touches is the
 * thread's, but for what goes from one to the other: a message is written into its place, then
 * counted in posted; done says of a place that it is, before acked says how far places are free
 * again. Whoever is going to sleep says so, then looks once more; whoever has something for a
 * sleeper looks whether there is one, after he has said what. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "plugin/thread.h"
#include "plugin/transport/tcp/tcp.h"

#define EVENTS  64
#define SPIN_NS 30000

struct tcp_push {
    struct tcp_comm *comm;
    struct tcp_push *next;
    int told;            /* eventfd, for the owner */
    uint32_t seq, seen;  /* the owner's: messages posted; of changes */
    int woken;           /* the thread's: a socket may have something */
    atomic_uint posted;  /* messages that the owner has written */
    atomic_uint acked;   /* all before have landed: their places may be used again */
    atomic_uint changes; /* of what the owner looks at */
    atomic_uint armed;   /* the owner wants to be told */
    atomic_int failed;   /* enum mn_err, set after what is done was said */
    atomic_uchar done[TCP_WINDOW];
};

/* life is taken around lock, which the thread holds while it does something. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_push *all;
static atomic_int wanted; /* lock is, by another than the thread */
static atomic_int ending;
static atomic_uint asleep;
static int epoll = -1, bell = -1;
static pthread_t thread;
static int running;

static void ring(int fd)
{
    (void)eventfd_write(fd, 1);
}

/* --- the thread ------------------------------------------------------------------------------- */

static int is_posted(const struct tcp_push *p)
{
    return atomic_load(&p->posted) != p->comm->seq_next;
}

static void take_over(struct tcp_push *p)
{
    struct tcp_comm *comm = p->comm;

    for (uint32_t end = atomic_load(&p->posted); comm->seq_next != end; comm->seq_next++) {
        struct tcp_send *send = &comm->sends[comm->seq_next % TCP_WINDOW];
        tcp_accept(comm, send, tcp_is_eager(comm, send->size));
    }
}

/* Says what is done; whether anything is that was not. */
static int say(struct tcp_push *p)
{
    const struct tcp_comm *comm = p->comm;
    uint32_t acked = atomic_load_explicit(&p->acked, memory_order_relaxed);
    int changed = acked != comm->seq_acked;

    for (uint32_t seq = acked; seq != comm->seq_next; seq++) {
        atomic_uchar *done = &p->done[seq % TCP_WINDOW];
        if (atomic_load_explicit(done, memory_order_relaxed) ||
            !tcp_send_is_done(&comm->sends[seq % TCP_WINDOW]))
            continue;
        atomic_store_explicit(done, 1, memory_order_release);
        changed = 1;
    }
    atomic_store_explicit(&p->acked, comm->seq_acked, memory_order_release);
    return changed;
}

/* 1: there may be more to do. */
static int serve(struct tcp_push *p)
{
    if (atomic_load_explicit(&p->failed, memory_order_relaxed) || !(p->woken || is_posted(p)))
        return 0;
    take_over(p);
    enum mn_err err = tcp_arm(&p->comm->base);
    int changed = say(p);
    p->woken = err == MN_ERR_AGAIN;
    if (err && err != MN_ERR_AGAIN) {
        atomic_store(&p->failed, (int)err);
        changed = 1;
    }
    if (changed) {
        atomic_fetch_add(&p->changes, 1);
        if (atomic_exchange(&p->armed, 0))
            ring(p->told);
    }
    return p->woken;
}

static int serve_all(void)
{
    int moved = 0;

    pthread_mutex_lock(&lock);
    for (struct tcp_push *p = all; p; p = p->next)
        moved |= serve(p);
    pthread_mutex_unlock(&lock);
    return moved;
}

static int nothing_is_posted(void)
{
    int none = 1;

    pthread_mutex_lock(&lock);
    for (struct tcp_push *p = all; p && none; p = p->next)
        none = !is_posted(p) || atomic_load_explicit(&p->failed, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return none;
}

/* A comm may have been closed since the event came. Silence makes none: all are looked at. */
static void wake(const struct epoll_event *events, int n)
{
    pthread_mutex_lock(&lock);
    for (struct tcp_push *p = all; p; p = p->next) {
        p->woken |= n <= 0;
        for (int i = 0; i < n; i++)
            p->woken |= events[i].data.ptr == p;
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The next message is near while they come in a row: to be woken for each costs more. 1: something
 * is there. */
static int look_around(struct epoll_event events[EVENTS])
{
    for (uint64_t end = now_ns() + SPIN_NS; now_ns() < end && !atomic_load(&ending);) {
        int n = epoll_wait(epoll, events, EVENTS, 0);
        if (n > 0)
            wake(events, n);
        if (n > 0 || !nothing_is_posted())
            return 1;
        do
            sched_yield(); /* the owner's thread, which is to post it, may have this processor */
        while (atomic_load(&wanted));
    }
    return 0;
}

static void *push_all(void *arg)
{
    struct epoll_event events[EVENTS];

    (void)arg;
    for (int spins = 0; !atomic_load(&ending);) {
        int moved = serve_all();
        while (atomic_load(&wanted))
            sched_yield();
        spins |= moved;
        if (moved || (spins && look_around(events)))
            continue;
        int n = EVENTS;
        spins = 0;
        atomic_store(&asleep, 1);
        if (nothing_is_posted())
            n = epoll_wait(epoll, events, EVENTS, MN_SLEEP_MS);
        else
            events[0].data.ptr = NULL, n = 1;
        atomic_store(&asleep, 0);
        wake(events, n);
    }
    return NULL;
}

/* --- its life --------------------------------------------------------------------------------- */

/* The bell's events are of no comm; it is never read: each ring is an edge. */
static int start(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};

    epoll = epoll_create1(EPOLL_CLOEXEC);
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&ending, 0);
    if (epoll < 0 || bell < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event))
        return errno;
    int error = mn_thread_start("mn-tcp-push", push_all, NULL, &thread);
    /* The owner's cores are those that its administrator gave it. */
    cpu_set_t cpus;
    if (!error && !pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus))
        (void)pthread_setaffinity_np(thread, sizeof cpus, &cpus);
    running = !error;
    return error;
}

static void close_both(void)
{
    if (epoll >= 0)
        close(epoll);
    if (bell >= 0)
        close(bell);
    epoll = bell = -1;
}

static int watch(struct tcp_push *p)
{
    struct mn_wake wakes[MN_WAKES];
    int n = tcp_descriptors(&p->comm->base, wakes, MN_WAKES);

    for (int i = 0; i < n; i++) {
        struct epoll_event event = {.events = wakes[i].events | EPOLLET, .data.ptr = p};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, wakes[i].fd, &event))
            return errno;
    }
    return 0;
}

static void stop(void)
{
    atomic_store(&ending, 1);
    ring(bell);
    pthread_join(thread, NULL);
    running = 0;
    close_both();
}

/* The thread is not at it any more when this returns; it waits for no more than a round of it. */
static void leave(struct tcp_push *p)
{
    pthread_mutex_lock(&life);
    atomic_fetch_add(&wanted, 1);
    pthread_mutex_lock(&lock);
    for (struct tcp_push **at = &all; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&wanted, 1);
    if (!all && running)
        stop();
    pthread_mutex_unlock(&life);
}

static int join(struct tcp_push *p)
{
    int error = 0;

    pthread_mutex_lock(&life);
    if (!all && (error = start()))
        close_both();
    if (!error) {
        atomic_fetch_add(&wanted, 1);
        pthread_mutex_lock(&lock);
        p->next = all;
        all = p;
        pthread_mutex_unlock(&lock);
        atomic_fetch_sub(&wanted, 1);
        error = watch(p);
    }
    pthread_mutex_unlock(&life);
    return error;
}

/* --- what the owner calls --------------------------------------------------------------------- */

static enum mn_err push_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                              struct mn_request **request)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    struct tcp_push *p = comm->push;
    struct tcp_send *send = &comm->sends[p->seq % TCP_WINDOW];
    enum mn_err err = (enum mn_err)atomic_load(&p->failed);

    (void)mhandle;
    *request = NULL;
    if (err || send->posted ||
        p->seq - atomic_load_explicit(&p->acked, memory_order_acquire) >= TCP_WINDOW)
        return err;
    *send = (struct tcp_send){
        .base.comm = base,
        .data = data,
        .seq = p->seq,
        .size = (uint32_t)size,
        .tag = tag,
        .posted = 1,
    };
    atomic_store_explicit(&p->done[p->seq % TCP_WINDOW], 0, memory_order_relaxed);
    p->seq++;
    if (!tcp_is_front(comm, tag)) {
        atomic_store(&p->posted, p->seq);
        if (atomic_exchange(&asleep, 0))
            ring(bell);
    }
    *request = &send->base;
    return MN_OK;
}

/* What has landed is done though the connection has failed since. */
static enum mn_err push_test(struct mn_request *request, int *done, int *sizes)
{
    struct tcp_send *send = (struct tcp_send *)request;
    struct tcp_push *p = ((struct tcp_comm *)request->comm)->push;
    enum mn_err err = (enum mn_err)atomic_load(&p->failed);

    *done = atomic_load_explicit(&p->done[send->seq % TCP_WINDOW], memory_order_acquire);
    if (!*done)
        return err;
    if (sizes)
        *sizes = (int)send->size;
    send->posted = 0;
    return MN_OK;
}

static int push_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max)
{
    if (max > 0)
        wakes[0] = (struct mn_wake){((struct tcp_comm *)base)->push->told, EPOLLIN};
    return 1;
}

static enum mn_err push_arm(struct mn_comm *base)
{
    struct tcp_push *p = ((struct tcp_comm *)base)->push;
    enum mn_err err = (enum mn_err)atomic_load(&p->failed);

    (void)atomic_exchange(&p->armed, 1); /* before changes is read: see hold in plugin/attend.c */
    uint32_t changes = atomic_load(&p->changes);
    if (err || changes == p->seen)
        return err;
    p->seen = changes;
    return MN_ERR_AGAIN;
}

static void push_free(struct tcp_push *p)
{
    close(p->told);
    free(p);
}

static void push_close(struct mn_comm *base)
{
    struct tcp_push *p = ((struct tcp_comm *)base)->push;

    leave(p);
    mn_transport_tcp.close(base);
    push_free(p);
}

static struct mn_transport pushing;

static void make_pushing(void)
{
    pushing = mn_transport_tcp;
    pushing.isend = push_isend;
    pushing.test = push_test;
    pushing.descriptors = push_descriptors;
    pushing.arm = push_arm;
    pushing.close = push_close;
}

enum mn_err tcp_push(struct tcp_comm *comm, struct mn_diag *diag)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tcp_push *p = calloc(1, sizeof *p);

    if (!p)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection to %s", comm->peer);
    pthread_once(&once, make_pushing);
    p->comm = comm;
    p->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = p->told < 0 ? errno : join(p);
    if (!error) {
        comm->push = p;
        comm->base.ops = &pushing;
        return MN_OK;
    }
    if (p->told >= 0) {
        leave(p);
        close(p->told);
    }
    free(p);
    return mn_fail(diag, MN_ERR_SYS, "starting a thread that sends to %s: %s", comm->peer,
                   mn_thread_why(error));
}
