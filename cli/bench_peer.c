#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_report.h"
#include "cli/cmd.h"
#include "cli/host_name.h"
#include "cli/live.h"
#include "cli/mesh_option.h"
#include "cli/plugin_path.h"
#include "topo/base/alloc.h"

struct so_far {
    const struct mn_p2p_plan *plan;
    const struct mn_p2p_report *report;
};

static void print_so_far(struct mn_out *out, const void *ctx)
{
    const struct so_far *so_far = ctx;

    mn_bench_print_tables(out, so_far->plan, so_far->report);
}

static void on_progress(void *ctx, const char *what, int step, int steps)
{
    mn_live_show(ctx, (size_t)step, (size_t)steps, what);
}

/* Ctrl-C ends the run with what was measured; a second one ends the process. */
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static int below_gate(const struct mn_p2p_report *report, double min_gbps)
{
    int below = 0;

    for (int d = 0; d < MN_P2P_DIRECTIONS; d++) {
        double best = -1;
        for (size_t i = 0; i < report->n_bandwidth; i++)
            if ((int)report->bandwidth[i].direction == d &&
                mn_p2p_gbytes(&report->bandwidth[i]) * 8 > best)
                best = mn_p2p_gbytes(&report->bandwidth[i]) * 8;
        if (best >= 0 && best < min_gbps) {
            fprintf(stderr, "meshnet bench: direction %s: best %.3f Gb/s, below the wanted %.3f\n",
                    mn_p2p_direction_names[d], best, min_gbps);
            below = 1;
        }
    }
    return below;
}

static int report_and_judge(const struct mn_bench_options *o, const struct mn_p2p_plan *plan,
                            const struct mn_names *names, const struct mn_p2p_report *report)
{
    enum mn_out_format format = o->json ? MN_OUT_JSON : o->csv ? MN_OUT_CSV : MN_OUT_TEXT;
    struct mn_out *out = mn_out_new(stdout, format);

    if (o->wide)
        mn_out_width(out, 0);
    mn_bench_print(out, plan, names->path, &names->mesh, names->self, report);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet bench: writing the results failed\n");
        return 1;
    }
    if (report->wrong)
        fprintf(stderr, "meshnet bench: %llu messages arrived with wrong data or size\n",
                (unsigned long long)report->wrong);
    return report->wrong || (o->min_gbps > 0 && below_gate(report, o->min_gbps));
}

static int measured_something(const struct mn_p2p_report *r)
{
    return r->n_bandwidth || r->n_latency || r->n_rates || r->n_raw || r->n_bursts;
}

int mn_bench_peer(const struct mn_bench_options *o)
{
    struct mn_bench_sizes sizes = {.n = 0};
    struct mn_p2p_plan plan = {
        .check = !o->no_check,
        .repeat = mn_bench_repeat(o),
        .iters = (unsigned long)o->iters,
        .warmup = (unsigned long)o->warmup,
        .timeout_ms = o->timeout_ms,
        .buffers = (size_t)o->buffers,
        .memory = (enum mn_memory_kind)o->memory,
        .gpu = (int)o->gpu,
        .device = (int)o->device,
        .pin = o->pin,
        .stop = &stopped,
    };
    struct mn_p2p_report report = {.bandwidth = NULL};
    struct mn_ctl ctl = {.fd = -1};
    struct mn_plugin *plugin = NULL;
    struct mn_diag diag = {.text = ""};
    uint8_t token[MN_KEY_SIZE];
    char path[512], host[256];
    struct mn_names names;
    struct so_far so_far = {.plan = &plan, .report = &report};
    struct mn_live live = {.print = o->follow ? print_so_far : NULL, .ctx = &so_far};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    int code = 0;
    enum mn_err err = mn_mesh_option(o->mesh, &diag);
    enum mn_err mesh_err = mn_names_read(&names, err ? NULL : &diag);

    err = err ? err : mesh_err;
    if (!err)
        err = mn_bench_sizes_parse(&o->sizes, &sizes, &diag);

    plan.sizes = sizes.size;
    plan.n_sizes = sizes.n;
    if (!err)
        err = mn_bench_profile(o, &plan, &diag);
    if (!err)
        err = mn_bench_token(o, token, &diag);
    if (!err)
        err = mn_names_host(&names, "--peer", o->peer, host, sizeof host, &diag);
    if (!err) {
        mn_plugin_path(o->plugin, path, sizeof path);
        err = mn_plugin_open(path, (int)o->abi, &plugin, &diag);
    }
    if (!err)
        err = mn_ctl_reach(host, (uint16_t)o->port, token, o->timeout_ms, &ctl, &diag);
    mn_wipe(token, sizeof token);
    if (!err) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        err = mn_p2p_run(plugin, &ctl, &plan, on_progress, &live, &report, &diag);
        mn_live_clear(&live);
    }
    report.error = err ? diag.text : NULL;
    if (!err || measured_something(&report))
        code = report_and_judge(o, &plan, &names, &report);
    if (err)
        code = mn_cmd_fail("bench", &diag);
    mn_ctl_close(&ctl);
    if (plugin)
        mn_plugin_close(plugin);
    mn_p2p_free(&report);
    mn_names_free(&names);
    free(sizes.size);
    return code;
}
