/* What a node is asked, and its answer, as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/probe.h"
#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_check.h"

#define HEARD_MAX 4096

static enum mn_err wrong(struct mn_diag *diag, const char *key)
{
    return mn_fail(diag, MN_ERR_PROTO, "probe: \"%s\" is missing or none that can be", key);
}

static int number(const cJSON *json, const char *key, double min, double max, double *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min && item->valuedouble <= max) ||
        floor(item->valuedouble) != item->valuedouble)
        return 0;
    *value = item->valuedouble;
    return 1;
}

/* A name that may stand in "node/netdev". */
static int name(const cJSON *json, const char *key, char *to, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    if (!cJSON_IsString(item) || !item->valuestring[0] || strlen(item->valuestring) >= size ||
        strchr(item->valuestring, '/'))
        return 0;
    mn_strlcpy(to, item->valuestring, size);
    mn_clean(to);
    return 1;
}

static void put_hex(cJSON *json, const char *key, const void *bytes, size_t n)
{
    char text[2 * MN_KEY_SIZE + 1] = "";

    for (size_t i = 0; i < n && i < MN_KEY_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
    cJSON_AddStringToObject(json, key, text);
    mn_wipe(text, sizeof text);
}

static int hex(const cJSON *json, const char *key, void *bytes, size_t n)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    if (!cJSON_IsString(item) || strlen(item->valuestring) != 2 * n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        const char *at = item->valuestring + 2 * i;
        if (strspn(at, "0123456789abcdef") < 2 || sscanf(at, "%2x", &byte) != 1)
            return 0;
        ((uint8_t *)bytes)[i] = (uint8_t)byte;
    }
    return 1;
}

/* --- the answer ------------------------------------------------------------------------------- */

static const char *const ways[] = {"ipv6", "raw"};

static cJSON *heard_json(const struct mn_probe_heard *heard)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "at", heard->at);
    cJSON_AddStringToObject(json, "node", heard->node);
    cJSON_AddStringToObject(json, "netdev", heard->netdev);
    put_hex(json, "mac", heard->mac, sizeof heard->mac);
    cJSON_AddNumberToObject(json, "kind", heard->kind);
    cJSON_AddNumberToObject(json, "nic_mtu", heard->nic_mtu);
    cJSON_AddNumberToObject(json, "speed", (double)heard->speed_mbps);
    cJSON_AddStringToObject(json, "way", ways[heard->way == MN_SURVEY_RAW]);
    cJSON_AddNumberToObject(json, "mtu", heard->mtu);
    cJSON_AddNumberToObject(json, "back_mtu", heard->back_mtu);
    return json;
}

cJSON *mn_probe_result_json(const struct mn_probe_result *result)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddItemToObject(json, "survey", mn_survey_json(&result->survey));
    cJSON *nics = cJSON_AddArrayToObject(json, "nics");
    for (size_t i = 0; i < result->n_nics; i++) {
        cJSON *nic = cJSON_CreateObject();
        cJSON_AddStringToObject(nic, "netdev", result->nics[i].netdev);
        cJSON_AddNumberToObject(nic, "probed", result->nics[i].probed);
        cJSON_AddStringToObject(nic, "why", result->nics[i].why);
        cJSON_AddItemToArray(nics, nic);
    }
    cJSON *list = cJSON_AddArrayToObject(json, "heard");
    for (size_t i = 0; i < result->n_heard; i++)
        cJSON_AddItemToArray(list, heard_json(&result->heard[i]));
    cJSON_AddNumberToObject(json, "seconds", result->seconds);
    return json;
}

static int parse_nic(const cJSON *json, struct mn_probe_nic *nic)
{
    const cJSON *why = cJSON_GetObjectItemCaseSensitive(json, "why");
    double probed;

    if (!name(json, "netdev", nic->netdev, sizeof nic->netdev) ||
        !number(json, "probed", 0, 7, &probed) || !cJSON_IsString(why))
        return 0;
    nic->probed = (int)probed;
    mn_strlcpy_words(nic->why, why->valuestring, sizeof nic->why);
    mn_clean(nic->why);
    return 1;
}

static int parse_heard(const cJSON *json, struct mn_probe_heard *heard)
{
    const cJSON *way = cJSON_GetObjectItemCaseSensitive(json, "way");
    double kind, nic_mtu, speed, mtu, back;

    if (!name(json, "at", heard->at, sizeof heard->at) ||
        !name(json, "node", heard->node, sizeof heard->node) ||
        !name(json, "netdev", heard->netdev, sizeof heard->netdev) ||
        !hex(json, "mac", heard->mac, sizeof heard->mac) ||
        !number(json, "kind", 0, MN_NIC_OTHER, &kind) ||
        !number(json, "nic_mtu", 0, 65535, &nic_mtu) || !number(json, "speed", 0, 1e8, &speed) ||
        !number(json, "mtu", 0, 65583, &mtu) || !number(json, "back_mtu", 0, 65535, &back) ||
        !cJSON_IsString(way) ||
        (strcmp(way->valuestring, ways[0]) != 0 && strcmp(way->valuestring, ways[1]) != 0))
        return 0;
    heard->kind = (enum mn_nic_kind)kind;
    heard->nic_mtu = (int)nic_mtu;
    heard->speed_mbps = (long)speed;
    heard->way = strcmp(way->valuestring, ways[0]) ? MN_SURVEY_RAW : MN_SURVEY_IPV6;
    heard->mtu = (int)mtu;
    heard->back_mtu = (int)back;
    return 1;
}

