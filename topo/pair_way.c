#include "topo/pair_way.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/load.h"
#include "topo/mesh_check.h"

/* --- what ways can carry -------------------------------------------------------------------- */

/* Of the cables of a pair at one of its nodes, the halves of a port together as much as the port.
 */
static double rate_at(const struct mn_fabric *fabric, const size_t *cables, size_t n, int from,
                      int end)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        const struct mn_fabric_cable *c = &fabric->cables[cables[i]];
        int group = c->groups[c->nodes[0] != end], counted = 0;
        double together = 0;
        if (group < 0) {
            sum += mn_fabric_rate(c, mn_fabric_direction(c, from));
            continue;
        }
        for (size_t k = 0; k < n; k++) {
            const struct mn_fabric_cable *other = &fabric->cables[cables[k]];
            if (other->groups[other->nodes[0] != end] != group)
                continue;
            counted |= k < i;
            together += mn_fabric_rate(other, mn_fabric_direction(other, from));
        }
        if (!counted)
            sum += together < fabric->groups[group].rate ? together : fabric->groups[group].rate;
    }
    return sum;
}

static double rate_of_one(const struct mn_fabric *fabric, const size_t *cables, size_t n, int from)
{
    double best = 0;

    for (size_t i = 0; i < n; i++) {
        const struct mn_fabric_cable *c = &fabric->cables[cables[i]];
        double rate = mn_fabric_rate(c, mn_fabric_direction(c, from));
        best = rate > best ? rate : best;
    }
    return best;
}

double mn_pair_way_rate(const struct mn_fabric *fabric, const struct mn_routes *routes,
                        const int *nodes, int hops, int relayed)
{
    double least = 0;

    for (int i = 0; i < hops; i++) {
        const struct mn_way_edge *edge = mn_routes_edge(routes, nodes[i], nodes[i + 1]);
        const size_t *cables = edge ? &routes->cables[edge->first] : NULL;
        double rate = 0;
        if (edge && (hops == 1 || relayed)) {
            double there = rate_at(fabric, cables, edge->count, nodes[i], nodes[i + 1]);
            rate = rate_at(fabric, cables, edge->count, nodes[i], nodes[i]);
            rate = there < rate ? there : rate;
        } else if (edge) {
            rate = rate_of_one(fabric, cables, edge->count, nodes[i]);
        }
        if (rate <= 0)
            return 0;
        least = i && least < rate ? least : rate;
    }
    return least;
}

/* --- which one it is ------------------------------------------------------------------------ */

static int find_router(const struct mn_mesh *mesh, int from, int to, struct mn_pair_way *way)
{
    for (size_t i = 0; i < 2 * mesh->n_routes; i++) {
        const struct mn_mesh_route *route = &mesh->routes[i / 2];
        const struct mn_mesh_end *a = &route->ends[i % 2], *b = &route->ends[!(i % 2)];
        if (a->node != from || b->node != to)
            continue;
        const struct mn_mesh_nic *one = mn_mesh_end_nic(mesh, a), *two = mn_mesh_end_nic(mesh, b);
        way->rate += mn_fabric_nic_rate(one, two, one->device[0] && two->device[0]);
        way->via = route->via;
    }
    return way->via != NULL;
}

static int meets(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b)
{
    for (size_t i = 0; i < a->n_addrs; i++)
        for (size_t k = 0; k < b->n_addrs; k++)
            if (a->addrs[i].family == b->addrs[k].family && !mn_addr_is_link_local(&a->addrs[i]) &&
                !mn_addr_is_link_local(&b->addrs[k]))
                return 1;
    return 0;
}

