/* What is nearly a shape: which cable to add, which plug to move or which two to exchange so that
 * all cables make a ring, a full mesh or a torus. In each of these all nodes have equally many
 * cables, which is what most attempts are refused by before anything is drawn. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/whole_rule.h"

#define DRAWINGS 20000 /* at most; sixteen nodes need far fewer */

struct edge {
    int port[2];
    int doubled; /* another joins the same nodes, or it leads back to its own */
};

struct search {
    const struct mn_whole *w;
    struct edge *edges;
    size_t n_edges;
    int (*pairs)[2]; /* nodes of the edges, with room for one more */
    int *degree;
    int drawings;
    struct mn_wish wish;
};

static int node_of(const struct search *s, int port)
{
    return s->w->cabling.ports[port].node;
}

/* A free port of the node, freed counts as one and except does not; dark: one into which a plug can
 * go, else rather one with a carrier; -1 = none. */
static int free_port(const struct search *s, int node, int freed, int except, int dark)
{
    int found = -1;

    for (size_t i = 0; i < s->w->cabling.n_ports; i++) {
        int port = (int)i;

        if (node_of(s, port) != node || port == except ||
            (port != freed &&
             (!mn_port_is_free(s->w, port) || (dark && mn_port_carrier(s->w, port)))))
            continue;
        if (found < 0 || (mn_port_carrier(s->w, port) && !mn_port_carrier(s->w, found)))
            found = port;
    }
    return found;
}

/* A plug sits in a free port and nobody is heard there: the cables are not all known, and none is
 * to be moved before they are. */
static int hears_less(const struct search *s)
{
    int lit = 0;

    for (size_t i = 0; i < s->w->cabling.n_ports; i++)
        lit |= mn_port_is_free(s->w, (int)i) && mn_port_carrier(s->w, (int)i);
    return lit;
}

static void edge_add(struct search *s, int a, int b)
{
    struct edge *e = mn_grow((void **)&s->edges, &s->n_edges, sizeof *s->edges);

    e->port[0] = a;
    e->port[1] = b;
}

static void edges_read(struct search *s)
{
    const struct mn_cabling *c = &s->w->cabling;

    for (size_t i = 0; i < c->n_cables; i++)
        edge_add(s, c->cables[i].ports[0], c->cables[i].ports[1]);
    for (size_t i = 0; i < c->n_knots; i++)
        if (c->knots[i].kind == MN_KNOT_LOOP)
            edge_add(s, c->knots[i].ports[0], c->knots[i].ports[1]);
    s->pairs = mn_zalloc((s->n_edges + 1) * sizeof *s->pairs);
    s->degree = mn_zalloc((s->w->survey->n_nodes + 1) * sizeof *s->degree);
    for (size_t i = 0; i < s->n_edges; i++)
        for (int side = 0; side < 2; side++) {
            s->pairs[i][side] = node_of(s, s->edges[i].port[side]);
            s->degree[s->pairs[i][side]]++;
        }
    for (size_t i = 0; i < s->n_edges; i++) {
        s->edges[i].doubled = s->pairs[i][0] == s->pairs[i][1];
        for (size_t k = 0; k < s->n_edges; k++)
            s->edges[i].doubled |=
                k != i && ((s->pairs[i][0] == s->pairs[k][0] && s->pairs[i][1] == s->pairs[k][1]) ||
                           (s->pairs[i][0] == s->pairs[k][1] && s->pairs[i][1] == s->pairs[k][0]));
    }
}

/* Whether the first n of the pairs make a regular shape in which each of them counts. */
static int draws(struct search *s, size_t n)
{
    size_t nodes = s->w->survey->n_nodes;
    struct mn_graph graph;

    for (size_t i = 1; i < nodes; i++)
        if (s->degree[i] != s->degree[0])
            return 0;
    if (s->drawings-- <= 0)
        return 0;
    mn_graph_make(nodes, (const int(*)[2])s->pairs, n, &graph);
    s->wish.shape = mn_graph_shape(&graph, s->wish.sizes);
    int whole = graph.first[nodes] == 2 * n;
    mn_graph_free(&graph);
    return whole && (s->wish.shape == MN_SHAPE_RING || s->wish.shape == MN_SHAPE_FULL ||
                     s->wish.shape == MN_SHAPE_TORUS);
}

/* One cable more, between the two nodes that have one less than all others. */
static int try_add(struct search *s, int freed, int except)
{
    int nodes = (int)s->w->survey->n_nodes, most = 0, ends[2], n = 0, good;

    for (int i = 0; i < nodes; i++)
        most = s->degree[i] > most ? s->degree[i] : most;
    for (int i = 0; i < nodes; i++)
        if (s->degree[i] < most) {
            if (n == 2 || s->degree[i] != most - 1)
                return 0;
            ends[n++] = i;
        }
    if (n != 2)
        return 0;
    for (int side = 0; side < 2; side++) {
        s->wish.add[side] = free_port(s, ends[side], freed, except, freed >= 0);
        if (s->wish.add[side] < 0)
            return 0;
        s->pairs[s->n_edges][side] = ends[side];
        s->degree[ends[side]]++;
    }
    good = draws(s, s->n_edges + 1);
    for (int side = 0; side < 2; side++)
        s->degree[ends[side]]--;
    return good;
}

