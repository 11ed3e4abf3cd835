#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/topo_mesh.h"
#include "cli/topo_apply.h"
#include "fleet/launch.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

static const struct mn_opt options[] = {
    {.name = "mesh",
     .letter = 'm',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct mn_topo_apply, mesh),
     .help = "The mesh file; default: the one in force."},
    MN_CREW_OPTIONS(struct mn_topo_apply, crew),
    {.name = "dry-run",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_topo_apply, dry_run),
     .help = "Show what would change on each node, and change nothing."},
    {.name = "yes",
     .letter = 'y',
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_topo_apply, yes),
     .help = "Do not ask before it is changed."},
    {.name = "rollback",
     .type = MN_OPT_DURATION,
     .arg = "TIME",
     .def = "60s",
     .min = MN_APPLY_ROLLBACK_MIN_MS,
     .max = MN_APPLY_ROLLBACK_MAX_MS,
     .offset = offsetof(struct mn_topo_apply, rollback_ms),
     .help = "Each node undoes everything by itself after this time unless it was reached again "
             "and told to keep it."},
    {.name = "take",
     .type = MN_OPT_LIST,
     .arg = "NIC",
     .offset = offsetof(struct mn_topo_apply, take),
     .help = "Change NICs that are left alone otherwise, for the default route or management: NIC "
             "of every node that has it, or NODE/NIC."},
    {.name = "undo",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_topo_apply, undo),
     .help = "Go back to what the last apply that was kept has replaced."},
    {.name = "root",
     .type = MN_OPT_STRING,
     .arg = "DIR",
     .offset = offsetof(struct mn_topo_apply, root),
     .help = "Write the files of one node below this folder, an image's say; nothing of this host "
             "is changed."},
    {.name = "node",
     .letter = 'n',
     .type = MN_OPT_STRING,
     .arg = "NAME",
     .offset = offsetof(struct mn_topo_apply, node),
     .help = "With --root: the node; default: this host."},
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_topo_apply, json),
     .help = "Print JSON."},
    {.name = "verbose",
     .letter = 'v',
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_topo_apply, verbose),
     .help = "Show the contents of all files, as --dry-run does of those for others."},
    MN_WIDE_OPTION(struct mn_topo_apply),
    MN_OPT_END,
};

static enum mn_err check_options(const struct mn_topo_apply *o, int argc, char **argv,
                                 struct mn_diag *diag)
{
    if (argc)
        return mn_fail(diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
    if (o->node && !o->root)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--node is for --root; to apply on some nodes only name them with --hosts");
    if (o->root && (o->crew.hosts.count || o->crew.agents || o->undo))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--root writes the files of one node here: it goes without --hosts, "
                       "--agents and --undo");
    if (!o->root && !o->yes && !o->dry_run && (o->json || !isatty(STDIN_FILENO)))
        return mn_fail(diag, MN_ERR_USAGE,
                       "nobody can be asked here whether it is to be changed: --dry-run shows what "
                       "would be, --yes does it");
    return MN_OK;
}

/* Those of --hosts, or all nodes of the mesh by their host names. The array is the caller's. */
static struct mn_opt_list choose_hosts(const struct mn_topo_apply *o, const struct mn_mesh *mesh)
{
    struct mn_opt_list list = {.items = NULL};
    const struct mn_opt_list *given = &o->crew.hosts;
    size_t n = given->count ? given->count : mesh->n_nodes;

    for (size_t i = 0; i < n; i++)
        *(const char **)mn_grow((void **)&list.items, &list.count, sizeof *list.items) =
            given->count ? given->items[i] : mesh->nodes[i].hostname;
    return list;
}

/* NIC, or NODE/NIC: each names something of the mesh that has an address. */
static enum mn_err check_take(const struct mn_topo_apply *o, const struct mn_mesh *mesh,
                              struct mn_diag *diag)
{
    for (size_t t = 0; t < o->take.count; t++) {
        const char *take = o->take.items[t];
        int found = 0;
        for (size_t n = 0; n < mesh->n_nodes; n++) {
            const struct mn_mesh_node *node = &mesh->nodes[n];
            size_t len = strlen(node->name);
            const char *nic =
                !strncmp(take, node->name, len) && take[len] == '/' ? take + len + 1 : take;
            for (size_t i = 0; i < node->n_nics; i++)
                found |= node->nics[i].n_addrs &&
                         (!strcmp(nic, node->nics[i].netdev) || !strcmp(nic, node->nics[i].name));
        }
        if (!found)
            return mn_fail(diag, MN_ERR_USAGE,
                           "--take %s: no node of the mesh file has such a NIC with an address",
                           take);
    }
    return MN_OK;
}

static void say(const char *text)
{
    fflush(stdout);
    fprintf(stderr, "meshnet topo apply: %s\n", text);
}

/* 1: yes. */
static int confirm(const struct mn_apply_run *run, const char *question)
{
    char line[32] = "";

    fflush(stdout);
    fprintf(stderr, "\n%s [y/N] ", question);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y') && !*run->stop;
}

static int confirm_changes(const struct mn_apply_run *run)
{
    char text[128];

    snprintf(text, sizeof text,
             "Change this now? Each node undoes it after %u s unless it is reached again.",
             run->rollback_ms / 1000);
    return confirm(run, text);
}

/* Where somebody is asked, nothing is undone before he says so: what is wanted after that is shown
 * to him anew. */
