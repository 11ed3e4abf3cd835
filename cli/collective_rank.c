#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "cli/collective_predict.h"
#include "cli/collective_report.h"
#include "cli/live.h"
#include "topo/base/alloc.h"

static void show_progress(const struct mn_collective_session *s, size_t i, struct mn_live *live)
{
    const struct mn_collective_task *task = &s->tasks[i];
    char bytes[32], what[128];

    snprintf(what, sizeof what, "%s, %s bytes", mn_collective_name(task->collective),
             mn_format_size(task->bytes, bytes, sizeof bytes));
    mn_live_show(live, i + 1, s->n_tasks, what);
}

static void print_so_far(struct mn_out *out, const void *ctx)
{
    mn_collective_print_rows(out, ctx);
}

static int leaves_out(const struct mn_collective_session *s)
{
    const struct mn_opt_list *types = &s->options->types;
    int all = 0;

    for (size_t i = 0; i < types->count; i++)
        all |= !strcmp(types->items[i], "all");
    return all;
}

/* "--type all" leaves out what the library has not; a type asked for by name is an error. */
static enum mn_err check_engine(const struct mn_collective_session *s,
                                const struct mn_engine *engine, struct mn_diag *diag)
{
    if (leaves_out(s))
        return MN_OK;
    for (size_t i = 0; i < s->n_tasks; i++) {
        const struct mn_collective_task *task = &s->tasks[i];
        const char *refusal = mn_engine_refusal(engine, task->collective, task->type);
        if (refusal)
            return mn_fail(diag, MN_ERR_CONFIG, "%s of %s: %s",
                           mn_collective_name(task->collective), mn_type_name(task->type), refusal);
    }
    return MN_OK;
}

static enum mn_err measure(const struct mn_collective_session *s, struct mn_group *group,
                           struct mn_engine *engine, int progress,
                           struct mn_collective_report *report, struct mn_diag *diag)
{
    struct mn_live live = {.print = s->options->follow ? print_so_far : NULL,
                           .ctx = report,
                           .off = !progress};
    enum mn_err err = engine ? check_engine(s, engine, diag) : MN_OK;

    for (size_t i = 0; i < s->n_tasks && !err; i++) {
        struct mn_collective_row row;
        if (engine && mn_engine_refusal(engine, s->tasks[i].collective, s->tasks[i].type))
            continue;
        show_progress(s, i, &live);
        err = mn_collective_measure(group, engine, &s->tasks[i], &row, diag);
        if (err)
            break;
        *(struct mn_collective_row *)mn_grow((void **)&report->rows, &report->n_rows, sizeof row) =
            row;
    }
    mn_live_clear(&live);
    return err ? err : mn_group_barrier(group, diag);
}

static int print(const struct mn_collective_session *s, const struct mn_collective_report *report)
{
    const struct mn_bench_options *o = s->options;
    unsigned long long wrong = 0;
    struct mn_out *out = mn_out_new(stdout, o->json  ? MN_OUT_JSON
                                            : o->csv ? MN_OUT_CSV
                                                     : MN_OUT_TEXT);

    if (o->wide)
        mn_out_width(out, 0);
    mn_collective_print(out, report);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet bench: writing the results failed\n");
        return 1;
    }
    for (size_t i = 0; i < report->n_rows; i++)
        wrong += report->rows[i].place[0].wrong + report->rows[i].place[1].wrong;
    if (wrong)
        fprintf(stderr, "meshnet bench: %llu elements of results are wrong\n", wrong);
    return wrong != 0;
}

/* Near the NIC of the plugin's device. */
static enum mn_err pin(const struct mn_collective_session *s, struct mn_group *group,
                       struct mn_plugin *plugin, struct mn_diag *diag)
{
    struct mn_plugin_props props = {.net = {.pci_path = NULL}};

    (void)mn_plugin_properties(plugin, (int)s->options->device, &props);
    return mn_collective_pin(s, group, props.net.pci_path, diag);
}

/* What this rank runs on, and then every host. */
static enum mn_err find_environments(struct mn_collective_report *report, struct mn_group *group,
                                     struct mn_diag *diag)
{
    struct mn_environment *own = report->environments, *all = NULL;
    int count = 0;

    enum mn_err err = mn_environment_gather(group, own, &all, &count, diag);
    if (!err)
        err = mn_group_gather_text(group, own->pinned, &report->pinned, diag);
    if (err) {
        free(all);
        return err;
    }
    free(own);
    report->environments = all;
    report->n_environments = count;
    for (int r = 0; r < mn_group_size(group); r++)
        for (char *c = report->pinned[r]; *c; c++)
            if (!strchr("0123456789,-", *c))
                *c = '?';
    return MN_OK;
}

/* Of NCCL and RCCL the memory, if it is not managed. */
static enum mn_memory_kind memory_of(const struct mn_bench_options *o)
{
    return o->engine && o->memory != MN_MEMORY_MANAGED ? mn_engine_vendors[o->engine].kind
                                                       : (enum mn_memory_kind)o->memory;
}

