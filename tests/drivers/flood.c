/* One good peer among strangers: both its ends are here, called every 50 ms, while other processes
 * fill the ports of its listeners.
 *
 *   flood --lib PATH [--ports N] [--silent N] [--half N] [--hellos N] [--times N] [--within MS]
 *
 * --silent: sockets held open on each port that say nothing. --half: sockets in all that say half
 * of a first frame. --hellos: first frames a second from who does not have the handle, at the port
 * in use. What is closed by the listener is opened anew, 200 a second and port. Connects --times
 * times; prints how long that took, the descriptors in use and what memory grew by. Exit status 1
 * when a connection failed or (with --within) one took longer. The plugin's process keeps to 1024
 * descriptors. */
#include <dirent.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/host.h"
#include "plugin/conn.h"
#include "topo/base/alloc.h"

#define MAX_PORTS    64
#define MAX_TIMES    1000
#define POLL_MS      50
#define ROUND_MS     20
#define REOPENED     4 /* a round and port */
#define RING         2048
#define GIVE_UP_MS   70000
#define WARM_UP_MS   20000 /* at most, until nine of ten strangers are there */
#define PLUGIN_FILES 1024

/* What the processes tell each other. */
struct shared {
    atomic_int port[MAX_PORTS]; /* 0: not listening yet */
    atomic_int target;          /* port under the flood of HELLOs */
    atomic_int held;            /* sockets open now */
    atomic_ulong opened, hellos;
};

static struct shared *shared;
static int n_ports = 16, silent = 1000, half = 10000, hellos = 3000, times = 20, within;
static int retried;

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* --- strangers -------------------------------------------------------------------------------- */

static size_t make_hello(uint8_t *frame)
{
    static const uint8_t header[8] = {'M', 'S', 'F', '1', MN_FRAME_HELLO, 0, MN_HELLO_SIZE, 0};

    memcpy(frame, header, sizeof header);
    frame[8] = MN_PROTOCOL_VERSION;
    for (int i = 1; i < MN_HELLO_SIZE; i++)
        frame[8 + i] = (uint8_t)rand();
    return 8 + MN_HELLO_SIZE;
}

static int reach(int port, const void *bytes, size_t len)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* Its end leaves nothing behind that would use up the ports of this host. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){1, 0}, sizeof(struct timeval));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) ||
        (len && send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)) {
        close(fd);
        return -1;
    }
    atomic_fetch_add(&shared->opened, 1);
    return fd;
}

static int port_of(int i)
{
    while (!atomic_load(&shared->port[i]))
        nap(10);
    return atomic_load(&shared->port[i]);
}

/* Holds its share of the silent sockets and of the half frames at one port. */
static void hold(int i)
{
    int most = silent + half / n_ports, n = 0, port = port_of(i);
    struct pollfd *fds = calloc((size_t)most, sizeof *fds);
    uint8_t hello[8 + MN_HELLO_SIZE];

    if (!fds)
        _exit(1);
    (void)make_hello(hello);
    for (int first = 1;; first = 0, nap(ROUND_MS)) {
        for (int k = 0; k < n; k++)
            fds[k].events = POLLIN;
        if (n && poll(fds, (nfds_t)n, 0) > 0)
            for (int k = n - 1; k >= 0; k--)
                if (fds[k].revents) {
                    close(fds[k].fd);
                    fds[k] = fds[--n];
                    atomic_fetch_sub(&shared->held, 1);
                }
        for (int opened = 0; n < most && (first || opened < REOPENED); opened++) {
            int fd = reach(port, hello, rand() % most < silent ? 0 : 5);
            if (fd < 0)
                break;
            fds[n++].fd = fd;
            atomic_fetch_add(&shared->held, 1);
        }
    }
}

static void say_hello(int i)
{
    static int ring[RING];
    uint8_t hello[8 + MN_HELLO_SIZE];
    struct timespec ts;
    double begun = 0;

    (void)i;
    memset(ring, -1, sizeof ring);
    (void)port_of(0);
    for (unsigned long n = 0;; nap(1)) {
        clock_gettime(CLOCK_MONOTONIC, &ts);
        double now = (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
        begun = begun > 0 ? begun : now;
        for (int burst = 0; (double)n < (now - begun) * hellos && burst < 200; n++, burst++) {
            int *fd = &ring[n % RING];
            if (*fd >= 0)
                close(*fd);
            *fd = reach(atomic_load(&shared->target), hello, make_hello(hello));
            atomic_fetch_add(&shared->hellos, *fd >= 0);
        }
    }
}

static void start(void (*stranger)(int), int i)
{
    struct rlimit files;
    pid_t parent = getpid();

    if (fork())
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (stranger == hold) /* strangers have processors of their own */
        (void)setpriority(PRIO_PROCESS, 0, 10);
    if (getppid() != parent)
        _exit(1);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    srand((unsigned)i + 1);
    stranger(i);
    _exit(0);
}

/* --- the good peer ---------------------------------------------------------------------------- */

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level > 2)
        return;
    retried += strstr(line, "trying ") != NULL;
    printf("# %s\n", line);
}

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static int most_descriptors;
static uint64_t longest_ms; /* of a round of accept calls */

/* Calls every listener once, as a process with many would; the one at `at` may give a comm. */
static int poll_all(struct mn_plugin *p, void **listens, int at, void **recv)
{
    uint64_t begun = mn_now_ms();
    int result = 0, open;

    for (int i = 0; i < n_ports && !result; i++) {
        void *other = NULL;
        if (i == at && *recv)
            continue;
        result = mn_plugin_accept(p, listens[i], i == at ? recv : &other);
        if (other)
            return printf("accept gave a comm to a stranger\n"), 3;
    }
    longest_ms = mn_now_ms() - begun > longest_ms ? mn_now_ms() - begun : longest_ms;
    open = descriptors();
    most_descriptors = open > most_descriptors ? open : most_descriptors;
    return result;
}

