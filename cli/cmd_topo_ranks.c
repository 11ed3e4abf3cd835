#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/host_name.h"
#include "cli/rank_order.h"
#include "cli/topo_mesh.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"
#include "topo/mesh_sort.h"

struct options {
    const char *mesh, *output, *node;
    struct mn_opt_list hosts;
    int format, json;
    long slots;
};

struct ranks {
    const struct options *options;
    const char *path; /* of the mesh file */
    const struct mn_mesh *mesh;
    const struct mn_rank_order *order;
};

static const struct mn_opt options[] = {
    {.name = "mesh",
     .letter = 'm',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "The mesh file; default: the one in force.",
     .offset = offsetof(struct options, mesh)},
    {.name = "format",
     .type = MN_OPT_CHOICE,
     .arg = "FORMAT",
     .def = "hosts",
     .choices = "hosts|hostfile|rankfile|slurm|torchrun|json",
     .help = "What the launcher takes; see below.",
     .offset = offsetof(struct options, format)},
    {.name = "json",
     .letter = 'j',
     .type = MN_OPT_FLAG,
     .help = "Short for --format json.",
     .offset = offsetof(struct options, json)},
    {.name = "hosts",
     .type = MN_OPT_LIST,
     .arg = "NODE,…",
     .help = "These nodes alone; the first of them has rank 0.",
     .offset = offsetof(struct options, hosts)},
    {.name = "slots",
     .type = MN_OPT_INT,
     .arg = "N",
     .help = "Ranks on a node; default: as many as it has GPUs in the mesh file, or 1.",
     .min = 1,
     .max = 1024,
     .offset = offsetof(struct options, slots)},
    {.name = "node",
     .letter = 'n',
     .type = MN_OPT_STRING,
     .arg = "NAME",
     .help = "With --format torchrun: the options of this node alone, without its name.",
     .offset = offsetof(struct options, node)},
    {.name = "output",
     .letter = 'o',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "Write it there instead of to standard output.",
     .offset = offsetof(struct options, output)},
    MN_OPT_END,
};

static const struct mn_mesh_node *node_at(const struct ranks *r, int place)
{
    return &r->mesh->nodes[r->order->nodes[place]];
}

static int slots_at(const struct ranks *r, int place)
{
    size_t gpus = node_at(r, place)->n_gpus;

    return r->options->slots ? (int)r->options->slots : gpus ? (int)gpus : 1;
}

/* --- formats -------------------------------------------------------------------------------- */

static void put_hosts(const struct ranks *r, FILE *file)
{
    for (int i = 0; i < r->order->n; i++)
        fprintf(file, "%s%s", i ? "," : "", node_at(r, i)->hostname);
    fputc('\n', file);
}

static void put_hostfile(const struct ranks *r, FILE *file)
{
    for (int i = 0; i < r->order->n; i++)
        fprintf(file, "%s slots=%d\n", node_at(r, i)->hostname, slots_at(r, i));
}

/* "*:*" is every core of every socket: the file says where ranks are, not on which core. */
static void put_rankfile(const struct ranks *r, FILE *file)
{
    int rank = 0;

    for (int i = 0; i < r->order->n; i++)
        for (int s = 0; s < slots_at(r, i); s++)
            fprintf(file, "rank %d=%s slot=*:*\n", rank++, node_at(r, i)->hostname);
}

/* A line for each task. */
static void put_slurm(const struct ranks *r, FILE *file)
{
    for (int i = 0; i < r->order->n; i++)
        for (int s = 0; s < slots_at(r, i); s++)
            fprintf(file, "%s\n", node_at(r, i)->hostname);
}

static void put_torchrun(const struct ranks *r, FILE *file)
{
    int only = r->options->node ? mn_names_node(r->mesh, r->options->node) : -1;

    for (int i = 0; i < r->order->n; i++) {
        if (only >= 0 && r->order->nodes[i] != only)
            continue;
        if (only < 0)
            fprintf(file, "%s ", node_at(r, i)->hostname);
        fprintf(file, "--nnodes=%d --nproc-per-node=%d --node-rank=%d --master-addr=%s\n",
                r->order->n, slots_at(r, i), i, node_at(r, 0)->hostname);
    }
}

