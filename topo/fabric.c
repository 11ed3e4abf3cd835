#include "topo/fabric.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/route.h"

#define MTU 1500 /* where the file has none */

int mn_fabric_add(struct mn_fabric *fabric, int a, int b, double rate, double latency)
{
    struct mn_fabric_cable *cable =
        mn_grow((void **)&fabric->cables, &fabric->n_cables, sizeof *cable);

    *cable = (struct mn_fabric_cable){.nodes = {a, b},
                                      .rate = rate,
                                      .latency = latency,
                                      .groups = {-1, -1},
                                      .link = -1};
    return (int)fabric->n_cables - 1;
}

void mn_fabric_free(struct mn_fabric *fabric)
{
    free(fabric->cables);
    free(fabric->groups);
    free(fabric->hosts);
    free(fabric->doors);
    *fabric = (struct mn_fabric){.n = 0};
}

double mn_fabric_rate(const struct mn_fabric_cable *cable, int direction)
{
    return direction && cable->back > 0 ? cable->back : cable->rate;
}

int mn_fabric_direction(const struct mn_fabric_cable *cable, int node)
{
    return cable->nodes[0] != node;
}

static int is_rdma(const struct mn_mesh *mesh, const struct mn_mesh_nic *const nics[2])
{
    return mesh->settings.transport != MN_TRANSPORT_TCP && nics[0]->device[0] && nics[1]->device[0];
}

double mn_fabric_nic_rate(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b, int rdma)
{
    long speed = a->speed_mbps, other = b->speed_mbps;
    int mtu = a->mtu ? a->mtu : b->mtu;

    if (!speed || (other && other < speed))
        speed = other;
    if (b->mtu && b->mtu < mtu)
        mtu = b->mtu;
    return (double)speed * 1e6 / 8 * mn_fabric_payload(mtu ? mtu : MTU, rdma);
}

/* The number of the NIC's capacity group, -1 for none; names of a node's groups are its own. */
static int group_of(struct mn_fabric *fabric, const char **names, int node, const char *name)
{
    if (!name[0])
        return -1;
    for (size_t g = fabric->n_groups; g-- > 0;)
        if (fabric->groups[g].node == node && !strcmp(names[g], name))
            return (int)g;
    struct mn_fabric_group *group =
        mn_grow((void **)&fabric->groups, &fabric->n_groups, sizeof *group);
    group->node = node;
    names[fabric->n_groups - 1] = name;
    return (int)fabric->n_groups - 1;
}

static void join_groups(const struct mn_mesh *mesh, struct mn_fabric *fabric)
{
    const char **names = mn_zalloc((2 * fabric->n_cables + 1) * sizeof *names);

    for (size_t c = 0; c < fabric->n_cables; c++) {
        struct mn_fabric_cable *cable = &fabric->cables[c];
        for (int i = 0; i < 2; i++) {
            const struct mn_mesh_end *end = &mesh->links[cable->link].ends[i];
            int g = group_of(fabric, names, end->node, mn_mesh_end_nic(mesh, end)->group);
            cable->groups[i] = g;
            if (g >= 0 && fabric->groups[g].rate < cable->rate)
                fabric->groups[g].rate = cable->rate;
        }
    }
    free(names);
}

/* That of the node's first NIC which has one: the address that it gives first. */
static void find_doors(const struct mn_mesh *mesh, struct mn_fabric *fabric)
{
    int *nic = mn_zalloc((size_t)(fabric->n + 1) * sizeof *nic);

    fabric->doors = mn_zalloc((size_t)(fabric->n + 1) * sizeof *fabric->doors);
    for (int i = 0; i < fabric->n; i++)
        fabric->doors[i] = -1;
    for (size_t c = 0; c < fabric->n_cables; c++)
        for (int i = 0; i < 2; i++) {
            const struct mn_mesh_end *end = &mesh->links[fabric->cables[c].link].ends[i];
            if (fabric->doors[end->node] >= 0 && nic[end->node] <= end->nic)
                continue;
            fabric->doors[end->node] = (int)c;
            nic[end->node] = end->nic;
        }
    free(nic);
}

void mn_fabric_from_mesh(const struct mn_mesh *mesh, struct mn_fabric *fabric)
{
    int relays = mn_reach_relays(&mesh->settings);

    *fabric = (struct mn_fabric){.n = (int)mesh->n_nodes};
    for (size_t l = 0; l < mesh->n_links; l++) {
        const struct mn_mesh_link *link = &mesh->links[l];
        const struct mn_mesh_nic *nics[2] = {mn_mesh_end_nic(mesh, &link->ends[0]),
                                             mn_mesh_end_nic(mesh, &link->ends[1])};
        if (mn_link_is_bare(link))
            continue;
        int a = link->ends[0].node, b = link->ends[1].node;
        int at =
            mn_fabric_add(fabric, a, b, mn_fabric_nic_rate(nics[0], nics[1], is_rdma(mesh, nics)),
                          is_rdma(mesh, nics) ? MN_FABRIC_RDMA_LATENCY : MN_FABRIC_TCP_LATENCY);
        if (is_rdma(mesh, nics) && !relays)
            fabric->far = MN_FABRIC_TCP_LATENCY;
        fabric->cables[at].link = (int)l;
        fabric->cables[at].weight = mn_way_weight(mesh->nodes[a].name, mesh->nodes[b].name);
    }
    join_groups(mesh, fabric);
    if (!relays)
        find_doors(mesh, fabric);
    else if (fabric->n <= MN_FABRIC_SPLITS)
        fabric->relay_ways = mn_reach_ways(&mesh->settings);
}
