/* Rings in rank order: each rank sends to the next and receives from the one before. */
#include <stdlib.h>

#include "bench/coll/algorithm.h"

#define SLOTS 16 /* chunks of a pipeline that have come and not gone on */

static int next_of(const struct mn_coll_job *job)
{
    return (job->rank + 1) % job->nranks;
}

static int previous_of(const struct mn_coll_job *job)
{
    return (job->rank + job->nranks - 1) % job->nranks;
}

static int wrap(const struct mn_coll_job *job, int slice)
{
    return (slice % job->nranks + job->nranks) % job->nranks;
}

/* Slices of a walk round the ring, and for each chunk what it last waited for. */
struct walk {
    const struct mn_coll_job *job;
    struct mn_schedule *s;
    size_t count; /* elements of all slices together */
    size_t slice; /* bytes of the longest */
    int chunks;   /* of the longest */
    int *came;    /* by chunk: the step that brought it */
    int *went[2]; /* by half of tmp and chunk: the step that last sent it on */
};

static int walk_begin(struct walk *w, const struct mn_coll_job *job, struct mn_schedule *s,
                      size_t count)
{
    *w = (struct walk){.job = job, .s = s, .count = count};
    for (int i = 0; i < job->nranks; i++) {
        size_t length;
        mn_slice(job, count, i, &length);
        w->slice = length > w->slice ? length : w->slice;
    }
    w->chunks = (int)((w->slice + job->chunk - 1) / job->chunk);
    w->came = malloc(3 * ((size_t)w->chunks + 1) * sizeof *w->came);
    if (!w->came) {
        s->err = MN_ERR_NOMEM;
        return 0;
    }
    w->went[0] = w->came + w->chunks + 1;
    w->went[1] = w->went[0] + w->chunks + 1;
    for (int c = 0; c < w->chunks; c++)
        w->came[c] = w->went[0][c] = w->went[1][c] = MN_NO_STEP;
    return 1;
}

/* Where chunk c of a slice begins and its bytes, 0 past the slice's end. */
static size_t chunk_at(const struct walk *w, int slice, int c, size_t *bytes)
{
    size_t length, start = mn_slice(w->job, w->count, slice, &length);
    size_t at = (size_t)c * w->job->chunk;

    *bytes = at >= length ? 0 : length - at < w->job->chunk ? length - at : w->job->chunk;
    return start + at;
}

static struct mn_at staging(const struct walk *w, int step, int c)
{
    return (struct mn_at){MN_TMP, (size_t)(step % 2) * w->slice + (size_t)c * w->job->chunk};
}

/* nranks - 1 steps in which partial sums travel: the slice that ends at this rank is first -
 * nranks. What comes in step k lies in one half of tmp until step k + 1 has sent it on. */
static void reduce_walk(struct walk *w, int first, int to_slice)
{
    const struct mn_coll_job *job = w->job;

    w->s->tmp_bytes = 2 * w->slice;
    for (int k = 0; k < job->nranks - 1; k++) {
        int goes = wrap(job, first - k), comes = wrap(job, first - k - 1);
        for (int c = 0; c < w->chunks; c++) {
            size_t bytes, at = chunk_at(w, goes, c, &bytes);
            if (!bytes)
                continue;
            struct mn_at from = k ? staging(w, k - 1, c) : (struct mn_at){MN_IN, at};
            int sent = mn_schedule_send(w->s, next_of(job), from, bytes, w->came[c]);
            if (k)
                w->went[(k - 1) % 2][c] = sent;
        }
        for (int c = 0; c < w->chunks; c++) {
            size_t bytes, at = chunk_at(w, comes, c, &bytes);
            if (!bytes)
                continue;
            struct mn_at to = staging(w, k, c);
            /* What this half held two steps ago must have gone. */
            int recv = mn_schedule_recv(w->s, previous_of(job), to, bytes, w->went[k % 2][c]);
            w->came[c] = mn_schedule_reduce(w->s, (struct mn_at){MN_IN, at}, to, bytes, recv);
            if (k == job->nranks - 2)
                w->came[c] =
                    mn_schedule_copy(w->s, to,
                                     (struct mn_at){MN_OUT, to_slice ? at : (size_t)c * job->chunk},
                                     bytes, w->came[c]);
        }
    }
}

