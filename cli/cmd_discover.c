/* meshnet discover: what this host has, what is wrong with it, and the mesh file made from it. */
#include "cli/cmd.h"
#include "cli/discover.h"
#include "cli/discover_hosts.h"
#include "cli/discover_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/mesh_pick.h"

#define NAME "discover"

#define AT(field) .offset = offsetof(struct mn_discover_options, field)

static const struct mn_opt option_rows[] = {
    {"all", 'a', MN_OPT_FLAG, .help = "Show loopback and virtual interfaces too.", AT(all)},
    {"verbose", 'v', MN_OPT_COUNT, .help = "Show every address, RDMA attribute, GID and GPU.",
     AT(verbose)},
    {"format", 0, MN_OPT_CHOICE, "FORMAT", "text",
     "Write text, json (everything) or csv (the NICs).", AT(format), .choices = "text|json|csv"},
    MN_WIDE_OPTION(struct mn_discover_options),
    {"json", 'j', MN_OPT_FLAG, .help = "Short for --format json.", AT(json)},
    {"output", 'o', MN_OPT_STRING, "FILE", .help = "Write this host as a mesh file.", AT(output)},
    {"merge", 'm', MN_OPT_FLAG,
     .help = "Add this host to the file of --output, or merge the mesh files given as operands.",
     AT(merge)},
    {"force", 'f', MN_OPT_FLAG, .help = "Let --output replace a file.", AT(force)},
    {"node", 'n', MN_OPT_STRING, "NAME",
     .help = "Name of this node in the mesh (default: host name).", AT(node)},
    {"skip", 0, MN_OPT_LIST, "NETDEVS",
     .help = "Leave these NICs out of the mesh file: storage, say.", AT(skip)},
    {"take", 0, MN_OPT_LIST, "NETDEVS",
     .help = "Make cables of these NICs, though they look like a management network.", AT(take)},
    {"check", 'c', MN_OPT_STRING, "FILE",
     .help = "Read a mesh file and show nodes, links and who reaches whom.", AT(check)},
    {"strict", 0, MN_OPT_FLAG, .help = "Exit 1 when there is a warning, as with an error.",
     AT(strict)},
    {"sysfs", 0, MN_OPT_STRING, "DIR", .help = "Look at a recorded host instead of this one.",
     AT(sysfs)},
    {"netlink", 0, MN_OPT_STRING, "FILE", .help = "The recorded host's interfaces and addresses.",
     AT(netlink)},
    {"neighbors", 0, MN_OPT_FLAG,
     .help = "Find who is at the other end of each cable, before there are addresses.",
     AT(neighbors)},
    MN_CREW_OPTIONS(struct mn_discover_options, near.crew),
    {"wait", 0, MN_OPT_DURATION, "TIME",
     .help = "Probe for so long and not less (default: until all is known, 5s at most).",
     AT(near.wait_ms), .min = 200, .max = 60000},
    {"up", 0, MN_OPT_FLAG, .help = "Bring up NICs that are switched off, for as long as it takes.",
     AT(near.up)},
    {"lldp", 0, MN_OPT_FLAG, .help = "Send LLDP, too; it is listened for anyway.", AT(near.lldp)},
    {"key-file", 0, MN_OPT_STRING, "FILE",
     .help = "Without --hosts: the key of nodes that are to hear each other.", AT(near.key_file)},
    {"partial", 0, MN_OPT_FLAG, .help = "Write the mesh file though a host did not answer.",
     AT(near.partial)},
    {"survey", 0, MN_OPT_STRING, "FILE", .help = "Go by a recorded survey instead of probing.",
     AT(near.survey)},
    {"save-survey", 0, MN_OPT_STRING, "FILE", .help = "Record what was found.",
     AT(near.save_survey)},
    MN_OPT_END,
};

static enum mn_out_format format_of(const struct mn_discover_options *opt)
{
    return opt->json ? MN_OUT_JSON : (enum mn_out_format)opt->format;
}

/* The exit code of a finished report: 1 when it could not be written. written: the file that is. */
static int close_report(struct mn_out *out, const char *written, int code)
{
    struct mn_diag diag;
    if (mn_out_free(out) == 0)
        return code;
    mn_cmd_lost(written, &diag);
    return mn_cmd_fail(NAME, &diag);
}

static int node_index(const struct mn_mesh *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, name))
            return (int)i;
    return -1;
}

/* What a report needs beside the host. */
struct scene {
    struct mn_mesh mesh;         /* the file that is written, or is in force here */
    char path[MN_DISCOVER_PATH]; /* of it; "" = none */
    int self;                    /* this host's node, or -1 */
    struct mn_host named;        /* this host as a node: its NICs have roles */
};

/* The file of another host says nothing of a recorded one, unless it was named. */
static int may_be_in_force(const struct mn_discover_options *opt)
{
    const char *named = getenv("MESHNET_CONFIG");
    return !opt->sysfs || (named && *named);
}

