/* Measures collectives between the ranks of a group, and checks their results. */
#ifndef MN_COLLECTIVE_H
#define MN_COLLECTIVE_H

#include "bench/coll/algorithm.h"
#include "bench/engine.h"
#include "bench/plane.h"
#include "bench/repeat.h"

/* The same at every rank. */
struct mn_collective_task {
    enum mn_collective collective;
    const struct mn_algorithm *algorithm; /* NULL = mn_algorithm_auto */
    int type, op, root;                   /* enum mn_type, enum mn_redop */
    unsigned long long bytes;             /* as nccl-tests counts: of the larger buffer */
    unsigned long iters;                  /* 0 = as many as the repetitions take */
    unsigned long warmup;                 /* 0 = a few */
    struct mn_repeat_plan repeat;         /* unless iters is given */
    int check;
};

/* Microseconds. The time of an iteration is that of its slowest rank; mean is the slowest rank's
 * time for all of them by their number, as nccl-tests has it. */
struct mn_collective_times {
    int measured; /* 0: this collective has no such place */
    uint64_t iterations;
    double mean, min, p50, p99; /* p50, p99: NaN where iterations are not timed one by one */
    double algbw, busbw;        /* GB/s, 10^9 */
    uint64_t checked, wrong;    /* elements, of all ranks */
    struct mn_spread spread;    /* of the repetitions' means; outliers: iterations */
};

struct mn_collective_row {
    struct mn_collective_task task; /* algorithm: the one that ran */
    unsigned long long bytes, count;
    struct mn_collective_times place[2]; /* out of place, in place */
};

#define MN_COLLECTIVE_CHUNK (256u << 10) /* bytes of a message at most */

/* What a rank is to do, and what that is made of. */
struct mn_collective_work {
    struct mn_coll_job job; /* points into the rest, and to the hosts that were given */
    size_t *counts;
    uint8_t *blocks;
};
void mn_collective_work(const struct mn_collective_task *task, int rank, int nranks,
                        const int *hosts, struct mn_collective_work *work);
void mn_collective_work_free(struct mn_collective_work *work);

/* Why the task cannot be done by so many ranks; NULL: it can. */
const char *mn_collective_refusal(const struct mn_collective_task *task, int nranks);
/* engine: who carries it out; NULL = bench/coll over the group's plugin. Together. *row is the same
 * at every rank. */
enum mn_err mn_collective_measure(struct mn_group *group, struct mn_engine *engine,
                                  const struct mn_collective_task *task,
                                  struct mn_collective_row *row, struct mn_diag *diag);

#endif
