/* One order for meshes that say the same. */
#ifndef MN_MESH_SORT_H
#define MN_MESH_SORT_H

#include "topo/mesh.h"

/* Nodes by name, numbers as such, and cables by their ends, the lower node first: what comes from
 * two files that say the same, in whatever order, is the same then. MN_ERR_NOMEM: as it was. */
enum mn_err mn_mesh_sort(struct mn_mesh *mesh, struct mn_diag *diag);

#endif
