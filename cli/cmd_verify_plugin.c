/* meshnet verify-plugin: runs the rules of bench/check on a library and reports them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/check.h"
#include "cli/cmd.h"
#include "cli/plugin_path.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"

#define NAME "verify-plugin"

enum format { TEXT, JSON, TAP };

struct options {
    long abi;
    struct mn_opt_list only;
    int list, format, json, verbose;
    unsigned timeout_ms;
};

static const struct mn_opt options[] = {
    {.name = "abi",
     .type = MN_OPT_INT,
     .arg = "N",
     .offset = offsetof(struct options, abi),
     .min = 8,
     .max = 10,
     .help = "Drive this ABI version instead of the newest one exported."},
    {.name = "only",
     .type = MN_OPT_LIST,
     .arg = "ID|FAMILY",
     .offset = offsetof(struct options, only),
     .help = "Run only these rules or families; may be given several times."},
    {.name = "list",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, list),
     .help = "Print the rules instead of running them."},
    {.name = "timeout",
     .type = MN_OPT_DURATION,
     .arg = "DURATION",
     .def = "20s",
     .offset = offsetof(struct options, timeout_ms),
     .min = 100,
     .max = 3600000,
     .help = "Time limit of each rule; a rule that reaches it fails."},
    {.name = "format",
     .type = MN_OPT_CHOICE,
     .arg = "FORMAT",
     .def = "text",
     .offset = offsetof(struct options, format),
     .choices = "text|json|tap",
     .help = "How to report."},
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

struct report {
    const struct options *options;
    const struct mn_check_target *target;
    const struct mn_check_info *info;
    struct mn_out *out; /* NULL for TAP */
    int counts[MN_CHECK_N_STATUS], number;
};

static int selected(const struct options *o, const struct mn_check_family *family,
                    const struct mn_check_rule *rule)
{
    for (size_t i = 0; i < o->only.count; i++)
        if (mn_check_matches(family, rule, o->only.items[i]))
            return 1;
    return o->only.count == 0;
}

/* Calls each selected rule in order; stops at the first error. */
static enum mn_err walk(const struct options *o,
                        enum mn_err (*visit)(void *ctx, const struct mn_check_family *,
                                             const struct mn_check_rule *, struct mn_diag *),
                        void *ctx, struct mn_diag *diag)
{
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_families[f]->rules[r];
            enum mn_err err = selected(o, mn_check_families[f], rule)
                                  ? visit(ctx, mn_check_families[f], rule, diag)
                                  : MN_OK;
            if (err)
                return err;
        }
    return MN_OK;
}

static enum mn_err check_only(const struct options *o, struct mn_diag *diag)
{
    for (size_t i = 0; i < o->only.count; i++) {
        int known = 0;
        for (int f = 0; mn_check_families[f]; f++)
            for (size_t r = 0; r < mn_check_families[f]->n_rules; r++)
                known |= mn_check_matches(mn_check_families[f], &mn_check_families[f]->rules[r],
                                          o->only.items[i]);
        if (!known)
            return mn_fail(diag, MN_ERR_USAGE,
                           "--only \"%s\": no rule or family of this name; --list shows them",
                           o->only.items[i]);
    }
    return MN_OK;
}

static enum mn_err count_rule(void *ctx, const struct mn_check_family *family,
                              const struct mn_check_rule *rule, struct mn_diag *diag)
{
    (void)family;
    (void)rule;
    (void)diag;
    ++*(int *)ctx;
    return MN_OK;
}

static enum mn_err list_rule(void *ctx, const struct mn_check_family *family,
                             const struct mn_check_rule *rule, struct mn_diag *diag)
{
    struct mn_out *out = ctx;

    (void)diag;
    mn_out_row(out);
    mn_out_cell(out, rule->id);
    mn_out_cell(out, family->title);
    mn_out_cell(out, rule->title);
    mn_out_cell(out, rule->needs);
    return MN_OK;
}

