#include "cli/topo_mesh.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/out.h"
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

enum mn_err mn_topo_deliver(const char *output, const char *text, size_t len, const char *what,
                            struct mn_diag *diag)
{
    if (output && strcmp(output, "-") != 0)
        return mn_file_write(output, text, len, 1, diag);
    errno = 0;
    fwrite(text, 1, len, stdout);
    return mn_out_lost(stdout) ? mn_fail_errno(diag, "writing %s", what) : MN_OK;
}
