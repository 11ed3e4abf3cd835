#include "fleet/crew.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/crew_impl.h"
#include "fleet/ssh.h"
#include "topo/base/alloc.h"

#define MORE_S 60 /* than a verb takes: for its way there and back, by hosts that are busy */

static const struct mn_crew_ops *const ways[] =
    {[MN_CREW_SSH] = &mn_crew_ssh, [MN_CREW_AGENTS] = &mn_crew_agents};

enum mn_err mn_crew_host_fail(struct mn_crew_host *host, enum mn_err err, const char *fmt, ...)
{
    char text[sizeof host->diag.text];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    host->err = mn_fail(&host->diag, err, "%.200s: %s", host->name, text);
    return err;
}

void mn_crew_say(const struct mn_crew_host *host, const char *text)
{
    const struct mn_crew_plan *plan = &host->crew->plan;

    if (plan->say)
        plan->say(plan->ctx, host->name, text);
}

static enum mn_err check_hosts(const struct mn_opt_list *hosts, struct mn_diag *diag)
{
    if (hosts->count > MN_CREW_HOSTS_MAX)
        return mn_fail(
            diag, MN_ERR_USAGE,
            "%zu hosts: at most %d are asked at one time; name some of them with --hosts",
            hosts->count, MN_CREW_HOSTS_MAX);
    for (size_t i = 0; i < hosts->count; i++) {
        if (!*hosts->items[i] || *hosts->items[i] == '-')
            return mn_fail(diag, MN_ERR_USAGE, "'%s' is no host's name", hosts->items[i]);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(hosts->items[i], hosts->items[k]))
                return mn_fail(diag, MN_ERR_USAGE, "host %s is named twice", hosts->items[i]);
    }
    return hosts->count ? MN_OK : mn_fail(diag, MN_ERR_USAGE, "no host is named");
}

static int may_be_elsewhere(const struct mn_crew_host *host)
{
    enum mn_err err = host->reached ? MN_OK : host->err;

    return err == MN_ERR_PEER_DEAD || err == MN_ERR_NOTFOUND || err == MN_ERR_SYS ||
           err == MN_ERR_TIMEOUT;
}

/* Marks those not reached that have a further place: until one is, their error stays. */
static int go_elsewhere(struct mn_crew *crew, int number)
{
    const struct mn_crew_plan *plan = &crew->plan;
    int some = 0;

    for (size_t i = 0; i < crew->n; i++) {
        struct mn_crew_host *host = &crew->hosts[i];
        if (!may_be_elsewhere(host) || !plan->place || (plan->stop && *plan->stop) ||
            !plan->place(plan->places, host->name, number, host->address))
            continue;
        host->err = MN_OK;
        host->pending = some = 1;
    }
    return some;
}

/* Of one that was looked for at a further place: what its name led to comes first. */
static void add_place(struct mn_crew_host *host, const struct mn_diag *before)
{
    struct mn_diag now = host->diag;

    if (!may_be_elsewhere(host))
        return;
    host->err = mn_fail(&host->diag, before->code, "%s; nor at %s%s", before->text, host->address,
                        now.text + strnlen(host->name, 200));
}

/* Until all are reached that can be. */
static void look_at_all(struct mn_crew *crew)
{
    const struct mn_crew_ops *way = ways[crew->plan.way];
    struct mn_diag *before = mn_zalloc(crew->n * sizeof *before);
    int number = 0;

    for (size_t i = 0; i < crew->n; i++)
        crew->hosts[i].pending = crew->hosts[i].ops == way;
    do {
        way->open(crew);
        for (size_t i = 0; i < crew->n; i++) {
            struct mn_crew_host *host = &crew->hosts[i];
            if (host->pending && number)
                add_place(host, &before[i]);
            if (host->pending)
                before[i] = host->diag;
            host->pending = 0;
        }
    } while (go_elsewhere(crew, number++));
    free(before);
}

/* What begins a line of a shell that is meant for here. */
static enum mn_err set_mark(struct mn_crew *crew, struct mn_diag *diag)
{
    uint64_t number;
    enum mn_err err = mn_random(&number, sizeof number, diag);

    snprintf(crew->mark, sizeof crew->mark, "mn-%016" PRIx64, err ? 0 : number);
    return err;
}

enum mn_err mn_crew_open(const struct mn_crew_plan *plan, struct mn_crew **out,
                         struct mn_diag *diag)
{
    enum mn_err err = check_hosts(plan->hosts, diag);

    *out = NULL;
    if (err)
        return err;
    struct mn_crew *crew = mn_zalloc(sizeof *crew);
    crew->plan = *plan;
    crew->plan.connect_ms = plan->connect_ms ? plan->connect_ms : MN_CREW_CONNECT_MS;
    crew->n = plan->hosts->count;
    crew->hosts = mn_zalloc(crew->n * sizeof *crew->hosts);
    for (size_t i = 0; i < crew->n; i++) {
        struct mn_crew_host *host = &crew->hosts[i];
        host->crew = crew;
        host->name = plan->hosts->items[i];
        host->ops = mn_ssh_is_here(host->name) ? &mn_crew_here : ways[plan->way];
    }
    err = set_mark(crew, diag);
    if (!err)
        look_at_all(crew);
    if (!err && plan->stop && *plan->stop)
        err = mn_fail(diag, MN_ERR_FAILED, "interrupted");
    if (err) {
        mn_crew_close(crew);
        return err;
    }
    *out = crew;
    return MN_OK;
}

size_t mn_crew_size(const struct mn_crew *crew)
{
    return crew->n;
}

struct question {
    struct mn_crew_host *host;
    const struct mn_node_verb *verb;
};