/* Reads the file of --output that is to be merged into, or the one in force, and gives NICs their
 * roles. */
static enum mn_err set_scene(const struct mn_discover_options *opt, const struct mn_host *host,
                             struct scene *scene, struct mn_diag *diag)
{
    char why[256];
    enum mn_err err = MN_OK;
    mn_mesh_init(&scene->mesh);
    scene->self = -1;
    if (opt->output) {
        mn_strlcpy(scene->path, opt->output, sizeof scene->path);
        if (opt->merge && access(opt->output, F_OK) == 0)
            err = mn_mesh_read(opt->output, &scene->mesh, diag);
    } else if (may_be_in_force(opt) && mn_mesh_find_file(scene->path, sizeof scene->path)) {
        err = mn_mesh_read(scene->path, &scene->mesh, diag);
        if (!err)
            err = mn_mesh_find_self(&scene->mesh, host, &scene->self, why, sizeof why, diag);
    }
    const struct mn_mesh_choice ask = {opt->node, &opt->skip, &opt->take, 0};
    struct mn_diag later;
    enum mn_err bad =
        mn_mesh_pick(&ask, host, &scene->mesh, scene->self, &scene->named, err ? &later : diag);
    return err ? err : bad;
}

/* The part of the report that needs a mesh: the file written now, or the one in force here. */
static enum mn_err report_mesh(const struct mn_discover_options *opt, const struct mn_host *host,
                               struct scene *scene, struct mn_out *out, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    if (opt->output) {
        err = mn_mesh_add_picked(&scene->named, &scene->mesh, host->hostname, diag);
        if (!err)
            err = mn_mesh_link_up(&scene->mesh, diag);
        if (!err)
            err = mn_discover_write(&scene->mesh, opt->output, opt->force || opt->merge, diag);
        if (!err) {
            scene->self = node_index(&scene->mesh, scene->named.hostname);
            mn_discover_say_written(out, &scene->mesh, opt->output);
        }
    }
    if (!err && scene->self >= 0 && scene->mesh.n_nodes > 1)
        mn_discover_neighbours(out, &scene->mesh, scene->path, scene->self, host);
    return err;
}

static void report_host(const struct mn_discover_options *opt, const struct mn_host *host,
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
    mn_discover_roles(out, host);
    if (format == MN_OUT_JSON || opt->verbose) {
        mn_discover_details(out, host, opt->all);
    } else if (mn_discover_has_gpu_nics(host)) {
        mn_out_note(out, MN_PLAIN, "%s", "");
        mn_discover_gpus(out, host, NULL);
    }
    mn_discover_findings(out, found);
}

static enum mn_err read_host(const struct mn_discover_options *opt, struct mn_host *host,
                             struct mn_diag *diag)
{
    const struct mn_host_source src = {.sysfs = opt->sysfs, .netlink = opt->netlink};
    enum mn_err err = mn_host_read(&src, host, diag);
    if (!err)
        err = mn_host_locality(&src, host, diag);
    if (!err)
        err = mn_host_around(&src, host, diag);
    return err;
}

static enum mn_err whole(const struct mn_discover_options *opt, const struct mn_host *host,
                         struct mn_diag *diag)
{
    if (!*host->missing)
        return MN_OK;
    return mn_fail(diag, MN_ERR_SYS,
                   "this host could not be read whole: %s%s; raise the limit (ulimit -n)",
                   host->missing, opt->output ? "; no mesh file is written" : "");
}

static int run_host(const struct mn_discover_options *opt)
{
    struct mn_findings found = {0};
    struct scene scene = {.self = -1};
    struct mn_host host;
    struct mn_diag diag = {0};
    int code = 0;
    enum mn_err err = read_host(opt, &host, &diag);
    if (err) {
        mn_host_free(&host);
        return mn_cmd_fail(NAME, &diag);
    }
    struct mn_out *out = mn_out_new(stdout, format_of(opt));
    if (opt->wide)
        mn_out_width(out, 0);
    err = whole(opt, &host, &diag);
    if (!err)
        err = set_scene(opt, &host, &scene, &diag);
    mn_mesh_copy_roles(&scene.named, &host);
    const struct mn_in_force force = {&scene.mesh, scene.self, scene.path};
    mn_findings_check(&host, !err && scene.self >= 0 ? &force : NULL, &found);
    report_host(opt, &host, &found, out);
    if (!err)
        err = report_mesh(opt, &host, &scene, out, &diag);
    if (mn_findings_count(&found, MN_SEVERITY_ERROR) > 0 ||
        (opt->strict && mn_findings_count(&found, MN_SEVERITY_WARNING) > 0))
        code = 1;
    code = close_report(out, err ? NULL : opt->output, code);
    if (err)
        code = mn_cmd_fail(NAME, &diag);
    mn_findings_free(&found);
    free(scene.named.nics);
    mn_mesh_free(&scene.mesh);
    mn_host_free(&host);
    return code;
}

