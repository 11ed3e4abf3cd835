#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/discover.h"
#include "cli/topo_plan.h"
#include "topo/base/alloc.h"
#include "topo/base/width.h"
#include "topo/mesh_check.h"

#define NAME "topo plan"
#define GOAL "both|all-reduce|all-to-all|few-cables" /* as enum mn_wiring_goal */
#define MTU  9000                                    /* what topo address gives such NICs */

struct options {
    const char *shape, *machine, *speed, *output;
    struct mn_opt_list names, netdevs;
    unsigned long long size;
    long nodes, ports;
    int goal, force, list, json, wide;
};
#define AT(field) .offset = offsetof(struct options, field)

static const struct mn_opt rows[] = {
    {"nodes", 'n', MN_OPT_INT, "N", .help = "How many; default: as many as --names has.", AT(nodes),
     .min = 2, .max = MN_WIRING_NODES_MAX},
    {"ports", 'p', MN_OPT_INT, "N",
     .help = "Ports of each node for cables; default: those that --model has.", AT(ports), .min = 1,
     .max = MN_WIRING_PORTS_MAX},
    {"model", 'M', MN_OPT_STRING, "MODEL",
     .help = "What the nodes are: dgx-spark. Its ports are called as on the case.", AT(machine)},
    {"speed", 's', MN_OPT_STRING, "SPEED",
     .help = "Of a port, such as 200G; default: the model's, else 100G.", AT(speed)},
    {"shape", 0, MN_OPT_STRING, "SHAPE",
     .help = "Only this one: full-mesh, hypercube, torus-3d, torus-2d, chordal-ring, ring, star, "
             "line.",
     AT(shape)},
    {"for", 0, MN_OPT_CHOICE, "GOAL", .def = "both", .choices = GOAL,
     .help = "What is to be fast, or few; both: all-reduce and all-to-all.", AT(goal)},
    {"size", 0, MN_OPT_SIZE, "BYTES", .def = "1G", .help = "Of the collectives that are predicted.",
     AT(size), .min = 1, .max = 1ull << 40},
    {"names", 0, MN_OPT_LIST, "NAME,…",
     .help = "Of the nodes, in the order of the ranks; default: node-1 and so on.", AT(names)},
    {"netdevs", 0, MN_OPT_LIST, "NIC,…",
     .help = "What is behind each port, the same on every node; default: port0 and so on.",
     AT(netdevs)},
    {"list", 0, MN_OPT_FLAG, .help = "Only the cables, to print and tick off.", AT(list)},
    {"output", 'o', MN_OPT_STRING, "FILE",
     .help = "Write a mesh file with these cables there, for topo address.", AT(output)},
    {"force", 'f', MN_OPT_FLAG, .help = "Replace the file of --output.", AT(force)},
    MN_WIDE_OPTION(struct options),
    {"json", 'j', MN_OPT_FLAG, .help = "Write JSON.", AT(json)},
    MN_OPT_END,
};

struct job {
    const struct options *options;
    const struct mn_wiring_shape *shape; /* NULL: all */
    struct mn_wiring_hosts hosts;
    struct mn_wiring_speed speed;
    int n, ports;
};

/* As host names are made of, and the NICs that the kernel and udev name. */
#define HOST_NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

/* --- options -------------------------------------------------------------------------------- */

/* "200G", "200", "2.5G", "800000M": Mbit/s. */
static enum mn_err parse_speed(const char *text, long *mbps, struct mn_diag *diag)
{
    static const struct {
        const char *unit;
        double mbps;
    } units[] = {{"", 1e3}, {"G", 1e3}, {"M", 1}, {"T", 1e6}};
    char *end;
    double value = strtod(text, &end);

    for (size_t i = 0; i < sizeof units / sizeof *units && end > text; i++)
        if (!strcmp(end, units[i].unit) && value * units[i].mbps >= 1 &&
            value * units[i].mbps <= 1e7) {
            *mbps = lround(value * units[i].mbps);
            return MN_OK;
        }
    return mn_fail(diag, MN_ERR_USAGE, "--speed '%s': expected bits a second, such as 200G or 2.5G",
                   text);
}

static enum mn_err check_names(const struct mn_opt_list *names, struct mn_diag *diag)
{
    struct mn_index index = {.slots = NULL};
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < names->count && !err; i++) {
        const char *name = names->items[i];
        uint64_t hash = mn_hash_text(name);
        int found;
        if (strlen(name) >= MN_NAME_MAX || strspn(name, HOST_NAME) < strlen(name) ||
            strchr(".-_", *name))
            err = mn_fail(diag, MN_ERR_USAGE,
                          "--names: '%.80s': expected a host's name: 1 to %d letters, digits, '.', "
                          "'-' and '_', a letter or digit first",
                          name, MN_NAME_MAX - 1);
        for (size_t at = 0; !err && (found = mn_index_next(&index, hash, &at)) >= 0;)
            if (!strcmp(names->items[found], name))
                err = mn_fail(diag, MN_ERR_USAGE, "--names: '%s' stands there twice", name);
        if (!err)
            err = mn_index_put(&index, hash, (int)i, diag);
    }
    mn_index_free(&index);
    return err;
}

