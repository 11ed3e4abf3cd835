#include "plugin/attend.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/thread.h"
#include "topo/base/log.h"

#define LOOK_MS 50
#define LOOKS   20 /* with nothing to do, then it rests */
#define EVENTS  16

/* life is taken around lock, which the thread holds while it looks. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static struct mn_attended *all;
static pthread_t thread;
static atomic_int ending;
static atomic_int rests;        /* nobody looks: the bell has to be rung */
static int watch = -1, running; /* epoll: the bell, and what is watched */
static atomic_int bell = -1;
atomic_int mn_attend_fences;

/* --- the gate --------------------------------------------------------------------------------- */

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* The thread's: from here on no call begins. 0: one has. Wherever a load of another flag has to
 * come after a store, the store is an exchange: to C11 it is the same, but qemu's emulation of an
 * aarch64 process (to 7.2 at least) puts no barrier between stlr and ldar. */
static int hold(struct mn_attended *a)
{
    pthread_mutex_lock(&a->busy);
    (void)atomic_exchange(&a->looking, 1);
    if (!atomic_load(&mn_attend_fences))
        (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); /* it fails at registration or never */
    if (!atomic_load(&a->inside))
        return 1;
    atomic_store_explicit(&a->looking, 0, memory_order_release);
    pthread_mutex_unlock(&a->busy);
    return 0;
}

static void release(struct mn_attended *a)
{
    atomic_store_explicit(&a->looking, 0, memory_order_release);
    pthread_mutex_unlock(&a->busy);
}

void mn_attend_wait(struct mn_attended *a)
{
    while (atomic_load(&a->looking)) {
        atomic_store_explicit(&a->inside, 0, memory_order_release);
        pthread_mutex_lock(&a->busy); /* the thread's, as long as it looks */
        pthread_mutex_unlock(&a->busy);
        (void)atomic_exchange(&a->inside, 1);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

/* In how many ms it is to be looked at again; -1: when it is woken. */
static int look_at(struct mn_attended *a, uint64_t now)
{
    if (!atomic_load(&a->woken) && (!a->due_ms || now < a->due_ms))
        return a->due_ms ? (int)(a->due_ms - now) : -1;
    if (!hold(a))
        return LOOK_MS;
    if (atomic_exchange(&a->woken, 0))
        a->woken_ms = mn_now_ms(); /* after whatever its owner has looked at */
    unsigned ms = a->look(a);
    a->seen = a->calls;
    release(a);
    a->due_ms = ms ? now + ms : 0;
    return ms ? (int)ms : -1;
}

static int look_at_all(void)
{
    uint64_t now = mn_now_ms();
    int first = -1;

    pthread_mutex_lock(&lock);
    for (struct mn_attended *a = all; a; a = a->next) {
        int ms = look_at(a, now);
        if (ms >= 0 && (first < 0 || ms < first))
            first = ms;
    }
    pthread_mutex_unlock(&lock);
    return first;
}

/* Of those that are there. */
static void wake(const struct epoll_event *events, int n)
{
    pthread_mutex_lock(&lock);
    for (struct mn_attended *a = all; a; a = a->next)
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr == a)
                atomic_store(&a->woken, 1);
    pthread_mutex_unlock(&lock);
}

static void *attend(void *arg)
{
    struct pollfd fd = {.fd = watch, .events = POLLIN};
    struct epoll_event events[EVENTS];
    eventfd_t rung;

    (void)arg;
    for (int idle = 0; !atomic_load(&ending);) {
        int ms = look_at_all();
        idle = ms < 0 ? idle + 1 : 0;
        if (idle >= LOOKS) {
            /* Who has called since the last look may not have seen that it rests. */
            atomic_store(&rests, 1);
            ms = look_at_all();
        }
        if ((ms < 0 && idle < LOOKS) || ms > LOOK_MS)
            ms = LOOK_MS;
        (void)poll(&fd, 1, ms);
        int n = epoll_wait(watch, events, EVENTS, 0);
        atomic_store(&rests, 0);
        (void)eventfd_read(atomic_load(&bell), &rung);
        wake(events, n);
    }
    return NULL;
}

/* What was set before is reset outside of calls alone. */
void mn_attend_soon(struct mn_attended *a)
{
    if (!a->joined || atomic_load_explicit(&a->woken, memory_order_relaxed))
        return;
    (void)atomic_exchange(&a->woken, 1);
    if (atomic_load(&rests) && atomic_exchange(&rests, 0))
        (void)eventfd_write(atomic_load(&bell), 1);
}

void mn_attend_wake(struct mn_attended *a)
{
    atomic_store(&a->woken, 1);
    (void)eventfd_write(atomic_load(&bell), 1);
}

/* --- its life --------------------------------------------------------------------------------- */

static void close_watch(void)
{
    int fd = atomic_exchange(&bell, -1);

    if (fd >= 0)
        close(fd);
    if (watch >= 0)
        close(watch);
    watch = -1;
}

/* Before the first call that relies on it. */
static void choose_fence(void)
{
    if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
        atomic_store(&mn_attend_fences, 1);
}

static int start(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int error = 0;

    choose_fence();
    atomic_store(&ending, 0);
    watch = epoll_create1(EPOLL_CLOEXEC);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&bell, fd);
    if (watch < 0 || fd < 0 || epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event))
        error = errno;
    if (!error)
        error = mn_thread_start("mn-attend", attend, NULL, &thread);
    if (error)
        close_watch();
    return error;
}

static void stop(void)
{
    atomic_store(&ending, 1);
    (void)eventfd_write(atomic_load(&bell), 1);
    pthread_join(thread, NULL);
    close_watch();
    running = 0;
}

int mn_attend_watch(struct mn_attended *a, int fd)
{
    /* Only what comes wakes it. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = a};

    return epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

int mn_attend_join(struct mn_attended *a, const char *who)
{
    pthread_mutex_lock(&life);
    int error = running ? 0 : start();
    if (!error) {
        running = 1;
        pthread_mutex_init(&a->busy, NULL);
        a->joined = 1;
        pthread_mutex_lock(&lock);
        a->next = all;
        all = a;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_unlock(&life);
    if (error)
        MN_WARN(
            "%s: no thread for connections that are not called: %s; when a link goes, they wait "
            "for the next call",
            who, mn_thread_why(error));
    return error;
}

void mn_attend_leave(struct mn_attended *a)
{
    if (!a->joined)
        return;
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    struct mn_attended **at = &all;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    pthread_mutex_unlock(&lock);
    a->joined = 0;
    pthread_mutex_destroy(&a->busy);
    if (!all)
        stop();
    pthread_mutex_unlock(&life);
}
