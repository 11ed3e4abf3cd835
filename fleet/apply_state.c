#include "fleet/apply_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fleet/apply_place.h"
#include "topo/base/alloc.h"

static const char *const file_names[] =
    {[MN_APPLY_PENDING] = "apply-pending.json", [MN_APPLY_KEPT] = "apply-kept.json"};

static void read_boot(char boot[40])
{
    boot[0] = '\0';
    mn_sysctl_read("kernel/random/boot_id", boot, 40);
}

void mn_apply_state_stamp(struct mn_apply_state *state)
{
    state->since = time(NULL);
    read_boot(state->boot);
}

enum mn_err mn_apply_state_write(enum mn_apply_stage stage, const struct mn_apply_state *state,
                                 struct mn_diag *diag)
{
    cJSON *json = cJSON_CreateObject();
    char *path;

    cJSON_AddNumberToObject(json, "version", 1);
    cJSON_AddStringToObject(json, "id", state->id);
    cJSON_AddStringToObject(json, "who", state->who);
    cJSON_AddStringToObject(json, "boot", state->boot);
    cJSON_AddNumberToObject(json, "since", (double)state->since);
    cJSON_AddNumberToObject(json, "rollback_ms", state->rollback_ms);
    cJSON_AddStringToObject(json, "manager", state->manager->name);
    cJSON_AddItemToObject(json, "kernel", mn_changes_json(&state->kernel));
    cJSON_AddItemToObject(json, "files", mn_changes_json(&state->files));
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (!text)
        mn_no_memory();
    enum mn_err err = mn_place_state(file_names[stage], &path, diag);
    if (!err)
        err = mn_place_write(path, text, 0600, diag);
    cJSON_free(text);
    free(path);
    return err;
}

static int get_text(const cJSON *json, const char *key, char *to, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsString(item) && mn_strlcpy(to, item->valuestring, size);
}

static double get_number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e15
               ? item->valuedouble
               : 0;
}

static enum mn_err parse(const char *path, const char *text, struct mn_apply_state *state,
                         struct mn_diag *diag)
{
    cJSON *json = cJSON_Parse(text);
    char manager[32] = "";
    enum mn_err err = MN_OK;

    if (!get_text(json, "id", state->id, sizeof state->id) ||
        !get_text(json, "who", state->who, sizeof state->who) ||
        !get_text(json, "boot", state->boot, sizeof state->boot) ||
        !get_text(json, "manager", manager, sizeof manager) ||
        !(state->manager = mn_manager_named(manager)))
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "%s: this is not what meshnet topo apply wrote; look what it says was "
                      "changed, and remove it",
                      path);
    state->since = (long long)get_number(json, "since");
    state->rollback_ms = (unsigned)get_number(json, "rollback_ms");
    if (!err)
        err = mn_changes_parse(cJSON_GetObjectItemCaseSensitive(json, "kernel"), &state->kernel,
                               diag);
    if (!err)
        err =
            mn_changes_parse(cJSON_GetObjectItemCaseSensitive(json, "files"), &state->files, diag);
    cJSON_Delete(json);
    return err;
}

enum mn_err mn_apply_state_read(enum mn_apply_stage stage, struct mn_apply_state *state,
                                struct mn_diag *diag)
{
    char *path = mn_asprintf("%s/var/lib/meshnet/%s", mn_place_root(), file_names[stage]);
    char *text;
    unsigned mode;

    *state = (struct mn_apply_state){.id = ""};
    enum mn_err err = mn_place_read(path, &text, &mode, diag);
    if (!err && !text)
        err = mn_fail(diag, MN_ERR_NOTFOUND, "%s: there is none", path);
    if (!err)
        err = parse(path, text, state, diag);
    free(text);
    free(path);
    return err;
}

void mn_apply_state_free(struct mn_apply_state *state)
{
    mn_changes_free(&state->kernel);
    mn_changes_free(&state->files);
}

enum mn_err mn_apply_state_keep(struct mn_diag *diag)
{
    char *from, *to = NULL;
    enum mn_err err = mn_place_state(file_names[MN_APPLY_PENDING], &from, diag);

    if (!err)
        err = mn_place_state(file_names[MN_APPLY_KEPT], &to, diag);
    if (!err && rename(from, to))
        err = mn_fail_errno(diag, "%s: giving it the name %s", from, to);
    if (!err)
        mn_file_sync_folder(to);
    free(from);
    free(to);
    return err;
}

enum mn_err mn_apply_state_drop(enum mn_apply_stage stage, struct mn_diag *diag)
{
    char *path;
    enum mn_err err = mn_place_state(file_names[stage], &path, diag);

    if (!err && unlink(path) && errno != ENOENT)
        err = mn_fail_errno(diag, "%s: removing it", path);
    if (!err)
        mn_file_sync_folder(path);
    free(path);
    return err;
}
