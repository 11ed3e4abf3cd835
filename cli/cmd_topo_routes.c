#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/rank_order.h"
#include "cli/topo_mesh.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"
#include "topo/pair_way.h"

#define WITH_OTHERS 256      /* nodes; of all pairs of more it would take minutes */
#define MOST_PAIRS  1000000U /* rows are held until the widths of columns are known */

struct options {
    const char *mesh;
    struct mn_opt_list nodes;
    int far, json, wide;
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
     .type = MN_OPT_LIST,
     .arg = "NAME,…",
     .help = "Only pairs with one of these nodes, seen from there.",
     .offset = offsetof(struct options, nodes)},
    {.name = "far",
     .type = MN_OPT_FLAG,
     .help = "Only pairs without a common cable.",
     .offset = offsetof(struct options, far)},
    {.name = "json",
     .letter = 'j',
     .type = MN_OPT_FLAG,
     .help = "As JSON.",
     .offset = offsetof(struct options, json)},
    {.name = "wide",
     .type = MN_OPT_FLAG,
     .help = "Leave nothing out, however narrow the terminal.",
     .offset = offsetof(struct options, wide)},
    MN_OPT_END,
};

struct view {
    const struct options *options;
    const struct mn_mesh *mesh;
    struct mn_fabric fabric;
    struct mn_routes routes;
    struct mn_out *out;
    int *nodes, *other; /* of a way, room for n + 1 */
    size_t far;         /* pairs without a common cable */
    int kinds[MN_PAIR_NONE + 1];
    int others; /* other ways are looked for */
};

/* --- cells ---------------------------------------------------------------------------------- */

/* Nodes from the first to the last of a way: "a,b,c". */
static void cell_nodes(const struct view *v, const int *nodes, int first, int last)
{
    size_t size = (size_t)(last - first + 2) * (MN_NAME_MAX + 1), used = 0;
    char *text = mn_zalloc(last >= first ? size : 1);

    for (int i = first; i <= last; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > first ? "," : "",
                                 v->mesh->nodes[nodes[i]].name);
    mn_out_cell(v->out, used ? text : NULL);
    free(text);
}

static const char *cable_name(const struct view *v, const struct mn_way_edge *edge, size_t i)
{
    return v->mesh->links[v->fabric.cables[v->routes.cables[edge->first + i]].link].name;
}

/* "a-b,b-c"; cables side by side have + between them: "ab1+ab2". Between neighbours without the
 * first skip of them. */
static void cell_cables(const struct view *v, const int *nodes, int hops, size_t skip)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = hops > 0 ? open_memstream(&text, &size) : NULL;

    for (int i = 0; file && i < hops; i++) {
        const struct mn_way_edge *edge = mn_routes_edge(&v->routes, nodes[i], nodes[i + 1]);
        for (size_t k = skip; edge && k < edge->count; k++)
            fprintf(file, "%s%s", k > skip ? "+" : i ? "," : "", cable_name(v, edge, k));
    }
    if (file)
        fclose(file);
    mn_out_cell(v->out, text);
    free(text);
}

static void cell_hops(const struct view *v, int hops)
{
    if (hops > 0)
        mn_out_cell_int(v->out, hops);
    else
        mn_out_cell(v->out, NULL);
}

static void cell_gbps(const struct view *v, double rate)
{
    if (rate > 0)
        mn_out_cell_num(v->out, rate * 8e-9, rate < 125e6 ? 3 : 1);
    else
        mn_out_cell(v->out, NULL);
}

/* --- rows ----------------------------------------------------------------------------------- */

/* A way that shares no cable with the one in nodes; where that goes along none, the way along
 * cables. */
static void put_other(struct view *v, const struct mn_pair_way *way, int from, int to)
{
    int hops = !v->others  ? -1
               : way->hops ? mn_route_beside(&v->routes, v->nodes, way->hops, v->other)
                           : mn_routes_path(&v->routes, from, to, v->other);
    const struct mn_way_edge *edge =
        way->hops == 1 && hops == 1 ? mn_routes_edge(&v->routes, v->other[0], v->other[1]) : NULL;
    double rate = hops > 0 ? mn_pair_way_rate(&v->fabric, &v->routes, v->other, hops,
                                              way->kind == MN_PAIR_RELAY)
                           : 0;

    if (edge) /* one of them is the first way */
        rate -= rate / (double)edge->count;
    cell_hops(v, hops);
    cell_nodes(v, v->other, 0, hops > 0 ? hops : -1);
    if (hops == 1)
        mn_out_cell(v->out, edge ? "beside" : "cable");
    else
        cell_nodes(v, v->other, 1, hops - 1);
    cell_cables(v, v->other, hops, edge != NULL);
    cell_gbps(v, rate);
}

