/* Pairs of addresses between which the mesh file names a way over routers. */
#ifndef MN_ROUTED_H
#define MN_ROUTED_H

#include "topo/mesh.h"

#define MN_MAX_ROUTES 1024

struct mn_routed {
    struct mn_routed_pair {
        struct mn_addr own, peer;
    } pairs[MN_MAX_ROUTES];
    int n;
};

/* Those of a node, every address of its NIC with every one of the same family of the other's.
 * MN_ERR_CONFIG when there are more than MN_MAX_ROUTES: with some of them the two ends of a
 * connection would come to different plans. */
enum mn_err mn_routed_from_mesh(const struct mn_mesh *mesh, int node, struct mn_routed *routes,
                                struct mn_diag *diag);
/* 1 when there is one. routes NULL: of a node whose file is not at hand. */
int mn_routed_join(const struct mn_routed *routes, const struct mn_addr *own,
                   const struct mn_addr *peer);

#endif
