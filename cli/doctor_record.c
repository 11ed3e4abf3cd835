#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_file.h"

#define MOST (8u << 20) /* bytes of a file */

static const char *const states[] = {"unknown", "ok", "dead", "wrong"};

/* The node's name where that is a plain file name, else its number. */
static void path_of(const struct mn_doctor_session *s, const char *folder, size_t node, char *path,
                    size_t size)
{
    const char *name = s->mesh.nodes[node].name;
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    if (strspn(name, plain) == strcspn(name, ".") && name[strspn(name, plain)] != '.' &&
        strcmp(name, "write") != 0)
        snprintf(path, size, "%.400s/%s.json", folder, name);
    else
        snprintf(path, size, "%.400s/node-%zu.json", folder, node);
}

static enum mn_err put(const char *path, cJSON *json, struct mn_diag *diag)
{
    char *text = cJSON_Print(json);

    if (!text)
        mn_no_memory();
    enum mn_err err = mn_file_write(path, text, strlen(text), 1, diag);
    free(text);
    cJSON_Delete(json);
    return err;
}

static cJSON *node_json(const struct mn_doctor_node *node, const char *name)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "node", name);
    cJSON_AddNumberToObject(json, "begin", node->begin);
    cJSON_AddNumberToObject(json, "end", node->end);
    if (node->error)
        cJSON_AddStringToObject(json, "error", node->error);
    if (node->facts)
        cJSON_AddItemToObject(json, "facts", cJSON_Duplicate(node->facts, 1));
    if (node->counters)
        cJSON_AddItemToObject(json, "counters", cJSON_Duplicate(node->counters, 1));
    return json;
}

static cJSON *writes_json(const struct mn_doctor_session *s)
{
    cJSON *json = cJSON_CreateObject();

    if (s->write_error)
        cJSON_AddStringToObject(json, "error", s->write_error);
    if (!s->writes)
        return json;
    cJSON *list = cJSON_AddArrayToObject(json, "writes");
    for (size_t i = 0; i < s->mesh.n_links; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "link", s->mesh.links[i].name);
        cJSON_AddStringToObject(item, "state", states[s->writes[i].state]);
        cJSON_AddNumberToObject(item, "gbps", s->writes[i].gbps);
        cJSON_AddStringToObject(item, "error", s->writes[i].error);
        cJSON_AddItemToArray(list, item);
    }
    return json;
}

/* What an earlier run left of those that are not asked now. */
static enum mn_err drop_others(const struct mn_doctor_session *s, struct mn_diag *diag)
{
    char path[512];

    for (size_t i = 0; i < s->mesh.n_nodes; i++) {
        path_of(s, s->options->save, i, path, sizeof path);
        if (!s->nodes[i].asked && unlink(path) && errno != ENOENT)
            return mn_fail_errno(diag, "%s: removing it", path);
    }
    return MN_OK;
}

enum mn_err mn_doctor_save(const struct mn_doctor_session *s, struct mn_diag *diag)
{
    const char *folder = s->options->save;
    char path[512], *text;
    size_t len;

    if (mkdir(folder, 0755) && errno != EEXIST)
        return mn_fail_errno(diag, "--save %.300s", folder);
    enum mn_err err = mn_file_read(s->path, MOST, &text, &len, diag);
    if (err)
        return err;
    snprintf(path, sizeof path, "%.400s/mesh.yaml", folder);
    err = mn_file_write(path, text, len, 1, diag);
    free(text);
    if (!err)
        err = drop_others(s, diag);
    for (size_t i = 0; i < s->mesh.n_nodes && !err; i++) {
        path_of(s, folder, i, path, sizeof path);
        if (s->nodes[i].asked)
            err = put(path, node_json(&s->nodes[i], s->mesh.nodes[i].name), diag);
    }
    snprintf(path, sizeof path, "%.400s/write.json", folder);
    return err ? err : put(path, writes_json(s), diag);
}

/* --- reading -----------------------------------------------------------------------------------
 */

static enum mn_err get(const char *path, cJSON **json, struct mn_diag *diag)
{
    char *text;
    enum mn_err err = mn_file_read(path, MOST, &text, NULL, diag);

    *json = NULL;
    if (err)
        return err;
    *json = cJSON_Parse(text);
    free(text);
    if (!cJSON_IsObject(*json)) {
        cJSON_Delete(*json);
        *json = NULL;
        return mn_fail(diag, MN_ERR_CONFIG, "%s: no JSON object", path);
    }
    mn_clean_json(*json);
    return MN_OK;
}

static double number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void take_node(struct mn_doctor_node *node, cJSON *json)
{
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "error"));

    node->asked = 1;
    node->begin = number(json, "begin");
    node->end = number(json, "end");
    node->facts = error ? NULL : cJSON_DetachItemFromObjectCaseSensitive(json, "facts");
    node->counters = cJSON_DetachItemFromObjectCaseSensitive(json, "counters");
    if (!node->facts)
        node->error = mn_strdup(error ? error : "nothing is recorded of it");
    cJSON_Delete(json);
}

static void take_writes(struct mn_doctor_session *s, const cJSON *json)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "writes"), *item;
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "error"));

    s->write_error = mn_strdup(error);
    if (cJSON_IsArray(list))
        s->writes = mn_zalloc((s->mesh.n_links + 1) * sizeof *s->writes);
    cJSON_ArrayForEach(item, list)
    {
        const char *link = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "link"));
        const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "state"));
        error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "error"));
        for (size_t i = 0; link && state && i < s->mesh.n_links; i++) {
            struct mn_doctor_write *w = &s->writes[i];
            if (strcmp(s->mesh.links[i].name, link) != 0)
                continue;
            for (int k = 0; k < 4; k++)
                if (!strcmp(state, states[k]))
                    w->state = (enum mn_doctor_write_state)k;
            w->gbps = number(item, "gbps");
            mn_strlcpy(w->error, error ? error : "", sizeof w->error);
        }
    }
}

enum mn_err mn_doctor_load(struct mn_doctor_session *s, struct mn_diag *diag)
{
    const char *folder = s->options->answers;
    char path[512];
    cJSON *json;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < s->mesh.n_nodes && !err; i++) {
        path_of(s, folder, i, path, sizeof path);
        if (access(path, F_OK)) /* it was not asked */
            continue;
        err = get(path, &json, diag);
        if (!err)
            take_node(&s->nodes[i], json);
    }
    snprintf(path, sizeof path, "%.400s/write.json", folder);
    if (!err && !access(path, F_OK)) {
        err = get(path, &json, diag);
        if (!err) {
            take_writes(s, json);
            cJSON_Delete(json);
        }
    }
    return err;
}
