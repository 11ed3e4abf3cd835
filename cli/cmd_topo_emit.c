#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cmd.h"
#include "cli/topo_mesh.h"
#include "topo/base/alloc.h"
#include "topo/emit/emit.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

struct options {
    const char *mesh, *node, *output;
};

static const struct mn_opt options[] = {
    {.name = "mesh",
     .letter = 'm',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "The mesh file; default: the one in force.",
     .offset = offsetof(struct options, mesh)},
    {.name = "node",
     .letter = 'n',
     .type = MN_OPT_STRING,
     .arg = "NAME",
     .help = "For this node of it; default: this host.",
     .offset = offsetof(struct options, node)},
    {.name = "output",
     .letter = 'o',
     .type = MN_OPT_STRING,
     .arg = "DIR",
     .help = "Write the files below this folder, with the paths that they have on the node; / puts "
             "them in place.",
     .offset = offsetof(struct options, output)},
    MN_OPT_END,
};

static enum mn_err choose_node(const struct options *o, const struct mn_mesh *mesh, int *node,
                               struct mn_diag *diag)
{
    struct mn_host host;
    char why[256], names[512] = "";

    if (!o->node) {
        enum mn_err err = mn_host_read(NULL, &host, diag);
        if (!err)
            err = mn_mesh_find_self(mesh, &host, node, why, sizeof why, diag);
        mn_host_free(&host);
        return err;
    }
    *node = mn_mesh_node_index(mesh, o->node);
    for (size_t i = 0, used = 0; *node < 0 && i < mesh->n_nodes && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 mesh->nodes[i].name);
    return *node < 0 ? mn_fail(diag, MN_ERR_CONFIG, "--node %s: expected one of %s", o->node, names)
                     : MN_OK;
}

/* The folders that a file lies in. */
static enum mn_err make_folders(char *path, struct mn_diag *diag)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        int failed = mkdir(path, 0755) && errno != EEXIST;
        if (failed)
            mn_fail(diag, MN_ERR_CONFIG, "%s: making this folder: %s", path, strerror(errno));
        *at = '/';
        if (failed)
            return MN_ERR_CONFIG;
    }
    return MN_OK;
}

static enum mn_err write_file(const char *folder, const struct mn_emit_file *file,
                              struct mn_diag *diag)
{
    char path[1024];

    if (snprintf(path, sizeof path, "%s/%s", strcmp(folder, "/") != 0 ? folder : "",
                 file->path + (file->path[0] == '/')) >= (int)sizeof path)
        return mn_fail(diag, MN_ERR_USAGE, "--output %.80s…: too long", folder);
    enum mn_err err = make_folders(path, diag);
    if (!err)
        err = mn_file_write(path, file->text, strlen(file->text), 1, diag);
    if (!err && chmod(path, file->mode))
        err = mn_fail_errno(diag, "%s: setting its mode", path);
    if (!err)
        printf("%s\n", path);
    return err;
}

static enum mn_err put(const struct options *o, const struct mn_emit_format *format,
                       const struct mn_emit *out, struct mn_diag *diag)
{
    for (size_t i = 0; i < out->n_files; i++) {
        enum mn_err err = o->output ? write_file(o->output, &out->files[i], diag) : MN_OK;
        if (err)
            return err;
        if (!o->output && out->n_files > 1)
            printf("%s# %s\n", i ? "\n" : "", out->files[i].path);
        if (!o->output)
            fputs(out->files[i].text, stdout);
    }
    if (o->output && format->then)
        fprintf(stderr, "in force after: %s%s%s\n", format->then, out->also ? " && " : "",
                out->also ? out->also : "");
    return fflush(stdout) ? mn_fail_errno(diag, "writing the output") : MN_OK;
}

static enum mn_err emit(const struct options *o, const char *name, struct mn_mesh *mesh,
                        struct mn_diag *diag)
{
    const struct mn_emit_format *format = mn_emit_find(name);
    struct mn_emit out;
    char names[256] = "";
    char path[MN_TOPO_PATH];
    int node;

    if (!format) {
        for (const struct mn_emit_format *f = mn_emit_formats; f->name; f++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                     *names ? ", " : "", f->name);
        return mn_fail(diag, MN_ERR_USAGE, "%s: expected one of %s", name, names);
    }
    enum mn_err err = mn_topo_read(o->mesh, path, mesh, diag);
    if (!err)
        err = choose_node(o, mesh, &node, diag);
    if (!err)
        err = mn_emit(format, mesh, node, &out, diag);
    if (err)
        return err;
    err = put(o, format, &out, diag);
    mn_emit_free(&out);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    struct mn_mesh mesh;
    struct mn_diag diag;
    enum mn_err err;

    mn_mesh_init(&mesh);
    if (argc != 1)
        err = mn_fail(&diag, MN_ERR_USAGE, "expected a format; see meshnet topo emit --help");
    else
        err = emit(values, argv[0], &mesh, &diag);
    mn_mesh_free(&mesh);
    return err ? mn_cmd_fail("topo emit", &diag) : 0;
}

const struct mn_command mn_cmd_topo_emit = {
    .name = "topo emit",
    .summary = "write the network configuration of a node of the mesh",
    .usage = "[OPTION]… FORMAT",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Formats:\n"
             "  netplan    for netplan (Ubuntu, DGX OS)\n"
             "  networkd   for systemd-networkd, a file a NIC\n"
             "  keyfile    for NetworkManager, a file a NIC\n"
             "  nmcli      for NetworkManager, a script\n"
             "  iproute2   until the next boot, a script\n"
             "  hostfile   of all nodes, for mpirun\n"
             "  json       the node's NICs and neighbours, for programs\n"
             "Example:\n"
             "  meshnet topo emit netplan --mesh mesh.yaml --node spark-a\n"
             "  sudo meshnet topo emit netplan -o / && sudo netplan try",
    .exits = {{0, MN_GOOD ": written"},
              {1, MN_FAILED "it could not be written"},
              {2, MN_REFUSED "a mistake in the mesh file, or a node with nothing to configure"}},
    .run = run,
};
