#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/results.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

const struct mn_results_kind_row mn_results_kinds[MN_RESULTS_KINDS] = {
    [MN_RESULTS_LINK] = {"link", {"results", "latency", "rates", "bursts", "raw_verbs"}},
    [MN_RESULTS_COLLECTIVES] = {"collectives", {"collectives"}},
    [MN_RESULTS_MATRIX] = {"matrix", {"cells", "nodes", "findings"}},
};

#define WANTED "expected what meshnet bench --json writes"

const char *mn_results_text(const cJSON *object, const char *key, const char *otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : otherwise;
}

double mn_results_number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

/* The place where reading stopped, as people count. */
static enum mn_err not_json(const char *name, const char *text, const char *end,
                            struct mn_diag *diag)
{
    int line = 1, column = 1;

    for (const char *at = text; at < end; at++) {
        line += *at == '\n';
        column = *at == '\n' ? 1 : column + 1;
    }
    return mn_fail(diag, MN_ERR_CONFIG, "%s:%d:%d: not JSON; " WANTED, name, line, column);
}

/* A list, where there is one, has objects only. */
static enum mn_err check_list(const char *name, const cJSON *json, const char *key, int *found,
                              struct mn_diag *diag)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, key), *item;
    int n = 0;

    *found = list != NULL;
    if (list && !cJSON_IsArray(list))
        return mn_fail(diag, MN_ERR_CONFIG, "%s: \"%s\" is not a list; " WANTED, name, key);
    cJSON_ArrayForEach(item, list)
    {
        n++;
        if (!cJSON_IsObject(item))
            return mn_fail(diag, MN_ERR_CONFIG, "%s: entry %d of \"%s\" is not an object; " WANTED,
                           name, n, key);
    }
    return MN_OK;
}

static enum mn_err check(const char *name, struct mn_results *results, struct mn_diag *diag)
{
    const cJSON *json = results->json;
    const char *schema = mn_results_text(json, "schema", NULL);
    const char *kind = mn_results_text(json, "kind", "");
    double version = mn_results_number(json, "schema_version", 0);
    int known = 0, found, lists = 0;

    if (!cJSON_IsObject(json) || !schema || strcmp(schema, MN_RESULTS_SCHEMA) != 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s: not results of meshnet: \"schema\" is '%.40s' and not '%s'; " WANTED,
                       name, schema ? schema : "absent", MN_RESULTS_SCHEMA);
    if (version != MN_RESULTS_VERSION)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s: \"schema_version\" is %g, this meshnet reads %d; use the meshnet that "
                       "wrote it, '%.40s'",
                       name, version, MN_RESULTS_VERSION, mn_results_text(json, "meshnet", "?"));
    for (int k = 0; k < MN_RESULTS_KINDS && !known; k++)
        if (!strcmp(kind, mn_results_kinds[k].name)) {
            results->kind = (enum mn_results_kind)k;
            known = 1;
        }
    if (!known)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s: \"kind\" is '%.40s'; expected link, collectives or matrix", name, kind);
    enum mn_err err = check_list(name, json, "environment", &found, diag);
    if (!err && !found)
        err = mn_fail(diag, MN_ERR_CONFIG, "%s: no \"environment\"; " WANTED, name);
    for (const char *const *key = mn_results_kinds[results->kind].lists; *key && !err; key++) {
        err = check_list(name, json, *key, &found, diag);
        lists += found;
    }
    if (!err && !lists)
        err = mn_fail(diag, MN_ERR_CONFIG, "%s: no \"%s\" in results of kind '%s'; " WANTED, name,
                      mn_results_kinds[results->kind].lists[0], kind);
    return err;
}

enum mn_err mn_results_parse(const char *name, const char *text, size_t len,
                             struct mn_results *results, struct mn_diag *diag)
{
    const char *end = text;

    *results = (struct mn_results){.json = cJSON_ParseWithLengthOpts(text, len, &end, 0)};
    if (results->json)
        for (const char *at = end; at < text + len; at++)
            if (!strchr(" \t\r\n", *at) || !*at)
                return not_json(name, text, at, diag);
    mn_clean_json(results->json);
    return results->json ? check(name, results, diag) : not_json(name, text, end, diag);
}

enum mn_err mn_results_read(const char *path, struct mn_results *results, struct mn_diag *diag)
{
    char *text;
    size_t len;

    *results = (struct mn_results){.json = NULL};
    enum mn_err err = mn_file_read(path, MN_RESULTS_MAX, &text, &len, diag);
    if (err) {
        char why[sizeof diag->text];
        mn_strlcpy(why, diag->text, sizeof why);
        return mn_fail(diag, MN_ERR_CONFIG, "%.900s; expected a file of results", why);
    }
    err = mn_results_parse(path, text, len, results, diag);
    free(text);
    return err;
}

void mn_results_free(struct mn_results *results)
{
    cJSON_Delete(results->json);
    results->json = NULL;
}
