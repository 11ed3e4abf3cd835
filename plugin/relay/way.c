#include "plugin/relay/way.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/route.h"

/* --- ways ------------------------------------------------------------------------------------- */

struct search {
    const struct mn_mesh *mesh;
    int ends[2]; /* the lower index first, so that both directions find the same */
    int max, n;
    struct mn_relay_way *ways;
    uint32_t *weights;
    /* made here */
    struct mn_fabric fabric;
    struct mn_routes routes;
    char *used;   /* edges of ways that are found, and the direct one */
    char *barred; /* … and in a first try those of their relays */
};

static int edge_of(const struct search *s, int a, int b)
{
    const struct mn_way_edge *edge = mn_routes_edge(&s->routes, a, b);

    return edge ? (int)(edge - s->routes.ways.edges) : -1;
}

/* From the last node back. 0: there is none, or it has too many relays. */
static int look(struct search *s, const char *barred, struct mn_relay_way *way)
{
    const struct mn_ways *graph = &s->routes.ways;
    struct mn_way_view *view = &s->routes.view;

    s->routes.looked = -1;
    mn_way_look(graph, s->ends[0], barred, view);
    int hops = view->hops[s->ends[1]];
    if (hops < 2 || hops > MN_RELAY_MAX + 1)
        return 0;
    way->n = hops + 1;
    for (int i = hops, node = s->ends[1]; i >= 0; i--) {
        way->nodes[i] = (uint16_t)node;
        if (i)
            node = mn_way_other_end(&graph->edges[view->last[node]], node);
    }
    return 1;
}

static void bar_relays(struct search *s)
{
    memcpy(s->barred, s->used, s->routes.ways.n_edges);
    for (int w = 0; w < s->n; w++)
        for (int i = 1; i + 1 < s->ways[w].n; i++) {
            int relay = s->ways[w].nodes[i];
            for (size_t k = s->routes.ways.start[relay]; k < s->routes.ways.start[relay + 1]; k++)
                s->barred[s->routes.ways.steps[k].edge] = 1;
        }
}

/* Of all cables between neighbours together, as a hop uses them; 0: not known. */
static double rate_of(const struct search *s, int from, int to)
{
    const struct mn_way_edge *edge = mn_routes_edge(&s->routes, from, to);
    double sum = 0;

    for (size_t i = 0; i < edge->count; i++) {
        const struct mn_fabric_cable *cable = &s->fabric.cables[s->routes.cables[edge->first + i]];
        double rate = mn_fabric_rate(cable, mn_fabric_direction(cable, from));
        if (rate <= 0)
            return 0;
        sum += rate;
    }
    return sum;
}

static uint32_t weight_of(const struct search *s, const struct mn_relay_way *way)
{
    double least = 0;

    for (int i = 0; i + 1 < way->n; i++) {
        double rate = rate_of(s, way->nodes[i], way->nodes[i + 1]);
        if (rate <= 0)
            return 0;
        least = i && least < rate ? least : rate;
    }
    double mbps = least * 8 / 1e6;
    return mbps < 1 ? 1 : mbps > UINT32_MAX ? UINT32_MAX : (uint32_t)mbps;
}

static void take(struct search *s)
{
    const struct mn_relay_way *way = &s->ways[s->n++];

    for (int i = 0; i + 1 < way->n; i++)
        s->used[edge_of(s, way->nodes[i], way->nodes[i + 1])] = 1;
}

static void find(void *arg)
{
    struct search *s = arg;

    mn_fabric_from_mesh(s->mesh, &s->fabric);
    mn_routes_find(&s->fabric, &s->routes);
    s->used = mn_zalloc(s->routes.ways.n_edges + 1);
    s->barred = mn_zalloc(s->routes.ways.n_edges + 1);
    int direct = edge_of(s, s->ends[0], s->ends[1]);
    if (direct >= 0)
        s->used[direct] = 1;
    while (s->n < s->max) {
        bar_relays(s);
        if (!look(s, s->barred, &s->ways[s->n]) && !look(s, s->used, &s->ways[s->n]))
            break;
        take(s);
    }
}

static void turn(struct mn_relay_way *way)
{
    for (int i = 0, k = way->n - 1; i < k; i++, k--) {
        uint16_t swap = way->nodes[i];
        way->nodes[i] = way->nodes[k];
        way->nodes[k] = swap;
    }
}

