/* What a plugin costs while nothing happens. Only CPU time counts, and beside that of a thread of
 * the rule's own which spins: how busy the machine is changes none of it. */
#include <sys/resource.h>
#include <time.h>

#include "bench/check/kit.h"

#define WINDOW_MS 100
#define WINDOWS   4
#define SHARE     10 /* 1 in so many of what the rule's own thread gets: far above any timer */
#define OWN_MS    10 /* that its thread gets in a window; on a full machine that takes long */
#define TESTS     20000
#define ABSURD_NS 100000

static uint64_t cpu_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Of all threads but this one. */
static int64_t others_ns(void)
{
    const uint64_t own = cpu_ns(CLOCK_THREAD_CPUTIME_ID);

    return (int64_t)(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - own);
}

/* What the others took of a window, for each 100 ms of this thread, in ns. */
static int64_t window(const struct mn_check *check)
{
    const uint64_t end = mn_check_now_ns() + WINDOW_MS * 1000000u;
    const uint64_t own_before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    const int64_t before = others_ns();
    uint64_t own;

    do
        own = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own_before;
    while (!mn_check_expired(check) && (mn_check_now_ns() < end || own < OWN_MS * 1000000u));
    return (others_ns() - before) * 100000000 / (int64_t)(own ? own : 1);
}

/* A thread that spins takes its share of every window; one that is still tidying up, of the first
 * at most. */
static void judge_quiet(struct mn_check *check, const char *state)
{
    int64_t least = INT64_MAX;

    mn_check_step(check, "nothing happens: %s", state);
    for (int i = 0; i < WINDOWS; i++) {
        int64_t spent = window(check);
        least = spent < least ? spent : least;
    }
    if (least >= 100000000 / SHARE)
        mn_check_fail(
            check,
            "the plugin's threads took at least %.0f ms of CPU in each of %d times 100 ms of a "
            "thread that spins, %s",
            (double)least / 1e6, WINDOWS, state);
    mn_check_note(check, "%.2f ms of CPU in 100 ms of a thread that spins, %s",
                  least < 0 ? 0 : (double)least / 1e6, state);
}

static void check_loaded(struct mn_check *check)
{
    mn_check_init(check);
    judge_quiet(check, "initialised, no connection");
}

static void check_connected(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 1);
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &recv);
    mn_kit_test(check, &recv);
    judge_quiet(check, "one connection, a receive posted, nothing sent");
}

static void check_listening(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    judge_quiet(check, "one listen comm, nobody connects");
}

static void check_test_cost(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;
    struct rusage before, after;
    uint64_t start, each, n;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 1);
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &recv);
    mn_check_step(check, "test of a receive with nothing sent, %d times", TESTS);
    getrusage(RUSAGE_THREAD, &before);
    start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (n = 0; n < TESTS && !mn_check_expired(check); n++)
        mn_kit_test(check, &recv);
    each = (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (n ? n : 1);
    getrusage(RUSAGE_THREAD, &after);
    if (each >= ABSURD_NS)
        mn_check_fail(check, "a test that finds nothing takes %.1f us of CPU", (double)each / 1e3);
    mn_check_note(check,
                  "a test that finds nothing takes %llu ns of CPU; %lu of them, %ld ms in "
                  "the kernel",
                  (unsigned long long)each, (unsigned long)n,
                  (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000 +
                      (after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1000);
}

static const struct mn_check_rule rules[] = {
    {"idle.loaded", "an initialised plugin without connections is quiet",
     "the plugin is loaded in every process of the job, used or not", check_loaded,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 plugin/net.cc loads the plugin in every process, used or not: a core "
                 "of each is lost",
     .breaks = "A core of each process is lost to a thread that does nothing.",
     .flags = MN_CHECK_ALONE},
    {"idle.listening", "waiting for a peer takes no CPU of its own",
     "accept is polled by NCCL; between two calls nothing needs to run", check_listening,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync polls accept itself: between two calls "
                 "nothing needs to run",
     .breaks = "A core of each process is lost while a job starts or waits for a rank.",
     .flags = MN_CHECK_ALONE},
    {"idle.connected", "an idle connection takes no CPU of its own",
     "connections stay open for days; what progress needs is done in test or on an event",
     check_connected, .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress polls test itself: between two steps "
                 "nothing needs to run",
     .breaks = "Cores that should compute spin between two steps of a job.",
     .flags = MN_CHECK_ALONE},
    {"idle.test_cost", "a test that finds nothing is cheap",
     "one thread polls every request of a communicator in turn: tens of nanoseconds each",
     check_test_cost, .grade = MN_CHECK_STYLE,
     .evidence = "NCCL 2.27 proxy.cc, progressOps tests every request of a communicator in turn: "
                 "tens of nanoseconds each",
     .breaks = "Latency grows with the number of open requests.", .flags = MN_CHECK_ALONE},
};

MN_CHECK_FAMILY(mn_check_idle_family, "idle", "cost while nothing happens", rules);
