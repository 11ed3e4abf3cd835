/* Algorithms of collectives: each writes the schedule of one rank. A new one is a function and a
 * row. */
#ifndef MN_ALGORITHM_H
#define MN_ALGORITHM_H

#include "bench/coll/schedule.h"

enum mn_collective {
    MN_ALLREDUCE,
    MN_ALLGATHER,
    MN_REDUCESCATTER,
    MN_BROADCAST,
    MN_REDUCE,
    MN_ALLTOALL,
    MN_GATHER,
    MN_SCATTER,
    MN_SENDRECV, /* to the next rank, from the previous one */
    MN_COLLECTIVES
};

/* count is what nccl-tests calls the count of elements: of the larger buffer for reduce-scatter,
 * gather, scatter and all-to-all divided by nranks, else of either buffer. Input and output may be
 * the same memory in the places NCCL allows (in place): schedules are safe for that. */
struct mn_coll_job {
    int rank, nranks, root;
    size_t count, element; /* elements, bytes of one */
    size_t chunk;          /* bytes of a message at most, a multiple of element */
};

struct mn_algorithm {
    const char *name; /* "ring" */
    enum mn_collective collective;
    /* NULL = any number of ranks will do; else why this one will not. */
    const char *(*refuses)(const struct mn_coll_job *job);
    /* Errors stay in s->err. */
    void (*write)(const struct mn_coll_job *job, struct mn_schedule *s);
};

/* All, those for one collective together, the default first; ends with a NULL name. */
extern const struct mn_algorithm mn_algorithms[];

const char *mn_collective_name(enum mn_collective c);  /* "all-reduce" */
const char *mn_collective_title(enum mn_collective c); /* "all_reduce", as nccl-tests writes */
/* Elements of a rank's input and output, 0 where it has none. */
size_t mn_collective_in(enum mn_collective c, const struct mn_coll_job *job);
size_t mn_collective_out(enum mn_collective c, const struct mn_coll_job *job);
/* Bytes that "algbw" divides by the time, and the factor from there to "busbw": nccl-tests,
 * doc/PERFORMANCE.md. */
size_t mn_collective_bytes(enum mn_collective c, const struct mn_coll_job *job);
double mn_collective_bus_factor(enum mn_collective c, int nranks);
int mn_collective_reduces(enum mn_collective c);
/* The result that element i of the output of job->rank must have, from what each rank's input has:
 * value(ctx, rank, i) is element i of that rank's input. Fills element bytes. */
typedef void mn_coll_value(void *ctx, int rank, size_t i, void *element);
void mn_collective_expect(enum mn_collective c, const struct mn_coll_job *job, mn_reduce_fn *reduce,
                          mn_coll_value *value, void *ctx, size_t i, void *element);

/* Bytes [start, start + length) of slice s when count elements are dealt to nranks evenly. */
size_t mn_slice(const struct mn_coll_job *job, size_t count, int slice, size_t *length);

/* ring.c */
void mn_ring_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_ring_allgather(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_ring_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_ring_broadcast(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_ring_reduce(const struct mn_coll_job *job, struct mn_schedule *s);
/* direct.c */
void mn_direct_alltoall(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_allgather(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_gather(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_scatter(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_sendrecv(const struct mn_coll_job *job, struct mn_schedule *s);

#endif
