/* What meshnet topo apply asks of a node: see fleet/verbs.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/apply_check.h"
#include "fleet/apply_keeper.h"
#include "fleet/apply_place.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

#define ROLLBACK_MIN_MS 5000
#define ROLLBACK_MAX_MS (3600 * 1000)
#define WAIT_MAX_MS     30000

struct site {
    struct mn_mesh mesh;
    struct mn_host host;
    struct mn_kernel *kernel;
    int node;
};

static const char *text_of(const cJSON *ask, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(ask, key);

    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static enum mn_err number_of(const cJSON *ask, const char *key, unsigned min, unsigned max,
                             unsigned *value, struct mn_diag *diag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(ask, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min && item->valuedouble <= max))
        return mn_fail(diag, MN_ERR_PROTO, "\"%s\": expected a number from %u to %u", key, min,
                       max);
    *value = (unsigned)item->valuedouble;
    return MN_OK;
}

/* Texts of ask, which owns them; the caller frees the array. */
static enum mn_err list_of(const cJSON *ask, const char *key, const char ***list, size_t *n,
                           struct mn_diag *diag)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(ask, key), *item;

    *list = NULL;
    *n = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item)) {
            free(*list);
            *list = NULL;
            *n = 0;
            return mn_fail(diag, MN_ERR_PROTO, "\"%s\": expected texts", key);
        }
        *(const char **)mn_grow((void **)list, n, sizeof **list) = item->valuestring;
    }
    return MN_OK;
}

static enum mn_err id_of(const cJSON *ask, const char **id, struct mn_diag *diag)
{
    *id = text_of(ask, "id");
    if (!*id || strspn(*id, "0123456789abcdef") != MN_APPLY_ID - 1 || (*id)[MN_APPLY_ID - 1])
        return mn_fail(diag, MN_ERR_PROTO, "\"id\": expected %d hexadecimal digits",
                       MN_APPLY_ID - 1);
    return MN_OK;
}

static enum mn_err site_open(const cJSON *ask, struct site *s, struct mn_diag *diag)
{
    const char *text = text_of(ask, "mesh");
    char why[256];

    *s = (struct site){.node = -1};
    mn_mesh_init(&s->mesh);
    enum mn_err err = text ? mn_mesh_parse("mesh file", text, strlen(text), &s->mesh, diag)
                           : mn_fail(diag, MN_ERR_PROTO, "\"mesh\": expected a mesh file's text");
    if (!err)
        err = mn_host_read(NULL, &s->host, diag);
    if (!err)
        err = mn_host_around(NULL, &s->host, diag);
    if (!err)
        err = mn_mesh_find_self(&s->mesh, &s->host, &s->node, why, sizeof why, diag);
    if (!err)
        mn_mesh_roles(&s->host, &s->mesh, s->mesh.nodes[s->node].name);
    if (!err)
        err = mn_kernel_open(&s->kernel, diag);
    return err;
}

static void site_close(struct site *s)
{
    mn_kernel_close(s->kernel);
    mn_host_free(&s->host);
    mn_mesh_free(&s->mesh);
}

static enum mn_err make_plan(const cJSON *ask, struct site *s, struct mn_apply_plan *plan,
                             struct mn_diag *diag)
{
    struct mn_apply_want want = {.mesh = &s->mesh, .node = s->node, .host = &s->host};
    const char **take;

    *plan = (struct mn_apply_plan){.manager = NULL};
    enum mn_err err = list_of(ask, "take", &take, &want.n_take, diag);
    want.take = take;
    if (!err && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(ask, "undo")))
        err = mn_apply_plan_back(&want, s->kernel, plan, diag);
    else if (!err)
        err = mn_apply_plan(&want, s->kernel, mn_place_root(), plan, diag);
    free(take);
    return err;
}

static cJSON *texts_json(char *const *texts, size_t n)
{
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
    return list;
}

enum mn_err mn_verb_apply_plan(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    static const char *const stands[] =
        {[MN_STAND_NONE] = "none", [MN_STAND_TRIED] = "tried", [MN_STAND_ORPHAN] = "orphan"};
    struct mn_apply_plan plan = {.manager = NULL};
    struct site site;
    char text[512];
    enum mn_err err = site_open(ask, &site, diag);

    if (!err)
        err = make_plan(ask, &site, &plan, diag);
    if (!err) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "node", site.mesh.nodes[site.node].name);
        cJSON_AddStringToObject(json, "manager", plan.manager->name);
        cJSON_AddItemToObject(json, "changes", mn_changes_json(&plan.kernel));
        cJSON_AddItemToObject(json, "files", mn_changes_json(&plan.files));
        cJSON_AddItemToObject(json, "notes", texts_json(plan.notes, plan.n_notes));
        cJSON_AddStringToObject(json, "stands", stands[mn_keeper_stand(text, sizeof text)]);
        cJSON_AddStringToObject(json, "stands_by", text);
        *answer = json;
    }
    mn_apply_plan_free(&plan);
    site_close(&site);
    return err;
}

static int same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Who was shown it may not have been allowed to read what is there: then only what is to be counts.
 */
static int was_shown(const struct mn_change *file, const struct mn_changes *shown)
{
    for (size_t i = 0; i < shown->count; i++) {
        const struct mn_change *s = &shown->items[i];
        if (same_text(s->what, file->what) && same_text(s->to, file->to) &&
            (!s->from || same_text(s->from, file->from)))
            return 1;
    }
    return 0;
}