/* Moves one end of edge i to another node with a free port; add: and joins two more. */
static int try_move(struct search *s, size_t i, int side, int add)
{
    int was = s->pairs[i][side], good = 0;

    for (int node = 0; node < (int)s->w->survey->n_nodes && !good; node++) {
        int to = node == was || node == s->pairs[i][!side] ? -1 : free_port(s, node, -1, -1, 1);

        if (to < 0)
            continue;
        s->pairs[i][side] = node;
        s->degree[was]--;
        s->degree[node]++;
        good = add ? try_add(s, s->edges[i].port[side], to) : draws(s, s->n_edges);
        if (good) {
            s->wish.from = s->edges[i].port[side];
            s->wish.to = to;
            s->wish.far[0] = s->edges[i].port[!side];
            s->wish.doubled = s->edges[i].doubled;
        }
        s->degree[was]++;
        s->degree[node]--;
    }
    s->pairs[i][side] = was;
    return good;
}

static int try_moves(struct search *s, int add)
{
    for (int doubled = 1; doubled >= 0; doubled--)
        for (size_t i = 0; i < s->n_edges; i++)
            for (int side = 1; side >= 0; side--)
                if (s->edges[i].doubled == doubled && try_move(s, i, side, add))
                    return 1;
    return 0;
}

/* Exchanges the ends of two edges. */
static int try_swap(struct search *s, size_t i, size_t k)
{
    for (int side = 0; side < 2; side++) {
        int a = s->pairs[i][1], b = s->pairs[k][side], good;

        if (a == b)
            continue;
        s->pairs[i][1] = b;
        s->pairs[k][side] = a;
        good = draws(s, s->n_edges);
        s->pairs[i][1] = a;
        s->pairs[k][side] = b;
        if (!good)
            continue;
        s->wish.from = s->edges[i].port[1];
        s->wish.to = s->edges[k].port[side];
        s->wish.far[0] = s->edges[i].port[0];
        s->wish.far[1] = s->edges[k].port[!side];
        return 1;
    }
    return 0;
}

static int try_swaps(struct search *s)
{
    for (int doubled = 1; doubled >= 0; doubled--)
        for (size_t i = s->n_edges; i-- > 0;)
            for (size_t k = s->n_edges; k-- > 0;)
                if (i != k && s->edges[i].doubled == doubled && try_swap(s, i, k))
                    return 1;
    return 0;
}

/* Every cable leads where the addresses of its ends say, and a node has none yet: it waits for its
 * cables, and no plug of the others is wrong. */
static int waits(const struct search *s)
{
    const struct mn_cabling *c = &s->w->cabling;
    int bare = 0;

    for (size_t i = 0; i < c->n_cables; i++)
        if (s->w->wants[c->cables[i].ports[0]] != c->cables[i].ports[1])
            return 0;
    for (size_t n = 0; n < s->w->survey->n_nodes; n++)
        bare |= !mn_graph_degree(&s->w->all, n);
    return bare && c->n_cables > 0;
}

static enum mn_wish_kind find(struct search *s)
{
    int unknown = hears_less(s) || waits(s);

    if (try_add(s, -1, -1))
        return MN_WISH_ADD;
    if (s->wish.now == MN_SHAPE_LINE) { /* which is fine, but for a cable too many */
        for (size_t i = 0; i < s->n_edges; i++)
            for (int side = 1; side >= 0 && s->edges[i].doubled && !unknown; side--)
                if (try_move(s, i, side, 0))
                    return MN_WISH_MOVE;
        return MN_WISH_NONE;
    }
    if (!unknown && try_moves(s, 0))
        return MN_WISH_MOVE;
    if (try_swaps(s))
        return MN_WISH_SWAP;
    return !unknown && try_moves(s, 1) ? MN_WISH_MOVE_ADD : MN_WISH_NONE;
}

void mn_whole_wish(struct mn_whole *w)
{
    struct search s = {.w = w, .drawings = DRAWINGS};

    s.wish.now = mn_graph_shape(&w->cables, NULL);
    w->wish = s.wish;
    if (w->file || w->misled || w->survey->n_nodes < 3 ||
        (s.wish.now != MN_SHAPE_PARTIAL && s.wish.now != MN_SHAPE_LINE))
        return;
    edges_read(&s);
    s.wish.kind = find(&s);
    w->wish = s.wish;
    free(s.edges);
    free(s.pairs);
    free(s.degree);
}
