/* Hosts through the meshnet serve that runs there: a control connection a question. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/crew_impl.h"
#include "fleet/node_agent.h"
#include "topo/base/alloc.h"

#define LOOK_MS 20000 /* for an answer to about, once connected */

static char *read_stdin(size_t *size)
{
    char *text = mn_zalloc(MN_NODE_TEXT + 1);
    ssize_t n;

    *size = 0;
    while ((n = read(STDIN_FILENO, text + *size, MN_NODE_TEXT - *size)) > 0)
        *size += (size_t)n;
    return text;
}

static int ask(struct mn_crew_host *host, const struct mn_node_verb *verb)
{
    const struct mn_crew_plan *plan = &host->crew->plan;
    struct mn_ctl ctl = {.fd = -1};
    struct mn_diag diag = {.text = ""};
    size_t size;
    char *text = read_stdin(&size);
    enum mn_err err = mn_ctl_reach(*host->address ? host->address : host->name,
                                   plan->port ? plan->port : MN_CTL_PORT, plan->token,
                                   plan->connect_ms, &ctl, &diag);

    if (!err)
        err = mn_node_agent_ask(&ctl, verb, text, size, &diag);
    mn_ctl_close(&ctl);
    free(text);
    if (!err)
        return 0;
    diag.code = err;
    (void)mn_node_put(mn_node_error(&diag));
    return 1;
}

struct look {
    struct mn_crew_host *host;
};

static int look(void *ctx)
{
    return ask(((struct look *)ctx)->host, mn_node_verb("about"));
}

/* One of another version may answer differently. */
static void compare(struct mn_crew_host *host, const cJSON *about)
{
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(about, "version");
    const char *theirs = cJSON_IsString(version) ? version->valuestring : "?";

    if (strcmp(theirs, MESHNET_VERSION) != 0)
        mn_crew_host_fail(
            host, MN_ERR_CONFIG,
            "its meshnet serve is of version %.40s, this is %s: install the same there", theirs,
            MESHNET_VERSION);
}

static void take(struct mn_crew_host *host, const struct mn_errand *e)
{
    struct mn_diag diag;
    cJSON *about = NULL;

    if (e->end == MN_ERRAND_RAN && e->used) {
        enum mn_err err = mn_node_parse(e->out, &about, &diag);
        if (err)
            mn_crew_host_fail(host, err, "%s", diag.text);
        else
            compare(host, about);
        cJSON_Delete(about);
    } else if (e->end == MN_ERRAND_LATE) {
        mn_crew_host_fail(host, MN_ERR_TIMEOUT, "its meshnet serve did not answer within %u s",
                          e->ms / 1000);
    } else if (e->end == MN_ERRAND_STOPPED) {
        mn_crew_host_fail(host, MN_ERR_FAILED, "interrupted");
    } else {
        mn_crew_host_fail(host, MN_ERR_PROTO, "no answer of its meshnet serve%s%s",
                          *e->last ? ": " : "", e->last);
    }
}

static void open_all(struct mn_crew *crew)
{
    struct mn_errand *errands = mn_zalloc(crew->n * sizeof *errands);
    struct look *looks = mn_zalloc(crew->n * sizeof *looks);

    for (size_t i = 0; i < crew->n; i++) {
        if (crew->hosts[i].ops != &mn_crew_agents || !crew->hosts[i].pending)
            continue;
        looks[i].host = &crew->hosts[i];
        errands[i] = (struct mn_errand){.body = look,
                                        .ctx = &looks[i],
                                        .text = "{}",
                                        .size = 2,
                                        .ms = crew->plan.connect_ms + LOOK_MS};
    }
    mn_errands_run(errands, crew->n, crew->plan.stop);
    for (size_t i = 0; i < crew->n; i++) {
        if (errands[i].body)
            take(&crew->hosts[i], &errands[i]);
        mn_errand_free(&errands[i]);
    }
    free(looks);
    free(errands);
}

static enum mn_err judge(const struct mn_crew_host *host, const struct mn_errand *e,
                         struct mn_diag *diag)
{
    (void)host;
    (void)e;
    (void)diag;
    return MN_OK;
}

const struct mn_crew_ops mn_crew_agents = {.open = open_all, .ask = ask, .judge = judge};
