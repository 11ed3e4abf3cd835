/* What a rank is to do. */
#include <stdlib.h>

#include "bench/collective.h"
#include "topo/base/alloc.h"

#define SPARSE_BLOCK  256 /* elements; one of SPARSE_ONE_IN is not zero */
#define SPARSE_ONE_IN 4

/* Unequal on purpose: from half of count to one and a half. */
static void deal_counts(struct mn_collective_work *w)
{
    int n = w->job.nranks;

    w->counts = mn_zalloc((size_t)n * (size_t)n * sizeof *w->counts);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            w->counts[from * n + to] = w->job.count * (size_t)(1 + (from + 2 * to) % 3) / 2;
    w->job.counts = w->counts;
}

static void deal_blocks(struct mn_collective_work *w)
{
    size_t n = (w->job.count + SPARSE_BLOCK - 1) / SPARSE_BLOCK;

    w->blocks = mn_zalloc(n / 8 + 1);
    for (size_t b = 0; b < n; b += SPARSE_ONE_IN)
        w->blocks[b / 8] |= (uint8_t)(1 << b % 8);
    w->job.blocks = w->blocks;
    w->job.block = SPARSE_BLOCK;
}

void mn_collective_work(const struct mn_collective_task *task, int rank, int nranks,
                        const int *hosts, struct mn_collective_work *work)
{
    size_t element = mn_type_size(task->type);
    struct mn_coll_job one = {.nranks = nranks, .count = 1, .element = 1};
    size_t each = mn_collective_bytes(task->collective, &one);

    *work = (struct mn_collective_work){
        .job = {.rank = rank,
                .nranks = nranks,
                .root = task->root,
                .count = (size_t)task->bytes / element / (each ? each : 1),
                .element = element,
                .chunk = MN_COLLECTIVE_CHUNK,
                .hosts = hosts}};
    if (task->collective == MN_ALLTOALLV)
        deal_counts(work);
    if (task->collective == MN_SPARSE_ALLREDUCE)
        deal_blocks(work);
}

void mn_collective_work_free(struct mn_collective_work *work)
{
    free(work->counts);
    free(work->blocks);
    *work = (struct mn_collective_work){.counts = NULL};
}
