/* The graph, and what one node sees of it. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/route.h"

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return (hash ^ 0xff) * 0x100000001b3;
}

uint64_t mn_way_weight(const char *a, const char *b)
{
    int swap = strcmp(a, b) > 0;
    uint64_t hash = mix(mix(0xcbf29ce484222325, swap ? b : a), swap ? a : b);

    hash = (hash ^ (hash >> 31)) * 0x9e3779b97f4a7c15;
    return hash >> 24;
}

void mn_ways_index(struct mn_ways *ways)
{
    size_t n = ways->n;

    ways->start = mn_zalloc((n + 2) * sizeof *ways->start);
    ways->steps = mn_zalloc((2 * ways->n_edges + 1) * sizeof *ways->steps);
    for (size_t i = 0; i < 2 * ways->n_edges; i++)
        ways->start[ways->edges[i / 2].ends[i % 2] + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        ways->start[i] += ways->start[i - 1];
    for (size_t i = 0; i < 2 * ways->n_edges; i++) {
        const struct mn_way_edge *edge = &ways->edges[i / 2];
        ways->steps[ways->start[edge->ends[i % 2] + 1]++] =
            (struct mn_way_step){edge->ends[!(i % 2)], (uint32_t)(i / 2), edge->weight};
    }
}

void mn_ways_free(struct mn_ways *ways)
{
    free(ways->edges);
    free(ways->start);
    free(ways->steps);
    *ways = (struct mn_ways){.n = 0};
}

size_t mn_ways_degree(const struct mn_ways *ways, int node)
{
    return ways->start[node + 1] - ways->start[node];
}

int mn_way_other_end(const struct mn_way_edge *edge, int node)
{
    return edge->ends[edge->ends[0] == node];
}

void mn_way_view_make(size_t n, struct mn_way_view *view)
{
    view->self = -1;
    view->hops = mn_zalloc((n + 1) * sizeof *view->hops);
    view->weight = mn_zalloc((n + 1) * sizeof *view->weight);
    view->first = mn_zalloc((n + 1) * sizeof *view->first);
    view->last = mn_zalloc((n + 1) * sizeof *view->last);
    view->order = mn_zalloc((n + 1) * sizeof *view->order);
    view->reached = 0;
}

void mn_way_view_free(struct mn_way_view *view)
{
    free(view->hops);
    free(view->weight);
    free(view->first);
    free(view->last);
    free(view->order);
    *view = (struct mn_way_view){.self = -1};
}

void mn_way_look(const struct mn_ways *ways, int self, const char *barred, struct mn_way_view *view)
{
    memset(view->hops, 0xff, ways->n * sizeof *view->hops); /* -1 */
    view->self = self;
    view->hops[self] = 0;
    view->weight[self] = 0;
    view->order[0] = self;
    view->reached = 1;
    for (int at = 0; at < view->reached; at++) {
        int here = view->order[at], hops = view->hops[here] + 1;
        for (size_t i = ways->start[here]; i < ways->start[here + 1]; i++) {
            const struct mn_way_step *step = &ways->steps[i];
            int there = step->to;
            uint64_t weight = view->weight[here] + step->weight;
            if (barred && barred[step->edge])
                continue;
            if (view->hops[there] >= 0 &&
                (view->hops[there] != hops || view->weight[there] <= weight))
                continue;
            if (view->hops[there] < 0)
                view->order[view->reached++] = there;
            view->hops[there] = hops;
            view->weight[there] = weight;
            view->first[there] = here == self ? step->edge : view->first[here];
            view->last[there] = step->edge;
        }
    }
}