static int ask(void *ctx)
{
    struct question *q = ctx;

    return q->host->ops->ask(q->host, q->verb);
}

static void pass_line(void *ctx, const char *text)
{
    mn_crew_say(((struct question *)ctx)->host, text);
}

static void prepare(struct mn_crew *crew, size_t i, const struct mn_node_verb *verb,
                    const cJSON *json, struct question *q, struct mn_errand *errand)
{
    if (!json || crew->hosts[i].err)
        return;
    *q = (struct question){.host = &crew->hosts[i], .verb = verb};
    char *text = cJSON_PrintUnformatted(json);
    if (!text)
        mn_no_memory();
    *errand = (struct mn_errand){.body = ask,
                                 .line = pass_line,
                                 .ctx = q,
                                 .text = text,
                                 .size = strlen(text),
                                 .stays = verb->changes && q->host->ops->stays,
                                 .ms = crew->plan.connect_ms + (verb->seconds + MORE_S) * 1000};
}

/* What came of it, without the host's name. */
static enum mn_err judge(const struct question *q, const struct mn_errand *e, cJSON **json,
                         struct mn_diag *diag)
{
    const char *verb = q->verb->name, *last = e->last, *colon = *last ? ": " : "";

    switch (e->end) {
    case MN_ERRAND_LATE:
        return mn_fail(diag, MN_ERR_TIMEOUT, "no answer to '%s' within %u s%s%s", verb,
                       e->ms / 1000, colon, last);
    case MN_ERRAND_LONG:
        return mn_fail(diag, MN_ERR_PROTO, "its answer to '%s' is longer than %u bytes", verb,
                       MN_ERRAND_OUT);
    case MN_ERRAND_BROKEN:
        return mn_fail(diag, MN_ERR_SYS, "%s", last);
    case MN_ERRAND_STOPPED:
    case MN_ERRAND_SPOKE:
        return mn_fail(diag, MN_ERR_FAILED, "interrupted");
    case MN_ERRAND_RAN:
        break;
    }
    /* What came before a connection was lost may be half an answer. */
    enum mn_err err = q->host->ops->judge(q->host, e, diag);
    if (!err && e->used && strchr(e->out, '{'))
        return mn_node_parse(e->out, json, diag);
    return err ? err
               : mn_fail(diag, MN_ERR_PROTO, "no answer to '%s'; exit status %d%s%s", verb,
                         e->status, colon, last);
}

static void conclude(struct mn_crew_host *host, const struct question *q,
                     const struct mn_errand *errand, struct mn_crew_answer *answer)
{
    struct mn_diag diag = {.text = "was not asked"};

    *answer = (struct mn_crew_answer){.host = host->name, .err = MN_ERR_SKIPPED};
    if (errand->body)
        answer->err = judge(q, errand, &answer->json, &diag);
    if (host->err && !errand->body) {
        answer->err = host->err;
        answer->diag = host->diag;
    } else if (answer->err) {
        mn_fail(&answer->diag, answer->err, "%.200s: %s", host->name, diag.text);
    }
}

enum mn_err mn_crew_ask_each(struct mn_crew *crew, const char *name, const cJSON *const *asks,
                             struct mn_crew_answer *answers)
{
    const struct mn_node_verb *verb = mn_node_verb(name);
    struct mn_errand *errands = mn_zalloc(crew->n * sizeof *errands);
    struct question *questions = mn_zalloc(crew->n * sizeof *questions);
    enum mn_err err = MN_OK;

    if (verb && ways[crew->plan.way]->renew)
        ways[crew->plan.way]->renew(crew);
    for (size_t i = 0; i < crew->n && verb; i++)
        prepare(crew, i, verb, asks[i], &questions[i], &errands[i]);
    mn_errands_run(errands, crew->n, crew->plan.stop);
    for (size_t i = 0; i < crew->n; i++) {
        if (verb) {
            conclude(&crew->hosts[i], &questions[i], &errands[i], &answers[i]);
        } else {
            answers[i] = (struct mn_crew_answer){.host = crew->hosts[i].name};
            answers[i].err = mn_fail(&answers[i].diag, MN_ERR_INTERNAL, "%.200s: no verb '%s'",
                                     answers[i].host, name);
        }
        if (!asks[i] && verb) {
            answers[i].err = MN_ERR_SKIPPED;
            mn_fail(&answers[i].diag, MN_ERR_SKIPPED, "%.200s: was not asked", answers[i].host);
        }
        if (!err && answers[i].err != MN_ERR_SKIPPED)
            err = answers[i].err;
        free((char *)(uintptr_t)errands[i].text);
        mn_errand_free(&errands[i]);
    }
    free(errands);
    free(questions);
    return err;
}

enum mn_err mn_crew_ask(struct mn_crew *crew, const char *verb, const cJSON *json,
                        struct mn_crew_answer *answers)
{
    const cJSON **asks = mn_zalloc(crew->n * sizeof(cJSON *));

    for (size_t i = 0; i < crew->n; i++)
        asks[i] = json;
    enum mn_err err = mn_crew_ask_each(crew, verb, asks, answers);
    free(asks);
    return err;
}

void mn_crew_answers_free(struct mn_crew_answer *answers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        cJSON_Delete(answers[i].json);
        answers[i].json = NULL;
    }
}

void mn_crew_close(struct mn_crew *crew)
{
    if (!crew)
        return;
    if (ways[crew->plan.way]->close)
        ways[crew->plan.way]->close(crew);
    mn_wipe(crew->plan.token, sizeof crew->plan.token);
    free(crew->hosts);
    free(crew);
}