static enum mn_err check_netdevs(const struct job *job, struct mn_diag *diag)
{
    const struct mn_opt_list *list = &job->options->netdevs;

    if (list->count && job->hosts.machine)
        return mn_fail(diag, MN_ERR_USAGE, "--netdevs: those of --model %s are known",
                       job->hosts.machine->name);
    if (list->count && list->count < (size_t)job->ports)
        return mn_fail(diag, MN_ERR_USAGE, "--netdevs: %zu for %d ports: expected one for each",
                       list->count, job->ports);
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i];
        if (strlen(name) >= IF_NAMESIZE || strspn(name, HOST_NAME) < strlen(name) ||
            !strcmp(name, ".") || !strcmp(name, ".."))
            return mn_fail(diag, MN_ERR_USAGE,
                           "--netdevs: '%.40s': expected a NIC's name of 1 to %d letters, digits, "
                           "'.', '-' and '_'",
                           name, IF_NAMESIZE - 1);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(name, list->items[k]))
                return mn_fail(diag, MN_ERR_USAGE, "--netdevs: '%s' stands there twice", name);
    }
    return MN_OK;
}

static enum mn_err find_machine(struct job *job, struct mn_diag *diag)
{
    const struct options *o = job->options;
    const struct mn_wiring_machine *machine = o->machine ? mn_wiring_machine(o->machine) : NULL;

    job->hosts.machine = machine;
    job->hosts.speed_mbps = machine ? machine->speed_mbps : 100000;
    job->ports = (int)(o->ports ? o->ports : machine ? machine->ports : 0);
    if (o->machine && !machine)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--model '%s' is not known: expected dgx-spark; for others name --ports, "
                       "--speed and --netdevs",
                       o->machine);
    if (!job->ports)
        return mn_fail(diag, MN_ERR_USAGE,
                       "how many ports for cables does a node have? name --ports, or --model");
    if (machine && job->ports > machine->ports)
        return mn_fail(diag, MN_ERR_USAGE, "--ports %d: %s has %d", job->ports, machine->name,
                       machine->ports);
    return MN_OK;
}

static enum mn_err find_nodes(struct job *job, struct mn_diag *diag)
{
    const struct options *o = job->options;

    job->n = (int)(o->nodes ? o->nodes : (long)o->names.count);
    if (job->n < 2)
        return mn_fail(diag, MN_ERR_USAGE,
                       "how many nodes are there? name --nodes, or --names with two or more");
    if (o->names.count && o->names.count != (size_t)job->n)
        return mn_fail(diag, MN_ERR_USAGE, "--names has %zu, --nodes says %d", o->names.count,
                       job->n);
    if (o->output && job->n > MN_MESH_NODES_MAX)
        return mn_fail(diag, MN_ERR_USAGE, "--output: %d nodes; a mesh file has at most %d", job->n,
                       MN_MESH_NODES_MAX);
    job->hosts.names = o->names.count ? o->names.items : NULL;
    return check_names(&o->names, diag);
}

static enum mn_err unknown_shape(const char *given, struct mn_diag *diag)
{
    char names[256] = "";

    for (const struct mn_wiring_shape *s = mn_wiring_shapes; s->name; s++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                 s->name);
    return mn_fail(diag, MN_ERR_USAGE, "--shape '%s' is not known: expected one of %s", given,
                   names);
}

static enum mn_err check_usage(struct job *job, int argc, char **argv, struct mn_diag *diag)
{
    const struct options *o = job->options;
    enum mn_err err = MN_OK;

    if (argc)
        return mn_fail(diag, MN_ERR_USAGE,
                       "\"%s\" is not expected here; see meshnet " NAME " --help", argv[0]);
    if (o->force && !o->output)
        return mn_fail(diag, MN_ERR_USAGE, "--force is for --output");
    job->shape = o->shape ? mn_wiring_shape(o->shape) : NULL;
    if (o->shape && !job->shape)
        return unknown_shape(o->shape, diag);
    err = find_machine(job, diag);
    err = err ? err : find_nodes(job, diag);
    err = err ? err : check_netdevs(job, diag);
    if (!err && o->speed)
        err = parse_speed(o->speed, &job->hosts.speed_mbps, diag);
    job->hosts.netdevs = o->netdevs.count ? o->netdevs.items : NULL;
    job->speed = (struct mn_wiring_speed){
        .rate = (double)job->hosts.speed_mbps * 1e6 / 8 * mn_fabric_payload(MTU, 1),
        .latency = MN_FABRIC_RDMA_LATENCY,
        .bytes = (double)o->size,
    };
    return err;
}

