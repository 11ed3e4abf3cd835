/* TAP and JUnit, for machines that run tests. */
#include <stdio.h>

#include "cli/verify_report.h"
#include "topo/base/out.h"

static void tap_begin(struct mn_verify_report *report)
{
    printf("TAP version 13\n1..%zu\n", report->n);
}

static void tap_job(struct mn_verify_report *report, const struct mn_check_job *job)
{
    const struct mn_check_result *result = &job->result;
    int found = mn_verify_found(result), failed = mn_verify_counts(report, job);
    char version[16] = "", command[6000];

    if (report->many)
        snprintf(version, sizeof version, "v%d ", job->version);
    printf("%sok %zu - %s%s %s%s%s%s%s\n", failed ? "not " : "", report->number, version,
           job->rule->id, job->rule->title, mn_verify_ends(job),
           result->status == MN_CHECK_SKIP ? " # SKIP " : "",
           result->status == MN_CHECK_SKIP ? result->seen : "",
           failed && mn_verify_known(report->baseline, job) ? " # TODO a known failure" : "");
    if (found || report->verbose)
        printf("# %s: %s\n# requires: %s\n# grade: %s; %s\n", mn_check_status_name(result->status),
               result->seen, job->rule->needs, mn_check_grade_name(job->rule->grade),
               job->rule->evidence);
    for (int i = 0; i < result->n_log && found; i++)
        printf("# plugin: %s\n", result->log[i]);
    mn_verify_command(report, job, command, sizeof command);
    if (found)
        printf("# again: %s\n", command);
    fflush(stdout);
}

static int tap_end(struct mn_verify_report *report)
{
    (void)report;
    return mn_out_lost(stdout);
}

const struct mn_verify_format mn_verify_tap = {tap_begin, tap_job, tap_end};

static void xml(const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", stdout);
            break;
        case '<':
            fputs("&lt;", stdout);
            break;
        case '>':
            fputs("&gt;", stdout);
            break;
        case '"':
            fputs("&quot;", stdout);
            break;
        default:
            putchar(*text);
        }
}

static void xml_attribute(const char *name, const char *text)
{
    printf(" %s=\"", name);
    xml(text);
    putchar('"');
}

/* The numbers stand before the cases, so everything is written at the end. */
static void junit_nothing(struct mn_verify_report *report)
{
    (void)report;
}

static void junit_later(struct mn_verify_report *report, const struct mn_check_job *job)
{
    (void)report;
    (void)job;
}

static void junit_found(const struct mn_verify_report *report, const struct mn_check_job *job,
                        const char *tag)
{
    const struct mn_check_result *result = &job->result;
    char command[6000];

    mn_verify_command(report, job, command, sizeof command);
    printf("      <%s", tag);
    if (mn_verify_failed(report, job))
        xml_attribute("message", result->seen);
    printf(">%s: ", mn_check_status_name(result->status));
    xml(result->seen);
    printf("\nrequires: ");
    xml(job->rule->needs);
    printf("\ngrade: %s; ", mn_check_grade_name(job->rule->grade));
    xml(job->rule->evidence);
    for (int i = 0; i < result->n_log; i++) {
        printf("\nplugin: ");
        xml(result->log[i]);
    }
    printf("\nagain: ");
    xml(command);
    printf("</%s>\n", tag);
}

static int is_skipped(const struct mn_verify_report *report, const struct mn_check_job *job)
{
    return job->result.status == MN_CHECK_SKIP ||
           (mn_verify_counts(report, job) && mn_verify_known(report->baseline, job));
}

static void junit_case(const struct mn_verify_report *report, const struct mn_check_job *job)
{
    const struct mn_check_result *result = &job->result;
    char name[100];

    snprintf(name, sizeof name, "%s%s", job->rule->id, mn_verify_ends(job));
    printf("    <testcase");
    xml_attribute("classname", job->family->name);
    xml_attribute("name", name);
    printf(" time=\"%.3f\">\n", result->ms / 1000.0);
    if (mn_verify_failed(report, job)) {
        junit_found(report, job, "failure");
    } else if (is_skipped(report, job)) {
        printf("      <skipped");
        xml_attribute("message", result->status == MN_CHECK_SKIP ? result->seen : "known failure");
        printf("/>\n");
    } else if (mn_verify_found(result)) {
        junit_found(report, job, "system-out");
    }
    printf("    </testcase>\n");
}

/* The jobs of one version, from the first on; returns their number. */
static size_t junit_suite(const struct mn_verify_report *report, const struct mn_check_job *first)
{
    const struct mn_check_job *end = report->jobs + report->n, *job;
    size_t failed = 0, skipped = 0;
    const int tuner = first->family->interface == MN_CHECK_TUNER;
    const char *plugin = tuner ? report->info->tuner_name : report->info->name;
    double seconds = 0;
    char name[300];

    for (job = first; job < end && mn_verify_alike(job, first); job++) {
        failed += (size_t)mn_verify_failed(report, job);
        skipped += (size_t)is_skipped(report, job);
        seconds += job->result.ms / 1000.0;
    }
    snprintf(name, sizeof name, "%s%s v%d", plugin[0] ? plugin : "?", tuner ? " tuner" : "",
             first->version);
    printf("  <testsuite");
    xml_attribute("name", name);
    printf(" tests=\"%td\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.3f\">\n",
           job - first, failed, skipped, seconds);
    for (const struct mn_check_job *c = first; c < job; c++)
        junit_case(report, c);
    printf("  </testsuite>\n");
    return (size_t)(job - first);
}

static int junit_end(struct mn_verify_report *report)
{
    printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
    xml_attribute("name", report->target->path);
    printf(">\n");
    for (size_t i = 0; i < report->number;)
        i += junit_suite(report, &report->jobs[i]);
    printf("</testsuites>\n");
    return mn_out_lost(stdout);
}

const struct mn_verify_format mn_verify_junit = {junit_nothing, junit_later, junit_end};
