/* Text and JSON, from the same calls. */
#include "cli/verify_report.h"

#include <stdio.h>
#include <string.h>

#include "cli/verify_failures.h"
#include "topo/base/alloc.h"
#include "topo/base/shell.h"

int mn_verify_found(const struct mn_check_result *result)
{
    return result->status == MN_CHECK_FAIL || result->status == MN_CHECK_WARN ||
           result->status == MN_CHECK_NOTE;
}

int mn_verify_counts(const struct mn_verify_report *report, const struct mn_check_job *job)
{
    return job->result.status == MN_CHECK_FAIL ||
           (report->strict && job->result.status == MN_CHECK_WARN);
}

int mn_verify_failed(const struct mn_verify_report *report, const struct mn_check_job *job)
{
    return mn_verify_counts(report, job) && !mn_verify_known(report->baseline, job);
}

static size_t peer_options(const struct mn_verify_report *report, char *text, size_t size)
{
    char host[300], token[600] = "";

    (void)mn_shell_word(report->peer, host, sizeof host);
    if (report->token_file)
        (void)mn_shell_word(report->token_file, token, sizeof token);
    return (size_t)snprintf(text, size, "--peer %s --port %ld %s%s%s", host, report->port,
                            token[0] ? "--token-file " : "", token, token[0] ? " " : "");
}

const char *mn_verify_ends(const struct mn_check_job *job)
{
    return job->two ? " (two processes)" : "";
}

void mn_verify_command(const struct mn_verify_report *report, const struct mn_check_job *job,
                       char *text, size_t size)
{
    char library[4200], options[4000] = "";
    size_t used = 0;

    (void)mn_shell_word(report->target->path, library, sizeof library);
    if (job->version)
        used += (size_t)snprintf(options, sizeof options, "--version v%d ", job->version);
    if (report->profile)
        used += (size_t)snprintf(options + used, sizeof options - used, "--profile %.32s ",
                                 report->profile);
    if (report->peer)
        used += peer_options(report, options + used, sizeof options - used);
    if (job->two)
        used += (size_t)snprintf(options + used, sizeof options - used, "--two ");
    if (report->target->limit_ms != MN_VERIFY_TIMEOUT_MS)
        used += (size_t)snprintf(options + used, sizeof options - used, "--timeout %ums ",
                                 report->target->limit_ms);
    for (int i = 0; i < report->target->n_traces && used < sizeof options; i++) {
        char trace[600];
        (void)mn_shell_word(report->target->traces[i], trace, sizeof trace);
        used += (size_t)snprintf(options + used, sizeof options - used, "--trace %s ", trace);
    }
    snprintf(text, size, "meshnet verify-plugin %s--rule %s --seed %llu %s", options, job->rule->id,
             (unsigned long long)job->result.seed, library);
}

int mn_verify_alike(const struct mn_check_job *a, const struct mn_check_job *b)
{
    return a->version == b->version && a->family->interface == b->family->interface;
}

static void heading(struct mn_verify_report *report, const struct mn_check_job *job)
{
    if (report->many && job->version && (job == report->jobs || !mn_verify_alike(job - 1, job)))
        mn_out_note(report->out, MN_BOLD, "%sABI v%d",
                    job->family->interface == MN_CHECK_TUNER ? "tuner " : "", job->version);
}

/* Skips with one reason are one line. */
static void write_held(struct mn_verify_report *report)
{
    const struct mn_check_job *first = report->held, *last;
    char ids[80];

    if (!first)
        return;
    last = first + report->n_held - 1;
    heading(report, first);
    report->held = NULL;
    if (first == last) {
        mn_out_note(report->out, MN_DIM, "skip  %-26s %s%s", first->rule->id, first->rule->title,
                    mn_verify_ends(first));
    } else {
        snprintf(ids, sizeof ids, "%s to %s", first->rule->id, last->rule->id);
        mn_out_note(report->out, MN_DIM, "skip  %-26s %zu rules", ids, report->n_held);
    }
    if (first->result.seen[0])
        mn_out_note(report->out, MN_PLAIN, "      seen:     %s", first->result.seen);
}

