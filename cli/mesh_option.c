#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/mesh_option.h"

enum mn_err mn_mesh_option(const char *given, struct mn_diag *diag)
{
    const char *named = getenv("MESHNET_CONFIG");
    char full[PATH_MAX];

    if (given && !realpath(given, full))
        return mn_fail(diag, MN_ERR_USAGE, "the mesh file %s: %s", given, strerror(errno));
    /* One that is not there is named as it is by whoever reads it. */
    if (!given && (!named || !*named || *named == '/' || !realpath(named, full)))
        return MN_OK;
    return setenv("MESHNET_CONFIG", full, 1) ? mn_fail_errno(diag, "setting MESHNET_CONFIG")
                                             : MN_OK;
}
