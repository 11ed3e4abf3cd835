/* Lets the n-th allocation within the plugin's calls fail, n after n, each in a child of its own:
 *
 *   nomem_walk LIBRARY MODE FIRST LAST STEP
 *
 * MODE is once or on (that and all later ones). A child goes from init to finalize with a message
 * in between. What may come out is success, or an error that the log explains; then everything is
 * closed, no memory, descriptor or thread may be left, and the same once more, with memory, must
 * work. It ends at LAST, or where no allocation fails any more. */
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "tests/nomem/nomem.h"

#define PATIENCE_S 20 /* of one child's attempt; longer than the plugin's own deadlines */
#define SIZE       (64u << 10)

/* What a child says by its exit status. */
enum { UNTOUCHED = 10, TOUCHED, BAD };

static const ncclNet_v11_t *net;
static char said[1024]; /* the last warning */
static const char *step;

static void on_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...)
{
    va_list args;

    (void)flags;
    (void)file;
    (void)line;
    if (level != NCCL_LOG_WARN)
        return;
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int count(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* A thread that was joined may be listed for a moment still. */
static int threads(int wanted)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    int n = count("/proc/self/task");

    for (int i = 0; i < 1000 && n > wanted; i++) {
        nanosleep(&moment, NULL);
        n = count("/proc/self/task");
    }
    return n;
}

struct ends {
    void *ctx, *listener, *send, *recv, *from_mh, *to_mh;
    char handle[NCCL_NET_HANDLE_MAXSIZE] __attribute__((aligned(8)));
    double end;
};

static uint8_t from[SIZE], to[SIZE];

static int going(int result, const struct ends *e)
{
    return result == ncclSuccess && now() < e->end;
}

static int connect_ends(struct ends *e)
{
    step = "listen";
    int result = (int)net->listen(e->ctx, 0, e->handle, &e->listener);

    while (going(result, e) && (!e->send || !e->recv)) {
        step = "connect";
        if (!e->send)
            result = (int)net->connect(e->ctx, 0, e->handle, &e->send, NULL);
        if (!result)
            step = "accept";
        if (!result && !e->recv)
            result = (int)net->accept(e->listener, &e->recv, NULL);
    }
    if (!result && (!e->send || !e->recv))
        result = -1;
    return result;
}

static int pass(struct ends *e)
{
    void *requests[2] = {NULL, NULL}, *at = to;
    int done[2] = {0, 0}, sizes[8] = {0}, tag = 0, result = 0;
    size_t size = SIZE;

    step = "transfer";
    while (going(result, e) && !requests[0])
        result = (int)net->irecv(e->recv, 1, &at, &size, &tag, &e->to_mh, NULL, &requests[0]);
    while (going(result, e) && !requests[1])
        result = (int)net->isend(e->send, from, SIZE, tag, e->from_mh, NULL, &requests[1]);
    while (going(result, e) && (!done[0] || !done[1]))
        for (int i = 0; i < 2 && !result; i++)
            if (!done[i])
                result = (int)net->test(requests[i], &done[i], sizes);
    if (!result && (!done[0] || !done[1]))
        result = -1;
    if (!result && memcmp(from, to, SIZE) != 0) {
        step = "what arrived";
        result = -1;
    }
    return result;
}

/* From init to finalize: 0, NCCL's word for the error, -1 when it took too long or broke its word.
 */
static int attempt(void)
{
    struct ends e = {.end = now() + PATIENCE_S};
    ncclNetCommConfig_v11_t config = {-1};
    ncclNetProperties_v11_t props;
    int devices = 0;

    step = "init";
    said[0] = 0;
    memset(from, 0x5a, SIZE);
    memset(to, 0, SIZE);
    int result = (int)net->init(&e.ctx, 1, &config, on_log, NULL);
    if (result)
        return result;
    step = "devices";
    result = (int)net->devices(&devices);
    if (!result && devices < 1)
        result = -1;
    step = result ? step : "getProperties";
    if (!result)
        result = (int)net->getProperties(0, &props);
    if (!result)
        result = connect_ends(&e);
    step = result ? step : "regMr";
    if (!result)
        result = (int)net->regMr(e.send, from, SIZE, NCCL_PTR_HOST, &e.from_mh);
    if (!result)
        result = (int)net->regMr(e.recv, to, SIZE, NCCL_PTR_HOST, &e.to_mh);
    if (!result)
        result = pass(&e);
    /* As NCCL does after an error: what there is is closed. */
    if (e.from_mh)
        net->deregMr(e.send, e.from_mh);
    if (e.to_mh)
        net->deregMr(e.recv, e.to_mh);
    if (e.send)
        net->closeSend(e.send);
    if (e.recv)
        net->closeRecv(e.recv);
    if (e.listener)
        net->closeListen(e.listener);
    net->finalize(e.ctx);
    return result;
}

/* Where nothing fails, a busy machine is given time; where something does, the mesh file says when
 * to give up. */
static void be_patient(int patient)
{
    static const char *const names[] = {"MESHNET_HANDSHAKE", "MESHNET_CONNECT"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (patient)
            setenv(names[i], "15s", 1);
        else
            unsetenv(names[i]);
}

static int complain(long n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int complain(long n, const char *fmt, ...)
{
    void *frames[24];
    int depth = nomem_failed_at(frames, 24);
    va_list args;

    printf("allocation %ld: ", n);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    puts(depth ? "; it was asked for by" : "");
    fflush(stdout);
    backtrace_symbols_fd(frames, depth, STDOUT_FILENO);
    return BAD;
}

/* Where a signal found it, and which allocation had failed. */
static long current;
static void on_signal(int number)
{
    void *frames[24];

    nomem_disarm();
    complain(current, "signal %d in %s", number, step);
    puts("and it happened in");
    fflush(stdout);
    backtrace_symbols_fd(frames, backtrace(frames, 24), STDOUT_FILENO);
    _exit(BAD);
}

static int child(long n, int on)
{
    int fds = count("/proc/self/fd"), tasks = count("/proc/self/task");
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    size_t size = 0;
    void *caller = NULL;

    current = n;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_signal);
    alarm(3 * PATIENCE_S);
    be_patient(0);
    nomem_mark();
    nomem_arm(n, on);
    int result = attempt();
    long seen = nomem_disarm();
    if (result < 0)
        return complain(n, "%s neither worked nor failed in %d s, last warning: %s", step,
                        PATIENCE_S, said);
    if (result && !said[0])
        return complain(n, "%s failed with %d and said nothing", step, result);
    if (threads(tasks) != tasks)
        return complain(n, "%d threads are left after an error in %s", threads(tasks) - tasks,
                        step);
    if (count("/proc/self/fd") != fds)
        return complain(n, "%d descriptors are left, error %d in %s", count("/proc/self/fd") - fds,
                        result, step);
    dlerror(); /* the last error of the loader is kept until it is asked for, */
    dlerror(); /* and given up with the next question */
    size_t left = nomem_left(&caller, &size);
    if (left) {
        int bad = complain(n, "%zu blocks are left, error %d in %s; one of %zu bytes", left, result,
                           step, size);
        puts("and what is left by");
        fflush(stdout);
        backtrace_symbols_fd(&caller, 1, STDOUT_FILENO);
        return bad;
    }
    be_patient(1);
    if (attempt())
        return complain(n, "with memory again, %s failed: %s", step, said);
    return seen < n ? UNTOUCHED : TOUCHED;
}

/* The child's word, or BAD when it died. */
static int walk_one(long n, int on)
{
    int status;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(n, on));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return BAD;
    int word = WIFEXITED(status) ? WEXITSTATUS(status) : BAD;
    if (WIFSIGNALED(status))
        printf("allocation %ld: the process died of signal %d\n", n, WTERMSIG(status));
    else if (word < UNTOUCHED || word > BAD)
        printf("allocation %ld: the process was ended with status %d\n", n, word);
    return word == UNTOUCHED || word == TOUCHED ? word : BAD;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    int on = !strcmp(argv[2], "on"), bad = 0;
    long first = atol(argv[3]), last = atol(argv[4]), by = atol(argv[5]), n, tried = 0;
    int untouched = 0;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

    setvbuf(stdout, NULL, _IOLBF, 0);
    net = library ? dlsym(library, "ncclNetPlugin_v11") : NULL;
    if (!net) {
        printf("%s: %s\n", argv[1], dlerror());
        return 2;
    }
    /* By then the libraries have what they keep. */
    be_patient(1);
    for (int i = 0; i < 2; i++)
        if (attempt()) {
            printf("with all memory, %s failed: %s\n", step, said);
            return 2;
        }
    for (n = first; n <= last; n += by, tried++) {
        int word = walk_one(n, on);
        bad += word == BAD;
        untouched = word == UNTOUCHED ? untouched + 1 : 0;
        if (word == UNTOUCHED && tried == 0) {
            printf("allocation %ld was never asked for: is libnomem.so the allocator?\n", n);
            return 2;
        }
        if (untouched == 3) /* threads make their number vary */
            break;
    }
    printf("%ld places tried up to allocation %ld, %d bad\n", tried, n, bad);
    return bad != 0;
}
