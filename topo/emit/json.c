/* {"node", "hostname", "nics": [{"netdev", "mac", "mtu", "addresses", "links": [{"name", "peer",
 * "peer_nic", "peer_addresses"}]}]}; what the mesh file does not say is null. Where transit is
 * needed also "routes": [{"to", "via", "netdev"}], "forwards", "sysctls": [{"key", "value",
 * "why"}], as struct mn_transit has them. */
#include <cjson/cJSON.h>

#include "topo/base/alloc.h"
#include "topo/emit/emit.h"
#include "topo/mesh_check.h"

static void add_addrs(cJSON *map, const char *key, const struct mn_mesh_nic *nic)
{
    cJSON *list = cJSON_AddArrayToObject(map, key);
    char text[MN_ADDR_TEXT];
    const char *addr;

    for (size_t a = 0; (addr = mn_emit_addr(nic, 0, &a, text));)
        cJSON_AddItemToArray(list, cJSON_CreateString(addr));
}

static void add_links(cJSON *map, const struct mn_mesh *mesh, int node, int nic)
{
    cJSON *list = cJSON_AddArrayToObject(map, "links");

    for (size_t i = 0; i < 2 * mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i / 2];
        const struct mn_mesh_end *own = &link->ends[i % 2], *peer = &link->ends[!(i % 2)];
        if (own->node != node || own->nic != nic)
            continue;
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", link->name);
        cJSON_AddStringToObject(entry, "peer", mesh->nodes[peer->node].name);
        cJSON_AddStringToObject(entry, "peer_nic", mn_mesh_end_nic(mesh, peer)->name);
        add_addrs(entry, "peer_addresses", mn_mesh_end_nic(mesh, peer));
        cJSON_AddItemToArray(list, entry);
    }
}

static void add_transit(cJSON *root, const struct mn_mesh_node *node,
                        const struct mn_transit *transit)
{
    cJSON *routes = cJSON_AddArrayToObject(root, "routes");
    const struct mn_transit_route *route;
    char text[MN_ADDR_TEXT];

    for (size_t r = 0; (route = mn_emit_route(transit, -1, 0, &r));) {
        cJSON *map = cJSON_CreateObject();
        cJSON_AddStringToObject(map, "to", mn_addr_format(&route->to, text, sizeof text));
        cJSON_AddStringToObject(map, "via", mn_addr_format(&route->via, text, sizeof text));
        cJSON_AddStringToObject(map, "netdev", node->nics[route->nic].netdev);
        cJSON_AddItemToArray(routes, map);
    }
    cJSON_AddBoolToObject(root, "forwards", transit->forwards);
    cJSON *sysctls = cJSON_AddArrayToObject(root, "sysctls");
    for (size_t i = 0; i < transit->n_sysctls; i++) {
        const struct mn_transit_sysctl *row = &transit->sysctls[i];
        cJSON *map = cJSON_CreateObject();
        cJSON_AddStringToObject(map, "key", row->key);
        cJSON_AddNumberToObject(map, "value", row->value);
        cJSON_AddStringToObject(map, "why", row->why);
        cJSON_AddItemToArray(sysctls, map);
    }
}

void mn_emit_json(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                  struct mn_emit *out)
{
    FILE *file = mn_emit_begin(out, 0644, "%s.json", mesh->nodes[node].name);
    cJSON *root = cJSON_CreateObject();
    const struct mn_mesh_nic *nic;
    char mac[MN_EMIT_MAC];

    cJSON_AddStringToObject(root, "node", mesh->nodes[node].name);
    cJSON_AddStringToObject(root, "hostname", mesh->nodes[node].hostname);
    cJSON *list = cJSON_AddArrayToObject(root, "nics");
    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        cJSON *map = cJSON_CreateObject();
        cJSON_AddStringToObject(map, "netdev", nic->netdev);
        cJSON_AddItemToObject(map, "mac",
                              *mn_emit_mac(mesh, node, nic, mac) ? cJSON_CreateString(mac)
                                                                 : cJSON_CreateNull());
        cJSON_AddItemToObject(map, "mtu",
                              nic->mtu ? cJSON_CreateNumber(nic->mtu) : cJSON_CreateNull());
        add_addrs(map, "addresses", nic);
        add_links(map, mesh, node, (int)i - 1);
        cJSON_AddItemToArray(list, map);
    }
    if (!mn_transit_is_empty(transit))
        add_transit(root, &mesh->nodes[node], transit);
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text)
        mn_no_memory();
    fprintf(file, "%s\n", text);
    cJSON_free(text);
    fclose(file);
}
