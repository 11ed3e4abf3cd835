/* Probing from one node for all, or here alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/discover_neighbors.h"
#include "cli/discover_hosts.h"
#include "fleet/launch.h"
#include "fleet/probe_frame.h"
#include "topo/base/alloc.h"

#define NAME "discover"

static void plan_make(const struct mn_neighbors_ask *ask, struct mn_probe_plan *plan)
{
    const struct mn_neighbors_options *o = ask->options;

    *plan = (struct mn_probe_plan){
        .ms = o->wait_ms ? o->wait_ms
              : o->up    ? MN_PROBE_UP_MS
                         : MN_PROBE_MS,
        .whole = o->wait_ms != 0,
        .take = ask->take,
        .skip = ask->skip,
        .up = o->up,
        .lldp = o->lldp,
    };
}

/* --- this host alone -------------------------------------------------------------------------- */

static enum mn_err probe_here(const struct mn_neighbors_ask *ask, struct mn_neighbors *found,
                              struct mn_diag *diag)
{
    const char *file = ask->options->key_file;
    struct mn_probe_plan plan;

    plan_make(ask, &plan);
    plan.stop = &mn_launch_stop;
    mn_node_name(plan.name, sizeof plan.name);
    enum mn_err err =
        file ? mn_key_read(file, plan.key, diag) : mn_random(plan.key, sizeof plan.key, diag);
    if (err)
        return err;
    mn_launch_catch();
    /* A terminal that goes leaves no NIC up that was down. */
    mn_launch_catch_hangup();
    found->results = mn_zalloc(sizeof *found->results);
    found->n_results = 1;
    err = mn_probe_run(&plan, found->results, diag);
    mn_wipe(plan.key, sizeof plan.key);
    return err;
}

/* --- all at once ------------------------------------------------------------------------------ */

static const char *name_in(const struct mn_crew_answer *about)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(about->json, "node");

    return about->err || !cJSON_IsString(name) ? NULL : name->valuestring;
}

/* Two hosts of one name could not be told apart in what was heard. */
static enum mn_err check_names(const struct mn_crew_answer *abouts, size_t n, struct mn_diag *diag)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            const char *a = name_in(&abouts[i]), *b = name_in(&abouts[k]);
            if (a && b && !strcmp(a, b))
                return mn_fail(diag, MN_ERR_CONFIG,
                               "%s and %s both call themselves %s; expected one host under one "
                               "name: give each a host name of its own, or MESHNET_NODE",
                               abouts[k].host, abouts[i].host, a);
        }
    return MN_OK;
}

/* Those that can be asked get a question with a place in the run. */
static size_t asks_make(const struct mn_probe_plan *base, const struct mn_crew_answer *abouts,
                        size_t n, cJSON **asks)
{
    struct mn_probe_plan plan = *base;

    plan.count = 0;
    for (size_t i = 0; i < n; i++)
        plan.count += !abouts[i].err;
    for (size_t i = 0; i < n; i++) {
        if (abouts[i].err)
            continue;
        asks[i] = mn_probe_ask(&plan);
        plan.index++;
    }
    mn_wipe(plan.key, sizeof plan.key);
    return (size_t)plan.index;
}

static void take_answers(struct mn_crew_answer *answers, size_t n, struct mn_neighbors *found)
{
    found->results = mn_zalloc((n + 1) * sizeof *found->results);
    for (size_t i = 0; i < n; i++) {
        struct mn_crew_answer *a = &answers[i];
        struct mn_diag why;
        if (a->err)
            continue;
        a->err = mn_probe_result_parse(a->json, &found->results[found->n_results], &why);
        if (a->err)
            mn_fail(&a->diag, a->err, "%.200s: %s", a->host, why.text);
        else
            found->n_results++;
    }
}

static enum mn_err ask_all(struct mn_crew *crew, const struct mn_probe_plan *plan,
                           struct mn_neighbors *found, struct mn_diag *diag)
{
    const size_t n = mn_crew_size(crew);
    struct mn_crew_answer *abouts = mn_zalloc(n * sizeof *abouts);
    struct mn_crew_answer *answers = mn_zalloc(n * sizeof *answers);
    cJSON **asks = mn_zalloc(n * sizeof *asks), *nothing = cJSON_CreateObject();

    (void)mn_crew_ask(crew, "about", nothing, abouts);
    enum mn_err err = check_names(abouts, n, diag);
    if (!err && asks_make(plan, abouts, n, asks))
        (void)mn_crew_ask_each(crew, "probe", (const cJSON *const *)asks, answers);
    if (!err)
        take_answers(answers, n, found);
    if (!err && mn_launch_stop)
        err = mn_fail(diag, MN_ERR_FAILED, "interrupted");
    if (!err) {
        mn_discover_add_failures(found->failed, abouts, n);
        mn_discover_add_failures(found->failed, answers, n);
        if (!found->n_results)
            err = mn_fail(diag, MN_ERR_FAILED, "no host answered");
    }
    for (size_t i = 0; i < n; i++)
        cJSON_Delete(asks[i]);
    cJSON_Delete(nothing);
    mn_crew_answers_free(abouts, n);
    mn_crew_answers_free(answers, n);
    free(abouts);
    free(answers);
    free(asks);
    return err;
}

static enum mn_err probe_hosts(const struct mn_neighbors_ask *ask, struct mn_neighbors *found,
                               struct mn_diag *diag)
{
    struct mn_probe_plan plan;
    struct mn_crew *crew = NULL;
    enum mn_err err;

    plan_make(ask, &plan);
    if (ask->options->crew.hosts.count > MN_PROBE_NODES_MAX)
        return mn_fail(
            diag, MN_ERR_USAGE,
            "--hosts: %zu of them; at most %d look for their neighbours at a time: ask the "
            "others afterwards, with --merge",
            ask->options->crew.hosts.count, MN_PROBE_NODES_MAX);
    err = mn_random(plan.key, sizeof plan.key, diag);
    while (!err && !plan.run) /* 0 is none */
        err = mn_random(&plan.run, sizeof plan.run, diag);
    if (!err)
        err = mn_crew_options_open(&ask->options->crew, NAME, &crew, diag);
    if (!err)
        err = ask_all(crew, &plan, found, diag);
    mn_crew_close(crew);
    mn_wipe(plan.key, sizeof plan.key);
    return err;
}

enum mn_err mn_neighbors_probe(const struct mn_neighbors_ask *ask, struct mn_neighbors *found,
                               struct mn_diag *diag)
{
    enum mn_err err = ask->options->crew.hosts.count ? probe_hosts(ask, found, diag)
                                                     : probe_here(ask, found, diag);

    return err ? err : mn_probe_gather(found->results, found->n_results, &found->survey, diag);
}
