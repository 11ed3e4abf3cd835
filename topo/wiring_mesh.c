#include "topo/wiring_mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/case.h"
#include "topo/mesh_check.h"

/* NVIDIA's names of the NICs of a DGX Spark, as in tests/fixtures/dgx-spark. */
const struct mn_wiring_machine mn_wiring_machines[] = {
    {"dgx-spark",
     "NVIDIA DGX Spark",
     2,
     2,
     200000,
     {{"enp1s0f0np0", "rocep1s0f0"},
      {"enP2p1s0f0np0", "roceP2p1s0f0"},
      {"enp1s0f1np1", "rocep1s0f1"},
      {"enP2p1s0f1np1", "roceP2p1s0f1"}}},
    {NULL, NULL, 0, 0, 0, {{NULL, NULL}}},
};

const struct mn_wiring_machine *mn_wiring_machine(const char *name)
{
    for (const struct mn_wiring_machine *machine = mn_wiring_machines; machine->name; machine++)
        if (!strcmp(machine->name, name))
            return machine;
    return NULL;
}

char *mn_wiring_node_name(const struct mn_wiring_hosts *hosts, int n, int node,
                          char name[MN_NAME_MAX])
{
    int digits = n > 9999 ? 5 : n > 999 ? 4 : n > 99 ? 3 : n > 9 ? 2 : 1;

    if (hosts->names)
        mn_strlcpy(name, hosts->names[node], MN_NAME_MAX);
    else
        snprintf(name, MN_NAME_MAX, "node-%0*d", digits, node + 1);
    return name;
}

static int halves_of(const struct mn_wiring_hosts *hosts)
{
    return hosts->machine ? hosts->machine->halves : 1;
}

static struct mn_wiring_nic nic_of(const struct mn_wiring_hosts *hosts, int port, int half,
                                   char own[IF_NAMESIZE])
{
    if (hosts->machine)
        return hosts->machine->nics[port * hosts->machine->halves + half];
    if (hosts->netdevs)
        return (struct mn_wiring_nic){hosts->netdevs[port], ""};
    snprintf(own, IF_NAMESIZE, "port%d", port);
    return (struct mn_wiring_nic){own, ""};
}

char *mn_wiring_port_label(const struct mn_wiring_hosts *hosts, int port, char label[MN_NAME_MAX])
{
    char own[IF_NAMESIZE];
    const char *netdev = nic_of(hosts, port, 0, own).netdev;

    if (hosts->machine)
        mn_case_label(hosts->machine->product, netdev, "", "", label, MN_NAME_MAX);
    else
        mn_strlcpy(label, netdev, MN_NAME_MAX);
    return label;
}

static void add_nics(struct mn_mesh_node *node, const struct mn_wiring_hosts *hosts, int port)
{
    char own[IF_NAMESIZE];

    for (int half = 0; half < halves_of(hosts); half++) {
        struct mn_mesh_nic *nic = mn_grow((void **)&node->nics, &node->n_nics, sizeof *nic);
        struct mn_wiring_nic what = nic_of(hosts, port, half, own);
        mn_strlcpy(nic->netdev, what.netdev, sizeof nic->netdev);
        mn_strlcpy(nic->name, what.netdev, sizeof nic->name);
        mn_strlcpy(nic->device, what.device, sizeof nic->device);
        nic->port = 1;
        nic->gid_index = -1;
        nic->speed_mbps = hosts->speed_mbps;
        if (halves_of(hosts) > 1)
            mn_wiring_port_label(hosts, port, nic->group);
    }
}

/* places[node * ports + port]: the port's first NIC in the node, of those that have a cable. */
static void add_nodes(const struct mn_wiring *plan, const struct mn_wiring_hosts *hosts,
                      int *places, struct mn_mesh *mesh)
{
    for (size_t i = 0; i < 2 * plan->n_cables; i++) {
        const struct mn_wiring_cable *cable = &plan->cables[i / 2];
        places[cable->nodes[i % 2] * plan->ports + cable->ports[i % 2]] = 1;
    }
    mesh->nodes = mn_zalloc((size_t)plan->n * sizeof *mesh->nodes);
    mesh->n_nodes = (size_t)plan->n;
    for (int n = 0; n < plan->n; n++) {
        struct mn_mesh_node *node = &mesh->nodes[n];
        mn_wiring_node_name(hosts, plan->n, n, node->name);
        mn_strlcpy(node->hostname, node->name, sizeof node->hostname);
        for (int port = 0; port < plan->ports; port++) {
            int used = places[n * plan->ports + port];
            places[n * plan->ports + port] = (int)node->n_nics;
            if (used)
                add_nics(node, hosts, port);
        }
    }
}

enum mn_err mn_wiring_mesh(const struct mn_wiring *plan, const struct mn_wiring_hosts *hosts,
                           struct mn_mesh *mesh, struct mn_diag *diag)
{
    int halves = halves_of(hosts);

    if (plan->ports * halves > MN_MESH_NICS_MAX)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%d NICs of a node: a mesh file has at most %d; plan with fewer ports",
                       plan->ports * halves, MN_MESH_NICS_MAX);
    int *places = mn_zalloc((size_t)plan->n * (size_t)plan->ports * sizeof *places);
    add_nodes(plan, hosts, places, mesh);
    for (size_t i = 0; i < plan->n_cables; i++)
        for (int half = 0; half < halves; half++) {
            const struct mn_wiring_cable *cable = &plan->cables[i];
            struct mn_mesh_link *link =
                mn_grow((void **)&mesh->links, &mesh->n_links, sizeof *link);
            for (int side = 0; side < 2; side++)
                link->ends[side] = (struct mn_mesh_end){
                    cable->nodes[side],
                    places[cable->nodes[side] * plan->ports + cable->ports[side]] + half};
        }
    free(places);
    return mn_link_name(mesh, diag);
}