/* Over the first NICs for management of both whose addresses are of one family. */
static int find_management(const struct mn_mesh *mesh, int from, int to, struct mn_pair_way *way)
{
    const struct mn_mesh_node *a = &mesh->nodes[from], *b = &mesh->nodes[to];

    for (size_t i = 0; i < a->n_nics; i++)
        for (size_t k = 0; k < b->n_nics; k++) {
            const struct mn_mesh_nic *one = &a->nics[i], *two = &b->nics[k];
            if (one->role != MN_ROLE_MANAGEMENT || two->role != MN_ROLE_MANAGEMENT ||
                !meets(one, two))
                continue;
            way->rate = mn_fabric_nic_rate(one, two, 0);
            return 1;
        }
    return 0;
}

/* Whether the file says what for management the node has, so that nothing else is looked for. */
static int has_management(const struct mn_mesh_node *node)
{
    for (size_t i = 0; i < node->n_nics; i++)
        if (node->nics[i].role == MN_ROLE_MANAGEMENT && node->nics[i].n_addrs)
            return 1;
    return 0;
}

static enum mn_pair_kind kind_of(const struct mn_mesh *mesh, const struct mn_fabric *fabric,
                                 struct mn_routes *routes, int from, int to, int *nodes,
                                 struct mn_pair_way *way)
{
    const struct mn_settings *s = &mesh->settings;

    if (mn_routes_edge(routes, from, to)) {
        way->hops = mn_routes_path(routes, from, to, nodes);
        return MN_PAIR_CABLE;
    }
    if (find_router(mesh, from, to, way))
        return MN_PAIR_ROUTER;
    if (mn_reach_relays(s)) {
        way->hops = mn_routes_path(routes, from, to, nodes);
        if (way->hops > 1 && way->hops <= MN_PAIR_RELAYS + 1)
            return MN_PAIR_RELAY;
        way->hops = 0;
    }
    if (mn_reach_barred_by(s->reach, s->transport, s->allow_tcp))
        return MN_PAIR_NONE;
    if (s->reach != MN_REACH_MANAGEMENT)
        way->hops = mn_routes_path_by(fabric, routes, from, to,
                                      fabric->doors ? fabric->doors[to] : -1, nodes);
    if (way->hops > 0)
        return MN_PAIR_NODES;
    way->hops = 0;
    if (s->reach == MN_REACH_CABLES)
        return MN_PAIR_NONE;
    if (find_management(mesh, from, to, way))
        return MN_PAIR_MANAGEMENT;
    return has_management(&mesh->nodes[from]) && has_management(&mesh->nodes[to]) ? MN_PAIR_NONE
                                                                                  : MN_PAIR_OUTSIDE;
}

/* Over all ways beside each other: what they carry in their shares until a part is full. */
static double relayed_rate(const struct mn_fabric *fabric, struct mn_routes *routes, int from,
                           int to, int *nodes, int hops)
{
    struct mn_model model = {.fabric = fabric, .routes = routes, .n_ranks = fabric->n};
    struct mn_load_ways ways;
    struct mn_load load;
    int unknown = -1;

    if (!mn_load_ways(&model, from, to, &ways))
        return mn_pair_way_rate(fabric, routes, nodes, hops, 1);
    mn_load_make(fabric, &load);
    mn_load_flow(&load, &model, from, to, 1, nodes, NULL, &unknown);
    double seconds = mn_load_worst(&load).seconds;
    mn_load_free(&load);
    return unknown < 0 && seconds > 0 ? 1 / seconds : 0;
}

void mn_pair_way_find(const struct mn_mesh *mesh, const struct mn_fabric *fabric,
                      struct mn_routes *routes, int from, int to, int *nodes,
                      struct mn_pair_way *way)
{
    static const char *const texts[] = {"cable",      "router",  "relay", "nodes",
                                        "management", "outside", "none"};

    *way = (struct mn_pair_way){.rate = 0};
    way->kind = kind_of(mesh, fabric, routes, from, to, nodes, way);
    way->text = texts[way->kind];
    if (way->kind == MN_PAIR_RELAY)
        way->rate = relayed_rate(fabric, routes, from, to, nodes, way->hops);
    else if (way->hops)
        way->rate = mn_pair_way_rate(fabric, routes, nodes, way->hops, 0);
}
