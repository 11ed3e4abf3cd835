/* A survey from JSON, which is a stranger's: every text's length, every number's range and every
 * end is checked. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_check.h"
#include "topo/survey_field.h"

struct reader {
    struct mn_survey *survey;
    struct mn_diag *diag;
    char at[64]; /* "nodes[0].nics[2]" */
};

/* What stands at key, and what was expected there. */
static enum mn_err wrong(const struct reader *r, const cJSON *item, const char *key,
                         const char *expected, ...) __attribute__((format(printf, 4, 5)));
static enum mn_err wrong(const struct reader *r, const cJSON *item, const char *key,
                         const char *expected, ...)
{
    char seen[80] = "is missing", what[160];
    va_list args;

    va_start(args, expected);
    vsnprintf(what, sizeof what, expected, args);
    va_end(args);
    if (cJSON_IsString(item))
        snprintf(seen, sizeof seen, "is \"%.60s\"", item->valuestring);
    else if (cJSON_IsNumber(item))
        snprintf(seen, sizeof seen, "is %g", item->valuedouble);
    else if (item)
        mn_strlcpy(seen, "has the wrong type", sizeof seen);
    return mn_fail(r->diag, MN_ERR_CONFIG, "survey: %s%s%s %s; expected %s", r->at,
                   *r->at && *key ? "." : "", key, seen, what);
}

/* A text that is not there is "" unless it must be. */
static enum mn_err get_text(const struct reader *r, const cJSON *map, const char *key, int must,
                            char *text, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, key);

    *text = '\0';
    if (!item && !must)
        return MN_OK;
    if (!cJSON_IsString(item) || !mn_strlcpy(text, item->valuestring, size) || (must && !*text))
        return wrong(r, item, key, "a text of %d to %zu bytes", must, size - 1);
    mn_clean(text);
    return MN_OK;
}

static enum mn_err get_number(const struct reader *r, const cJSON *map, const char *key, double max,
                              int whole, double *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, key);

    *value = 0;
    if (!item)
        return MN_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= max) ||
        (whole && item->valuedouble != floor(item->valuedouble)))
        return wrong(r, item, key, "a %snumber from 0 to %.0f", whole ? "whole " : "", max);
    *value = item->valuedouble;
    return MN_OK;
}

static enum mn_err get_field(const struct reader *r, const cJSON *nic,
                             const struct mn_survey_field *f, char *to)
{
    const cJSON *map = f->group ? cJSON_GetObjectItemCaseSensitive(nic, f->group) : nic, *item;
    double value = 0;
    enum mn_err err = MN_OK;

    if (map && !cJSON_IsObject(map))
        return wrong(r, map, f->group, "an object");
    if (f->kind == MN_FIELD_TEXT)
        return get_text(r, map, f->key, !strcmp(f->key, "netdev"), to, f->size);
    item = cJSON_GetObjectItemCaseSensitive(map, f->key);
    if (f->kind == MN_FIELD_FLAG) {
        if (item && !cJSON_IsBool(item))
            return wrong(r, item, f->key, "true or false");
        *(int *)(void *)to = cJSON_IsTrue(item);
        return MN_OK;
    }
    err = get_number(r, map, f->key, f->max, f->kind != MN_FIELD_REAL, &value);
    if (f->kind == MN_FIELD_INT)
        *(int *)(void *)to = (int)value;
    else if (f->kind == MN_FIELD_LONG)
        *(long *)(void *)to = (long)value;
    else
        *(double *)(void *)to = value;
    return err;
}

static enum mn_err get_mac(const struct reader *r, const cJSON *map, uint8_t mac[6], int *has)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, "mac");
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    unsigned part[6];

    *has = item != NULL;
    if (!item)
        return MN_OK;
    if (strlen(text) != 17 || strspn(text, "0123456789abcdefABCDEF:") != 17 ||
        sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &part[0], &part[1], &part[2], &part[3], &part[4],
               &part[5]) != 6)
        return wrong(r, item, "mac", "six bytes like 02:00:00:00:00:01");
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)part[i];
    return MN_OK;
}

