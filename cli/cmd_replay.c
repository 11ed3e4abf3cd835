#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/launch.h"
#include "fleet/meet.h"
#include "bench/trace/replay.h"
#include "cli/cmd.h"
#include "cli/plugin_path.h"
#include "cli/rank_env.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"

struct options {
    const char *plugin;
    struct mn_rank_options meet;
    long abi, device;
    unsigned timeout_ms;
    int timed, local, json, wide;
};

static const struct mn_opt options[] = {
    MN_PLUGIN_OPTIONS(struct options),
    {.name = "timed",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, timed),
     .help = "At the recorded times; default: as fast as it goes."},
    {.name = "timeout",
     .type = MN_OPT_DURATION,
     .arg = "TIME",
     .def = "30s",
     .offset = offsetof(struct options, timeout_ms),
     .min = 1000,
     .max = 3600000,
     .help = "Give up when nothing moves for so long."},
    {.name = "local",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, local),
     .help = "All ranks here, whatever the variables of mpirun, srun or torchrun say."},
    {.name = "coordinator",
     .type = MN_OPT_STRING,
     .arg = "HOST",
     .offset = offsetof(struct options, meet.coordinator),
     .help = "Where rank 0 is, for ranks that mpirun, srun or torchrun started."},
    {.name = "port",
     .type = MN_OPT_INT,
     .arg = "PORT",
     .def = "18515",
     .offset = offsetof(struct options, meet.port),
     .min = 1,
     .max = 65535,
     .help = "Port of rank 0 there."},
    {.name = "token-file",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, meet.token_file),
     .help = "32 hexadecimal digits all ranks share; default: $MESHNET_TOKEN."},
    MN_WIDE_OPTION(struct options),
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Everything as JSON."},
    MN_OPT_END,
};

struct session {
    const struct options *options;
    char **files;
    int n;
    struct mn_group_plan plan;
    char host[MN_ADDR_TEXT], plugin_path[512];
};

static int print(const struct session *s, const struct mn_plugin_info *plugin,
                 const struct mn_replay_report *reports)
{
    static const struct mn_col cols[] = {
        {"rank", "rank", 1},
        {"trace", "trace", MN_DROP(5)},
        {"connections", "conns", 1 | MN_DROP(1)},
        {"sent", "sent", 1},
        {"sent_bytes", "bytes", 1},
        {"received", "received", 1},
        {"received_bytes", "bytes", 1},
        {"wrong", "wrong", 1},
        {"left_out", "left out", 1 | MN_DROP(2)},
        {"recorded_s", "recorded s", 1 | MN_DROP(3)},
        {"replayed_s", "replayed s", 1 | MN_DROP(4)},
    };
    struct mn_out *out = mn_out_new(stdout, s->options->json ? MN_OUT_JSON : MN_OUT_TEXT);
    unsigned long long wrong = 0;

    if (s->options->wide)
        mn_out_width(out, 0);
    mn_out_str(out, "plugin", "plugin", plugin->path);
    mn_out_strf(out, "symbol", "symbol", "ncclNetPlugin_v%d", plugin->version);
    mn_out_str(out, "sha256", "sha256", plugin->hash);
    mn_out_table(out, "ranks", NULL, cols, (int)(sizeof cols / sizeof *cols));
    for (int r = 0; r < s->n; r++) {
        const struct mn_replay_report *report = &reports[r];
        mn_out_row(out);
        mn_out_cell_int(out, r);
        mn_out_cell(out, s->files[r]);
        mn_out_cell_int(out, (int64_t)report->connections);
        mn_out_cell_int(out, (int64_t)report->sent);
        mn_out_cell_int(out, (int64_t)report->sent_bytes);
        mn_out_cell_int(out, (int64_t)report->received);
        mn_out_cell_int(out, (int64_t)report->received_bytes);
        mn_out_color(out, report->wrong ? MN_RED : MN_PLAIN);
        mn_out_cell_int(out, (int64_t)report->wrong);
        mn_out_cell_int(out, (int64_t)report->left_out);
        mn_out_cell_num(out, report->recorded_seconds, 3);
        mn_out_cell_num(out, report->seconds, 3);
        wrong += report->wrong;
    }
    mn_out_table_end(out);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet replay: writing the results failed\n");
        return 1;
    }
    if (wrong)
        fprintf(stderr, "meshnet replay: %llu messages arrived with wrong data or size\n", wrong);
    return wrong != 0;
}

