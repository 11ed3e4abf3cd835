/* What many cycles leave behind, and how a process ends: communicators come and go for days. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/kit.h"
#include "bench/check/leak.h"
#include "bench/check/peer.h"

#define CYCLES    48
#define REG_TURNS 4000
#define MESSAGES  4000

struct leak {
    struct mn_leak leak;
    struct mn_check *check;
    struct mn_pair pair;
    struct mn_buf out, in;
    unsigned char area[65536];
};

static void connection(void *ctx)
{
    struct leak *leak = ctx;
    struct mn_pair pair;

    mn_kit_connect(leak->check, &pair);
    mn_kit_pass(leak->check, &pair, 1000, 1000, 1);
    mn_kit_close(leak->check, &pair);
}

static void registration(void *ctx)
{
    struct leak *leak = ctx;
    void *comm = leak->pair.recv, *mhandle = NULL;

    mn_check_ok(leak->check, "regMr",
                mn_raw_reg(&leak->check->raw, comm, leak->area, sizeof leak->area, &mhandle));
    mn_check_ok(leak->check, "deregMr", mn_raw_dereg(&leak->check->raw, comm, mhandle));
}

static void message(void *ctx)
{
    struct leak *leak = ctx;
    struct mn_req send, recv;

    mn_kit_irecv(leak->check, leak->pair.recv, &leak->in, 512, 0, &recv);
    mn_kit_isend(leak->check, leak->pair.send, &leak->out, 512, 0, &send);
    mn_kit_wait2(leak->check, &recv, &send);
}

static void listening(void *ctx)
{
    struct leak *leak = ctx;
    struct mn_pair pair;

    mn_kit_listen(leak->check, 0, &pair);
    mn_check_ok(leak->check, "closeListen", mn_raw_close_listen(&leak->check->raw, pair.listen));
}

static void judge(struct mn_check *check, void (*cycle)(void *ctx), int cycles, const char *unit)
{
    static struct leak leak; /* large; one rule a process */

    leak = (struct leak){.check = check,
                         .leak = {check, cycle, &leak, cycles, mn_leak_heap, MN_LEAK_LEAST,
                                  "memory in use", unit}};
    mn_check_init(check);
    if (cycle == registration || cycle == message)
        mn_kit_connect(check, &leak.pair);
    if (cycle == message) {
        mn_kit_buf(check, leak.pair.send, 512, 0, &leak.out);
        mn_kit_buf(check, leak.pair.recv, 512, 0, &leak.in);
    }
    mn_leak_judge(&leak.leak);
}

static void check_memory(struct mn_check *check)
{
    judge(check, connection, CYCLES, "connection");
}

static void check_registrations(struct mn_check *check)
{
    judge(check, registration, REG_TURNS, "registration");
}

static void check_messages(struct mn_check *check)
{
    judge(check, message, MESSAGES, "message");
}

static void check_listens(struct mn_check *check)
{
    judge(check, listening, 4 * CYCLES, "listen comm");
}

static void check_mappings(struct mn_check *check)
{
    static struct leak leak;

    leak = (struct leak){.check = check,
                         .leak = {check, connection, &leak, CYCLES, mn_leak_mapped, 4096,
                                  "mapped memory", "connection"}};
    mn_check_init(check);
    mn_leak_judge(&leak.leak);
}

/* As most programs end: with everything open. */
static void leave_by_exit(struct mn_check *check, int fd)
{
    struct mn_pair pair, half;
    struct mn_buf in;
    struct mn_req recv;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 5000, 5000, 1);
    mn_kit_buf(check, pair.recv, 5000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 5000, 0, &recv);
    mn_kit_test(check, &recv);
    mn_kit_listen(check, 0, &half);
    mn_peer_tell(check, fd, "e", 1);
    mn_check_step(check, "exit() with a connection and a listen comm open");
    exit(0);
}

static int await_end(struct mn_check *check, pid_t pid, const char *what)
{
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (mn_check_expired(check))
            mn_check_fail(check, "%s does not come to its end", what);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return status;
}

static void check_exit(struct mn_check *check)
{
    struct mn_peer peer;
    int status;

    mn_peer_start(check, leave_by_exit, &peer);
    mn_peer_hear(check, peer.fd, &(char){0}, 1);
    status = await_end(check, peer.pid, "a process that calls exit() with comms open");
    if (WIFSIGNALED(status))
        mn_check_fail(check, "exit() with comms open crashed with SIG%s",
                      sigabbrev_np(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        mn_check_fail(check, "exit(0) with comms open ended with status %d", WEXITSTATUS(status));
}

/* A data loader's process: a copy that never calls the plugin, and exits before its parent. */
static void check_fork(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 5000, 5000, 1);
    for (unsigned i = 0; i < 2; i++) {
        pid_t pid = mn_check_fork(check);
        if (pid == 0) {
            if (i == 0)
                exit(0);
            _exit(0);
        }
        mn_check_step(check, "a forked copy of the process ends");
        await_end(check, pid, "a forked copy that calls exit()");
        mn_check_step(check, "transfers after a forked copy has ended");
        mn_kit_pass(check, &pair, 50000, 50000, i);
    }
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 5000, 5000, 2);
}

static const struct mn_check_rule rules[] = {
    {"life.memory", "connections leave no memory behind",
     "what connect and accept allocate, the closes free", check_memory, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeSend, closeRecv): NCCL does not count; a service that makes "
                 "communicators for every task grows",
     .breaks = "A service that makes communicators for every task grows until it is killed."},
    {"life.listens", "listen comms leave no memory behind",
     "what listen allocates, closeListen frees", check_listens, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeListen): NCCL does not count; a service that makes "
                 "communicators for every task grows",
     .breaks = "A service that makes communicators for every task grows until it is killed."},
    {"life.registrations", "registrations leave no memory behind",
     "what regMr allocates, deregMr frees", check_registrations, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (regMr, deregMr): NCCL does not count; a job that registers its "
                 "tensors grows",
     .breaks = "A job that registers its tensors grows until it is killed."},
    {"life.messages", "messages leave no memory behind", "a request is recycled once it was done",
     check_messages, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (test): NCCL does not count; a job grows with every step",
     .breaks = "Every job grows until it is killed."},
    {"life.mappings", "connections leave no mapped memory behind",
     "queues and buffers mapped for a connection go with it", check_mappings,
     .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeSend, closeRecv): NCCL does not count; pinned memory and "
                 "addresses run out",
     .breaks = "A service that makes communicators for every task runs out of addresses or pinned "
               "memory."},
    {"life.exit", "a process may exit with everything open",
     "programs end without destroying their communicators; destructors cope", check_exit,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: still polls while exit() runs "
                 "destructors; nothing is finalized at exit",
     .breaks = "Every job ends with a crash, or its processes stay."},
    {"life.fork", "a forked copy that ends leaves the connections alone",
     "frameworks fork workers that never call the library and exit before their parent", check_fork,
     .grade = MN_CHECK_SHOULD,
     .evidence =
         "POSIX fork(); data loaders of frameworks fork: NCCL promises nothing after a fork",
     .breaks = "Training stops when the first worker process ends."},
};

MN_CHECK_FAMILY(mn_check_life_family, "life", "life cycle", rules);
