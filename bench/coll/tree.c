/* Trees: sums go up, data goes down, chunk by chunk so that all levels are busy. */
#include "bench/coll/flow.h"

#define SLOTS         8 /* chunks of a tree under way upwards at one rank */
#define MOST_BELOW    31
#define MOST_PARALLEL 2

struct tree {
    int parent; /* -1 at the root */
    int children[MOST_BELOW], n;
    int depth;
};

static int place_of(const struct mn_coll_job *job, int rank)
{
    return (rank - job->root + job->nranks) % job->nranks;
}

/* Ranks by their place behind the root: the parent's place lacks the lowest bit. */
static struct tree binomial(const struct mn_coll_job *job)
{
    struct tree t = {.parent = -1};
    int place = place_of(job, job->rank), bit = 1;

    for (; bit < job->nranks && !(place & bit); bit *= 2)
        if (place + bit < job->nranks)
            t.children[t.n++] = (job->rank + bit) % job->nranks;
    if (place)
        t.parent = (place - bit + job->root) % job->nranks;
    for (; 1 << t.depth < job->nranks; t.depth++)
        ;
    return t;
}

/* Parent in the tree over 1..n whose order is that of the numbers and whose leaves are odd. */
static int ordered_parent(int n, int v)
{
    int bit = v & -v, parent = (v - bit) | 2 * bit;

    return parent <= n ? parent : v - bit;
}

/* Two trees in which, but for one rank when their number is odd, whoever passes data on in one is
 * a leaf in the other: the second one's order is the first one's backwards, or moved by one. */
static int number_in(const struct mn_coll_job *job, int tree, int rank)
{
    int n = job->nranks;

    return !tree ? rank + 1 : n % 2 ? (rank + 1) % n + 1 : n - rank;
}

static struct tree ordered(const struct mn_coll_job *job, int tree)
{
    struct tree t = {.parent = -1};
    int n = job->nranks, self = number_in(job, tree, job->rank);

    for (int r = 0; r < n; r++) {
        if (number_in(job, tree, r) == ordered_parent(n, self))
            t.parent = r;
        if (ordered_parent(n, number_in(job, tree, r)) == self)
            t.children[t.n++] = r;
    }
    for (; 1 << t.depth <= n; t.depth++)
        ;
    return t;
}

/* A chunk's sum to the parent, or at the root into the output. Slots lie in tmp from base on, one
 * holds a chunk of each child. */
static void go_up(struct mn_flow *f, const struct mn_coll_job *job, const struct tree *t, size_t at,
                  size_t bytes, size_t base)
{
    size_t slot = base + at / job->chunk % SLOTS * (size_t)t->n * job->chunk;
    struct mn_at sum = t->n ? mn_at(MN_TMP, slot) : mn_at(MN_IN, at);

    for (int i = 0; i < t->n; i++)
        mn_flow_recv(f, t->children[i], mn_at(MN_TMP, slot + (size_t)i * job->chunk), bytes);
    if (t->n)
        mn_flow_reduce(f, mn_at(MN_IN, at), sum, bytes);
    for (int i = 1; i < t->n; i++)
        mn_flow_reduce(f, mn_at(MN_TMP, slot + (size_t)i * job->chunk), sum, bytes);
    if (t->parent >= 0)
        mn_flow_send(f, t->parent, sum, bytes);
    else
        mn_flow_copy(f, sum, mn_at(MN_OUT, at), bytes);
}

/* The root's output, a chunk of it, to everyone's. The largest subtree is served first. */
static void go_down(struct mn_flow *f, const struct tree *t, size_t at, size_t bytes)
{
    if (t->parent >= 0)
        mn_flow_recv(f, t->parent, mn_at(MN_OUT, at), bytes);
    for (int i = t->n; i-- > 0;)
        mn_flow_send(f, t->children[i], mn_at(MN_OUT, at), bytes);
}

/* Byte ranges [start, end) in chunks that begin at start. */
static size_t chunk_of(const struct mn_coll_job *job, size_t start, size_t end, size_t chunk,
                       size_t *bytes)
{
    size_t at = start + chunk * job->chunk;

    *bytes = at >= end ? 0 : end - at < job->chunk ? end - at : job->chunk;
    return at;
}

/* Each tree sums and spreads its part. A chunk goes down as many chunks later as it takes to come
 * back, so that the way up never waits behind the way down. */
