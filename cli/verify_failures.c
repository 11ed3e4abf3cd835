#include "cli/verify_failures.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define CAUSE 256

/* Numbers become #. */
static void without_numbers(const char *text, char *cause, size_t size)
{
    size_t used = 0;

    while (*text && used + 1 < size) {
        if (!isdigit((unsigned char)*text) || (used && isalpha((unsigned char)cause[used - 1]))) {
            cause[used++] = *text++;
            continue;
        }
        cause[used++] = '#';
        text += text[0] == '0' && text[1] == 'x' ? 2 : 0;
        while (isxdigit((unsigned char)*text) || (*text == '.' && isdigit((unsigned char)text[1])))
            text++;
    }
    cause[used] = '\0';
}

void mn_verify_cause(const struct mn_check_result *result, char *cause, size_t size)
{
    const char *seen = result->seen, *colon = strstr(seen, ": ");

    if (result->signal || result->timed_out || strncmp(seen, "ended without", 13) == 0) {
        snprintf(cause, size, "%s %d in %.*s", result->timed_out ? "hung" : "ended", result->signal,
                 (int)strcspn(result->step, " "), result->step);
        return;
    }
    if (colon && strlen(colon) > 10)
        seen = colon + 2; /* what was going on stands before it */
    without_numbers(seen, cause, size);
}

static int have_one_cause(const struct mn_check_job *a, const struct mn_check_job *b)
{
    char one[CAUSE], other[CAUSE];

    if (!mn_verify_alike(a, b))
        return 0;
    mn_verify_cause(&a->result, one, sizeof one);
    mn_verify_cause(&b->result, other, sizeof other);
    return strcmp(one, other) == 0;
}

const struct mn_check_job *mn_verify_same(const struct mn_verify_report *report,
                                          const struct mn_check_job *job)
{
    for (const struct mn_check_job *other = report->jobs; other < job; other++)
        if (mn_verify_found(&other->result) && have_one_cause(other, job))
            return other;
    return NULL;
}

struct group {
    const struct mn_check_job **jobs; /* the one to begin with first */
    size_t n;
};

/* A rule that uses what most others use says it with the least beside it; of what messages do, one
 * that is about messages. */
static int says_it(const struct mn_check_job *job)
{
    const char *step = job->result.step;
    int message = strncmp(step, "test", 4) == 0 || strncmp(step, "isend", 5) == 0 ||
                  strncmp(step, "irecv", 5) == 0;

    if (!(job->rule->flags & MN_CHECK_FIRST))
        return 0;
    return message && strcmp(job->family->name, "transfer") == 0 ? 2 : 1;
}

static void put(struct group *group, const struct mn_check_job *job)
{
    const struct mn_check_job **slot =
        mn_grow((void **)&group->jobs, &group->n, sizeof *group->jobs);

    *slot = job;
    if (says_it(job) > says_it(group->jobs[0])) {
        *slot = group->jobs[0];
        group->jobs[0] = job;
    }
}

static size_t collect(const struct mn_verify_report *report, struct group **groups)
{
    size_t n = 0;

    for (size_t i = 0; i < report->number; i++) {
        const struct mn_check_job *job = &report->jobs[i];
        size_t g = 0;
        if (!mn_verify_failed(report, job))
            continue;
        while (g < n && !have_one_cause((*groups)[g].jobs[0], job))
            g++;
        if (g == n)
            *(struct group *)mn_grow((void **)groups, &n, sizeof **groups) =
                (struct group){NULL, 0};
        put(&(*groups)[g], job);
    }
    return n;
}

/* The ids behind the first, for people and for --rule. */
static char *others(const struct group *group)
{
    char *text = mn_strdup("");

    for (size_t i = 1; i < group->n; i++) {
        const char *id = group->jobs[i]->rule->id;
        if (i > 1 && strcmp(id, group->jobs[i - 1]->rule->id) == 0)
            continue; /* with its ends in two processes */
        char *longer = mn_asprintf("%s%s%s", text, text[0] ? "," : "", id);
        free(text);
        text = longer;
    }
    return text;
}

static void out_group(struct mn_verify_report *report, const struct group *group)
{
    const struct mn_check_job *first = group->jobs[0];
    struct mn_out *out = report->out;
    char version[16] = "", command[6000];
    char *rest = others(group);

    if (report->many)
        snprintf(version, sizeof version, "v%d ", first->version);
    mn_verify_command(report, first, command, sizeof command);
    mn_out_begin(out, NULL, NULL);
    if (group->n > 1)
        mn_out_note(out, MN_RED, "  %s%zu rules: %s; begin with %s", version, group->n,
                    first->result.seen, first->rule->id);
    else
        mn_out_note(out, MN_RED, "  %s%s: %s", version, first->rule->id, first->result.seen);
    mn_out_note(out, MN_PLAIN, "      %s", command);
    if (rest[0])
        mn_out_note(out, MN_PLAIN, "      the others: --rule %s", rest);
    mn_out_int(out, "rules", NULL, (int64_t)group->n);
    mn_out_str(out, "begin_with", NULL, first->rule->id);
    mn_out_int(out, "abi", NULL, first->version);
    mn_out_str(out, "seen", NULL, first->result.seen);
    mn_out_str(out, "again", NULL, command);
    mn_out_str(out, "others", NULL, rest[0] ? rest : NULL);
    mn_out_end(out);
    free(rest);
}

/* Most rules first. */
static int by_size(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return x->jobs[0] < y->jobs[0] ? -1 : 1;
}

void mn_verify_failures(struct mn_verify_report *report)
{
    struct group *groups = NULL;
    size_t n = collect(report, &groups);

    if (n > 1)
        qsort(groups, n, sizeof *groups, by_size);
    if (n)
        mn_out_note(report->out, MN_BOLD, "what fails, most first, and the command for each:");
    mn_out_list_begin(report->out, "failures", NULL);
    for (size_t g = 0; g < n; g++) {
        out_group(report, &groups[g]);
        free(groups[g].jobs);
    }
    mn_out_list_end(report->out);
    free(groups);
}

static int still_fails(const struct mn_verify_report *report, const struct mn_verify_known *known)
{
    for (size_t i = 0; i < report->number; i++) {
        const struct mn_check_job *job = &report->jobs[i];
        if (job->rule == known->rule && job->version == known->version && job->two == known->two)
            return job->result.status != MN_CHECK_PASS;
    }
    return 1; /* it did not run */
}

void mn_verify_mended(struct mn_verify_report *report)
{
    const struct mn_verify_baseline *baseline = report->baseline;

    mn_out_list_begin(report->out, "mended", NULL);
    for (size_t i = 0; baseline && i < baseline->n; i++) {
        const struct mn_verify_known *known = &baseline->known[i];
        if (still_fails(report, known))
            continue;
        mn_out_begin(report->out, NULL, NULL);
        mn_out_note(report->out, MN_YELLOW, "%s v%d no longer fails: take line %u out of %s",
                    known->rule->id, known->version, known->line, baseline->path);
        mn_out_str(report->out, "id", NULL, known->rule->id);
        mn_out_int(report->out, "abi", NULL, known->version);
        mn_out_int(report->out, "line", NULL, known->line);
        mn_out_end(report->out);
    }
    mn_out_list_end(report->out);
}
