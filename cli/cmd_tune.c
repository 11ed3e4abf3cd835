#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cmd.h"
#include "cli/rank_order.h"
#include "cli/topo_mesh.h"
#include "cli/topo_show.h"
#include "cli/tune.h"
#include "topo/base/alloc.h"
#include "topo/model.h"

struct options {
    const char *mesh;
    struct mn_opt_list collectives, sizes;
    long nodes, ranks;
    int ascii, wide, json;
};

static const struct mn_opt options[] = {
    {.name = "mesh",
     .letter = 'm',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "The mesh file; default: the one in force.",
     .offset = offsetof(struct options, mesh)},
    {.name = "nodes",
     .type = MN_OPT_INT,
     .arg = "N",
     .help = "Of a job on so many nodes; default: all of the mesh.",
     .min = 1,
     .max = 65536,
     .offset = offsetof(struct options, nodes)},
    {.name = "ranks",
     .type = MN_OPT_INT,
     .arg = "N",
     .help = "With so many ranks in all; default: one a node.",
     .min = 1,
     .max = 1 << 20,
     .offset = offsetof(struct options, ranks)},
    {.name = "collective",
     .letter = 'c',
     .type = MN_OPT_LIST,
     .arg = "NAME,…",
     .help = "all-reduce, all-gather, reduce-scatter, broadcast, reduce; default: all of them.",
     .offset = offsetof(struct options, collectives)},
    {.name = "sizes",
     .letter = 's',
     .type = MN_OPT_LIST,
     .arg = "SIZE,…",
     .help = "Of the larger buffer; BEGIN:END:FACTOR for a range. Default: 1K:1G:4.",
     .offset = offsetof(struct options, sizes)},
    {.name = "ascii",
     .type = MN_OPT_FLAG,
     .help = "Draw the chart in plain ASCII, as where the locale is not UTF-8.",
     .offset = offsetof(struct options, ascii)},
    MN_WIDE_OPTION(struct options),
    {.name = "json",
     .letter = 'j',
     .type = MN_OPT_FLAG,
     .help = "Everything as JSON.",
     .offset = offsetof(struct options, json)},
    MN_OPT_END,
};

/* In the order in which they are shown. */
static const struct {
    int function;
    enum mn_model_op op;
} functions[] = {{ncclFuncAllReduce, MN_MODEL_ALL_REDUCE},
                 {ncclFuncAllGather, MN_MODEL_ALL_GATHER},
                 {ncclFuncReduceScatter, MN_MODEL_REDUCE_SCATTER},
                 {ncclFuncBroadcast, MN_MODEL_BROADCAST},
                 {ncclFuncReduce, MN_MODEL_REDUCE}};
#define N_FUNCTIONS (sizeof functions / sizeof *functions)

static enum mn_model_op op_of(int function)
{
    size_t i = 0;

    while (functions[i].function != function)
        i++;
    return functions[i].op;
}

const char *mn_tune_function(int function)
{
    return mn_model_op_name(op_of(function));
}

const char *mn_tune_algorithm(int algorithm)
{
    return algorithm == NCCL_ALGO_RING   ? "Ring"
           : algorithm == NCCL_ALGO_TREE ? "Tree"
           : algorithm == NCCL_ALGO_PAT  ? "PAT"
                                         : NULL;
}

const char *mn_tune_protocol(int protocol)
{
    static const char *const names[] = {"LL", "LL128", "Simple"};

    return protocol < 0 ? NULL : names[protocol];
}

/* --- deciding --------------------------------------------------------------------------------- */

static const int algorithms[MN_TUNING_WAYS] = {[MN_TUNING_RING] = NCCL_ALGO_RING,
                                               [MN_TUNING_TREE] = NCCL_ALGO_TREE,
                                               [MN_TUNING_PAT] = NCCL_ALGO_PAT};

/* What NCCL has of it, one GPU or more a node, no CollNet. */
static int is_offered(int function, int algorithm, int protocol)
{
    return algorithm == NCCL_ALGO_RING ||
           (algorithm == NCCL_ALGO_TREE && function == ncclFuncAllReduce) ||
           (algorithm == NCCL_ALGO_PAT && protocol == NCCL_PROTO_SIMPLE &&
            (function == ncclFuncAllGather || function == ncclFuncReduceScatter));
}

/* Asks as NCCL does, with figures of its own that are all 0: what comes back is the tuner's. */
static void decide(const struct mn_tuning *t, struct mn_tune_row *row)
{
    float table[NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS];
    int best = -1;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a * NCCL_NUM_PROTOCOLS + p] =
                is_offered(row->function, a, p) ? 0 : NCCL_ALGO_PROTO_IGNORE;
    mn_tuning_costs(t, row->function, row->bytes, 1, table, NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS,
                    &row->channels);
    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
        if (table[i] >= 0 && (best < 0 || table[i] < table[best]))
            best = i;
    row->algorithm = row->protocol = -1;
    if (!t->barred && !(t->predicts && t->rule >= MN_TUNING_UNEQUAL))
        return;
    row->algorithm = best / NCCL_NUM_PROTOCOLS;
    if (!t->predicts)
        return;
    row->protocol = best % NCCL_NUM_PROTOCOLS;
    row->time_us = (double)table[best];
    row->busbw = (double)row->bytes / (row->time_us * 1e-6) *
                 mn_model_bus_factor(op_of(row->function), t->ranks);
}

