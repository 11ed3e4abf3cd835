/* Checking: what the nodes have seen, put together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_run_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define CHECK_MS_MIN 5000 /* a new IPv6 address takes two before it can be used */
#define CHECK_MS_MAX 15000
#define CARRY_MS_MAX 45000 /* for links to come back */
#define LIMIT_MS_MIN 3000  /* for all of it … */
#define LIMIT_MS_MAX 80000
#define MARGIN_MS    2000 /* … before the timers would undo it */

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsString(item) ? item->valuestring : "?";
}

static const cJSON *list_of(const struct mn_apply_node *node, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(node->check, key);
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

/* A NIC may train its link anew after a change: that has been waited for. */
static enum mn_err judge_carriers(struct mn_apply_node *node)
{
    const cJSON *dark = list_of(node, "dark"), *nic;
    char names[256] = "";

    cJSON_ArrayForEach(nic, dark)
    {
        size_t used = strlen(names);
        if (cJSON_IsString(nic))
            snprintf(names + used, sizeof names - used, "%s%.15s", used ? ", " : "",
                     nic->valuestring);
    }
    return names[0] ? mn_fail(&node->diag, MN_ERR_FAILED,
                              "%s: %s had a carrier before the change and has none since: the link "
                              "did not come back, at this end or the other",
                              node->host, names)
                    : MN_OK;
}

static enum mn_err judge(struct mn_apply_node *node)
{
    static const char *const lists[] = {"cables", "dark", "far", "obstacles", "missing_gids"};
    const cJSON *c;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!cJSON_IsArray(list_of(node, lists[i])))
            return mn_fail(&node->diag, MN_ERR_PROTO, "%s: its answer is no check of cables",
                           node->host);
    cJSON_ArrayForEach(c, list_of(node, "cables")) if (!err) err = judge_cable(node, c);
    return err ? err : judge_carriers(node);
}

/* Links that this takes down are dark afterwards, at both ends. */
static int takes_down(const struct mn_apply_run *run)
{
    const cJSON *change;

    for (size_t i = 0; i < run->n; i++)
        cJSON_ArrayForEach(change, cJSON_GetObjectItemCaseSensitive(run->nodes[i].plan, "changes"))
        {
            if (!strcmp(text_of(change, "kind"), "link") && !strcmp(text_of(change, "to"), "down"))
                return 1;
        }
    return 0;
}

/* By then it is to be kept, or the nodes undo it. */
static double limit_of(const struct mn_apply_run *run)
{
    double left = run->rollback_ms - (mn_seconds() - run->begun) * 1e3 - MARGIN_MS;

    return left < LIMIT_MS_MIN ? LIMIT_MS_MIN : left > LIMIT_MS_MAX ? LIMIT_MS_MAX : left;
}

static cJSON *question(const struct mn_apply_run *run, const struct mn_apply_node *node,
                       unsigned wait, int down)
{
    cJSON *ask = cJSON_CreateObject();
    const cJSON *carriers = cJSON_GetObjectItemCaseSensitive(node->plan, "carriers");
    unsigned half = run->rollback_ms / 2;

    cJSON_AddStringToObject(ask, "mesh", run->mesh_text);
    cJSON_AddNumberToObject(ask, "wait_ms", wait);
    cJSON_AddNumberToObject(ask, "carry_ms", half > CARRY_MS_MAX ? CARRY_MS_MAX : half);
    cJSON_AddNumberToObject(ask, "limit_ms", limit_of(run));
    cJSON *peers = cJSON_AddArrayToObject(ask, "peers");
    /* After going back there need not be addresses. */
    for (size_t k = 0; k < run->n && !run->undo; k++)
        cJSON_AddItemToArray(peers, cJSON_CreateString(run->nodes[k].name));
    if (carriers && !down)
        cJSON_AddItemToObject(ask, "carried", cJSON_Duplicate(carriers, 1));
    return ask;
}

enum mn_err mn_apply_run_check(struct mn_apply_run *run, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    unsigned wait = run->rollback_ms / 4;
    int down = takes_down(run);

    wait = wait < CHECK_MS_MIN ? CHECK_MS_MIN : wait > CHECK_MS_MAX ? CHECK_MS_MAX : wait;
    for (size_t i = 0; i < run->n; i++)
        asks[i] = question(run, &run->nodes[i], wait, down);
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
    for (size_t i = 0; i < run->n && !first; i++)
        if ((first = mn_run_judge_far(run, &run->nodes[i])) != MN_OK)
            *diag = run->nodes[i].diag;
    if (!first && *run->stop)
        first = mn_fail(diag, MN_ERR_FAILED, "interrupted");
    if (first)
        mn_run_undo(run);
    return first;
}
