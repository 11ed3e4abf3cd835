/* Ending: in any state, in any order, leaving nothing behind. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/check/kit.h"
#include "bench/check/remote.h"
#include "bench/host.h"

#define CYCLES     40
#define WARM_UP    8
#define IDLE_TESTS 400
#define SIZE       60000

static void check_idle(struct mn_check *check)
{
    mn_check_init(check);
    for (int i = 0; i < 4; i++) {
        struct mn_pair pair;
        mn_kit_connect(check, &pair);
        if (i >= 2)
            mn_kit_pass(check, &pair, 1000, 1000, 1);
        if (i % 2) {
            mn_kit_close(check, &pair);
            continue;
        }
        mn_check_step(check, "closeRecv");
        mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
        mn_check_step(check, "closeSend");
        mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    }
}

static void check_half_open(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    for (int calls = 1; calls <= 4; calls++) {
        mn_kit_listen(check, 0, &pair);
        mn_check_step(check, "closeListen after %d connect calls, never accepted", calls);
        for (int i = 0; i < calls; i++)
            mn_kit_try_connect(check, &pair);
        mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
        if (pair.send)
            mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    }
    mn_check_step(check, "a connection after those given up");
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 1);
}

static void check_in_flight(struct mn_check *check)
{
    mn_check_init(check);
    for (int order = 0; order < 2; order++) {
        struct mn_pair pair;
        struct mn_buf out, in;
        struct mn_req send, recv;
        mn_kit_connect(check, &pair);
        mn_kit_buf(check, pair.send, SIZE, 0, &out);
        mn_kit_buf(check, pair.recv, SIZE, 0, &in);
        for (int i = 0; i < 4; i++)
            mn_kit_irecv(check, pair.recv, &in, SIZE, 0, &recv);
        mn_kit_isend(check, pair.send, &out, SIZE, 0, &send);
        mn_kit_free(check, &out);
        mn_kit_free(check, &in);
        mn_check_step(check, "close of both ends with requests in flight");
        if (order)
            mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
        mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
        if (!order)
            mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    }
}

static void await_error(struct mn_check *check, struct mn_req *req, const char *what)
{
    mn_check_step(check, "%s: test until it reports an error", what);
    while (!req->result) {
        if (mn_kit_poll(check, req))
            mn_check_fail(check, "%s: the request completed without an error", what);
        if (mn_check_expired(check))
            mn_check_fail(check, "%s: no error within the limit, the request stays open", what);
        mn_check_pause(check);
    }
}

static void check_sender_gone(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.recv, SIZE, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, SIZE, 0, &recv);
    mn_check_step(check, "closeSend while the receiver waits");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    await_error(check, &recv, "the sender closed, a receive is pending");
    mn_check_note(check, "the receiver got %s", mn_nccl_result_name(recv.result));
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
}

/* The sender may complete what it has already handed on; sooner or later it must be told. */
static void check_receiver_gone(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out;
    struct mn_req send = {.done = 1};
    int result = 0;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, SIZE, 0, &out);
    mn_check_step(check, "closeRecv, then isend until an error is reported");
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    while (!result) {
        if (send.done) {
            send = (struct mn_req){.request = NULL};
            result =
                mn_raw_isend(&check->raw, pair.send, out.data, SIZE, 0, out.mhandle, &send.request);
            send.done = !result && !send.request;
        } else {
            mn_kit_poll(check, &send);
            result = send.result;
        }
        if (mn_check_expired(check))
            mn_check_fail(check, "the receiver closed; the sender saw no error within the limit");
        mn_check_pause(check);
    }
    mn_check_note(check, "the sender got %s", mn_nccl_result_name(result));
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
}

static void check_delivered(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send, recv;
    int posted;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 10000, 0, &out);
    mn_kit_buf(check, pair.recv, 10000, 0, &in);
    mn_kit_fill(&out, 10000, 80);
    posted = mn_kit_isend_early(check, &pair, &out, 10000, &in, &send, &recv);
    for (int i = 0; i < IDLE_TESTS && !mn_kit_test(check, &send); i++)
        sched_yield();
    if (!send.done) {
        /* A sender that waits for the receiver: then done must mean delivered. */
        if (!posted)
            mn_kit_irecv(check, pair.recv, &in, 10000, 0, &recv);
        posted = 1;
        while (!mn_kit_test(check, &send)) {
            mn_kit_test(check, &recv);
            if (mn_check_expired(check))
                mn_check_fail(check, "the send was never done");
            mn_check_pause(check);
        }
    }
    mn_kit_free(check, &out);
    mn_check_step(check, "closeSend right after the send was done");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    if (!posted)
        mn_kit_irecv(check, pair.recv, &in, 10000, 0, &recv);
    while (!mn_kit_test(check, &recv)) {
        if (mn_check_expired(check))
            mn_check_fail(check, "the message never arrived");
        mn_check_pause(check);
    }
    mn_kit_expect(check, &in, 10000, 80, "a completed send, its comm closed");
}

/* The buffer becomes unreadable the moment NCCL could have freed it. */
static void check_memory(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req recv, send;
    struct timespec pause = {.tv_nsec = 50000000};
    size_t pages;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, SIZE, 0, &out);
    mn_kit_buf(check, pair.recv, SIZE, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, SIZE, 0, &recv);
    mn_kit_test(check, &recv);
    mn_check_step(check, "deregMr and closeRecv with the receive pending");
    mn_check_ok(check, "deregMr", mn_raw_dereg(&check->raw, pair.recv, in.mhandle));
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    pages = in.room / 4096 * 4096;
    if (mprotect(in.base, pages, PROT_NONE) != 0)
        mn_check_skip(check, "memory cannot be protected");
    mn_check_step(check, "the peer sends to a receive whose memory is gone");
    for (int i = 0; i < 8; i++) {
        send.request = NULL;
        if (mn_raw_isend(&check->raw, pair.send, out.data, SIZE, 0, out.mhandle, &send.request))
            break;
        if (!send.request)
            continue;
        send.done = send.result = 0;
        for (int tests = 0; tests < IDLE_TESTS && !mn_kit_poll(check, &send); tests++)
            sched_yield();
        break;
    }
    nanosleep(&pause, NULL); /* for the plugin's own threads */
}

