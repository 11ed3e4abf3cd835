/* Small messages are done before they have landed. When their link goes while their owner makes no
 * call here, since it waits elsewhere for what the peer makes of them, nobody would send them
 * again; and a receiver whose owner has all that it asked for, and waits elsewhere, would not say
 * so again to a sender that has lost its word. One thread of the process does then what their calls
 * would. It looks at senders now and then, and rests once all has been delivered for a second; a
 * receiver's control sockets wake it, on which nothing is said while all links are well. */
#include <errno.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plugin/thread.h"
#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/log.h"

#define LOOK_MS 50
#define LOOKS   20  /* at nothing to deliver, then it rests */
#define AWAY_MS 500 /* between looks at a receiver that has lost a socket */
#define EVENTS  16

/* life is taken around lock, which the thread holds while it looks. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_comm *all;
static pthread_t thread;
static atomic_int ending;
static atomic_int rests;                   /* nobody looks: the bell has to be rung */
static int watch = -1, bell = -1, running; /* epoll, with the bell and the control sockets */

/* --- the thread ------------------------------------------------------------------------------- */

enum tcp_delivery tcp_delivery(const struct tcp_comm *comm)
{
    enum tcp_delivery delivery = TCP_DELIVERED;
    struct tcp_info info;

    if (tcp_is_owing(comm))
        return TCP_UNDER_WAY;
    for (int i = 0; i < comm->n_lanes; i++) {
        if (comm->lanes[i].off)
            continue;
        if (!tcp_read_info(&comm->lanes[i], &info) || info.tcpi_unacked)
            return TCP_UNDER_WAY;
        if (info.tcpi_notsent_bytes)
            delivery = TCP_HAS_NO_ROOM;
    }
    return delivery;
}

/* One that is being called is its owner's. */
static int sender_owes(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;

    if (!comm->eager_bytes || atomic_load(&comm->error) || !tcp_any_left(comm))
        f->delivered = 1;
    else if (f->entered != f->seen)
        f->delivered = 0;
    else if (!f->delivered) /* of an error the next call tells */
        f->delivered = !tcp_attend(comm) && tcp_delivery(comm) == TCP_DELIVERED;
    f->seen = f->entered;
    return !f->delivered;
}

/* Sets whether a socket is away, which comes back without a word where there is no other. */
static int receiver_owes(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;

    f->away = 0;
    if (atomic_load(&comm->error) || tcp_attend(comm))
        return 0;
    f->away = f->blind;
    for (int i = 0; i < comm->n_all; i++)
        f->away |= comm->lanes[i].state != TCP_UP;
    return f->n_due || comm->ack_due;
}

/* Whether it may have something to deliver, or to say. */
static int look(struct tcp_comm *comm, uint64_t now)
{
    struct tcp_failover *f = comm->failover;

    if (!comm->base.is_send && !f->woken && (!f->away || now < f->away_ms))
        return f->away;
    if (pthread_mutex_trylock(&f->busy))
        return 1;
    int owes = comm->base.is_send ? sender_owes(comm) : receiver_owes(comm);
    pthread_mutex_unlock(&f->busy);
    f->woken = owes;
    f->away_ms = now + AWAY_MS;
    return owes || f->away;
}

static int look_at_all(void)
{
    uint64_t now = mn_now_ms();
    int any = 0;

    pthread_mutex_lock(&lock);
    for (struct tcp_comm *comm = all; comm; comm = comm->failover->next)
        any |= look(comm, now);
    pthread_mutex_unlock(&lock);
    return any;
}

/* Of the comms that are there. */
static void wake(const struct epoll_event *events, int n)
{
    pthread_mutex_lock(&lock);
    for (struct tcp_comm *comm = all; comm; comm = comm->failover->next)
        for (int i = 0; i < n; i++)
            comm->failover->woken |= events[i].data.ptr == comm;
    pthread_mutex_unlock(&lock);
}

static void *attend(void *arg)
{
    struct epoll_event events[EVENTS];
    eventfd_t rung;

    (void)arg;
    for (int idle = 0; !atomic_load(&ending);) {
        idle = look_at_all() ? 0 : idle + 1;
        atomic_store(&rests, idle >= LOOKS);
        /* Who has sent since the last look may not have seen that it rests. */
        int ms = idle >= LOOKS && !look_at_all() ? -1 : LOOK_MS;
        int n = epoll_wait(watch, events, EVENTS, ms);
        atomic_store(&rests, 0);
        (void)eventfd_read(bell, &rung);
        wake(events, n);
    }
    return NULL;
}

void tcp_attend_ring(void)
{
    if (atomic_load(&rests) && atomic_exchange(&rests, 0))
        (void)eventfd_write(bell, 1);
}

/* --- its life --------------------------------------------------------------------------------- */

static void close_watch(void)
{
    if (bell >= 0)
        close(bell);
    if (watch >= 0)
        close(watch);
    bell = watch = -1;
}

static int start(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int error = 0;

    atomic_store(&ending, 0);
    watch = epoll_create1(EPOLL_CLOEXEC);
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch < 0 || bell < 0 || epoll_ctl(watch, EPOLL_CTL_ADD, bell, &event))
        error = errno;
    if (!error)
        error = mn_thread_start("mn-tcp-attend", attend, NULL, &thread);
    if (error)
        close_watch();
    return error;
}

static void stop(void)
{
    atomic_store(&ending, 1);
    (void)eventfd_write(bell, 1);
    pthread_join(thread, NULL);
    close_watch();
    running = 0;
}

/* Only what comes wakes it: who reads that does not matter. */
void tcp_attend_watch(struct tcp_comm *comm, const struct tcp_lane *control)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = comm};

    if (!comm->attended || comm->base.is_send || control->fd < 0)
        return;
    comm->failover->blind |= epoll_ctl(watch, EPOLL_CTL_ADD, control->fd, &event) != 0;
}

void tcp_attend_join(struct tcp_comm *comm)
{
    pthread_mutex_lock(&life);
    if (!running) {
        int error = start();
        running = !error;
        if (error)
            MN_WARN("%s peer %s: no thread for connections that are not called (%s): when a link "
                    "goes, they wait for the next call",
                    comm->base.is_send ? "send to" : "receive from", comm->peer, strerror(error));
    }
    comm->attended = running;
    comm->failover->delivered = 0;
    comm->failover->woken = 1;
    for (int i = comm->n_lanes; i < comm->n_all; i++)
        tcp_attend_watch(comm, &comm->lanes[i]);
    pthread_mutex_lock(&lock);
    if (running) {
        comm->failover->next = all;
        all = comm;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
}

void tcp_attend_leave(struct tcp_comm *comm)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    for (struct tcp_comm **at = &all; *at; at = &(*at)->failover->next)
        if (*at == comm) {
            *at = comm->failover->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    comm->attended = 0;
    if (!all && running)
        stop();
    pthread_mutex_unlock(&life);
}