static void put_json(const struct ranks *r, FILE *file)
{
    static const struct mn_col ranks[] = {{"rank", "", 1},
                                          {"node", "", 0},
                                          {"hostname", "", 0},
                                          {"node_rank", "", 1},
                                          {"local_rank", "", 1}},
                               steps[] = {{"from", "", 0}, {"to", "", 0}, {"cable", "", 0}};
    const struct mn_rank_order *order = r->order;
    struct mn_out *out = mn_out_new(file, MN_OUT_JSON);
    double busbw = mn_rank_order_busbw(r->mesh, order);
    int rank = 0;

    mn_out_str(out, "mesh_file", NULL, r->path);
    mn_out_int(out, "nodes", NULL, order->n);
    mn_out_int(out, "steps_without_cable", NULL, order->missing);
    mn_out_int(out, "at_least", NULL, order->least);
    if (busbw > 0)
        mn_out_num(out, "busbw_gb_per_s", NULL, busbw * 1e-9, 3);
    else
        mn_out_str(out, "busbw_gb_per_s", NULL, NULL);
    mn_out_table(out, "ranks", NULL, ranks, sizeof ranks / sizeof *ranks);
    for (int i = 0; i < order->n; i++)
        for (int s = 0; s < slots_at(r, i); s++) {
            mn_out_row(out);
            mn_out_cell_int(out, rank++);
            mn_out_cell(out, node_at(r, i)->name);
            mn_out_cell(out, node_at(r, i)->hostname);
            mn_out_cell_int(out, i);
            mn_out_cell_int(out, s);
        }
    mn_out_table_end(out);
    mn_out_table(out, "steps", NULL, steps, sizeof steps / sizeof *steps);
    for (int i = 0; i < order->n && order->n > 1; i++) {
        int next = (i + 1) % order->n;
        mn_out_row(out);
        mn_out_cell(out, node_at(r, i)->name);
        mn_out_cell(out, node_at(r, next)->name);
        mn_out_cell_bool(out, mn_mesh_has_cable(r->mesh, order->nodes[i], order->nodes[next]));
    }
    mn_out_table_end(out);
    mn_out_free(out);
}

/* In the order of the option's choices. */
static void (*const formats[])(const struct ranks *r, FILE *file) = {put_hosts,    put_hostfile,
                                                                     put_rankfile, put_slurm,
                                                                     put_torchrun, put_json};
enum { TORCHRUN = 4, JSON = 5 };

/* --- the command ---------------------------------------------------------------------------- */

static void say_gaps(const struct ranks *r)
{
    const struct mn_rank_order *order = r->order;

    if (!order->missing)
        return;
    double busbw = mn_rank_order_busbw(r->mesh, order);
    char *gaps = mn_rank_order_gaps(r->mesh, order);
    fprintf(stderr, "meshnet topo ranks: the ring of %d goes over %s; ", order->n, gaps);
    if (order->missing == order->least)
        fprintf(stderr, "no order has fewer");
    else
        fprintf(stderr, "no better order was found, though all that is known is that each has %d",
                order->least);
    fprintf(stderr, ". TCP goes there through nodes in between or beside the cables");
    if (busbw > 0)
        fprintf(stderr,
                "; by the cables' speed a large all-reduce has at most %.3g GB/s of bus "
                "bandwidth",
                busbw * 1e-9);
    fputc('\n', stderr);
    free(gaps);
}

static enum mn_err write_ranks(const struct ranks *r, struct mn_diag *diag)
{
    const struct options *o = r->options;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    if (!file)
        return mn_fail_errno(diag, "memory for the ranks");
    formats[o->json ? JSON : o->format](r, file);
    enum mn_err err = (ferror(file) | fclose(file))
                          ? mn_fail(diag, MN_ERR_NOMEM, "out of memory for the ranks")
                          : mn_topo_deliver(o->output, text, len, "the ranks", diag);
    free(text);
    return err;
}

