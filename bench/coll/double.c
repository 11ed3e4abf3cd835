/* Partners at distances that double or halve: log2(nranks) steps. Where the number of ranks is no
 * power of two, the first ranks go in pairs of which the even one acts for both; so a power of two
 * of actors is left, and each stands for neighbouring ranks. */
#include "bench/coll/flow.h"

struct actors {
    int n, pairs; /* a power of two; how many of them are pairs */
    int self;     /* this rank's number among them, -1 when its partner acts for it */
};

static struct actors actors_of(const struct mn_coll_job *job)
{
    struct actors a = {.n = 1};

    while (2 * a.n <= job->nranks)
        a.n *= 2;
    a.pairs = job->nranks - a.n;
    a.self = job->rank >= 2 * a.pairs ? job->rank - a.pairs : job->rank % 2 ? -1 : job->rank / 2;
    return a;
}

/* The first rank that an actor stands for: itself. */
static int rank_of(const struct actors *a, int actor)
{
    return actor < a->pairs ? 2 * actor : actor + a->pairs;
}

static int is_pair(const struct actors *a)
{
    return a->self >= 0 && a->self < a->pairs;
}

/* A range of bytes from the first slice's start to the last one's end. */
struct range {
    size_t at, bytes;
};

/* What actors from first on have when all is dealt to them evenly, as mn_slice deals it. */
static struct range dealt(const struct actors *a, const struct mn_coll_job *job, int first, int n)
{
    struct mn_coll_job shared = *job;
    size_t length, start, end;

    shared.nranks = a->n;
    start = mn_slice(&shared, job->count, first, &length);
    end = mn_slice(&shared, job->count, first + n - 1, &length) + length;
    return (struct range){start, end - start};
}

/* What they have when each rank has a block. */
static struct range blocks(const struct actors *a, const struct mn_coll_job *job, int first, int n)
{
    size_t block = job->count * job->element;
    size_t start = (size_t)rank_of(a, first) * block;

    return (struct range){start, (size_t)rank_of(a, first + n) * block - start};
}

/* All begin with the input in the output; the pairs' sum is at the actor. */
static void sum_pairs(struct mn_flow *f, const struct actors *a, const struct mn_coll_job *job)
{
    size_t all = job->count * job->element;

    if (a->self < 0) {
        mn_flow_send(f, job->rank - 1, mn_at(MN_IN, 0), all);
        return;
    }
    mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, 0), all);
    if (is_pair(a)) {
        mn_flow_recv(f, job->rank + 1, mn_at(MN_TMP, 0), all);
        mn_flow_reduce(f, mn_at(MN_TMP, 0), mn_at(MN_OUT, 0), all);
    }
}

static void tell_pairs(struct mn_flow *f, const struct actors *a, const struct mn_coll_job *job)
{
    size_t all = job->count * job->element;

    if (a->self < 0)
        mn_flow_recv(f, job->rank - 1, mn_at(MN_OUT, 0), all);
    else if (is_pair(a))
        mn_flow_send(f, job->rank + 1, mn_at(MN_OUT, 0), all);
}

/* Ranges of the output travel and grow: before a step at distance d an actor has d actors'. */
static void gather_ranges(struct mn_flow *f, const struct actors *a, const struct mn_coll_job *job,
                          struct range range_of(const struct actors *, const struct mn_coll_job *,
                                                int, int))
{
    for (int d = 1; a->self >= 0 && d < a->n; d *= 2) {
        int peer = a->self ^ d;
        struct range mine = range_of(a, job, a->self & -d, d);
        struct range theirs = range_of(a, job, peer & -d, d);
        mn_flow_send(f, rank_of(a, peer), mn_at(MN_OUT, mine.at), mine.bytes);
        mn_flow_recv(f, rank_of(a, peer), mn_at(MN_OUT, theirs.at), theirs.bytes);
    }
}

/* Everything to the partner in each step: fewest steps, for small sizes. */
void mn_doubling_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct actors a = actors_of(job);
    size_t all = job->count * job->element;
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    if (!f)
        return;
    sum_pairs(f, &a, job);
    for (int d = 1, step = 1; a.self >= 0 && d < a.n; d *= 2, step++) {
        int peer = rank_of(&a, a.self ^ d);
        struct mn_at theirs = mn_at(MN_TMP, step % 2 * all);
        mn_flow_send(f, peer, mn_at(MN_OUT, 0), all);
        mn_flow_recv(f, peer, theirs, all);
        mn_flow_reduce(f, theirs, mn_at(MN_OUT, 0), all);
    }
    tell_pairs(f, &a, job);
    mn_flow_free(f);
}

