/* "mesh": {"hash": 16 hexadecimal digits, "items": [name, value, name, value, …]} */
#include "fleet/same_mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/log.h"

void mn_same_mesh_add(cJSON *message, const struct mn_mesh_digest *digest)
{
    char hash[17];
    cJSON *mesh = cJSON_AddObjectToObject(message, "mesh");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)digest->hash);
    cJSON_AddStringToObject(mesh, "hash", hash);
    cJSON *items = cJSON_AddArrayToObject(mesh, "items");
    for (int i = 0; i < digest->n_items; i++) {
        cJSON_AddItemToArray(items, cJSON_CreateNumber(digest->items[i].name));
        cJSON_AddItemToArray(items, cJSON_CreateNumber(digest->items[i].value));
    }
}

void mn_same_mesh_put(cJSON *message)
{
    struct mn_mesh_own own;

    if (!mn_mesh_own_read(&own, NULL))
        mn_same_mesh_add(message, &own.digest);
}

static int get_u32(const cJSON *item, uint32_t *value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= UINT32_MAX))
        return 0;
    *value = (uint32_t)item->valuedouble;
    return 1;
}

int mn_same_mesh_get(const cJSON *message, struct mn_mesh_digest *digest)
{
    const cJSON *mesh = cJSON_GetObjectItemCaseSensitive(message, "mesh");
    const cJSON *hash = cJSON_GetObjectItemCaseSensitive(mesh, "hash");
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(mesh, "items");

    memset(digest, 0, sizeof *digest);
    if (!cJSON_IsString(hash) || strspn(hash->valuestring, "0123456789abcdef") != 16 ||
        hash->valuestring[16] || !cJSON_IsArray(items))
        return 0;
    digest->hash = strtoull(hash->valuestring, NULL, 16);
    for (const cJSON *at = items->child; at; at = at->next ? at->next->next : NULL) {
        struct mn_mesh_item *item = &digest->items[digest->n_items];
        if (digest->n_items == MN_DIGEST_ITEMS || !get_u32(at, &item->name) ||
            !get_u32(at->next, &item->value))
            return 0;
        digest->n_items++;
    }
    return 1;
}

int mn_same_mesh_differs(const cJSON *message, const char *peer, char *text, size_t size)
{
    struct mn_mesh_own own;
    struct mn_mesh_digest theirs;

    text[0] = 0;
    return mn_same_mesh_get(message, &theirs) && !mn_mesh_own_read(&own, NULL) &&
           mn_mesh_differs(&own, &theirs, peer, text, size);
}

void mn_same_mesh_warn(const cJSON *message, const char *peer)
{
    char text[1024];

    if (mn_same_mesh_differs(message, peer, text, sizeof text))
        MN_WARN("%s", text);
}
