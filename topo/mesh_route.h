/* What concerns the list of routes, beside reading it (mesh_read.h). */
#ifndef MN_MESH_ROUTE_H
#define MN_MESH_ROUTE_H

#include "topo/mesh.h"

/* A node of the mesh is about to be replaced by now: as mn_mesh_ends_follow, for each route. */
void mn_mesh_routes_follow(struct mn_mesh *mesh, int node, const struct mn_mesh_node *now);
/* Takes other's routes between NICs that mesh has, after its nodes. */
void mn_mesh_routes_merge(struct mn_mesh *mesh, const struct mn_mesh *other);

/* Finds the NICs of ends on that node again, by name, in what it will be. 0: one is gone. */
int mn_mesh_ends_follow(const struct mn_mesh *mesh, struct mn_mesh_end ends[2], int node,
                        const struct mn_mesh_node *now);

#endif
