/* Ends whose process calls nothing for a while, since it computes or waits for others: one thread
 * of the process does now and then what their calls would. So a way that has gone comes back at
 * both ends though only one of them needs it, and what the other end says is heard.
 *
 * What a receiver says leaves with its next call: so what the application sends then, an answer
 * perhaps, goes first, and a receive that is whole is told together with the next that is posted.
 * Where no call comes the thread says it, looking every OWED_US while such a thing was a moment
 * ago. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "plugin/thread.h"
#include "plugin/transport/relay/flow.h"
#include "topo/base/log.h"

#define IDLE_MS    500 /* without a call; and between looks */
#define PENDING_MS 50  /* … while a way is being attached */
#define MOVED_MS   1   /* … when something came a moment ago */
#define OWED_US    200
#define OWED_SEEN  50 /* looks at nothing owed, then it rests */

/* life is taken around lock, which the thread holds while it looks. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static struct relay_comm *all;
static pthread_t thread;
static atomic_int ending;
static atomic_int rests; /* nobody looks at what is owed: the bell has to be rung */
static int bell = -1, running;

/* --- the thread ------------------------------------------------------------------------------- */

static int is_pending(const struct relay_comm *comm)
{
    for (int i = 0; i < comm->n_ways; i++)
        if (comm->ways[i].state == RELAY_DIALS || comm->ways[i].state == RELAY_AWAITS)
            return 1;
    return 0;
}

/* When it is to be looked at again. One that is being called is not idle. */
static int look(struct relay_comm *comm)
{
    int again = IDLE_MS;

    if (pthread_mutex_trylock(&comm->busy))
        return again;
    uint64_t now = mn_now_ms();
    if (comm->calls != comm->calls_seen) {
        comm->calls_seen = comm->calls;
        comm->called_ms = now;
    } else if (now - comm->called_ms >= IDLE_MS && !relay_progress(comm)) {
        again = comm->moved ? MOVED_MS : is_pending(comm) ? PENDING_MS : IDLE_MS;
    }
    pthread_mutex_unlock(&comm->busy);
    return again;
}

/* Whether any comm owes something; said for those without a call since the last look. */
static int look_who_owes(void)
{
    int any = 0;

    pthread_mutex_lock(&lock);
    for (struct relay_comm *comm = all; comm; comm = comm->next) {
        int owes = atomic_load(&comm->owes);
        any |= owes;
        if (owes == RELAY_OWES) {
            atomic_compare_exchange_strong(&comm->owes, &owes, RELAY_OWED);
        } else if (owes == RELAY_OWED && !pthread_mutex_trylock(&comm->busy)) {
            relay_talk_flush(comm);
            atomic_store(&comm->owes, RELAY_OWES_NOTHING);
            pthread_mutex_unlock(&comm->busy);
        }
    }
    pthread_mutex_unlock(&lock);
    return any;
}

/* While something is owed, and until the bell or for so long. */
static void rest(int ms)
{
    struct pollfd p = {.fd = bell, .events = POLLIN};
    const struct timespec pause = {.tv_nsec = OWED_US * 1000};
    uint64_t end = mn_now_ms() + (uint64_t)ms;
    eventfd_t rung;

    for (int idle = OWED_SEEN - 1; idle < OWED_SEEN && mn_now_ms() < end;) {
        idle = look_who_owes() ? 0 : idle + 1;
        if (idle < OWED_SEEN)
            nanosleep(&pause, NULL);
    }
    atomic_store(&rests, 1);
    if (!look_who_owes())
        (void)poll(&p, 1, ms);
    atomic_store(&rests, 0);
    (void)eventfd_read(bell, &rung);
}

static int look_at_all(void)
{
    int wait = IDLE_MS;

    pthread_mutex_lock(&lock);
    for (struct relay_comm *comm = all; comm; comm = comm->next) {
        int again = look(comm);
        wait = again < wait ? again : wait;
    }
    pthread_mutex_unlock(&lock);
    return wait;
}

static void *attend(void *arg)
{
    (void)arg;
    while (!atomic_load(&ending))
        rest(look_at_all());
    return NULL;
}

void relay_defer(struct relay_comm *comm)
{
    int owes = relay_talk_is_out(&comm->talk) ? RELAY_OWES_NOTHING : RELAY_OWES;

    if (owes && !atomic_load(&comm->owes))
        comm->owed_us = relay_now_us();
    if (owes || atomic_load(&comm->owes))
        atomic_store(&comm->owes, owes);
    if (owes && atomic_exchange(&rests, 0))
        (void)eventfd_write(bell, 1);
}

/* --- its life --------------------------------------------------------------------------------- */

static int start(void)
{
    atomic_store(&ending, 0);
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = bell < 0 ? errno : mn_thread_start("mn-relay-idle", attend, NULL, &thread);
    if (error && bell >= 0)
        close(bell);
    return error;
}

static void stop(void)
{
    atomic_store(&ending, 1);
    (void)eventfd_write(bell, 1);
    pthread_join(thread, NULL);
    close(bell);
    running = 0;
}

void relay_idle_join(struct relay_comm *comm)
{
    pthread_mutex_lock(&life);
    if (!running) {
        int error = start();
        running = !error;
        if (error)
            MN_WARN("peer %s, by relay: no thread for ends that are idle: %s; a way that goes "
                    "comes back when the process calls",
                    comm->peer, mn_thread_why(error));
    }
    pthread_mutex_lock(&lock);
    comm->defers = running && !comm->base.is_send;
    comm->next = all;
    all = comm;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
}

void relay_idle_leave(struct relay_comm *comm)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    for (struct relay_comm **at = &all; *at; at = &(*at)->next)
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!all && running)
        stop();
    pthread_mutex_unlock(&life);
}