static void compare(const struct mn_tuning *t, struct mn_tune_row *row)
{
    for (enum mn_tuning_way way = 0; way < MN_TUNING_WAYS; way++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            double us = mn_tuning_time(t, row->function, row->bytes, 1, algorithms[way], p);
            if (is_offered(row->function, algorithms[way], p) && us > 0 &&
                (!row->ways_us[way] || us < row->ways_us[way]))
                row->ways_us[way] = us;
        }
}

static enum mn_err wanted(const struct mn_opt_list *names, int want[N_FUNCTIONS],
                          struct mn_diag *diag)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        want[i] = !names->count;
    for (size_t n = 0; n < names->count; n++) {
        size_t i = 0;
        while (i < N_FUNCTIONS &&
               strcmp(names->items[n], mn_tune_function(functions[i].function)) != 0)
            i++;
        if (i == N_FUNCTIONS)
            return mn_fail(diag, MN_ERR_USAGE,
                           "--collective %s: expected all-reduce, all-gather, reduce-scatter, "
                           "broadcast or reduce; NCCL asks no tuner about others",
                           names->items[n]);
        want[i] = 1;
    }
    return MN_OK;
}

static enum mn_err fill(const struct options *o, struct mn_tune *t, struct mn_diag *diag)
{
    static const char *usual[] = {"1K:1G:4"};
    struct mn_opt_list list = o->sizes.count ? o->sizes : (struct mn_opt_list){usual, 1};
    struct mn_bench_sizes sizes = {.n = 0};
    int want[N_FUNCTIONS];
    enum mn_err err = wanted(&o->collectives, want, diag);

    if (!err)
        err = mn_bench_sizes_parse(&list, &sizes, diag);
    t->n_sizes = sizes.n;
    for (size_t f = 0; f < N_FUNCTIONS && !err; f++)
        for (size_t s = 0; want[f] && s < sizes.n; s++) {
            struct mn_tune_row *row = mn_grow((void **)&t->rows, &t->n_rows, sizeof *row);
            row->function = functions[f].function;
            row->bytes = sizes.size[s];
            decide(t->tuning, row);
            compare(t->tuning, row);
        }
    free(sizes.size);
    return err;
}

/* --- showing ---------------------------------------------------------------------------------- */

static const struct {
    enum mn_tuning_way way;
    const char *name;
} barrable[] = {{MN_TUNING_TREE, "Tree"}, {MN_TUNING_PAT, "PAT"}};

static const char *node_at(const struct mn_tune *t, int place)
{
    return t->mesh->nodes[t->tuning->order[place]].name;
}

static void print_barred(const struct mn_tune *t, struct mn_out *out)
{
    static const struct mn_col cols[] = {{"algorithm", "ALGORITHM", 0},
                                         {"from", "WOULD JOIN", 0},
                                         {"to", "AND, WITHOUT A CABLE", 0}};
    const struct mn_tuning *tuning = t->tuning;

    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_table(out, "barred", "Not taken, where NCCL has the ring", cols, 3);
    for (size_t i = 0; i < sizeof barrable / sizeof *barrable; i++) {
        const int *pair = tuning->leave[barrable[i].way];
        if (!(tuning->barred & (1u << algorithms[barrable[i].way])))
            continue;
        mn_out_row(out);
        mn_out_cell(out, barrable[i].name);
        for (int end = 0; end < 2; end++)
            mn_out_cell(out, tuning->order ? node_at(t, pair[end]) : NULL);
    }
    mn_out_table_end(out);
}

static void print_head(const struct mn_tune *t, struct mn_out *out)
{
    const struct mn_tuning *tuning = t->tuning;
    const struct mn_rank_order order = {.nodes = tuning->order, .n = tuning->nodes};
    char *names = tuning->order ? mn_rank_order_names(t->mesh, &order) : NULL;

    mn_out_str(out, "mesh_file", "mesh file", t->path);
    mn_out_str(out, "shape", "shape", mn_mesh_shape(t->mesh));
    mn_out_int(out, "nodes", "nodes", tuning->nodes);
    mn_out_int(out, "ranks", "ranks", tuning->ranks);
    mn_out_str(out, "order", "in order", names);
    mn_out_str(out, "rule", "rule", mn_tuning_rule_text(tuning->rule));
    mn_out_bool(out, "predicted", NULL, tuning->predicts);
    free(names);
    if (tuning->barred)
        print_barred(t, out);
}

