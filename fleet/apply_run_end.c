/* Keeping, and undoing everywhere. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_run_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define BACK_MS  30000 /* for a node to be reached again after its timer has ended */
#define AGAIN_MS 1000

/* A person who presses Ctrl-C once more may not leave some nodes kept and some not. */
static void hold_signals(struct mn_apply_run *run, sigset_t *old)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
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

/* It says that nothing of it stands, and may know how it ended. */
static void take_state(struct mn_apply_node *node)
{
    const cJSON *outcome = cJSON_GetObjectItemCaseSensitive(node->answer, "outcome");

    if (node->err || !cJSON_IsString(outcome))
        return;
    snprintf(node->outcome, sizeof node->outcome, "%.400s",
             outcome->valuestring[0] ? outcome->valuestring : "nothing of it was made");
    node->made = node->kept = 0;
}

/* Tells all to undo it who have not said that nothing of it stands. How many are left. */
static size_t undo_once(struct mn_apply_run *run)
{
    cJSON **undos = mn_zalloc((run->n + 1) * sizeof *undos);
    cJSON **states = mn_zalloc((run->n + 1) * sizeof *states);
    size_t lost = 0, ended = 0;

    for (size_t i = 0; i < run->n; i++)
        if (run->nodes[i].made)
            undos[i] = id_question(run);
    mn_run_ask(run, "apply-undo", undos, NULL);
    drop_answers(run);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        if (undos[i] && !node->err) {
            node->made = node->kept = 0;
            mn_strlcpy(node->outcome, "undone", sizeof node->outcome);
        } else if (undos[i] && node->err == MN_ERR_NOTFOUND) {
            states[i] = id_question(run);
            ended++;
        }
    }
    if (ended)
        mn_run_ask(run, "apply-state", states, NULL);
    for (size_t i = 0; i < run->n; i++) {
        if (states[i])
            take_state(&run->nodes[i]);
        lost += run->nodes[i].made != 0;
    }
    drop_answers(run);
    mn_run_free_asks(run, states);
    mn_run_free_asks(run, undos);
    return lost;
}

static void say_lost(const struct mn_apply_run *run, struct mn_apply_node *node)
{
    const char *why = node->err ? node->diag.text : "";

    if (run->keeping)
        snprintf(node->outcome, sizeof node->outcome,
                 "it may be kept there: it could not be told to undo it (%.200s); when it can be: "
                 "meshnet topo apply --undo --hosts %.80s",
                 why, node->host);
    else
        snprintf(node->outcome, sizeof node->outcome,
                 "it could not be told to undo it (%.200s): it does so by itself after %u s", why,
                 run->rollback_ms / 1000);
}

/* Those that cannot be told undo it by their timers, and answer again; those that have kept it do
 * not, so all are told until they have heard it. */
static void undo_lost(struct mn_apply_run *run, size_t lost)
{
    double after = run->begun + run->rollback_ms / 1e3, now = mn_seconds();
    double deadline = (run->keeping && now > after ? now : after) + BACK_MS / 1e3;
    char text[256];

    snprintf(text, sizeof text, "%zu node%s could not be told to undo it: waiting for %s timer%s",
             lost, lost == 1 ? "" : "s", lost == 1 ? "its" : "their", lost == 1 ? "" : "s");
    mn_run_say(run, text);
    while (lost && mn_seconds() < deadline && !*run->stop) {
        poll(NULL, 0, AGAIN_MS);
        lost = undo_once(run);
    }
    for (size_t i = 0; i < run->n; i++)
        if (run->nodes[i].made)
            say_lost(run, &run->nodes[i]);
}

void mn_run_undo(struct mn_apply_run *run)
{
    sigset_t old;

    hold_signals(run, &old);
    for (size_t i = 0; i < run->n; i++)
        if (!run->nodes[i].made && !run->nodes[i].outcome[0])
            mn_strlcpy(run->nodes[i].outcome, "nothing was changed", sizeof run->nodes[i].outcome);
    size_t lost = undo_once(run);
    /* The person may give up waiting: what is left the timers do. */
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (lost)
        undo_lost(run, lost);
}

/* --- keeping ---------------------------------------------------------------------------------- */

enum mn_err mn_apply_run_keep(struct mn_apply_run *run, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    sigset_t old;

    hold_signals(run, &old);
    run->keeping = 1;
    for (size_t i = 0; i < run->n; i++)
        if (run->nodes[i].made)
            asks[i] = id_question(run);
    enum mn_err err = mn_run_ask(run, "apply-keep", asks, diag);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        const cJSON *told = cJSON_GetObjectItemCaseSensitive(node->answer, "said");
        const char *said = cJSON_IsString(told) ? told->valuestring : "";
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
