/* bench --links and --pairs: the mesh as a matrix. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "cli/host_name.h"
#include "cli/live.h"
#include "cli/matrix_report.h"
#include "topo/base/alloc.h"

#define MESSAGE (1u << 20)

enum mn_err mn_matrix_prepare(struct mn_collective_session *s, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;

    if (o->links && !s->mesh.n_links)
        return mn_fail(diag, MN_ERR_CONFIG, "the mesh file has no links to measure");
    char bare[MN_BARE_NAMES];
    if (o->links && mn_mesh_bare(&s->mesh, -1, bare) == s->mesh.n_links)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "no cable of the mesh file has addresses yet (%s): meshnet topo address "
                       "gives them, meshnet topo apply sets them",
                       bare);
    /* A dead cable is a result, not worth a minute. */
    setenv("MESHNET_CONNECT", "10s", 0);
    /* While two measure, the others hear nothing. */
    s->plan.timeout_ms = 4 * o->timeout_ms + 20 * mn_bench_repeat(o).most_ms;
    return MN_OK;
}

static enum mn_err message_size(const struct mn_bench_options *o, unsigned long long *bytes,
                                struct mn_diag *diag)
{
    struct mn_diag why;

    *bytes = MESSAGE;
    /* The default is a sweep, which a matrix does not have. */
    if (o->sizes.count != 1)
        return MN_OK;
    if (mn_parse_size(o->sizes.items[0], bytes, &why))
        return mn_fail(diag, MN_ERR_USAGE, "--sizes: %s", why.text);
    if (*bytes < 64 || *bytes > 1u << 30)
        return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': expected 64 to 1G", o->sizes.items[0]);
    return MN_OK;
}

static void show_progress(void *ctx, size_t cell, size_t cells, const char *what)
{
    mn_live_show(ctx, cell, cells, what);
}

static void print_so_far(struct mn_out *out, const void *ctx)
{
    mn_matrix_print_so_far(out, ctx);
}

static enum mn_err measure(const struct mn_collective_session *s, struct mn_group *group, int rank,
                           struct mn_matrix_results *results, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    struct mn_live live = {.print = o->follow ? print_so_far : NULL,
                           .ctx = results,
                           .off = rank != 0};
    unsigned long long bytes;
    enum mn_err err = message_size(o, &bytes, diag);

    if (err)
        return err;
    results->bytes = bytes;
    struct mn_matrix_plan plan = {
        .mesh = &s->mesh,
        .links = o->links,
        .pairs = o->pairs,
        .bytes = (size_t)bytes,
        .connections = 1,
        .outstanding = 8, /* as NCCL has it */
        .check = !o->no_check,
        .abi = (int)o->abi,
        .repeat = mn_bench_repeat(o),
        .iters = (unsigned long)o->iters,
        .warmup = (unsigned long)o->warmup,
        .timeout_ms = o->timeout_ms,
        .stop = s->plan.stop,
        .absent = results->absent,
        .buffers = (size_t)o->buffers,
        .memory = (enum mn_memory_kind)o->memory,
        .gpu = (int)o->gpu,
        .plugin_path = s->plugin_path,
    };
    err = mn_matrix_run(group, &plan, show_progress, &live, &results->report, diag);
    mn_live_clear(&live);
    return err ? err : mn_group_barrier(group, diag);
}

/* Cells that do not reach --min, or of which it cannot be said. */
static int below_gate(const struct mn_matrix_report *r, double least)
{
    char title[160];
    int below = 0;

    for (size_t i = 0; i < r->n_cells; i++) {
        double ratio = mn_matrix_ratio(r, i);
        if (ratio >= least)
            continue;
        mn_matrix_title(r->mesh, &r->cells[i], title, sizeof title);
        below = 1;
        if (r->cells[i].status != MN_CELL_OK)
            fprintf(stderr, "meshnet bench: %s: %s\n", title,
                    mn_matrix_status_names[r->cells[i].status]);
        else if (ratio < 0)
            fprintf(stderr,
                    "meshnet bench: %s: its speed is not known: give the NICs a speed in the mesh "
                    "file\n",
                    title);
        else
            fprintf(stderr, "meshnet bench: %s: %.3f of %.4g Gb/s (%s), below the wanted %.3f\n",
                    title, ratio, r->limits[i].gbps, r->limits[i].by, least);
    }
    return below;
}

static int print(const struct mn_bench_options *o, const struct mn_matrix_results *results)
{
    enum mn_out_format format = o->json ? MN_OUT_JSON : o->csv ? MN_OUT_CSV : MN_OUT_TEXT;
    const struct mn_matrix_report *r = &results->report;
    struct mn_out *out = mn_out_new(stdout, format);
    int bad = 0;

    if (o->wide)
        mn_out_width(out, 0);
    mn_matrix_print(out, format, results);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet bench: writing the results failed\n");
        return 1;
    }
    for (size_t i = 0; i < r->n_cells; i++)
        bad |= r->cells[i].status == MN_CELL_DEAD || r->cells[i].status == MN_CELL_WRONG;
    if (o->min_ratio > 0)
        bad |= below_gate(r, o->min_ratio);
    return bad;
}

