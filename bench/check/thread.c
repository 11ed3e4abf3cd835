/* Threads as NCCL has them: connections are made on one and used on another, and several
 * communicators live in one process. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/check/kit.h"

#define THREADS 4
#define ROUNDS  24
#define HALF    8

/* Runs run on a thread of its own for each of the n parts, each of size bytes, and waits. */
static void on_threads(struct mn_check *check, void *(*run)(void *), void *parts, size_t size,
                       int n)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, run, (char *)parts + (size_t)i * size) != 0)
            mn_check_skip(check, "no further thread can be started");
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

struct lane {
    struct mn_check *check;
    struct mn_pair pair;
    unsigned seed;
    int rounds;
};

static void *pass_rounds(void *arg)
{
    struct lane *lane = arg;

    for (int i = 0; i < lane->rounds; i++) {
        size_t size = (size_t)(1000 + 7919 * i) % 200000;
        mn_kit_pass(lane->check, &lane->pair, size, size + 64, lane->seed + (unsigned)i);
    }
    return NULL;
}

static void *connect_and_pass(void *arg)
{
    struct lane *lane = arg;

    mn_kit_connect(lane->check, &lane->pair);
    pass_rounds(lane);
    mn_kit_close(lane->check, &lane->pair);
    return NULL;
}

static void check_comms(struct mn_check *check)
{
    struct lane lanes[THREADS];

    mn_check_init(check);
    for (int i = 0; i < THREADS; i++)
        lanes[i] =
            (struct lane){.check = check, .seed = 1000u * (unsigned)(i + 1), .rounds = ROUNDS};
    on_threads(check, connect_and_pass, lanes, sizeof *lanes, THREADS);
}

/* The service thread makes the connection and registers; the progress thread uses it. */
static void check_handover(struct mn_check *check)
{
    struct lane lane = {.check = check, .seed = 5, .rounds = 4};

    mn_check_init(check);
    mn_kit_connect(check, &lane.pair);
    pass_rounds(&lane);
    mn_check_step(check, "the connection is used on another thread");
    on_threads(check, pass_rounds, &lane, sizeof lane, 1);
    mn_check_step(check, "the connection is closed on the first thread");
    mn_kit_close(check, &lane.pair);
}

static void *connect_only(void *arg)
{
    struct lane *lane = arg;

    while (!lane->pair.send) {
        mn_kit_try_connect(lane->check, &lane->pair);
        if (!lane->pair.send && mn_check_expired(lane->check))
            mn_check_fail(lane->check, "connect on another thread than listen stays at NULL");
        mn_check_pause(lane->check);
    }
    return NULL;
}

static void *accept_only(void *arg)
{
    struct lane *lane = arg;

    while (!lane->pair.recv) {
        mn_kit_try_accept(lane->check, &lane->pair);
        if (!lane->pair.recv && mn_check_expired(lane->check))
            mn_check_fail(lane->check, "accept on another thread than listen stays at NULL");
        mn_check_pause(lane->check);
    }
    return NULL;
}

static void *one_end(void *arg)
{
    struct lane **lane = arg;

    return (*lane)->rounds ? connect_only(*lane) : accept_only(*lane);
}

/* listen, connect and accept on three threads. The two ends are copies: one member each. */
static void check_ends(struct mn_check *check)
{
    mn_check_init(check);
    for (unsigned i = 0; i < HALF; i++) {
        struct lane sender = {.check = check, .rounds = 1}, receiver = {.check = check};
        struct lane *both[2] = {&sender, &receiver};
        mn_kit_listen(check, 0, &receiver.pair);
        sender.pair = receiver.pair;
        mn_check_step(check, "connect and accept on threads of their own");
        on_threads(check, one_end, both, sizeof *both, 2);
        receiver.pair.send = sender.pair.send;
        mn_kit_pass(check, &receiver.pair, 5000, 5000, i);
    }
}

struct crowd {
    struct mn_check *check;
    struct mn_pair pairs[HALF];
    unsigned seed;
};

static void *connect_crowd(void *arg)
{
    struct crowd *crowd = arg;
    int left = 1;

    for (int i = 0; i < HALF; i++)
        mn_kit_listen(crowd->check, 0, &crowd->pairs[i]);
    while (left) {
        left = 0;
        for (int i = 0; i < HALF; i++)
            mn_kit_try_connect(crowd->check, &crowd->pairs[i]);
        for (int i = HALF - 1; i >= 0; i--)
            mn_kit_try_accept(crowd->check, &crowd->pairs[i]);
        for (int i = 0; i < HALF; i++)
            left += !crowd->pairs[i].send || !crowd->pairs[i].recv;
        if (left && mn_check_expired(crowd->check))
            mn_check_fail(crowd->check, "%d of %d connections of one thread did not come up", left,
                          HALF);
        mn_check_pause(crowd->check);
    }
    for (int i = 0; i < HALF; i++)
        mn_kit_pass(crowd->check, &crowd->pairs[i], 600, 600, crowd->seed + (unsigned)i);
    return NULL;
}

static void check_connects(struct mn_check *check)
{
    static struct crowd crowds[THREADS];

    mn_check_init(check);
    for (int i = 0; i < THREADS; i++) {
        crowds[i].check = check;
        crowds[i].seed = 100u * (unsigned)(i + 1);
    }
    mn_check_step(check, "%d connections on each of %d threads", HALF, THREADS);
    on_threads(check, connect_crowd, crowds, sizeof *crowds, THREADS);
}

