/* What a node knows of its ends of the cables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/matrix/matrix_impl.h"
#include "topo/base/alloc.h"
#include "topo/finding.h"

void mn_matrix_own_ends(const struct mn_mesh *mesh, int node, struct mn_matrix_end *ends)
{
    const struct mn_mesh_node *own = &mesh->nodes[node];
    struct mn_host host;

    if (mn_host_read(NULL, &host, NULL)) {
        mn_host_free(&host);
        return;
    }
    for (size_t i = 0; i < own->n_nics && i < MN_MATRIX_NICS; i++) {
        const struct mn_nic *nic = mn_host_nic(&host, own->nics[i].netdev);
        if (!nic)
            continue;
        long mbps = own->nics[i].speed_mbps ? own->nics[i].speed_mbps : nic->speed_mbps;
        ends[i] = (struct mn_matrix_end){
            .known = 1,
            .up = nic->admin_up,
            .carrier = nic->carrier,
            .mtu = nic->mtu,
            .speed_gbps = (float)mbps / 1000,
            .pcie_gbps = (float)mn_pci_gbps(nic->pci.speed, nic->pci.width),
        };
    }
    mn_host_free(&host);
}

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return m && n > m && text[n - m - 1] == '-' && !strcmp(text + n - m, end);
}

/* Plugins name devices after the netdev, the RDMA device, or "prefix-netdev". */
static int is_of_nic(const char *device, const struct mn_mesh_nic *nic)
{
    return !strcmp(device, nic->netdev) || ends_with(device, nic->netdev) ||
           (nic->device[0] && !strcmp(device, nic->device));
}

enum mn_err mn_matrix_devices(struct mn_plugin *plugin, const struct mn_mesh_node *node,
                              int devices[MN_MATRIX_NICS], struct mn_diag *diag)
{
    int n = 0, result = mn_plugin_init(plugin);

    for (int i = 0; i < MN_MATRIX_NICS; i++)
        devices[i] = -1;
    if (!result)
        result = mn_plugin_devices(plugin, &n);
    for (int d = 0; d < n && !result; d++) {
        struct mn_plugin_props props;
        result = mn_plugin_properties(plugin, d, &props);
        for (size_t i = 0; !result && props.net.name && i < node->n_nics && i < MN_MATRIX_NICS; i++)
            if (node->nics[i].role != MN_ROLE_MANAGEMENT &&
                is_of_nic(props.net.name, &node->nics[i]))
                devices[i] = d;
    }
    mn_plugin_finalize(plugin);
    return result ? mn_fail(diag, MN_ERR_FAILED, "the plugin's init or devices returned %s",
                            mn_nccl_result_name(result))
                  : MN_OK;
}

/* Names by driver: rxe, mlx5, bnxt_re. What a driver has not is not there to be read. */
static const char *const rdma_losses[] = {
    "completer_retry_err", "rcvd_seq_err",        "local_ack_timeout_err", "packet_seq_err",
    "out_of_sequence",     "implied_nak_seq_err", "seq_err_naks_rcvd",     "to_retransmits",
};

static uint64_t read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned long long number = 0;

    if (file) {
        if (fscanf(file, "%llu", &number) != 1)
            number = 0;
        fclose(file);
    }
    return number;
}

void mn_matrix_read_losses(const struct mn_mesh_node *node, struct mn_matrix_losses *losses)
{
    memset(losses, 0, sizeof *losses);
    for (size_t i = 0; i < node->n_nics && i < MN_MATRIX_NICS; i++) {
        const struct mn_mesh_nic *nic = &node->nics[i];
        if (nic->role == MN_ROLE_MANAGEMENT)
            continue;
        for (size_t k = 0; nic->device[0] && k < sizeof rdma_losses / sizeof *rdma_losses; k++) {
            char path[256];
            snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/hw_counters/%s",
                     nic->device, nic->port, rdma_losses[k]);
            losses->rdma[i] += read_number(path);
        }
    }
}

const struct mn_mesh_end *mn_matrix_end_at(const struct mn_mesh_link *link, int node)
{
    return &link->ends[link->ends[0].node == node ? 0 : 1];
}

int mn_matrix_joins(const struct mn_mesh_link *link, int a, int b)
{
    return (link->ends[0].node == a && link->ends[1].node == b) ||
           (link->ends[0].node == b && link->ends[1].node == a);
}

void mn_matrix_check_lanes(const struct mn_mesh *mesh, struct mn_matrix_cell *cell)
{
    if (cell->n_lanes < 0 || cell->n_lanes > MN_MATRIX_LANES)
        cell->n_lanes = 0;
    for (int i = 0; i < cell->n_lanes; i++) {
        int32_t link = cell->lanes[i].link;
        if (link < 0 || (size_t)link >= mesh->n_links ||
            !mn_matrix_joins(&mesh->links[link], cell->from, cell->to))
            cell->n_lanes = 0;
    }
}