/* Gets ready what carries the collectives out: the plugin, or a library with a network. */
static enum mn_err begin(const struct mn_collective_session *s, struct mn_group *group,
                         struct mn_plugin *plugin, struct mn_engine **engine, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    const struct mn_engine_plan plan = {.kind = (enum mn_engine_kind)o->engine,
                                        .library = o->library,
                                        .network = s->network,
                                        .plugin = mn_plugin_info(plugin),
                                        .apart = o->apart};
    enum mn_err err = mn_group_choose_memory(group, memory_of(o), (int)o->gpu, diag);

    if (!err && !o->engine)
        err = mn_group_use(group, plugin, (int)o->device, diag);
    /* NCCL binds its own threads, near the GPU. */
    if (!err && (!o->engine || strcmp(o->pin, "auto") != 0))
        err = pin(s, group, plugin, diag);
    return err || !o->engine ? err : mn_engine_open(&plan, group, engine, diag);
}

/* What earlier runs found goes before. */
static void put_before(struct mn_collective_report *report,
                       const struct mn_bench_engine_share *earlier)
{
    for (size_t i = 0; earlier && i < earlier->n_rows; i++)
        *(struct mn_collective_row *)mn_grow((void **)&report->rows, &report->n_rows,
                                             sizeof *report->rows) = earlier->rows[i];
    for (int i = 0; earlier && i < earlier->n_engines; i++)
        report->engines[report->n_engines++] = earlier->engines[i];
}

/* What the library says that it used, and whether that is what it was told to use. */
static enum mn_err ask_engine(struct mn_engine *engine, const char *network,
                              struct mn_collective_report *report, struct mn_diag *diag)
{
    struct mn_engine_report *said = &report->engines[report->n_engines];
    const struct mn_engine_evidence *e = &said->evidence;
    enum mn_err err = mn_engine_say(engine, said, diag);

    if (err)
        return err;
    report->n_engines++;
    if (e->differ)
        return mn_fail(diag, MN_ERR_FAILED, "%s: %d ranks used another network than rank 0's %s",
                       said->vendor, e->differ, e->network);
    if (said->network == MN_NETWORK_MESH && strcmp(e->network, network) != 0)
        return mn_fail(diag, MN_ERR_FAILED, "%s used the network '%s' and not '%s'", said->vendor,
                       e->network, network);
    return MN_OK;
}

/* Of an earlier run: rank 0's findings, for the last one's report. */
static void keep(struct mn_bench_engine_share *share, const struct mn_collective_report *report)
{
    for (size_t i = 0; i < report->n_rows; i++)
        share->rows[share->n_rows++] = report->rows[i];
    for (int i = 0; i < report->n_engines; i++)
        share->engines[share->n_engines++] = report->engines[i];
}

int mn_collective_rank(void *ctx, int rank)
{
    struct mn_collective_session *s = ctx;
    struct mn_group_plan plan = s->plan;
    struct mn_group *group;
    struct mn_plugin *plugin = NULL;
    struct mn_predict_mesh predict = {.nodes = NULL};
    struct mn_engine *engine = NULL;
    struct mn_collective_report report = {.started = time(NULL)};
    struct mn_diag diag = {.text = ""};
    int code = 0, last = !s->more;

    plan.rank = rank;
    enum mn_err err = mn_group_join(&plan, &group, &diag);
    mn_wipe(plan.token, sizeof plan.token);
    if (err)
        return mn_cmd_fail("bench", &diag);
    err = mn_plugin_open(s->plugin_path, (int)s->options->abi, &plugin, &diag);
    if (!err) {
        report.group = group;
        report.plugin = mn_plugin_info(plugin);
        report.environments = mn_zalloc(sizeof *report.environments);
        report.n_environments = 1;
        if (last)
            put_before(&report, s->earlier);
        err = begin(s, group, plugin, &engine, &diag);
        mn_environment_read(report.plugin, report.environments);
    }
    if (!err)
        err = find_environments(&report, group, &diag);
    if (!err && s->options->predict) {
        err = mn_collective_predict_begin(s, group, &predict, &diag);
        report.predict = err ? NULL : &predict;
        report.mesh = &s->mesh;
        report.engine = s->options->engine;
    }
    if (!err)
        err = measure(s, group, engine, rank == 0, &report, &diag);
    if (!err && engine)
        err = ask_engine(engine, report.plugin->name, &report, &diag);
    if (err)
        mn_group_fail(group, err, &diag);
    report.error = err ? diag.text : NULL;
    if (!last && !err)
        keep(s->earlier, &report);
    else if (rank == 0 && plugin)
        code = print(s, &report);
    if (err && (rank == 0 || !mn_group_told(group)))
        code = mn_cmd_fail("bench", &diag);
    code = err && !code ? mn_err_exit_code(err) : code;
    int at_work = mn_engine_close(engine);
    if (at_work)
        mn_group_forsake_memory(group);
    mn_group_leave(group);
    if (at_work) {
        fflush(NULL);
        _exit(code);
    }
    if (plugin)
        mn_plugin_close(plugin);
    mn_predict_free(&predict);
    free(report.rows);
    free(report.environments);
    free(report.pinned);
    return code;
}
