#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "cli/collective_report.h"
#include "topo/base/alloc.h"

struct results {
    struct mn_collective_row *rows;
    size_t n, wrong;
};

static void show_progress(const struct mn_collective_session *s, size_t i)
{
    const struct mn_collective_task *task = &s->tasks[i];
    char bytes[32];

    fprintf(stderr, "\r\033[K%zu/%zu %s, %s bytes", i + 1, s->n_tasks,
            mn_collective_name(task->collective), mn_format_size(task->bytes, bytes, sizeof bytes));
    fflush(stderr);
}

static enum mn_err measure(const struct mn_collective_session *s, struct mn_group *group,
                           int progress, struct results *results, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < s->n_tasks && !err; i++) {
        struct mn_collective_row row;
        if (progress)
            show_progress(s, i);
        err = mn_collective_measure(group, &s->tasks[i], &row, diag);
        if (err)
            break;
        *(struct mn_collective_row *)mn_grow((void **)&results->rows, &results->n, sizeof row) =
            row;
        results->wrong += row.place[0].wrong + row.place[1].wrong;
    }
    if (progress)
        fputs("\r\033[K", stderr);
    return err ? err : mn_group_barrier(group, diag);
}

static int report(const struct mn_collective_session *s, const struct mn_group *group,
                  const struct mn_plugin_info *plugin, const struct results *results,
                  const char *error)
{
    const struct mn_bench_collective *o = s->options;
    struct mn_out *out = mn_out_new(stdout, o->json  ? MN_OUT_JSON
                                            : o->csv ? MN_OUT_CSV
                                                     : MN_OUT_TEXT);

    mn_collective_print(out, group, plugin, results->rows, results->n, error);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet bench: writing the results failed\n");
        return 1;
    }
    if (results->wrong)
        fprintf(stderr, "meshnet bench: %zu elements of results are wrong\n", results->wrong);
    return results->wrong != 0;
}

int mn_collective_rank(void *ctx, int rank)
{
    const struct mn_collective_session *s = ctx;
    struct mn_group_plan plan = s->plan;
    struct mn_group *group;
    struct mn_plugin *plugin = NULL;
    struct results results = {.rows = NULL};
    struct mn_diag diag = {.text = ""};
    int code = 0;

    plan.rank = rank;
    enum mn_err err = mn_group_join(&plan, &group, &diag);
    if (err)
        return mn_cmd_fail("bench", &diag);
    err = mn_plugin_open(s->plugin_path, (int)s->options->abi, &plugin, &diag);
    if (!err)
        err = mn_group_use(group, plugin, (int)s->options->device, &diag);
    if (!err)
        err = measure(s, group, rank == 0 && isatty(STDERR_FILENO), &results, &diag);
    if (err)
        mn_group_fail(group, err, &diag);
    if (rank == 0 && plugin)
        code = report(s, group, mn_plugin_info(plugin), &results, err ? diag.text : NULL);
    if (err && (rank == 0 || !mn_group_told(group)))
        code = mn_cmd_fail("bench", &diag);
    mn_group_leave(group);
    if (plugin)
        mn_plugin_close(plugin);
    free(results.rows);
    return err && !code ? mn_err_exit_code(err) : code;
}
