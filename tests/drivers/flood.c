/* One good peer among strangers: both its ends are here, called every 50 ms, while other processes
 * fill the ports of its listeners.
 *
 *   flood --lib PATH [--ports N] [--silent N] [--half N] [--hellos N] [--times N] [--within MS]
 *         [--cut 1]
 *
 * --silent: sockets held open on each port that say nothing. --half: sockets in all that say half
 * of a first frame. --hellos: first frames a second from who does not have the handle, at the port
 * in use. What is closed by the listener is opened anew, 200 a second and port. Where the plugin
 * has a door for connections that come back, it is a port more, with as many wrong RETURNs. --cut
 * 1, over RDMA: each control connection is cut once and must come back. Connects --times times;
 * prints how long that took, the descriptors in use and what memory grew by. Exit status 1 when a
 * connection failed, did not come back or (with --within) one took longer. The plugin's process
 * keeps to 1024 descriptors. */
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
#include "plugin/abi/nccl_abi.h"
#include "plugin/reopen_impl.h"
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
    atomic_int port[MAX_PORTS + 1]; /* 0: not listening yet; the last used is the door */
    atomic_int target;              /* port under the flood of HELLOs */
    atomic_int held;                /* sockets open now */
    atomic_ulong opened, hellos, returns;
};

static struct shared *shared;
static int n_ports = 16, silent = 1000, half = 10000, hellos = 3000, times = 20, within, cuts;
static int retried, back;

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* --- strangers -------------------------------------------------------------------------------- */

static size_t make_frame(uint8_t *frame, enum mn_frame type, int size)
{
    const uint8_t header[8] = {'M', 'S', 'F', '1', (uint8_t)type, 0, (uint8_t)size, 0};

    memcpy(frame, header, sizeof header);
    for (int i = 0; i < size; i++)
        frame[8 + i] = (uint8_t)rand();
    return 8 + (size_t)size;
}

