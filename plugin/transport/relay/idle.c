/* Ends whose process calls nothing for a while, since it computes or waits for others: one thread
 * of the process does now and then what their calls would. So a way that has gone comes back at
 * both ends though only one of them needs it, and what the other end says is heard. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plugin/thread.h"
#include "plugin/transport/relay/flow.h"
#include "topo/base/log.h"

#define IDLE_MS    500 /* without a call; and between looks */
#define PENDING_MS 50  /* … while a way is being attached */
#define MOVED_MS   1   /* … when something came a moment ago */

/* life is taken around lock, which the thread holds while it looks. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static struct relay_comm *all;
static pthread_t thread;
static atomic_int ending;
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

static void *attend(void *arg)
{
    struct pollfd p = {.fd = bell, .events = POLLIN};
    int wait = IDLE_MS;

    (void)arg;
    while (!atomic_load(&ending)) {
        (void)poll(&p, 1, wait);
        wait = IDLE_MS;
        pthread_mutex_lock(&lock);
        for (struct relay_comm *comm = all; comm; comm = comm->next) {
            int again = look(comm);
            wait = again < wait ? again : wait;
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
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
            MN_WARN("peer %s, by relay: no thread for ends that are idle (%s): a way that goes "
                    "comes back when the process calls",
                    comm->peer, strerror(error));
    }
    pthread_mutex_lock(&lock);
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
