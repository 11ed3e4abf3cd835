#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/host.h"
#include "bench/trace/read.h"
#include "cli/cmd.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"

#define N(columns) ((int)(sizeof(columns) / sizeof *(columns)))

struct options {
    struct mn_opt_list ops;
    long limit;
    int json, csv, wide;
};

static const struct mn_opt options[] = {
    {.name = "op",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .offset = offsetof(struct options, ops),
     .help = "show: these calls only: isend, irecv, test, connect, …"},
    {.name = "limit",
     .letter = 'n',
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, limit),
     .min = 1,
     .max = 1e9,
     .help = "show: the first N of them."},
    MN_WIDE_OPTION(struct options),
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Everything as JSON."},
    {.name = "csv",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, csv),
     .help = "The tables as CSV."},
    MN_OPT_END,
};

static void print_head(struct mn_out *out, const char *path, const struct mn_trace *t)
{
    const struct mn_trace_head *head = &t->head;

    mn_out_str(out, "file", "trace", path);
    mn_out_str(out, "host", "host", head->host);
    mn_out_int(out, "pid", "process", head->pid);
    mn_out_str(out, "plugin", "plugin", head->plugin);
    mn_out_strf(out, "symbol", "driven by", "ncclNetPlugin_v%d", head->version);
    mn_out_str(out, "sha256", "sha256", head->hash);
    mn_out_int(out, "records", "records", (int64_t)t->n);
    if (head->lost)
        mn_out_note(out, MN_YELLOW, "the trace was full: %llu records are missing at its end",
                    (unsigned long long)head->lost);
    mn_out_int(out, "lost_records", NULL, (int64_t)head->lost);
}

/* --- show ------------------------------------------------------------------------------------- */

struct showing {
    struct mn_out *out;
    const struct options *options;
    long shown;
};

static int wanted(const struct options *o, const char *name)
{
    for (size_t i = 0; i < o->ops.count; i++)
        if (!strcmp(o->ops.items[i], name))
            return 1;
    return o->ops.count == 0;
}

static void cell_id(struct mn_out *out, uint32_t id)
{
    if (id)
        mn_out_cell_int(out, id);
    else
        mn_out_cell(out, NULL);
}

static void show(void *ctx, const struct mn_trace_event *e)
{
    const struct mn_trace_record *r = e->record;
    struct showing *s = ctx;
    int moves = r->op == MN_TRACE_ISEND || r->op == MN_TRACE_IRECV || r->op == MN_TRACE_PART;
    int sized =
        moves || r->op == MN_TRACE_IFLUSH || r->op == MN_TRACE_DONE || r->op == MN_TRACE_REG_MR;

    if (!wanted(s->options, mn_trace_names[r->op].name) ||
        (s->options->limit && s->shown == s->options->limit))
        return;
    s->shown++;
    mn_out_row(s->out);
    mn_out_cell_num(s->out, (double)r->start_ns / 1000, 3);
    mn_out_cell_num(s->out, (double)r->took_ns / 1000, 3);
    mn_out_cell_int(s->out, r->thread);
    mn_out_cell(s->out, mn_trace_names[r->op].name);
    cell_id(s->out, e->comm);
    cell_id(s->out, e->request);
    if (sized)
        mn_out_cell_int(s->out, (int64_t)r->size);
    else
        mn_out_cell(s->out, NULL);
    if (moves)
        mn_out_cell_int(s->out, r->tag);
    else
        mn_out_cell(s->out, NULL);
    mn_out_cell_int(s->out, r->empty);
    mn_out_color(s->out, r->result ? MN_RED : MN_PLAIN);
    mn_out_cell(s->out, r->result ? mn_nccl_result_name(r->result) : "");
}

static void print_calls(struct mn_out *out, const struct options *o, const struct mn_trace *t)
{
    static const struct mn_col cols[] = {
        {"at_us", "at us", 1},
        {"took_us", "took us", 1 | MN_DROP(4)},
        {"thread", "thread", 1 | MN_DROP(2)},
        {"call", "call", 0},
        {"connection", "conn", 1},
        {"request", "request", 1},
        {"size", "size", 1},
        {"tag", "tag", 1 | MN_DROP(3)},
        {"empty_calls", "empty", 1 | MN_DROP(1)},
        {"result", "", 0},
    };
    struct showing s = {.out = out, .options = o};

    mn_out_table(out, "calls", "calls; empty: calls before it that found nothing to do", cols,
                 N(cols));
    mn_trace_walk(t, show, &s);
    mn_out_table_end(out);
}

/* --- stats ------------------------------------------------------------------------------------ */

static void print_kinds(struct mn_out *out, const struct mn_trace_stats *stats)
{
    static const struct mn_col cols[] = {
        {"call", "call", 0},     {"calls", "calls", 1}, {"failed", "failed", 1},
        {"p50_us", "p50 us", 1}, {"p99_us", "p99", 1},  {"max_us", "max", 1},
    };

    mn_out_table(out, "calls", "calls, and how long the plugin took in them", cols, N(cols));
    for (int op = 1; op < MN_TRACE_N_OPS; op++) {
        const struct mn_trace_calls *c = &stats->calls[op];
        if (!c->calls)
            continue;
        mn_out_row(out);
        mn_out_cell(out, mn_trace_names[op].name);
        mn_out_cell_int(out, (int64_t)c->calls);
        mn_out_color(out, c->failed ? MN_RED : MN_PLAIN);
        mn_out_cell_int(out, (int64_t)c->failed);
        mn_out_cell_num(out, op == MN_TRACE_DONE ? NAN : c->p50_us, 3);
        mn_out_cell_num(out, op == MN_TRACE_DONE ? NAN : c->p99_us, 3);
        mn_out_cell_num(out, op == MN_TRACE_DONE ? NAN : c->max_us, 3);
    }
    mn_out_table_end(out);
}