static enum mn_err check_node(const struct ranks *r, struct mn_diag *diag)
{
    const char *name = r->options->node;
    int node = name ? mn_names_node(r->mesh, name) : -1;

    if (!name)
        return MN_OK;
    for (int i = 0; i < r->order->n && node >= 0; i++)
        if (r->order->nodes[i] == node)
            return MN_OK;
    return mn_fail(diag, MN_ERR_CONFIG, "--node %s: expected a node of %s%s", name, r->path,
                   node >= 0 ? " that --hosts names" : "");
}

/* Launchers and shells read the names: nothing else is to be in them. */
static enum mn_err check_names(const struct ranks *r, struct mn_diag *diag)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";

    for (int i = 0; i < r->order->n; i++) {
        const char *name = node_at(r, i)->hostname;
        if (!*name || *name == '-' || name[strspn(name, good)])
            return mn_fail(diag, MN_ERR_CONFIG,
                           "%s: node %s: its hostname is no name that a launcher can take: "
                           "expected letters, digits and . _ : - alone",
                           r->path, node_at(r, i)->name);
    }
    return MN_OK;
}

static enum mn_err order_ranks(const struct options *o, struct mn_mesh *mesh, struct mn_diag *diag)
{
    char path[MN_TOPO_PATH];
    struct mn_rank_order order = {.nodes = NULL};
    struct ranks r = {.options = o, .path = path, .mesh = mesh, .order = &order};
    int *nodes = NULL, n = 0;
    enum mn_err err = mn_topo_read(o->mesh, path, mesh, diag);

    if (!err)
        err = mn_mesh_sort(mesh, diag); /* as the tuner does */
    if (!err)
        err = mn_rank_nodes(mesh, "--hosts", &o->hosts, &nodes, &n, diag);
    if (!err && !n)
        err = mn_fail(diag, MN_ERR_CONFIG, "%s: it has no nodes to put in an order", path);
    if (!err) {
        mn_rank_order_best(mesh, nodes, n, &order);
        err = check_node(&r, diag);
        if (!err)
            err = check_names(&r, diag);
    }
    if (!err)
        err = write_ranks(&r, diag);
    if (!err)
        say_gaps(&r);
    mn_rank_order_free(&order);
    free(nodes);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_mesh mesh;
    struct mn_diag diag;
    enum mn_err err;

    mn_mesh_init(&mesh);
    if (argc)
        err = mn_fail(&diag, MN_ERR_USAGE, "%s: not expected; nodes follow --hosts", argv[0]);
    else if (o->node && (o->json || o->format != TORCHRUN))
        err = mn_fail(&diag, MN_ERR_USAGE, "--node goes with --format torchrun");
    else
        err = order_ranks(o, &mesh, &diag);
    mn_mesh_free(&mesh);
    return err ? mn_cmd_fail("topo ranks", &diag) : 0;
}

const struct mn_command mn_cmd_topo_ranks = {
    .name = "topo ranks",
    .summary = "put the nodes in an order in which each has a cable to the next",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Formats:\n"
             "  hosts      a,b,c: for --hosts, -H or -w\n"
             "  hostfile   Open MPI's, with slots\n"
             "  rankfile   for mpirun --rankfile\n"
             "  slurm      a host for each task: SLURM_HOSTFILE, with --distribution=arbitrary\n"
             "  torchrun   the options of each node\n"
             "  json       ranks and steps, for programs\n"
             "Examples:\n"
             "  mpirun -H \"$(meshnet topo ranks)\" …\n"
             "  torchrun $(meshnet topo ranks --format torchrun --node spark-b) train.py",
    .exits = {{0, MN_GOOD ": written, whether every step has a cable or not"},
              {1, MN_FAILED "it could not be written"},
              {2, MN_REFUSED "no mesh file, a mistake in it, a node that it does not have, or an "
                             "--output that is a folder or a device"}},
    .run = run,
};