static enum mn_err parse(const cJSON *json, struct mn_probe_result *result, struct mn_diag *diag)
{
    const cJSON *nics = cJSON_GetObjectItemCaseSensitive(json, "nics");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "heard");
    const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(json, "seconds"), *item;
    enum mn_err err =
        mn_survey_parse(cJSON_GetObjectItemCaseSensitive(json, "survey"), &result->survey, diag);

    if (err)
        return err;
    if (result->survey.n_nodes != 1 || result->survey.n_seen)
        return wrong(diag, "survey");
    if (!cJSON_IsArray(nics) || cJSON_GetArraySize(nics) > MN_MESH_NICS_MAX)
        return wrong(diag, "nics");
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > HEARD_MAX)
        return wrong(diag, "heard");
    cJSON_ArrayForEach(item,
                       nics) if (!parse_nic(item,
                                            mn_grow((void **)&result->nics, &result->n_nics,
                                                    sizeof *result->nics))) return wrong(diag,
                                                                                         "nics");
    cJSON_ArrayForEach(
        item, list) if (!parse_heard(item, mn_grow((void **)&result->heard, &result->n_heard,
                                                   sizeof *result->heard))) return wrong(diag,
                                                                                         "heard");
    result->seconds = cJSON_IsNumber(seconds) ? seconds->valuedouble : 0;
    return MN_OK;
}

enum mn_err mn_probe_result_parse(const cJSON *json, struct mn_probe_result *result,
                                  struct mn_diag *diag)
{
    memset(result, 0, sizeof *result);
    enum mn_err err = parse(json, result, diag);
    if (err)
        mn_probe_result_free(result);
    return err;
}

/* --- the question ----------------------------------------------------------------------------- */

static void put_list(cJSON *json, const char *key, const struct mn_opt_list *list)
{
    cJSON *array = cJSON_AddArrayToObject(json, key);

    for (size_t i = 0; i < list->count; i++)
        cJSON_AddItemToArray(array, cJSON_CreateString(list->items[i]));
}

/* The texts stay the question's. */
static int take_list(const cJSON *json, const char *key, struct mn_opt_list *list)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, key), *item;

    if (!array)
        return 1;
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > MN_MESH_NICS_MAX)
        return 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            return 0;
        *(const char **)mn_grow((void **)&list->items, &list->count, sizeof *list->items) =
            item->valuestring;
    }
    return 1;
}

static int flag(const cJSON *json, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, key));
}

cJSON *mn_probe_ask(const struct mn_probe_plan *plan)
{
    cJSON *ask = cJSON_CreateObject();

    put_hex(ask, "key", plan->key, sizeof plan->key);
    put_hex(ask, "run", &plan->run, sizeof plan->run);
    cJSON_AddNumberToObject(ask, "index", plan->index);
    cJSON_AddNumberToObject(ask, "count", plan->count);
    cJSON_AddNumberToObject(ask, "ms", plan->ms);
    cJSON_AddBoolToObject(ask, "whole", plan->whole);
    cJSON_AddBoolToObject(ask, "up", plan->up);
    cJSON_AddBoolToObject(ask, "lldp", plan->lldp);
    put_list(ask, "take", &plan->take);
    put_list(ask, "skip", &plan->skip);
    return ask;
}

enum mn_err mn_probe_ask_parse(const cJSON *ask, struct mn_probe_plan *plan, struct mn_diag *diag)
{
    double count, index, ms;

    memset(plan, 0, sizeof *plan);
    if (!hex(ask, "key", plan->key, sizeof plan->key))
        return wrong(diag, "key");
    if (!hex(ask, "run", &plan->run, sizeof plan->run))
        return wrong(diag, "run");
    if (!number(ask, "count", 0, MN_PROBE_NODES_MAX, &count))
        return wrong(diag, "count");
    if (!number(ask, "index", 0, MN_PROBE_NODES_MAX - 1, &index) || (count > 0 && index >= count))
        return wrong(diag, "index");
    if (!number(ask, "ms", 1, MN_PROBE_MAX_MS, &ms))
        return wrong(diag, "ms");
    if (!take_list(ask, "take", &plan->take) || !take_list(ask, "skip", &plan->skip))
        return wrong(diag, "take");
    plan->index = (int)index;
    plan->count = (int)count;
    plan->ms = (unsigned)ms;
    plan->whole = flag(ask, "whole");
    plan->up = flag(ask, "up");
    plan->lldp = flag(ask, "lldp");
    mn_node_name(plan->name, sizeof plan->name);
    return MN_OK;
}
