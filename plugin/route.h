/* Pairs of addresses between which the mesh file names a way over routers. */
#ifndef MN_ROUTE_H
#define MN_ROUTE_H

#include "topo/mesh.h"

#define MN_MAX_ROUTES 64

struct mn_routes {
    struct mn_route {
        struct mn_addr own, peer;
    } pairs[MN_MAX_ROUTES];
    int n;
};

/* Those of a node, every address of its NIC with every one of the same family of the other's. Those
 * beyond MN_MAX_ROUTES are left out with a warning. */
void mn_routes_from_mesh(const struct mn_mesh *mesh, int node, struct mn_routes *routes);
/* 1 when there is one. routes NULL: of a node whose file is not at hand. */
int mn_routes_join(const struct mn_routes *routes, const struct mn_addr *own,
                   const struct mn_addr *peer);

#endif
