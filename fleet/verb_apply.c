/* What meshnet topo apply asks of a node: see fleet/verbs.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/apply_keeper.h"
#include "fleet/apply_place.h"
#include "fleet/verb_apply_impl.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

static const char *text_of(const cJSON *ask, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(ask, key);

    return cJSON_IsString(item) ? item->valuestring : NULL;
}

enum mn_err mn_ask_number(const cJSON *ask, const char *key, unsigned min, unsigned max,
                          unsigned *value, struct mn_diag *diag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(ask, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min && item->valuedouble <= max))
        return mn_fail(diag, MN_ERR_PROTO, "\"%s\": expected a number from %u to %u", key, min,
                       max);
    *value = (unsigned)item->valuedouble;
    return MN_OK;
}

enum mn_err mn_ask_texts(const cJSON *ask, const char *key, const char ***list, size_t *n,
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

enum mn_err mn_apply_site_open(const cJSON *ask, struct mn_apply_site *s, struct mn_diag *diag)
{
    const char *text = text_of(ask, "mesh");
    char why[256];

    *s = (struct mn_apply_site){.node = -1};
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

void mn_apply_site_close(struct mn_apply_site *s)
{
    mn_kernel_close(s->kernel);
    mn_host_free(&s->host);
    mn_mesh_free(&s->mesh);
}

static enum mn_err make_plan(const cJSON *ask, struct mn_apply_site *s, struct mn_apply_plan *plan,
                             struct mn_diag *diag)
{
    struct mn_apply_want want = {.mesh = &s->mesh, .node = s->node, .host = &s->host};
    const char **take;

    *plan = (struct mn_apply_plan){.manager = NULL};
    enum mn_err err = mn_ask_texts(ask, "take", &take, &want.n_take, diag);
    want.take = take;
    if (!err && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(ask, "undo")))
        err = mn_apply_plan_back(&want, s->kernel, plan, diag);
    else if (!err)
        err = mn_apply_plan(&want, s->kernel, mn_place_root(), plan, diag);
    free(take);
    return err;
}

cJSON *mn_texts_json(char *const *texts, size_t n)
{
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
    return list;
}

static int is_ours(const struct mn_apply_site *s, const struct mn_apply_plan *plan,
                   const char *netdev)
{
    const struct mn_mesh_node *node = &s->mesh.nodes[s->node];

    for (size_t i = 0; i < plan->kernel.count; i++)
        if (!strcmp(plan->kernel.items[i].nic, netdev))
            return 1;
    for (size_t i = 0; i < node->n_nics; i++)
        if (node->nics[i].n_addrs && node->nics[i].role != MN_ROLE_MANAGEMENT &&
            !strcmp(node->nics[i].netdev, netdev))
            return 1;
    return 0;
}

/* NICs that have a carrier and are to have one afterwards. */
static cJSON *carriers_json(const struct mn_apply_site *s, const struct mn_apply_plan *plan)
{
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; i < s->host.n_nics; i++) {
        const struct mn_nic *nic = &s->host.nics[i];
        if (nic->admin_up && nic->carrier && is_ours(s, plan, nic->netdev))
            cJSON_AddItemToArray(list, cJSON_CreateString(nic->netdev));
    }
    return list;
}

static const char *const stands[] =
    {[MN_STAND_NONE] = "none", [MN_STAND_TRIED] = "tried", [MN_STAND_ORPHAN] = "orphan"};

enum mn_err mn_verb_apply_plan(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct mn_apply_plan plan = {.manager = NULL};
    struct mn_apply_site site;
    char text[512];
    enum mn_err err = mn_apply_site_open(ask, &site, diag);

    if (!err)
        err = make_plan(ask, &site, &plan, diag);
    if (!err) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "node", site.mesh.nodes[site.node].name);
        cJSON_AddStringToObject(json, "manager", plan.manager->name);
        cJSON_AddItemToObject(json, "changes", mn_changes_json(&plan.kernel));
        cJSON_AddItemToObject(json, "files", mn_changes_json(&plan.files));
        cJSON_AddItemToObject(json, "carriers", carriers_json(&site, &plan));
        cJSON_AddItemToObject(json, "notes", mn_texts_json(plan.notes, plan.n_notes));
        cJSON_AddStringToObject(json, "stands", stands[mn_keeper_stand(text, sizeof text)]);
        cJSON_AddStringToObject(json, "stands_by", text);
        *answer = json;
    }
    mn_apply_plan_free(&plan);
    mn_apply_site_close(&site);
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

/* How long an address has to live is less every second. */
static void drop_lifetimes(struct mn_changes *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char *text = list->items[i].kind == MN_CHANGE_ADDRESS ? list->items[i].from : NULL;
        char *at = text ? strstr(text, "_lft ") : NULL;
        while (at && at > text && *at != ' ')
            at--;
        if (at)
            *at = '\0';
    }
}

static int changes_shown(const cJSON *json, const struct mn_changes *changes)
{
    struct mn_changes shown, now;
    cJSON *copy = mn_changes_json(changes);
    int same = !mn_changes_parse(json, &shown, NULL) && !mn_changes_parse(copy, &now, NULL);

    cJSON_Delete(copy);
    if (same) {
        drop_lifetimes(&shown);
        drop_lifetimes(&now);
        cJSON *a = mn_changes_json(&shown), *b = mn_changes_json(&now);
        same = cJSON_Compare(a, b, 1);
        cJSON_Delete(a);
        cJSON_Delete(b);
        mn_changes_free(&now);
    }
    mn_changes_free(&shown);
    return same;
}

/* What people have seen is what is made. */
static enum mn_err check_shown(const cJSON *ask, const struct mn_apply_plan *plan,
                               struct mn_diag *diag)
{
    int same = changes_shown(cJSON_GetObjectItemCaseSensitive(ask, "changes"), &plan->kernel) &&
               files_shown(cJSON_GetObjectItemCaseSensitive(ask, "files"), &plan->files);

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
    struct mn_apply_site site;
    enum mn_err err = mn_apply_site_open(ask, &site, diag);

    if (!err)
        err = id_of(ask, &id, diag);
    if (!err)
        err = mn_ask_number(ask, "rollback_ms", MN_APPLY_ROLLBACK_MIN_MS, MN_APPLY_ROLLBACK_MAX_MS,
                            &state.rollback_ms, diag);
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
    mn_apply_site_close(&site);
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

/* Without its id, by which it could be undone. */
static void add_kept(cJSON *json)
{
    struct mn_apply_state kept;

    if (!mn_apply_state_read(MN_APPLY_KEPT, &kept, NULL)) {
        cJSON *map = cJSON_AddObjectToObject(json, "kept");
        cJSON_AddStringToObject(map, "by", kept.who);
        cJSON_AddNumberToObject(map, "since", (double)kept.since);
    } else {
        cJSON_AddNullToObject(json, "kept");
    }
    mn_apply_state_free(&kept);
}

enum mn_err mn_verb_apply_state(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    char text[512];
    const char *id = NULL;
    enum mn_err err = cJSON_GetObjectItemCaseSensitive(ask, "id") ? id_of(ask, &id, diag) : MN_OK;

    if (err)
        return err;
    *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(*answer, "stands", stands[mn_keeper_stand(text, sizeof text)]);
    cJSON_AddStringToObject(*answer, "stands_by", text);
    add_kept(*answer);
    cJSON_AddStringToObject(*answer, "outcome",
                            id && mn_keeper_outcome(id, text, sizeof text) ? text : "");
    return MN_OK;
}
