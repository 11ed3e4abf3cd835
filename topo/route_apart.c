/* Ways beside each other, as relays take them all at once. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/route.h"

struct apart {
    struct mn_routes *routes;
    int max_hops, n;
    int *nodes, *hops;
    char *used;   /* edges of ways that are found, and the direct one */
    char *barred; /* … and in a first try those of the nodes between */
};

static int *way_at(const struct apart *a, int way)
{
    return a->nodes + (size_t)way * (size_t)(a->max_hops + 1);
}

static void bar_nodes(struct apart *a)
{
    const struct mn_ways *graph = &a->routes->ways;

    memcpy(a->barred, a->used, graph->n_edges);
    for (int w = 0; w < a->n; w++)
        for (int i = 1; i < a->hops[w]; i++) {
            int node = way_at(a, w)[i];
            for (size_t k = graph->start[node]; k < graph->start[node + 1]; k++)
                a->barred[graph->steps[k].edge] = 1;
        }
}

/* From the last node back. 0: there is none, or it is too long. */
static int look(struct apart *a, int from, int to, const char *barred)
{
    const struct mn_ways *graph = &a->routes->ways;
    struct mn_way_view *view = &a->routes->view;
    int *nodes = way_at(a, a->n);

    a->routes->looked = -1;
    mn_way_look(graph, from, barred, view);
    int hops = view->hops[to];
    if (hops < 2 || hops > a->max_hops)
        return 0;
    for (int i = hops, at = to; i >= 0; i--) {
        nodes[i] = at;
        if (i)
            at = mn_way_other_end(&graph->edges[view->last[at]], at);
    }
    a->hops[a->n++] = hops;
    return 1;
}

static void take_edges(struct apart *a, const int *nodes, int hops)
{
    for (int i = 0; i < hops; i++) {
        const struct mn_way_edge *edge = mn_routes_edge(a->routes, nodes[i], nodes[i + 1]);
        if (edge)
            a->used[edge - a->routes->ways.edges] = 1;
    }
}

static void turn(int *nodes, int hops)
{
    for (int i = 0, k = hops; i < k; i++, k--) {
        int swap = nodes[i];
        nodes[i] = nodes[k];
        nodes[k] = swap;
    }
}

int mn_routes_apart(struct mn_routes *routes, int from, int to, int max_hops, int max, int *nodes,
                    int *hops)
{
    size_t n = routes->ways.n_edges + 1;
    struct apart a = {.routes = routes, .max_hops = max_hops, .nodes = nodes, .hops = hops};
    int ends[2] = {from < to ? from : to, from < to ? to : from};

    if (from == to)
        return 0;
    a.used = mn_zalloc(2 * n);
    a.barred = a.used + n;
    take_edges(&a, ends, 1);
    while (a.n < max) {
        bar_nodes(&a);
        if (!look(&a, ends[0], ends[1], a.barred) && !look(&a, ends[0], ends[1], a.used))
            break;
        take_edges(&a, way_at(&a, a.n - 1), hops[a.n - 1]);
    }
    for (int w = 0; w < a.n && from > to; w++)
        turn(way_at(&a, w), hops[w]);
    free(a.used);
    return a.n;
}
