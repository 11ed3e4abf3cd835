/* Beside a mesh that is being read or checked: what stands in it already, found without a look at
 * all of it. Each call puts one thing in; those that look say which there is, or -1. All zero is
 * empty. */
#ifndef MN_MESH_LOOKUP_H
#define MN_MESH_LOOKUP_H

#include "topo/base/index.h"
#include "topo/mesh.h"

struct mn_mesh_lookup {
    struct mn_index nodes, links; /* by name */
    struct mn_index macs, addrs;  /* numbers in owners */
    struct mn_index ends;         /* twice the link's number, and the side */
    struct mn_mesh_owner {
        int node, nic, addr; /* indices */
    } * owners;
    size_t n_owners;
};

void mn_lookup_free(struct mn_mesh_lookup *lookup);

int mn_lookup_node(const struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh,
                   const char *name);
enum mn_err mn_lookup_put_node(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int node,
                               struct mn_diag *diag);
int mn_lookup_link(const struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh,
                   const char *name);
enum mn_err mn_lookup_put_link(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int link,
                               struct mn_diag *diag);
/* The link that has the end already. */
int mn_lookup_end(const struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh,
                  const struct mn_mesh_end *end);
enum mn_err mn_lookup_put_ends(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int link,
                               struct mn_diag *diag);
/* The first NIC with that MAC, or address; NULL: none. The NIC that is put has it in the mesh. */
const struct mn_mesh_owner *mn_lookup_mac(const struct mn_mesh_lookup *lookup,
                                          const struct mn_mesh *mesh, const uint8_t mac[6]);
enum mn_err mn_lookup_put_mac(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int node,
                              int nic, struct mn_diag *diag);
const struct mn_mesh_owner *mn_lookup_addr(const struct mn_mesh_lookup *lookup,
                                           const struct mn_mesh *mesh, const struct mn_addr *addr);
enum mn_err mn_lookup_put_addr(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int node,
                               int nic, int addr, struct mn_diag *diag);

#endif
