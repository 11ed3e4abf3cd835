/* What apply has set on this host for packets of others, and what was there before: a file that is
 * written and undone with the other files, so that a later apply can take back what nobody needs
 * any more, and knows how the rules came about. {"version": 1, "changes": […]} */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_kernel.h"
#include "fleet/apply_place.h"
#include "topo/base/alloc.h"
#include "topo/emit/emit.h"

#define OURS "# Written by meshnet topo " /* how files of ours begin, after a "#!" */

void mn_record_read(const char *root, struct mn_changes *record)
{
    char *path = mn_asprintf("%s%s", root, MN_APPLY_RECORD), *text = NULL;
    unsigned mode;

    *record = (struct mn_changes){.items = NULL};
    if (!mn_place_read(path, &text, &mode, NULL) && text) {
        cJSON *json = cJSON_Parse(text);
        (void)mn_changes_parse(cJSON_GetObjectItemCaseSensitive(json, "changes"), record, NULL);
        cJSON_Delete(json);
    }
    free(text);
    free(path);
}

const struct mn_change *mn_record_find(const struct mn_changes *record, enum mn_change_kind kind,
                                       const char *what)
{
    for (size_t i = 0; i < record->count; i++)
        if (record->items[i].kind == kind && record->items[i].what &&
            !strcmp(record->items[i].what, what))
            return &record->items[i];
    return NULL;
}

static void add_file(const char *path, const char *text, unsigned mode, struct mn_changes *files)
{
    unsigned old_mode = 0;
    char *old = NULL;

    (void)mn_place_read(path, &old, &old_mode, NULL);
    if (old ? !text || strcmp(old, text) != 0 : text != NULL) {
        struct mn_change *c = mn_change_add(files, MN_CHANGE_FILE, NULL, path, old, text);
        c->from_mode = old ? old_mode : 0;
        c->to_mode = text ? mode : 0;
    }
    free(old);
}

void mn_record_plan(const char *root, const struct mn_changes *record, struct mn_changes *files)
{
    char *path = mn_asprintf("%s%s", root, MN_APPLY_RECORD), *text = NULL;

    if (record->count) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddNumberToObject(json, "version", 1);
        cJSON_AddItemToObject(json, "changes", mn_changes_json(record));
        text = cJSON_Print(json);
        cJSON_Delete(json);
        if (!text)
            mn_no_memory();
    }
    add_file(path, text, 0600, files);
    cJSON_free(text);
    free(path);
}

static int is_ours(const char *path)
{
    char *text = NULL;
    unsigned mode;

    (void)mn_place_read(path, &text, &mode, NULL);
    const char *at = text ? text : "";
    if (!strncmp(at, "#!", 2))
        at += strcspn(at, "\n") + 1;
    int ours = !strncmp(at, OURS, strlen(OURS));
    free(text);
    return ours;
}

void mn_transit_old_files(const struct mn_manager *manager, const struct mn_mesh *mesh, int node,
                          const char *root, struct mn_changes *files)
{
    static const char *const places[] = {MN_TRANSIT_SYSCTL_PATH, MN_TRANSIT_SCRIPT_PATH,
                                         MN_TRANSIT_UNIT_PATH, MN_TRANSIT_BOOT_PATH,
                                         MN_TRANSIT_DOCKER_PATH};
    struct mn_emit out;

    if (mn_emit(mn_emit_find(manager->format), mesh, node, &out, NULL))
        out = (struct mn_emit){.files = NULL};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int written = 0;
        for (size_t k = 0; k < out.n_files; k++)
            written |= !strcmp(places[i], out.files[k].path);
        char *path = mn_asprintf("%s%s", root, places[i]);
        if (!written && is_ours(path))
            add_file(path, NULL, 0, files);
        free(path);
    }
    mn_emit_free(&out);
}
