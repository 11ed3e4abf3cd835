#include "fleet/libraries.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"

static void look(struct mn_libraries *found, const char *pattern)
{
    char full[PATH_MAX];
    glob_t g;

    if (glob(pattern, 0, NULL, &g))
        return;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        size_t k = 0;
        if (!realpath(g.gl_pathv[i], full))
            continue;
        while (k < found->n && strcmp(found->paths[k], full) != 0)
            k++;
        if (k == found->n) {
            char **new = mn_grow((void **)&found->paths, &found->n, sizeof *new);
            *new = mn_asprintf("%s", full);
        }
    }
    globfree(&g);
}

/* A directory may hold any text: what glob would take for a pattern stays as it is. */
static void look_in(struct mn_libraries *found, const char *dir, size_t length,
                    const char *const *names)
{
    char pattern[2 * PATH_MAX];

    for (; *names; names++) {
        size_t used = 0;
        for (size_t i = 0; i < length && used < sizeof pattern - 64; i++) {
            if (strchr("*?[]\\", dir[i]))
                pattern[used++] = '\\';
            pattern[used++] = dir[i];
        }
        snprintf(pattern + used, sizeof pattern - used, "%s%s", length ? "/" : "./", *names);
        look(found, pattern);
    }
}

static void look_in_path(struct mn_libraries *found, const char *path, const char *const *names)
{
    while (path && *path) {
        size_t length = strcspn(path, ":");
        look_in(found, path, length, names);
        path += length + (path[length] == ':');
    }
}

/* Where distributions, CUDA, ROCm and HPC-X put libraries. */
static const char *const library_dirs[] = {
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/opt/rocm/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nvidia/lib64",
#ifdef __x86_64__
    "/usr/lib/x86_64-linux-gnu",
#else
    "/usr/lib/aarch64-linux-gnu",
#endif
};

/* Wheels of Python bring a library of their own. */
static const char *const wheel_dirs[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages",
                                         "lib/python3/dist-packages"};

static const struct {
    const char *names[3]; /* NULL ends */
    const char *wheels[2];
} kinds[] = {
    [MN_LIBRARY_NCCL] = {{"libnccl.so*"}, {"nvidia/nccl/lib/libnccl.so*", "torch/lib/libnccl.so*"}},
    [MN_LIBRARY_RCCL] = {{"librccl.so*"}, {"torch/lib/librccl.so*", "_rocm_sdk_*/lib/librccl.so*"}},
    [MN_LIBRARY_PLUGIN] = {{"libnccl-net*.so", "librccl-net*.so"}, {NULL}},
};

static void look_in_wheels(struct mn_libraries *found, const char *prefix,
                           const char *const *wheels)
{
    char pattern[PATH_MAX];

    for (size_t d = 0; prefix && d < sizeof wheel_dirs / sizeof *wheel_dirs; d++)
        for (int i = 0; i < 2 && wheels[i]; i++) {
            snprintf(pattern, sizeof pattern, "%s/%s/%s", prefix, wheel_dirs[d], wheels[i]);
            look(found, pattern);
        }
}

void mn_libraries_find(enum mn_library what, struct mn_libraries *found)
{
    const char *const *names = kinds[what].names;
    const char *home = getenv("HOME");
    char local[PATH_MAX];

    *found = (struct mn_libraries){.n = 0};
    look_in_path(found, getenv("LD_LIBRARY_PATH"), names);
    for (size_t i = 0; i < sizeof library_dirs / sizeof *library_dirs; i++)
        look_in(found, library_dirs[i], strlen(library_dirs[i]), names);
    snprintf(local, sizeof local, "%s/.local", home ? home : "");
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"),
                                    home ? local : NULL, "/usr/local", "/usr"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        look_in_wheels(found, prefixes[i], kinds[what].wheels);
}

void mn_libraries_free(struct mn_libraries *found)
{
    for (size_t i = 0; i < found->n; i++)
        free(found->paths[i]);
    free(found->paths);
    *found = (struct mn_libraries){.n = 0};
}

/* --- versions --------------------------------------------------------------------------------- */

#define MOST ((off_t)2 << 30) /* bytes of a library */

static int version_in(const char *data, size_t len, char *version, size_t size)
{
    static const char mark[] = "CCL version "; /* NCCL's and RCCL's */
    const char *at = data, *end = data + len;
    size_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL) {
        at += sizeof mark - 1;
        for (n = 0; at + n < end && n + 1 < size && at[n] > ' ' && at[n] < 127; n++)
            version[n] = at[n];
        version[n] = 0;
        if (n && *version >= '0' && *version <= '9') /* and no %d */
            return 1;
    }
    version[0] = 0;
    return 0;
}

int mn_library_version(const char *path, char *version, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), found = 0;
    struct stat st;

    version[0] = 0;
    if (fd < 0)
        return 0;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size < MOST) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            found = version_in(data, (size_t)st.st_size, version, size);
            munmap(data, (size_t)st.st_size);
        }
    }
    close(fd);
    return found;
}
