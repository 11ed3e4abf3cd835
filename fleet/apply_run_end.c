/* Checking, keeping, and undoing everywhere. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_run_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define CHECK_MS_MAX 15000
#define BACK_MS      30000 /* for a node to be reached again after its timer has ended */
#define AGAIN_MS     1000

/* A person who presses Ctrl-C once more may not leave some nodes kept and some not. */
static void hold_signals(struct mn_apply_run *run, sigset_t *old)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, old);
    *run->stop = 0;
}

static void drop_answers(struct mn_apply_run *run)
{
    for (size_t i = 0; i < run->n; i++) {
        cJSON_Delete(run->nodes[i].answer);
        run->nodes[i].answer = NULL;
    }
}

static cJSON *id_question(const struct mn_apply_run *run)
{
    cJSON *ask = cJSON_CreateObject();

    cJSON_AddStringToObject(ask, "id", run->id);
    return ask;
}

/* --- undoing ---------------------------------------------------------------------------------- */

/* 1: it has said how its changes ended. */
static int take_state(struct mn_apply_node *node)
{
    const cJSON *outcome = cJSON_GetObjectItemCaseSensitive(node->answer, "outcome");

    if (node->err || !cJSON_IsString(outcome))
        return 0;
    if (outcome->valuestring[0])
        snprintf(node->outcome, sizeof node->outcome, "%.400s", outcome->valuestring);
    else if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(node->answer, "tried")))
        return 0;
    else
        mn_strlcpy(node->outcome, "nothing of it was made", sizeof node->outcome);
    node->made = 0;
    return 1;
}

/* Those that could not be told: their timers undo it, and they answer again. */
static void wait_for_lost(struct mn_apply_run *run, double deadline)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    size_t lost = 0;

    for (size_t i = 0; i < run->n; i++)
        if (run->nodes[i].made) {
            asks[i] = id_question(run);
            lost++;
        }
    while (lost && mn_seconds() < deadline) {
        mn_run_ask(run, "apply-state", asks, NULL);
        for (size_t i = 0; i < run->n; i++)
            if (asks[i] && take_state(&run->nodes[i])) {
                cJSON_Delete(asks[i]);
                asks[i] = NULL;
                lost--;
            }
        drop_answers(run);
        if (lost)
            poll(NULL, 0, AGAIN_MS);
    }
    for (size_t i = 0; i < run->n; i++)
        if (asks[i])
            snprintf(run->nodes[i].outcome, sizeof run->nodes[i].outcome,
                     "it cannot be reached: what was made there is undone by itself after %u s",
                     run->rollback_ms / 1000);
    mn_run_free_asks(run, asks);
}

void mn_run_undo(struct mn_apply_run *run)
{
    double deadline = run->begun + (run->rollback_ms + BACK_MS) / 1e3;
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    char text[256];
    size_t lost = 0;
    sigset_t old;

    hold_signals(run, &old);
    for (size_t i = 0; i < run->n; i++) {
        if (run->nodes[i].made)
            asks[i] = id_question(run);
        else if (!run->nodes[i].outcome[0])
            mn_strlcpy(run->nodes[i].outcome, "nothing was changed", sizeof run->nodes[i].outcome);
    }
    mn_run_ask(run, "apply-undo", asks, NULL);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        if (!asks[i])
            continue;
        node->made = node->err != MN_OK;
        node->kept = 0;
        lost += node->err != MN_OK;
        if (!node->err)
            mn_strlcpy(node->outcome, "undone", sizeof node->outcome);
    }
    drop_answers(run);
    mn_run_free_asks(run, asks);
    /* The person may give up waiting: what is left the timers do. */
    sigprocmask(SIG_SETMASK, &old, NULL);
    snprintf(text, sizeof text, "%zu node%s could not be told to undo it: waiting for %s timer%s",
             lost, lost == 1 ? "" : "s", lost == 1 ? "its" : "their", lost == 1 ? "" : "s");
    if (lost)
        mn_run_say(run, text);
    wait_for_lost(run, deadline);
}

/* --- checking --------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsString(item) ? item->valuestring : "?";
}

static enum mn_err judge_cable(struct mn_apply_node *node, const cJSON *cable)
{
    const char *state = text_of(cable, "state"), *peer = text_of(cable, "peer");
    const char *at = text_of(cable, "address"), *netdev = text_of(cable, "netdev");
    const char *name = text_of(cable, "cable");

    if (!strcmp(state, "answers") || !strcmp(state, "no carrier"))
        return MN_OK;
    if (!strcmp(state, "wrong NIC"))
        return mn_fail(
            &node->diag, MN_ERR_FAILED,
            "%s: %s answers at %s over %s by another NIC than the mesh file has for cable "
            "%s: a cable is in the wrong port, or the file is of another day",
            node->host, peer, at, netdev, name);
    return mn_fail(&node->diag, MN_ERR_FAILED, "%s: %s does not answer at %s over %s, cable %s",
                   node->host, peer, at, netdev, name);
}

static enum mn_err judge(struct mn_apply_node *node)
{
    const cJSON *cables = cJSON_GetObjectItemCaseSensitive(node->check, "cables");
    const cJSON *gids = cJSON_GetObjectItemCaseSensitive(node->check, "missing_gids");
    enum mn_err err = MN_OK;

    if (!cJSON_IsArray(cables) || !cJSON_IsArray(gids))
        return mn_fail(&node->diag, MN_ERR_PROTO, "%s: its answer is no check of cables",
                       node->host);
    for (const cJSON *c = cables->child; c && !err; c = c->next)
        err = judge_cable(node, c);
    return err;
}

enum mn_err mn_apply_run_check(struct mn_apply_run *run, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    unsigned wait = run->rollback_ms / 4 < CHECK_MS_MAX ? run->rollback_ms / 4 : CHECK_MS_MAX;

    for (size_t i = 0; i < run->n; i++) {
        asks[i] = cJSON_CreateObject();
        cJSON_AddStringToObject(asks[i], "mesh", run->mesh_text);
        cJSON_AddNumberToObject(asks[i], "wait_ms", wait);
        cJSON *peers = cJSON_AddArrayToObject(asks[i], "peers");
        /* After going back there need not be addresses. */
        for (size_t k = 0; k < run->n && !run->undo; k++)
            cJSON_AddItemToArray(peers, cJSON_CreateString(run->nodes[k].name));
    }
    enum mn_err first = mn_run_ask(run, "apply-check", asks, diag);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        node->check = node->answer;
        node->answer = NULL;
        if (!node->err)
            node->err = judge(node);
        if (node->err && !first) {
            first = node->err;
            *diag = node->diag;
        }
    }
    mn_run_free_asks(run, asks);
    if (!first && *run->stop)
        first = mn_fail(diag, MN_ERR_FAILED, "interrupted");
    if (first)
        mn_run_undo(run);
    return first;
}

/* --- keeping ---------------------------------------------------------------------------------- */

enum mn_err mn_apply_run_keep(struct mn_apply_run *run, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    sigset_t old;

    hold_signals(run, &old);
    for (size_t i = 0; i < run->n; i++)
        if (run->nodes[i].made)
            asks[i] = id_question(run);
    enum mn_err err = mn_run_ask(run, "apply-keep", asks, diag);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        const char *said = node->answer ? text_of(node->answer, "said") : "";
        if (!asks[i] || node->err)
            continue;
        node->kept = 1;
        snprintf(node->outcome, sizeof node->outcome, "kept%s%.100s", *said ? "; told: " : "",
                 said);
    }
    drop_answers(run);
    mn_run_free_asks(run, asks);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (err)
        mn_run_undo(run);
    return err;
}
