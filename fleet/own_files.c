#include "fleet/own_files.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define LIBRARIES 64
#define FILE_MAX  (512u << 20)
#define BLOCK     512u

/* A copy of these has to be of one piece with the host's loader. */
static const char *const libc[] = {"libc.so.",  "libm.so.",  "ld-linux",      "libpthread.so.",
                                   "libdl.so.", "librt.so.", "libresolv.so.", "linux-vdso"};

struct set {
    const struct link_map *maps[LIBRARIES];
    size_t n;
};

static int is_libc(const char *name)
{
    for (size_t i = 0; i < sizeof libc / sizeof *libc; i++)
        if (!strncmp(name, libc[i], strlen(libc[i])))
            return 1;
    return 0;
}

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Adds what a loaded object is linked with, of those that are loaded: not what was opened since. */
static void add_needed(const struct link_map *object, const struct link_map *first, struct set *set)
{
    ElfW(Addr) strings = 0;

    for (const ElfW(Dyn) *d = object->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = d->d_un.d_ptr;
    /* The loader has put the address in its place, but where the table cannot be written. */
    if (strings < object->l_addr)
        strings += object->l_addr;
    for (const ElfW(Dyn) *d = object->l_ld; d->d_tag != DT_NULL; d++) {
        const char *name = (const char *)(uintptr_t)(strings + d->d_un.d_val);
        if (d->d_tag != DT_NEEDED || is_libc(name))
            continue;
        for (const struct link_map *m = first; m; m = m->l_next) {
            int known = strcmp(base(m->l_name), name) != 0 || set->n == LIBRARIES;
            for (size_t i = 0; i < set->n && !known; i++)
                known = set->maps[i] == m;
            if (!known)
                set->maps[set->n++] = m;
        }
    }
}

/* One of POSIX's ustar. */
static void add_head(FILE *tar, const char *name, size_t size, int folder)
{
    char head[BLOCK] = "";
    unsigned sum = 0;

    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000700", 8); /* mode, user, group */
    memcpy(head + 108, "0000000", 8);
    memcpy(head + 116, "0000000", 8);
    snprintf(head + 124, 12, "%011zo", size);
    memcpy(head + 136, "00000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = folder ? '5' : '0';
    memcpy(head + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)head[i];
    snprintf(head + 148, 8, "%06o", sum);
    fwrite(head, BLOCK, 1, tar);
}

static enum mn_err add_file(FILE *tar, const char *name, const char *path, struct mn_diag *diag)
{
    static const char nothing[BLOCK];
    char *bytes = NULL;
    size_t size;
    enum mn_err err = mn_file_read(path, FILE_MAX, &bytes, &size, diag);

    if (err)
        return err;
    add_head(tar, name, size, 0);
    fwrite(bytes, size, 1, tar);
    fwrite(nothing, (BLOCK - size % BLOCK) % BLOCK, 1, tar);
    free(bytes);
    return MN_OK;
}

static enum mn_err add_all(FILE *tar, struct mn_diag *diag)
{
    static const char end[2 * BLOCK];
    struct set set = {.n = 0};
    struct link_map *first = NULL;
    void *self = dlopen(NULL, RTLD_LAZY);

    if (!self || dlinfo(self, RTLD_DI_LINKMAP, &first))
        return mn_fail(diag, MN_ERR_SYS, "this program's libraries: %s", dlerror());
    add_needed(first, first, &set);
    for (size_t i = 0; i < set.n; i++)
        add_needed(set.maps[i], first, &set);
    enum mn_err err = add_file(tar, "meshnet", "/proc/self/exe", diag);
    add_head(tar, MN_OWN_LIBRARIES "/", 0, 1);
    for (size_t i = 0; i < set.n && !err; i++) {
        char name[100];
        snprintf(name, sizeof name, MN_OWN_LIBRARIES "/%.80s", base(set.maps[i]->l_name));
        err = add_file(tar, name, set.maps[i]->l_name, diag);
    }
    fwrite(end, sizeof end, 1, tar);
    dlclose(self);
    return err;
}

enum mn_err mn_own_files(char **tar, size_t *size, struct mn_diag *diag)
{
    *tar = NULL;
    FILE *file = open_memstream(tar, size);
    enum mn_err err = file ? add_all(file, diag) : MN_ERR_NOMEM;

    if (!file || fclose(file))
        mn_no_memory();
    if (err) {
        free(*tar);
        *tar = NULL;
    }
    return err;
}
