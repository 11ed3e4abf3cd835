/* meshnet verify-plugin: runs the rules of bench/check on a library and reports them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "bench/check.h"
#include "bench/check/far.h"
#include "bench/check/profile.h"
#include "bench/trace/replay.h"
#include "cli/cmd.h"
#include "cli/host_name.h"
#include "cli/plugin_path.h"
#include "cli/rank_env.h"
#include "cli/verify_jobs.h"
#include "cli/verify_report.h"
#include "cli/verify_rules.h"
#include "topo/base/alloc.h"

#define NAME     "verify-plugin"
#define MAX_JOBS 16      /* by default: rules that poll gain nothing from more */
#define WAITING  8       /* rules at once when they only wait, by default */
#define TOTAL_MS 180000u /* of the rules of one version */
#define SEED_MAX 4294967295.0

enum format { TEXT, JSON, TAP, JUNIT };

static const struct mn_verify_format *const formats[] = {
    [TEXT] = &mn_verify_text,
    [JSON] = &mn_verify_json,
    [TAP] = &mn_verify_tap,
    [JUNIT] = &mn_verify_junit,
};

struct options {
    const char *version, *profile, *explain, *peer, *token_file;
    struct mn_opt_list rules, traces;
    int all_versions, list, format, json, verbose, wide, strict, two;
    long seed, jobs, port;
    int fail_fast;
    const char *baseline, *write_baseline;
    unsigned timeout_ms, stress_ms, total_ms;
};

static const struct mn_opt options[] = {
    {.name = "version",
     .type = MN_OPT_STRING,
     .arg = "vN",
     .offset = offsetof(struct options, version),
     .help = "Drive this ABI version instead of the newest one exported: of the tuner, where\n"
             "only its rules run."},
    {.name = "all-versions",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, all_versions),
     .help = "Drive every version the library exports, one after the other, its tuner's too."},
    {.name = "profile",
     .type = MN_OPT_STRING,
     .arg = "RELEASE",
     .offset = offsetof(struct options, profile),
     .help = "Behave like nccl-2.27, rccl-7, …: the version it loads, the way it calls."},
    {.name = "peer",
     .type = MN_OPT_STRING,
     .arg = "HOST",
     .offset = offsetof(struct options, peer),
     .help = "Run rules of two ends with one of them there, at meshnet serve; localhost\n"
             "without a token: --two."},
    {.name = "two",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, two),
     .help = "Run rules of two ends with each of them in a process of its own, here."},
    {.name = "port",
     .type = MN_OPT_INT,
     .arg = "PORT",
     .def = "18515",
     .offset = offsetof(struct options, port),
     .min = 1,
     .max = 65535,
     .help = "Port of meshnet serve."},
    {.name = "token-file",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, token_file),
     .help = "The token of meshnet serve; default: $MESHNET_TOKEN."},
    {.name = "rule",
     .type = MN_OPT_LIST,
     .arg = "ID|FAMILY",
     .offset = offsetof(struct options, rules),
     .help = "Run only these rules or families; may be given several times."},
    {.name = "trace",
     .type = MN_OPT_LIST,
     .arg = "FILE",
     .offset = offsetof(struct options, traces),
     .help = "Recorded traffic to play (scenario.trace): the traces of a job's processes."},
    {.name = "seed",
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, seed),
     .min = 1,
     .max = SEED_MAX,
     .help = "Replay the random choices of this seed; 1 unless given."},
    {.name = "stress",
     .type = MN_OPT_DURATION,
     .arg = "DURATION",
     .offset = offsetof(struct options, stress_ms),
     .min = 1,
     .max = 604800000,
     .help = "Repeat the rules that choose at random, each time with another seed."},
    {.name = "jobs",
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, jobs),
     .min = 1,
     .max = 256,
     .help = "Rules at once; as many as there are processors unless given."},
    {.name = "timeout",
     .type = MN_OPT_DURATION,
     .arg = "DURATION",
     .def = "30s",
     .offset = offsetof(struct options, timeout_ms),
     .min = 100,
     .max = 3600000,
     .help = "Time limit of each rule; a rule that reaches it fails."},
    {.name = "total",
     .type = MN_OPT_DURATION,
     .arg = "DURATION",
     .offset = offsetof(struct options, total_ms),
     .min = 1000,
     .max = 604800000,
     .help = "Time limit of the whole run; 3 minutes a version, and --stress, unless given."},
    {.name = "fail-fast",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, fail_fast),
     .help = "Stop at the first rule that fails the run."},
    {.name = "baseline",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, baseline),
     .help = "Failures that are known: they do not fail the run."},
    {.name = "write-baseline",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, write_baseline),
     .help = "Write the failures of this run, for --baseline."},
    {.name = "list",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, list),
     .help = "Print the rules instead of running them."},
    {.name = "explain",
     .type = MN_OPT_STRING,
     .arg = "ID|FAMILY",
     .offset = offsetof(struct options, explain),
     .help = "Print what a rule requires, why, and where that comes from."},
    {.name = "strict",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, strict),
     .help = "Rules of grade should count for the exit status too."},
    {.name = "format",
     .type = MN_OPT_CHOICE,
     .arg = "FORMAT",
     .def = "text",
     .offset = offsetof(struct options, format),
     .choices = "text|json|tap|junit",
     .help = "How to report."},
    MN_WIDE_OPTION(struct options),
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Short for --format json."},
    {.name = "verbose",
     .letter = 'v',
     .type = MN_OPT_COUNT,
     .offset = offsetof(struct options, verbose),
     .help = "Show what the API requires and what was seen for passing rules too."},
    MN_OPT_END,
};