/* The list at key, NULL when there is none or it is too long. */
static enum mn_err get_list(const struct reader *r, const cJSON *map, const char *key, int max,
                            const cJSON **list)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, key);

    *list = cJSON_IsArray(item) && cJSON_GetArraySize(item) <= max ? item : NULL;
    if (cJSON_IsArray(item) && !*list)
        return mn_fail(r->diag, MN_ERR_CONFIG, "survey: %s%s%s has %d; expected at most %d", r->at,
                       *r->at ? "." : "", key, cJSON_GetArraySize(item), max);
    return item && !*list ? wrong(r, item, key, "a list of at most %d", max) : MN_OK;
}

static enum mn_err get_addresses(const struct reader *r, const cJSON *map,
                                 struct mn_survey_nic *nic)
{
    const cJSON *list, *item;
    enum mn_err err = get_list(r, map, "addresses", MN_SURVEY_ADDRS_MAX, &list);

    cJSON_ArrayForEach(item, list)
    {
        struct mn_addr addr;

        if (!cJSON_IsString(item) || mn_addr_parse(item->valuestring, &addr, NULL) ||
            addr.prefix < 0)
            return wrong(r, item, "addresses", "addresses like 10.0.1.1/30");
        *(struct mn_addr *)mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *nic->addrs) = addr;
    }
    return err;
}

static enum mn_err get_gids(const struct reader *r, const cJSON *map, struct mn_survey_nic *nic)
{
    const cJSON *list, *item;
    enum mn_err err = get_list(r, map, "gids", 16, &list);

    cJSON_ArrayForEach(item, list)
    {
        int known = 0;

        for (int type = MN_GID_IB; type <= MN_GID_ROCE_V2 && cJSON_IsString(item); type++)
            if (!strcmp(item->valuestring, mn_gid_type_name((enum mn_gid_type)type)))
                known = 1 << type;
        if (!known)
            return wrong(r, item, "gids", "\"IB\", \"RoCE v1\" or \"RoCE v2\"");
        nic->gid_types |= known;
    }
    return err;
}

static enum mn_err get_kind(const struct reader *r, const cJSON *map, struct mn_survey_nic *nic)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, "kind");
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(map, "role");
    int kind = item ? MN_NIC_OTHER : MN_NIC_ETHERNET, which = MN_ROLE_AUTO;

    while (item && kind >= 0 &&
           !(cJSON_IsString(item) &&
             !strcmp(item->valuestring, mn_nic_kind_name((enum mn_nic_kind)kind))))
        kind--;
    if (kind < 0)
        return wrong(r, item, "kind", "ethernet, infiniband, thunderbolt, …");
    nic->kind = (enum mn_nic_kind)kind;
    if (cJSON_IsString(role))
        which = !strcmp(role->valuestring, mn_nic_role_name(MN_ROLE_CABLE)) ? MN_ROLE_CABLE
                : !strcmp(role->valuestring, mn_nic_role_name(MN_ROLE_MANAGEMENT))
                    ? MN_ROLE_MANAGEMENT
                    : MN_ROLE_AUTO;
    if (role && !which)
        return wrong(r, role, "role", "cable or management");
    nic->role = (enum mn_nic_role)which;
    return MN_OK;
}

static enum mn_err get_nic(struct reader *r, const cJSON *map, struct mn_survey_node *node)
{
    static const uint8_t zero[6];
    struct mn_survey_nic *nic = mn_grow((void **)&node->nics, &node->n_nics, sizeof *nic);
    enum mn_err err = MN_OK;

