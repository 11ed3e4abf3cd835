/* What a user may say where a host is asked for: a node of the mesh file in force, an address, or a
 * name that the system resolves. */
#ifndef MN_HOST_NAME_H
#define MN_HOST_NAME_H

#include "topo/mesh.h"

/* The mesh file in force, which may be none: then path is "". */
struct mn_names {
    char path[512];
    struct mn_mesh mesh;
    int self; /* this node of it, -1 = none or not known */
};

/* A broken file is an error, whatever it is asked for. End with mn_names_free, after an error too.
 */
enum mn_err mn_names_read(struct mn_names *names, struct mn_diag *diag);
void mn_names_free(struct mn_names *names);

/* Which node of the mesh it is by name or host name; -1: none. */
int mn_names_node(const struct mn_mesh *mesh, const char *name);
/* Where node self reaches the other one, over a cable or a route of both, else over a network for
 * management; NULL: it does not. */
const struct mn_addr *mn_names_address(const struct mn_mesh *mesh, int self, int node);
/* The node that a host is, by its names, localhost or an address; -1: none. self: -1 = not known.
 */
int mn_names_find(const struct mn_mesh *mesh, int self, const char *host);
/* Other ways to a host than what it is called, should that not lead there: its addresses in the
 * mesh file, those without a router in between first. Returns how many. */
#define MN_NAMES_WAYS 16
int mn_names_ways(const struct mn_mesh *mesh, int self, const char *host,
                  char ways[MN_NAMES_WAYS][MN_ADDR_TEXT]);
/* 0 when the system resolves it, else why not: for gai_strerror. */
int mn_names_unknown(const char *name);
/* MN_ERR_CONFIG for what is no node, and the system cannot resolve. */
enum mn_err mn_names_check(const struct mn_names *names, const char *option, const char *name,
                           struct mn_diag *diag);
enum mn_err mn_names_not_a_node(const struct mn_names *names, const char *option, const char *name,
                                struct mn_diag *diag);
/* Another host, as something that connect() can take: for a node its address on a cable that both
 * have, on a route, else any of its; what is no node of the mesh stays as it is, when the system
 * can resolve it. option goes before the explanation: "--peer". MN_ERR_CONFIG for what is neither,
 * and for this node itself (localhost and addresses may be said for that). */
enum mn_err mn_names_host(const struct mn_names *names, const char *option, const char *name,
                          char *host, size_t size, struct mn_diag *diag);
/* The addresses of a node that a socket can listen at: not those of a single link, which need more
 * than the mesh file says. count: room in addrs, then used. Returns how many there are. */
int mn_names_listening(const struct mn_mesh_node *node, struct mn_addr *addrs, int *count);
/* This host, where it may listen: one address, or the node's all. count: room in addrs, then used.
 * *all: how many there are. */
enum mn_err mn_names_own(const struct mn_names *names, const char *option, const char *name,
                         struct mn_addr *addrs, int *count, int *all, struct mn_diag *diag);
/* Adds what the system knows by a name, where it does, without what is there already, addresses
 * that stand for all and those of a single link; count: as above, from what it is on. */
void mn_names_add(const char *name, struct mn_addr *addrs, int *count, int room);

#endif
