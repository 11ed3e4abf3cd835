#include "topo/ring_bound.h"

#include <stdlib.h>

#include "topo/base/alloc.h"

/* One piece of the graph. */
struct piece {
    int nodes;
    int lacking;    /* ends of steps that no neighbour can be at */
    int colors[2];  /* nodes of each colour */
    int odd;        /* neighbours have one colour */
    int most_parts; /* in which it falls without some node */
};

struct walk {
    const struct mn_graph *graph;
    int *seen;    /* when a node was come to, from 1 on */
    int *low;     /* the earliest that is reached from it and what follows it, but by its own way */
    int *from;    /* the node it was come to from, -1 = none */
    int *parts;   /* that nothing but this node joins to the rest */
    size_t *edge; /* the next to look at */
    char *color;
    int clock;
};

static void enter(struct walk *w, int node, int from, struct piece *p)
{
    size_t degree = mn_graph_degree(w->graph, (size_t)node);

    w->seen[node] = w->low[node] = ++w->clock;
    w->from[node] = from;
    w->edge[node] = w->graph->first[node];
    w->color[node] = from < 0 ? 0 : !w->color[from];
    p->nodes++;
    p->colors[(int)w->color[node]]++;
    p->lacking += degree < 2 ? 2 - (int)degree : 0;
}

/* Back where it was come from. */
static void leave(struct walk *w, int node, struct piece *p)
{
    int from = w->from[node];
    int parts = w->parts[node] + (from >= 0);

    p->most_parts = parts > p->most_parts ? parts : p->most_parts;
    if (from < 0)
        return;
    w->low[from] = w->low[node] < w->low[from] ? w->low[node] : w->low[from];
    w->parts[from] += w->low[node] >= w->seen[from];
}

static void walk(struct walk *w, int start, struct piece *p)
{
    *p = (struct piece){.nodes = 0};
    enter(w, start, -1, p);
    for (int here = start; here >= 0;) {
        if (w->edge[here] == w->graph->first[here + 1]) {
            leave(w, here, p);
            here = w->from[here];
            continue;
        }
        int there = w->graph->near[w->edge[here]++];
        if (!w->seen[there]) {
            enter(w, there, here, p);
            here = there;
            continue;
        }
        p->odd |= w->color[there] == w->color[here];
        if (there != w->from[here] && w->seen[there] < w->low[here])
            w->low[here] = w->seen[there];
    }
}

/* Steps that the piece lacks when it is a ring of its own, at least. */
static int bound(const struct piece *p)
{
    int most = (p->lacking + 1) / 2, apart = p->most_parts - 1;
    int colors = abs(p->colors[0] - p->colors[1]);

    if (p->nodes == 1)
        return 1;
    if (p->nodes == 2) /* there and back over the one cable */
        return 0;
    most = apart > most ? apart : most;
    return !p->odd && colors > most ? colors : most;
}

int mn_ring_bound(const struct mn_graph *graph)
{
    size_t n = graph->n;
    struct walk w = {.graph = graph};
    struct piece p;
    int sum = 0;

    w.seen = mn_zalloc(n * sizeof *w.seen);
    w.low = mn_zalloc(n * sizeof *w.low);
    w.from = mn_zalloc(n * sizeof *w.from);
    w.parts = mn_zalloc(n * sizeof *w.parts);
    w.edge = mn_zalloc(n * sizeof *w.edge);
    w.color = mn_zalloc(n);
    for (size_t i = 0; i < n; i++) {
        if (w.seen[i])
            continue;
        walk(&w, (int)i, &p);
        int own = bound(&p);
        sum += own;
        if ((size_t)p.nodes < n && own == 0)
            sum++; /* it is left at one place at least */
    }
    free(w.seen);
    free(w.low);
    free(w.from);
    free(w.parts);
    free(w.edge);
    free(w.color);
    return sum;
}
