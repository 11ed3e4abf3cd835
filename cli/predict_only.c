/* What the mesh file's cables let expect of collectives, without measuring: of a mesh that is
 * planned, or from anywhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "cli/collective_predict.h"
#include "topo/base/alloc.h"

/* Every node is a rank, in the order in which bench puts them. */
static void make(const struct mn_mesh *mesh, struct mn_predict_mesh *made)
{
    int n = (int)mesh->n_nodes, *all = mn_zalloc((size_t)(n + 1) * sizeof *all);

    *made = (struct mn_predict_mesh){.nodes = mn_zalloc((size_t)(n + 1) * sizeof(int)),
                                     .hosts = mn_zalloc((size_t)(n + 1) * sizeof(int))};
    for (int i = 0; i < n; i++)
        all[i] = made->hosts[i] = i;
    mn_mesh_ring(mesh, all, n, made->nodes, NULL);
    free(all);
    mn_fabric_from_mesh(mesh, &made->fabric);
    mn_routes_find(&made->fabric, &made->routes);
    made->model = (struct mn_model){.fabric = &made->fabric,
                                    .routes = &made->routes,
                                    .node_of_rank = made->nodes,
                                    .n_ranks = n};
}

/* As if it had been measured, but for the figures. */
static struct mn_collective_row unmeasured(const struct mn_collective_task *task, int engine,
                                           int nranks)
{
    struct mn_collective_row row = {.task = *task, .place = {{.mean = NAN, .busbw = NAN}}};
    struct mn_collective_work work;

    mn_collective_work(task, 0, nranks, NULL, &work);
    if (engine)
        row.task.algorithm = &mn_engine_vendors[engine].label[MN_NETWORK_MESH];
    else if (!task->algorithm)
        row.task.algorithm = mn_algorithm_auto(task->collective, &work.job);
    row.bytes = mn_collective_bytes(task->collective, &work.job);
    mn_collective_work_free(&work);
    return row;
}

static int print(const struct mn_bench_options *o, const struct mn_collective_report *report)
{
    struct mn_out *out = mn_out_new(stdout, o->json  ? MN_OUT_JSON
                                            : o->csv ? MN_OUT_CSV
                                                     : MN_OUT_TEXT);

    if (o->wide)
        mn_out_width(out, 0);
    mn_collective_predict_print(out, report);
    if (!mn_out_free(out))
        return 0;
    fprintf(stderr, "meshnet bench: writing the prediction failed\n");
    return 1;
}

enum mn_err mn_bench_predict_only(struct mn_collective_session *s, int *code, struct mn_diag *diag)
{
    struct mn_predict_mesh made;
    struct mn_collective_report report = {.predict = &made,
                                          .mesh = &s->mesh,
                                          .engine = s->options->engine};

    s->plan.nranks = (int)s->mesh.n_nodes;
    enum mn_err err = mn_collective_plan(s, diag);
    if (err)
        return err;
    make(&s->mesh, &made);
    err = mn_collective_predict_check(s, &made, diag);
    for (size_t i = 0; i < s->n_tasks && !err; i++)
        *(struct mn_collective_row *)mn_grow((void **)&report.rows, &report.n_rows,
                                             sizeof *report.rows) =
            unmeasured(&s->tasks[i], s->options->engine, s->plan.nranks);
    if (!err)
        *code = print(s->options, &report);
    mn_predict_free(&made);
    free(report.rows);
    return err;
}
