#include "topo/route.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

/* A cable as it is sorted: by its nodes, then as the fabric has it. */
struct item {
    int low, high;
    size_t cable;
};

static int by_nodes(const void *x, const void *y)
{
    const struct item *a = x, *b = y;

    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    if (a->high != b->high)
        return a->high < b->high ? -1 : 1;
    return a->cable < b->cable ? -1 : a->cable > b->cable;
}

static uint64_t weight_of(const struct mn_fabric_cable *cable, int low, int high)
{
    uint64_t hash = ((uint64_t)low << 32 | (uint64_t)high) * 0x9e3779b97f4a7c15;

    hash = (hash ^ (hash >> 31)) * 0xbf58476d1ce4e5b9;
    return cable->weight ? cable->weight : hash >> 24;
}

void mn_routes_find(const struct mn_fabric *fabric, struct mn_routes *routes)
{
    struct item *items = mn_zalloc((fabric->n_cables + 1) * sizeof *items);
    struct mn_ways *ways = &routes->ways;

    *routes = (struct mn_routes){.ways.n = (size_t)fabric->n, .looked = -1};
    routes->cables = mn_zalloc((fabric->n_cables + 1) * sizeof *routes->cables);
    ways->edges = mn_zalloc((fabric->n_cables + 1) * sizeof *ways->edges);
    for (size_t c = 0; c < fabric->n_cables; c++) {
        int a = fabric->cables[c].nodes[0], b = fabric->cables[c].nodes[1];
        items[c] = (struct item){a < b ? a : b, a < b ? b : a, c};
    }
    qsort(items, fabric->n_cables, sizeof *items, by_nodes);
    for (size_t i = 0; i < fabric->n_cables; i++) {
        struct mn_way_edge *edge = ways->n_edges ? &ways->edges[ways->n_edges - 1] : NULL;
        routes->cables[i] = items[i].cable;
        if (!edge || edge->ends[0] != items[i].low || edge->ends[1] != items[i].high) {
            edge = &ways->edges[ways->n_edges++];
            *edge = (struct mn_way_edge){.ends = {items[i].low, items[i].high}, .first = i};
            edge->weight = weight_of(&fabric->cables[items[i].cable], items[i].low, items[i].high);
        }
        edge->count++;
    }
    free(items);
    mn_ways_index(ways);
    mn_way_view_make(ways->n, &routes->view);
    routes->last = mn_zalloc((ways->n + 1) * sizeof *routes->last);
}

void mn_routes_free(struct mn_routes *routes)
{
    for (size_t i = 0; i < routes->ways.n; i++)
        free(routes->last[i]);
    free(routes->last);
    free(routes->cables);
    mn_way_view_free(&routes->view);
    mn_ways_free(&routes->ways);
    *routes = (struct mn_routes){.looked = -1};
}

const struct mn_way_view *mn_routes_view(struct mn_routes *routes, int from)
{
    if (routes->looked != from)
        mn_way_look(&routes->ways, from, NULL, &routes->view);
    routes->looked = from;
    return &routes->view;
}

#define NOWHERE UINT16_MAX

/* Which of node's edges that is. */
static uint16_t slot_of(const struct mn_ways *ways, int node, size_t edge)
{
    size_t at = ways->start[node];

    while (ways->steps[at].edge != edge)
        at++;
    return (uint16_t)(at - ways->start[node]);
}

static const uint16_t *last_of(struct mn_routes *routes, int from)
{
    uint16_t *last = routes->last[from];

    if (last)
        return last;
    const struct mn_way_view *view = mn_routes_view(routes, from);
    last = mn_zalloc((routes->ways.n + 1) * sizeof *last);
    memset(last, 0xff, routes->ways.n * sizeof *last); /* NOWHERE */
    for (int i = 1; i < view->reached; i++)
        last[view->order[i]] = slot_of(&routes->ways, view->order[i], view->last[view->order[i]]);
    routes->last[from] = last;
    return last;
}

/* The way back from to, over the edges by which it was reached; nodes from behind. */
static int walk_back(const struct mn_ways *ways, const uint16_t *last, int from, int to, int *nodes)
{
    int hops = 0;

    for (int at = to; at != from; hops++) {
        if (last[at] == NOWHERE)
            return -1;
        at = ways->steps[ways->start[at] + last[at]].to;
    }
    for (int at = to, i = hops; nodes && i >= 0; i--) {
        nodes[i] = at;
        if (i)
            at = ways->steps[ways->start[at] + last[at]].to;
    }
    return hops;
}

int mn_routes_path(struct mn_routes *routes, int from, int to, int *nodes)
{
    return walk_back(&routes->ways, last_of(routes, from), from, to, nodes);
}

const struct mn_way_edge *mn_routes_edge(const struct mn_routes *routes, int a, int b)
{
    const struct mn_ways *ways = &routes->ways;

    for (size_t i = ways->start[a]; i < ways->start[a + 1]; i++)
        if (ways->steps[i].to == b)
            return &ways->edges[ways->steps[i].edge];
    return NULL;
}

int mn_routes_path_by(const struct mn_fabric *fabric, struct mn_routes *routes, int from, int to,
                      int cable, int *nodes)
{
    const struct mn_fabric_cable *c = cable < 0 ? NULL : &fabric->cables[cable];
    int near = c ? c->nodes[c->nodes[0] == to] : to;
    int to_near = mn_routes_path(routes, from, near, NULL);
    int straight = mn_routes_path(routes, from, to, NULL);

    if (straight <= 1 || to_near >= straight || near == to)
        return mn_routes_path(routes, from, to, nodes);
    mn_routes_path(routes, from, near, nodes);
    if (nodes)
        nodes[to_near + 1] = to;
    return to_near + 1;
}

int mn_route_beside(struct mn_routes *routes, const int *nodes, int hops, int *other)
{
    char *barred = mn_zalloc(routes->ways.n_edges + 1);
    int from = nodes[0], to = nodes[hops], at = to;

    for (int i = 0; i < hops; i++) {
        const struct mn_way_edge *edge = mn_routes_edge(routes, nodes[i], nodes[i + 1]);
        barred[edge - routes->ways.edges] = edge->count == 1;
    }
    mn_way_look(&routes->ways, from, barred, &routes->view);
    routes->looked = -1;
    hops = from == to ? -1 : routes->view.hops[to];
    for (int i = hops; other && i >= 0; i--) {
        other[i] = at;
        if (i)
            at = mn_way_other_end(&routes->ways.edges[routes->view.last[at]], at);
    }
    free(barred);
    return hops;
}

int mn_route_other(struct mn_routes *routes, int from, int to, int *nodes)
{
    int *path = mn_zalloc((routes->ways.n + 1) * sizeof *path);
    int hops = mn_routes_path(routes, from, to, path);

    hops = hops < 0 ? -1 : mn_route_beside(routes, path, hops, nodes);
    free(path);
    return hops;
}

int mn_routes_diameter(struct mn_routes *routes)
{
    int longest = 0;

    for (size_t i = 0; i < routes->ways.n; i++) {
        const struct mn_way_view *view = mn_routes_view(routes, (int)i);
        int far = view->hops[view->order[view->reached - 1]];
        if (view->reached < (int)routes->ways.n)
            return -1;
        longest = far > longest ? far : longest;
    }
    return longest;
}
