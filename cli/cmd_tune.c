#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cmd.h"
#include "cli/collective_predict.h"
#include "cli/rank_order.h"
#include "cli/topo_mesh.h"
#include "cli/topo_show.h"
#include "cli/tune.h"
#include "topo/base/alloc.h"
#include "topo/mesh_sort.h"

struct options {
    const char *mesh, *predict_from;
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
    {.name = "predict-from",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "Rates and latencies of cables as bench --links --json measured them.",
     .offset = offsetof(struct options, predict_from)},
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

static enum mn_err wanted(const struct mn_opt_list *names, int want[NCCL_TUNER_NUM_FUNCTIONS],
                          struct mn_diag *diag)
{
    for (size_t i = 0; i < NCCL_TUNER_NUM_FUNCTIONS; i++)
        want[i] = !names->count;
    for (size_t n = 0; n < names->count; n++) {
        size_t i = 0;
        while (i < NCCL_TUNER_NUM_FUNCTIONS &&
               strcmp(names->items[n], mn_advice_function(mn_advice_function_at(i))) != 0)
            i++;
        if (i == NCCL_TUNER_NUM_FUNCTIONS)
            return mn_fail(diag, MN_ERR_USAGE,
                           "--collective %s: expected all-reduce, all-gather, reduce-scatter, "
                           "broadcast or reduce; NCCL asks no tuner about others",
                           names->items[n]);
        want[i] = 1;
    }
    return MN_OK;
}

static enum mn_err fill(const struct options *o, struct mn_advice *t, struct mn_diag *diag)
{
    static const char *usual[] = {"1K:1G:4"};
    struct mn_opt_list list = o->sizes.count ? o->sizes : (struct mn_opt_list){usual, 1};
    struct mn_bench_sizes sizes = {.n = 0};
    int want[NCCL_TUNER_NUM_FUNCTIONS];
    enum mn_err err = wanted(&o->collectives, want, diag);

