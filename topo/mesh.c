#include "topo/mesh.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_gpu.h"
#include "topo/mesh_route.h"

void mn_mesh_init(struct mn_mesh *mesh)
{
    memset(mesh, 0, sizeof *mesh);
    mesh->version = 1;
    mn_settings_default(&mesh->settings);
}

static void node_clear(struct mn_mesh_node *node)
{
    for (size_t i = 0; i < node->n_nics; i++)
        free(node->nics[i].addrs);
    free(node->nics);
    mn_mesh_gpus_clear(node);
    memset(node, 0, sizeof *node);
}

void mn_mesh_free(struct mn_mesh *mesh)
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        node_clear(&mesh->nodes[i]);
    free(mesh->nodes);
    free(mesh->links);
    free(mesh->routes);
    mn_mesh_init(mesh);
}

int mn_mesh_node_index(const struct mn_mesh *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, name))
            return (int)i;
    return -1;
}

int mn_mesh_nic_index(const struct mn_mesh_node *node, const char *name)
{
    for (size_t i = 0; i < node->n_nics; i++)
        if (!strcmp(node->nics[i].name, name))
            return (int)i;
    return -1;
}

const struct mn_mesh_nic *mn_mesh_end_nic(const struct mn_mesh *mesh, const struct mn_mesh_end *end)
{
    return &mesh->nodes[end->node].nics[end->nic];
}

int mn_mesh_find_file(char *path, size_t size)
{
    const char *config = getenv("MESHNET_CONFIG");
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (config && *config) {
        mn_strlcpy(path, config, size);
        return 1;
    }
    int len = 0;
    if (xdg && *xdg)
        len = snprintf(path, size, "%s/meshnet/mesh.yaml", xdg);
    else if (home && *home)
        len = snprintf(path, size, "%s/.config/meshnet/mesh.yaml", home);
    if (len > 0 && (size_t)len < size && access(path, F_OK) == 0)
        return 1;
    return mn_strlcpy(path, "/etc/meshnet/mesh.yaml", size) && access(path, F_OK) == 0;
}

/* Takes a copy of nic without its addresses' owner: they are copied too. */
static void nic_copy(struct mn_mesh_nic *to, const struct mn_mesh_nic *from)
{
    *to = *from;
    to->addrs = NULL;
    to->n_addrs = 0;
    to->line = to->column = 0;
    for (size_t i = 0; i < from->n_addrs; i++)
        *(struct mn_addr *)mn_grow((void **)&to->addrs, &to->n_addrs, sizeof *to->addrs) =
            from->addrs[i];
}

int mn_mesh_ends_follow(const struct mn_mesh *mesh, struct mn_mesh_end ends[2], int node,
                        const struct mn_mesh_node *now)
{
    int alive = 1;
    for (int side = 0; side < 2; side++) {
        if (ends[side].node != node)
            continue;
        ends[side].nic = mn_mesh_nic_index(now, mn_mesh_end_nic(mesh, &ends[side])->name);
        alive &= ends[side].nic >= 0;
    }
    return alive;
}

/* Follows the NICs of a node that is replaced by their names; links whose NIC is gone go too. */
static void links_follow(struct mn_mesh *mesh, int node, const struct mn_mesh_node *now)
{
    size_t kept = 0;
    for (size_t i = 0; i < mesh->n_links; i++) {
        struct mn_mesh_link link = mesh->links[i];
        if (mn_mesh_ends_follow(mesh, link.ends, node, now))
            mesh->links[kept++] = link;
    }
    mesh->n_links = kept;
    mn_mesh_routes_follow(mesh, node, now);
}

/* Takes *node, as a new one or in place of the node of that name. */
static enum mn_err put_node(struct mn_mesh *mesh, struct mn_mesh_node *node, struct mn_diag *diag)
{
    int index = mn_mesh_node_index(mesh, node->name);
    if (index < 0 && mesh->n_nodes == MN_MESH_NODES_MAX) {
        enum mn_err err = mn_fail(diag, MN_ERR_CONFIG,
                                  "node \"%s\" is one too many: a mesh has at "
                                  "most %d nodes",
                                  node->name, MN_MESH_NODES_MAX);
        node_clear(node);
        return err;
    }
    if (index >= 0) {
        links_follow(mesh, index, node);
        node_clear(&mesh->nodes[index]);
        mesh->nodes[index] = *node;
    } else {
        *(struct mn_mesh_node *)mn_grow((void **)&mesh->nodes, &mesh->n_nodes,
                                        sizeof *mesh->nodes) = *node;
    }
    return MN_OK;
}

/* "port0", … for NICs that share a physical port with another usable one; "" for those that do not.
 */
