/* Sums of what all others send at once: one step, or two, however many ranks there are. All that
 * comes lies in tmp until it is summed. */
#include "bench/coll/flow.h"

#define SLOTS 8 /* chunks under way of whole vectors, of which tmp has no room for all ranks' */

static struct mn_at slot_of(const struct mn_coll_job *job, size_t at, int rank)
{
    size_t slot = at / job->chunk % SLOTS * (size_t)job->nranks + (size_t)rank;

    return mn_at(MN_TMP, slot * job->chunk);
}

/* From everybody its part of this rank's slice, to everybody theirs; the sum, in the order of the
 * ranks behind this one, goes to the output. */
static void sum_slices(struct mn_flow *f, const struct mn_coll_job *job, size_t count, size_t to)
{
    int n = job->nranks, self = job->rank;
    size_t length, own = mn_slice(job, count, self, &length);

    for (int k = 1; k < n; k++) {
        int peer = (self + k) % n, from = (self - k + n) % n;
        size_t bytes, at = mn_slice(job, count, peer, &bytes);
        mn_flow_recv(f, from, mn_at(MN_TMP, (size_t)(k - 1) * length), length);
        mn_flow_send(f, peer, mn_at(MN_IN, at), bytes);
    }
    for (size_t at = 0; at < length; at += job->chunk) {
        size_t bytes = length - at < job->chunk ? length - at : job->chunk;
        struct mn_at sum = n > 1 ? mn_at(MN_TMP, at) : mn_at(MN_IN, own + at);
        if (n > 1)
            mn_flow_reduce(f, mn_at(MN_IN, own + at), sum, bytes);
        for (int k = 2; k < n; k++)
            mn_flow_reduce(f, mn_at(MN_TMP, (size_t)(k - 1) * length + at), sum, bytes);
        mn_flow_copy(f, sum, mn_at(MN_OUT, to + at), bytes);
    }
}

void mn_direct_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct mn_flow *f = mn_flow_new(MN_REDUCESCATTER, job, s);

    if (f)
        sum_slices(f, job, job->count * (size_t)job->nranks, 0);
    mn_flow_free(f);
}

void mn_direct_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int n = job->nranks, self = job->rank;
    size_t length, own = mn_slice(job, job->count, self, &length);
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    if (!f)
        return;
    sum_slices(f, job, job->count, own);
    for (int k = 1; k < n; k++) {
        int peer = (self + k) % n, from = (self - k + n) % n;
        size_t bytes, at = mn_slice(job, job->count, from, &bytes);
        mn_flow_send(f, peer, mn_at(MN_OUT, own), length);
        mn_flow_recv(f, from, mn_at(MN_OUT, at), bytes);
    }
    mn_flow_free(f);
}

/* Everything to everybody. All sum in rank order, so that all get the same bits. */
void mn_oneshot_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int n = job->nranks, self = job->rank;
    size_t all = job->count * job->element;
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    for (size_t at = 0; f && at < all; at += job->chunk) {
        size_t bytes = all - at < job->chunk ? all - at : job->chunk;
        for (int k = 1; k < n; k++) {
            int peer = (self + k) % n, from = (self - k + n) % n;
            mn_flow_recv(f, from, slot_of(job, at, from), bytes);
            mn_flow_send(f, peer, mn_at(MN_IN, at), bytes);
        }
        mn_flow_copy(f, mn_at(MN_IN, at), slot_of(job, at, self), bytes);
        for (int r = 1; r < n; r++)
            mn_flow_reduce(f, slot_of(job, at, r), slot_of(job, at, 0), bytes);
        mn_flow_copy(f, slot_of(job, at, 0), mn_at(MN_OUT, at), bytes);
    }
    mn_flow_free(f);
}

/* Everything to rank 0, the sum back to everybody: two steps, and no fewer messages would do. */
void mn_star_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t all = job->count * job->element;
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    for (size_t at = 0; f && at < all; at += job->chunk) {
        size_t bytes = all - at < job->chunk ? all - at : job->chunk;
        if (job->rank) {
            mn_flow_send(f, 0, mn_at(MN_IN, at), bytes);
            mn_flow_recv(f, 0, mn_at(MN_OUT, at), bytes);
            continue;
        }
        struct mn_at sum = slot_of(job, at, 0);
        for (int r = 1; r < job->nranks; r++)
            mn_flow_recv(f, r, slot_of(job, at, r), bytes);
        mn_flow_copy(f, mn_at(MN_IN, at), sum, bytes);
        for (int r = 1; r < job->nranks; r++)
            mn_flow_reduce(f, slot_of(job, at, r), sum, bytes);
        mn_flow_copy(f, sum, mn_at(MN_OUT, at), bytes);
        for (int r = 1; r < job->nranks; r++)
            mn_flow_send(f, r, mn_at(MN_OUT, at), bytes);
    }
    mn_flow_free(f);
}

void mn_direct_reduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int n = job->nranks;
    size_t all = job->count * job->element;
    struct mn_flow *f = mn_flow_new(MN_REDUCE, job, s);

    if (f && job->rank != job->root)
        mn_flow_send(f, job->root, mn_at(MN_IN, 0), all);
    for (size_t at = 0; f && job->rank == job->root && at < all; at += job->chunk) {
        size_t bytes = all - at < job->chunk ? all - at : job->chunk;
        struct mn_at sum = slot_of(job, at, 0);
        mn_flow_copy(f, mn_at(MN_IN, at), sum, bytes);
        for (int k = 1; k < n; k++)
            mn_flow_recv(f, (job->root + k) % n, slot_of(job, at, k), bytes);
        for (int k = 1; k < n; k++)
            mn_flow_reduce(f, slot_of(job, at, k), sum, bytes);
        mn_flow_copy(f, sum, mn_at(MN_OUT, at), bytes);
    }
    mn_flow_free(f);
}
