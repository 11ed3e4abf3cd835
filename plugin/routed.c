#include "plugin/routed.h"

#include "topo/mesh_check.h"

static int usable(const struct mn_addr *own, const struct mn_addr *peer)
{
    return own->family == peer->family && !mn_addr_is_link_local(own) &&
           !mn_addr_is_link_local(peer);
}

static enum mn_err add(const struct mn_mesh_nic *own, const struct mn_mesh_nic *peer,
                       const struct mn_mesh_route *route, struct mn_routed *routes,
                       struct mn_diag *diag)
{
    for (size_t i = 0; i < own->n_addrs; i++)
        for (size_t j = 0; j < peer->n_addrs; j++) {
            if (!usable(&own->addrs[i], &peer->addrs[j]))
                continue;
            if (routes->n == MN_MAX_ROUTES)
                return mn_fail(diag, MN_ERR_CONFIG,
                               "the route via %s on line %d of the mesh file is too much: a node "
                               "has routes between at most %d pairs of addresses",
                               route->via, route->line, MN_MAX_ROUTES);
            routes->pairs[routes->n++] = (struct mn_routed_pair){own->addrs[i], peer->addrs[j]};
        }
    return MN_OK;
}

enum mn_err mn_routed_from_mesh(const struct mn_mesh *mesh, int node, struct mn_routed *routes,
                                struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    routes->n = 0;
    for (size_t i = 0; i < 2 * mesh->n_routes && !err; i++) {
        const struct mn_mesh_route *route = &mesh->routes[i / 2];
        const struct mn_mesh_end *own = &route->ends[i % 2], *peer = &route->ends[!(i % 2)];
        if (own->node == node)
            err = add(mn_mesh_end_nic(mesh, own), mn_mesh_end_nic(mesh, peer), route, routes, diag);
    }
    return err;
}

int mn_routed_join(const struct mn_routed *routes, const struct mn_addr *own,
                   const struct mn_addr *peer)
{
    for (int i = 0; routes && i < routes->n; i++)
        if (mn_addr_equal(&routes->pairs[i].own, own) &&
            mn_addr_equal(&routes->pairs[i].peer, peer))
            return 1;
    return 0;
}
