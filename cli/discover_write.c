/* The mesh file that discover writes. */
#include "cli/discover.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

enum mn_err mn_discover_write(const struct mn_mesh *mesh, const char *path, int force,
                              struct mn_diag *diag)
{
    struct mn_mesh again;
    char *text = NULL;
    enum mn_err err = mn_mesh_format_yaml(mesh, &text, diag);
    if (err)
        return err;
    mn_mesh_init(&again);
    err = mn_mesh_parse(path, text, strlen(text), &again, diag);
    mn_mesh_free(&again);
    if (!err)
        err = mn_file_write(path, text, strlen(text), force, diag);
    free(text);
    return err;
}

void mn_discover_say_written(struct mn_out *out, const struct mn_mesh *mesh, const char *path)
{
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_note(out, MN_GREEN, "Wrote %s: %zu node%s, %zu link%s, %s", path, mesh->n_nodes,
                mesh->n_nodes == 1 ? "" : "s", mesh->n_links, mesh->n_links == 1 ? "" : "s",
                mn_mesh_shape(mesh));
    mn_out_str(out, "written", NULL, path);
}