static int list(const struct options *o)
{
    static const struct mn_col cols[] = {{"id", "RULE", 0},
                                         {"family", "FAMILY", 0},
                                         {"title", "WHAT MUST HOLD", 0},
                                         {"requires", "WHAT THE API REQUIRES", 0}};
    struct mn_out *out = mn_out_new(stdout, o->format == JSON ? MN_OUT_JSON : MN_OUT_TEXT);

    mn_out_table(out, "rules", NULL, cols, 4);
    walk(o, list_rule, out, NULL);
    mn_out_table_end(out);
    return mn_out_free(out) == 0 ? 0 : 1;
}

static void tap_rule(const struct report *report, const struct mn_check_rule *rule,
                     const struct mn_check_result *result)
{
    int bad = result->status == MN_CHECK_FAIL;

    printf("%sok %d - %s %s%s%s\n", bad ? "not " : "", report->number, rule->id, rule->title,
           result->status == MN_CHECK_SKIP ? " # SKIP " : "",
           result->status == MN_CHECK_SKIP ? result->seen : "");
    if (bad || result->status == MN_CHECK_WARN || report->options->verbose)
        printf("# %s: %s\n# requires: %s\n", mn_check_status_name(result->status), result->seen,
               rule->needs);
    if (bad)
        for (int i = 0; i < result->n_log; i++)
            printf("# plugin: %s\n", result->log[i]);
    fflush(stdout);
}

static void text_rule(const struct report *report, const struct mn_check_rule *rule,
                      const struct mn_check_result *result)
{
    static const enum mn_color colors[] = {MN_GREEN, MN_YELLOW, MN_RED, MN_DIM, MN_PLAIN};
    int open = result->status != MN_CHECK_PASS || report->options->verbose;

    mn_out_note(report->out, colors[result->status], "%-5s %-26s %s",
                mn_check_status_name(result->status), rule->id, rule->title);
    if (open && result->seen[0])
        mn_out_note(report->out, MN_PLAIN, "      seen:     %s", result->seen);
    if ((open && result->status != MN_CHECK_SKIP) || report->options->verbose)
        mn_out_note(report->out, MN_PLAIN, "      requires: %s", rule->needs);
    for (int i = 0; i < result->n_log && result->status == MN_CHECK_FAIL; i++)
        mn_out_note(report->out, MN_PLAIN, "      plugin:   %s", result->log[i]);
}

/* The values are for JSON; in text the notes above carry them. */
static void out_rule(const struct report *report, const struct mn_check_family *family,
                     const struct mn_check_rule *rule, const struct mn_check_result *result)
{
    struct mn_out *out = report->out;

    mn_out_begin(out, NULL, NULL);
    text_rule(report, rule, result);
    mn_out_str(out, "id", NULL, rule->id);
    mn_out_str(out, "family", NULL, family->name);
    mn_out_str(out, "title", NULL, rule->title);
    mn_out_str(out, "result", NULL, mn_check_status_name(result->status));
    mn_out_str(out, "requires", NULL, rule->needs);
    mn_out_str(out, "seen", NULL, result->seen[0] ? result->seen : NULL);
    mn_out_str(out, "last_step", NULL, result->step[0] ? result->step : NULL);
    mn_out_int(out, "signal", NULL, result->signal);
    mn_out_bool(out, "timed_out", NULL, result->timed_out);
    mn_out_int(out, "ms", NULL, result->ms);
    mn_out_list_begin(out, "plugin_log", NULL);
    for (int i = 0; i < result->n_log && result->status == MN_CHECK_FAIL; i++) {
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "line", NULL, result->log[i]);
        mn_out_end(out);
    }
    mn_out_list_end(out);
    mn_out_end(out);
}

static enum mn_err run_rule(void *ctx, const struct mn_check_family *family,
                            const struct mn_check_rule *rule, struct mn_diag *diag)
{
    struct report *report = ctx;
    struct mn_check_result result;
    enum mn_err err = mn_check_run(rule, report->target, &result, diag);

    if (err)
        return err;
    report->number++;
    report->counts[result.status]++;
    if (report->out)
        out_rule(report, family, rule, &result);
    else
        tap_rule(report, rule, &result);
    return MN_OK;
}

