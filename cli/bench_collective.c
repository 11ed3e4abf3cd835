#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/collective.h"
#include "bench/ctl.h"
#include "bench/launch.h"
#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "cli/collective_report.h"
#include "cli/plugin_path.h"
#include "topo/base/alloc.h"

#define MAX_SIZE (1ull << 30)

/* What all ranks measure, and where they meet. */
struct session {
    const struct mn_bench_collective *options;
    struct mn_collective_task *tasks;
    size_t n_tasks;
    struct mn_group_plan plan;
    char plugin_path[512];
};

/* --- what is to be measured ------------------------------------------------------------------- */

struct name {
    const char *name;
    int value;
};

static const struct name type_aliases[] = {
    {"float", MN_TYPE_FLOAT32},
    {"half", MN_TYPE_FLOAT16},
    {"double", MN_TYPE_FLOAT64},
    {NULL, 0},
};

static const char *type_at(int i)
{
    return i < MN_TYPES ? mn_type_name(i) : NULL;
}

static const char *op_at(int i)
{
    return i < MN_REDOPS ? mn_redop_name(i) : NULL;
}

static const char *collective_at(int i)
{
    return i < MN_COLLECTIVES ? mn_collective_name((enum mn_collective)i) : NULL;
}

/* A bit for each name of the list; "all" sets all. */
static enum mn_err pick(const char *option, const struct mn_opt_list *list,
                        const char *(*at)(int i), const struct name *aliases, unsigned *bits,
                        struct mn_diag *diag)
{
    char known[512] = "";
    size_t used = 0;
    int n = 0;

    for (; at(n); n++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", at(n));
    *bits = 0;
    for (size_t k = 0; k < list->count; k++) {
        unsigned before = *bits;
        const char *name = list->items[k];
        int twice = 0;
        for (int i = 0; i < n; i++)
            if (!strcmp(name, "all") || !strcmp(name, at(i))) {
                twice |= (int)(*bits >> i & 1);
                *bits |= 1u << i;
            }
        for (const struct name *a = aliases; a && a->name; a++)
            if (!strcmp(name, a->name))
                *bits |= 1u << a->value;
        if (*bits == before && !twice)
            return mn_fail(diag, MN_ERR_USAGE, "--%s '%s': expected some of %sor all", option, name,
                           known);
    }
    return MN_OK;
}

static void add_task(struct session *s, struct mn_collective_task task)
{
    struct mn_collective_task *new = mn_grow((void **)&s->tasks, &s->n_tasks, sizeof *new);
    *new = task;
}

/* One collective by one name of --algorithm. */
static enum mn_err add_algorithm(struct session *s, struct mn_collective_task task,
                                 const char *name, struct mn_diag *diag)
{
    int nranks = s->plan.nranks, all = !strcmp(name, "all");

    if (!strcmp(name, "auto")) {
        add_task(s, task);
        return MN_OK;
    }
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++) {
        if (a->collective != task.collective || (!all && strcmp(name, a->name) != 0))
            continue;
        task.algorithm = a;
        const char *refusal = mn_collective_refusal(&task, nranks);
        if (refusal && !all)
            return mn_fail(diag, MN_ERR_USAGE, "--algorithm %s for %s and %d ranks: %s", name,
                           mn_collective_name(task.collective), nranks, refusal);
        if (!refusal)
            add_task(s, task);
    }
    return MN_OK;
}

static enum mn_err known_algorithm(const char *name, unsigned collectives, struct mn_diag *diag)
{
    char known[512] = "auto, all";
    size_t used = strlen(known);

    if (!strcmp(name, "auto") || !strcmp(name, "all"))
        return MN_OK;
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++) {
        if (!(collectives >> a->collective & 1))
            continue;
        if (!strcmp(name, a->name))
            return MN_OK;
        if (!strstr(known, a->name) && used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, ", %s", a->name);
    }
    return mn_fail(diag, MN_ERR_USAGE, "--algorithm '%s': expected some of %s", name, known);
}

struct choice {
    unsigned collectives, types, ops;
};

static enum mn_err choose(const struct session *s, struct choice *choice, struct mn_diag *diag)
{
    const struct mn_bench_collective *o = s->options;
    enum mn_err err =
        pick("collective", o->collectives, collective_at, NULL, &choice->collectives, diag);

    if (!err)
        err = pick("type", o->types, type_at, type_aliases, &choice->types, diag);
    if (!err)
        err = pick("op", o->ops, op_at, NULL, &choice->ops, diag);
    for (size_t i = 0; i < o->algorithms->count && !err; i++)
        err = known_algorithm(o->algorithms->items[i], choice->collectives, diag);
    if (!err && o->root >= s->plan.nranks)
        err = mn_fail(diag, MN_ERR_USAGE, "--root %ld: there are %d ranks, from 0 on", o->root,
                      s->plan.nranks);
    return err;
}