static void weigh(struct search *s)
{
    int known = 1;

    for (int w = 0; w < s->n; w++)
        known &= (s->weights[w] = weight_of(s, &s->ways[w])) > 0;
    for (int w = 0; w < s->n && !known; w++)
        s->weights[w] = MN_RELAY_UNKNOWN_MBPS;
}

int mn_relay_ways(const struct mn_mesh *mesh, int from, int to, int max,
                  struct mn_relay_way ways[MN_RELAY_WAYS], uint32_t weights[MN_RELAY_WAYS])
{
    struct search s = {.mesh = mesh,
                       .ends = {from < to ? from : to, from < to ? to : from},
                       .max = max < MN_RELAY_WAYS ? max : MN_RELAY_WAYS,
                       .ways = ways,
                       .weights = weights};

    if (from == to || s.ends[0] < 0 || (size_t)s.ends[1] >= mesh->n_nodes ||
        mesh->n_nodes > UINT16_MAX)
        return 0;
    if (mn_memory_try(find, &s, NULL))
        return 0; /* what it had is lost, as mn_memory_try says */
    for (int w = 0; w < s.n && from > to; w++)
        turn(&ways[w]);
    weigh(&s);
    free(s.used);
    free(s.barred);
    mn_routes_free(&s.routes);
    mn_fabric_free(&s.fabric);
    return s.n;
}

/* --- cables between neighbours ---------------------------------------------------------------- */

/* NICs of the link's ends at a and at b; 0: it joins others, or carries nothing. */
static int ends_of(const struct mn_mesh *mesh, const struct mn_mesh_link *link, int a, int b,
                   const struct mn_mesh_nic *nics[2])
{
    int side = link->ends[1].node == a;

    if (mn_link_is_bare(link) || link->ends[side].node != a || link->ends[!side].node != b)
        return 0;
    nics[0] = &mesh->nodes[a].nics[link->ends[side].nic];
    nics[1] = &mesh->nodes[b].nics[link->ends[!side].nic];
    return 1;
}

/* The first addresses of both that share a subnet. */
static int find_door(const struct mn_mesh_nic *const nics[2], struct mn_relay_door *door)
{
    for (size_t i = 0; i < nics[0]->n_addrs; i++)
        for (size_t k = 0; k < nics[1]->n_addrs; k++)
            if (mn_addr_share_subnet(&nics[0]->addrs[i], &nics[1]->addrs[k])) {
                *door = (struct mn_relay_door){nics[0]->addrs[i], nics[1]->addrs[k]};
                return 1;
            }
    return 0;
}

static long speed_of(const struct mn_mesh_nic *const nics[2])
{
    long a = nics[0]->speed_mbps, b = nics[1]->speed_mbps;

    return !a || (b && b < a) ? b : a;
}

#define MAX_DOORS 64

int mn_relay_doors(const struct mn_mesh *mesh, int node, int neighbour, struct mn_relay_door *doors,
                   int max)
{
    long speeds[MAX_DOORS];
    const struct mn_mesh_nic *nics[2];
    struct mn_relay_door door;
    int n = 0;

    max = max < MAX_DOORS ? max : MAX_DOORS;
    for (size_t l = 0; l < mesh->n_links; l++) {
        if (!ends_of(mesh, &mesh->links[l], node, neighbour, nics) || !find_door(nics, &door))
            continue;
        long speed = speed_of(nics);
        int at = n < max ? n++ : max; /* where the last one of a full list goes over its end */
        for (; at && speeds[at - 1] < speed; at--)
            if (at < max) {
                speeds[at] = speeds[at - 1];
                doors[at] = doors[at - 1];
            }
        if (at < max) {
            speeds[at] = speed;
            doors[at] = door;
        }
    }
    return n;
}

int mn_relay_way_holds(const struct mn_mesh *mesh, const struct mn_relay_way *way)
{
    int joined[MN_RELAY_NODES] = {0}, n = 0;

    if (way->n < 3 || way->n > MN_RELAY_NODES || !mn_relay_way_is_simple(way))
        return 0;
    for (int i = 0; i < way->n; i++)
        if (way->nodes[i] >= mesh->n_nodes)
            return 0;
    for (size_t l = 0; l < mesh->n_links; l++)
        for (int i = 0; i + 1 < way->n; i++) {
            const struct mn_mesh_nic *nics[2];
            joined[i] |= ends_of(mesh, &mesh->links[l], way->nodes[i], way->nodes[i + 1], nics);
        }
    for (int i = 0; i + 1 < way->n; i++)
        n += joined[i];
    return n == way->n - 1;
}
