/* meshnet discover: what this host has, what is wrong with it, and the mesh file made from it. */
#include "cli/cmd.h"
#include "cli/discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

#define NAME "discover"

struct options {
    int all, verbose, json, merge, force, strict, format, wide;
    const char *output, *check, *node, *sysfs, *netlink;
    struct mn_opt_list skip;
};
#define AT(field) .offset = offsetof(struct options, field)

static const struct mn_opt option_rows[] = {
    {"all", 'a', MN_OPT_FLAG, .help = "Show loopback and virtual interfaces too.", AT(all)},
    {"verbose", 'v', MN_OPT_COUNT, .help = "Show every address, RDMA attribute, GID and GPU.",
     AT(verbose)},
    {"format", 0, MN_OPT_CHOICE, "FORMAT", "text",
     "Write text, json (everything) or csv (the NICs).", AT(format), .choices = "text|json|csv"},
    MN_WIDE_OPTION(struct options),
    {"json", 'j', MN_OPT_FLAG, .help = "Short for --format json.", AT(json)},
    {"output", 'o', MN_OPT_STRING, "FILE", .help = "Write this host as a mesh file.", AT(output)},
    {"merge", 'm', MN_OPT_FLAG,
     .help = "Add this host to the file of --output, or merge the mesh files given as operands.",
     AT(merge)},
    {"force", 'f', MN_OPT_FLAG, .help = "Let --output replace a file.", AT(force)},
    {"node", 'n', MN_OPT_STRING, "NAME",
     .help = "Name of this node in the mesh (default: host name).", AT(node)},
    {"skip", 0, MN_OPT_LIST, "NETDEVS",
     .help = "Leave these NICs out of the mesh file: management, storage.", AT(skip)},
    {"check", 'c', MN_OPT_STRING, "FILE",
     .help = "Read a mesh file and show nodes, links and who reaches whom.", AT(check)},
    {"strict", 0, MN_OPT_FLAG, .help = "Exit 1 when there is a warning or an error.", AT(strict)},
    {"sysfs", 0, MN_OPT_STRING, "DIR", .help = "Look at a recorded host instead of this one.",
     AT(sysfs)},
    {"netlink", 0, MN_OPT_STRING, "FILE", .help = "The recorded host's interfaces and addresses.",
     AT(netlink)},
    MN_OPT_END,
};

static enum mn_out_format format_of(const struct options *opt)
{
    return opt->json ? MN_OUT_JSON : (enum mn_out_format)opt->format;
}

/* The exit code of a finished report: 1 when it could not be written. */
static int close_report(struct mn_out *out, int code)
{
    struct mn_diag diag;
    if (mn_out_free(out) == 0)
        return code;
    mn_fail(&diag, MN_ERR_SYS, "cannot write to standard output: it is closed or full");
    return mn_cmd_fail(NAME, &diag);
}

/* Into nics: those of host that --skip does not name. Returns how many, or -1. */
static int kept_nics(const struct options *opt, const struct mn_host *host, struct mn_nic *nics,
                     struct mn_diag *diag)
{
    int kept = 0;
    for (size_t i = 0; i < opt->skip.count; i++)
        if (!mn_host_nic(host, opt->skip.items[i]))
            return mn_fail(diag, MN_ERR_USAGE, "--skip %s: this host has no such NIC",
                           opt->skip.items[i]),
                   -1;
    for (size_t i = 0; i < host->n_nics; i++) {
        int skipped = 0;
        for (size_t k = 0; k < opt->skip.count; k++)
            skipped |= !strcmp(host->nics[i].netdev, opt->skip.items[k]);
        if (!skipped)
            nics[kept++] = host->nics[i];
    }
    return kept;
}

/* Adds host under the name of --node; its host name stays what it is. */
static enum mn_err add_host(const struct options *opt, struct mn_mesh *mesh,
                            const struct mn_host *host, struct mn_diag *diag)
{
    const char *name = opt->node;
    struct mn_host named = *host;
    if (name &&
        !mn_strlcpy(named.hostname, name,
                    sizeof named.hostname < MN_NAME_MAX ? sizeof named.hostname : MN_NAME_MAX))
        return mn_fail(diag, MN_ERR_USAGE, "--node %s: the name is longer than %d characters", name,
                       MN_NAME_MAX - 1);
    struct mn_nic *nics = mn_zalloc((host->n_nics + 1) * sizeof *nics);
    int kept = kept_nics(opt, host, nics, diag);
    named.nics = nics;
    named.n_nics = kept < 0 ? 0 : (size_t)kept;
    enum mn_err err = kept < 0 ? MN_ERR_USAGE : mn_mesh_add_host(mesh, &named, diag);
    free(nics);
    for (size_t i = 0; !err && i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, named.hostname))
            mn_strlcpy(mesh->nodes[i].hostname, host->hostname, sizeof mesh->nodes[i].hostname);
    return err;
}

