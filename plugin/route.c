#include "plugin/route.h"

#include "topo/base/log.h"
#include "topo/mesh_check.h"

static int usable(const struct mn_addr *own, const struct mn_addr *peer)
{
    return own->family == peer->family && !mn_addr_is_link_local(own) &&
           !mn_addr_is_link_local(peer);
}

static void add(const struct mn_mesh_nic *own, const struct mn_mesh_nic *peer,
                const struct mn_mesh_route *route, struct mn_routes *routes)
{
    for (size_t i = 0; i < own->n_addrs; i++)
        for (size_t j = 0; j < peer->n_addrs; j++) {
            if (!usable(&own->addrs[i], &peer->addrs[j]))
                continue;
            if (routes->n == MN_MAX_ROUTES) {
                MN_WARN("the route via %s on line %d of the mesh file: left out in part, only %d "
                        "pairs of addresses of a node can be used",
                        route->via, route->line, MN_MAX_ROUTES);
                return;
            }
            routes->pairs[routes->n++] = (struct mn_route){own->addrs[i], peer->addrs[j]};
        }
}

void mn_routes_from_mesh(const struct mn_mesh *mesh, int node, struct mn_routes *routes)
{
    routes->n = 0;
    for (size_t i = 0; i < mesh->n_routes; i++) {
        const struct mn_mesh_route *route = &mesh->routes[i];
        for (int side = 0; side < 2; side++)
            if (route->ends[side].node == node)
                add(mn_mesh_end_nic(mesh, &route->ends[side]),
                    mn_mesh_end_nic(mesh, &route->ends[!side]), route, routes);
    }
}

int mn_routes_join(const struct mn_routes *routes, const struct mn_addr *own,
                   const struct mn_addr *peer)
{
    for (int i = 0; routes && i < routes->n; i++)
        if (mn_addr_equal(&routes->pairs[i].own, own) &&
            mn_addr_equal(&routes->pairs[i].peer, peer))
            return 1;
    return 0;
}
