/* Block-sparse all-reduce: blocks that are zero everywhere do not travel. The others lie packed
 * behind each other in tmp while a ring sums them, so messages are as long as for dense data. */
#include <string.h>

#include "bench/coll/lane.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

int mn_coll_present(const struct mn_coll_job *job, size_t block)
{
    return !job->blocks || job->blocks[block / 8] >> block % 8 & 1;
}

size_t mn_coll_present_elements(const struct mn_coll_job *job)
{
    size_t n = 0;

    if (!job->blocks)
        return job->count;
    for (size_t at = 0; at < job->count; at += job->block)
        if (mn_coll_present(job, at / job->block))
            n += smaller(job->block, job->count - at);
    return n;
}

void mn_coll_mark(const void *in, const struct mn_coll_job *job, uint8_t *blocks)
{
    static const uint8_t zero[256];
    const uint8_t *bytes = in;
    size_t block = job->block * job->element, all = job->count * job->element;

    for (size_t at = 0; at < all; at++) {
        size_t end = smaller(at - at % block + block, all), some = smaller(end - at, sizeof zero);
        if (memcmp(bytes + at, zero, some)) {
            blocks[at / block / 8] |= (uint8_t)(1 << at / block % 8);
            some = end - at;
        }
        at += some - 1;
    }
}

/* Runs of blocks that all are or all are not there, to and from where they are packed. */
static void move_runs(struct mn_flow *f, const struct mn_coll_job *job, int unpack)
{
    size_t packed = 0, end;

    for (size_t at = 0; at < job->count; at = end) {
        int present = mn_coll_present(job, job->blocks ? at / job->block : 0);
        end = job->count;
        if (job->blocks)
            for (end = at; end < job->count && mn_coll_present(job, end / job->block) == present;)
                end = smaller(end + job->block, job->count);
        size_t bytes = (end - at) * job->element, from = at * job->element;
        if (present)
            mn_flow_copy(f, unpack ? mn_at(MN_TMP, packed) : mn_at(MN_IN, from),
                         unpack ? mn_at(MN_OUT, from) : mn_at(MN_TMP, packed), bytes);
        else if (unpack)
            mn_flow_copy(f, mn_at(MN_IN, from), mn_at(MN_OUT, from), bytes);
        packed += present ? bytes : 0;
    }
}

void mn_sparse_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct mn_lane lane = {.n = job->nranks,
                           .place = job->rank,
                           .way = 1,
                           .count = mn_coll_present_elements(job)};
    struct mn_flow *f = mn_flow_new(MN_SPARSE_ALLREDUCE, job, s);

    if (!f)
        return;
    mn_lanes_stage(job, &lane, 1, lane.count * job->element);
    move_runs(f, job, 0);
    mn_lanes_allreduce(f, job, &lane, 1, MN_TMP);
    move_runs(f, job, 1);
    mn_flow_free(f);
}
