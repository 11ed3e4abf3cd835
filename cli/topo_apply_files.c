/* --root: files for an image or a chroot. */
#include <string.h>
#include <sys/stat.h>

#include "cli/topo_apply.h"
#include "topo/mesh_check.h"

static enum mn_err choose_node(const struct mn_topo_apply *o, const struct mn_mesh *mesh, int *node,
                               struct mn_diag *diag)
{
    struct mn_host host;
    char why[256];
    enum mn_err err;

    if (o->node) {
        *node = mn_mesh_node_index(mesh, o->node);
        return *node < 0 ? mn_fail(diag, MN_ERR_CONFIG, "--node %s: no node of the mesh", o->node)
                         : MN_OK;
    }
    err = mn_host_read(NULL, &host, diag);
    if (!err)
        err = mn_mesh_find_self(mesh, &host, node, why, sizeof why, diag);
    mn_host_free(&host);
    return err;
}

static void show(struct mn_out *out, const struct mn_topo_apply *o,
                 const struct mn_apply_plan *plan)
{
    static const struct mn_col cols[] = {{"path", "FILE", 0}, {"state", "STATE", 0}};

    mn_out_bool(out, "dry_run", NULL, o->dry_run);
    mn_out_str(out, "manager", "Manager", plan->manager->name);
    mn_out_table(out, "files", NULL, cols, 2);
    for (size_t i = 0; i < plan->files.count; i++) {
        const struct mn_change *c = &plan->files.items[i];
        mn_out_row(out);
        mn_out_cell(out, c->what);
        mn_out_cell(out, !c->to ? "goes" : c->from ? "changed" : "new");
    }
    mn_out_table_end(out);
    for (size_t i = 0; i < plan->files.count && (o->dry_run || o->verbose); i++)
        mn_topo_apply_show_file(out, &plan->files.items[i], 1 + o->verbose);
    for (size_t i = 0; i < plan->n_notes; i++)
        mn_out_note(out, MN_YELLOW, "note: %s", plan->notes[i]);
}

enum mn_err mn_topo_apply_files(const struct mn_topo_apply *o, struct mn_mesh *mesh,
                                struct mn_diag *diag)
{
    struct mn_apply_want want = {.mesh = mesh, .take = o->take.items, .n_take = o->take.count};
    const char *root = strcmp(o->root, "/") != 0 ? o->root : "";
    struct mn_apply_plan plan = {.manager = NULL};
    struct stat st;
    enum mn_err err = choose_node(o, mesh, &want.node, diag);

    if (!err && (stat(o->root, &st) || !S_ISDIR(st.st_mode)))
        err = mn_fail(diag, MN_ERR_USAGE, "--root %s: no such folder", o->root);
    if (!err)
        err = mn_apply_plan(&want, NULL, root, &plan, diag);
    if (!err && !o->dry_run)
        err = mn_changes_make(NULL, &plan.files, diag);
    if (!err) {
        struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);
        show(out, o, &plan);
        if (mn_out_free(out))
            err = mn_fail(diag, MN_ERR_SYS, "the report could not be written; %s",
                          o->dry_run ? "nothing was changed" : "the files are");
    }
    mn_apply_plan_free(&plan);
    return err;
}