static struct mn_verify_choice choice_of(const struct options *o)
{
    return (struct mn_verify_choice){.names = o->rules,
                                     .flags = o->stress_ms ? MN_CHECK_RANDOM : 0u,
                                     .two_machines = o->peer != NULL,
                                     .two_processes = o->two};
}

static enum mn_err check_names(const struct options *o, struct mn_diag *diag)
{
    enum mn_err err = o->explain ? mn_verify_name("explain", o->explain, diag) : MN_OK;

    for (size_t i = 0; i < o->rules.count && !err; i++)
        err = mn_verify_name("rule", o->rules.items[i], diag);
    return err;
}

static int print_rules(const struct options *o)
{
    struct mn_verify_choice choice = choice_of(o);
    struct mn_out *out = mn_out_new(stdout, o->format == JSON ? MN_OUT_JSON : MN_OUT_TEXT);

    if (o->wide)
        mn_out_width(out, 0);
    if (o->explain)
        mn_verify_explain(out, o->explain);
    else
        mn_verify_list(out, &choice);
    (void)mn_out_free(out); /* what is lost main tells */
    return 0;
}

struct run {
    const struct mn_verify_format *format;
    struct mn_verify_report report;
};

static void job_done(void *ctx, const struct mn_check_job *job)
{
    struct run *run = ctx;

    run->report.number++;
    run->report.counts[job->result.status]++;
    run->report.failed += mn_verify_failed(&run->report, job);
    run->report.known +=
        mn_verify_counts(&run->report, job) && mn_verify_known(run->report.baseline, job) != NULL;
    run->report.late += job->result.left == MN_CHECK_LEFT_TIME;
    run->format->job(&run->report, job);
}

static int is_enough(void *ctx, const struct mn_check_job *job)
{
    const struct run *run = ctx;

    return mn_verify_failed(&run->report, job);
}

static int counts(void *ctx, const struct mn_check_job *job)
{
    return mn_verify_counts(ctx, job);
}

/* Two machines wait for each other, and patient rules as long as the plugin does. */
static unsigned total_ms(const struct options *o, unsigned versions)
{
    if (o->total_ms || o->peer)
        return o->total_ms;
    return TOTAL_MS * (versions ? versions : 1) + o->stress_ms;
}

static unsigned processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return (unsigned)(n < MAX_JOBS ? n : MAX_JOBS);
}