/* Reduce-scatter by halving, then all-gather by doubling: a ring's bytes in a tree's steps. */
void mn_halving_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct actors a = actors_of(job);
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    if (!f)
        return;
    sum_pairs(f, &a, job);
    for (int d = a.n / 2; a.self >= 0 && d; d /= 2) {
        int peer = a.self ^ d;
        struct range keep = dealt(&a, job, a.self & -d, d), give = dealt(&a, job, peer & -d, d);
        struct mn_at part = mn_at(MN_TMP, keep.at);
        mn_flow_send(f, rank_of(&a, peer), mn_at(MN_OUT, give.at), give.bytes);
        mn_flow_recv(f, rank_of(&a, peer), part, keep.bytes);
        mn_flow_reduce(f, part, mn_at(MN_OUT, keep.at), keep.bytes);
    }
    gather_ranges(f, &a, job, dealt);
    tell_pairs(f, &a, job);
    mn_flow_free(f);
}

/* Sums gather in tmp, in the places the input has them; behind that lies what comes. */
void mn_halving_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct actors a = actors_of(job);
    size_t block = job->count * job->element, all = block * (size_t)job->nranks;
    enum mn_step_buffer have = MN_IN;
    struct mn_flow *f = mn_flow_new(MN_REDUCESCATTER, job, s);

    if (!f)
        return;
    if (a.self < 0) {
        mn_flow_send(f, job->rank - 1, mn_at(MN_IN, 0), all);
        mn_flow_recv(f, job->rank - 1, mn_at(MN_OUT, 0), block);
        mn_flow_free(f);
        return;
    }
    if (is_pair(&a)) {
        mn_flow_recv(f, job->rank + 1, mn_at(MN_TMP, 0), all);
        mn_flow_reduce(f, mn_at(MN_IN, 0), mn_at(MN_TMP, 0), all);
        have = MN_TMP;
    }
    for (int d = a.n / 2; d; d /= 2) {
        int peer = a.self ^ d;
        struct range keep = blocks(&a, job, a.self & -d, d), give = blocks(&a, job, peer & -d, d);
        struct mn_at sum = mn_at(MN_TMP, keep.at);
        struct mn_at part = have == MN_IN ? sum : mn_at(MN_TMP, all + keep.at);
        mn_flow_send(f, rank_of(&a, peer), mn_at(have, give.at), give.bytes);
        mn_flow_recv(f, rank_of(&a, peer), part, keep.bytes);
        mn_flow_reduce(f, have == MN_IN ? mn_at(MN_IN, keep.at) : part, sum, keep.bytes);
        have = MN_TMP;
    }
    mn_flow_copy(f, mn_at(have, (size_t)job->rank * block), mn_at(MN_OUT, 0), block);
    if (is_pair(&a))
        mn_flow_send(f, job->rank + 1, mn_at(have, (size_t)(job->rank + 1) * block), block);
    mn_flow_free(f);
}

void mn_doubling_allgather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct actors a = actors_of(job);
    size_t block = job->count * job->element, all = block * (size_t)job->nranks;
    size_t own = (size_t)job->rank * block, behind = own + block;
    struct mn_flow *f = mn_flow_new(MN_ALLGATHER, job, s);

    if (!f)
        return;
    mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, own), block);
    if (a.self < 0)
        mn_flow_send(f, job->rank - 1, mn_at(MN_OUT, own), block);
    if (is_pair(&a))
        mn_flow_recv(f, job->rank + 1, mn_at(MN_OUT, behind), block);
    gather_ranges(f, &a, job, blocks);
    if (a.self < 0) {
        mn_flow_recv(f, job->rank - 1, mn_at(MN_OUT, 0), own);
        mn_flow_recv(f, job->rank - 1, mn_at(MN_OUT, behind), all - behind);
    }
    if (is_pair(&a)) {
        mn_flow_send(f, job->rank + 1, mn_at(MN_OUT, 0), behind);
        mn_flow_send(f, job->rank + 1, mn_at(MN_OUT, behind + block), all - behind - block);
    }
    mn_flow_free(f);
}

/* n blocks of the output from rank first's on, round past the last rank's to the first one's. */
static void move_blocks(struct mn_flow *f, const struct mn_coll_job *job, int peer, int first,
                        int n, void move(struct mn_flow *, int, struct mn_at, size_t))
{
    size_t block = job->count * job->element;
    int straight = first + n > job->nranks ? job->nranks - first : n;

    move(f, peer, mn_at(MN_OUT, (size_t)first * block), (size_t)straight * block);
    move(f, peer, mn_at(MN_OUT, 0), (size_t)(n - straight) * block);
}

/* Bruck's: any number of ranks in the steps of the next power of two, nobody acts for another. */
void mn_bruck_allgather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int n = job->nranks;
    size_t block = job->count * job->element;
    struct mn_flow *f = mn_flow_new(MN_ALLGATHER, job, s);

    if (!f)
        return;
    mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, (size_t)job->rank * block), block);
    for (int d = 1; d < n; d *= 2) {
        int down = (job->rank - d + n) % n, up = (job->rank + d) % n, many = d < n - d ? d : n - d;
        move_blocks(f, job, down, job->rank, many, mn_flow_send);
        move_blocks(f, job, up, up, many, mn_flow_recv);
    }
    mn_flow_free(f);
}
