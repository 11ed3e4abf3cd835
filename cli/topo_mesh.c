#include "cli/topo_mesh.h"

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

enum mn_err mn_topo_read(const char *given, char path[MN_TOPO_PATH], struct mn_mesh *mesh,
                         struct mn_diag *diag)
{
    if (given)
        (void)mn_strlcpy(path, given, MN_TOPO_PATH); /* no longer name can be opened */
    else if (!mn_mesh_find_file(path, MN_TOPO_PATH))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "no mesh file: name one with --mesh, or see meshnet discover");
    return mn_mesh_read(path, mesh, diag);
}
