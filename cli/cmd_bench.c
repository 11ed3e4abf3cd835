#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/group.h"
#include "bench/p2p.h"
#include "cli/bench_collective.h"
#include "cli/bench_report.h"
#include "cli/cmd.h"
#include "cli/plugin_path.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

#define MAX_SIZE (1ull << 30)

struct options {
    const char *peer, *token_file, *plugin, *coordinator;
    struct mn_opt_list sizes, tests, collectives, types, ops, algorithms, hosts;
    long port, connections, outstanding, iters, warmup, abi, device, local, root;
    unsigned duration_ms, timeout_ms;
    unsigned long long memory;
    double min_gbps;
    int direction, no_check, json, csv;
};

static const struct mn_opt options[] = {
    {.name = "peer",
     .letter = 'p',
     .type = MN_OPT_STRING,
     .arg = "HOST",
     .offset = offsetof(struct options, peer),
     .help = "Where meshnet serve runs: an address, a name, or a node of the mesh file."},
    {.name = "port",
     .type = MN_OPT_INT,
     .arg = "PORT",
     .def = "18515",
     .offset = offsetof(struct options, port),
     .min = 1,
     .max = 65535,
     .help = "Port of the control connection."},
    {.name = "collective",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .offset = offsetof(struct options, collectives),
     .help = "Measure collectives between ranks: all-reduce, all-gather, … or all."},
    {.name = "local",
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, local),
     .min = 1,
     .max = MN_GROUP_RANKS,
     .help = "The ranks of --collective are N processes of this host."},
    {.name = "hosts",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .offset = offsetof(struct options, hosts),
     .help = "The ranks of --collective are processes of these hosts, this one first, over ssh."},
    {.name = "coordinator",
     .type = MN_OPT_STRING,
     .arg = "HOST",
     .offset = offsetof(struct options, coordinator),
     .help = "Where rank 0 is, for ranks that mpirun, srun or torchrun started."},
    {.name = "type",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .def = "float32",
     .offset = offsetof(struct options, types),
     .help = "Types of the elements of --collective, or all."},
    {.name = "op",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .def = "sum",
     .offset = offsetof(struct options, ops),
     .help = "Operations of collectives that reduce: sum, prod, max, min, or all."},
    {.name = "algorithm",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .def = "auto",
     .offset = offsetof(struct options, algorithms),
     .help = "How --collective is done: auto, ring, …, or all in turn."},
    {.name = "root",
     .type = MN_OPT_INT,
     .arg = "RANK",
     .def = "0",
     .offset = offsetof(struct options, root),
     .min = 0,
     .max = MN_GROUP_RANKS - 1,
     .help = "The rank that collectives with a root have as theirs."},
    {.name = "token-file",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, token_file),
     .help = "The token of meshnet serve; default: $MESHNET_TOKEN."},
    {.name = "sizes",
     .letter = 's',
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .def = "8,64,512,4K,16K,64K,256K,1M,4M,16M,64M",
     .offset = offsetof(struct options, sizes),
     .help = "Message sizes."},
    {.name = "tests",
     .type = MN_OPT_LIST,
     .arg = "LIST",
     .def = "latency,bandwidth",
     .offset = offsetof(struct options, tests),
     .help = "What to measure: latency (messages up to 64K), bandwidth."},
    {.name = "direction",
     .type = MN_OPT_CHOICE,
     .arg = "WAY",
     .def = "all",
     .offset = offsetof(struct options, direction),
     .choices = "out|in|both|all",
     .help = "Bandwidth to the peer, from it, both at once, or each in turn."},
    {.name = "duration",
     .type = MN_OPT_DURATION,
     .arg = "TIME",
     .def = "500ms",
     .offset = offsetof(struct options, duration_ms),
     .min = 10,
     .max = 3600000,
     .help = "How long each measurement lasts."},
    {.name = "iters",
     .letter = 'n',
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, iters),
     .min = 1,
     .max = 1e9,
     .help = "Messages of each measurement, instead of a time."},
    {.name = "warmup",
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, warmup),
     .min = 1,
     .max = 1e9,
     .help = "Messages before each measurement; default: enough to judge the speed."},
    {.name = "outstanding",
     .type = MN_OPT_INT,
     .arg = "N",
     .def = "8",
     .offset = offsetof(struct options, outstanding),
     .min = 1,
     .max = MN_P2P_OUTSTANDING,
     .help = "Requests under way on each connection (NCCL has 8)."},
    {.name = "connections",
     .letter = 'c',
     .type = MN_OPT_INT,
     .arg = "N",
     .def = "1",
     .offset = offsetof(struct options, connections),
     .min = 1,
     .max = MN_P2P_CONNECTIONS,
     .help = "Connections of the plugin, served in turn by one thread."},
    {.name = "no-check",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, no_check),
     .help = "Leave out the pass that compares the data (it is never part of a measurement)."},
    {.name = "memory",
     .type = MN_OPT_SIZE,
     .arg = "SIZE",
     .def = "256M",
     .offset = offsetof(struct options, memory),
     .min = 8192,
     .max = 64e9,
     .help = "Message buffers of each side; with less than is outstanding, slots are shared."},
    {.name = "timeout",
     .type = MN_OPT_DURATION,
     .arg = "TIME",
     .def = "30s",
     .offset = offsetof(struct options, timeout_ms),
     .min = 1000,
     .max = 3600000,
     .help = "Longest wait without any progress."},
    {.name = "min-gbps",
     .type = MN_OPT_DOUBLE,
     .arg = "X",
     .offset = offsetof(struct options, min_gbps),
     .min = 0.001,
     .max = 1e6,
     .help = "Exit with 1 when the best bandwidth of a direction is below X Gb/s."},
    {.name = "plugin",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, plugin),
     .help = "Network plugin to drive; default: meshnet's own."},
    {.name = "abi",
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, abi),
     .min = MN_HOST_OLDEST,
     .max = MN_HOST_NEWEST,
     .help = "Drive this ABI version; default: the newest the plugin has."},
    {.name = "device",
     .type = MN_OPT_INT,
     .arg = "N",
     .def = "0",
     .offset = offsetof(struct options, device),
     .min = 0,
     .max = 127,
     .help = "Device of the plugin."},
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Results as JSON."},
    {.name = "csv",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, csv),
     .help = "Results as CSV."},
    MN_OPT_END,
};