/* nranks - 1 steps in which whole slices travel; first is the one this rank has. */
static void gather_walk(struct walk *w, int first, int from_in)
{
    const struct mn_coll_job *job = w->job;

    for (int k = 0; k < job->nranks - 1; k++) {
        int goes = wrap(job, first - k), comes = wrap(job, first - k - 1);
        for (int c = 0; c < w->chunks; c++) {
            size_t bytes, at = chunk_at(w, goes, c, &bytes);
            struct mn_at from = !k && from_in ? (struct mn_at){MN_IN, (size_t)c * job->chunk}
                                              : (struct mn_at){MN_OUT, at};
            if (bytes)
                mn_schedule_send(w->s, next_of(job), from, bytes, w->came[c]);
        }
        for (int c = 0; c < w->chunks; c++) {
            size_t bytes, at = chunk_at(w, comes, c, &bytes);
            w->came[c] = !bytes ? MN_NO_STEP
                                : mn_schedule_recv(w->s, previous_of(job),
                                                   (struct mn_at){MN_OUT, at}, bytes, MN_NO_STEP);
        }
    }
}

static void copy_own(struct mn_schedule *s, size_t out, size_t bytes)
{
    mn_schedule_copy(s, (struct mn_at){MN_IN, 0}, (struct mn_at){MN_OUT, out}, bytes, MN_NO_STEP);
}

/* A slice's final sum is sent nowhere before all that is left of the input there was read: what is
 * gathered into a place depends, around the ring, on what was read from it. */
void mn_ring_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct walk w;

    if (job->nranks == 1) {
        copy_own(s, 0, job->count * job->element);
        return;
    }
    if (!walk_begin(&w, job, s, job->count))
        return;
    reduce_walk(&w, job->rank, 1);
    gather_walk(&w, job->rank + 1, 0);
    free(w.came);
}

void mn_ring_allgather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct walk w;
    size_t bytes = job->count * job->element;

    copy_own(s, (size_t)job->rank * bytes, bytes);
    if (!walk_begin(&w, job, s, job->count * (size_t)job->nranks))
        return;
    gather_walk(&w, job->rank, 1);
    free(w.came);
}

void mn_ring_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct walk w;

    if (job->nranks == 1) {
        copy_own(s, 0, job->count * job->element);
        return;
    }
    if (!walk_begin(&w, job, s, job->count * (size_t)job->nranks))
        return;
    reduce_walk(&w, job->rank - 1, 0);
    free(w.came);
}

/* A pipeline from the root round to the rank before it. */
void mn_ring_broadcast(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int place = wrap(job, job->rank - job->root);
    size_t all = job->count * job->element;

    if (!place)
        copy_own(s, 0, all);
    for (size_t at = 0; at < all; at += job->chunk) {
        size_t bytes = all - at < job->chunk ? all - at : job->chunk;
        struct mn_at here = {place ? MN_OUT : MN_IN, at};
        int came = MN_NO_STEP;
        if (place)
            came = mn_schedule_recv(s, previous_of(job), here, bytes, MN_NO_STEP);
        if (place != job->nranks - 1)
            mn_schedule_send(s, next_of(job), here, bytes, came);
    }
}

/* The other way: from the rank behind the root round to the root. */
void mn_ring_reduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int place = wrap(job, job->rank - job->root), gone[SLOTS];
    size_t all = job->count * job->element;

    if (job->nranks == 1) {
        copy_own(s, 0, all);
        return;
    }
    for (int i = 0; i < SLOTS; i++)
        gone[i] = MN_NO_STEP;
    s->tmp_bytes = SLOTS * job->chunk;
    for (size_t c = 0; c * job->chunk < all; c++) {
        size_t at = c * job->chunk, bytes = all - at < job->chunk ? all - at : job->chunk;
        struct mn_at own = {MN_IN, at}, slot = {MN_TMP, c % SLOTS * job->chunk};
        int sum = MN_NO_STEP;
        if (place != 1) {
            int came = mn_schedule_recv(s, previous_of(job), slot, bytes, gone[c % SLOTS]);
            sum = mn_schedule_reduce(s, own, slot, bytes, came);
        }
        gone[c % SLOTS] =
            place ? mn_schedule_send(s, next_of(job), place == 1 ? own : slot, bytes, sum)
                  : mn_schedule_copy(s, slot, (struct mn_at){MN_OUT, at}, bytes, sum);
    }
}