/* Whether the job waits for those behind it, or is one with those before it. */
static int hold(struct mn_verify_report *report, const struct mn_check_job *job)
{
    const struct mn_check_job *held = report->held;
    int skipped = job->result.status == MN_CHECK_SKIP && !report->verbose;

    if (held && skipped && mn_verify_alike(held, job) &&
        strcmp(held->result.seen, job->result.seen) == 0) {
        report->n_held++;
        return 1;
    }
    write_held(report);
    report->held = skipped ? job : NULL;
    report->n_held = 1;
    return skipped;
}

static void text_job(struct mn_verify_report *report, const struct mn_check_job *job,
                     const char *command)
{
    static const enum mn_color colors[] = {MN_GREEN, MN_YELLOW, MN_RED, MN_DIM, MN_PLAIN};
    const struct mn_check_result *result = &job->result;
    int found = mn_verify_found(result), open = found || report->verbose;
    const struct mn_check_job *same = NULL;
    struct mn_out *out = report->out;

    if (hold(report, job))
        return;
    heading(report, job);
    if (found && !report->verbose)
        same = mn_verify_same(report, job);
    mn_out_note(out, colors[result->status], "%-5s %-26s %s%s%s%s%s",
                mn_check_status_name(result->status), job->rule->id, job->rule->title,
                mn_verify_ends(job), mn_verify_known(report->baseline, job) ? " (known)" : "",
                same ? ": as " : "", same ? same->rule->id : "");
    if (same)
        return;
    if ((open || result->status == MN_CHECK_SKIP) && result->seen[0])
        mn_out_note(out, MN_PLAIN, "      seen:     %s", result->seen);
    if (!open)
        return;
    mn_out_note(out, MN_PLAIN, "      requires: %s", job->rule->needs);
    mn_out_note(out, MN_PLAIN, "      grade:    %s; %s", mn_check_grade_name(job->rule->grade),
                job->rule->evidence);
    if (result->runs > 1)
        mn_out_note(out, MN_PLAIN, "      runs:     %u, the last with seed %llu", result->runs,
                    (unsigned long long)result->seed);
    for (int i = 0; i < result->n_log && found; i++)
        mn_out_note(out, MN_PLAIN, "      plugin:   %s", result->log[i]);
    if (found)
        mn_out_note(out, MN_PLAIN, "      again:    %s", command);
}

/* The values are for JSON; in text the notes above carry them. */
static void out_job(struct mn_verify_report *report, const struct mn_check_job *job)
{
    const struct mn_check_rule *rule = job->rule;
    const struct mn_check_result *result = &job->result;
    struct mn_out *out = report->out;
    int found = mn_verify_found(result);
    char command[6000];

    mn_verify_command(report, job, command, sizeof command);
    mn_out_begin(out, NULL, NULL);
    text_job(report, job, command);
    mn_out_str(out, "id", NULL, rule->id);
    mn_out_int(out, "abi", NULL, job->version);
    mn_out_bool(out, "two", NULL, job->two);
    mn_out_str(out, "family", NULL, job->family->name);
    mn_out_str(out, "title", NULL, rule->title);
    mn_out_str(out, "grade", NULL, mn_check_grade_name(rule->grade));
    mn_out_str(out, "evidence", NULL, rule->evidence);
    mn_out_str(out, "result", NULL, mn_check_status_name(result->status));
    mn_out_bool(out, "known", NULL, found && mn_verify_known(report->baseline, job) != NULL);
    mn_out_bool(out, "judged", NULL, !result->left);
    mn_out_str(out, "requires", NULL, rule->needs);
    mn_out_str(out, "seen", NULL, result->seen[0] ? result->seen : NULL);
    mn_out_str(out, "last_step", NULL, result->step[0] ? result->step : NULL);
    mn_out_int(out, "signal", NULL, result->signal);
    mn_out_bool(out, "timed_out", NULL, result->timed_out);
    mn_out_int(out, "ms", NULL, result->ms);
    mn_out_int(out, "seed", NULL, (int64_t)result->seed);
    mn_out_int(out, "runs", NULL, result->runs);
    mn_out_str(out, "again", NULL, command);
    mn_out_list_begin(out, "plugin_log", NULL);
    for (int i = 0; i < result->n_log && mn_verify_found(result); i++) {
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "line", NULL, result->log[i]);
        mn_out_end(out);
    }
    mn_out_list_end(out);
    mn_out_end(out);
}

