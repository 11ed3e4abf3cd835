/* Which of a host's NICs become a node's, and which of these are cables: what --node, --skip and
 * --take of meshnet discover say. */
#ifndef MN_MESH_PICK_H
#define MN_MESH_PICK_H

#include "topo/base/opt.h"
#include "topo/mesh.h"

/* --node, --skip and --take. */
struct mn_mesh_choice {
    const char *node; /* NULL: the host name */
    const struct mn_opt_list *skip, *take;
    int some; /* names in skip that this host lacks are no error: another has them */
};
/* Into *to: host as a node of mesh (self, or -1 for a new one), without the NICs of --skip, each
 * NIC with its role, under the name of --node. It shares all but the NICs' array, the caller's to
 * free, with host. */
enum mn_err mn_mesh_pick(const struct mn_mesh_choice *ask, const struct mn_host *host,
                         const struct mn_mesh *mesh, int self, struct mn_host *to,
                         struct mn_diag *diag);
/* Gives a host the roles that mn_mesh_pick found; of a NIC of --skip nothing was asked. */
void mn_mesh_copy_roles(const struct mn_host *from, struct mn_host *to);
/* Adds what mn_mesh_pick made to the mesh; the host name stays what it is. */
enum mn_err mn_mesh_add_picked(const struct mn_host *named, struct mn_mesh *mesh,
                               const char *hostname, struct mn_diag *diag);
/* Makes cables of NICs of a mesh: NETDEV, of every node, or NODE/NIC. */
enum mn_err mn_mesh_take(const struct mn_opt_list *names, struct mn_mesh *mesh,
                         struct mn_diag *diag);

#endif