static void reduce_and_spread(const struct mn_coll_job *job, const struct tree *trees, int n,
                              struct mn_schedule *s)
{
    size_t ends[MOST_PARALLEL + 1] = {0}, chunks = 0, late = 2 * (size_t)trees[0].depth;
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    for (int t = 0; t < n; t++) {
        ends[t + 1] = job->count * (size_t)(t + 1) / (size_t)n * job->element;
        size_t longest = (ends[t + 1] - ends[t] + job->chunk - 1) / job->chunk;
        chunks = longest > chunks ? longest : chunks;
    }
    for (size_t k = 0; f && chunks && k < chunks + late; k++) {
        size_t bytes, at, base = 0;
        for (int t = 0; t < n; t++) {
            at = chunk_of(job, ends[t], ends[t + 1], k, &bytes);
            if (bytes)
                go_up(f, job, &trees[t], at, bytes, base);
            base += SLOTS * (size_t)trees[t].n * job->chunk;
        }
        for (int t = 0; t < n && k >= late; t++) {
            at = chunk_of(job, ends[t], ends[t + 1], k - late, &bytes);
            if (bytes)
                go_down(f, &trees[t], at, bytes);
        }
    }
    mn_flow_free(f);
}

void mn_tree_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct mn_coll_job rooted = *job;

    rooted.root = 0;
    const struct tree tree = binomial(&rooted);
    reduce_and_spread(&rooted, &tree, 1, s);
}

void mn_doubletree_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    const struct tree trees[MOST_PARALLEL] = {ordered(job, 0), ordered(job, 1)};

    reduce_and_spread(job, trees, MOST_PARALLEL, s);
}

void mn_tree_broadcast(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct tree t = binomial(job);
    size_t all = job->count * job->element, bytes;
    struct mn_flow *f = mn_flow_new(MN_BROADCAST, job, s);

    for (size_t c = 0; f && c * job->chunk < all; c++) {
        size_t at = chunk_of(job, 0, all, c, &bytes);
        if (t.parent < 0)
            mn_flow_copy(f, mn_at(MN_IN, at), mn_at(MN_OUT, at), bytes);
        go_down(f, &t, at, bytes);
    }
    mn_flow_free(f);
}

void mn_tree_reduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct tree t = binomial(job);
    size_t all = job->count * job->element, bytes;
    struct mn_flow *f = mn_flow_new(MN_REDUCE, job, s);

    for (size_t c = 0; f && c * job->chunk < all; c++) {
        size_t at = chunk_of(job, 0, all, c, &bytes);
        go_up(f, job, &t, at, bytes, 0);
    }
    mn_flow_free(f);
}

/* How many ranks, itself among them, are at and below a place. */
static int below(const struct mn_coll_job *job, int place)
{
    int bit = place ? place & -place : job->nranks;

    return place + bit > job->nranks ? job->nranks - place : bit;
}

/* The blocks of a place and those below it, which follow it: in tmp from there on, where the root
 * has them in a buffer in rank order, so in two parts when they go round past the last rank. */
static void move_below(struct mn_flow *f, const struct mn_coll_job *job, int peer, int place,
                       enum mn_step_buffer rooted,
                       void move(struct mn_flow *, int, struct mn_at, size_t))
{
    size_t block = job->count * job->element;
    int self = place_of(job, job->rank), first = (place + job->root) % job->nranks;
    int n = below(job, place), straight = job->nranks - first < n ? job->nranks - first : n;
    struct mn_at one =
        self ? mn_at(MN_TMP, (size_t)(place - self) * block) : mn_at(rooted, (size_t)first * block);
    struct mn_at two =
        self ? mn_at(MN_TMP, (size_t)(place - self + straight) * block) : mn_at(rooted, 0);

    move(f, peer, one, (size_t)straight * block);
    move(f, peer, two, (size_t)(n - straight) * block);
}

void mn_tree_gather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct tree t = binomial(job);
    size_t block = job->count * job->element;
    int place = place_of(job, job->rank);
    struct mn_flow *f = mn_flow_new(MN_GATHER, job, s);

    if (!f)
        return;
    mn_flow_copy(f, mn_at(MN_IN, 0),
                 place ? mn_at(MN_TMP, 0) : mn_at(MN_OUT, (size_t)job->rank * block), block);
    for (int i = 0; i < t.n; i++)
        move_below(f, job, t.children[i], place_of(job, t.children[i]), MN_OUT, mn_flow_recv);
    if (place)
        move_below(f, job, t.parent, place, MN_TMP, mn_flow_send);
    mn_flow_free(f);
}

void mn_tree_scatter(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct tree t = binomial(job);
    size_t block = job->count * job->element;
    int place = place_of(job, job->rank);
    struct mn_flow *f = mn_flow_new(MN_SCATTER, job, s);

    if (!f)
        return;
    if (place)
        move_below(f, job, t.parent, place, MN_TMP, mn_flow_recv);
    for (int i = t.n; i-- > 0;)
        move_below(f, job, t.children[i], place_of(job, t.children[i]), MN_IN, mn_flow_send);
    mn_flow_copy(f, place ? mn_at(MN_TMP, 0) : mn_at(MN_IN, (size_t)job->rank * block),
                 mn_at(MN_OUT, 0), block);
    mn_flow_free(f);
}
