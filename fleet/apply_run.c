/* Planning and making; what comes after is in apply_run_check.c and apply_run_end.c. */
#include "fleet/apply_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/apply_run_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"
#include "topo/base/mac.h"

enum mn_err mn_apply_run_begin(struct mn_apply_run *run, struct mn_diag *diag)
{
    uint8_t id[(MN_APPLY_ID - 1) / 2];
    char node[MN_NAME_MAX];
    const char *user = getenv("SUDO_USER") ? getenv("SUDO_USER") : getenv("USER");
    enum mn_err err = mn_random(id, sizeof id, diag);

    for (size_t i = 0; i < sizeof id; i++)
        snprintf(run->id + 2 * i, 3, "%02x", id[i]);
    mn_node_name(node, sizeof node);
    snprintf(run->who, sizeof run->who, "%.40s on %s, process %d", user ? user : "root", node,
             (int)getpid());
    run->n = mn_crew_size(run->crew);
    run->nodes = mn_zalloc((run->n + 1) * sizeof *run->nodes);
    return err;
}

void mn_apply_run_end(struct mn_apply_run *run)
{
    for (size_t i = 0; i < run->n; i++) {
        cJSON_Delete(run->nodes[i].plan);
        cJSON_Delete(run->nodes[i].check);
    }
    free(run->nodes);
    run->nodes = NULL;
    run->n = 0;
}

enum mn_err mn_run_ask(struct mn_apply_run *run, const char *verb, cJSON *const *asks,
                       struct mn_diag *diag)
{
    struct mn_crew_answer *answers = mn_zalloc((run->n + 1) * sizeof *answers);
    enum mn_err first = MN_OK;

    mn_crew_ask_each(run->crew, verb, (const cJSON *const *)asks, answers);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        node->host = answers[i].host;
        if (!asks[i])
            continue;
        node->err = answers[i].err;
        node->diag = answers[i].diag;
        node->diag.code = node->err;
        node->answer = answers[i].json;
        answers[i].json = NULL;
        if (node->err && !first) {
            first = node->err;
            if (diag)
                *diag = node->diag;
        }
    }
    mn_crew_answers_free(answers, run->n);
    free(answers);
    return first;
}

void mn_run_say(const struct mn_apply_run *run, const char *text)
{
    if (run->say)
        run->say(text);
}

void mn_run_free_asks(const struct mn_apply_run *run, cJSON **asks)
{
    for (size_t i = 0; i < run->n; i++)
        cJSON_Delete(asks[i]);
    free(asks);
}

/* --- planning --------------------------------------------------------------------------------- */

cJSON *mn_run_question(const struct mn_apply_run *run)
{
    cJSON *ask = cJSON_CreateObject();
    cJSON *take = cJSON_AddArrayToObject(ask, "take");

    cJSON_AddStringToObject(ask, "mesh", run->mesh_text);
    cJSON_AddBoolToObject(ask, "undo", run->undo);
    for (size_t i = 0; i < run->take->count; i++)
        cJSON_AddItemToArray(take, cJSON_CreateString(run->take->items[i]));
    return ask;
}

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* A stranger's answer: of the form that is read from now on. */
static enum mn_err check_plan(struct mn_apply_node *node)
{
    const cJSON *changes = cJSON_GetObjectItemCaseSensitive(node->plan, "changes"), *note;
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(node->plan, "files");
    const cJSON *notes = cJSON_GetObjectItemCaseSensitive(node->plan, "notes");
    const cJSON *carriers = cJSON_GetObjectItemCaseSensitive(node->plan, "carriers");
    const char *name = text_of(node->plan, "node"), *stands = text_of(node->plan, "stands");
    struct mn_changes list;
    struct mn_diag why;
    int good = name && stands && text_of(node->plan, "stands_by") &&
               text_of(node->plan, "manager") && cJSON_IsArray(notes) &&
               mn_strlcpy(node->name, name, sizeof node->name);

    cJSON_ArrayForEach(note, notes) good &= cJSON_IsString(note);
    cJSON_ArrayForEach(note, carriers) good &= cJSON_IsString(note);
    good = good && !mn_changes_parse(changes, &list, &why);
    if (good) {
        node->n_kernel = list.count;
        mn_changes_free(&list);
        good = !mn_changes_parse(files, &list, &why);
    }
    if (!good)
        return mn_fail(&node->diag, MN_ERR_PROTO, "%s: its answer is no plan", node->host);
    node->n_files = list.count;
    mn_changes_free(&list);
    if (!strcmp(stands, "tried"))
        return mn_fail(&node->diag, MN_ERR_EXISTS,
                       "%s: another apply is under way there: by %s; nothing was changed",
                       node->host, text_of(node->plan, "stands_by"));
    return MN_OK;
}

