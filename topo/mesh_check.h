/* What makes a mesh impossible, told in one sentence. Shared by the reader, which knows the place
 * in the file, and by what changes a mesh in memory, which has none. */
#ifndef MN_MESH_CHECK_H
#define MN_MESH_CHECK_H

#include "topo/mesh.h"
#include "topo/mesh_lookup.h"

#define MN_MESH_NODES_MAX 4096
#define MN_MESH_NICS_MAX  32 /* of one node */
#define MN_MESH_GPUS_MAX  16 /* of one node */
#define MN_MESH_ADDRS_MAX 8  /* of one NIC */
#define MN_MESH_LINKS_MAX (MN_MESH_NODES_MAX * MN_MESH_NICS_MAX / 2)

/* As mn_fail with MN_ERR_CONFIG, after "file:line:column: "; file NULL: no place. */
enum mn_err mn_mesh_fail_at(struct mn_diag *diag, const char *file, int line, int column,
                            const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Compares one address of nodes[node].nics[nic] with every address of the NICs before it, which are
 * in before, and of the same NIC: used twice, or two NICs of one node in one subnet. 1 and the
 * reason in text, else 0. text must hold 512 bytes. */
int mn_mesh_addr_conflict(const struct mn_mesh *mesh, const struct mn_mesh_lookup *before,
                          size_t node, size_t nic, const struct mn_addr *addr, char *text);
/* 1 for the first and the last address of an IPv4 subnet, which name the net and everybody in it.
 */
int mn_addr_is_net_or_broadcast(const struct mn_addr *addr);
/* All addresses of the mesh, compared as above. */
enum mn_err mn_mesh_addrs_check(const struct mn_mesh *mesh, struct mn_diag *diag);

/* 1 when the two NICs have an address pair that shares a subnet; *subnet is the network of the
 * shorter prefix. IPv6 link-local addresses name no cable and are left out. */
int mn_link_subnet(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b,
                   struct mn_addr *subnet);
/* 1 when it has no address by which a cable can be known. */
int mn_nic_is_bare(const struct mn_mesh_nic *nic);
/* Replaces the links by those the addresses make; file as in mn_mesh_fail_at. */
enum mn_err mn_link_find(struct mn_mesh *mesh, const char *file, struct mn_diag *diag);
/* Fills names that are empty. */
enum mn_err mn_link_name(struct mn_mesh *mesh, struct mn_diag *diag);
/* Refuses links whose subnets overlap: a packet for one would leave through the other. */
enum mn_err mn_link_overlap(const struct mn_mesh *mesh, const char *file, struct mn_diag *diag);

int mn_mesh_node_index(const struct mn_mesh *mesh, const char *name);     /* or -1 */
int mn_mesh_nic_index(const struct mn_mesh_node *node, const char *name); /* or -1 */
const struct mn_mesh_nic *mn_mesh_end_nic(const struct mn_mesh *mesh,
                                          const struct mn_mesh_end *end);

#endif
