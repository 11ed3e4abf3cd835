/* The mesh as a tree of named values, in the order of the file: JSON and YAML are two ways to print
 * it, so that neither has a key the other lacks. */
#ifndef MN_MESH_FILE_JSON_H
#define MN_MESH_FILE_JSON_H

#include <cjson/cJSON.h>

#include "topo/mesh.h"

/* NULL when there is no memory. */
cJSON *mn_mesh_tree(const struct mn_mesh *mesh);

#endif
