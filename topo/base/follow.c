#include "topo/base/follow.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"

#define LINKS_MAX 40 /* as the kernel follows them */

/* As fs.protected_symlinks and fs.protected_regular have it, whatever they are set to. */
static int is_planted(const char *path, const struct stat *st)
{
    char *copy = mn_strdup(path);
    struct stat folder;
    int open_to_all = !stat(dirname(copy), &folder) && (folder.st_mode & S_ISVTX) &&
                      (folder.st_mode & (S_IWOTH | S_IWGRP));

    free(copy);
    return open_to_all && st->st_uid != geteuid() && st->st_uid != folder.st_uid;
}

static char *beside(const char *path, const char *name)
{
    char *copy, *whole;

    if (*name == '/')
        return mn_strdup(name);
    copy = mn_strdup(path);
    whole = mn_asprintf("%s/%s", dirname(copy), name);
    free(copy);
    return whole;
}

/* A folder on the way that is a link which another user left, as in /tmp/LINK/file: *st is its. */
static int is_way_planted(char *at, struct stat *st)
{
    for (char *slash = strchr(at + 1, '/'); *at && slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int planted = !lstat(at, st) && S_ISLNK(st->st_mode) && st->st_uid && is_planted(at, st);
        *slash = '/';
        if (planted)
            return 1;
    }
    return 0;
}

enum mn_err mn_file_follow(const char *path, char **target, struct mn_diag *diag)
{
    char *at = mn_strdup(path), name[PATH_MAX];
    enum mn_err err = MN_OK;
    struct stat st;
    int links = 0;

    while (!err) {
        int planted = is_way_planted(at, &st);
        if (!planted && lstat(at, &st))
            break;
        if (planted || is_planted(at, &st)) {
            err = mn_fail(diag, MN_ERR_CONFIG,
                          "%s: it is%s of another user (%u) in a folder where everybody may leave "
                          "files, and not written to: remove it or name another file",
                          path, planted ? " by a link" : "", (unsigned)st.st_uid);
            break;
        }
        if (!S_ISLNK(st.st_mode))
            break;
        ssize_t n = readlink(at, name, sizeof name - 1);
        if (n < 0 || ++links > LINKS_MAX) {
            errno = n < 0 ? errno : ELOOP;
            err = mn_fail_errno(diag, "%s", path);
            break;
        }
        name[n] = 0;
        char *next = beside(at, name);
        free(at);
        at = next;
    }
    if (err) {
        free(at);
        at = NULL;
    }
    *target = at;
    return err;
}
