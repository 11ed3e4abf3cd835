#include "bench/coll/algorithm.h"

#include <string.h>

const struct mn_algorithm mn_algorithms[] = {
    {"ring", MN_ALLREDUCE, NULL, mn_ring_allreduce},
    {"bidirectional-ring", MN_ALLREDUCE, NULL, mn_biring_allreduce},
    {"halving-doubling", MN_ALLREDUCE, NULL, mn_halving_allreduce},
    {"doubling", MN_ALLREDUCE, NULL, mn_doubling_allreduce},
    {"tree", MN_ALLREDUCE, NULL, mn_tree_allreduce},
    {"double-tree", MN_ALLREDUCE, NULL, mn_doubletree_allreduce},
    {"direct", MN_ALLREDUCE, NULL, mn_direct_allreduce},
    {"one-shot", MN_ALLREDUCE, NULL, mn_oneshot_allreduce},
    {"star", MN_ALLREDUCE, NULL, mn_star_allreduce},
    {"hierarchical", MN_ALLREDUCE, NULL, mn_hier_allreduce},
    {"ring", MN_ALLGATHER, NULL, mn_ring_allgather},
    {"bidirectional-ring", MN_ALLGATHER, NULL, mn_biring_allgather},
    {"direct", MN_ALLGATHER, NULL, mn_direct_allgather},
    {"doubling", MN_ALLGATHER, NULL, mn_doubling_allgather},
    {"bruck", MN_ALLGATHER, NULL, mn_bruck_allgather},
    {"ring", MN_REDUCESCATTER, NULL, mn_ring_reducescatter},
    {"bidirectional-ring", MN_REDUCESCATTER, NULL, mn_biring_reducescatter},
    {"direct", MN_REDUCESCATTER, NULL, mn_direct_reducescatter},
    {"halving", MN_REDUCESCATTER, NULL, mn_halving_reducescatter},
    {"ring", MN_BROADCAST, NULL, mn_ring_broadcast},
    {"tree", MN_BROADCAST, NULL, mn_tree_broadcast},
    {"direct", MN_BROADCAST, NULL, mn_direct_broadcast},
    {"ring", MN_REDUCE, NULL, mn_ring_reduce},
    {"tree", MN_REDUCE, NULL, mn_tree_reduce},
    {"direct", MN_REDUCE, NULL, mn_direct_reduce},
    {"direct", MN_ALLTOALL, NULL, mn_direct_alltoall},
    {"direct", MN_GATHER, NULL, mn_direct_gather},
    {"tree", MN_GATHER, NULL, mn_tree_gather},
    {"direct", MN_SCATTER, NULL, mn_direct_scatter},
    {"tree", MN_SCATTER, NULL, mn_tree_scatter},
    {"direct", MN_SENDRECV, NULL, mn_direct_sendrecv},
    {"direct", MN_ALLTOALLV, NULL, mn_direct_alltoallv},
    {"ring", MN_SPARSE_ALLREDUCE, NULL, mn_sparse_allreduce},
    {.name = NULL},
};

/* How many blocks of count elements a buffer has: 1, one a rank, or none where only the root has
 * it; or what the job says: sent, received, at the busiest rank, blocks that are not zero. */
enum blocks { ONE, ALL, ROOT_ONE, ROOT_ALL, SENT, RECEIVED, BUSIEST, PRESENT };

static const struct {
    const char *name, *title;
    enum blocks in, out;
    int reduces;
    enum blocks bytes; /* of algbw */
    double factor;     /* of busbw, times (nranks - 1) / nranks; 0 = 1 whatever nranks */
    int apart;         /* not in place */
} rows[MN_COLLECTIVES] = {
    [MN_ALLREDUCE] = {"all-reduce", "all_reduce", ONE, ONE, 1, ONE, 2, 0},
    [MN_ALLGATHER] = {"all-gather", "all_gather", ONE, ALL, 0, ALL, 1, 0},
    [MN_REDUCESCATTER] = {"reduce-scatter", "reduce_scatter", ALL, ONE, 1, ALL, 1, 0},
    [MN_BROADCAST] = {"broadcast", "broadcast", ROOT_ONE, ONE, 0, ONE, 0, 0},
    [MN_REDUCE] = {"reduce", "reduce", ONE, ROOT_ONE, 1, ONE, 0, 0},
    [MN_ALLTOALL] = {"all-to-all", "alltoall", ALL, ALL, 0, ALL, 1, 1},
    [MN_GATHER] = {"gather", "gather", ONE, ROOT_ALL, 0, ALL, 1, 0},
    [MN_SCATTER] = {"scatter", "scatter", ROOT_ALL, ONE, 0, ALL, 1, 0},
    [MN_SENDRECV] = {"send-recv", "sendrecv", ONE, ONE, 0, ONE, 0, 1},
    [MN_ALLTOALLV] = {"all-to-all-v", "alltoallv", SENT, RECEIVED, 0, BUSIEST, 0, 1},
    [MN_SPARSE_ALLREDUCE] = {"sparse-all-reduce", "sparse_all_reduce", ONE, ONE, 1, PRESENT, 2, 0},
};

