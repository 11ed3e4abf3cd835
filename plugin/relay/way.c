#include "plugin/relay/way.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/route.h"

/* --- ways ------------------------------------------------------------------------------------- */

struct search {
    const struct mn_mesh *mesh;
    int from, to, max, n;
    struct mn_relay_way *ways;
    uint32_t *weights;
    /* made here */
    struct mn_fabric fabric;
    struct mn_routes routes;
};

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

static void find(void *arg)
{
    struct search *s = arg;
    int nodes[MN_RELAY_WAYS][MN_RELAY_NODES], hops[MN_RELAY_WAYS];

    mn_fabric_from_mesh(s->mesh, &s->fabric);
    mn_routes_find(&s->fabric, &s->routes);
    s->n = mn_routes_apart(&s->routes, s->from, s->to, MN_RELAY_MAX + 1, s->max, nodes[0], hops);
    for (int w = 0; w < s->n; w++) {
        s->ways[w].n = hops[w] + 1;
        for (int i = 0; i <= hops[w]; i++)
            s->ways[w].nodes[i] = (uint16_t)nodes[w][i];
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
                       .from = from,
                       .to = to,
                       .max = max < MN_RELAY_WAYS ? max : MN_RELAY_WAYS,
                       .ways = ways,
                       .weights = weights};

    if (from == to || from < 0 || to < 0 || (size_t)from >= mesh->n_nodes ||
        (size_t)to >= mesh->n_nodes || mesh->n_nodes > UINT16_MAX)
        return 0;
    if (mn_memory_try(find, &s, NULL))
        return 0; /* what it had is lost, as mn_memory_try says */
    weigh(&s);
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