/* Writes mesh, after making sure that what is written can be read again. */
static enum mn_err write_mesh(const struct mn_mesh *mesh, const char *path, int force,
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

/* Into mesh: the file of --output when it is to be merged into, and this host. */
static enum mn_err build_mesh(const struct options *opt, const struct mn_host *host,
                              struct mn_mesh *mesh, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    if (opt->merge && access(opt->output, F_OK) == 0)
        err = mn_mesh_read(opt->output, mesh, diag);
    if (!err)
        err = add_host(opt, mesh, host, diag);
    if (!err)
        err = mn_mesh_link_up(mesh, diag);
    return err;
}

static void say_written(struct mn_out *out, const struct mn_mesh *mesh, const char *path)
{
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_note(out, MN_GREEN, "Wrote %s: %zu node%s, %zu link%s, %s", path, mesh->n_nodes,
                mesh->n_nodes == 1 ? "" : "s", mesh->n_links, mesh->n_links == 1 ? "" : "s",
                mn_mesh_shape(mesh));
    mn_out_str(out, "written", NULL, path);
}

static int node_index(const struct mn_mesh *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, name))
            return (int)i;
    return -1;
}

/* The part of the report that needs a mesh: the file written now, or the one in force here. */
static enum mn_err report_mesh(const struct options *opt, const struct mn_host *host,
                               struct mn_out *out, struct mn_diag *diag)
{
    struct mn_mesh mesh;
    char path[512], why[256];
    int self = -1;
    enum mn_err err = MN_OK;
    mn_mesh_init(&mesh);
    if (*host->missing) {
        err = mn_fail(diag, MN_ERR_SYS,
                      "this host could not be read whole: %s%s; raise the limit (ulimit -n)",
                      host->missing, opt->output ? "; no mesh file is written" : "");
    } else if (opt->output) {
        err = build_mesh(opt, host, &mesh, diag);
        if (!err)
            err = write_mesh(&mesh, opt->output, opt->force || opt->merge, diag);
        if (!err) {
            self = node_index(&mesh, opt->node ? opt->node : host->hostname);
            say_written(out, &mesh, opt->output);
            snprintf(path, sizeof path, "%s", opt->output);
        }
    } else if (!opt->sysfs && mn_mesh_find_file(path, sizeof path)) {
        err = mn_mesh_read(path, &mesh, diag);
        if (!err)
            err = mn_mesh_find_self(&mesh, host, &self, why, sizeof why, diag);
    }
    if (!err && self >= 0 && mesh.n_nodes > 1)
        mn_discover_neighbours(out, &mesh, path, self);
    mn_mesh_free(&mesh);
    return err;
}

static void report_host(const struct options *opt, const struct mn_host *host,
                        const struct mn_findings *found, struct mn_out *out)
{
    enum mn_out_format format = format_of(opt);
    mn_out_str(out, "hostname", "Host", host->hostname);
    mn_out_str(out, "verbs", "Verbs", host->verbs[0] ? host->verbs : NULL);
    mn_out_str(out, "missing", *host->missing ? "NOT READ" : NULL,
               *host->missing ? host->missing : NULL);
    mn_out_strf(out, "memlock", NULL, "%llu", (unsigned long long)host->memlock);
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_discover_nics(out, host, opt->all, format != MN_OUT_TEXT);
    if (format == MN_OUT_CSV)
        return;
    if (format == MN_OUT_JSON || opt->verbose) {
        mn_discover_details(out, host, opt->all);
    } else if (mn_discover_has_gpu_nics(host)) {
        mn_out_note(out, MN_PLAIN, "%s", "");
        mn_discover_gpus(out, host, NULL);
    }
    mn_discover_findings(out, found);
}

static int run_host(const struct options *opt)
{
    const struct mn_host_source src = {.sysfs = opt->sysfs, .netlink = opt->netlink};
    struct mn_findings found = {0};
    struct mn_host host;
    struct mn_diag diag = {0};
    int code = 0;
    enum mn_err err = mn_host_read(&src, &host, &diag);
    if (!err)
        err = mn_host_locality(&src, &host, &diag);
    if (err) {
        mn_host_free(&host);
        return mn_cmd_fail(NAME, &diag);
    }
    struct mn_out *out = mn_out_new(stdout, format_of(opt));
    if (opt->wide)
        mn_out_width(out, 0);
    mn_findings_check(&host, &found);
    report_host(opt, &host, &found, out);
    err = report_mesh(opt, &host, out, &diag);
    if (opt->strict && mn_findings_count(&found, MN_SEVERITY_WARNING) +
                               mn_findings_count(&found, MN_SEVERITY_ERROR) >
                           0)
        code = 1;
    code = close_report(out, code);
    if (err)
        code = mn_cmd_fail(NAME, &diag);
    mn_findings_free(&found);
    mn_host_free(&host);
    return code;
}