static enum mn_err cannot_be(const struct job *job, struct mn_diag *diag)
{
    int sizes[3], needs = job->shape ? job->shape->needs(job->n, 1 << 20, sizes) : 2;

    if (!job->shape)
        return mn_fail(diag, MN_ERR_USAGE,
                       "%d nodes with %d port each cannot be joined: expected at least %d ports",
                       job->n, job->ports, needs);
    if (needs > job->ports)
        return mn_fail(diag, MN_ERR_USAGE,
                       "%d nodes with %d port%s each are no %s: that takes %d ports", job->n,
                       job->ports, job->ports == 1 ? "" : "s", job->shape->name, needs);
    return mn_fail(diag, MN_ERR_USAGE,
                   "%d nodes are no %s; without --shape all that can be is shown", job->n,
                   job->shape->name);
}

/* --- the result ----------------------------------------------------------------------------- */

static void print(struct mn_out *out, const struct job *job, const struct mn_wiring_view *view)
{
    const struct options *o = job->options;
    double gbps = (double)job->hosts.speed_mbps / 1e3;
    char title[80];

    mn_wiring_title(view->plans, title, sizeof title);
    mn_out_int(out, "nodes", NULL, job->n);
    mn_out_int(out, "ports", NULL, job->ports);
    mn_out_num(out, "speed_gbit_per_s", NULL, gbps, 1);
    mn_out_str(out, "best", NULL, title);
    mn_out_num(out, "bytes", NULL, view->speed->bytes, 0);
    mn_out_note(out, MN_BOLD, "%d nodes with %d port%s of %g Gb/s each: %s%s", job->n, job->ports,
                job->ports == 1 ? "" : "s", gbps, title,
                job->shape || view->n_plans == 1 ? "" : ", for what is asked the best");
    mn_out_note(out, MN_PLAIN, "%s", "");
    if (!o->list) {
        mn_topo_plan_compare(out, view);
        mn_topo_plan_draw(out, view, o->wide ? 0 : mn_term_columns(stdout));
        mn_out_note(out, MN_PLAIN, "%s", "");
    }
    mn_topo_plan_list(out, view);
    if (o->output)
        mn_discover_say_written(out, view->mesh, o->output);
    else
        mn_out_str(out, "written", NULL, NULL);
}

static enum mn_err plan(const struct job *job, struct mn_out *out, struct mn_diag *diag)
{
    const struct options *o = job->options;
    struct mn_wiring *plans;
    struct mn_mesh mesh;
    size_t count = mn_wiring_all(job->n, job->ports, job->shape, &job->speed,
                                 (enum mn_wiring_goal)o->goal, &plans);
    enum mn_err err = count ? MN_OK : cannot_be(job, diag);

    mn_mesh_init(&mesh);
    if (!err && (o->output || job->n <= MN_MESH_NODES_MAX))
        err = mn_wiring_mesh(&plans[0], &job->hosts, &mesh, diag);
    if (!err && o->output)
        err = mn_discover_write(&mesh, o->output, o->force, diag);
    if (!err)
        print(out, job,
              &(struct mn_wiring_view){.plans = plans,
                                       .n_plans = count,
                                       .hosts = &job->hosts,
                                       .speed = &job->speed,
                                       .mesh = mesh.n_nodes ? &mesh : NULL,
                                       .json = o->json});
    mn_mesh_free(&mesh);
    for (size_t i = 0; i < count; i++)
        mn_wiring_free(&plans[i]);
    free(plans);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    struct job job = {.options = values};
    struct mn_diag diag;
    enum mn_err err = check_usage(&job, argc, argv, &diag);

    if (err)
        return mn_cmd_fail(NAME, &diag);
    struct mn_out *out = mn_out_new(stdout, job.options->json ? MN_OUT_JSON : MN_OUT_TEXT);
    if (job.options->wide)
        mn_out_width(out, 0);
    err = plan(&job, out, &diag);
    if (mn_out_free(out) && !err)
        err = mn_cmd_lost(job.options->output, &diag);
    return err ? mn_cmd_fail(NAME, &diag) : 0;
}

const struct mn_command mn_cmd_topo_plan = {
    .name = NAME,
    .summary = "choose which ports to join, before there are cables",
    .usage = "[OPTION]…",
    .options = rows,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  meshnet topo plan --nodes 4 --model dgx-spark\n"
             "  meshnet topo plan --nodes 8 --ports 4 --speed 200G --for all-to-all\n"
             "  meshnet topo plan --names a,b,c,d --model dgx-spark --list | lp\n"
             "  meshnet topo plan --names a,b,c,d --model dgx-spark -o bare.yaml",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "the file is there already, or cannot be written"},
              {2, MN_REFUSED "so many nodes and ports cannot be that"}},
    .run = run,
};
