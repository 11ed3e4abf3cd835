/* GPUs of a node of the mesh: from the host, copied, forgotten. */
#ifndef MN_MESH_GPU_H
#define MN_MESH_GPU_H

#include "topo/mesh.h"

/* "0000:1A:00.0" as the kernel writes it, in lower case; 0 when text is no such address. */
int mn_mesh_pci(const char *text, char pci[MN_PCI_TEXT]);

/* Adds the GPUs of host that have a NIC in node. near: the NICs of the host that node->nics were
 * made of, in their order; nearness is judged among them. */
void mn_mesh_gpus_from_host(struct mn_mesh_node *node, const struct mn_host *host,
                            struct mn_nic *near);
/* Adds copies to a node without GPUs. */
void mn_mesh_gpus_copy(struct mn_mesh_node *to, const struct mn_mesh_node *from);
void mn_mesh_gpus_clear(struct mn_mesh_node *node);

#endif
