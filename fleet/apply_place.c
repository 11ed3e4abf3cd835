#include "fleet/apply_place.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/follow.h"

#define FILE_MAX (1024 * 1024)

const char *mn_place_root(void)
{
    const char *root = getenv("MESHNET_ROOT");

    return root ? root : "";
}

/* The folders above a file; those that are there stay as they are. */
static enum mn_err make_folders(const char *path, unsigned mode, struct mn_diag *diag)
{
    char *copy = mn_strdup(path);
    enum mn_err err = MN_OK;

    for (char *at = strchr(copy + 1, '/'); at && !err; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(copy, mode) && errno != EEXIST)
            err = mn_fail_errno(diag, "%s: making this folder", copy);
        *at = '/';
    }
    free(copy);
    return err;
}

static enum mn_err own_place(const char *folder, const char *name, char **path,
                             struct mn_diag *diag)
{
    *path = mn_asprintf("%s%s/meshnet/%s", mn_place_root(), folder, name);
    enum mn_err err = make_folders(*path, 0755, diag);
    if (err) {
        free(*path);
        *path = NULL;
    }
    return err;
}

enum mn_err mn_place_run(const char *name, char **path, struct mn_diag *diag)
{
    return own_place("/run", name, path, diag);
}

enum mn_err mn_place_state(const char *name, char **path, struct mn_diag *diag)
{
    return own_place("/var/lib", name, path, diag);
}

enum mn_err mn_place_read(const char *path, char **text, unsigned *mode, struct mn_diag *diag)
{
    struct stat st;

    *text = NULL;
    *mode = 0;
    if (stat(path, &st)) {
        if (errno == ENOENT || errno == ENOTDIR)
            return MN_OK;
        return mn_fail_errno(diag, "%s: looking at it", path);
    }
    *mode = st.st_mode & 07777;
    if (access(path, R_OK))
        return mn_fail_errno(diag, "%s: reading it", path);
    return mn_file_read(path, FILE_MAX, text, NULL, diag);
}

enum mn_err mn_place_write(const char *path, const char *text, unsigned mode, struct mn_diag *diag)
{
    enum mn_err err = make_folders(path, 0755, diag);
    mode_t old = umask(mode & 077 ? 022 : 077); /* at no moment more than mode allows */

    if (!err)
        err = mn_file_write(path, text, strlen(text), 1, diag);
    umask(old);
    if (!err && chmod(path, mode))
        err = mn_fail_errno(diag, "%s: setting its mode", path);
    return err;
}

/* Of what is not there its deepest folder that is. */
static int leads_below(const char *base, const char *path)
{
    char *copy = mn_strdup(path), *real, *at = copy;
    size_t length = strlen(base);

    while (!(real = realpath(at, NULL)) && strcmp(at, ".") != 0 && strcmp(at, "/") != 0)
        at = dirname(at);
    int below = real && !strncmp(real, base, length) &&
                (!real[length] || real[length] == '/' || length == 1);
    free(real);
    free(copy);
    return below;
}

static enum mn_err check_link(const char *base, const char *link, struct mn_diag *diag)
{
    char *target;
    enum mn_err err = mn_file_follow(link, &target, diag);

    if (!err && !leads_below(base, target))
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "%s: this link leads to %s, out of %s: nothing is written there; make it one "
                      "that stays inside (ln -sr)",
                      link, target, base);
    free(target);
    return err;
}

enum mn_err mn_place_below(const char *root, const char *path, struct mn_diag *diag)
{
    char *copy = mn_strdup(path), *base = *root ? realpath(root, NULL) : NULL;
    char *at = base ? copy + strlen(root) : NULL; /* a root that is not there has no links */
    enum mn_err err = MN_OK;
    struct stat st;

    while (at && !err) {
        at = strchr(at + 1, '/');
        if (at)
            *at = '\0';
        if (lstat(copy, &st))
            break;
        if (S_ISLNK(st.st_mode))
            err = check_link(base, copy, diag);
        if (at)
            *at = '/';
    }
    free(base);
    free(copy);
    return err;
}

static int sysctl_path(const char *name, char *path, size_t size)
{
    return !strstr(name, "..") && snprintf(path, size, "/proc/sys/%s", name) < (int)size;
}

int mn_sysctl_read(const char *name, char *value, size_t size)
{
    char path[256];
    ssize_t n = -1;
    int fd = sysctl_path(name, path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        n = read(fd, value, size - 1);
        close(fd);
    }
    if (n < 0)
        return 0;
    value[n] = '\0';
    value[strcspn(value, "\n")] = '\0';
    return 1;
}

enum mn_err mn_sysctl_write(const char *name, const char *value, struct mn_diag *diag)
{
    char path[256];
    size_t len = strlen(value);
    ssize_t n = -1;

    if (!sysctl_path(name, path, sizeof path))
        return mn_fail(diag, MN_ERR_CONFIG, "\"%.200s\" is no sysctl", name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        n = write(fd, value, len);
    int failed = errno;
    if (fd >= 0)
        close(fd);
    errno = failed;
    return n == (ssize_t)len ? MN_OK : mn_fail_errno(diag, "%s: writing %s", path, value);
}
