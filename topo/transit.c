/* The kernel's routes, made from the shortest ways over cables. */
#include "topo/transit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/route.h"

/* A subnet of a cable. */
struct net {
    const struct mn_mesh_link *link;
    struct mn_addr subnet;
    const struct mn_addr *addrs[2]; /* of the link's ends */
};

/* Of one family. */
struct graph {
    const struct mn_mesh *mesh;
    struct net *nets; /* those of an edge side by side, by link's name */
    size_t n_nets;
    struct mn_ways ways;
};

static int in_order(int a, int b)
{
    return a < b ? -1 : a > b;
}

static int by_edge(const void *x, const void *y)
{
    const struct net *a = x, *b = y;
    const struct mn_mesh_end *p = a->link->ends, *q = b->link->ends;
    int d = in_order(p[0].node < p[1].node ? p[0].node : p[1].node,
                     q[0].node < q[1].node ? q[0].node : q[1].node);

    if (!d)
        d = in_order(p[0].node + p[1].node, q[0].node + q[1].node);
    if (!d)
        d = strverscmp(a->link->name, b->link->name);
    return d ? d : memcmp(a->subnet.bytes, b->subnet.bytes, sizeof a->subnet.bytes);
}

static void nets_of(struct graph *g, const struct mn_mesh_link *link, int family)
{
    const struct mn_mesh_nic *a = mn_mesh_end_nic(g->mesh, &link->ends[0]);
    const struct mn_mesh_nic *b = mn_mesh_end_nic(g->mesh, &link->ends[1]);

    for (size_t i = 0; i < a->n_addrs; i++)
        for (size_t j = 0; j < b->n_addrs; j++) {
            const struct mn_addr *x = &a->addrs[i], *y = &b->addrs[j];
            if (x->family != family || mn_addr_is_link_local(x) || !mn_addr_share_subnet(x, y))
                continue;
            struct net *net = mn_grow((void **)&g->nets, &g->n_nets, sizeof *net);
            *net = (struct net){link, mn_addr_network(x->prefix <= y->prefix ? x : y), {x, y}};
            break;
        }
}

static void add_edges(struct graph *g)
{
    struct mn_ways *ways = &g->ways;

    for (size_t i = 0; i < g->n_nets; i++) {
        const struct mn_mesh_end *ends = g->nets[i].link->ends;
        struct mn_way_edge *edge = ways->n_edges ? &ways->edges[ways->n_edges - 1] : NULL;
        int known = edge && ((edge->ends[0] == ends[0].node && edge->ends[1] == ends[1].node) ||
                             (edge->ends[1] == ends[0].node && edge->ends[0] == ends[1].node));
        if (!known) {
            edge = mn_grow((void **)&ways->edges, &ways->n_edges, sizeof *edge);
            *edge = (struct mn_way_edge){.ends = {ends[0].node, ends[1].node}, .first = i};
            edge->weight =
                mn_way_weight(g->mesh->nodes[ends[0].node].name, g->mesh->nodes[ends[1].node].name);
        }
        edge->count++;
    }
    mn_ways_index(ways);
}

static void graph_make(struct graph *g, const struct mn_mesh *mesh, int family)
{
    *g = (struct graph){.mesh = mesh, .ways.n = mesh->n_nodes};
    for (size_t i = 0; i < mesh->n_links; i++)
        if (!mn_link_is_bare(&mesh->links[i]))
            nets_of(g, &mesh->links[i], family);
    if (g->n_nets)
        qsort(g->nets, g->n_nets, sizeof *g->nets, by_edge);
    add_edges(g);
}

static void graph_free(struct graph *g)
{
    free(g->nets);
    mn_ways_free(&g->ways);
}

/* Each has a cable to every other. */
static int is_complete(const struct graph *g, const struct mn_way_view *v)
{
    for (int i = 0; i < v->reached; i++)
        if (mn_ways_degree(&g->ways, v->order[i]) != (size_t)v->reached - 1)
            return 0;
    return 1;
}

/* Two neighbours have no cable to each other: each asks this node for its address on the other's.
 */
static int is_between(const struct graph *g, int self)
{
    const struct mn_ways *w = &g->ways;
    char *near = mn_zalloc(g->mesh->n_nodes + 1);
    int between = 0;

    for (size_t i = w->start[self]; i < w->start[self + 1]; i++)
        near[w->steps[i].to] = 1;
    for (size_t i = w->start[self]; i < w->start[self + 1] && !between; i++) {
        int there = w->steps[i].to;
        size_t common = 0;
        for (size_t k = w->start[there]; k < w->start[there + 1]; k++)
            common += (size_t)near[w->steps[k].to];
        between = common != mn_ways_degree(w, self) - 1;
    }
    free(near);
    return between;
}

/* --- routes --------------------------------------------------------------------------------- */

/* The way to target for a net that is the rank-th between its nodes. */
static struct mn_transit_route way(const struct graph *g, const struct mn_way_view *v, int target,
                                   size_t rank)
{
    const struct mn_way_edge *edge = &g->ways.edges[v->first[target]];
    const struct net *net = &g->nets[edge->first + rank % edge->count];
    int side = net->link->ends[0].node != v->self;
    struct mn_transit_route route = {.via = *net->addrs[!side], .nic = net->link->ends[side].nic};

    route.via.prefix = -1;
    return route;
}

static void add_route(struct mn_transit *t, struct mn_transit_route route, struct mn_addr to)
{
    route.to = to;
    *(struct mn_transit_route *)mn_grow((void **)&t->routes, &t->n_routes, sizeof route) = route;
}

