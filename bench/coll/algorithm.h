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
    MN_ALLTOALLV,
    MN_SPARSE_ALLREDUCE,
    MN_COLLECTIVES
};

/* count is what nccl-tests calls the count of elements: of the larger buffer for reduce-scatter,
 * gather, scatter and all-to-all divided by nranks, else of either buffer. Input and output may be
 * the same memory in the places NCCL allows (in place): schedules are safe for that. */
struct mn_coll_job {
    int rank, nranks, root;
    size_t count, element; /* elements, bytes of one */
    size_t chunk;          /* bytes of a message at most, a multiple of element */
    const int *hosts;      /* by rank: the number of its host; NULL = one host a rank */
    /* All-to-all-v: elements from rank i to rank j at [i * nranks + j]; NULL = count. The same at
     * every rank. */
    const size_t *counts;
    /* Block-sparse all-reduce: bit b (of byte b / 8, the lowest first) is set unless block b, its
     * elements from b * block on, is zero at every rank: the union of what mn_coll_mark finds,
     * agreed upon beforehand. NULL = none is. */
    const uint8_t *blocks;
    size_t block;
};

size_t mn_coll_count(const struct mn_coll_job *job, int from, int to);
int mn_coll_present(const struct mn_coll_job *job, size_t block);
size_t mn_coll_present_elements(const struct mn_coll_job *job);
/* Sets the bits of the blocks of job->block elements in which this input is not all zero bytes. */
void mn_coll_mark(const void *in, const struct mn_coll_job *job, uint8_t *blocks);

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
/* NULL: no such name for this collective. A NULL name finds its first. */
const struct mn_algorithm *mn_algorithm_find(enum mn_collective c, const char *name);
/* The one that should be fastest for this size, these ranks and hosts; the same at every rank. */
const struct mn_algorithm *mn_algorithm_auto(enum mn_collective c, const struct mn_coll_job *job);

const char *mn_collective_name(enum mn_collective c);  /* "all-reduce" */
const char *mn_collective_title(enum mn_collective c); /* "all_reduce", as nccl-tests writes */
/* Elements of a rank's input and output, 0 where it has none. */
size_t mn_collective_in(enum mn_collective c, const struct mn_coll_job *job);
size_t mn_collective_out(enum mn_collective c, const struct mn_coll_job *job);
/* Whether the collective may be done in place, and where input and output then begin in their
 * common memory: one of them at its start. */
int mn_collective_in_place(enum mn_collective c, const struct mn_coll_job *job, size_t *in,
                           size_t *out);
/* Bytes that "algbw" divides by the time, and the factor from there to "busbw": nccl-tests,
 * doc/PERFORMANCE.md. Of all-to-all-v, which has no such formula, what the busiest rank sends to
 * others or receives from them, and 1; of block-sparse all-reduce the bytes that travel. */
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
void mn_direct_broadcast(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_sendrecv(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_alltoallv(const struct mn_coll_job *job, struct mn_schedule *s);
/* direct_reduce.c */
void mn_direct_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_oneshot_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_star_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_direct_reduce(const struct mn_coll_job *job, struct mn_schedule *s);
/* double.c */
void mn_doubling_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_halving_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_halving_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_doubling_allgather(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_bruck_allgather(const struct mn_coll_job *job, struct mn_schedule *s);
/* tree.c */
void mn_tree_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_doubletree_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_tree_broadcast(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_tree_reduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_tree_gather(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_tree_scatter(const struct mn_coll_job *job, struct mn_schedule *s);
/* lane.c */
void mn_biring_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_biring_allgather(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_biring_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s);
/* hier.c, sparse.c */
void mn_hier_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);
void mn_sparse_allreduce(const struct mn_coll_job *job, struct mn_schedule *s);

#endif