static int show_mesh(const struct options *opt, const struct mn_mesh *mesh, const char *path,
                     const char *written)
{
    struct mn_out *out = mn_out_new(stdout, format_of(opt));
    if (opt->wide)
        mn_out_width(out, 0);
    mn_discover_mesh(out, mesh, path, -1);
    if (written)
        say_written(out, mesh, written);
    return close_report(out, 0);
}

static int run_check(const struct options *opt)
{
    struct mn_diag diag = {0};
    struct mn_mesh mesh;
    int code;
    mn_mesh_init(&mesh);
    if (mn_mesh_read(opt->check, &mesh, &diag))
        code = mn_cmd_fail(NAME, &diag);
    else
        code = show_mesh(opt, &mesh, opt->check, NULL);
    mn_mesh_free(&mesh);
    return code;
}

/* The file at which it fails is told: what it is about may be in any of those before it. */
static enum mn_err merge_file(struct mn_mesh *mesh, const struct mn_mesh *other, char **files,
                              int i, struct mn_diag *diag)
{
    struct mn_diag why;
    enum mn_err err = mn_mesh_merge(mesh, other, &why);
    return err ? mn_fail(diag, err, "%s, merged with %s: %s", files[i],
                         i == 1 ? files[0] : "the files before it", why.text)
               : MN_OK;
}

/* discover --merge a.yaml b.yaml … [-o FILE]: files only, nothing of this host. */
static int run_merge(const struct options *opt, int argc, char **argv)
{
    struct mn_diag diag = {0};
    struct mn_mesh mesh;
    enum mn_err err = MN_OK;
    int code;
    mn_mesh_init(&mesh);
    for (int i = 0; i < argc && !err; i++) {
        struct mn_mesh other;
        mn_mesh_init(&other);
        err = mn_mesh_read(argv[i], i == 0 ? &mesh : &other, &diag);
        if (!err && i > 0)
            err = merge_file(&mesh, &other, argv, i, &diag);
        mn_mesh_free(&other);
    }
    if (!err && opt->output)
        err = write_mesh(&mesh, opt->output, opt->force, &diag);
    if (err)
        code = mn_cmd_fail(NAME, &diag);
    else
        code = show_mesh(opt, &mesh, opt->output, opt->output);
    mn_mesh_free(&mesh);
    return code;
}

static enum mn_err check_usage(const struct options *opt, int argc, char **argv,
                               struct mn_diag *diag)
{
    if (argc > 0 && !opt->merge)
        return mn_fail(diag, MN_ERR_USAGE,
                       "\"%s\" is not expected here; mesh files to merge follow --merge", argv[0]);
    for (int i = 0; i < argc; i++)
        if (argv[i][0] == '-' && access(argv[i], F_OK) != 0)
            return mn_fail(diag, MN_ERR_USAGE, "%s: options stand before the files to merge",
                           argv[i]);
    if (opt->merge && argc == 0 && !opt->output)
        return mn_fail(
            diag, MN_ERR_USAGE,
            "--merge needs the file to merge into (--output FILE) or mesh files to merge");
    if (opt->check && (opt->output || opt->merge))
        return mn_fail(diag, MN_ERR_USAGE, "--check only reads; leave out --output and --merge");
    if (opt->netlink && !opt->sysfs)
        return mn_fail(diag, MN_ERR_USAGE, "--netlink belongs to a recorded host: add --sysfs DIR");
    if (opt->node && !opt->output)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--node names this host in a mesh file: add --output FILE");
    if (opt->skip.count && !opt->output)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--skip leaves NICs out of a mesh file: add --output FILE");
    if (opt->node && !opt->node[0])
        return mn_fail(diag, MN_ERR_USAGE, "--node \"\": a name is expected");
    return MN_OK;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *opt = values;
    struct mn_diag diag = {0};
    if (check_usage(opt, argc, argv, &diag))
        return mn_cmd_fail(NAME, &diag);
    if (opt->check)
        return run_check(opt);
    if (argc > 0)
        return run_merge(opt, argc, argv);
    return run_host(opt);
}

extern const struct mn_command mn_cmd_discover;
const struct mn_command mn_cmd_discover = {
    .name = NAME,
    .summary = "show NICs, RDMA ports and what is wrong with them; write the mesh file",
    .usage = "[OPTION]… [--merge FILE…]",
    .options = option_rows,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  meshnet discover                      what this host has\n"
             "  meshnet discover -v                   every attribute and GID\n"
             "  meshnet discover -o a.yaml --node a   this host as a mesh file\n"
             "  meshnet discover -o a.yaml --skip eno1   without the management network\n"
             "  meshnet discover -o mesh.yaml --merge a.yaml b.yaml c.yaml\n"
             "  meshnet discover --check mesh.yaml    read it and show the mesh",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "the host could not be read whole, a file could not be written, or "
                            "with --strict a warning"},
              {2, MN_REFUSED "a mistake in a mesh file"}},
    .run = run,
};
