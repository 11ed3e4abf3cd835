/* Inside of bench/matrix. */
#ifndef MN_MATRIX_IMPL_H
#define MN_MATRIX_IMPL_H

#include "bench/matrix.h"

/* What the mesh file's NICs of this node are on this host. */
void mn_matrix_own_ends(const struct mn_mesh *mesh, int node, struct mn_matrix_end *ends);
/* The plugin's device for each NIC of the node, -1 = none; in a mode with a device for each link.
 */
enum mn_err mn_matrix_devices(struct mn_plugin *plugin, const struct mn_mesh_node *node,
                              int devices[MN_MATRIX_NICS], struct mn_diag *diag);
/* Packets that the RDMA port behind a NIC of the mesh file knows to be lost or sent again, since it
 * is there. */
struct mn_matrix_losses {
    uint64_t rdma[MN_MATRIX_NICS];
};
void mn_matrix_read_losses(const struct mn_mesh_node *node, struct mn_matrix_losses *losses);
/* The end of a cable that is at the node. */
const struct mn_mesh_end *mn_matrix_end_at(const struct mn_mesh_link *link, int node);
int mn_matrix_joins(const struct mn_mesh_link *link, int a, int b);
/* Of another rank's cell, whose mesh file may be another one: no lanes when one of them is no cable
 * between its nodes. */
void mn_matrix_check_lanes(const struct mn_mesh *mesh, struct mn_matrix_cell *cell);

#endif
