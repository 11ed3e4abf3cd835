/* A node's network configuration, as the programs that set networks up want it. One file a format,
 * one row in the table. */
#ifndef MN_EMIT_H
#define MN_EMIT_H

#include <stdio.h>

#include "topo/mesh.h"
#include "topo/transit.h"

/* A file that was written, the caller's to mn_emit_free. */
struct mn_emit_file {
    char
        path[128]; /* where the program looks for it: absolute, or a name for what is run by hand */
    unsigned mode; /* of the file: 0644, 0600, 0755 */
    char *text;
};

struct mn_emit {
    struct mn_emit_file *files;
    size_t n_files;
    const char *also; /* a command for what is not the format's own; NULL = none is needed */
};

struct mn_emit_format {
    const char *name;
    const char *what; /* in a few words, for help */
    const char *then; /* how it takes effect; NULL = nothing is to be done */
    void (*emit)(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                 struct mn_emit *out);
};
/* name NULL at the end. */
extern const struct mn_emit_format mn_emit_formats[];

/* NULL when there is none of that name. */
const struct mn_emit_format *mn_emit_find(const char *name);
/* MN_ERR_CONFIG when the node has nothing to configure: no NIC with an address. */
enum mn_err mn_emit(const struct mn_emit_format *format, const struct mn_mesh *mesh, int node,
                    struct mn_emit *out, struct mn_diag *diag);
void mn_emit_free(struct mn_emit *out);
/* MN_ERR_CONFIG when a name that goes into scripts would mean something there. */
enum mn_err mn_emit_check(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                          struct mn_diag *diag);

/* --- for the formats ------------------------------------------------------------------------ */

/* Adds a file, whose text is what is printed to the stream until it is closed. */
FILE *mn_emit_begin(struct mn_emit *out, unsigned mode, const char *path, ...)
    __attribute__((format(printf, 3, 4)));
/* "Written by meshnet topo emit FORMAT for node N of mesh M." */
void mn_emit_head(FILE *file, const char *format, const struct mn_mesh *mesh, int node);
/* The next NIC of the node that has an address, from *at on; NULL after the last. None for
 * management: that network is set up already, by others, and the host reached over it. */
const struct mn_mesh_nic *mn_emit_nic(const struct mn_mesh *mesh, int node, size_t *at);
/* Its next address of a family (AF_INET, AF_INET6; 0: any), from *at on, as text in buf; NULL after
 * the last. */
const char *mn_emit_addr(const struct mn_mesh_nic *nic, int family, size_t *at,
                         char buf[MN_ADDR_TEXT]);
/* "0c:42:a1:00:00:01", "" when it has none or shares it with another NIC of the node, such as a
 * VLAN with the NIC below it: only the name tells them apart. Returns buf, of MN_EMIT_MAC bytes. */
#define MN_EMIT_MAC 18
const char *mn_emit_mac(const struct mn_mesh *mesh, int node, const struct mn_mesh_nic *nic,
                        char buf[MN_EMIT_MAC]);

/* The next route of the NIC (an index into the node's; -1: any) and family (0: any), from *at on;
 * NULL after the last. */
const struct mn_transit_route *mn_emit_route(const struct mn_transit *transit, int nic, int family,
                                             size_t *at);
/* Adds the files that transit needs, each in its place, for formats that write files; in out->also
 * what puts them in force. */
void mn_emit_transit(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                     const char *format, struct mn_emit *out);

void mn_emit_netplan(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                     struct mn_emit *out);
void mn_emit_networkd(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                      struct mn_emit *out);
void mn_emit_keyfile(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                     struct mn_emit *out);
void mn_emit_nmcli(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                   struct mn_emit *out);
void mn_emit_iproute2(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                      struct mn_emit *out);
void mn_emit_hostfile(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                      struct mn_emit *out);
void mn_emit_json(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                  struct mn_emit *out);

#endif