/* The plugin is opened for its name alone; the run opens it anew for each device mode. */
static enum mn_err environments(const struct mn_collective_session *s, struct mn_group *group,
                                struct mn_matrix_results *results, struct mn_diag *diag)
{
    struct mn_environment *own = mn_zalloc(sizeof *own);
    struct mn_plugin *plugin;
    enum mn_err err = mn_plugin_open(s->plugin_path, (int)s->options->abi, &plugin, diag);

    if (!err) {
        mn_environment_read(mn_plugin_info(plugin), own);
        mn_plugin_close(plugin);
        err = mn_environment_gather(group, own, &results->environments, &results->n_environments,
                                    diag);
    }
    free(own);
    return err;
}

/* One more who takes no part, in the line that names all. */
static void add_missing(char **error, const char *name, const char *how, const char *why)
{
    char *more = mn_asprintf("%s%s%s takes no part%s: %s", *error ? *error : "", *error ? "; " : "",
                             name, how, why);

    free(*error);
    *error = more;
}

/* Who was there when measuring began, and ended. */
static void add_left(const struct mn_matrix_report *r, int rank, const char **absent, char **error)
{
    for (size_t i = 0; rank == 0 && r->left && i < r->mesh->n_nodes; i++) {
        if (!r->left[i])
            continue;
        absent[i] = r->left[i];
        add_missing(error, r->mesh->nodes[i].name, " any more", r->left[i]);
    }
}

/* By node why it takes no part, of those that should; *error says it of all in a line, NULL = none.
 */
static const char **absent_nodes(const struct mn_collective_session *s, int rank, char **error)
{
    const char **absent = mn_zalloc((s->mesh.n_nodes + 1) * sizeof *absent);
    const struct mn_group_roll *roll = rank == 0 && s->hosts->count ? s->plan.roll : NULL;

    *error = NULL;
    for (int r = 1; roll && r < s->plan.nranks; r++) {
        if (!atomic_load(&roll->ranks[r].absent))
            continue;
        const char *host = s->hosts->items[r], *why = roll->ranks[r].why;
        int node = mn_names_find(&s->mesh, s->self, host);
        if (node >= 0)
            absent[node] = why;
        add_missing(error, node >= 0 ? s->mesh.nodes[node].name : host, "", why);
    }
    return absent;
}

/* Whoever came, no two of them have a cable. */
static int none_measured(const struct mn_matrix_report *r)
{
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->cells[i].status != MN_CELL_UNMEASURED)
            return 0;
    return 1;
}

int mn_matrix_rank(void *ctx, int rank)
{
    const struct mn_collective_session *s = ctx;
    struct mn_group_plan plan = s->plan;
    struct mn_group *group;
    struct mn_matrix_results results = {.started = time(NULL), .report = {.mesh = &s->mesh}};
    struct mn_diag diag = {.text = ""};
    char *missing = NULL;
    int code = 0;

    plan.rank = rank;
    enum mn_err err = mn_group_join(&plan, &group, &diag);
    mn_wipe(plan.token, sizeof plan.token);
    if (err)
        return mn_cmd_fail("bench", &diag);
    rank = mn_group_rank(group);
    const char **absent = absent_nodes(s, rank, &missing);
    results.absent = absent;
    err = mn_collective_pin(s, group, NULL, &diag);
    if (!err)
        err = environments(s, group, &results, &diag);
    if (!err)
        err = measure(s, group, rank, &results, &diag);
    add_left(&results.report, rank, absent, &missing);
    if (err)
        mn_group_fail(group, err, &diag);
    int none = !err && !missing && none_measured(&results.report);
    if (!err && missing)
        mn_fail(&diag, MN_ERR_FAILED, "%s", missing);
    if (none)
        mn_fail(&diag, MN_ERR_FAILED,
                "nothing was measured: no two nodes that take part have a cable; name their "
                "neighbours in --hosts too, or start a rank on them");
    results.error = err || missing || none ? diag.text : NULL;
    if (rank == 0 && results.environments)
        code = print(s->options, &results);
    if ((err && (rank == 0 || !mn_group_told(group))) || missing || (none && rank == 0))
        code = mn_cmd_fail("bench", &diag);
    free(missing);
    free(absent);
    mn_group_leave(group);
    mn_matrix_free(&results.report);
    free(results.environments);
    return err && !code ? mn_err_exit_code(err) : code;
}