/* failed: hosts that did not answer; NULL = none was asked. */
static int show_mesh(const struct mn_discover_options *opt, const struct mn_mesh *mesh,
                     const char *path, const char *written, const cJSON *failed)
{
    struct mn_out *out = mn_out_new(stdout, format_of(opt));
    if (opt->wide)
        mn_out_width(out, 0);
    mn_discover_mesh(out, mesh, path, -1);
    if (failed)
        mn_discover_failed(out, failed);
    if (written)
        mn_discover_say_written(out, mesh, written);
    return close_report(out, written, 0);
}

static int run_check(const struct mn_discover_options *opt)
{
    struct mn_diag diag = {0};
    struct mn_mesh mesh;
    int code;
    mn_mesh_init(&mesh);
    if (mn_mesh_read(opt->check, &mesh, &diag))
        code = mn_cmd_fail(NAME, &diag);
    else
        code = show_mesh(opt, &mesh, opt->check, NULL, NULL);
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
static int run_merge(const struct mn_discover_options *opt, int argc, char **argv)
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
    if (!err)
        err = mn_mesh_take(&opt->take, &mesh, &diag);
    if (!err && opt->output)
        err = mn_discover_write(&mesh, opt->output, opt->force, &diag);
    if (err)
        code = mn_cmd_fail(NAME, &diag);
    else
        code = show_mesh(opt, &mesh, opt->output, opt->output, NULL);
    mn_mesh_free(&mesh);
    return code;
}

static int run_hosts(const struct mn_discover_options *opt)
{
    const struct mn_discover_hosts ask = {&opt->near.crew, &opt->skip, &opt->take,
                                          opt->output,     opt->merge, opt->force};
    struct mn_diag diag = {0};
    struct mn_mesh mesh;
    cJSON *list = cJSON_CreateArray();
    int code;
    mn_mesh_init(&mesh);
    enum mn_err err = mn_discover_hosts(&ask, &mesh, list, &diag);
    int failed = cJSON_GetArraySize(list);
    int written = opt->output && (!failed || (opt->near.partial && mesh.n_nodes));
    if (!err && written)
        err = mn_discover_write(&mesh, opt->output, opt->force || opt->merge, &diag);
    if (err)
        code = mn_cmd_fail(NAME, &diag);
    else
        code = show_mesh(opt, &mesh, opt->output, written ? opt->output : NULL, list);
    if (!err && opt->output && !written)
        fprintf(stderr,
                "meshnet discover: %s is not written: %d host%s failed; --partial writes it "
                "with the others\n",
                opt->output, failed, failed == 1 ? "" : "s");
    cJSON_Delete(list);
    mn_mesh_free(&mesh);
    return code ? code : failed != 0;
}

static int run_neighbors(const struct mn_discover_options *opt)
{
    const struct mn_neighbors_ask ask = {
        .options = &opt->near,
        .take = opt->take,
        .skip = opt->skip,
        .output = opt->output,
        .merge = opt->merge,
        .force = opt->force,
        .strict = opt->strict,
    };
    struct mn_diag diag = {0};
    struct mn_out *out = mn_out_new(stdout, format_of(opt));
    const char *written = NULL;
    int code = 0;
    if (opt->wide)
        mn_out_width(out, 0);
    enum mn_err err = mn_discover_neighbors(&ask, out, &written, &code, &diag);
    code = close_report(out, written, code);
    return err ? mn_cmd_fail(NAME, &diag) : code;
}

static int run(const void *values, int argc, char **argv)
{
    const struct mn_discover_options *opt = values;
    struct mn_diag diag = {0};
    int hosts = opt->near.crew.hosts.count > 0;
    if (mn_discover_check_usage(opt, argc, argv, &diag))
        return mn_cmd_fail(NAME, &diag);
    if (opt->neighbors)
        return run_neighbors(opt);
    if (hosts)
        return run_hosts(opt);
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
    .options_size = sizeof(struct mn_discover_options),
    .notes = "Examples:\n"
             "  meshnet discover                      what this host has\n"
             "  meshnet discover -v                   every attribute and GID\n"
             "  meshnet discover -o a.yaml --node a   this host as a mesh file\n"
             "  meshnet discover -o a.yaml --skip ens5   without the storage network\n"
             "  meshnet discover -o a.yaml --take eno1   with a cable that looks like management\n"
             "  meshnet discover -o mesh.yaml --merge a.yaml b.yaml c.yaml\n"
             "  meshnet discover --hosts a,b,c -o mesh.yaml   the same, asked of all from here\n"
             "  meshnet discover --check mesh.yaml    read it and show the mesh\n"
             "  meshnet discover --neighbors --hosts a,b,c -o mesh.yaml   by probing",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "an error among the findings, with --strict a warning, a host could "
                            "not be asked or read whole, or a file could not be written"},
              {2, MN_REFUSED "a mistake in a mesh file"}},
    .run = run,
};
