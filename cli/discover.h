/* The views of meshnet discover. Each writes into *out what text shows and JSON holds; "wide" views
 * add what does not fit a glance and are always part of JSON. */
#ifndef MN_DISCOVER_H
#define MN_DISCOVER_H

#include "topo/base/opt.h"
#include "topo/base/out.h"
#include "topo/finding.h"
#include "topo/mesh.h"

/* One row a NIC, or RDMA port without one. all: virtual interfaces too. */
void mn_discover_nics(struct mn_out *out, const struct mn_host *host, int all, int wide);
/* A line for each NIC that routes or neighbours speak of, with its role (mn_mesh_roles). */
void mn_discover_roles(struct mn_out *out, const struct mn_host *host);
/* Every address, every RDMA port with its attributes and GIDs, every GPU. */
void mn_discover_details(struct mn_out *out, const struct mn_host *host, int all);
/* One row a GPU, with the NICs nearest to it. title: NULL for none. */
void mn_discover_gpus(struct mn_out *out, const struct mn_host *host, const char *title);
/* 1 when the host has a GPU and a port on PCI. */
int mn_discover_has_gpu_nics(const struct mn_host *host);
/* Text: severity, NIC, what and how to mend it; JSON: a list of objects. */
void mn_discover_findings(struct mn_out *out, const struct mn_findings *found);

/* Nodes, links, shape, and who reaches whom. self: index of this host's node or -1. */
void mn_discover_mesh(struct mn_out *out, const struct mn_mesh *mesh, const char *path, int self);
/* This node's links: neighbour, name, NIC and its state on host, addresses, subnet. */
void mn_discover_neighbours(struct mn_out *out, const struct mn_mesh *mesh, const char *path,
                            int self, const struct mn_host *host);
/* The end of a cable on this host: "up", "no link", "off"; nic may be NULL: "not here". */
void mn_discover_state(struct mn_out *out, const struct mn_host *host, const struct mn_nic *nic);

/* Writes mesh, after making sure that what is written can be read again. */
enum mn_err mn_discover_write(const struct mn_mesh *mesh, const char *path, int force,
                              struct mn_diag *diag);
void mn_discover_say_written(struct mn_out *out, const struct mn_mesh *mesh, const char *path);

#endif