static int be_rank(void *ctx, int rank)
{
    const struct session *s = ctx;
    struct mn_replay_report *reports = mn_zalloc((size_t)s->n * sizeof *reports);
    struct mn_group_plan plan = s->plan;
    struct mn_replay_rank own = {.plan = &plan,
                                 .trace = s->files[rank],
                                 .plugin = s->plugin_path,
                                 .abi = (int)s->options->abi,
                                 .device = (int)s->options->device,
                                 .timed = s->options->timed};
    struct mn_diag diag = {.text = ""};
    int code = 0;

    plan.rank = rank;
    enum mn_err err = mn_replay_play(&own, reports, &diag);
    mn_wipe(plan.token, sizeof plan.token);
    if (!err && rank == 0)
        code = print(s, &own.info, reports);
    if (err && (rank == 0 || !own.joined || !own.told))
        code = mn_cmd_fail("replay", &diag);
    free(reports);
    return err && !code ? mn_err_exit_code(err) : code;
}

static void on_line(void *ctx, int rank, const char *text)
{
    (void)ctx;
    if (rank < 0)
        fprintf(stderr, "meshnet replay: %s\n", text);
    else
        fprintf(stderr, "[%d] %s\n", rank, text);
}

/* All ranks in processes of this host. */
static enum mn_err play_here(struct session *s, int *code, struct mn_diag *diag)
{
    struct mn_launch crew = {.nranks = s->n, .body = be_rank, .line = on_line, .ctx = s};
    char line[MN_MEET_LINE];
    enum mn_err err = mn_meet_open(&s->plan, NULL, 0, line, diag);

    if (!err)
        err = mn_meet_read(line, NULL, 0, &s->plan, s->host, diag);
    return err ? err : mn_launch_local(&crew, code, diag);
}

/* The one that another launcher made of this process. */
static enum mn_err play_one(struct session *s, int *code, struct mn_diag *diag)
{
    mn_launch_catch();
    enum mn_err err = mn_rank_meet(&s->plan, &s->options->meet, diag);

    if (!err && s->plan.nranks != s->n)
        err = mn_fail(diag, MN_ERR_USAGE,
                      "%d traces for %d ranks: expected one each, all of them at every rank, in "
                      "the order of the ranks; or --local to play all here",
                      s->n, s->plan.nranks);
    if (!err)
        *code = be_rank(s, s->plan.rank);
    return err;
}

static size_t count_messages(const struct mn_trace *trace)
{
    size_t n = 0;

    for (size_t i = 0; i < trace->n; i++)
        n += trace->records[i].op == MN_TRACE_ISEND || trace->records[i].op == MN_TRACE_IRECV;
    return n;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct session s = {.options = o,
                        .files = argv,
                        .n = argc,
                        .plan = {.nranks = argc,
                                 .timeout_ms = o->timeout_ms,
                                 .stop = &mn_launch_stop}};
    struct mn_trace trace;
    struct mn_diag diag = {.text = ""};
    size_t messages = 0;
    int code = 0, launched = 0;
    enum mn_err err = o->local ? MN_OK : mn_rank_launched(&launched, &diag);

    if (!err && (argc < 1 || argc > MN_GROUP_RANKS))
        err = mn_fail(&diag, MN_ERR_USAGE, "expected the traces of a job's processes, up to %d",
                      MN_GROUP_RANKS);
    /* A file that is none is said before anything runs. */
    for (int i = 0; i < argc && !err; i++) {
        err = mn_trace_read(argv[i], &trace, &diag);
        if (err)
            break;
        if (!trace.n)
            err = mn_fail(&diag, MN_ERR_CONFIG,
                          "%s: an empty trace: the process ended before NCCL called the plugin; "
                          "record the job again",
                          argv[i]);
        messages += count_messages(&trace);
        mn_trace_free(&trace);
    }
    if (!err && !messages)
        err = mn_fail(&diag, MN_ERR_CONFIG,
                      "no message is in %s: nothing to replay; did the job use NCCL_NET=meshtrace?",
                      argc > 1 ? "these traces" : argv[0]);
    mn_plugin_path(o->plugin, s.plugin_path, sizeof s.plugin_path);
    if (!err)
        err = launched ? play_one(&s, &code, &diag) : play_here(&s, &code, &diag);
    for (int i = 0; i < s.plan.n_doors; i++)
        close(s.plan.doors[i]);
    mn_wipe(s.plan.token, sizeof s.plan.token);
    return err ? mn_cmd_fail("replay", &diag) : code;
}

const struct mn_command mn_cmd_replay = {
    .name = "replay",
    .summary = "play recorded traffic of a job again, over any plugin",
    .usage = "[OPTION]… TRACE…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example: meshnet replay job.spark-a.4711 job.spark-b.4712\n"
             "One process of this host plays each trace; under mpirun, srun or torchrun's "
             "variables each rank plays the trace of its number.",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "messages were wrong, or the replay could not be done"},
              {2, MN_REFUSED "a file that is no trace, or traces without a message"}},
    .run = run,
};
