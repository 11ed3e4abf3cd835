#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/environment.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define TEXT(owner, member)                                                                        \
    MN_ENVIRONMENT_TEXT, offsetof(struct owner, member), sizeof(((struct owner *)0)->member)
#define LONG(owner, member)   MN_ENVIRONMENT_LONG, offsetof(struct owner, member), sizeof(long)
#define DOUBLE(owner, member) MN_ENVIRONMENT_DOUBLE, offsetof(struct owner, member), sizeof(double)

const struct mn_environment_field mn_environment_fields[] = {
    {NULL, "node", TEXT(mn_environment, node)},
    {NULL, "host", TEXT(mn_environment, host)},
    {NULL, "kernel", TEXT(mn_environment, kernel)},
    {NULL, "cpu", TEXT(mn_environment, cpu)},
    {NULL, "cpus", LONG(mn_environment, cpus)},
    {NULL, "governor", TEXT(mn_environment, governor)},
    {NULL, "pinned", TEXT(mn_environment, pinned)},
    {NULL, "nccl_settings", TEXT(mn_environment, nccl_settings)},
    {"plugin", "path", TEXT(mn_environment, plugin.path)},
    {"plugin", "symbol", TEXT(mn_environment, plugin.symbol)},
    {"plugin", "sha256", TEXT(mn_environment, plugin.sha256)},
    {"mesh_file", "path", TEXT(mn_environment, mesh_file.path)},
    {"mesh_file", "sha256", TEXT(mn_environment, mesh_file.sha256)},
    {.key = NULL},
};

const struct mn_environment_field mn_environment_nic_fields[] = {
    {NULL, "netdev", TEXT(mn_environment_nic, netdev)},
    {NULL, "device", TEXT(mn_environment_nic, device)},
    {NULL, "port", LONG(mn_environment_nic, port)},
    {NULL, "driver", TEXT(mn_environment_nic, driver)},
    {NULL, "firmware", TEXT(mn_environment_nic, firmware)},
    {NULL, "mtu", LONG(mn_environment_nic, mtu)},
    {NULL, "speed_mbps", LONG(mn_environment_nic, speed_mbps)},
    {NULL, "pcie_gbps", DOUBLE(mn_environment_nic, pcie_gbps)},
    {NULL, "numa", LONG(mn_environment_nic, numa)},
    {.key = NULL},
};

int mn_environment_text(const void *owner, const struct mn_environment_field *f, const char **text)
{
    *text = (const char *)owner + f->offset;
    return f->type == MN_ENVIRONMENT_TEXT && **text;
}

int mn_environment_number(const void *owner, const struct mn_environment_field *f, double *value)
{
    const char *at = (const char *)owner + f->offset;
    long whole;

    if (f->type == MN_ENVIRONMENT_LONG) {
        memcpy(&whole, at, sizeof whole);
        *value = (double)whole;
    } else if (f->type == MN_ENVIRONMENT_DOUBLE) {
        memcpy(value, at, sizeof *value);
    } else {
        return 0;
    }
    return *value >= 0;
}

/* --- to JSON ---------------------------------------------------------------------------------- */

static cJSON *value_of(const void *owner, const struct mn_environment_field *f)
{
    const char *text;
    double number;

    if (mn_environment_text(owner, f, &text))
        return cJSON_CreateString(text);
    if (mn_environment_number(owner, f, &number))
        return cJSON_CreateNumber(number);
    return cJSON_CreateNull();
}

static int same_group(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void put_fields(cJSON *object, const void *owner, const struct mn_environment_field *fields)
{
    const char *group = NULL, *text;
    cJSON *at = object;

    for (const struct mn_environment_field *f = fields; f->key; f++) {
        if (!same_group(group, f->group)) {
            group = f->group;
            at = !group                                 ? object
                 : mn_environment_text(owner, f, &text) ? cJSON_AddObjectToObject(object, group)
                                                        : NULL;
            if (!at)
                cJSON_AddNullToObject(object, group);
        }
        if (at)
            cJSON_AddItemToObject(at, f->key, value_of(owner, f));
    }
}

cJSON *mn_environment_json(const struct mn_environment *env)
{
    cJSON *json = cJSON_CreateObject();

    put_fields(json, env, mn_environment_fields);
    cJSON *list = cJSON_AddArrayToObject(json, "nics");
    for (int i = 0; i < env->n_nics; i++) {
        cJSON *nic = cJSON_CreateObject();
        put_fields(nic, &env->nics[i], mn_environment_nic_fields);
        cJSON_AddItemToArray(list, nic);
    }
    return json;
}

/* --- from JSON -------------------------------------------------------------------------------- */

static void get_field(const cJSON *item, void *owner, const struct mn_environment_field *f)
{
    char *at = (char *)owner + f->offset;
    int fits = cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= 1e15;
    double number = fits ? item->valuedouble : -1;
    long whole = (long)number;

    if (f->type == MN_ENVIRONMENT_LONG) {
        memcpy(at, &whole, sizeof whole);
    } else if (f->type == MN_ENVIRONMENT_DOUBLE) {
        memcpy(at, &number, sizeof number);
    } else {
        mn_strlcpy(at, cJSON_IsString(item) ? item->valuestring : "", f->size);
        mn_clean(at);
    }
}

static void get_fields(const cJSON *object, void *owner, const struct mn_environment_field *fields)
{
    for (const struct mn_environment_field *f = fields; f->key; f++) {
        const cJSON *at = f->group ? cJSON_GetObjectItemCaseSensitive(object, f->group) : object;
        get_field(cJSON_GetObjectItemCaseSensitive(at, f->key), owner, f);
    }
}

void mn_environment_parse(const cJSON *json, struct mn_environment *env)
{
    const cJSON *nic;

    memset(env, 0, sizeof *env);
    get_fields(json, env, mn_environment_fields);
    cJSON_ArrayForEach(nic, cJSON_GetObjectItemCaseSensitive(json, "nics"))
    {
        if (env->n_nics == MN_ENVIRONMENT_NICS)
            break;
        get_fields(nic, &env->nics[env->n_nics++], mn_environment_nic_fields);
    }
}

/* --- of a group ------------------------------------------------------------------------------- */

enum mn_err mn_environment_gather(struct mn_group *group, const struct mn_environment *own,
                                  struct mn_environment **all, int *count, struct mn_diag *diag)
{
    int n = mn_group_size(group), hosts[MN_GROUP_RANKS], first = 1;
    char **texts, *mine = NULL;

    *count = 0;
    *all = mn_zalloc((size_t)n * sizeof **all);
    mn_group_hosts(group, hosts);
    for (int r = 0; r < mn_group_rank(group); r++)
        first &= hosts[r] != hosts[mn_group_rank(group)];
    if (first) {
        cJSON *json = mn_environment_json(own);
        mine = cJSON_PrintUnformatted(json);
        cJSON_Delete(json);
    }
    enum mn_err err = mn_group_gather_text(group, mine ? mine : "", &texts, diag);
    free(mine);
    for (int r = 0; r < n && !err; r++) {
        if (!texts[r][0])
            continue;
        cJSON *json = cJSON_Parse(texts[r]);
        if (!json)
            err = mn_fail(diag, MN_ERR_PROTO, "%s: its environment is not JSON",
                          mn_group_name(group, r));
        else
            mn_environment_parse(json, &(*all)[(*count)++]);
        cJSON_Delete(json);
    }
    if (texts)
        free(texts);
    return err;
}
