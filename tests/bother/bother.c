/* LD_PRELOAD: what an application or its host does beside a library, by the words in BOTHER:
 *
 *   alarm   every 100 us a signal, without SA_RESTART: calls that wait end with EINTR
 *   fork    every 50 ms a child: it looks for descriptors that a program which it becomes would
 *           have, says so on stderr, and becomes true(1), or ends with _exit() or exit()
 *   clock   the wall clock jumps, forth and back, by up to half a year, at every look
 *   thread=N, thread=N+
 *           the N-th thread that the plugin starts cannot be had; N+: that and all later ones
 *   nothreads
 *           … none, while the current folder has a file nothreads.PID, by its number
 *
 * At its end it says on stderr how often: "bother: 1234 signals, 56 children, 0 leaks, 789 jumps, 1
 * threads refused".
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEAKS = 1, FDS = 4096, YEAR = 365 * 86400 };

static atomic_ulong signals, children, leaks, jumps, asked, refused;
static int jumping, refusing, from_then_on;
static unsigned long refused_one; /* 0: none by its number */
static pid_t started;

/* --- the clock -------------------------------------------------------------------------------- */

static time_t jump(void)
{
    unsigned long n = atomic_fetch_add(&jumps, 1) * 2654435761u;

    return (time_t)(n >> 8 & 0xffffff) * 2 - YEAR / 2;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);

    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "clock_gettime");
        memcpy(&real, &symbol, sizeof real);
    }
    int result = real(id, ts);
    if (jumping && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ts->tv_sec += jump();
    return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *to)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    if (to)
        *to = ts.tv_sec;
    return ts.tv_sec;
}

/* --- signals ---------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
    atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
}

static void send_alarms(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 100}, {0, 100}};

    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &every, NULL);
}

/* --- children --------------------------------------------------------------------------------- */

/* What was there before main() is the test's. */
static unsigned char before[FDS];

static int stays_open(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* Those that are open, by one call: a call for each number would be most of what a child costs. */
static void find_open(struct pollfd fds[FDS])
{
    for (int fd = 0; fd < FDS; fd++)
        fds[fd] = (struct pollfd){.fd = fd};
    /* No more at once than there may be. */
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    (void)poll(fds, limit.rlim_cur < FDS ? limit.rlim_cur : FDS, 0);
}

static int find_leaks(void)
{
    static struct pollfd fds[FDS];
    int n = 0;

    find_open(fds);
    for (int fd = 0; fd < FDS; fd++) {
        char path[64], what[128];
        if (before[fd] || fds[fd].revents & POLLNVAL || !stays_open(fd))
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, what, sizeof what - 1);
        what[len > 0 ? len : 0] = 0;
        dprintf(2, "bother: a child has descriptor %d, %s\n", fd, what);
        n++;
    }
    return n;
}

static void be_a_child(unsigned long number)
{
    int n = find_leaks();

    if (n)
        _exit(LEAKS);
    unsetenv("LD_PRELOAD");
    if (number % 3 == 0)
        execlp("true", "true", (char *)NULL);
    if (number % 3 == 1)
        _exit(0);
    exit(0);
}

static void *make_children(void *arg)
{
    (void)arg;
    for (unsigned long i = 0;; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            be_a_child(i);
        if (child > 0 && waitpid(child, &status, 0) == child) {
            atomic_fetch_add(&children, 1);
            atomic_fetch_add(&leaks, WIFEXITED(status) && WEXITSTATUS(status) == LEAKS);
        }
        usleep(50000);
    }
    return NULL;
}

/* --- threads ---------------------------------------------------------------------------------- */

/* Those of the double of libibverbs and of the test are theirs. */
static int is_plugin(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libnccl-net");
}

static int is_refused(void)
{
    unsigned long number = atomic_fetch_add(&asked, 1) + 1;
    char file[32];

    snprintf(file, sizeof file, "nothreads.%d", (int)started);
    return (refused_one && number == refused_one) ||
           (refused_one && from_then_on && number > refused_one) ||
           (refusing && !access(file, F_OK));
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                   void *(*run)(void *), void *restrict arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &symbol, sizeof real);
    }
    if (is_plugin(__builtin_return_address(0)) && is_refused()) {
        atomic_fetch_add(&refused, 1);
        return EAGAIN;
    }
    return real(thread, attr, run, arg);
}

static void refuse(const char *words)
{
    const char *word = strstr(words, "thread=");
    char *end;

    refusing = strstr(words, "nothreads") != NULL;
    if (!word)
        return;
    refused_one = strtoul(strchr(word, '=') + 1, &end, 10);
    from_then_on = *end == '+';
}

/* --- all of it -------------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void)
{
    const char *words = getenv("BOTHER");
    sigset_t all, old;
    pthread_t thread;

    started = getpid();
    if (!words)
        return;
    jumping = strstr(words, "clock") != NULL;
    refuse(words);
    if (strstr(words, "fork")) {
        for (int fd = 0; fd < FDS; fd++)
            before[fd] = fcntl(fd, F_GETFD) >= 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        if (!pthread_create(&thread, NULL, make_children, NULL))
            pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (strstr(words, "alarm"))
        send_alarms();
}

__attribute__((destructor)) static void end(void)
{
    if (started == getpid() && getenv("BOTHER"))
        dprintf(2, "bother: %lu signals, %lu children, %lu leaks, %lu jumps, %lu threads refused\n",
                atomic_load(&signals), atomic_load(&children), atomic_load(&leaks),
                atomic_load(&jumps), atomic_load(&refused));
}