/* Milliseconds, or -1. */
static long connect_once(struct mn_plugin *p, void **listens, const uint8_t *handle, int at)
{
    uint64_t begun = mn_now_ms();
    uint8_t copy[MN_HANDLE_SIZE];
    void *send = NULL, *recv = NULL;
    int result = 0;

    memcpy(copy, handle, sizeof copy);
    while (!result && !(send && recv) && mn_now_ms() - begun < GIVE_UP_MS) {
        if (!send)
            result = mn_plugin_connect(p, 0, copy, &send);
        if (!result)
            result = poll_all(p, listens, at, &recv);
        if (!result && !(send && recv))
            nap(POLL_MS);
    }
    long took = result || !send || !recv ? -1 : (long)(mn_now_ms() - begun);
    if (send)
        mn_plugin_close_send(p, send);
    if (recv)
        mn_plugin_close_recv(p, recv);
    return took;
}

static int by_value(const void *a, const void *b)
{
    const long *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int be_good(struct mn_plugin *p)
{
    static uint8_t handles[MAX_PORTS][MN_HANDLE_SIZE];
    static void *listens[MAX_PORTS];
    static long took[MAX_TIMES];
    int ports[MAX_PORTS];
    struct mn_handle h;
    void *none = NULL;
    int failed = 0, slow = 0;

    for (int i = 0; i < n_ports; i++)
        if (mn_plugin_listen(p, 0, handles[i], &listens[i]) ||
            mn_handle_read(handles[i], NULL, &h, NULL))
            return printf("listen failed\n"), 2;
        else
            ports[i] = h.port;
    long before = peak_kib();
    int calm = descriptors();
    for (int i = 0; i < n_ports; i++)
        atomic_store(&shared->port[i], ports[i]);
    if (connect_once(p, listens, handles[0], 0) < 0)
        return printf("no connection even while they gather\n"), 1;
    atomic_store(&shared->target, atomic_load(&shared->port[0]));
    for (uint64_t end = mn_now_ms() + WARM_UP_MS; mn_now_ms() < end; nap(POLL_MS)) {
        if (poll_all(p, listens, -1, &none))
            return 2;
        if (atomic_load(&shared->held) > (n_ports * silent + half) * 9 / 10)
            break;
    }
    printf("strangers: %d sockets held at the start\n", atomic_load(&shared->held));
    unsigned long hellos_before = atomic_load(&shared->hellos);
    uint64_t begun = mn_now_ms();
    for (int i = 0; i < times; i++) {
        atomic_store(&shared->target, atomic_load(&shared->port[i % n_ports]));
        took[i] = connect_once(p, listens, handles[i % n_ports], i % n_ports);
        failed += took[i] < 0;
        slow += within && took[i] > within;
    }
    printf("strangers: %d sockets held at the end, %lu opened in all, %lu HELLOs a second\n",
           atomic_load(&shared->held), atomic_load(&shared->opened),
           (atomic_load(&shared->hellos) - hellos_before) * 1000 /
               (unsigned long)(mn_now_ms() - begun + 1));
    for (int i = 0; i < times; i++)
        took[i] = took[i] < 0 ? GIVE_UP_MS : took[i];
    qsort(took, (size_t)times, sizeof *took, by_value);
    printf("connected: %d of %d, median %ld ms, slowest %ld ms, %d attempts repeated\n",
           times - failed, times, took[times / 2], took[times - 1], retried);
    printf("a round of accept calls took %llu ms at most\n", (unsigned long long)longest_ms);
    printf("descriptors: %d before, at most %d\n", calm, most_descriptors);
    printf("memory: peak %ld KiB, %ld KiB more than before\n", peak_kib(), peak_kib() - before);
    for (int i = 0; i < n_ports; i++)
        mn_plugin_close_listen(p, listens[i]);
    return failed || slow || !atomic_load(&shared->opened);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int *value;
    } numbers[] = {{"ports", &n_ports}, {"silent", &silent}, {"half", &half},
                   {"hellos", &hellos}, {"times", &times},   {"within", &within}};
    const struct option options[] = {{"lib", 1, NULL, 'l'},  {"ports", 1, NULL, 0},
                                     {"silent", 1, NULL, 1}, {"half", 1, NULL, 2},
                                     {"hellos", 1, NULL, 3}, {"times", 1, NULL, 4},
                                     {"within", 1, NULL, 5}, {NULL, 0, NULL, 0}};
    struct rlimit files;
    struct mn_plugin *p;
    struct mn_diag diag;
    const char *library = NULL;
    int c;

    setvbuf(stdout, NULL, _IOLBF, 0);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'l')
            library = optarg;
        else if (c == '?')
            return 2;
        else
            *numbers[c].value = atoi(optarg);
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!library || shared == MAP_FAILED || n_ports < 1 || n_ports > MAX_PORTS || times < 1 ||
        times > MAX_TIMES || silent + half / n_ports < 1)
        return 2;
    /* Before there are threads. */
    for (int i = 0; i < n_ports; i++)
        start(hold, i);
    if (hellos)
        start(say_hello, n_ports);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = PLUGIN_FILES < files.rlim_max ? PLUGIN_FILES : files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (mn_plugin_open(library, 0, &p, &diag))
        return puts(diag.text), 2;
    mn_plugin_set_log(p, on_log, NULL);
    c = mn_plugin_init(p) ? 2 : be_good(p);
    mn_plugin_close(p);
    return c;
}