/* All sizes of one collective, type and operation. */
static enum mn_err add_sizes(struct session *s, struct mn_collective_task task,
                             struct mn_diag *diag)
{
    const struct mn_bench_collective *o = s->options;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < o->sizes->count; i++) {
        struct mn_diag why;
        if (mn_parse_size(o->sizes->items[i], &task.bytes, &why))
            return mn_fail(diag, MN_ERR_USAGE, "--sizes: %s", why.text);
        if (task.bytes > MAX_SIZE)
            return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': at most 1G", o->sizes->items[i]);
        for (size_t a = 0; a < o->algorithms->count && !err; a++)
            err = add_algorithm(s, task, o->algorithms->items[a], diag);
    }
    return err;
}

static enum mn_err plan_tasks(struct session *s, struct mn_diag *diag)
{
    const struct mn_bench_collective *o = s->options;
    struct choice choice;
    enum mn_err err = choose(s, &choice, diag);

    for (int c = 0; c < MN_COLLECTIVES && !err; c++)
        for (int type = 0; type < MN_TYPES && !err; type++)
            for (int op = 0, ops = 0; op < MN_REDOPS && !err; op++) {
                int reduces = mn_collective_reduces((enum mn_collective)c);
                if (!(choice.collectives >> c & 1) || !(choice.types >> type & 1) ||
                    !(choice.ops >> op & 1) || (!reduces && ops++))
                    continue;
                struct mn_collective_task task = {.collective = (enum mn_collective)c,
                                                  .type = type,
                                                  .op = op,
                                                  .root = (int)o->root,
                                                  .iters = (unsigned long)o->iters,
                                                  .warmup = (unsigned long)o->warmup,
                                                  .duration_ms = o->duration_ms,
                                                  .check = o->check};
                err = add_sizes(s, task, diag);
            }
    if (!err && !s->n_tasks)
        err = mn_fail(diag, MN_ERR_USAGE, "no algorithm of these does any of these collectives");
    return err;
}

/* --- a rank ----------------------------------------------------------------------------------- */

struct results {
    struct mn_collective_row *rows;
    size_t n, wrong;
};

static void show_progress(const struct session *s, size_t i)
{
    const struct mn_collective_task *task = &s->tasks[i];
    char bytes[32];

    fprintf(stderr, "\r\033[K%zu/%zu %s, %s bytes", i + 1, s->n_tasks,
            mn_collective_name(task->collective), mn_format_size(task->bytes, bytes, sizeof bytes));
    fflush(stderr);
}

static enum mn_err measure(const struct session *s, struct mn_group *group, int progress,
                           struct results *results, struct mn_diag *diag)
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

static int report(const struct session *s, const struct mn_group *group,
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

static int be_rank(void *ctx, int rank)
{
    const struct session *s = ctx;
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

/* --- ranks of this host ----------------------------------------------------------------------- */

static enum mn_err meet_here(struct session *s, struct mn_diag *diag)
{
    struct mn_addr addr;
    struct sockaddr_in in;
    socklen_t len = sizeof in;
    enum mn_err err = mn_addr_parse("127.0.0.1", &addr, diag);

    addr.prefix = -1;
    if (!err)
        err = mn_random(s->plan.token, sizeof s->plan.token, diag);
    if (!err)
        err = mn_ctl_listen(&addr, 0, &s->plan.listen_fd, diag);
    if (!err && getsockname(s->plan.listen_fd, (struct sockaddr *)&in, &len))
        err = mn_fail_errno(diag, "the port of a listening socket");
    s->plan.host = "127.0.0.1";
    s->plan.port = err ? 0 : ntohs(in.sin_port);
    return err;
}

static void on_line(void *ctx, int rank, const char *text)
{
    (void)ctx;
    if (rank < 0)
        fprintf(stderr, "meshnet bench: %s\n", text);
    else
        fprintf(stderr, "[%d] %s\n", rank, text);
}

int mn_bench_collective(const struct mn_bench_collective *options)
{
    struct session s = {.options = options,
                        .plan = {.nranks = (int)options->local,
                                 .listen_fd = -1,
                                 .timeout_ms = options->timeout_ms,
                                 .stop = &mn_launch_stop}};
    struct mn_launch launch = {.nranks = (int)options->local,
                               .body = be_rank,
                               .line = on_line,
                               .ctx = &s};
    struct mn_diag diag;
    int code = 0;

    mn_plugin_path(options->plugin, s.plugin_path, sizeof s.plugin_path);
    enum mn_err err = plan_tasks(&s, &diag);
    if (!err)
        err = meet_here(&s, &diag);
    if (!err)
        err = mn_launch_local(&launch, &code, &diag);
    if (s.plan.listen_fd >= 0)
        close(s.plan.listen_fd);
    free(s.tasks);
    return err ? mn_cmd_fail("bench", &diag) : code;
}