const char *mn_collective_name(enum mn_collective c)
{
    return rows[c].name;
}

const char *mn_collective_title(enum mn_collective c)
{
    return rows[c].title;
}

int mn_collective_reduces(enum mn_collective c)
{
    return rows[c].reduces;
}

size_t mn_coll_count(const struct mn_coll_job *job, int from, int to)
{
    return job->counts ? job->counts[(size_t)from * (size_t)job->nranks + (size_t)to] : job->count;
}

static size_t exchanged(const struct mn_coll_job *job, int rank, int received, int with_self)
{
    size_t sum = 0;

    for (int r = 0; r < job->nranks; r++)
        if (with_self || r != rank)
            sum += received ? mn_coll_count(job, r, rank) : mn_coll_count(job, rank, r);
    return sum;
}

static size_t busiest(const struct mn_coll_job *job)
{
    size_t most = 0;

    for (int r = 0; r < job->nranks; r++)
        for (int received = 0; received < 2; received++) {
            size_t sum = exchanged(job, r, received, 0);
            most = sum > most ? sum : most;
        }
    return most;
}

static size_t elements(enum blocks blocks, const struct mn_coll_job *job)
{
    switch (blocks) {
    case ROOT_ONE:
        return job->rank == job->root ? job->count : 0;
    case ROOT_ALL:
        return job->rank == job->root ? job->count * (size_t)job->nranks : 0;
    case ALL:
        return job->count * (size_t)job->nranks;
    case SENT:
    case RECEIVED:
        return exchanged(job, job->rank, blocks == RECEIVED, 1);
    case BUSIEST:
        return busiest(job);
    case PRESENT:
        return mn_coll_present_elements(job);
    default:
        return job->count;
    }
}

size_t mn_collective_in(enum mn_collective c, const struct mn_coll_job *job)
{
    return elements(rows[c].in, job);
}

size_t mn_collective_out(enum mn_collective c, const struct mn_coll_job *job)
{
    return elements(rows[c].out, job);
}

int mn_collective_in_place(enum mn_collective c, const struct mn_coll_job *job, size_t *in,
                           size_t *out)
{
    size_t own = (size_t)job->rank * job->count * job->element;
    size_t ins = mn_collective_in(c, job), outs = mn_collective_out(c, job);

    *in = *out = 0;
    if (rows[c].apart)
        return 0;
    if (ins && ins < outs)
        *in = own;
    if (outs && outs < ins)
        *out = own;
    return 1;
}

size_t mn_collective_bytes(enum mn_collective c, const struct mn_coll_job *job)
{
    return elements(rows[c].bytes, job) * job->element;
}

double mn_collective_bus_factor(enum mn_collective c, int nranks)
{
    return rows[c].factor > 0 ? rows[c].factor * (nranks - 1) / nranks : 1;
}

size_t mn_slice(const struct mn_coll_job *job, size_t count, int slice, size_t *length)
{
    size_t n = (size_t)job->nranks, s = (size_t)slice, each = count / n, more = count % n;
    size_t start = s * each + (s < more ? s : more);

    *length = (each + (s < more)) * job->element;
    return start * job->element;
}

static void reduced(const struct mn_coll_job *job, mn_reduce_fn *reduce, mn_coll_value *value,
                    void *ctx, size_t i, void *element)
{
    unsigned char other[16];

    value(ctx, 0, i, element);
    for (int r = 1; r < job->nranks; r++) {
        value(ctx, r, i, other);
        reduce(element, other, 1);
    }
}

/* Element i of what a rank has received from all, one behind the other. */
static void received(const struct mn_coll_job *job, mn_coll_value *value, void *ctx, size_t i,
                     void *element)
{
    int from = 0;

    for (; i >= mn_coll_count(job, from, job->rank); from++)
        i -= mn_coll_count(job, from, job->rank);
    for (int r = 0; r < job->rank; r++)
        i += mn_coll_count(job, from, r);
    value(ctx, from, i, element);
}

void mn_collective_expect(enum mn_collective c, const struct mn_coll_job *job, mn_reduce_fn *reduce,
                          mn_coll_value *value, void *ctx, size_t i, void *element)
{
    size_t own = (size_t)job->rank * job->count;

    switch (c) {
    case MN_ALLREDUCE:
    case MN_SPARSE_ALLREDUCE:
    case MN_REDUCE:
        reduced(job, reduce, value, ctx, i, element);
        break;
    case MN_REDUCESCATTER:
        reduced(job, reduce, value, ctx, own + i, element);
        break;
    case MN_ALLGATHER:
    case MN_GATHER:
        value(ctx, (int)(i / job->count), i % job->count, element);
        break;
    case MN_BROADCAST:
        value(ctx, job->root, i, element);
        break;
    case MN_ALLTOALL:
        value(ctx, (int)(i / job->count), own + i % job->count, element);
        break;
    case MN_ALLTOALLV:
        received(job, value, ctx, i, element);
        break;
    case MN_SCATTER:
        value(ctx, job->root, own + i, element);
        break;
    default:
        value(ctx, (job->rank + job->nranks - 1) % job->nranks, i, element);
    }
}