static void out_head(const struct report *report)
{
    const struct mn_check_info *info = report->info;
    struct mn_out *out = report->out;

    mn_out_str(out, "library", "library", info->path[0] ? info->path : report->target->path);
    mn_out_str(out, "name", "name", info->name[0] ? info->name : NULL);
    mn_out_str(out, "exports", "exports", info->versions[0] ? info->versions : NULL);
    mn_out_int(out, "abi", "ABI driven", info->version);
    mn_out_list_begin(out, "rules", NULL);
}

static void out_foot(const struct report *report)
{
    struct mn_out *out = report->out;
    const int *n = report->counts;

    mn_out_list_end(out);
    mn_out_note(out, n[MN_CHECK_FAIL] ? MN_RED : MN_GREEN,
                "%d rules: %d passed, %d failed, %d warned, %d skipped", report->number,
                n[MN_CHECK_PASS], n[MN_CHECK_FAIL], n[MN_CHECK_WARN], n[MN_CHECK_SKIP]);
    mn_out_begin(out, "totals", NULL);
    mn_out_int(out, "rules", NULL, report->number);
    mn_out_int(out, "pass", NULL, n[MN_CHECK_PASS]);
    mn_out_int(out, "fail", NULL, n[MN_CHECK_FAIL]);
    mn_out_int(out, "warn", NULL, n[MN_CHECK_WARN]);
    mn_out_int(out, "skip", NULL, n[MN_CHECK_SKIP]);
    mn_out_end(out);
}

static int verify(const struct options *o, const struct mn_check_target *target)
{
    struct mn_check_info info;
    struct mn_diag diag;
    struct report report = {.options = o, .target = target, .info = &info};
    enum mn_err err = mn_check_probe(target, &info, &diag);
    int failed_output = 0;

    if (err) {
        mn_cmd_fail(NAME, &diag);
        return err == MN_ERR_NOTFOUND ? 2 : mn_err_exit_code(err);
    }
    if (o->format == TAP) {
        int total = 0;
        walk(o, count_rule, &total, NULL);
        printf("TAP version 13\n1..%d\n", total);
    } else {
        report.out = mn_out_new(stdout, o->format == JSON ? MN_OUT_JSON : MN_OUT_TEXT);
        out_head(&report);
    }
    err = walk(o, run_rule, &report, &diag);
    if (report.out) {
        out_foot(&report);
        failed_output = mn_out_free(report.out) != 0;
    } else {
        failed_output = fflush(stdout) != 0;
    }
    if (err)
        return mn_cmd_fail(NAME, &diag);
    return report.counts[MN_CHECK_FAIL] || failed_output ? 1 : 0;
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

static int run(const void *values, int argc, char **argv)
{
    struct options o = *(const struct options *)values;
    struct mn_check_target target = {.version = (int)o.abi, .limit_ms = o.timeout_ms};
    struct mn_diag diag;

    if (o.json)
        o.format = JSON;
    if (check_only(&o, &diag) != MN_OK)
        return mn_cmd_fail(NAME, &diag);
    if (o.list)
        return list(&o);
    if (argc > 1) {
        mn_fail(&diag, MN_ERR_USAGE,
                "one library at a time, after all options; \"%s\" is one too many", argv[1]);
        return mn_cmd_fail(NAME, &diag);
    }
    if (find_library(argc ? argv[0] : NULL, target.path, sizeof target.path, &diag) != MN_OK)
        return mn_cmd_fail(NAME, &diag);
    return verify(&o, &target);
}

const struct mn_command mn_cmd_verify_plugin = {
    .name = NAME,
    .summary = "check a network plugin against the rules NCCL and RCCL rely on",
    .usage = "[OPTION]… [LIBRARY]",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "LIBRARY is a file or a name for the loader; without it, the libnccl-net-mesh.so\n"
             "beside this program. The environment reaches the plugin unchanged, so\n"
             "NCCL_SOCKET_IFNAME=lo meshnet verify-plugin\n"
             "runs it over loopback.\n\n"
             "Exit codes: 0 every rule passed, warned or was skipped; 1 a rule failed; 2 usage,\n"
             "no such file, or not a shared library.\n",
    .run = run,
};
