#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/check/leak.h"
#include "bench/check/peer.h"
#include "bench/check/tuner_rules.h"

#define RANKS   16
#define NODES   4
#define ID      0x6d657368
#define THREADS 4
#define TURNS   150
#define CYCLES  50
#define NAP_NS  1000000

static void open_usual(struct mn_check *check, struct mn_tune_comm *comm)
{
    mn_tune_open(check, RANKS, NODES, ID, comm);
}

void mn_tune_check_repeatable(struct mn_check *check)
{
    struct mn_tune_choice first[MN_TUNE_SERIES], second[MN_TUNE_SERIES];
    struct mn_tune_comm comm;

    mn_check_load_tuner(check);
    open_usual(check, &comm);
    mn_check_step(check, "the same questions twice");
    mn_tune_series(check, &comm, first);
    mn_tune_series(check, &comm, second);
    mn_tune_same(check, first, second, "when asked again");
    mn_tune_close(check, &comm);
}

/* What tells the ranks of a job apart. */
static void be_rank(const char *rank)
{
    static const char *const names[] = {
        "RANK",     "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
        "PMI_RANK", "PMIX_RANK",  "SLURM_PROCID",         "SLURM_LOCALID",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], rank, 1);
}

struct verdicts {
    struct mn_tune_choice choices[MN_TUNE_SERIES];
    ncclTunerConstants_v5_t constants;
};

/* The other rank: later, and with no communicator beside this one. */
static void answer_there(struct mn_check *check, int fd)
{
    static struct verdicts mine;
    struct mn_tune_comm comm;

    be_rank("1");
    mn_check_load_tuner(check);
    open_usual(check, &comm);
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    mn_tune_series(check, &comm, mine.choices);
    mine.constants = comm.constants;
    mn_peer_tell(check, fd, &mine, sizeof mine);
    mn_tune_close(check, &comm);
}

void mn_tune_check_ranks(struct mn_check *check)
{
    static struct verdicts here, there;
    struct mn_tune_choice unused[MN_TUNE_SERIES];
    struct mn_tune_comm comm, other;
    struct mn_peer peer;

    mn_peer_start(check, answer_there, &peer);
    be_rank("0");
    mn_check_load_tuner(check);
    mn_tune_open(check, 8, 1, ID + 1, &other);
    open_usual(check, &comm);
    mn_check_step(check, "getCollInfo of two communicators");
    mn_tune_series(check, &other, unused);
    mn_tune_series(check, &comm, here.choices);
    here.constants = comm.constants;
    mn_check_step(check, "the answers of another rank");
    mn_peer_hear(check, peer.fd, &there, sizeof there);
    if (check->tuner.version >= 5 &&
        memcmp(&here.constants, &there.constants, sizeof here.constants) != 0)
        mn_check_fail(check, "init made another model of NCCL's constants than on another rank");
    mn_tune_same(check, here.choices, there.choices, "on another rank");
    mn_tune_close(check, &comm);
    mn_tune_close(check, &other);
}

/* What a communicator is told that is alone. */
static void ask_alone(struct mn_check *check, struct mn_tune_choice choices[MN_TUNE_SERIES])
{
    struct mn_tune_comm comm;

    open_usual(check, &comm);
    mn_tune_series(check, &comm, choices);
    mn_tune_close(check, &comm);
}

void mn_tune_check_contexts(struct mn_check *check)
{
    struct mn_tune_choice alone[MN_TUNE_SERIES], unused[MN_TUNE_SERIES], beside[MN_TUNE_SERIES];
    struct mn_tune_comm comm, before, after;

    mn_check_load_tuner(check);
    ask_alone(check, alone);
    mn_tune_open(check, 2, 2, ID + 1, &before);
    open_usual(check, &comm);
    mn_tune_open(check, 1024, 128, ID + 2, &after);
    mn_check_step(check, "getCollInfo of three communicators");
    mn_tune_series(check, &before, unused);
    mn_tune_series(check, &after, unused);
    mn_tune_series(check, &comm, beside);
    mn_tune_same(check, alone, beside, "with other communicators beside it");
    mn_tune_close(check, &after);
    mn_tune_close(check, &comm);
    mn_tune_close(check, &before);
}