static size_t make_hello(uint8_t *frame)
{
    size_t len = make_frame(frame, MN_FRAME_HELLO, MN_HELLO_SIZE);

    frame[8] = MN_PROTOCOL_VERSION;
    return len;
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

/* HELLOs at the port in use, or RETURNs at the door. */
static void say_first(int at_door)
{
    static int ring[RING];
    uint8_t frame[8 + MN_HELLO_SIZE + MN_RETURN_SIZE];
    struct timespec ts;
    double begun = 0;

    memset(ring, -1, sizeof ring);
    (void)port_of(at_door ? n_ports : 0);
    for (unsigned long n = 0;; nap(1)) {
        clock_gettime(CLOCK_MONOTONIC, &ts);
        double now = (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
        begun = begun > 0 ? begun : now;
        for (int burst = 0; (double)n < (now - begun) * hellos && burst < 200; n++, burst++) {
            int *fd = &ring[n % RING];
            if (*fd >= 0)
                close(*fd);
            size_t len =
                at_door ? make_frame(frame, MN_FRAME_RETURN, MN_RETURN_SIZE) : make_hello(frame);
            *fd = reach(at_door ? port_of(n_ports) : atomic_load(&shared->target), frame, len);
            atomic_fetch_add(at_door ? &shared->returns : &shared->hellos, *fd >= 0);
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
    back += strstr(line, "control connection was opened again") != NULL;
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

static int port_at(int fd, int of_peer)
{
    struct sockaddr_in in = {.sin_family = AF_UNSPEC};
    socklen_t len = sizeof in;
    int error = of_peer ? getpeername(fd, (struct sockaddr *)&in, &len)
                        : getsockname(fd, (struct sockaddr *)&in, &len);

    return !error && in.sin_family == AF_INET ? ntohs(in.sin_port) : 0;
}

/* The port that listens and is none of the listeners'. */
static int find_door(const int *ports)
{
    for (int fd = 3; fd < PLUGIN_FILES; fd++) {
        int listens = 0, port = port_at(fd, 0), i = 0;
        socklen_t len = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens)
            continue;
        while (i < n_ports && ports[i] != port)
            i++;
        if (port && i == n_ports)
            return port;
    }
    return 0;
}

/* Resets the one connection whose ends are both here. */
static int cut(void)
{
    static const struct sockaddr none = {.sa_family = AF_UNSPEC};

    for (int fd = 3; fd < PLUGIN_FILES; fd++)
        for (int k = 3; k < fd && port_at(fd, 1); k++)
            if (port_at(k, 0) == port_at(fd, 1) && port_at(k, 1) == port_at(fd, 0))
                return connect(fd, &none, sizeof none) == 0;
    return 0;
}

/* 0, or why not: both ends of a connection that is cut have it again, and are of use. */
static const char *come_back(struct mn_plugin *p, void **listens, void *send, void *recv)
{
    static char from[64], to[64];
    uint64_t begun = mn_now_ms();
    void *send_mr, *recv_mr, *sent = NULL, *received = NULL, *at = to, *none = NULL;
    size_t size = sizeof to;
    int other = 1, tag = 2, done = 0, all = 0;

    back = 0;
    if (mn_plugin_reg_mr(p, send, from, sizeof from, NCCL_PTR_HOST, &send_mr) ||
        mn_plugin_reg_mr(p, recv, to, sizeof to, NCCL_PTR_HOST, &recv_mr) ||
        mn_plugin_irecv(p, recv, 1, &at, &size, &tag, &recv_mr, &received) || !cut())
        return "it could not be cut";
    /* Both wait: nothing is received with the other tag. */
    for (int n = 0; back < 2 && mn_now_ms() - begun < GIVE_UP_MS; n++)
        if (mn_plugin_isend(p, send, from, sizeof from, other, send_mr, &sent) ||
            mn_plugin_test(p, received, &done, &all) ||
            (n % 100000 == 0 && poll_all(p, listens, -1, &none)))
            return "its queue pairs did not go on";
    while (!done && mn_now_ms() - begun < GIVE_UP_MS)
        if ((!sent && mn_plugin_isend(p, send, from, sizeof from, tag, send_mr, &sent)) ||
            mn_plugin_test(p, received, &done, &all))
            return "nothing went through";
    for (int over = 0; sent && !over && mn_now_ms() - begun < GIVE_UP_MS;)
        if (mn_plugin_test(p, sent, &over, &all))
            return "the sender failed";
    mn_plugin_dereg_mr(p, send, send_mr);
    mn_plugin_dereg_mr(p, recv, recv_mr);
    return back == 2 && done ? NULL : "it did not come back";
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
    const char *why = took >= 0 && cuts ? come_back(p, listens, send, recv) : NULL;
    if (why) {
        printf("cut: %s\n", why);
        took = -1;
    }
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
    atomic_store(&shared->port[n_ports], find_door(ports));
    if (connect_once(p, listens, handles[0], 0) < 0)
        return printf("no connection even while they gather\n"), 1;
    atomic_store(&shared->target, atomic_load(&shared->port[0]));
    for (uint64_t end = mn_now_ms() + WARM_UP_MS; mn_now_ms() < end; nap(POLL_MS)) {
        if (poll_all(p, listens, -1, &none))
            return 2;
        if (atomic_load(&shared->held) > ((n_ports * silent + half) * 9) / 10)
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
    if (atomic_load(&shared->port[n_ports]))
        printf("at the door: %lu RETURNs that were none\n", atomic_load(&shared->returns));
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
    } numbers[] = {{"ports", &n_ports}, {"silent", &silent}, {"half", &half}, {"hellos", &hellos},
                   {"times", &times},   {"within", &within}, {"cut", &cuts}};
    const struct option options[] = {{"lib", 1, NULL, 'l'},  {"ports", 1, NULL, 0},
                                     {"silent", 1, NULL, 1}, {"half", 1, NULL, 2},
                                     {"hellos", 1, NULL, 3}, {"times", 1, NULL, 4},
                                     {"within", 1, NULL, 5}, {"cut", 1, NULL, 6},
                                     {NULL, 0, NULL, 0}};
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
    for (int i = 0; i <= n_ports; i++)
        start(hold, i);
    if (hellos) {
        start(say_first, 0);
        start(say_first, 1);
    }
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
