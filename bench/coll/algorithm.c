#include "bench/coll/algorithm.h"

#include <string.h>

const struct mn_algorithm mn_algorithms[] = {
    {"ring", MN_ALLREDUCE, NULL, mn_ring_allreduce},
    {"ring", MN_ALLGATHER, NULL, mn_ring_allgather},
    {"direct", MN_ALLGATHER, NULL, mn_direct_allgather},
    {"ring", MN_REDUCESCATTER, NULL, mn_ring_reducescatter},
    {"ring", MN_BROADCAST, NULL, mn_ring_broadcast},
    {"ring", MN_REDUCE, NULL, mn_ring_reduce},
    {"direct", MN_ALLTOALL, NULL, mn_direct_alltoall},
    {"direct", MN_GATHER, NULL, mn_direct_gather},
    {"direct", MN_SCATTER, NULL, mn_direct_scatter},
    {"direct", MN_SENDRECV, NULL, mn_direct_sendrecv},
    {.name = NULL},
};

/* How many blocks of count elements a buffer has: 1, one a rank, or none where only the root has
 * it. */
enum blocks { ONE, ALL, ROOT_ONE, ROOT_ALL };

static const struct {
    const char *name, *title;
    enum blocks in, out;
    int reduces;
    enum blocks bytes; /* of algbw */
    double factor;     /* of busbw, times (nranks - 1) / nranks; 0 = 1 whatever nranks */
} rows[MN_COLLECTIVES] = {
    [MN_ALLREDUCE] = {"all-reduce", "all_reduce", ONE, ONE, 1, ONE, 2},
    [MN_ALLGATHER] = {"all-gather", "all_gather", ONE, ALL, 0, ALL, 1},
    [MN_REDUCESCATTER] = {"reduce-scatter", "reduce_scatter", ALL, ONE, 1, ALL, 1},
    [MN_BROADCAST] = {"broadcast", "broadcast", ROOT_ONE, ONE, 0, ONE, 0},
    [MN_REDUCE] = {"reduce", "reduce", ONE, ROOT_ONE, 1, ONE, 0},
    [MN_ALLTOALL] = {"all-to-all", "alltoall", ALL, ALL, 0, ALL, 1},
    [MN_GATHER] = {"gather", "gather", ONE, ROOT_ALL, 0, ALL, 1},
    [MN_SCATTER] = {"scatter", "scatter", ROOT_ALL, ONE, 0, ALL, 1},
    [MN_SENDRECV] = {"send-recv", "sendrecv", ONE, ONE, 0, ONE, 0},
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

static size_t elements(enum blocks blocks, const struct mn_coll_job *job)
{
    if ((blocks == ROOT_ONE || blocks == ROOT_ALL) && job->rank != job->root)
        return 0;
    return blocks == ALL || blocks == ROOT_ALL ? job->count * (size_t)job->nranks : job->count;
}

size_t mn_collective_in(enum mn_collective c, const struct mn_coll_job *job)
{
    return elements(rows[c].in, job);
}

size_t mn_collective_out(enum mn_collective c, const struct mn_coll_job *job)
{
    return elements(rows[c].out, job);
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

void mn_collective_expect(enum mn_collective c, const struct mn_coll_job *job, mn_reduce_fn *reduce,
                          mn_coll_value *value, void *ctx, size_t i, void *element)
{
    size_t own = (size_t)job->rank * job->count;

    switch (c) {
    case MN_ALLREDUCE:
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
    case MN_SCATTER:
        value(ctx, job->root, own + i, element);
        break;
    default:
        value(ctx, (job->rank + job->nranks - 1) % job->nranks, i, element);
    }
}