void mn_tune_check_destroy(struct mn_check *check)
{
    struct mn_tune_choice alone[MN_TUNE_SERIES], beside[MN_TUNE_SERIES];
    struct mn_tune_comm comm, parent, child;
    int result;

    mn_check_load_tuner(check);
    ask_alone(check, alone);
    mn_tune_open(check, 64, 8, ID + 1, &parent);
    open_usual(check, &comm);
    mn_tune_open(check, 8, 1, ID + 2, &child);
    mn_check_step(check, "destroy of a communicator, two others stay");
    result = mn_tune_end(check, &parent);
    if (result)
        mn_check_fail(check, "destroy returned %s", mn_nccl_result_name(result));
    mn_check_step(check, "destroy of another, one stays");
    result = mn_tune_end(check, &child);
    if (result)
        mn_check_fail(check, "destroy returned %s", mn_nccl_result_name(result));
    mn_check_step(check, "getCollInfo of the one that stays");
    mn_tune_series(check, &comm, beside);
    mn_tune_same(check, alone, beside, "after others were destroyed");
    result = mn_tune_end(check, &comm);
    if (result)
        mn_check_fail(check, "destroy of the last returned %s", mn_nccl_result_name(result));
}

struct worker {
    struct mn_check *check;
    size_t ranks, nodes;
    uint64_t id;
    struct mn_tune_choice alone[MN_TUNE_SERIES];
    pthread_t thread;
    pthread_barrier_t *start;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < TURNS; i++) {
        struct mn_tune_choice choices[MN_TUNE_SERIES];
        struct mn_tune_comm comm;
        pthread_barrier_wait(w->start);
        mn_tune_open(w->check, w->ranks, w->nodes, w->id, &comm);
        mn_tune_series(w->check, &comm, choices);
        mn_tune_same(w->check, w->alone, choices, "while other threads ask for theirs");
        mn_tune_close(w->check, &comm);
    }
    return NULL;
}

void mn_tune_check_threads(struct mn_check *check)
{
    static const struct {
        size_t ranks, nodes;
    } shapes[THREADS] = {{2, 2}, {8, 1}, {16, 4}, {1024, 128}};
    static struct worker workers[THREADS];
    pthread_barrier_t start;

    mn_check_load_tuner(check);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        struct worker *w = &workers[i];
        struct mn_tune_comm comm;
        *w = (struct worker){.check = check,
                             .ranks = shapes[i].ranks,
                             .nodes = shapes[i].nodes,
                             .id = ID + (uint64_t)i,
                             .start = &start};
        mn_tune_open(check, w->ranks, w->nodes, w->id, &comm);
        mn_tune_series(check, &comm, w->alone);
        mn_tune_close(check, &comm);
    }
    mn_check_step(check, "%d threads, each with communicators of its own", THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            mn_check_skip(check, "no threads");
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

/* A thread of the plugin's that outlives destroy runs into memory that is gone. */
void mn_tune_check_reload(struct mn_check *check)
{
    struct mn_tune_choice first[MN_TUNE_SERIES], again[MN_TUNE_SERIES];
    void *still;

    for (int i = 0; i < 3; i++) {
        mn_check_load_tuner(check);
        ask_alone(check, i ? again : first);
        if (i)
            mn_tune_same(check, first, again, "after the library was loaded again");
        mn_check_step(check, "dlclose, and a moment");
        dlclose(check->raw.lib);
        nanosleep(&(struct timespec){.tv_nsec = 20 * NAP_NS}, NULL);
    }
    still = dlopen(check->target->path, RTLD_NOW | RTLD_NOLOAD);
    if (still)
        mn_check_note(check, "the library stays mapped");
}

static void come_and_go(void *arg)
{
    struct mn_check *check = arg;
    struct mn_tune_question question;
    struct mn_tune_comm comm;

    open_usual(check, &comm);
    for (int i = 0; i < 5; i++) {
        (void)mn_tune_question(check, i, &question);
        (void)mn_tune_choose(check, &comm, &question);
    }
    mn_tune_close(check, &comm);
}

void mn_tune_check_leaves(struct mn_check *check)
{
    int fds, threads, more_fds = 0, more_threads = 0;

    mn_check_load_tuner(check);
    come_and_go(check);
    fds = mn_check_count_fds();
    threads = mn_check_count_threads();
    for (int i = 0; i < CYCLES; i++)
        come_and_go(check);
    for (int i = 0; i < 100; i++) { /* threads may take a moment to end */
        more_fds = mn_check_count_fds() - fds;
        more_threads = mn_check_count_threads() - threads;
        if (more_fds < CYCLES && more_threads < CYCLES)
            break;
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    if (more_fds >= CYCLES || more_threads >= CYCLES)
        mn_check_fail(check, "%d communicators left %d descriptors and %d threads behind", CYCLES,
                      more_fds, more_threads);
}

void mn_tune_check_memory(struct mn_check *check)
{
    const struct mn_leak leak = {.check = check,
                                 .cycle = come_and_go,
                                 .ctx = check,
                                 .cycles = CYCLES,
                                 .measure = mn_leak_heap,
                                 .least = MN_LEAK_LEAST,
                                 .what = "memory in use",
                                 .unit = "communicator"};

    mn_check_load_tuner(check);
    mn_leak_judge(&leak);
}
