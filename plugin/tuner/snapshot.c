/* The mesh that this process's communicators decide by. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/tuner/tuning_impl.h"
#include "topo/mesh_file.h"
#include "topo/mesh_sort.h"

/* Only ever added to, and never freed: no lock that a fork could leave taken. */
struct snapshot {
    struct mn_mesh mesh;
    struct snapshot *next;
    char asked[]; /* MESHNET_CONFIG, "" where it is not set */
};
static _Atomic(struct snapshot *) snapshots;

static struct snapshot *find(struct snapshot *at, const char *asked)
{
    while (at && strcmp(at->asked, asked) != 0)
        at = at->next;
    return at;
}

static void drop(struct snapshot *s)
{
    mn_mesh_free(&s->mesh);
    free(s);
}

static enum mn_err read_mesh(const char *path, const char *asked, struct snapshot **out,
                             struct mn_diag *diag)
{
    struct snapshot *s = calloc(1, sizeof *s + strlen(asked) + 1);

    *out = NULL;
    if (!s)
        return mn_fail(diag, MN_ERR_NOMEM, "out of memory for the tuner's mesh");
    strcpy(s->asked, asked);
    mn_mesh_init(&s->mesh);
    enum mn_err err = mn_mesh_read(path, &s->mesh, diag);
    if (!err)
        err = mn_mesh_sort(&s->mesh, diag);
    if (err)
        drop(s);
    else
        *out = s;
    return err;
}

enum mn_err mn_tuning_mesh(const struct mn_mesh **mesh, struct mn_diag *diag)
{
    const char *variable = getenv("MESHNET_CONFIG"), *asked = variable ? variable : "";
    struct snapshot *head = atomic_load(&snapshots), *s = find(head, asked);
    char path[512];

    *mesh = NULL;
    if (!s) {
        if (!mn_mesh_find_file(path, sizeof path))
            return MN_OK;
        enum mn_err err = read_mesh(path, asked, &s, diag);
        if (err)
            return err;
        do { /* another thread's, which was quicker, holds for both */
            struct snapshot *theirs = find(head, asked);
            if (theirs) {
                drop(s);
                s = theirs;
                break;
            }
            s->next = head;
        } while (!atomic_compare_exchange_weak(&snapshots, &head, s));
    }
    *mesh = &s->mesh;
    return MN_OK;
}
