/* What a mesh file says, in few enough bytes for two nodes to compare before they use it together.
 *
 * The hash is of the meaning, not of the bytes: comments, the order of keys, nodes and links, and
 * defaults that are written out make no difference, everything that a node reads from the file
 * does. Beside it stands a short hash for each setting, node and link (of a mesh with too many
 * links, or nodes, one for all of them), so that what differs can be named without the file going
 * over the wire. All of it is public and proves nothing about who sent it. */
#ifndef MN_MESH_DIGEST_H
#define MN_MESH_DIGEST_H

#include "topo/mesh.h"

#define MN_DIGEST_ITEMS 128

struct mn_mesh_item {
    uint32_t name, value; /* of both the hash */
};

struct mn_mesh_digest {
    uint64_t hash; /* 0 = there is no mesh file */
    int n_items;
    struct mn_mesh_item items[MN_DIGEST_ITEMS];
};

/* With what it takes to say in words what differs. All zero: no mesh file. */
struct mn_mesh_own {
    struct mn_mesh_digest digest;
    char path[256];
    char names[MN_DIGEST_ITEMS][MN_NAME_MAX + 8]; /* of the items: "node a", "transport.silence" */
};

void mn_mesh_digest(const struct mn_mesh *mesh, const char *path, struct mn_mesh_own *own);
/* Of the mesh file that this process would use; MN_ERR_CONFIG when that is a broken one. */
enum mn_err mn_mesh_own_read(struct mn_mesh_own *own, struct mn_diag *diag);

/* "different: node a, link b; only here: …; only there: 2 of nodes, links and settings"; "" when
 * nothing that is named does. Of their items names are known where own has them, too. */
void mn_mesh_differences(const struct mn_mesh_own *own, const struct mn_mesh_digest *theirs,
                         char *text, size_t size);

/* 1 when peer (its name, for the text) goes by another mesh file, and in text both hashes and what
 * differs; 0 when it is the same, or neither has one. */
int mn_mesh_differs(const struct mn_mesh_own *own, const struct mn_mesh_digest *theirs,
                    const char *peer, char *text, size_t size);

#endif
