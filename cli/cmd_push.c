#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/crew_options.h"
#include "cli/host_name.h"
#include "cli/push.h"
#include "fleet/ssh.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

#define NAME     "push"
#define FILE_MAX (3u << 20) /* in MN_NODE_TEXT there is room for it, with its line ends escaped */

struct options {
    struct mn_crew_options crew;
    const char *to;
    int dry_run, partial, json, wide;
};

static const struct mn_opt options[] = {
    MN_CREW_OPTIONS(struct options, crew),
    {.name = "to",
     .type = MN_OPT_STRING,
     .arg = "PATH",
     .offset = offsetof(struct options, to),
     .help = "Write it there on every host; default: in place of the mesh file in force."},
    {.name = "dry-run",
     .letter = 'n',
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, dry_run),
     .help = "Show who has what, and write nothing."},
    {.name = "partial",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, partial),
     .help = "Write it where that can be, though not on every host."},
    {.name = "json",
     .letter = 'j',
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Write JSON instead of text."},
    MN_WIDE_OPTION(struct options),
    MN_OPT_END,
};

/* --- what goes where ------------------------------------------------------------------------ */

static enum mn_err read_file(const char *name, struct mn_push *push, struct mn_mesh *mesh,
                             struct mn_diag *diag)
{
    if (name)
        mn_strlcpy(push->file, name, sizeof push->file);
    else if (!mn_mesh_find_file(push->file, sizeof push->file))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "no mesh file is in force here: name the one to push; meshnet discover "
                       "writes one");
    enum mn_err err = mn_file_read_named(push->file, FILE_MAX, &push->text, &push->len, diag);
    if (!err)
        err = mn_mesh_parse(push->file, push->text, push->len, mesh, diag);
    if (!err)
        mn_mesh_digest(mesh, push->file, &push->own);
    return err;
}

static int own_node(const struct mn_mesh *mesh)
{
    struct mn_host host;
    struct mn_diag diag;
    char why[256];
    int node = -1;

    if (mn_host_read(NULL, &host, &diag) ||
        mn_mesh_find_self(mesh, &host, &node, why, sizeof why, &diag))
        node = -1;
    mn_host_free(&host);
    return node;
}

/* All nodes of the file, by the name that the system knows. */
static void name_nodes(const struct mn_mesh *mesh, struct mn_opt_list *hosts)
{
    int self = own_node(mesh);

    for (size_t i = 0; i < mesh->n_nodes; i++) {
        const struct mn_mesh_node *node = &mesh->nodes[i];
        const char *name = node->hostname;
        if (strcmp(node->name, name) != 0 && mn_names_unknown(name) &&
            !mn_names_unknown(node->name))
            name = node->name;
        *(const char **)mn_grow((void **)&hosts->items, &hosts->count, sizeof *hosts->items) =
            (int)i == self && !mn_ssh_is_here(name) ? "localhost" : name;
    }
}

static enum mn_err check_usage(const struct options *o, int argc, struct mn_diag *diag)
{
    if (argc > 1)
        return mn_fail(diag, MN_ERR_USAGE, "expected one mesh file at most, %d are named", argc);
    if (o->to && (o->to[0] != '/' || strlen(o->to) >= sizeof((struct mn_file_state *)0)->path))
        return mn_fail(diag, MN_ERR_USAGE, "--to %.80s: expected an absolute path", o->to);
    if (o->to && strcmp(o->to, MN_FILES_SYSTEM) != 0 && o->crew.agents)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--to %.80s: agents write a mesh file to its place only; leave out --to, "
                       "or go over ssh",
                       o->to);
    return MN_OK;
}

static enum mn_err push_all(const struct options *o, struct mn_push *push,
                            const struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct mn_opt_list hosts = {.items = NULL};
    struct mn_crew *crew = NULL;

    if (!o->crew.hosts.count)
        name_nodes(mesh, &hosts);
    enum mn_err err =
        mn_crew_options_open_hosts(&o->crew, o->crew.hosts.count ? &o->crew.hosts : &hosts, NAME,
                                   &crew, diag);
    if (!err) {
        mn_push_look(push, crew);
        if (!o->dry_run && (o->partial || !mn_push_failed(push)))
            mn_push_write(push, crew);
    }
    mn_crew_close(crew);
    free(hosts.items);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_push *push = mn_zalloc(sizeof *push);
    struct mn_mesh mesh;
    struct mn_diag diag = {.text = ""};
    int code;

    push->to = o->to;
    mn_mesh_init(&mesh);
    enum mn_err err = check_usage(o, argc, &diag);
    if (!err)
        err = read_file(argc ? argv[0] : NULL, push, &mesh, &diag);
    if (!err)
        err = push_all(o, push, &mesh, &diag);
    if (err) {
        code = mn_cmd_fail(NAME, &diag);
    } else {
        struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);
        if (o->wide)
            mn_out_width(out, 0);
        mn_push_show(push, out);
        code = mn_push_failed(push) ? 1 : 0;
        if (mn_out_free(out)) {
            mn_fail(&diag, MN_ERR_SYS, "the report could not be written%s",
                    code          ? ""
                    : push->wrote ? "; every host has the file"
                                  : "; nothing was written");
            code = mn_cmd_fail(NAME, &diag);
        }
        mn_push_say(push, NAME);
    }
    mn_push_free(push);
    free(push);
    mn_mesh_free(&mesh);
    return code;
}

const struct mn_command mn_cmd_push = {
    .name = NAME,
    .summary = "put the same mesh file on every node, and say which had another",
    .usage = "[OPTION]… [FILE]",
    .options = options,
    .options_size = sizeof(struct options),
    .notes =
        "FILE: the mesh file; default: the one in force here. It goes to all of its nodes, or to\n"
        "those of --hosts.\n"
        "Examples:\n"
        "  meshnet push mesh.yaml\n"
        "  meshnet push --dry-run              who has what\n"
        "  meshnet push mesh.yaml --hosts spark-a,spark-b --to /etc/meshnet/mesh.yaml",
    .exits = {{0, MN_GOOD ": every host has it; with --dry-run, all of them answered"},
              {1, MN_FAILED "a host could not be asked or written; without --partial none was "
                            "written when that was known before; or only the report could not be"},
              {2, MN_REFUSED "no mesh file, or a mistake in it"}},
    .run = run,
};