static int verify(const struct options *o, struct mn_check_target *target,
                  const struct mn_verify_baseline *baseline)
{
    const struct mn_verify_choice choice = choice_of(o);
    const struct mn_verify_wish wish = {target->version, o->all_versions, target->profile};
    struct mn_verify_versions versions;
    struct mn_check_info info;
    struct mn_check_job *jobs;
    size_t n;
    struct run run = {.format = formats[o->format],
                      .report = {.target = target,
                                 .info = &info,
                                 .profile = o->profile,
                                 .peer = o->peer,
                                 .token_file = o->token_file,
                                 .port = o->port,
                                 .verbose = o->verbose,
                                 .strict = o->strict,
                                 .baseline = baseline}};
    unsigned parallel = o->peer ? 1 : processors(); /* serve has few places */
    struct mn_check_plan plan = {.target = target,
                                 .parallel = o->jobs ? (unsigned)o->jobs : parallel,
                                 .waiting = o->jobs || o->peer ? 0 : WAITING,
                                 .stress_ms = o->stress_ms,
                                 .enough = o->fail_fast ? is_enough : NULL,
                                 .done = job_done,
                                 .ctx = &run};
    struct mn_diag diag;
    enum mn_err err;
    int failed_output;

    if (mn_verify_tuner_alone(&choice))
        target->version = 0; /* the wish is a tuner's */
    err = mn_check_probe(target, &info, &diag);
    if (!err)
        err = mn_verify_versions(&choice, &wish, &info, &versions, &diag);
    if (err) {
        mn_cmd_fail(NAME, &diag);
        return err == MN_ERR_NOTFOUND ? 2 : mn_err_exit_code(err);
    }
    info.version = versions.net[0];
    jobs = mn_verify_jobs(&choice, &info, &versions, &n);
    if (n == 0) {
        const int two = o->peer || o->two;
        mn_fail(&diag, MN_ERR_USAGE, "none of these rules %s%s%s",
                o->stress_ms ? "chooses at random (--stress)" : "",
                o->stress_ms && two ? " and " : "",
                !two      ? ""
                : o->peer ? "has two ends (--peer)"
                          : "has two ends (--two)");
        return mn_cmd_fail(NAME, &diag);
    }
    run.report.jobs = jobs;
    run.report.n = n;
    run.report.many = versions.n_net > 1 || versions.n_tuner > 1;
    run.report.tuner_version = versions.tuner[0];
    plan.total_ms = total_ms(o, (unsigned)(versions.n_net + versions.n_tuner));
    run.format->begin(&run.report);
    err = mn_check_run_all(&plan, jobs, n, &diag);
    failed_output = run.format->end(&run.report) != 0;
    if (!err && o->write_baseline)
        err = mn_verify_baseline_write(o->write_baseline, jobs, n, counts, &run.report, &diag);
    free(jobs);
    if (!err && failed_output)
        err = mn_cmd_lost(o->write_baseline, &diag);
    if (err)
        return mn_cmd_fail(NAME, &diag);
    return run.report.failed || run.report.late ? 1 : 0;
}

static enum mn_err find_library(const char *operand, char *path, size_t size, struct mn_diag *diag)
{
    if (!operand) {
        mn_plugin_path(NULL, path, size);
        return MN_OK;
    }
    if (strlen(operand) + 3 > size)
        return mn_fail(diag, MN_ERR_USAGE, "the library's name is too long");
    /* A file of the current folder: without a slash the loader would not look there. */
    snprintf(path, size, "%s%s", !strchr(operand, '/') && access(operand, F_OK) == 0 ? "./" : "",
             operand);
    return MN_OK;
}

/* A default run is the same every day; stress looks for what has not been seen yet. */
static uint64_t first_seed(const struct options *o)
{
    uint32_t random = 0;

    if (o->seed)
        return (uint64_t)o->seed;
    if (!o->stress_ms || getrandom(&random, sizeof random, 0) != sizeof random)
        return 1;
    return 1 + random / 2;
}

/* The other machine: it must be there before anything is judged. */
static enum mn_err read_far(const struct options *o, struct mn_check_far *far, struct mn_diag *diag)
{
    struct mn_names names;
    enum mn_err err = mn_names_read(&names, diag);