static void put_way(struct view *v, const struct mn_pair_way *way, int from, int to)
{
    v->kinds[way->kind]++;
    mn_out_row(v->out);
    mn_out_cell(v->out, v->mesh->nodes[from].name);
    mn_out_cell(v->out, v->mesh->nodes[to].name);
    mn_out_cell(v->out, way->text);
    cell_hops(v, way->hops);
    cell_nodes(v, v->nodes, 0, way->hops ? way->hops : -1);
    if (way->via)
        mn_out_cell(v->out, way->via);
    else
        cell_nodes(v, v->nodes, 1, way->hops - 1);
    cell_cables(v, v->nodes, way->hops, 0);
    cell_gbps(v, way->rate);
    put_other(v, way, from, to);
}

/* Whether the way back, in other, is the same. */
static int is_reverse(const struct view *v, int hops)
{
    for (int i = 0; i <= hops; i++)
        if (v->nodes[i] != v->other[hops - i])
            return 0;
    return 1;
}

/* Of two nodes the way there and, where it goes over other nodes, the way back. */
static void put_pair(struct view *v, int from, int to)
{
    struct mn_pair_way way, back;

    mn_pair_way_find(v->mesh, &v->fabric, &v->routes, to, from, v->other, &back);
    mn_pair_way_find(v->mesh, &v->fabric, &v->routes, from, to, v->nodes, &way);
    v->far += way.kind != MN_PAIR_CABLE;
    if (v->options->far && way.kind == MN_PAIR_CABLE)
        return;
    int two = way.kind != back.kind || way.hops != back.hops || !is_reverse(v, way.hops);
    put_way(v, &way, from, to);
    if (!two)
        return;
    mn_pair_way_find(v->mesh, &v->fabric, &v->routes, to, from, v->nodes, &back);
    put_way(v, &back, to, from);
}

static void put_pairs(struct view *v, const int *nodes, int n)
{
    static const struct mn_col cols[] = {
        {"from", "FROM", 0},
        {"to", "TO", 0},
        {"way", "WAY", 0},
        {"hops", "HOPS", 1 | MN_DROP(3)},
        {"path", NULL, 0},
        {"over", "OVER", 0},
        {"cables", "CABLES", MN_DROP(2)},
        {"gbps", "Gb/s", 1},
        {"other_hops", NULL, 1},
        {"other_path", NULL, 0},
        {"other_over", "ELSE OVER", MN_DROP(5)},
        {"other_cables", "ELSE CABLES", MN_DROP(1)},
        {"other_gbps", "ELSE Gb/s", 1 | MN_DROP(4)},
    };
    char *told = mn_zalloc(v->mesh->n_nodes + 1);

    mn_out_table(v->out, "pairs", NULL, cols, sizeof cols / sizeof *cols);
    for (int i = 0; i < n; i++) {
        told[nodes[i]] = 1;
        for (int to = 0; to < (int)v->mesh->n_nodes; to++)
            if (!told[to])
                put_pair(v, nodes[i], to);
    }
    mn_out_table_end(v->out);
    free(told);
}

/* --- what has no cable ---------------------------------------------------------------------- */

