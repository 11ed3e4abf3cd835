/* Three searches: none where the numbers' order will do; one of all orders where the nodes are few;
 * else one that begins with a walk over unvisited neighbours and turns pieces of the circle round.
 * A step (a, b) that is not joined, and a neighbour d of b with c before it: the piece b…c turned
 * round has the steps (a, c) and (b, d). So the number of gaps never grows, they wander, and where
 * two meet at least one is gone: on grids soon, as a random walk meets another. */
#include "topo/ring.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/ring_bound.h"

#define FEW   16
#define STEPS 400000    /* of the search of all orders; a dozen nodes need far fewer */
#define MOVES 300000000 /* of nodes, when pieces are turned round */
#define TURNS 4000      /* pieces for each node */

int mn_graph_gaps(const struct mn_graph *graph, const int *order, int n)
{
    int gaps = 0;

    for (int i = 0; i < n && n > 1; i++)
        gaps += !mn_graph_joined(graph, order[i], order[(i + 1) % n]);
    return gaps;
}

void mn_ring_free(struct mn_ring *ring)
{
    free(ring->order);
    ring->order = NULL;
}

/* --- all orders ----------------------------------------------------------------------------- */

struct search {
    const struct mn_graph *graph;
    int *order, n;
    char *used;
    long steps;
};

/* Places positions from at on, leaving out at most that many joints. */
static int place(struct search *s, int at, int missing)
{
    if (at == s->n)
        return missing - !mn_graph_joined(s->graph, s->order[at - 1], s->order[0]) >= 0;
    for (int pass = 1; pass >= 0; pass--)
        for (int next = 1; next < s->n; next++) {
            int has = mn_graph_joined(s->graph, s->order[at - 1], next);
            if (s->used[next] || has != pass || (!has && !missing) || --s->steps < 0)
                continue;
            s->used[next] = 1;
            s->order[at] = next;
            if (place(s, at + 1, missing - !has))
                return 1;
            s->used[next] = 0;
        }
    return 0;
}

/* 1: ring has the best order. What was ruled out is known in least even if it has not. */
static int try_all(const struct mn_graph *graph, struct mn_ring *ring)
{
    struct search s = {.graph = graph, .n = (int)graph->n, .steps = STEPS};
    int found = 0;

    s.order = mn_zalloc(graph->n * sizeof *s.order);
    s.used = mn_zalloc(graph->n);
    while (!found && ring->least < ring->missing && s.steps > 0) {
        memset(s.used, 0, graph->n);
        s.used[0] = 1;
        found = place(&s, 1, ring->least);
        ring->least += !found && s.steps > 0;
    }
    if (found) {
        memcpy(ring->order, s.order, graph->n * sizeof *s.order);
        ring->missing = ring->least;
    }
    free(s.order);
    free(s.used);
    return ring->missing == ring->least;
}

/* --- many nodes ----------------------------------------------------------------------------- */

struct circle {
    const struct mn_graph *graph;
    int n, *order, *at; /* at[order[i]] = i */
    int *gaps, n_gaps;  /* positions i whose step to the next is not joined, in no order */
    int *gap_at;        /* by position: where it is in gaps, -1 = nowhere */
    long moves;
    uint64_t seed;
};

static unsigned random_below(struct circle *c, unsigned n)
{
    c->seed ^= c->seed << 13;
    c->seed ^= c->seed >> 7;
    c->seed ^= c->seed << 17;
    return (unsigned)(c->seed >> 33) % n;
}

static int next_of(const struct circle *c, int i)
{
    return i + 1 < c->n ? i + 1 : 0;
}

static int before(const struct circle *c, int i)
{
    return i ? i - 1 : c->n - 1;
}

static void mark(struct circle *c, int i, int gap)
{
    int slot = c->gap_at[i];

    if (gap && slot < 0) {
        c->gap_at[i] = c->n_gaps;
        c->gaps[c->n_gaps++] = i;
    } else if (!gap && slot >= 0) {
        c->gaps[slot] = c->gaps[--c->n_gaps];
        c->gap_at[c->gaps[slot]] = slot;
        c->gap_at[i] = -1;
    }
}

/* Looks again at the step from position i. */
static void look(struct circle *c, int i)
{
    mark(c, i, !mn_graph_joined(c->graph, c->order[i], c->order[next_of(c, i)]));
}

/* Turns positions i to k round, over the end if k < i. The other way about is the same circle: the
 * shorter part is turned. */
static void turn(struct circle *c, int i, int k)
{
    int length = k >= i ? k - i + 1 : k - i + 1 + c->n;

    if (2 * length > c->n) {
        int begin = next_of(c, k);
        k = before(c, i);
        i = begin;
        length = c->n - length;
    }
    int first = before(c, i), last = k;
    c->moves -= length + 8;
    for (int a = i, b = k, left = length / 2; left > 0; left--) {
        int node = c->order[a];
        c->order[a] = c->order[b];
        c->order[b] = node;
        c->at[c->order[a]] = a;
        c->at[c->order[b]] = b;
        a = next_of(c, a);
        b = before(c, b);
    }
    /* The steps within are turned too. */
    for (int a = i, b = before(c, k), left = (length - 1) / 2; left > 0; left--) {
        int gap_a = c->gap_at[a] >= 0, gap_b = c->gap_at[b] >= 0;
        mark(c, a, gap_b);
        mark(c, b, gap_a);
        a = next_of(c, a);
        b = before(c, b);
    }
    look(c, first);
    look(c, last);
}

