/* A survey as JSON; survey_read.c reads it. */
#include <stddef.h>
#include <stdio.h>

#include "topo/survey_field.h"

#define AT(field)   offsetof(struct mn_survey_nic, field)
#define FITS(field) AT(field), sizeof((struct mn_survey_nic *)0)->field

const struct mn_survey_field mn_survey_fields[] = {
    {NULL, "netdev", MN_FIELD_TEXT, FITS(netdev), 0},
    {NULL, "driver", MN_FIELD_TEXT, FITS(driver), 0},
    {NULL, "mtu", MN_FIELD_INT, AT(mtu), 0, 1 << 20},
    {NULL, "admin_up", MN_FIELD_FLAG, AT(admin_up), 0, 1},
    {NULL, "carrier", MN_FIELD_FLAG, AT(carrier), 0, 1},
    {NULL, "speed", MN_FIELD_LONG, AT(speed_mbps), 0, 100e6},
    {NULL, "role_why", MN_FIELD_TEXT, FITS(role_why), 0},
    {NULL, "device", MN_FIELD_TEXT, FITS(device), 0},
    {NULL, "port", MN_FIELD_INT, AT(port), 0, 255},
    {NULL, "pci", MN_FIELD_TEXT, FITS(pci.address), 0},
    {"pcie", "width", MN_FIELD_INT, AT(pci.width), 0, 64},
    {"pcie", "speed", MN_FIELD_REAL, AT(pci.speed), 0, 1024},
    {"pcie", "max_width", MN_FIELD_INT, AT(pci.max_width), 0, 64},
    {"pcie", "max_speed", MN_FIELD_REAL, AT(pci.max_speed), 0, 1024},
    {NULL, "phys_port", MN_FIELD_TEXT, FITS(phys_port), 0},
    {NULL, "master", MN_FIELD_TEXT, FITS(master), 0},
    {.key = NULL},
};
const char *const mn_survey_ways[] = {"ipv6", "raw", "lldp"};

static void add_text(cJSON *map, const char *key, const char *text)
{
    if (*text)
        cJSON_AddStringToObject(map, key, text);
}

static void add_number(cJSON *map, const char *key, double value)
{
    if (value != 0)
        cJSON_AddNumberToObject(map, key, value);
}

static void add_mac(cJSON *map, const uint8_t mac[6])
{
    char text[18];

    snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
             mac[4], mac[5]);
    add_text(map, "mac", text);
}

static void add_end(cJSON *map, const char *key, const struct mn_survey *survey,
                    const struct mn_mesh_end *end)
{
    char text[MN_NAME_MAX + IF_NAMESIZE + 1];

    snprintf(text, sizeof text, "%s/%s", survey->nodes[end->node].name,
             mn_survey_end_nic(survey, end)->netdev);
    add_text(map, key, text);
}

static void add_field(cJSON *nic, const struct mn_survey_field *f, const char *from)
{
    cJSON *map = nic;

    if (f->group && !(map = cJSON_GetObjectItemCaseSensitive(nic, f->group)))
        map = cJSON_AddObjectToObject(nic, f->group);
    if (f->kind == MN_FIELD_TEXT)
        add_text(map, f->key, from);
    else if (f->kind == MN_FIELD_FLAG)
        cJSON_AddBoolToObject(map, f->key, *(const int *)(const void *)from);
    else if (f->kind == MN_FIELD_INT)
        add_number(map, f->key, *(const int *)(const void *)from);
    else if (f->kind == MN_FIELD_LONG)
        add_number(map, f->key, (double)*(const long *)(const void *)from);
    else
        add_number(map, f->key, *(const double *)(const void *)from);
}

static cJSON *nic_tree(const struct mn_survey_nic *nic)
{
    cJSON *map = cJSON_CreateObject(), *list;

    for (const struct mn_survey_field *f = mn_survey_fields; f->key; f++)
        if (!f->group || nic->pci.width || nic->pci.max_width)
            add_field(map, f, (const char *)nic + f->at);
    add_text(map, "kind", mn_nic_kind_name(nic->kind));
    if (nic->has_mac)
        add_mac(map, nic->mac);
    if (nic->role)
        add_text(map, "role", mn_nic_role_name(nic->role));
    list = nic->n_addrs ? cJSON_AddArrayToObject(map, "addresses") : NULL;
    for (size_t i = 0; i < nic->n_addrs; i++) {
        char text[MN_ADDR_TEXT];

        cJSON_AddItemToArray(list,
                             cJSON_CreateString(mn_addr_format(&nic->addrs[i], text, sizeof text)));
    }
    list = nic->gid_types ? cJSON_AddArrayToObject(map, "gids") : NULL;
    for (int type = MN_GID_IB; type <= MN_GID_ROCE_V2; type++)
        if (nic->gid_types & 1 << type)
            cJSON_AddItemToArray(list,
                                 cJSON_CreateString(mn_gid_type_name((enum mn_gid_type)type)));
    return map;
}

static void add_taken(cJSON *map, const struct mn_survey_node *node)
{
    cJSON *list = node->n_taken ? cJSON_AddArrayToObject(map, "taken") : NULL, *item;
    char text[MN_ADDR_TEXT];

    for (size_t i = 0; i < node->n_taken; i++) {
        cJSON_AddItemToArray(list, item = cJSON_CreateObject());
        add_text(item, "net", mn_addr_format(&node->taken[i].net, text, sizeof text));
        add_text(item, "netdev", node->taken[i].netdev);
        if (node->taken[i].route)
            cJSON_AddTrueToObject(item, "route");
    }
}

cJSON *mn_survey_json(const struct mn_survey *survey)
{
    cJSON *root = cJSON_CreateObject(), *list, *map;

    cJSON_AddNumberToObject(root, "version", 1);
    list = cJSON_AddArrayToObject(root, "nodes");
    for (size_t n = 0; n < survey->n_nodes; n++) {
        const struct mn_survey_node *node = &survey->nodes[n];

        cJSON_AddItemToArray(list, map = cJSON_CreateObject());
        add_text(map, "name", node->name);
        add_text(map, "hostname", node->hostname);
        add_text(map, "model", node->model);
        cJSON *nics = cJSON_AddArrayToObject(map, "nics");
        for (size_t i = 0; i < node->n_nics; i++)
            cJSON_AddItemToArray(nics, nic_tree(&node->nics[i]));
        add_taken(map, node);
    }
    list = cJSON_AddArrayToObject(root, "seen");
    for (size_t i = 0; i < survey->n_seen; i++) {
        cJSON_AddItemToArray(list, map = cJSON_CreateObject());
        add_end(map, "at", survey, &survey->seen[i].at);
        add_end(map, "from", survey, &survey->seen[i].from);
        add_text(map, "way", mn_survey_ways[survey->seen[i].way]);
        add_number(map, "mtu", survey->seen[i].mtu);
    }
    list = cJSON_AddArrayToObject(root, "strangers");
    for (size_t i = 0; i < survey->n_strangers; i++) {
        const struct mn_survey_stranger *met = &survey->strangers[i];

        cJSON_AddItemToArray(list, map = cJSON_CreateObject());
        add_end(map, "at", survey, &met->at);
        add_mac(map, met->mac);
        add_text(map, "way", mn_survey_ways[met->way]);
        add_text(map, "system", met->system);
        add_text(map, "port", met->port);
        if (met->bridges)
            cJSON_AddBoolToObject(map, "bridges", met->bridges == MN_BRIDGES_YES);
    }
    return root;
}