static void nic_group(const struct mn_host *host, const struct mn_nic *nic, char *group)
{
    int number = 0, sharers = 0;
    *group = '\0';
    if (!nic->phys_port[0])
        return;
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *other = &host->nics[i];
        if (!mn_mesh_usable(other) || !other->phys_port[0])
            continue;
        sharers += !strcmp(other->phys_port, nic->phys_port);
        int first = 1;
        for (size_t j = 0; j < i; j++)
            first &= !mn_mesh_usable(&host->nics[j]) ||
                     strcmp(host->nics[j].phys_port, other->phys_port) != 0;
        if (first && sharers == 0)
            number++;
    }
    if (sharers > 1)
        snprintf(group, MN_NAME_MAX, "port%d", number);
}

static void nic_from_host(struct mn_mesh_nic *to, const struct mn_host *host,
                          const struct mn_nic *nic)
{
    mn_strlcpy(to->netdev, nic->netdev, sizeof to->netdev);
    mn_strlcpy(to->name, nic->netdev, sizeof to->name);
    memcpy(to->mac, nic->mac, sizeof to->mac);
    static const uint8_t zero[6];
    /* A bond's is that of a member, a VLAN's that of the NIC below: neither tells which it is. */
    to->has_mac = nic->has_mac && !(nic->mac[0] & 1) && memcmp(nic->mac, zero, 6) != 0 &&
                  nic->kind != MN_NIC_BOND && nic->kind != MN_NIC_VLAN;
    to->speed_mbps = nic->speed_mbps;
    to->mtu = nic->mtu;
    to->port = 1;
    to->gid_index = -1;
    to->role = nic->role;
    nic_group(host, nic, to->group);
    for (size_t i = 0; i < nic->n_addrs; i++) {
        if (mn_addr_is_link_local(&nic->addrs[i]))
            continue;
        if (to->n_addrs == MN_MESH_ADDRS_MAX) {
            MN_WARN("%s: has more than %d addresses; the others are left out", nic->netdev,
                    MN_MESH_ADDRS_MAX);
            break;
        }
        *(struct mn_addr *)mn_grow((void **)&to->addrs, &to->n_addrs, sizeof *to->addrs) =
            nic->addrs[i];
    }
    if (nic->rdma < 0)
        return;
    const struct mn_rdma_port *rdma = &host->rdma[nic->rdma];
    mn_strlcpy(to->device, rdma->device, sizeof to->device);
    to->port = rdma->port;
    for (size_t i = 0; i < to->n_addrs && to->gid_index < 0; i++) {
        const struct mn_gid *gid = mn_rdma_gid_for(rdma, &to->addrs[i]);
        if (gid && gid->addr.family) {
            to->gid_index = gid->index;
            to->gid_addr = to->addrs[i];
            to->gid_addr.prefix = -1;
        }
    }
}

enum mn_err mn_mesh_add_host(struct mn_mesh *mesh, const struct mn_host *host, struct mn_diag *diag)
{
    struct mn_mesh_node node = {0};
    struct mn_nic kept[MN_MESH_NICS_MAX];
    mn_strlcpy(node.name, host->hostname, sizeof node.name);
    mn_strlcpy(node.hostname, host->hostname, sizeof node.hostname);
    for (size_t i = 0; i < host->n_nics; i++) {
        if (!mn_mesh_usable(&host->nics[i]))
            continue;
        if (node.n_nics == MN_MESH_NICS_MAX) {
            MN_WARN("%s: left out, a node has at most %d NICs", host->nics[i].netdev,
                    MN_MESH_NICS_MAX);
            continue;
        }
        kept[node.n_nics] = host->nics[i];
        nic_from_host(mn_grow((void **)&node.nics, &node.n_nics, sizeof *node.nics), host,
                      &host->nics[i]);
    }
    mn_mesh_gpus_from_host(&node, host, kept);
    return put_node(mesh, &node, diag);
}

enum mn_err mn_mesh_merge(struct mn_mesh *mesh, const struct mn_mesh *other, struct mn_diag *diag)
{
    for (size_t i = 0; i < other->n_nodes; i++) {
        struct mn_mesh_node node = other->nodes[i];
        node.nics = NULL;
        node.n_nics = 0;
        node.line = node.column = 0;
        for (size_t j = 0; j < other->nodes[i].n_nics; j++)
            nic_copy(mn_grow((void **)&node.nics, &node.n_nics, sizeof *node.nics),
                     &other->nodes[i].nics[j]);
        mn_mesh_gpus_copy(&node, &other->nodes[i]);
        enum mn_err err = put_node(mesh, &node, diag);
        if (err)
            return err;
    }
    mn_mesh_routes_merge(mesh, other);
    return mn_mesh_link_up(mesh, diag);
}