/* For the gap after position i: what joins one of its ends, its t-th choice. 1: the piece from *a
 * to *b turned round does it, and *gain gaps go. */
static int choice(const struct circle *c, int i, size_t t, int *a, int *b, int *gain)
{
    const struct mn_graph *g = c->graph;
    int k = next_of(c, i), one = c->order[i], two = c->order[k];
    size_t own = mn_graph_degree(g, (size_t)two);
    int new_gap, old_gap;

    if (t < own) { /* two gets a new one before it */
        int d = c->at[g->near[g->first[two] + t]], before_d = before(c, d);
        *a = k;
        *b = before_d;
        if (d == k || before_d == i)
            return 0;
        old_gap = c->gap_at[before_d] >= 0;
        new_gap = !mn_graph_joined(g, one, c->order[before_d]);
    } else { /* one gets a new one after it */
        int d = c->at[g->near[g->first[one] + t - own]], after_d = next_of(c, d);
        *a = after_d;
        *b = i;
        if (d == i || after_d == k)
            return 0;
        old_gap = c->gap_at[d] >= 0;
        new_gap = !mn_graph_joined(g, two, c->order[after_d]);
    }
    *gain = 1 + old_gap - new_gap;
    return 1;
}

static size_t choices(const struct circle *c, int i)
{
    return mn_graph_degree(c->graph, (size_t)c->order[i]) +
           mn_graph_degree(c->graph, (size_t)c->order[next_of(c, i)]);
}

/* A gap that can be closed is, else some gap wanders. 0: none can. */
static int step(struct circle *c)
{
    int i = c->gaps[random_below(c, (unsigned)c->n_gaps)], a = 0, b = 0, gain = 0;
    size_t n = choices(c, i), begin = n ? random_below(c, (unsigned)n) : 0;
    int some_a = -1, some_b = -1;

    for (size_t t = 0; t < n; t++) {
        if (!choice(c, i, (begin + t) % n, &a, &b, &gain))
            continue;
        if (gain > 0) {
            turn(c, a, b);
            return 1;
        }
        if (some_a < 0) {
            some_a = a;
            some_b = b;
        }
    }
    c->moves -= (long)n + 8;
    if (some_a >= 0)
        turn(c, some_a, some_b);
    return some_a >= 0;
}

/* From 0 on, always to the neighbour that has the fewest left to go to, which would be lonely
 * soonest. */
static void begin_circle(struct circle *c)
{
    const struct mn_graph *g = c->graph;
    int *left = mn_zalloc((size_t)c->n * sizeof *left), fresh = 1, here = 0;
    char *used = mn_zalloc((size_t)c->n);

    for (int i = 0; i < c->n; i++)
        left[i] = (int)mn_graph_degree(g, (size_t)i);
    for (int at = 0; at < c->n; at++) {
        int best = -1;
        c->order[at] = here;
        c->at[here] = at;
        used[here] = 1;
        for (size_t i = g->first[here]; i < g->first[here + 1]; i++) {
            int there = g->near[i];
            left[there]--;
            if (!used[there] && (best < 0 || left[there] < left[best]))
                best = there;
        }
        while (fresh < c->n && used[fresh])
            fresh++;
        here = best >= 0 ? best : fresh;
    }
    for (int i = 0; i < c->n; i++)
        c->gap_at[i] = -1;
    for (int i = 0; i < c->n; i++)
        look(c, i);
    free(left);
    free(used);
}

static void wander(const struct mn_graph *graph, struct mn_ring *ring)
{
    size_t n = graph->n;
    struct circle c = {.graph = graph,
                       .n = (int)n,
                       .moves = MOVES,
                       .seed = 0x9e3779b97f4a7c15 /* any */};

    c.order = mn_zalloc(n * sizeof *c.order);
    c.at = mn_zalloc(n * sizeof *c.at);
    c.gaps = mn_zalloc(n * sizeof *c.gaps);
    c.gap_at = mn_zalloc(n * sizeof *c.gap_at);
    begin_circle(&c);
    for (long turns = TURNS * (long)n; c.n_gaps > ring->least && c.moves > 0 && turns > 0; turns--)
        step(&c);
    if (c.n_gaps < ring->missing) {
        ring->missing = c.n_gaps;
        for (size_t i = 0; i < n; i++)
            ring->order[i] = c.order[((size_t)c.at[0] + i) % n];
    }
    free(c.order);
    free(c.at);
    free(c.gaps);
    free(c.gap_at);
}

void mn_graph_ring(const struct mn_graph *graph, struct mn_ring *ring)
{
    *ring = (struct mn_ring){.order = mn_zalloc((graph->n + 1) * sizeof *ring->order)};
    for (size_t i = 0; i < graph->n; i++)
        ring->order[i] = (int)i;
    ring->missing = mn_graph_gaps(graph, ring->order, (int)graph->n);
    ring->least = graph->n > 1 ? mn_ring_bound(graph) : 0;
    if (ring->missing > ring->least && !(graph->n <= FEW && try_all(graph, ring)))
        wander(graph, ring);
}