static void out_begin(struct mn_verify_report *report)
{
    const struct mn_check_info *info = report->info;
    const int tuner = info->tuner_versions[0] != '\0', only_tuner = mn_check_only_tuner(info);
    struct mn_out *out = report->out;

    mn_out_str(out, "library", "library", info->path[0] ? info->path : report->target->path);
    mn_out_str(out, "name", only_tuner ? NULL : "name", info->name[0] ? info->name : NULL);
    mn_out_str(out, "exports", only_tuner ? NULL : "exports",
               info->versions[0] ? info->versions : NULL);
    mn_out_int(out, "abi", report->many || only_tuner ? NULL : "ABI driven", info->version);
    mn_out_str(out, "tuner", tuner ? "tuner" : NULL, info->tuner_name[0] ? info->tuner_name : NULL);
    mn_out_str(out, "tuner_exports", tuner ? "tuner exports" : NULL,
               tuner ? info->tuner_versions : NULL);
    mn_out_int(out, "tuner_abi", tuner && !report->many ? "tuner ABI driven" : NULL,
               report->tuner_version);
    mn_out_str(out, "profile", report->profile ? "profile" : NULL, report->profile);
    mn_out_int(out, "seed", NULL, (int64_t)report->target->seed);
    mn_out_list_begin(out, "rules", NULL);
}

static void text_begin(struct mn_verify_report *report)
{
    report->out = mn_out_new(stdout, MN_OUT_TEXT);
    out_begin(report);
}

static void json_begin(struct mn_verify_report *report)
{
    report->out = mn_out_new(stdout, MN_OUT_JSON);
    out_begin(report);
}

static int out_end(struct mn_verify_report *report)
{
    struct mn_out *out = report->out;
    const int *n = report->counts;
    char notes[64] = "";
    int used = 0;

    write_held(report);
    mn_out_list_end(out);
    mn_verify_failures(report);
    mn_verify_mended(report);
    if (n[MN_CHECK_NOTE])
        used += snprintf(notes, sizeof notes, ", %d noted", n[MN_CHECK_NOTE]);
    if (report->known)
        snprintf(notes + used, sizeof notes - (size_t)used, ", %d known", report->known);
    if (report->late)
        mn_out_note(out, MN_RED, "%d rules were not judged in time; --total gives more",
                    report->late);
    mn_out_note(out, report->failed || report->late ? MN_RED : MN_GREEN,
                "%zu rules: %d passed, %d failed, %d warned, %d skipped%s", report->number,
                n[MN_CHECK_PASS], n[MN_CHECK_FAIL], n[MN_CHECK_WARN], n[MN_CHECK_SKIP], notes);
    mn_out_begin(out, "totals", NULL);
    mn_out_int(out, "rules", NULL, (int64_t)report->number);
    for (int s = 0; s < MN_CHECK_N_STATUS; s++)
        mn_out_int(out, mn_check_status_name((enum mn_check_status)s), NULL, n[s]);
    mn_out_int(out, "known", NULL, report->known);
    mn_out_int(out, "late", NULL, report->late);
    mn_out_end(out);
    return mn_out_free(out);
}

const struct mn_verify_format mn_verify_text = {text_begin, out_job, out_end};
const struct mn_verify_format mn_verify_json = {json_begin, out_job, out_end};