static void print_comms(struct mn_out *out, const struct mn_trace_stats *stats)
{
    static const struct mn_col cols[] = {
        {"connection", "conn", 1},
        {"way", "way", 0},
        {"messages", "messages", 1},
        {"bytes", "bytes", 1},
        {"smallest", "smallest", 1 | MN_DROP(3)},
        {"largest", "largest", 1},
        {"outstanding", "at once", 1 | MN_DROP(2)},
        {"group", "grouped", 1 | MN_DROP(1)},
        {"from_us", "from us", 1 | MN_DROP(4)},
        {"to_us", "to us", 1 | MN_DROP(4)},
    };

    mn_out_table(out, "connections", "connections", cols, N(cols));
    for (size_t i = 0; i < stats->n_comms; i++) {
        const struct mn_trace_comm *c = &stats->comms[i];
        if (c->op == MN_TRACE_LISTEN)
            continue;
        mn_out_row(out);
        mn_out_cell_int(out, (int64_t)i + 1);
        mn_out_cell(out, c->op == MN_TRACE_CONNECT ? "sends" : "receives");
        mn_out_cell_int(out, (int64_t)c->messages);
        mn_out_cell_int(out, (int64_t)c->bytes);
        mn_out_cell_int(out, (int64_t)c->smallest);
        mn_out_cell_int(out, (int64_t)c->largest);
        mn_out_cell_int(out, c->outstanding);
        mn_out_cell_int(out, c->group);
        mn_out_cell_num(out, (double)c->first_ns / 1000, 3);
        mn_out_cell_num(out, (double)c->last_ns / 1000, 3);
    }
    mn_out_table_end(out);
}

static void print_sizes(struct mn_out *out, const struct mn_trace_stats *stats)
{
    static const struct mn_col cols[] = {
        {"from", "size from", 1},
        {"to", "to", 1},
        {"sent", "sent", 1},
        {"received", "received", 1},
    };

    mn_out_table(out, "sizes", "messages by size", cols, N(cols));
    for (int b = 0; b < MN_TRACE_SIZES; b++) {
        if (!stats->sends[b] && !stats->receives[b])
            continue;
        mn_out_row(out);
        mn_out_cell_int(out, b ? 1ll << (b - 1) : 0);
        mn_out_cell_int(out, b ? (1ll << b) - 1 : 0);
        mn_out_cell_int(out, (int64_t)stats->sends[b]);
        mn_out_cell_int(out, (int64_t)stats->receives[b]);
    }
    mn_out_table_end(out);
}

static void print_stats(struct mn_out *out, const struct mn_trace *t)
{
    struct mn_trace_stats stats;

    mn_trace_stats(t, &stats);
    mn_out_num(out, "seconds", "seconds", (double)stats.last_ns / 1e9, 3);
    mn_out_int(out, "threads", "threads", stats.threads);
    mn_out_int(out, "empty_calls", "calls that found nothing to do", (int64_t)stats.empty);
    print_kinds(out, &stats);
    print_comms(out, &stats);
    print_sizes(out, &stats);
    mn_trace_stats_free(&stats);
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_trace trace;
    struct mn_diag diag = {.text = ""};
    int shows = argc && !strcmp(argv[0], "show");

    if (argc != 2 || !(shows || !strcmp(argv[0], "stats"))) {
        mn_fail(&diag, MN_ERR_USAGE, "expected show FILE or stats FILE");
        return mn_cmd_fail("trace", &diag);
    }
    for (size_t i = 0; i < o->ops.count; i++) {
        int op = 1;
        while (op < MN_TRACE_N_OPS && strcmp(o->ops.items[i], mn_trace_names[op].name) != 0)
            op++;
        if (op == MN_TRACE_N_OPS) {
            mn_fail(&diag, MN_ERR_USAGE,
                    "--op '%s': expected calls of a plugin such as isend, test", o->ops.items[i]);
            return mn_cmd_fail("trace", &diag);
        }
    }
    if (mn_trace_read(argv[1], &trace, &diag))
        return mn_cmd_fail("trace", &diag);
    struct mn_out *out = mn_out_new(stdout, o->json  ? MN_OUT_JSON
                                            : o->csv ? MN_OUT_CSV
                                                     : MN_OUT_TEXT);
    if (o->wide)
        mn_out_width(out, 0);
    print_head(out, argv[1], &trace);
    if (shows)
        print_calls(out, o, &trace);
    else
        print_stats(out, &trace);
    mn_trace_free(&trace);
    if (!mn_out_free(out))
        return 0;
    fprintf(stderr, "meshnet trace: writing failed\n");
    return 1;
}

const struct mn_command mn_cmd_trace = {
    .name = "trace",
    .summary = "read what libnccl-net-meshtrace.so recorded of a job",
    .usage = "[OPTION]… show|stats FILE",
    .options = options,
    .options_size = sizeof(struct options),
    .notes =
        "Example: NCCL_NET_PLUGIN=meshtrace NCCL_NET=meshtrace MESHNET_TRACE=job.%h.%p …\n"
        "         meshnet trace stats job.spark-a.4711\n"
        "%h becomes the host's name, %p the process's number: each process has a trace of its own.",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "the output could not be written"},
              {2, MN_REFUSED "a file that is no trace"}},
    .run = run,
};
