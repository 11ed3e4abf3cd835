/* The clock that the plugin goes by: this program's clock_gettime() and poll() come before libc's
 * for every library that it opens. */
#include "tests/drivers/failover/failover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_S      1000000000ull
#define SETTLE_MS 20000
#define WAITS     64 /* threads that wait with an end */

static _Atomic uint64_t moved_ns, frozen_ns; /* frozen_ns: 0, it goes */

static uint64_t real_ns(clockid_t id)
{
    struct timespec ts;
    syscall(SYS_clock_gettime, id, &ts);
    return (uint64_t)ts.tv_sec * NS_S + (uint64_t)ts.tv_nsec;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, id, ts);
    uint64_t ns = atomic_load(&frozen_ns);
    if (!ns)
        ns = real_ns(id) + atomic_load(&moved_ns);
    ts->tv_sec = (time_t)(ns / NS_S);
    ts->tv_nsec = (long)(ns % NS_S);
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_S + (uint64_t)ts.tv_nsec;
}

uint64_t fo_now_ms(void)
{
    return now_ns() / 1000000;
}

uint64_t fo_real_ms(void)
{
    return real_ns(CLOCK_MONOTONIC) / 1000000;
}

/* Threads that wait in poll() with an end: until when, 0: nobody. The bell tells them that the
 * clock has leaped there, which it does once, or goes otherwise from now on. */
static struct {
    _Atomic uint64_t end;
    atomic_int told;
    int bell;
} waits[WAITS];

void fo_clock_begin(void)
{
    for (int i = 0; i < WAITS; i++)
        waits[i].bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int is_any_due(void)
{
    uint64_t now = now_ns();
    for (int i = 0; i < WAITS; i++) {
        uint64_t end = atomic_load(&waits[i].end);
        if (end && end <= now)
            return 1;
    }
    return 0;
}

static void ring_due(uint64_t now)
{
    for (int i = 0; i < WAITS; i++) {
        uint64_t end = atomic_load(&waits[i].end);
        if (end && end <= now && !atomic_exchange(&waits[i].told, 1))
            eventfd_write(waits[i].bell, 1);
    }
}

static void ring_all(void)
{
    for (int i = 0; i < WAITS; i++)
        eventfd_write(waits[i].bell, 1);
}

static int ask(struct pollfd *fds, nfds_t n, const struct timespec *wait)
{
    struct timespec ts = wait ? *wait : (struct timespec){0}; /* the kernel writes what is left */
    return (int)syscall(SYS_ppoll, fds, n, wait ? &ts : NULL, NULL, 0);
}

static int take_place(uint64_t end)
{
    for (int i = 0; i < WAITS; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&waits[i].end, &none, end))
            return i;
    }
    fprintf(stderr, "failover: more than %d threads wait in poll()\n", WAITS);
    abort();
}

/* A wait with an end is over when the clock says so: by real time a thread that dials would hardly
 * have begun when a minute of the clock is over. */
__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t n, int ms)
{
    static const struct timespec nothing;
    struct pollfd all[n + 1];
    if (ms <= 0)
        return ask(fds, n, ms ? NULL : &nothing);

    uint64_t end = now_ns() + (uint64_t)ms * 1000000, now;
    int at = take_place(end), found, error;
    if (n)
        memcpy(all, fds, n * sizeof *fds);
    all[n] = (struct pollfd){.fd = waits[at].bell, .events = POLLIN};
    do {
        atomic_store(&waits[at].told, 0); /* what comes from here on wakes it */
        int frozen = atomic_load(&frozen_ns) != 0;
        now = now_ns();
        uint64_t left = now < end ? end - now : 0;
        const struct timespec ts = {(time_t)(left / NS_S), (long)(left % NS_S)};
        found = ask(all, n + 1, frozen && left ? NULL : &ts);
        error = errno;
        eventfd_t rung;
        if (found > 0 && all[n].revents && eventfd_read(all[n].fd, &rung) == 0)
            found--;
    } while (!found && now < end);
    atomic_store(&waits[at].end, 0);
    if (n)
        memcpy(fds, all, n * sizeof *fds);
    errno = error;
    return found;
}

void fo_clock_freeze(int frozen)
{
    uint64_t was = atomic_load(&frozen_ns), real = real_ns(CLOCK_MONOTONIC);
    if (frozen && !was) {
        atomic_store(&frozen_ns, real + atomic_load(&moved_ns));
    } else if (!frozen && was) {
        /* It never goes back. */
        if (was > real + atomic_load(&moved_ns))
            atomic_store(&moved_ns, was - real);
        atomic_store(&frozen_ns, 0);
    }
    ring_all();
}

void fo_clock_add(uint64_t us)
{
    if (atomic_load(&frozen_ns))
        ring_due(atomic_fetch_add(&frozen_ns, us * 1000) + us * 1000);
}

int fo_count(const char *directory)
{
    DIR *dir = opendir(directory);
    int n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* Without those that stay for a while in case of more work. */
int fo_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;
    while (dir && (entry = readdir(dir))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        n += read(fd, name, sizeof name - 1) > 0 && strcmp(name, "mn-verbs-work\n") != 0;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* The other threads, as they were when they were counted last. */
static struct {
    unsigned long count; /* entries of the directory; 0: unknown */
    int fds[64], n;
} others;

static unsigned long count_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) == 0 ? st.st_nlink : 0;
}

void fo_forget_threads(void)
{
    while (others.n > 0)
        close(others.fds[--others.n]);
    others.count = 0;
}

static void list_threads(void)
{
    fo_forget_threads();
    others.count = count_threads();
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) && others.n < 64) {
        char path[300];
        if (*entry->d_name == '.' || atoi(entry->d_name) == (int)syscall(SYS_gettid))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            others.fds[others.n++] = fd;
    }
    if (dir)
        closedir(dir);
}

/* What the threads do now; 1 when all others sleep, and none is to wake. */
static int all_sleep(void)
{
    if (is_any_due())
        return 0;
    if (!others.count || count_threads() != others.count)
        list_threads();
    for (int i = 0; i < others.n; i++) {
        char text[256];
        ssize_t n = pread(others.fds[i], text, sizeof text - 1, 0);
        if (n <= 0) { /* it has ended, perhaps for another */
            others.count = 0;
            return 0;
        }
        text[n] = '\0';
        const char *state = strrchr(text, ')');
        if (state && state[1] && state[2] != 'S')
            return 0;
    }
    return 1;
}

void fo_settle(void)
{
    uint64_t end = fo_real_ms() + SETTLE_MS;
    while (!all_sleep() && fo_real_ms() < end)
        sched_yield();
}
