/* Names of cables that nobody has named: "<node>-<node>", with a number from the second on. */
#include "topo/link_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

/* Bytes of text up to max, not through the middle of a character. */
static int whole_characters(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);
    if (len > max)
        for (len = max; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--;
    return (int)len;
}

/* The name of the nth link between two nodes. */
static void default_name(const struct mn_mesh *mesh, const struct mn_mesh_link *link, int n,
                         char name[MN_NAME_MAX])
{
    const size_t share = (MN_NAME_MAX - 8) / 2; /* leaves room for "-" and "-4096" */
    const char *a = mesh->nodes[link->ends[0].node].name;
    const char *b = mesh->nodes[link->ends[1].node].name;
    int len = snprintf(name, MN_NAME_MAX, "%.*s-%.*s", whole_characters(a, share), a,
                       whole_characters(b, share), b);
    if (n > 1)
        snprintf(name + len, MN_NAME_MAX - (size_t)len, "-%d", n);
}

/* The names there are, and for each default name how far its numbers have been given out. */
struct names {
    struct mn_mesh *mesh;
    struct mn_mesh_lookup taken; /* links by name */
    struct mn_index bases;       /* in counts */
    struct base {
        char name[MN_NAME_MAX];
        int count;
    } * counts;
    size_t n_counts;
};

static void names_free(struct names *names)
{
    mn_lookup_free(&names->taken);
    mn_index_free(&names->bases);
    free(names->counts);
}

static enum mn_err take_all(struct names *names, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < names->mesh->n_links && !err; i++)
        if (names->mesh->links[i].name[0])
            err = mn_lookup_put_link(&names->taken, names->mesh, (int)i, diag);
    return err;
}

static int is_taken(const struct names *names, const char *name)
{
    return mn_lookup_link(&names->taken, names->mesh, name) >= 0;
}

/* Of the link's default name; NULL: no memory. The next call ends its life. */
static struct base *base_of(struct names *names, const struct mn_mesh_link *link,
                            struct mn_diag *diag)
{
    char name[MN_NAME_MAX];
    int found;

    default_name(names->mesh, link, 1, name);
    uint64_t hash = mn_hash_text(name);
    for (size_t at = 0; (found = mn_index_next(&names->bases, hash, &at)) >= 0;)
        if (!strcmp(names->counts[found].name, name))
            return &names->counts[found];
    struct base *base = mn_push(&names->counts, &names->n_counts, sizeof *base, diag);
    if (!base || mn_index_put(&names->bases, hash, (int)names->n_counts - 1, diag))
        return NULL;
    mn_strlcpy(base->name, name, sizeof base->name);
    return base;
}

static enum mn_err name_link(struct names *names, size_t index, struct mn_diag *diag)
{
    struct mn_mesh_link *link = &names->mesh->links[index];
    struct base *base = base_of(names, link, diag);
    char name[MN_NAME_MAX];

    if (!base)
        return MN_ERR_NOMEM;
    do
        default_name(names->mesh, link, ++base->count, name);
    while (is_taken(names, name));
    mn_strlcpy(link->name, name, sizeof link->name);
    return mn_lookup_put_link(&names->taken, names->mesh, (int)index, diag);
}

enum mn_err mn_link_name(struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct names names = {.mesh = mesh};
    enum mn_err err = take_all(&names, diag);

    for (size_t i = 0; i < mesh->n_links && !err; i++)
        if (!mesh->links[i].name[0])
            err = name_link(&names, i, diag);
    names_free(&names);
    return err;
}

/* --- gaps ------------------------------------------------------------------------------------- */

static int has_gone(const struct mn_mesh *mesh, const struct mn_mesh_link *was)
{
    return mn_mesh_end_nic(mesh, &was->ends[0])->role == MN_ROLE_MANAGEMENT ||
           mn_mesh_end_nic(mesh, &was->ends[1])->role == MN_ROLE_MANAGEMENT;
}

/* A link that has gone because it was management leaves its number to those after it. No number is
 * larger than the links of that name were many. */
static enum mn_err close_gap(struct names *names, const struct mn_mesh_link *gone, int count,
                             struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int n = 2; n <= count && !err; n++) {
        char name[MN_NAME_MAX], before[MN_NAME_MAX];
        default_name(names->mesh, gone, n, name);
        default_name(names->mesh, gone, n - 1, before);
        int link = mn_lookup_link(&names->taken, names->mesh, name);
        if (link < 0 || is_taken(names, before))
            continue;
        mn_strlcpy(names->mesh->links[link].name, before, MN_NAME_MAX);
        err = mn_lookup_put_link(&names->taken, names->mesh, link, diag);
    }
    return err;
}

enum mn_err mn_link_close_gaps(struct mn_mesh *mesh, const struct mn_mesh *old,
                               struct mn_diag *diag)
{
    struct names names = {.mesh = mesh};
    enum mn_err err = MN_OK;
    size_t gone = 0;

    for (size_t i = 0; i < old->n_links; i++)
        gone += (size_t)has_gone(mesh, &old->links[i]);
    if (gone)
        err = take_all(&names, diag);
    for (size_t i = 0; i < old->n_links && gone && !err; i++) {
        struct base *base = base_of(&names, &old->links[i], diag);
        err = base ? MN_OK : MN_ERR_NOMEM;
        if (base)
            base->count++;
    }
    for (size_t i = 0; i < old->n_links && gone && !err; i++) {
        const struct base *base = base_of(&names, &old->links[i], diag);
        err = !base ? MN_ERR_NOMEM
              : has_gone(mesh, &old->links[i])
                  ? close_gap(&names, &old->links[i], base->count, diag)
                  : MN_OK;
    }
    names_free(&names);
    return err;
}