static void cell_us(struct mn_out *out, double us)
{
    if (us > 0)
        mn_out_cell_num(out, us, 1);
    else
        mn_out_cell(out, NULL);
}

static void print_rows(const struct mn_tune *t, struct mn_out *out)
{
    static const struct mn_col cols[] = {{"collective", "COLLECTIVE", 0},
                                         {"bytes", NULL, 0},
                                         {"size", "SIZE", 1},
                                         {"algorithm", "ALGORITHM", 0},
                                         {"protocol", "PROTOCOL", 0},
                                         {"channels", "CHANNELS", 1},
                                         {"time_us", "TIME us", 1},
                                         {"busbw_gb_per_s", "BUSBW GB/s", 1},
                                         {"ring_us", "RING us", 1 | MN_DROP(3)},
                                         {"tree_us", "TREE us", 1 | MN_DROP(2)},
                                         {"pat_us", "PAT us", 1 | MN_DROP(1)}};

    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_table(out, "decisions", "Decisions", cols, (int)(sizeof cols / sizeof *cols));
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct mn_tune_row *row = &t->rows[i];
        char size[24];
        mn_out_row(out);
        mn_out_cell(out, mn_tune_function(row->function));
        mn_out_cell_int(out, (int64_t)row->bytes);
        mn_out_cell(out, mn_format_size(row->bytes, size, sizeof size));
        mn_out_cell(out, mn_tune_algorithm(row->algorithm));
        mn_out_cell(out, mn_tune_protocol(row->protocol));
        if (row->channels)
            mn_out_cell_int(out, row->channels);
        else
            mn_out_cell(out, NULL);
        cell_us(out, row->time_us);
        if (row->busbw > 0)
            mn_out_cell_num(out, row->busbw / 1e9, 3);
        else
            mn_out_cell(out, NULL);
        for (enum mn_tuning_way way = 0; way < MN_TUNING_WAYS; way++)
            cell_us(out, row->ways_us[way]);
    }
    mn_out_table_end(out);
}

static int print(const struct options *o, const struct mn_tune *t)
{
    struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);

    if (o->wide)
        mn_out_width(out, 0);
    print_head(t, out);
    print_rows(t, out);
    if (!t->tuning->predicts && t->tuning->rule > MN_TUNING_COMPLETE)
        mn_out_note(
            out, MN_YELLOW,
            "No times: the mesh file has not the speeds of all cables (speed: of a NIC), or "
            "the tuner does not know which nodes they join.");
    if (t->n_rows)
        mn_tune_chart(t, !o->ascii && mn_topo_show_utf8(), out);
    return mn_out_free(out);
}

static enum mn_err tune(const struct options *o, struct mn_tune *t, struct mn_diag *diag)
{
    struct mn_tuning *tuning = NULL;
    struct mn_tuning_asked asked = {.nodes = o->nodes ? (size_t)o->nodes : t->mesh->n_nodes,
                                    .everything = 1};

    asked.ranks = o->ranks ? (size_t)o->ranks : asked.nodes;
    if (asked.ranks < asked.nodes)
        return mn_fail(diag, MN_ERR_USAGE, "--ranks %zu: a job on %zu nodes has a rank on each",
                       asked.ranks, asked.nodes);
    enum mn_err err = mn_tuning_make(t->mesh, &asked, &tuning, diag);
    t->tuning = tuning;
    if (!err)
        err = fill(o, t, diag);
    int lost = !err && print(o, t);
    mn_tuning_free(tuning);
    free(t->rows);
    return lost ? mn_fail(diag, MN_ERR_FAILED, "writing failed") : err;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    char path[MN_TOPO_PATH];
    struct mn_mesh mesh;
    struct mn_diag diag = {.text = ""};
    struct mn_tune t = {.mesh = &mesh, .path = path};
    enum mn_err err = MN_OK;

    mn_mesh_init(&mesh);
    if (argc)
        err =
            mn_fail(&diag, MN_ERR_USAGE, "%s: not expected; the mesh file follows --mesh", argv[0]);
    if (!err)
        err = mn_topo_read(o->mesh, path, &mesh, &diag);
    if (!err)
        err = mn_settings_from_env(&mesh.settings, &diag);
    if (!err)
        err = tune(o, &t, &diag);
    mn_mesh_free(&mesh);
    return err ? mn_cmd_fail("tune", &diag) : 0;
}

const struct mn_command mn_cmd_tune = {
    .name = "tune",
    .summary = "what the tuner tells NCCL: algorithm, protocol and channels by size",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Needs no GPU: the figures are predicted from the mesh file. Example:\n"
             "  meshnet tune --mesh mesh.yaml --collective all-reduce --sizes 1K:64M:2\n",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "the output could not be written"},
              {2, MN_REFUSED "no mesh file, or a mistake in it"}},
    .run = run,
};
