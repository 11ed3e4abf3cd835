/* The mesh file of a node as others see and replace it. Only what is a mesh file is written, and by
 * agents only where a mesh file has its place: the one in force, else /etc/meshnet/mesh.yaml for
 * root, ~/.config/meshnet/mesh.yaml (or $XDG_CONFIG_HOME) for others. */
#ifndef MN_FILES_H
#define MN_FILES_H

#include <cjson/cJSON.h>

#include "topo/mesh_digest.h"

#define MN_FILES_SYSTEM "/etc/meshnet/mesh.yaml"

/* What a node answers to "mesh" and to those that put one. */
struct mn_file_state {
    char path[512];
    int exists, writable, changed;
    uint64_t bytes;               /* a hash of what is in it: the same words, too */
    char broken[512];             /* why it is no mesh file; "" = it is one, or none exists */
    struct mn_mesh_digest digest; /* of one that is */
    char node[MN_NAME_MAX];       /* which of its nodes that host is; "" = none: */
    char why[512];                /* why not */
};

uint64_t mn_file_hash(const char *text, size_t len);
/* Of a stranger: checked. MN_ERR_PROTO. */
enum mn_err mn_file_state_parse(const cJSON *json, struct mn_file_state *state,
                                struct mn_diag *diag);

#endif
