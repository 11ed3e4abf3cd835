#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/node.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/mesh_yaml.h"

#define PATH_ROOM 512 /* as mn_mesh_find_file()'s callers have it: no other file by a cut name */

int mn_sudo_user(uid_t *uid)
{
    const char *text = getenv("SUDO_UID");
    char *end = NULL;
    unsigned long number = text ? strtoul(text, &end, 10) : 0;

    if (geteuid() || !text || !*text || *end || !number)
        return 0;
    if (uid)
        *uid = (uid_t)number;
    return 1;
}

const struct passwd *mn_sudo_drop(void)
{
    uid_t uid;
    const struct passwd *user = mn_sudo_user(&uid) ? getpwuid(uid) : NULL;

    /* The groups are of no use any more afterwards: this process goes on as root alone. */
    if (!user || (!initgroups(user->pw_name, user->pw_gid) && !setegid(user->pw_gid) &&
                  !seteuid(user->pw_uid)))
        return user;
    mn_sudo_back();
    return NULL;
}

void mn_sudo_back(void)
{
    if (seteuid(0) || setegid(0) || setgroups(0, NULL))
        abort();
}

enum mn_err mn_sudo_config(const char *path, struct mn_diag *diag)
{
    const struct passwd *user = NULL;
    struct mn_diag why = {.text = ""};
    char *text = NULL;
    size_t len = 0;
    uid_t uid;

    if (!mn_sudo_user(&uid)) {
        setenv("MESHNET_CONFIG", path, 1);
        return MN_OK;
    }
    if (strlen(path) >= PATH_ROOM)
        return mn_fail(diag, MN_ERR_CONFIG, "MESHNET_CONFIG: longer than %d bytes", PATH_ROOM - 1);
    user = mn_sudo_drop();
    if (!user)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "MESHNET_CONFIG: who called sudo (user %u) is not known here",
                       (unsigned)uid);
    enum mn_err err = mn_file_read(path, MN_YAML_MAX, &text, &len, &why);
    mn_sudo_back();
    if (err && err != MN_ERR_NOTFOUND)
        return mn_fail(diag, MN_ERR_CONFIG, "MESHNET_CONFIG: %s, as %s reads it, who called sudo",
                       why.text, user->pw_name);
    mn_mesh_hold(path, err ? NULL : text, len, &why);
    free(text);
    setenv("MESHNET_CONFIG", path, 1);
    return MN_OK;
}
