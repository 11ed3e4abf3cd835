/* A torus is a product of rings: every node has two ways to go in each dimension (one in a
 * dimension of two places), and it does not matter in which order two steps of different dimensions
 * are made. So the ways of one node, once chosen, settle those of all others: of a neighbour, the
 * way sideways leads to the one node that it shares with the sideways neighbour of where we came
 * from, and what is left over leads straight on. There are at most fifteen choices at the first
 * node, and each is followed through the whole graph in time that grows with its size. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/shape.h"

#define WAYS 6

struct walk {
    const struct mn_graph *graph;
    int n_ways, back[WAYS];
    int (*to)[WAYS]; /* where each way of a node leads */
    char *settled;
    int *queue;
};

/* The node that a and b are both joined to, other than that; -1 when it is not exactly one. */
static int shared(const struct mn_graph *g, int a, int b, int except)
{
    int found = -1;

    for (size_t i = g->first[a]; i < g->first[a + 1]; i++) {
        if (g->near[i] == except || !mn_graph_joined(g, g->near[i], b))
            continue;
        if (found >= 0)
            return -1;
        found = g->near[i];
    }
    return found;
}

/* The neighbour that no way leads to yet, -1 when it is not exactly one. */
static int left_over(const struct walk *w, int node, int except)
{
    int found = -1;

    for (size_t i = w->graph->first[node]; i < w->graph->first[node + 1]; i++) {
        int taken = 0;

        for (int way = 0; way < w->n_ways; way++)
            taken |= way != except && w->to[node][way] == w->graph->near[i];
        if (taken)
            continue;
        if (found >= 0)
            return -1;
        found = w->graph->near[i];
    }
    return found;
}

/* Settles the ways of the node to which way leads from a settled one. */
static int settle(struct walk *w, int from, int way)
{
    int node = w->to[from][way];

    if (w->settled[node])
        return 1;
    for (int side = 0; side < w->n_ways; side++)
        w->to[node][side] = -1;
    w->to[node][w->back[way]] = from;
    for (int side = 0; side < w->n_ways; side++) {
        if (side == way || side == w->back[way])
            continue;
        w->to[node][side] = shared(w->graph, node, w->to[from][side], from);
        if (w->to[node][side] < 0)
            return 0;
    }
    if (w->back[way] != way && (w->to[node][way] = left_over(w, node, way)) < 0)
        return 0;
    w->settled[node] = 1;
    return 1;
}

/* Every way there and back again, and any two in either order. */
static int commutes(const struct walk *w)
{
    for (size_t i = 0; i < w->graph->n; i++)
        for (int a = 0; a < w->n_ways; a++) {
            if (w->to[w->to[i][a]][w->back[a]] != (int)i)
                return 0;
            for (int b = 0; b < a; b++)
                if (w->to[w->to[i][a]][b] != w->to[w->to[i][b]][a])
                    return 0;
        }
    return 1;
}

/* The rings through the first node have as many places together as there are nodes. */
static int measure(const struct walk *w, int sizes[3])
{
    size_t product = 1;
    int n = 0;

    for (int way = 0; way < w->n_ways; way++) {
        int length = 0, at = 0;

        if (w->back[way] < way)
            continue;
        do {
            at = w->to[at][way];
            length++;
        } while (at != 0 && (size_t)length <= w->graph->n);
        product *= (size_t)length;
        sizes[n++] = length;
    }
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && sizes[k - 1] > sizes[k]; k--) {
            int swap = sizes[k];

            sizes[k] = sizes[k - 1];
            sizes[k - 1] = swap;
        }
    return product == w->graph->n;
}

/* With the ways of the first node chosen. */
static int follow(struct walk *w, int sizes[3])
{
    size_t length = 1;

    memset(w->settled, 0, w->graph->n);
    memset(sizes, 0, 3 * sizeof *sizes);
    w->settled[0] = 1;
    w->queue[0] = 0;
    for (size_t at = 0; at < length; at++)
        for (int way = 0; way < w->n_ways; way++) {
            int next = w->to[w->queue[at]][way], new = !w->settled[next];

            if (!settle(w, w->queue[at], way))
                return 0;
            if (new)
                w->queue[length++] = next;
        }
    return length == w->graph->n && commutes(w) && measure(w, sizes);
}

/* Chooses which neighbours of the first node lie opposite each other, from way on. */
static int choose(struct walk *w, int way, unsigned used, int sizes[3])
{
    const int *near = w->graph->near + w->graph->first[0];
    int a = 0;

    if (way == w->n_ways)
        return follow(w, sizes);
    while (used & 1u << a)
        a++;
    for (int b = a + 1; b < w->n_ways; b++) {
        if (used & 1u << b)
            continue;
        w->to[0][way] = near[a];
        w->to[0][way + 1] = near[b];
        if (choose(w, way + 2, used | 1u << a | 1u << b, sizes))
            return 1;
    }
    return 0;
}

int mn_graph_torus(const struct mn_graph *graph, int sizes[3])
{
    struct walk w = {.graph = graph, .n_ways = graph->n ? (int)mn_graph_degree(graph, 0) : 0};
    int found = 0;

    for (size_t i = 0; i < graph->n; i++)
        if ((int)mn_graph_degree(graph, i) != w.n_ways)
            return 0;
    if (w.n_ways < 3 || w.n_ways > WAYS)
        return 0;
    w.to = mn_zalloc(graph->n * sizeof *w.to);
    w.settled = mn_zalloc(graph->n);
    w.queue = mn_zalloc(graph->n * sizeof *w.queue);
    for (int way = 0; way < w.n_ways; way++)
        w.back[way] = w.n_ways % 2 ? (way == 0 ? 0 : ((way - 1) ^ 1) + 1) : way ^ 1;
    /* With an odd number of ways the first leads along a dimension of two places. */
    for (int pair = 0; pair < (w.n_ways % 2 ? w.n_ways : 1) && !found; pair++) {
        if (w.n_ways % 2)
            w.to[0][0] = graph->near[graph->first[0] + (size_t)pair];
        found = choose(&w, w.n_ways % 2, w.n_ways % 2 ? 1u << pair : 0, sizes);
    }
    free(w.to);
    free(w.settled);
    free(w.queue);
    return found;
}
