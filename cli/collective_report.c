#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/collective_predict.h"
#include "cli/collective_report.h"
#include "cli/results_head.h"

#define N(columns) ((int)(sizeof(columns) / sizeof *(columns)))

static int has_root(enum mn_collective c)
{
    return c == MN_BROADCAST || c == MN_REDUCE || c == MN_GATHER || c == MN_SCATTER;
}

static void print_place(struct mn_out *out, const struct mn_collective_times *t, int check)
{
    if (!t->measured) {
        for (int i = 0; i < 6; i++)
            mn_out_cell(out, NULL);
        mn_results_print_spread(out, NULL);
        return;
    }
    mn_out_cell_num(out, t->mean, 2);
    mn_out_cell_num(out, t->p50, 2);
    mn_out_cell_num(out, t->p99, 2);
    mn_out_cell_num(out, t->algbw, 3);
    mn_out_cell_num(out, t->busbw, 3);
    if (t->wrong)
        mn_out_color(out, MN_RED);
    if (check)
        mn_out_cell_int(out, (int64_t)t->wrong);
    else
        mn_out_cell(out, NULL);
    mn_results_print_spread(out, &t->spread);
}

static void print_row(struct mn_out *out, const struct mn_collective_row *row)
{
    const struct mn_collective_task *task = &row->task;

    mn_out_row(out);
    mn_out_cell(out, mn_collective_title(task->collective));
    mn_out_cell_int(out, (int64_t)row->bytes);
    mn_out_cell_int(out, (int64_t)row->count);
    mn_out_cell(out, mn_type_name(task->type));
    mn_out_cell(out, mn_collective_reduces(task->collective) ? mn_redop_name(task->op) : NULL);
    if (has_root(task->collective))
        mn_out_cell_int(out, task->root);
    else
        mn_out_cell(out, NULL);
    mn_out_cell(out, task->algorithm->name);
    mn_out_cell_int(out, (int64_t)row->place[0].iterations);
    for (int place = 0; place < 2; place++)
        print_place(out, &row->place[place], task->check);
}

static void print_rank(struct mn_out *out, const char *name, const char *cpus)
{
    char title[512];

    snprintf(title, sizeof title, "%s%s%.256s", name, *cpus ? ", CPUs " : "", cpus);
    mn_out_begin(out, NULL, title);
    mn_out_str(out, "name", NULL, name);
    mn_out_str(out, "cpus", NULL, *cpus ? cpus : NULL);
    mn_out_end(out);
}

void mn_collective_print_rows(struct mn_out *out, const struct mn_collective_report *report)
{
    static const struct mn_col cols[] = {
        {"collective", "collective", 0},
        {"bytes", "size", 1},
        {"count", "count", 1 | MN_DROP(13)},
        {"type", "type", MN_DROP(14)},
        {"op", "redop", MN_DROP(9)},
        {"root", "root", 1 | MN_DROP(8)},
        {"algorithm", "algorithm", 0},
        {"iterations", "iters", 1 | MN_DROP(7)},
        {"time_us", "time us", 1},
        {"p50_us", "p50", 1 | MN_DROP(4)},
        {"p99_us", "p99", 1 | MN_DROP(10)},
        {"algbw_gb_per_s", "algbw", 1 | MN_DROP(6)},
        {"busbw_gb_per_s", "busbw", 1},
        {"wrong", "wrong", 1},
        MN_SPREAD_COLUMNS(""),
        {"in_place_time_us", "in place us", 1},
        {"in_place_p50_us", "p50", 1 | MN_DROP(3)},
        {"in_place_p99_us", "p99", 1 | MN_DROP(3)},
        {"in_place_algbw_gb_per_s", "algbw", 1 | MN_DROP(5)},
        {"in_place_busbw_gb_per_s", "busbw", 1},
        {"in_place_wrong", "wrong", 1 | MN_DROP(12)},
        MN_SPREAD_COLUMNS("in_place_"),
    };

    mn_out_table(out, "collectives", "out of place, then in place; times in us, bandwidths in GB/s",
                 cols, N(cols));
    for (size_t i = 0; i < report->n_rows; i++)
        print_row(out, &report->rows[i]);
    mn_out_table_end(out);
}

static void print_engine(struct mn_out *out, const struct mn_engine_report *engine)
{
    const struct mn_engine_evidence *e = &engine->evidence;
    static const struct mn_col cols[] = {{"transport", "transport", 0},
                                         {"channels", "channels", 1}};
    char title[1024];

    snprintf(title, sizeof title, "%s %s, %s, over the network %s%s", engine->label,
             engine->version, engine->library, *e->network ? e->network : "(it did not say which)",
             engine->apart ? ", each rank a host of its own" : "");
    mn_out_begin(out, NULL, title);
    mn_out_str(out, "algorithm", NULL, engine->label);
    mn_out_str(out, "library", NULL, engine->library);
    mn_out_str(out, "version", NULL, engine->version);
    mn_out_str(out, "network", NULL, *e->network ? e->network : NULL);
    mn_out_str(out, "plugin", *e->plugin ? "plugin loaded" : NULL, *e->plugin ? e->plugin : NULL);
    mn_out_bool(out, "apart", NULL, engine->apart);
    mn_out_table(out, "transports", NULL, cols, N(cols));
    for (int i = 0; i < e->n_vias; i++) {
        mn_out_row(out);
        mn_out_cell(out, e->via[i].name);
        mn_out_cell_int(out, e->via[i].channels);
    }
    mn_out_table_end(out);
    mn_out_int(out, "gpudirect_channels", e->gdr ? "of these with GPUDirect" : NULL, e->gdr);
    mn_out_end(out);
}

