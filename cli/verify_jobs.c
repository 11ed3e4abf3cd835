#include "cli/verify_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check/raw.h"
#include "bench/host/tuner.h"
#include "topo/base/alloc.h"

/* 1 when n is one of them. */
static int add_known(int version, long n, char *known, size_t size)
{
    size_t used = strlen(known);

    snprintf(known + used, size - used, "%sv%d", used ? ", " : "", version);
    return n == version;
}

enum mn_err mn_verify_read_version(const char *text, int *version, struct mn_diag *diag)
{
    char known[96] = "", *end;
    long n = strtol(text + (text[0] == 'v'), &end, 10);
    int oldest = 0, found = 0;

    n = end > text && !*end ? n : -1;
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++) {
        found |= add_known(v->version, n, known, sizeof known);
        oldest = v->version;
    }
    for (int v = MN_TUNER_NEWEST; v >= MN_TUNER_OLDEST; v--)
        if (v < oldest)
            found |= add_known(v, n, known, sizeof known);
    if (!found)
        return mn_fail(diag, MN_ERR_USAGE, "--version \"%s\": expected one of %s", text, known);
    *version = (int)n;
    return MN_OK;
}

struct interfaces {
    const struct mn_verify_choice *choice;
    int net, tuner;
};

static void note_interface(void *ctx, const struct mn_check_family *family,
                           const struct mn_check_rule *rule)
{
    struct interfaces *seen = ctx;

    if (!mn_verify_chosen(seen->choice, family, rule))
        return;
    if (family->interface == MN_CHECK_TUNER)
        seen->tuner = 1;
    else
        seen->net = 1;
}

int mn_verify_tuner_alone(const struct mn_verify_choice *choice)
{
    struct interfaces seen = {.choice = choice};

    mn_verify_each(note_interface, &seen);
    return seen.tuner && !seen.net;
}

static int choose(const struct mn_verify_wish *wish, const int *driven, int newest, int oldest,
                  int *versions)
{
    int n = 0;

    for (int i = 0; driven[i]; i++) {
        if (wish->profile && (driven[i] > newest || driven[i] < oldest))
            continue;
        if (wish->version ? driven[i] == wish->version : wish->all || n == 0)
            versions[n++] = driven[i];
    }
    versions[n] = 0;
    return n;
}

enum mn_err mn_verify_versions(const struct mn_verify_choice *choice,
                               const struct mn_verify_wish *wish, const struct mn_check_info *info,
                               struct mn_verify_versions *versions, struct mn_diag *diag)
{
    const struct mn_check_profile *p = wish->profile;
    const int alone = mn_verify_tuner_alone(choice) || mn_check_only_tuner(info);
    struct mn_verify_wish of_tuner = *wish;

    if (!alone)
        of_tuner.version = 0;
    versions->n_tuner = choose(&of_tuner, info->tuner_driven, p ? p->newest_tuner : 0,
                               p ? p->oldest_tuner : 0, versions->tuner);
    versions->n_net =
        choose(wish, info->driven, p ? p->newest : 0, p ? p->oldest : 0, versions->net);
    if (alone && wish->version && info->tuner_versions[0] && versions->n_tuner == 0)
        return mn_fail(diag, MN_ERR_USAGE, "%s exports no tuner of v%d%s%s; it exports %s",
                       info->path, wish->version, p ? " that is looked for by " : "",
                       p ? p->title : "", info->tuner_versions);
    if (!alone && versions->n_net == 0 && p && info->versions[0])
        return mn_fail(diag, MN_ERR_USAGE, "%s looks for v%d to v%d; %s exports %s%s", p->title,
                       p->newest, p->oldest, info->path, info->versions,
                       wish->version ? ", and another one was asked for" : "");
    return MN_OK;
}

struct jobs {
    const struct mn_verify_choice *choice;
    const struct mn_check_info *info;
    enum mn_check_interface interface;
    struct mn_check_job *jobs;
    size_t n;
    int version;
};

/* What was asked for by name is reported as skipped; else what cannot apply is left out. */
static int belongs(const struct jobs *jobs, const struct mn_check_rule *rule)
{
    if (jobs->choice->names.count)
        return 1;
    if (jobs->interface == MN_CHECK_NET && mn_check_only_tuner(jobs->info))
        return (rule->flags & MN_CHECK_ANY) != 0;
    return !jobs->version || mn_check_applies(rule, jobs->version);
}

static void add_job(void *ctx, const struct mn_check_family *family,
                    const struct mn_check_rule *rule)
{
    struct jobs *jobs = ctx;
    struct mn_check_job *job;

    if (family->interface != jobs->interface || !mn_verify_chosen(jobs->choice, family, rule) ||
        !belongs(jobs, rule))
        return;
    if (rule->flags & MN_CHECK_PATIENT && !mn_verify_patient(jobs->choice, rule))
        return;
    job = mn_grow((void **)&jobs->jobs, &jobs->n, sizeof *job);
    *job = (struct mn_check_job){.family = family,
                                 .rule = rule,
                                 .version = jobs->version,
                                 .two = jobs->choice->two_processes};
    if (!mn_verify_twice(jobs->choice, family, rule))
        return;
    job = mn_grow((void **)&jobs->jobs, &jobs->n, sizeof *job);
    *job =
        (struct mn_check_job){.family = family, .rule = rule, .version = jobs->version, .two = 1};
}

/* At least once, to say why there is nothing to judge. */
static void add_interface(struct jobs *jobs, enum mn_check_interface interface, const int *versions)
{
    jobs->interface = interface;
    do {
        jobs->version = *versions;
        mn_verify_each(add_job, jobs);
    } while (*versions && *++versions);
}

struct mn_check_job *mn_verify_jobs(const struct mn_verify_choice *choice,
                                    const struct mn_check_info *info,
                                    const struct mn_verify_versions *versions, size_t *n)
{
    struct jobs jobs = {.choice = choice, .info = info};

    add_interface(&jobs, MN_CHECK_NET, versions->net);
    add_interface(&jobs, MN_CHECK_TUNER, versions->tuner);
    *n = jobs.n;
    return jobs.jobs;
}