static enum mn_err plan(const struct mn_topo_apply *o, struct mn_apply_run *run, struct mn_out *out,
                        struct mn_diag *diag)
{
    enum mn_err err = mn_apply_run_plan(run, o->yes && !o->dry_run, diag);

    if (!err && !o->yes && !o->dry_run && mn_apply_run_orphans(run)) {
        mn_topo_apply_show_orphans(out, run);
        if (!confirm(run, "Undo this first, to see what is to be changed then?"))
            return mn_fail(diag, MN_ERR_FAILED, "nothing was changed");
        err = mn_apply_run_plan(run, 1, diag);
    }
    mn_topo_apply_show_plan(out, run, o->dry_run, o->verbose ? 2 : o->dry_run);
    return err;
}

static enum mn_err carry_out(struct mn_apply_run *run, struct mn_diag *diag)
{
    enum mn_err err = mn_apply_run_make(run, diag);

    if (!err)
        err = mn_apply_run_check(run, diag);
    return err ? err : mn_apply_run_keep(run, diag);
}

/* What has been done is said even where it went wrong. */
static enum mn_err apply(const struct mn_topo_apply *o, struct mn_apply_run *run,
                         struct mn_out *out, struct mn_diag *diag)
{
    enum mn_err err = plan(o, run, out, diag);

    if (err || o->dry_run || !mn_apply_run_changes(run))
        return err;
    if (!o->yes && !confirm_changes(run))
        return mn_fail(diag, MN_ERR_FAILED, "nothing was changed");
    err = carry_out(run, diag);
    mn_topo_apply_show_end(out, run, err);
    if (!err && mn_topo_apply_missing(run))
        err = mn_fail(diag, MN_ERR_FAILED,
                      "it is kept, but RDMA devices lack GIDs for their new addresses: see above");
    return err;
}

/* All went well, but what was printed went nowhere. */
static enum mn_err lost(const struct mn_apply_run *run, struct mn_diag *diag)
{
    char *names = mn_strdup("");

    for (size_t i = 0; i < run->n; i++)
        if (run->nodes[i].kept) {
            char *more = mn_asprintf("%s%s%s", names, *names ? ", " : "", run->nodes[i].name);
            free(names);
            names = more;
        }
    enum mn_err err =
        *names ? mn_fail(diag, MN_ERR_SYS, "it is kept on %s; only the report could not be written",
                         names)
               : mn_fail(diag, MN_ERR_SYS, "the report could not be written; nothing was changed");
    free(names);
    return err;
}

static enum mn_err run_on_nodes(const struct mn_topo_apply *o, const struct mn_mesh *mesh,
                                struct mn_diag *diag)
{
    struct mn_apply_run run = {.mesh = mesh,
                               .take = &o->take,
                               .undo = o->undo,
                               .rollback_ms = o->rollback_ms,
                               .stop = &mn_launch_stop,
                               .say = say};
    struct mn_opt_list hosts = choose_hosts(o, mesh);
    char *text = NULL;
    enum mn_err err = check_take(o, mesh, diag);

    if (!err)
        err = mn_mesh_format_yaml(mesh, &text, diag);
    if (!err)
        err = mn_crew_options_open_hosts(&o->crew, &hosts, "topo apply", &run.crew, diag);
    if (!err) {
        struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);
        mn_launch_catch_hangup();
        if (o->wide)
            mn_out_width(out, 0);
        run.mesh_text = text;
        err = mn_apply_run_begin(&run, diag);
        if (!err)
            err = apply(o, &run, out, diag);
        mn_out_str(out, "error", NULL, err ? diag->text : NULL);
        if (mn_out_free(out) && !err)
            err = lost(&run, diag);
        mn_apply_run_end(&run);
    }
    mn_crew_close(run.crew);
    free(hosts.items);
    free(text);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    const struct mn_topo_apply *o = values;
    struct mn_diag diag = {.text = ""};
    struct mn_mesh mesh;
    char path[MN_TOPO_PATH];

    mn_mesh_init(&mesh);
    enum mn_err err = check_options(o, argc, argv, &diag);
    if (!err)
        err = mn_topo_read(o->mesh, path, &mesh, &diag);
    if (!err)
        err = o->root ? mn_topo_apply_files(o, &mesh, &diag) : run_on_nodes(o, &mesh, &diag);
    mn_mesh_free(&mesh);
    return err ? mn_cmd_fail("topo apply", &diag) : 0;
}

const struct mn_command mn_cmd_topo_apply = {
    .name = "topo apply",
    .summary = "set the NICs of the nodes up as the mesh file has them",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct mn_topo_apply),
    .notes = "Without --hosts all nodes of the mesh file, over ssh, by their host names.\n"
             "Examples:\n"
             "  meshnet topo apply --mesh mesh.yaml --dry-run\n"
             "  meshnet topo apply --mesh mesh.yaml --hosts spark-a,spark-b --yes\n"
             "  meshnet topo apply --undo",
    .exits = {{0, MN_GOOD ": it is as the mesh file has it, or would be"},
              {1, MN_FAILED "nothing is changed on any node; or it is kept, but RDMA devices lack "
                            "GIDs or the report could not be written"},
              {2, MN_REFUSED "a mistake in the mesh file, or a NIC that is to be left alone"}},
    .run = run,
};
