#include <string.h>

#include "bench/p2p/pump.h"
#include "topo/base/alloc.h"

int mn_p2p_counters(struct mn_p2p_nic nics[MN_P2P_NICS])
{
    struct mn_host host;
    int count = 0;

    if (!mn_host_read(NULL, &host, NULL)) {
        for (size_t i = 0; i < host.n_nics && count < MN_P2P_NICS; i++) {
            const struct mn_nic *nic = &host.nics[i];
            const struct mn_rdma_port *port = nic->rdma >= 0 ? &host.rdma[nic->rdma] : NULL;
            struct mn_nic_counters c;
            if (mn_nic_counters_read(NULL, nic->netdev, port ? port->device : NULL,
                                     port ? port->port : 0, &c, NULL))
                continue;
            struct mn_p2p_nic *n = &nics[count++];
            *n = (struct mn_p2p_nic){.rx_bytes = c.rx_bytes,
                                     .tx_bytes = c.tx_bytes,
                                     .rdma_rx_bytes = c.rdma_rx_bytes,
                                     .rdma_tx_bytes = c.rdma_tx_bytes,
                                     .has_rdma = c.has_rdma};
            mn_strlcpy(n->netdev, nic->netdev, sizeof n->netdev);
        }
    }
    mn_host_free(&host);
    return count;
}

void mn_p2p_counters_since(struct mn_p2p_nic *nics, int count, const struct mn_p2p_nic *before,
                           int count_before)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count_before; j++) {
            if (strcmp(nics[i].netdev, before[j].netdev) != 0)
                continue;
            nics[i].rx_bytes -= before[j].rx_bytes;
            nics[i].tx_bytes -= before[j].tx_bytes;
            nics[i].rdma_rx_bytes -= before[j].rdma_rx_bytes;
            nics[i].rdma_tx_bytes -= before[j].rdma_tx_bytes;
        }
}