static enum mn_err check_names(struct mn_apply_run *run, struct mn_apply_node *node)
{
    for (struct mn_apply_node *other = run->nodes; other < node; other++)
        if (!strcmp(other->name, node->name))
            return mn_fail(&node->diag, MN_ERR_CONFIG, "%s and %s are one node of the mesh, %s",
                           other->host, node->host, node->name);
    return MN_OK;
}

static enum mn_err plan_once(struct mn_apply_run *run, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);

    for (size_t i = 0; i < run->n; i++)
        asks[i] = mn_run_question(run);
    enum mn_err first = mn_run_ask(run, "apply-plan", asks, diag);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        cJSON_Delete(node->plan);
        node->plan = node->answer;
        node->answer = NULL;
        if (node->err)
            continue;
        node->err = check_plan(node);
        if (!node->err)
            node->err = check_names(run, node);
        if (node->err && !first) {
            first = node->err;
            *diag = node->diag;
        }
    }
    mn_run_free_asks(run, asks);
    return first;
}

static int is_orphan(const struct mn_apply_node *node)
{
    const char *stands = text_of(node->plan, "stands");

    return stands && !strcmp(stands, "orphan");
}

/* Changes whose timer is gone: nobody undoes them but this. */
static enum mn_err recover_all(struct mn_apply_run *run, int *found, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);
    char text[1024];
    enum mn_err err = MN_OK;

    *found = 0;
    for (size_t i = 0; i < run->n; i++) {
        if (run->nodes[i].err || !is_orphan(&run->nodes[i]))
            continue;
        snprintf(text, sizeof text, "%s: an unconfirmed change stands, %s: it is undone first",
                 run->nodes[i].host, text_of(run->nodes[i].plan, "stands_by"));
        mn_run_say(run, text);
        asks[i] = cJSON_CreateObject();
        cJSON_AddTrueToObject(asks[i], "orphan");
        *found = 1;
    }
    if (*found)
        err = mn_run_ask(run, "apply-undo", asks, diag);
    for (size_t i = 0; i < run->n; i++) {
        cJSON_Delete(run->nodes[i].answer);
        run->nodes[i].answer = NULL;
    }
    mn_run_free_asks(run, asks);
    return err;
}

size_t mn_apply_run_orphans(const struct mn_apply_run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n; i++)
        n += !run->nodes[i].err && is_orphan(&run->nodes[i]);
    return n;
}

enum mn_err mn_apply_run_plan(struct mn_apply_run *run, int recover, struct mn_diag *diag)
{
    int found = 0;
    enum mn_err err = plan_once(run, diag);

    if (!err && recover)
        err = recover_all(run, &found, diag);
    if (!err && found)
        err = plan_once(run, diag);
    return err;
}

size_t mn_apply_run_changes(const struct mn_apply_run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n; i++)
        n += run->nodes[i].n_kernel + run->nodes[i].n_files;
    return n;
}

/* --- making ----------------------------------------------------------------------------------- */

/* Nodes say so before they begin, or after they have undone it. */
static int is_refusal(enum mn_err err)
{
    return err == MN_ERR_CONFIG || err == MN_ERR_USAGE || err == MN_ERR_AGAIN ||
           err == MN_ERR_EXISTS;
}

enum mn_err mn_apply_run_make(struct mn_apply_run *run, struct mn_diag *diag)
{
    cJSON **asks = mn_zalloc((run->n + 1) * sizeof *asks);

    run->begun = mn_seconds();
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        if (!node->n_kernel && !node->n_files) {
            mn_strlcpy(node->outcome, "nothing to change", sizeof node->outcome);
            continue;
        }
        /* Even if its answer is lost. */
        node->made = 1;
        asks[i] = mn_run_question(run);
        cJSON_AddStringToObject(asks[i], "id", run->id);
        cJSON_AddStringToObject(asks[i], "who", run->who);
        cJSON_AddNumberToObject(asks[i], "rollback_ms", run->rollback_ms);
        cJSON_AddItemReferenceToObject(asks[i], "changes",
                                       cJSON_GetObjectItemCaseSensitive(node->plan, "changes"));
        cJSON_AddItemReferenceToObject(asks[i], "files",
                                       cJSON_GetObjectItemCaseSensitive(node->plan, "files"));
    }
    enum mn_err err = mn_run_ask(run, "apply", asks, diag);
    for (size_t i = 0; i < run->n; i++) {
        struct mn_apply_node *node = &run->nodes[i];
        cJSON_Delete(node->answer);
        node->answer = NULL;
        /* Only what says that nothing stands is believed; whatever else has gone wrong may have
         * done so afterwards. */
        if (node->made && is_refusal(node->err) && !*run->stop)
            node->made = 0;
    }
    mn_run_free_asks(run, asks);
    if (!err && *run->stop)
        err = mn_fail(diag, MN_ERR_FAILED, "interrupted");
    if (err)
        mn_run_undo(run);
    return err;
}
