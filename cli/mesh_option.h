/* The mesh file of a command whose plugin, or whose part on other hosts, has to find it too. */
#ifndef MN_MESH_OPTION_H
#define MN_MESH_OPTION_H

#include "topo/base/err.h"

/* Makes the file given by --mesh the one in force; NULL: it stays. MESHNET_CONFIG then has a path
 * from / on, which means the same in other folders. */
enum mn_err mn_mesh_option(const char *given, struct mn_diag *diag);

#endif