static void cycle(struct mn_check *check, int n)
{
    for (int i = 0; i < n; i++) {
        struct mn_pair pair;
        mn_kit_connect(check, &pair);
        mn_kit_pass(check, &pair, 1000, 1000, (unsigned)i);
        mn_kit_close(check, &pair);
    }
}

/* Of both ends. */
static int count_fds(struct mn_check *check)
{
    struct mn_remote *there = check->raw.remote;

    return mn_check_count_fds() + (there ? mn_remote_count(there, MN_REMOTE_FDS) : 0);
}

static int count_threads(struct mn_check *check)
{
    struct mn_remote *there = check->raw.remote;

    return mn_check_count_threads() + (there ? mn_remote_count(there, MN_REMOTE_THREADS) : 0);
}

/* What a plugin frees on a thread of its own may take a moment. */
static void settle(struct mn_check *check, int (*count)(struct mn_check *check), int baseline,
                   const char *what)
{
    int now;

    while ((now = count(check)) >= baseline + CYCLES / 2) {
        struct timespec pause = {.tv_nsec = 10000000};
        if (mn_check_expired(check))
            mn_check_fail(check, "%d %s before %d connections were made and closed, %d after",
                          baseline, what, CYCLES, now);
        nanosleep(&pause, NULL);
    }
    mn_check_note(check, "%d before, %d after %d connections", baseline, now, CYCLES);
}

static void check_descriptors(struct mn_check *check)
{
    int before;

    mn_check_init(check);
    cycle(check, WARM_UP);
    before = count_fds(check);
    cycle(check, CYCLES);
    settle(check, count_fds, before, "file descriptors");
}

static void check_threads(struct mn_check *check)
{
    int before;

    mn_check_init(check);
    cycle(check, WARM_UP);
    before = count_threads(check);
    cycle(check, CYCLES);
    settle(check, count_threads, before, "threads");
}

static const struct mn_check_rule rules[] = {
    {"close.idle", "idle ends close in either order",
     "both ends close on their own, without waiting for the peer", check_idle,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree and recvProxyFree: each rank closes "
                 "when it is done, long apart",
     .breaks = "Jobs hang or crash at their end.", .flags = MN_CHECK_ENDS | MN_CHECK_FIRST},
    {"close.half_open", "a listen comm closes under a half-open connect",
     "an aborted set-up simply stops calling connect and accept", check_half_open,
     .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeListen): NCCL leaves half-open ends as they are; other hosts "
                 "of plugins close them",
     .breaks = "A job that gives up while it connects crashes instead.", .flags = MN_CHECK_ENDS},
    {"close.in_flight", "ends close with requests in flight",
     "on abort requests are forgotten, memory is deregistered and comms are closed",
     check_in_flight, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyFree: after an abort closes comms whose "
                 "requests nobody tests any more",
     .breaks = "A job that aborts hangs, and its node is lost to the next one.",
     .flags = MN_CHECK_ENDS},
    {"close.sender_gone", "a receiver whose sender closed gets an error",
     "the peer's next test or irecv reports it; a wait for ever is a hung job", check_sender_gone,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: only an error of test ends a step that "
                 "never comes; else the job hangs",
     .breaks = "A job of which one rank left hangs until somebody looks.", .flags = MN_CHECK_ENDS},
    {"close.receiver_gone", "a sender whose receiver closed gets an error",
     "the peer's next test or isend reports it; a wait for ever is a hung job", check_receiver_gone,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: only an error of isend or test ends a "
                 "step that never comes; else the job hangs",
     .breaks = "A job of which one rank left hangs until somebody looks.", .flags = MN_CHECK_ENDS},
    {"close.delivered", "what was sent still arrives after closeSend",
     "delivery of a completed send depends on no further call", check_delivered,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree: closes as soon as the last send is "
                 "done, whether or not the peer has read it",
     .breaks = "The last step of the last collective is missing at some ranks.",
     .flags = MN_CHECK_ENDS},
    {"close.memory", "no buffer is touched after deregMr and close",
     "NCCL frees the memory next, whatever was in flight", check_memory, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyFree: frees the buffers after deregMr, "
                 "whatever was in flight",
     .breaks = "A job that aborts corrupts memory that is in use again.", .flags = MN_CHECK_ENDS},
    {"close.descriptors", "no file descriptor stays behind",
     "communicators come and go for days in one process", check_descriptors,
     .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeSend, closeRecv): NCCL does not count; a service that makes "
                 "communicators for every task runs out",
     .breaks = "A service that makes communicators for every task runs out of descriptors.",
     .flags = MN_CHECK_ENDS},
    {"close.threads", "no thread stays behind for each connection",
     "communicators come and go for days in one process", check_threads, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeSend, closeRecv): NCCL does not count; a service that makes "
                 "communicators for every task runs out",
     .breaks = "A service that makes communicators for every task runs out of threads.",
     .flags = MN_CHECK_ENDS},
};

MN_CHECK_FAMILY_TWICE(mn_check_close_family, "close", "close", rules);
