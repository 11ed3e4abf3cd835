/* The list of changes: in memory, as JSON, backwards. */
#include "fleet/apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

static const char *const kind_names[MN_CHANGE_KINDS] = {"mtu",    "link", "address", "route",
                                                        "sysctl", "rule", "file"};

const char *mn_change_kind_name(enum mn_change_kind kind)
{
    return (unsigned)kind < MN_CHANGE_KINDS ? kind_names[kind] : "?";
}

void mn_changes_free(struct mn_changes *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].what);
        free(list->items[i].from);
        free(list->items[i].to);
    }
    free(list->items);
    *list = (struct mn_changes){.items = NULL};
}

struct mn_change *mn_change_add(struct mn_changes *list, enum mn_change_kind kind,
                                const struct mn_nic *nic, const char *what, const char *from,
                                const char *to)
{
    struct mn_change *c = mn_grow((void **)&list->items, &list->count, sizeof *c);

    c->kind = kind;
    c->what = mn_strdup(what);
    c->from = mn_strdup(from);
    c->to = mn_strdup(to);
    if (nic) {
        mn_strlcpy(c->nic, nic->netdev, sizeof c->nic);
        memcpy(c->mac, nic->mac, sizeof c->mac);
        c->has_mac = nic->has_mac;
    }
    return c;
}

void mn_changes_reverse(const struct mn_changes *list, struct mn_changes *back)
{
    *back = (struct mn_changes){.items = NULL};
    for (size_t i = list->count; i-- > 0;) {
        const struct mn_change *c = &list->items[i];
        struct mn_change *b = mn_change_add(back, c->kind, NULL, c->what, c->to, c->from);
        memcpy(b->nic, c->nic, sizeof b->nic);
        memcpy(b->mac, c->mac, sizeof b->mac);
        b->has_mac = c->has_mac;
        b->from_mode = c->to_mode;
        b->to_mode = c->from_mode;
    }
}

static void put_text(cJSON *map, const char *key, const char *text)
{
    cJSON_AddItemToObject(map, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

cJSON *mn_changes_json(const struct mn_changes *list)
{
    cJSON *json = cJSON_CreateArray();
    char mac[18];

    for (size_t i = 0; i < list->count; i++) {
        const struct mn_change *c = &list->items[i];
        const uint8_t *m = c->mac;
        cJSON *map = cJSON_CreateObject();
        cJSON_AddStringToObject(map, "kind", mn_change_kind_name(c->kind));
        put_text(map, "nic", c->nic[0] ? c->nic : NULL);
        snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4],
                 m[5]);
        put_text(map, "mac", c->has_mac ? mac : NULL);
        put_text(map, "what", c->what);
        put_text(map, "from", c->from);
        put_text(map, "to", c->to);
        if (c->kind == MN_CHANGE_FILE) {
            cJSON_AddNumberToObject(map, "from_mode", c->from_mode);
            cJSON_AddNumberToObject(map, "to_mode", c->to_mode);
        }
        cJSON_AddItemToArray(json, map);
    }
    return json;
}

/* NULL for null and what is not there; *bad for anything that is no text. */
static const char *get_text(const cJSON *map, const char *key, int *bad)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, key);

    *bad |= item && !cJSON_IsString(item) && !cJSON_IsNull(item);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static unsigned get_mode(const cJSON *map, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, key);

    return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble <= 07777
               ? (unsigned)item->valuedouble
               : 0;
}

static int parse_mac(const char *text, uint8_t mac[6])
{
    int end = 0;

    return sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2], &mac[3],
                  &mac[4], &mac[5], &end) == 6 &&
           !text[end];
}

static int parse_change(const cJSON *map, struct mn_changes *list)
{
    int bad = !cJSON_IsObject(map), kind = 0;
    const char *name = get_text(map, "kind", &bad), *nic = get_text(map, "nic", &bad);
    const char *mac = get_text(map, "mac", &bad), *what = get_text(map, "what", &bad);
    const char *from = get_text(map, "from", &bad), *to = get_text(map, "to", &bad);

    while (kind < MN_CHANGE_KINDS && (!name || strcmp(name, kind_names[kind]) != 0))
        kind++;
    bad |= kind == MN_CHANGE_KINDS || (nic && (!*nic || strlen(nic) >= IF_NAMESIZE));
    /* Each has a NIC or says what else it is about. */
    bad |= kind <= MN_CHANGE_ROUTE ? !nic : !what;
    bad |= (kind <= MN_CHANGE_LINK || kind == MN_CHANGE_SYSCTL) && (!from || !to);
    if (bad)
        return 0;
    struct mn_change *c = mn_change_add(list, (enum mn_change_kind)kind, NULL, what, from, to);
    if (nic)
        mn_strlcpy(c->nic, nic, sizeof c->nic);
    c->has_mac = mac != NULL;
    c->from_mode = get_mode(map, "from_mode");
    c->to_mode = get_mode(map, "to_mode");
    return !mac || parse_mac(mac, c->mac);
}

enum mn_err mn_changes_parse(const cJSON *json, struct mn_changes *list, struct mn_diag *diag)
{
    const cJSON *item;

    *list = (struct mn_changes){.items = NULL};
    if (!cJSON_IsArray(json))
        return mn_fail(diag, MN_ERR_PROTO, "a list of changes was expected");
    cJSON_ArrayForEach(item, json)
    {
        if (parse_change(item, list))
            continue;
        char *text = cJSON_PrintUnformatted(item);
        mn_fail(diag, MN_ERR_PROTO, "no change can be read from %.200s", text ? text : "?");
        cJSON_free(text);
        mn_changes_free(list);
        return MN_ERR_PROTO;
    }
    return MN_OK;
}
