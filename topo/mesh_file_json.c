#include "topo/mesh_file_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_setting.h"

static void add_text(cJSON *map, const char *key, const char *text)
{
    cJSON_AddStringToObject(map, key, text);
}

static void add_address(cJSON *to, const char *key, const struct mn_addr *addr)
{
    char text[MN_ADDR_TEXT];
    mn_addr_format(addr, text, sizeof text);
    if (key)
        add_text(to, key, text);
    else
        cJSON_AddItemToArray(to, cJSON_CreateString(text));
}

static cJSON *nic_tree(const struct mn_mesh_nic *nic)
{
    cJSON *map = cJSON_CreateObject();
    add_text(map, "netdev", nic->netdev);
    if (strcmp(nic->name, nic->netdev) != 0)
        add_text(map, "name", nic->name);
    if (nic->device[0])
        add_text(map, "device", nic->device);
    if (nic->device[0] && nic->port != 1)
        cJSON_AddNumberToObject(map, "port", nic->port);
    if (nic->has_mac) {
        char mac[18];
        snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", nic->mac[0], nic->mac[1],
                 nic->mac[2], nic->mac[3], nic->mac[4], nic->mac[5]);
        add_text(map, "mac", mac);
    }
    cJSON *list = nic->n_addrs ? cJSON_AddArrayToObject(map, "addresses") : NULL;
    for (size_t i = 0; i < nic->n_addrs; i++)
        add_address(list, NULL, &nic->addrs[i]);
    if (nic->gid_index >= 0) {
        cJSON *gid = cJSON_AddObjectToObject(map, "gid");
        cJSON_AddNumberToObject(gid, "index", nic->gid_index);
        if (nic->gid_addr.family)
            add_address(gid, "address", &nic->gid_addr);
    }
    if (nic->speed_mbps)
        cJSON_AddNumberToObject(map, "speed", (double)nic->speed_mbps);
    if (nic->mtu)
        cJSON_AddNumberToObject(map, "mtu", nic->mtu);
    if (nic->group[0])
        add_text(map, "group", nic->group);
    if (nic->role)
        add_text(map, "role", mn_nic_role_name(nic->role));
    return map;
}

static cJSON *gpu_tree(const struct mn_mesh_node *node, const struct mn_mesh_gpu *gpu)
{
    cJSON *map = cJSON_CreateObject();
    add_text(map, "pci", gpu->pci);
    if (gpu->name[0])
        add_text(map, "name", gpu->name);
    cJSON *list = cJSON_AddArrayToObject(map, "nics");
    for (size_t i = 0; i < gpu->n_nics; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(node->nics[gpu->nics[i]].name));
    add_text(map, "path", mn_pci_distance_name(gpu->path));
    return map;
}

static cJSON *node_tree(const struct mn_mesh_node *node)
{
    cJSON *map = cJSON_CreateObject();
    add_text(map, "name", node->name);
    if (strcmp(node->hostname, node->name) != 0)
        add_text(map, "hostname", node->hostname);
    cJSON *list = node->n_nics ? cJSON_AddArrayToObject(map, "nics") : NULL;
    for (size_t i = 0; i < node->n_nics; i++)
        cJSON_AddItemToArray(list, nic_tree(&node->nics[i]));
    list = node->n_gpus ? cJSON_AddArrayToObject(map, "gpus") : NULL;
    for (size_t i = 0; i < node->n_gpus; i++)
        cJSON_AddItemToArray(list, gpu_tree(node, &node->gpus[i]));
    return map;
}

static void add_ends(const struct mn_mesh *mesh, const struct mn_mesh_end ends[2], cJSON *map)
{
    cJSON *list = cJSON_AddArrayToObject(map, "ends");
    for (int side = 0; side < 2; side++) {
        char text[2 * MN_NAME_MAX + 1];
        snprintf(text, sizeof text, "%s/%s", mesh->nodes[ends[side].node].name,
                 mn_mesh_end_nic(mesh, &ends[side])->name);
        cJSON_AddItemToArray(list, cJSON_CreateString(text));
    }
}

static cJSON *link_tree(const struct mn_mesh *mesh, const struct mn_mesh_link *link)
{
    cJSON *map = cJSON_CreateObject();
    add_text(map, "name", link->name);
    add_ends(mesh, link->ends, map);
    return map;
}

static cJSON *route_tree(const struct mn_mesh *mesh, const struct mn_mesh_route *route)
{
    cJSON *map = cJSON_CreateObject();
    add_ends(mesh, route->ends, map);
    add_text(map, "via", route->via);
    return map;
}

static void add_setting(cJSON *root, const struct mn_setting *row,
                        const struct mn_settings *settings)
{
    char text[320];
    cJSON *section = cJSON_GetObjectItemCaseSensitive(root, row->section);
    if (!section)
        section = cJSON_AddObjectToObject(root, row->section);
    mn_setting_format(row, settings, text, sizeof text);
    if (row->type == MN_SETTING_BOOL)
        cJSON_AddBoolToObject(section, row->key, !strcmp(text, "true"));
    else if (row->type == MN_SETTING_INT)
        cJSON_AddNumberToObject(section, row->key, atoi(text));
    else
        add_text(section, row->key, text);
}

cJSON *mn_mesh_tree(const struct mn_mesh *mesh)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "version", mesh->version);
    if (mesh->name[0])
        add_text(root, "name", mesh->name);
    cJSON *nodes = cJSON_AddArrayToObject(root, "nodes");
    for (size_t i = 0; i < mesh->n_nodes; i++)
        cJSON_AddItemToArray(nodes, node_tree(&mesh->nodes[i]));
    cJSON *links = mesh->n_links ? cJSON_AddArrayToObject(root, "links") : NULL;
    for (size_t i = 0; i < mesh->n_links; i++)
        cJSON_AddItemToArray(links, link_tree(mesh, &mesh->links[i]));
    cJSON *routes = mesh->n_routes ? cJSON_AddArrayToObject(root, "routes") : NULL;
    for (size_t i = 0; i < mesh->n_routes; i++)
        cJSON_AddItemToArray(routes, route_tree(mesh, &mesh->routes[i]));
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++)
        if (mn_setting_changed(row, &mesh->settings))
            add_setting(root, row, &mesh->settings);
    return root;
}

enum mn_err mn_mesh_format_json(const struct mn_mesh *mesh, char **text, struct mn_diag *diag)
{
    cJSON *root = mn_mesh_tree(mesh);
    char *json = root ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    *text = NULL;
    if (!json)
        return mn_fail(diag, MN_ERR_NOMEM, "out of memory for the mesh as JSON");
    *text = mn_asprintf("%s\n", json);
    cJSON_free(json);
    return MN_OK;
}