    nic->pci.numa = -1;
    if (!cJSON_IsObject(map))
        return wrong(r, map, "", "an object");
    for (const struct mn_survey_field *f = mn_survey_fields; f->key && !err; f++)
        err = get_field(r, map, f, (char *)nic + f->at);
    if (!err &&
        (strpbrk(nic->netdev, "/: ") || !strcmp(nic->netdev, ".") || !strcmp(nic->netdev, "..")))
        err = wrong(r, cJSON_GetObjectItemCaseSensitive(map, "netdev"), "netdev",
                    "a network interface without slash, colon and space");
    if (!err && mn_survey_nic_index(node, nic->netdev) != (int)node->n_nics - 1)
        err = wrong(r, cJSON_GetObjectItemCaseSensitive(map, "netdev"), "netdev",
                    "a name of its own for each NIC");
    err = err ? err : get_kind(r, map, nic);
    err = err ? err : get_mac(r, map, nic->mac, &nic->has_mac);
    nic->has_mac = nic->has_mac && !(nic->mac[0] & 1) && memcmp(nic->mac, zero, 6) != 0;
    err = err ? err : get_addresses(r, map, nic);
    return err ? err : get_gids(r, map, nic);
}

static enum mn_err get_taken(const struct reader *r, const cJSON *map, struct mn_survey_node *node)
{
    const cJSON *list, *item;
    enum mn_err err = get_list(r, map, "taken", MN_SURVEY_TAKEN_MAX, &list);

    cJSON_ArrayForEach(item, list)
    {
        const cJSON *net = cJSON_GetObjectItemCaseSensitive(item, "net");
        struct mn_survey_taken taken = {
            .route = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "route"))};

        if (!cJSON_IsString(net) || mn_addr_parse(net->valuestring, &taken.net, NULL) ||
            taken.net.prefix < 0)
            return wrong(r, net, "taken", "networks like 172.17.0.0/16");
        if ((err = get_text(r, item, "netdev", 0, taken.netdev, sizeof taken.netdev)))
            return err;
        taken.net = mn_addr_network(&taken.net);
        *(struct mn_survey_taken *)mn_grow((void **)&node->taken, &node->n_taken, sizeof taken) =
            taken;
    }
    return err;
}

static enum mn_err get_node(struct reader *r, const cJSON *map)
{
    struct mn_survey *survey = r->survey;
    size_t index = survey->n_nodes, k = 0;
    struct mn_survey_node *node =
        mn_grow((void **)&survey->nodes, &survey->n_nodes, sizeof *survey->nodes);
    const cJSON *list = NULL, *item;
    enum mn_err err;

    snprintf(r->at, sizeof r->at, "nodes[%zu]", index);
    if (!cJSON_IsObject(map))
        return wrong(r, map, "", "an object");
    err = get_text(r, map, "name", 1, node->name, sizeof node->name);
    if (!err && (strchr(node->name, '/') || node->name[0] == ' ' ||
                 node->name[strlen(node->name) - 1] == ' '))
        err = wrong(r, cJSON_GetObjectItemCaseSensitive(map, "name"), "name",
                    "a name without a slash and without spaces around it");
    if (!err && mn_survey_node_index(survey, node->name) != (int)index)
        err = wrong(r, cJSON_GetObjectItemCaseSensitive(map, "name"), "name",
                    "a name of its own for each node");
    err = err ? err : get_text(r, map, "hostname", 0, node->hostname, sizeof node->hostname);
    err = err ? err : get_text(r, map, "model", 0, node->model, sizeof node->model);
    err = err ? err : get_taken(r, map, node);
    err = err ? err : get_list(r, map, "nics", MN_MESH_NICS_MAX, &list);
    cJSON_ArrayForEach(item, list)
    {
        snprintf(r->at, sizeof r->at, "nodes[%zu].nics[%zu]", index, k++);
        if ((err = get_nic(r, item, node)))
            return err;
    }
    return err;
}