static enum mn_err parse_sizes(const struct options *o, unsigned long long *sizes,
                               struct mn_diag *diag)
{
    for (size_t i = 0; i < o->sizes.count; i++) {
        struct mn_diag why;
        if (mn_parse_size(o->sizes.items[i], &sizes[i], &why))
            return mn_fail(diag, MN_ERR_USAGE, "--sizes: %s", why.text);
        if (sizes[i] > MAX_SIZE)
            return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': at most 1G", o->sizes.items[i]);
    }
    return MN_OK;
}

static enum mn_err parse_tests(const struct options *o, struct mn_p2p_plan *plan,
                               struct mn_diag *diag)
{
    for (size_t i = 0; i < o->tests.count; i++) {
        if (!strcmp(o->tests.items[i], "latency"))
            plan->latency = 1;
        else if (!strcmp(o->tests.items[i], "bandwidth"))
            plan->directions = o->direction == MN_P2P_DIRECTIONS ? (1u << MN_P2P_DIRECTIONS) - 1
                                                                 : 1u << o->direction;
        else
            return mn_fail(diag, MN_ERR_USAGE, "--tests '%s': expected latency or bandwidth",
                           o->tests.items[i]);
    }
    return MN_OK;
}

static enum mn_err get_token(const struct options *o, uint8_t token[MN_KEY_SIZE],
                             struct mn_diag *diag)
{
    const char *text = getenv("MESHNET_TOKEN");

    if (o->token_file)
        return mn_key_read(o->token_file, token, diag);
    if (text)
        return mn_key_parse(text, token, diag);
    return mn_fail(diag, MN_ERR_USAGE,
                   "which token? meshnet serve prints one: put it into a file and give "
                   "--token-file FILE");
}

/* A node's name stands for its address on a cable this host shares, which is where serve listens.
 */
static void resolve_peer(const char *peer, char *host, size_t size, char *mesh_path,
                         size_t mesh_size)
{
    struct mn_mesh mesh;
    struct mn_host own = {.n_nics = 0};
    struct mn_diag diag;
    char why[256];
    int self;

    mn_strlcpy(host, peer, size);
    if (!mn_mesh_find_file(mesh_path, mesh_size)) {
        mesh_path[0] = 0;
        return;
    }
    mn_mesh_init(&mesh);
    if (mn_mesh_read(mesh_path, &mesh, &diag) || mn_host_read(NULL, &own, &diag) ||
        mn_mesh_find_self(&mesh, &own, &self, why, sizeof why, &diag))
        goto out;
    for (size_t i = 0; i < mesh.n_links; i++) {
        const struct mn_mesh_end *e = mesh.links[i].ends;
        int far = e[0].node == self ? 1 : e[1].node == self ? 0 : -1;
        if (far < 0 || strcmp(mesh.nodes[e[far].node].name, peer) != 0)
            continue;
        struct mn_addr addr = mesh.nodes[e[far].node].nics[e[far].nic].addrs[0];
        addr.prefix = -1;
        mn_addr_format(&addr, host, size);
        break;
    }
out:
    mn_host_free(&own);
    mn_mesh_free(&mesh);
}