    far->port = (uint16_t)o->port;
    if (!err)
        err = mn_names_host(&names, "--peer", o->peer, far->host, sizeof far->host, diag);
    mn_names_free(&names);
    if (!err)
        err = mn_token_read(o->token_file, "meshnet serve prints one", far->token, diag);
    return err ? err : mn_far_probe(far, diag);
}

static enum mn_err read_target(const struct options *o, int argc, char **argv,
                               struct mn_check_target *target, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    if (argc > 1)
        return mn_fail(diag, MN_ERR_USAGE, "one library at a time; \"%s\" is one too many",
                       argv[1]);
    if (o->version && o->all_versions)
        return mn_fail(diag, MN_ERR_USAGE, "--version and --all-versions exclude each other");
    target->traces = o->traces.items;
    target->n_traces = (int)o->traces.count;
    for (size_t i = 0; i < o->traces.count && !err; i++) {
        struct mn_trace trace;
        err = mn_trace_read(o->traces.items[i], &trace, diag);
        if (!err)
            mn_trace_free(&trace);
    }
    if (err)
        return err;
    if (o->traces.count > MN_GROUP_RANKS)
        return mn_fail(diag, MN_ERR_USAGE, "--trace: at most %d", MN_GROUP_RANKS);
    target->seed = first_seed(o);
    target->limit_ms = o->timeout_ms;
    if (o->version)
        err = mn_verify_read_version(o->version, &target->version, diag);
    if (!err && o->profile)
        err = mn_check_profile_find(o->profile, &target->profile, diag);
    return err ? err : find_library(argc ? argv[0] : NULL, target->path, sizeof target->path, diag);
}

static int run(const void *values, int argc, char **argv)
{
    struct options o = *(const struct options *)values;
    struct mn_check_target target = {.path = ""};
    struct mn_verify_baseline baseline = {.known = NULL};
    struct mn_check_far far = {.port = 0};
    struct mn_diag diag;

    if (o.json)
        o.format = JSON;
    if (o.peer && strcmp(o.peer, "localhost") == 0 && !o.token_file && !getenv("MESHNET_TOKEN")) {
        o.peer = NULL;
        o.two = 1;
    }
    if (o.peer && o.two) {
        mn_fail(&diag, MN_ERR_USAGE, "--two and --peer %s exclude each other", o.peer);
        return mn_cmd_fail(NAME, &diag);
    }
    if (check_names(&o, &diag) != MN_OK)
        return mn_cmd_fail(NAME, &diag);
    if (o.list || o.explain)
        return print_rules(&o);
    if (read_target(&o, argc, argv, &target, &diag) != MN_OK)
        return mn_cmd_fail(NAME, &diag);
    if (o.peer && read_far(&o, &far, &diag) != MN_OK)
        return mn_cmd_fail(NAME, &diag);
    target.far = o.peer ? &far : NULL;
    if (o.baseline && mn_verify_baseline_read(o.baseline, &baseline, &diag) != MN_OK) {
        mn_cmd_fail(NAME, &diag);
        return 2;
    }
    int code = verify(&o, &target, o.baseline ? &baseline : NULL);
    mn_verify_baseline_free(&baseline);
    mn_wipe(far.token, sizeof far.token);
    return code;
}

const struct mn_command mn_cmd_verify_plugin = {
    .name = NAME,
    .summary = "check a network plugin, or a tuner, against the rules NCCL and RCCL rely on",
    .usage = "[OPTION]… [LIBRARY]",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "LIBRARY is a file or a name for the loader; without it, the libnccl-net-mesh.so\n"
             "beside this program. The environment reaches the plugin unchanged, so\n"
             "NCCL_SOCKET_IFNAME=lo meshnet verify-plugin\n"
             "runs it over loopback.",
    .exits = {{0, MN_GOOD ": no rule of grade must failed"},
              {1, MN_FAILED "a rule of grade must, or with --strict one of grade should"},
              {2, MN_REFUSED
               "no such file, not a shared library, or a version that it does not export"}},
    .run = run,
};