static void put_notes(const struct view *v)
{
    static const struct {
        enum mn_pair_kind kind;
        const char *text;
    } notes[] = {
        {MN_PAIR_RELAY, "relay: meshnet relayd on the nodes in between, along all of their cables; "
                        "where it does not run,"},
        {MN_PAIR_RELAY, "  TCP takes it, slower. The way beside it is used, too: Gb/s is of both."},
        {MN_PAIR_NODES, "nodes: TCP, passed on by the kernels in between where meshnet topo apply "
                        "has set routes;"},
        {MN_PAIR_NODES, "  at most at that speed, and the cables are others' too: one of its own "
                        "is faster."},
        {MN_PAIR_MANAGEMENT, "management: TCP over the network for management, which all share; a "
                             "cable is faster."},
        {MN_PAIR_OUTSIDE, "outside: TCP over a network that the mesh file does not have: "
                          "NCCL_SOCKET_IFNAME's, else that of the default route."},
        {MN_PAIR_NONE, "none: jobs in which the two talk to each other fail."},
    };
    const struct mn_settings *s = &v->mesh->settings;
    const char *barred = mn_reach_barred_by(s->reach, s->transport, s->allow_tcp);
    char names[MN_BARE_NAMES];

    if (v->far)
        mn_out_note(v->out, MN_PLAIN, "%s", "");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (v->kinds[notes[i].kind])
            mn_out_note(v->out, MN_PLAIN, "%s%s%s", notes[i].text,
                        notes[i].kind == MN_PAIR_NONE && barred ? " The mesh file has " : "",
                        notes[i].kind == MN_PAIR_NONE && barred ? barred : "");
    if (!v->others)
        mn_out_note(v->out, MN_PLAIN,
                    "Other ways are left out of a mesh of more than %d nodes: --node NAME shows "
                    "them.",
                    WITH_OTHERS);
    if (mn_mesh_bare(v->mesh, -1, names))
        mn_out_note(v->out, MN_YELLOW,
                    "Without addresses yet, so that nothing goes over them: %s; meshnet topo "
                    "address gives them",
                    names);
}

static int show(const struct options *o, const struct mn_mesh *mesh, const char *path,
                const int *nodes, int n)
{
    struct view v = {.options = o,
                     .mesh = mesh,
                     .others = o->nodes.count || mesh->n_nodes <= WITH_OTHERS};

    mn_fabric_from_mesh(mesh, &v.fabric);
    mn_routes_find(&v.fabric, &v.routes);
    v.nodes = mn_zalloc((mesh->n_nodes + 1) * sizeof *v.nodes);
    v.other = mn_zalloc((mesh->n_nodes + 1) * sizeof *v.other);
    v.out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);
    if (o->wide)
        mn_out_width(v.out, 0);
    mn_out_str(v.out, "mesh_file", NULL, path);
    mn_out_bool(v.out, "others", NULL, v.others);
    put_pairs(&v, nodes, n);
    put_notes(&v);
    mn_out_int(v.out, "pairs_without_cable", NULL, (int64_t)v.far);
    free(v.nodes);
    free(v.other);
    mn_routes_free(&v.routes);
    mn_fabric_free(&v.fabric);
    return mn_out_free(v.out);
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    char path[MN_TOPO_PATH];
    struct mn_mesh mesh;
    struct mn_diag diag;
    int *nodes = NULL, n = 0;
    enum mn_err err = MN_OK;

    mn_mesh_init(&mesh);
    if (argc)
        err = mn_fail(&diag, MN_ERR_USAGE, "%s: not expected; nodes follow --node", argv[0]);
    if (!err)
        err = mn_topo_read(o->mesh, path, &mesh, &diag);
    if (!err)
        err = mn_rank_nodes(&mesh, "--node", &o->nodes, &nodes, &n, &diag);
    size_t rows = (size_t)n * mesh.n_nodes - (size_t)n * ((size_t)n + 1) / 2;
    if (!err && rows > MOST_PAIRS)
        err = mn_fail(&diag, MN_ERR_USAGE,
                      "%s: the ways of %zu pairs of nodes: at most %u are shown; name nodes with "
                      "--node",
                      path, rows, MOST_PAIRS);
    if (!err && show(o, &mesh, path, nodes, n))
        err = mn_fail(&diag, MN_ERR_SYS, "writing the routes failed");
    free(nodes);
    mn_mesh_free(&mesh);
    return err ? mn_cmd_fail("topo routes", &diag) : 0;
}

const struct mn_command mn_cmd_topo_routes = {
    .name = "topo routes",
    .summary = "show the way between every two nodes, what it can carry, and another one",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  meshnet topo routes --mesh mesh.yaml\n"
             "  meshnet topo routes --node spark-a --far",
    .exits = {{0, MN_GOOD ": shown"},
              {1, MN_FAILED "it could not be written"},
              {2, MN_REFUSED "no mesh file, a mistake in it, or a node that it does not have"}},
    .run = run,
};