static int is_same(const struct mn_collective_row *a, const struct mn_collective_row *b)
{
    return a->task.collective == b->task.collective && a->bytes == b->bytes &&
           a->task.type == b->task.type && a->task.op == b->task.op &&
           a->task.root == b->task.root && a->task.algorithm != b->task.algorithm;
}

static void print_beside(struct mn_out *out, const struct mn_collective_report *report)
{
    static const struct mn_col cols[] = {
        {"collective", "collective", 0},
        {"bytes", "size", 1},
        {"type", "type", MN_DROP(3)},
        {"op", "redop", MN_DROP(2)},
        {"own_us", "own us", 1},
        {"mesh_us", "plugin us", 1},
        {"ratio", "ratio", 1},
        {"in_place_own_us", "in place own", 1 | MN_DROP(1)},
        {"in_place_mesh_us", "plugin", 1 | MN_DROP(1)},
        {"in_place_ratio", "ratio", 1},
    };

    mn_out_table(out, "beside",
                 "beside the library's own transports; ratio: how much faster the plugin is", cols,
                 N(cols));
    for (size_t i = 0; i < report->n_rows / 2; i++) {
        const struct mn_collective_row *own = &report->rows[i], *mesh = own + report->n_rows / 2;
        if (!is_same(own, mesh))
            continue;
        mn_out_row(out);
        mn_out_cell(out, mn_collective_title(own->task.collective));
        mn_out_cell_int(out, (int64_t)own->bytes);
        mn_out_cell(out, mn_type_name(own->task.type));
        mn_out_cell(out, mn_collective_reduces(own->task.collective) ? mn_redop_name(own->task.op)
                                                                     : NULL);
        for (int place = 0; place < 2; place++) {
            const struct mn_collective_times *a = &own->place[place], *b = &mesh->place[place];
            int both = a->measured && b->measured && b->mean > 0;
            mn_out_cell_num(out, both ? a->mean : NAN, 2);
            mn_out_cell_num(out, both ? b->mean : NAN, 2);
            mn_out_cell_num(out, both ? a->mean / b->mean : NAN, 2);
        }
    }
    mn_out_table_end(out);
}

void mn_collective_print(struct mn_out *out, const struct mn_collective_report *report)
{
    const struct mn_group *group = report->group;
    const struct mn_plugin_info *plugin = report->plugin;
    size_t unsteady = 0, all = 0;

    mn_results_print_head(out, MN_RESULTS_COLLECTIVES, report->started, report->environments,
                          report->n_environments);
    mn_out_str(out, "plugin", "plugin", plugin->path);
    mn_out_strf(out, "symbol", "symbol", "ncclNetPlugin_v%d", plugin->version);
    mn_out_str(out, "sha256", "sha256", plugin->hash);
    mn_out_str(out, "clock", "clock", "CLOCK_MONOTONIC");
    const char *memory = mn_group_memory_kind(group)->name;
    mn_out_str(out, "memory", memory && strcmp(memory, "host") != 0 ? "memory" : NULL, memory);
    mn_out_int(out, "nranks", "ranks", mn_group_size(group));
    mn_out_list_begin(out, "ranks", NULL);
    for (int r = 0; r < mn_group_size(group); r++) {
        print_rank(out, mn_group_name(group, r), report->pinned ? report->pinned[r] : "");
    }
    mn_out_list_end(out);
    mn_out_bool(out, "complete", NULL, report->error == NULL);
    mn_out_str(out, "error", NULL, report->error);
    if (report->n_engines) {
        mn_out_list_begin(out, "engines", NULL);
        for (int i = 0; i < report->n_engines; i++)
            print_engine(out, &report->engines[i]);
        mn_out_list_end(out);
    }
    mn_collective_print_rows(out, report);
    if (report->predict)
        mn_collective_predict_print(out, report);
    if (report->n_engines == MN_NETWORKS && !report->error) {
        const struct mn_engine_evidence *mesh = &report->engines[MN_NETWORKS - 1].evidence;
        if (mn_engine_went_over(mesh, mesh->network))
            print_beside(out, report);
        else
            mn_out_note(out, MN_YELLOW,
                        "Nothing went over the plugin: ranks of one host have shorter ways. "
                        "--apart has them use the network.");
    }
    for (size_t i = 0; i < report->n_rows; i++)
        for (int place = 0; place < 2; place++)
            if (report->rows[i].place[place].measured) {
                unsteady += report->rows[i].place[place].spread.steady == 0;
                all++;
            }
    mn_results_say_unsteady(out, unsteady, all);
}
