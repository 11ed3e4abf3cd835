/* The mesh file that a part of meshnet topo is about. */
#ifndef MN_TOPO_MESH_H
#define MN_TOPO_MESH_H

#include <stddef.h>

#include "topo/mesh.h"

#define MN_TOPO_PATH 4096 /* the kernel's PATH_MAX */

/* Reads the file given by --mesh, or where that is NULL the one in force; path gets its name. */
enum mn_err mn_topo_read(const char *given, char path[MN_TOPO_PATH], struct mn_mesh *mesh,
                         struct mn_diag *diag);
/* Writes the text into the file of --output, or where that is NULL or "-" to standard output; what
 * names it in the explanation: "the drawing". */
enum mn_err mn_topo_deliver(const char *output, const char *text, size_t len, const char *what,
                            struct mn_diag *diag);

#endif