static struct mn_addr alone(const struct mn_addr *addr)
{
    struct mn_addr one = *addr;

    one.prefix = addr->family == AF_INET ? 32 : 128;
    return one;
}

/* Over the nearer end; where none is, to each end its own way. */
static void add_far(const struct graph *g, const struct mn_way_view *v, const struct net *net,
                    size_t rank, struct mn_transit *t)
{
    const struct mn_mesh_end *ends = net->link->ends;
    int d[2] = {v->hops[ends[0].node], v->hops[ends[1].node]};

    if (d[0] < 0 || !d[0] || !d[1])
        return;
    if (d[0] != d[1]) {
        add_route(t, way(g, v, ends[d[1] < d[0]].node, rank), net->subnet);
        return;
    }
    struct mn_transit_route both[2];
    for (int i = 0; i < 2; i++)
        both[i] = way(g, v, ends[i].node, rank);
    if (both[0].nic == both[1].nic && mn_addr_equal(&both[0].via, &both[1].via)) {
        add_route(t, both[0], net->subnet);
        return;
    }
    for (int i = 0; i < 2; i++)
        add_route(t, both[i], alone(net->addrs[i]));
}

static int by_destination(const void *x, const void *y)
{
    const struct mn_transit_route *a = x, *b = y;
    int d = in_order(a->to.family, b->to.family); /* AF_INET is the smaller */

    if (!d)
        d = memcmp(a->to.bytes, b->to.bytes, sizeof a->to.bytes);
    return d ? d : in_order(a->to.prefix, b->to.prefix);
}

/* 1 when something is to be done for this family. */
static int find_family(const struct mn_mesh *mesh, int node, int family, struct mn_transit *t)
{
    struct graph g;
    struct mn_way_view v;

    graph_make(&g, mesh, family);
    mn_way_view_make(g.ways.n, &v);
    mn_way_look(&g.ways, node, NULL, &v);
    int needed = !is_complete(&g, &v);
    for (const struct mn_way_edge *edge = g.ways.edges;
         needed && edge < g.ways.edges + g.ways.n_edges; edge++)
        for (size_t i = 0; i < edge->count; i++)
            add_far(&g, &v, &g.nets[edge->first + i], i, t);
    t->forwards |= needed && is_between(&g, node);
    mn_way_view_free(&v);
    graph_free(&g);
    return needed;
}

/* --- settings of the kernel ----------------------------------------------------------------- */

static void set(struct mn_transit *t, int value, const char *why, const char *family,
                const char *dev, const char *name)
{
    struct mn_transit_sysctl *row =
        mn_grow((void **)&t->sysctls, &t->n_sysctls, sizeof *t->sysctls);

    snprintf(row->key, sizeof row->key, "net/%s/conf/%s/%s", family, dev, name);
    row->value = value;
    row->why = why;
}

static void set_ipv4(struct mn_transit *t, const char *dev)
{
    set(t, 2, "an answer may come back by another cable", "ipv4", dev, "rp_filter");
    set(t, 1, "who asks on a cable for another cable's address gets no answer", "ipv4", dev,
        "arp_ignore");
    set(t, 2, "nor is asked from another cable's address", "ipv4", dev, "arp_announce");
    if (t->forwards)
        set(t, 1, "what comes in here for others is passed on", "ipv4", dev, "forwarding");
}

/* The kernel knows one switch for all interfaces. */
static void set_ipv6(struct mn_transit *t)
{
    if (t->forwards)
        set(t, 1, "what comes in for others is passed on", "ipv6", "all", "forwarding");
}

static void find_nics(const struct mn_mesh *mesh, int node, struct mn_transit *t)
{
    char used[MN_MESH_NICS_MAX] = {0};

    for (size_t i = 0; i < 2 * mesh->n_links; i++) {
        const struct mn_mesh_end *end = &mesh->links[i / 2].ends[i % 2];
        if (!mn_link_is_bare(&mesh->links[i / 2]) && end->node == node &&
            end->nic < MN_MESH_NICS_MAX)
            used[end->nic] = 1;
    }
    for (int i = 0; i < (int)mesh->nodes[node].n_nics && i < MN_MESH_NICS_MAX; i++)
        if (used[i])
            *(int *)mn_grow((void **)&t->nics, &t->n_nics, sizeof *t->nics) = i;
}

void mn_transit_find(const struct mn_mesh *mesh, int node, struct mn_transit *transit)
{
    struct mn_transit *t = transit;

    *t = (struct mn_transit){.routes = NULL};
    t->ipv4 = find_family(mesh, node, AF_INET, t);
    t->ipv6 = find_family(mesh, node, AF_INET6, t);
    if (mn_transit_is_empty(t))
        return;
    if (t->n_routes)
        qsort(t->routes, t->n_routes, sizeof *t->routes, by_destination);
    find_nics(mesh, node, t);
    for (size_t i = 0; i < t->n_nics && t->ipv4; i++)
        set_ipv4(t, mesh->nodes[node].nics[t->nics[i]].netdev);
    if (t->ipv6)
        set_ipv6(t);
}

void mn_transit_free(struct mn_transit *transit)
{
    free(transit->routes);
    free(transit->sysctls);
    free(transit->nics);
    *transit = (struct mn_transit){.routes = NULL};
}

int mn_transit_is_empty(const struct mn_transit *transit)
{
    return !transit->ipv4 && !transit->ipv6;
}
