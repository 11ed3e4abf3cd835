#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/collective_predict.h"
#include "topo/mesh_check.h"

/* Over the library's own network nothing is predicted. */
static int is_predicted(const struct mn_collective_row *row)
{
    return !strstr(row->task.algorithm->name, "-own");
}

static enum mn_err predict(const struct mn_predict_mesh *made, const struct mn_mesh *mesh,
                           const struct mn_collective_task *task, int engine,
                           struct mn_model_result *result, struct mn_diag *diag)
{
    struct mn_model model = made->model;

    if (!engine) {
        model.host.copy = made->copy;
        model.host.reduce = made->reduce[task->type][task->op];
    }
    enum mn_err err = mn_predict(&model, task, engine, made->hosts, result, diag);

    char bare[MN_BARE_NAMES];
    if (err == MN_ERR_NOTFOUND && result->cable < 0 && mn_mesh_bare(mesh, -1, bare))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "--predict: cables without addresses yet carry nothing, and without them "
                       "ranks have no way to each other: %s; meshnet topo address gives them",
                       bare);
    if (err != MN_ERR_NOTFOUND || result->cable < 0)
        return err;
    return mn_fail(diag, MN_ERR_CONFIG,
                   "--predict: how fast link %s is, is not known: give a NIC of it a speed in the "
                   "mesh file, or --predict-from what meshnet bench --links --json wrote",
                   mesh->links[made->fabric.cables[result->cable].link].name);
}

enum mn_err mn_collective_predict_check(const struct mn_collective_session *s,
                                        struct mn_predict_mesh *made, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    struct mn_model_result result;
    enum mn_err err = MN_OK;
    int some = 0;

    if (o->predict_from)
        err = mn_predict_rates(o->predict_from, &s->mesh, &made->fabric, diag);
    for (size_t i = 0; i < s->n_tasks && !err; i++) {
        err = predict(made, &s->mesh, &s->tasks[i], o->engine, &result, diag);
        some |= !err;
        if (o->engine && err == MN_ERR_UNSUPPORTED)
            err = MN_OK;
    }
    if (!err && !some && o->predict_only)
        err = mn_fail(diag, MN_ERR_USAGE,
                      "--predict-only: none of these collectives is predicted "
                      "for --engine %s",
                      mn_engine_vendors[o->engine].name);
    return err;
}

enum mn_err mn_collective_predict_begin(struct mn_collective_session *s, struct mn_group *group,
                                        struct mn_predict_mesh *made, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    enum mn_err err = mn_predict_meet(group, &s->mesh, made, diag);

    if (!err && !o->engine && o->memory == MN_MEMORY_HOST)
        err = mn_predict_try(group, s->tasks, s->n_tasks, made, diag);
    return err || mn_group_rank(group) ? err : mn_collective_predict_check(s, made, diag);
}

static const char *const kinds[] = {
    [MN_LIMIT_NOTHING] = "nothing", [MN_LIMIT_LATENCY] = "latency", [MN_LIMIT_CABLE] = "link",
    [MN_LIMIT_GROUP] = "port",      [MN_LIMIT_FORWARD] = "forward", [MN_LIMIT_NODE] = "node",
};

/* The link, or how it would be with more bytes. */
static void print_limit(struct mn_out *out, const struct mn_collective_report *report,
                        const struct mn_model_result *r)
{
    const struct mn_fabric *fabric = &report->predict->fabric;
    const struct mn_mesh *mesh = report->mesh;
    const struct mn_fabric_cable *cable = r->cable < 0 ? NULL : &fabric->cables[r->cable];
    char text[256];

    mn_out_cell(out, kinds[r->limit]);
    mn_out_cell(out, mn_predict_limit(mesh, fabric, r, text, sizeof text));
    mn_out_cell(out, cable ? mesh->links[cable->link].name : NULL);
    mn_out_cell(out, cable ? mesh->nodes[cable->nodes[r->direction]].name : NULL);
    mn_out_cell(out, cable ? mesh->nodes[cable->nodes[!r->direction]].name : NULL);
}

static void print_row(struct mn_out *out, const struct mn_collective_report *report,
                      const struct mn_collective_row *row)
{
    const struct mn_collective_task *task = &row->task;
    const struct mn_collective_times *t = &row->place[0];
    struct mn_model_result r;

    if (!is_predicted(row) ||
        predict(report->predict, report->mesh, task, report->engine, &r, NULL))
        return;
    double us = r.seconds * 1e6;
    mn_out_row(out);
    mn_out_cell(out, mn_collective_title(task->collective));
    mn_out_cell_int(out, (int64_t)row->bytes);
    mn_out_cell(out, mn_type_name(task->type));
    mn_out_cell(out, mn_collective_reduces(task->collective) ? mn_redop_name(task->op) : NULL);
    mn_out_cell(out, task->algorithm->name);
    mn_out_cell_num(out, t->mean, 2);
    mn_out_cell_num(out, us, 2);
    mn_out_cell_num(out, us > 0 && t->mean > 0 ? t->mean / us : NAN, 2);
    mn_out_cell_num(out, t->busbw, 3);
    mn_out_cell_num(out, r.busbw / 1e9, 3);
    print_limit(out, report, &r);
}

void mn_collective_predict_print(struct mn_out *out, const struct mn_collective_report *report)
{
    static const struct mn_col cols[] = {
        {"collective", "collective", 0},
        {"bytes", "size", 1},
        {"type", "type", MN_DROP(8)},
        {"op", "redop", MN_DROP(7)},
        {"algorithm", "algorithm", MN_DROP(4)},
        {"time_us", "time us", 1},
        {"predicted_us", "predicted us", 1},
        {"ratio", "ratio", 1},
        {"busbw_gb_per_s", "busbw", 1 | MN_DROP(3)},
        {"predicted_busbw_gb_per_s", "predicted busbw", 1 | MN_DROP(3)},
        {"limit", NULL, 0},
        {"limited_by", "limited by", 0},
        {"link", NULL, 0},
        {"from", NULL, 0},
        {"to", NULL, 0},
    };

    mn_out_table(out, "prediction",
                 report->group
                     ? "measured out of place, and as predicted; ratio: how much longer it took"
                     : "as predicted",
                 cols, (int)(sizeof cols / sizeof *cols));
    for (size_t i = 0; i < report->n_rows; i++)
        print_row(out, report, &report->rows[i]);
    mn_out_table_end(out);
}