static void on_progress(void *ctx, const char *what, int step, int steps)
{
    (void)ctx;
    fprintf(stderr, "\r\033[K%d/%d %s", step, steps, what);
    fflush(stderr);
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

static int report_and_judge(const struct options *o, const struct mn_p2p_plan *plan,
                            const char *mesh_path, const struct mn_p2p_report *report)
{
    enum mn_out_format format = o->json ? MN_OUT_JSON : o->csv ? MN_OUT_CSV : MN_OUT_TEXT;
    struct mn_out *out = mn_out_new(stdout, format);

    mn_bench_print(out, plan, mesh_path, report);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet bench: writing the results failed\n");
        return 1;
    }
    if (report->wrong)
        fprintf(stderr, "meshnet bench: %llu messages arrived with wrong data or size\n",
                (unsigned long long)report->wrong);
    return report->wrong || (o->min_gbps > 0 && below_gate(report, o->min_gbps));
}

static int run_collectives(const struct options *o)
{
    struct mn_bench_collective c = {
        .collectives = &o->collectives,
        .sizes = &o->sizes,
        .types = &o->types,
        .ops = &o->ops,
        .algorithms = &o->algorithms,
        .hosts = &o->hosts,
        .plugin = o->plugin,
        .coordinator = o->coordinator,
        .token_file = o->token_file,
        .local = o->local,
        .port = o->port,
        .root = o->root,
        .iters = o->iters,
        .warmup = o->warmup,
        .abi = o->abi,
        .device = o->device,
        .duration_ms = o->duration_ms,
        .timeout_ms = o->timeout_ms,
        .check = !o->no_check,
        .json = o->json,
        .csv = o->csv,
    };

    return mn_bench_collective(&c);
}

static enum mn_err check_mode(const struct options *o, int argc, char **argv, struct mn_diag *diag)
{
    if (argc)
        return mn_fail(diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
    if (o->collectives.count && o->peer)
        return mn_fail(diag, MN_ERR_USAGE, "--collective measures between ranks, not with --peer");
    if (o->local && o->hosts.count)
        return mn_fail(diag, MN_ERR_USAGE, "--local or --hosts, not both");
    if (!o->collectives.count && !o->peer)
        return mn_fail(diag, MN_ERR_USAGE,
                       "with whom? --peer HOST, where meshnet serve runs; or --collective");
    return MN_OK;
}

static int run_with_peer(const struct options *o)
{
    unsigned long long *sizes = mn_zalloc((o->sizes.count + 1) * sizeof *sizes);
    struct mn_p2p_plan plan = {
        .sizes = sizes,
        .n_sizes = o->sizes.count,
        .latency_max = 64 << 10,
        .check = !o->no_check,
        .connections = (int)o->connections,
        .outstanding = (int)o->outstanding,
        .duration_ms = o->duration_ms,
        .iters = (unsigned long)o->iters,
        .warmup = (unsigned long)o->warmup,
        .timeout_ms = o->timeout_ms,
        .memory = (size_t)o->memory,
        .device = (int)o->device,
    };
    struct mn_p2p_report report = {.bandwidth = NULL};
    struct mn_ctl ctl = {.fd = -1};
    struct mn_plugin *plugin = NULL;
    struct mn_diag diag = {.text = ""};
    uint8_t token[MN_KEY_SIZE];
    char path[512], host[256], mesh_path[512] = "";
    int progress = isatty(STDERR_FILENO), code = 0;
    enum mn_err err = parse_sizes(o, sizes, &diag);

    if (!err)
        err = parse_tests(o, &plan, &diag);
    if (!err)
        err = get_token(o, token, &diag);
    if (!err) {
        resolve_peer(o->peer, host, sizeof host, mesh_path, sizeof mesh_path);
        mn_plugin_path(o->plugin, path, sizeof path);
        err = mn_plugin_open(path, (int)o->abi, &plugin, &diag);
    }
    if (!err)
        err = mn_ctl_connect(host, (uint16_t)o->port, o->timeout_ms, &ctl, &diag);
    if (!err)
        err = mn_ctl_authenticate(&ctl, 0, token, o->timeout_ms, &diag);
    if (!err)
        err = mn_p2p_run(plugin, &ctl, &plan, progress ? on_progress : NULL, NULL, &report, &diag);
    if (progress)
        fputs("\r\033[K", stderr);
    code = err ? mn_cmd_fail("bench", &diag) : report_and_judge(o, &plan, mesh_path, &report);
    mn_ctl_close(&ctl);
    if (plugin)
        mn_plugin_close(plugin);
    mn_p2p_free(&report);
    free(sizes);
    return code;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_diag diag;

    if (check_mode(o, argc, argv, &diag))
        return mn_cmd_fail("bench", &diag);
    return o->collectives.count ? run_collectives(o) : run_with_peer(o);
}

const struct mn_command mn_cmd_bench = {
    .name = "bench",
    .summary = "measure a link or collectives through the plugin",
    .usage = "--peer HOST | --collective LIST [--local N | --hosts LIST] [OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  meshnet bench --peer 10.0.1.2 --token-file token\n"
             "  meshnet bench --peer spark-b --sizes 64K,1M --direction out --json\n"
             "  meshnet bench --collective all-reduce --local 4 --sizes 8,64K,16M\n"
             "Exit code: 0 good, 1 measured and failed (wrong data, below --min-gbps, peer lost), "
             "2 usage.",
    .run = run,
};