static atomic_int stop, closed; /* closed: connections opened and closed so far */

static void *open_and_close(void *arg)
{
    struct lane *lane = arg;

    while (!atomic_load(&stop)) {
        mn_kit_connect(lane->check, &lane->pair);
        mn_kit_pass(lane->check, &lane->pair, 300, 300, lane->seed);
        mn_kit_close(lane->check, &lane->pair);
        atomic_fetch_add(&closed, 1);
    }
    return NULL;
}

static void *transfer_until_closed(void *arg)
{
    struct lane *lanes = *(struct lane **)arg;

    /* Until the other thread has been through a few connections beside. */
    mn_kit_connect(lanes[0].check, &lanes[0].pair);
    for (unsigned i = 0; i < ROUNDS || atomic_load(&closed) < 4; i++) {
        mn_kit_pass(lanes[0].check, &lanes[0].pair, 50000, 50000, i);
        if (mn_check_expired(lanes[0].check))
            mn_check_fail(lanes[0].check, "connections beside a transfer do not come up");
        mn_check_pause(lanes[0].check);
    }
    atomic_store(&stop, 1);
    return NULL;
}

struct either {
    struct lane *lanes;
    int closes;
};

static void *closing_or_moving(void *arg)
{
    struct either *either = arg;

    return either->closes ? open_and_close(&either->lanes[1])
                          : transfer_until_closed(&either->lanes);
}

static void check_close(struct mn_check *check)
{
    struct lane lanes[2] = {{.check = check}, {.check = check, .seed = 9}};
    struct either both[2] = {{lanes, 0}, {lanes, 1}};

    mn_check_init(check);
    mn_check_step(check, "transfers on one thread, connections opened and closed on another");
    on_threads(check, closing_or_moving, both, sizeof *both, 2);
}

/* Of a thread of this process; all when it has ended, which may be before, while or after its file
 * is opened: of one that is just being taken down Linux shows no threads and empty masks
 * (fs/proc/array.c, task_sig). */
static unsigned long long blocked_signals(const char *task, char *name, size_t size)
{
    unsigned long long blocked = ~0ull;
    char path[64], line[256];
    int threads = 1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%.16s/status", task);
    file = fopen(path, "re");
    if (!file)
        return blocked;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "Name:", 5) == 0)
            snprintf(name, size, "%.*s", (int)strcspn(line + 6, "\n"), line + 6);
        sscanf(line, "Threads: %d", &threads);
        sscanf(line, "SigBlk: %llx", &blocked);
    }
    fclose(file);
    return threads ? blocked : ~0ull;
}

/* A signal to the process goes to any thread that does not block it. */
static void check_signals(struct mn_check *check)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM};
    struct mn_pair pair;
    struct dirent *entry;
    int threads = 0;
    DIR *dir;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 1);
    dir = opendir("/proc/self/task");
    if (!dir)
        mn_check_skip(check, "/proc is not there");
    mn_check_step(check, "the signals that each thread of the plugin blocks");
    while ((entry = readdir(dir))) {
        unsigned long long blocked;
        char name[32] = "";
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        threads++;
        blocked = blocked_signals(entry->d_name, name, sizeof name);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (!(blocked >> (wanted[i] - 1) & 1))
                mn_check_fail(check, "thread \"%s\" takes SIG%s, which belongs to the program",
                              name, sigabbrev_np(wanted[i]));
    }
    closedir(dir);
    mn_check_note(check, "%d threads of the plugin", threads);
}

static const struct mn_check_rule rules[] = {
    {"thread.comms", "several threads use comms of their own at once",
     "every communicator of a process has its own service and progress threads", check_comms,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyCreate: a service and a progress thread for each "
                 "communicator of the process",
     .breaks = "A process with several GPUs corrupts data or crashes."},
    {"thread.handover", "a comm made on one thread is used on another",
     "the service thread connects and registers, the progress thread sends and receives",
     check_handover, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: sends on comms that ncclProxyService "
                 "connected on its own thread",
     .breaks = "No job gets past its first transfer."},
    {"thread.ends", "listen, connect and accept may come from three threads",
     "ranks of one process connect to each other, each on its own service thread", check_ends,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyService: ranks of one process connect to each "
                 "other, each on its own thread",
     .breaks = "A process with several GPUs hangs while it connects."},
    {"thread.connects", "several threads connect at once, many connections each",
     "dozens of half-open connections are interleaved on each of several service threads",
     check_connects, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: runs on the service threads of all "
                 "communicators at once",
     .breaks =
         "Connections go to the wrong peer or never come up when communicators start together."},
    {"thread.close", "comms open and close beside the transfers of others",
     "communicators are created and destroyed while others of the process run", check_close,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree: closes on one communicator's thread "
                 "while others transfer",
     .breaks = "Destroying one communicator breaks another."},
    {"thread.signals", "the plugin's threads block the program's signals",
     "a signal goes to any thread that does not block it; handlers run on its stack", check_signals,
     .grade = MN_CHECK_SHOULD,
     .evidence = "POSIX, signal(7): a signal goes to any thread that does not block it; NCCL's own "
                 "threads do not block them either",
     .breaks = "A handler of the framework runs inside the plugin, and deadlocks there."},
};

MN_CHECK_FAMILY(mn_check_thread_family, "thread", "threads", rules);