    if (!err)
        err = mn_bench_sizes_parse(&list, &sizes, diag);
    /* Where nothing is predicted all sizes are alike. */
    t->n_sizes = t->tuning->predicts || !sizes.n ? sizes.n : 1;
    for (size_t f = 0; f < NCCL_TUNER_NUM_FUNCTIONS && !err; f++)
        for (size_t s = 0; want[f] && s < t->n_sizes; s++) {
            struct mn_advice_row *row = mn_grow((void **)&t->rows, &t->n_rows, sizeof *row);
            row->function = mn_advice_function_at(f);
            row->bytes = t->tuning->predicts ? sizes.size[s] : 0;
            mn_advice_ask(t->tuning, row);
        }
    free(sizes.size);
    return err;
}

/* --- showing ---------------------------------------------------------------------------------- */

static const struct {
    enum mn_tuning_way way;
    const char *name;
} barrable[] = {{MN_TUNING_TREE, "Tree"}, {MN_TUNING_PAT, "PAT"}};

static const char *node_at(const struct mn_advice *t, int place)
{
    return t->mesh->nodes[t->tuning->order[place]].name;
}

static void print_barred(const struct mn_advice *t, struct mn_out *out)
{
    static const struct mn_col cols[] = {{"algorithm", "ALGORITHM", 0},
                                         {"from", "WOULD JOIN", 0},
                                         {"to", "AND, WITHOUT A CABLE", 0}};
    const struct mn_tuning *tuning = t->tuning;

    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_table(out, "barred", "Not taken, where NCCL has the ring", cols, 3);
    for (size_t i = 0; i < sizeof barrable / sizeof *barrable; i++) {
        const int *pair = tuning->leave[barrable[i].way];
        if (!(tuning->barred & (1u << mn_advice_algorithms[barrable[i].way])))
            continue;
        mn_out_row(out);
        mn_out_cell(out, barrable[i].name);
        for (int end = 0; end < 2; end++)
            mn_out_cell(out, tuning->order ? node_at(t, pair[end]) : NULL);
    }
    mn_out_table_end(out);
}

static void print_head(const struct mn_advice *t, struct mn_out *out)
{
    const struct mn_tuning *tuning = t->tuning;
    const struct mn_rank_order order = {.nodes = tuning->order, .n = tuning->nodes};
    char *names = tuning->order ? mn_rank_order_names(t->mesh, &order) : NULL;

    mn_out_str(out, "mesh_file", "mesh file", t->path);
    mn_out_str(out, "measured", t->measured ? "as measured" : NULL, t->measured);
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

static void print_rows(const struct mn_advice *t, struct mn_out *out)
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
        const struct mn_advice_row *row = &t->rows[i];
        char size[24];
        mn_out_row(out);
        mn_out_cell(out, mn_advice_function(row->function));
        if (row->bytes)
            mn_out_cell_int(out, (int64_t)row->bytes);
        else
            mn_out_cell(out, NULL);
        mn_out_cell(out, row->bytes ? mn_format_size(row->bytes, size, sizeof size) : "all");
        mn_out_cell(out, mn_advice_algorithm(row->algorithm));
        mn_out_cell(out, mn_advice_protocol(row->protocol));
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

static int print(const struct options *o, const struct mn_advice *t)
{
    struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);

    if (o->wide)
        mn_out_width(out, 0);
    print_head(t, out);
    print_rows(t, out);
    if (!t->tuning->predicts && t->tuning->rule > MN_TUNING_COMPLETE)
        mn_out_note(
            out, MN_YELLOW, "%s",
            t->tuning->order
                ? "No times: the mesh file lacks the speed of a cable (speed: of its NICs), "
                  "or has more nodes than are predicted."
                : "No times: it is not known which nodes these are.");
    if (t->measured)
        mn_out_note(out, MN_DIM,
                    "A job's tuner goes by the mesh file: give NICs that are slower than they say "
                    "a speed there.");
    if (t->n_rows && t->tuning->predicts)
        mn_advice_chart(t, !o->ascii && mn_topo_show_utf8(), out);
    return mn_out_free(out);
}

static enum mn_err make(const struct options *o, struct mn_advice *t, struct mn_tuning **tuning,
                        struct mn_diag *diag)
{
    struct mn_fabric fabric = {.n = 0};
    struct mn_tuning_asked asked = {.nodes = o->nodes ? (size_t)o->nodes : t->mesh->n_nodes,
                                    .everything = 1};
    enum mn_err err = MN_OK;

    asked.ranks = o->ranks ? (size_t)o->ranks : asked.nodes;
    if (asked.ranks < asked.nodes)
        return mn_fail(diag, MN_ERR_USAGE, "--ranks %zu: a job on %zu nodes has a rank on each",
                       asked.ranks, asked.nodes);
    if (o->predict_from) {
        mn_fabric_from_mesh(t->mesh, &fabric);
        err = mn_predict_rates(o->predict_from, t->mesh, &fabric, diag);
        asked.measured = &fabric;
    }
    if (!err)
        err = mn_tuning_make(t->mesh, &asked, tuning, diag);
    mn_fabric_free(&fabric);
    return err;
}

static enum mn_err tune(const struct options *o, struct mn_advice *t, struct mn_diag *diag)
{
    struct mn_tuning *tuning = NULL;
    enum mn_err err = make(o, t, &tuning, diag);

    t->tuning = tuning;
    t->measured = o->predict_from;
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
    struct mn_advice t = {.mesh = &mesh, .path = path};
    enum mn_err err = MN_OK;

    mn_mesh_init(&mesh);
    if (argc)
        err =
            mn_fail(&diag, MN_ERR_USAGE, "%s: not expected; the mesh file follows --mesh", argv[0]);
    if (!err)
        err = mn_topo_read(o->mesh, path, &mesh, &diag);
    if (!err)
        err = mn_tuning_heed(&mesh.settings, &diag);
    if (!err)
        err = mn_mesh_sort(&mesh, &diag); /* as the tuner does */
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