static int files_shown(const cJSON *json, const struct mn_changes *files)
{
    struct mn_changes shown;
    int same = 1;

    if (!json) /* of a command that does not know about it */
        return 1;
    if (mn_changes_parse(json, &shown, NULL))
        return 0;
    for (size_t i = 0; i < files->count; i++)
        same &= was_shown(&files->items[i], &shown);
    mn_changes_free(&shown);
    return same;
}

/* What people have seen is what is made. */
static enum mn_err check_shown(const cJSON *ask, const struct mn_apply_plan *plan,
                               struct mn_diag *diag)
{
    cJSON *now = mn_changes_json(&plan->kernel);
    int same = cJSON_Compare(cJSON_GetObjectItemCaseSensitive(ask, "changes"), now, 1) &&
               files_shown(cJSON_GetObjectItemCaseSensitive(ask, "files"), &plan->files);

    cJSON_Delete(now);
    return same ? MN_OK
                : mn_fail(diag, MN_ERR_AGAIN,
                          "what would be changed is no longer what was shown; nothing was changed: "
                          "begin again");
}

enum mn_err mn_verb_apply(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct mn_apply_state state = {.id = ""};
    struct mn_apply_plan plan = {.manager = NULL};
    const char *id, *who = text_of(ask, "who");
    struct site site;
    enum mn_err err = site_open(ask, &site, diag);

    if (!err)
        err = id_of(ask, &id, diag);
    if (!err)
        err = number_of(ask, "rollback_ms", ROLLBACK_MIN_MS, ROLLBACK_MAX_MS, &state.rollback_ms,
                        diag);
    if (!err)
        err = make_plan(ask, &site, &plan, diag);
    if (!err)
        err = check_shown(ask, &plan, diag);
    if (!err) {
        mn_strlcpy(state.id, id, sizeof state.id);
        mn_strlcpy(state.who, who ? who : "somebody", sizeof state.who);
        mn_clean(state.who);
        mn_apply_state_stamp(&state);
        state.manager = plan.manager;
        state.kernel = plan.kernel;
        state.files = plan.files;
        err = mn_keeper_start(&state, diag);
    }
    if (!err) {
        *answer = cJSON_CreateObject();
        cJSON_AddNumberToObject(*answer, "made", (double)plan.kernel.count);
    }
    mn_apply_plan_free(&plan);
    site_close(&site);
    return err;
}

static cJSON *cables_json(const struct mn_cable_check *checks, size_t n)
{
    static const char *const words[] = {[MN_CABLE_SILENT] = "silent",
                                        [MN_CABLE_ANSWERS] = "answers",
                                        [MN_CABLE_CROSSED] = "wrong NIC",
                                        [MN_CABLE_DARK] = "no carrier"};
    cJSON *list = cJSON_CreateArray();
    char text[MN_ADDR_TEXT];

    for (size_t i = 0; i < n; i++) {
        cJSON *map = cJSON_CreateObject();
        struct mn_addr far = checks[i].far;
        far.prefix = -1;
        cJSON_AddStringToObject(map, "cable", checks[i].link->name);
        cJSON_AddStringToObject(map, "netdev", checks[i].netdev);
        cJSON_AddStringToObject(map, "peer", checks[i].peer);
        cJSON_AddStringToObject(map, "address", mn_addr_format(&far, text, sizeof text));
        cJSON_AddStringToObject(map, "state", words[checks[i].answer]);
        cJSON_AddItemToArray(list, map);
    }
    return list;
}

enum mn_err mn_verb_apply_check(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct mn_cable_check *checks = NULL;
    const char **peers = NULL;
    char **missing = NULL;
    size_t n_peers, n = 0, n_missing = 0;
    unsigned ms;
    struct site site;
    enum mn_err err = site_open(ask, &site, diag);

    if (!err)
        err = number_of(ask, "wait_ms", 0, WAIT_MAX_MS, &ms, diag);
    if (!err)
        err = list_of(ask, "peers", &peers, &n_peers, diag);
    if (!err) {
        n = mn_cables_to(&site.mesh, site.node, &site.host, peers, n_peers, &checks);
        err = mn_cables_ask(checks, n, ms, diag);
    }
    if (!err)
        err = mn_gids_wait(&site.mesh, site.node, ms, &missing, &n_missing, diag);
    if (!err) {
        *answer = cJSON_CreateObject();
        cJSON_AddItemToObject(*answer, "cables", cables_json(checks, n));
        cJSON_AddItemToObject(*answer, "missing_gids", texts_json(missing, n_missing));
    }
    mn_texts_free(missing, n_missing);
    free(checks);
    free(peers);
    site_close(&site);
    return err;
}

enum mn_err mn_verb_apply_keep(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    const char *id;
    char *said;
    enum mn_err err = id_of(ask, &id, diag);

    if (!err)
        err = mn_keeper_keep(id, &said, diag);
    if (err)
        return err;
    *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(*answer, "said", said ? said : "");
    free(said);
    return MN_OK;
}

enum mn_err mn_verb_apply_undo(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    const char *id;
    enum mn_err err;

    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(ask, "orphan")))
        err = mn_keeper_recover(diag);
    else if (!(err = id_of(ask, &id, diag)))
        err = mn_keeper_undo(id, diag);
    if (!err)
        *answer = cJSON_CreateObject();
    return err;
}

enum mn_err mn_verb_apply_state(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    char text[512];
    const char *id;
    enum mn_err err = id_of(ask, &id, diag);

    if (err)
        return err;
    *answer = cJSON_CreateObject();
    cJSON_AddBoolToObject(*answer, "tried", mn_keeper_stand(text, sizeof text) == MN_STAND_TRIED);
    cJSON_AddStringToObject(*answer, "outcome",
                            mn_keeper_outcome(id, text, sizeof text) ? text : "");
    return MN_OK;
}