static enum mn_err get_end(const struct reader *r, const cJSON *map, const char *key,
                           struct mn_mesh_end *end)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, key);
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    const char *slash = strrchr(text, '/');
    char name[MN_NAME_MAX], netdev[IF_NAMESIZE];
    size_t len = slash ? (size_t)(slash - text) : sizeof name;

    *end = (struct mn_mesh_end){-1, -1};
    if (len < sizeof name && mn_strlcpy(netdev, slash + 1, sizeof netdev)) {
        memcpy(name, text, len);
        name[len] = '\0';
        end->node = mn_survey_node_index(r->survey, mn_clean(name));
        if (end->node >= 0)
            end->nic = mn_survey_nic_index(&r->survey->nodes[end->node], mn_clean(netdev));
    }
    return end->nic < 0 ? wrong(r, item, key, "NODE/NETDEV of the survey's nodes") : MN_OK;
}

static enum mn_err get_way(const struct reader *r, const cJSON *map, enum mn_survey_way *way)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, "way");

    for (size_t i = 0; i <= MN_SURVEY_LLDP && cJSON_IsString(item); i++)
        if (!strcmp(item->valuestring, mn_survey_ways[i])) {
            *way = (enum mn_survey_way)i;
            return MN_OK;
        }
    return wrong(r, item, "way", "ipv6, raw or lldp");
}

static enum mn_err get_sighting(struct reader *r, const cJSON *map)
{
    struct mn_sighting seen = {.mtu = 0};
    double mtu = 0;
    enum mn_err err = get_end(r, map, "at", &seen.at);

    err = err ? err : get_end(r, map, "from", &seen.from);
    err = err ? err : get_way(r, map, &seen.way);
    err = err ? err : get_number(r, map, "mtu", 1 << 20, 1, &mtu);
    seen.mtu = (int)mtu;
    if (!err)
        mn_survey_saw(r->survey, &seen);
    return err;
}

static enum mn_err get_stranger(struct reader *r, const cJSON *map)
{
    struct mn_survey_stranger met = {.bridges = MN_BRIDGES_UNKNOWN};
    const cJSON *bridges = cJSON_GetObjectItemCaseSensitive(map, "bridges");
    int has;
    enum mn_err err = get_end(r, map, "at", &met.at);

    err = err ? err : get_way(r, map, &met.way);
    err = err ? err : get_mac(r, map, met.mac, &has);
    err = err ? err : get_text(r, map, "system", 0, met.system, sizeof met.system);
    err = err ? err : get_text(r, map, "port", 0, met.port, sizeof met.port);
    if (!err && bridges && !cJSON_IsBool(bridges))
        err = wrong(r, bridges, "bridges", "true or false");
    met.bridges = !bridges                ? MN_BRIDGES_UNKNOWN
                  : cJSON_IsTrue(bridges) ? MN_BRIDGES_YES
                                          : MN_BRIDGES_NO;
    if (!err)
        mn_survey_met(r->survey, &met);
    return err;
}

static enum mn_err each(struct reader *r, const cJSON *root, const char *key, int max,
                        enum mn_err (*get)(struct reader *r, const cJSON *map))
{
    const cJSON *list, *item;
    size_t k = 0;
    enum mn_err err;

    r->at[0] = '\0';
    err = get_list(r, root, key, max, &list);
    cJSON_ArrayForEach(item, list)
    {
        snprintf(r->at, sizeof r->at, "%s[%zu]", key, k++);
        if ((err = get(r, item)))
            break;
    }
    return err;
}

enum mn_err mn_survey_parse(const cJSON *json, struct mn_survey *survey, struct mn_diag *diag)
{
    struct reader r = {.survey = survey, .diag = diag};
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(json, "version");
    enum mn_err err;

    *survey = (struct mn_survey){0};
    if (!cJSON_IsObject(json))
        return wrong(&r, json, "", "an object");
    if (!cJSON_IsNumber(version) || version->valuedouble != 1)
        return wrong(&r, version, "version", "1");
    err = each(&r, json, "nodes", MN_MESH_NODES_MAX, get_node);
    err = err ? err : each(&r, json, "seen", MN_SURVEY_SEEN_MAX, get_sighting);
    err = err ? err : each(&r, json, "strangers", MN_SURVEY_STRANGERS_MAX, get_stranger);
    if (err)
        mn_survey_free(survey);
    return err;
}
