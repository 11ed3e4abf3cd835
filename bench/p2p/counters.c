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
            struct mn_p2p_nic *n = &nics[count];
            *n = (struct mn_p2p_nic){.device = ""};
            if (mn_nic_counters_read(NULL, nic->netdev, port ? port->device : NULL,
                                     port ? port->port : 0, &n->n, NULL))
                continue;
            mn_strlcpy(n->netdev, nic->netdev, sizeof n->netdev);
            if (port)
                mn_strlcpy(n->device, port->device, sizeof n->device);
            count++;
        }
        mn_p2p_tcp_losses(&host, nics, count);
    }
    mn_host_free(&host);
    return count;
}

/* A connection that closed meanwhile takes its part with it. */
static uint64_t grown(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

void mn_p2p_counters_since(struct mn_p2p_nic *nics, int count, const struct mn_p2p_nic *before,
                           int count_before)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count_before; j++) {
            if (strcmp(nics[i].netdev, before[j].netdev) != 0)
                continue;
            struct mn_nic_counters *now = &nics[i].n;
            const struct mn_nic_counters *then = &before[j].n;
            nics[i].tcp_packets = grown(nics[i].tcp_packets, before[j].tcp_packets);
            nics[i].tcp_lost = grown(nics[i].tcp_lost, before[j].tcp_lost);
            now->rx_bytes -= then->rx_bytes;
            now->tx_bytes -= then->tx_bytes;
            if (now->rdma_unit != then->rdma_unit) {
                now->rdma_unit = MN_RDMA_UNCOUNTED;
                continue;
            }
            now->rdma_rx -= then->rdma_rx;
            now->rdma_tx -= then->rdma_tx;
        }
}

/* RDMA traffic of a NIC as a part of what the run moved. */
static double rdma_part(const struct mn_p2p_report *report, const struct mn_nic_counters *n)
{
    uint64_t whole = n->rdma_unit == MN_RDMA_BYTES ? report->moved_bytes : report->moved_packets;

    return n->rdma_unit && whole ? (double)(n->rdma_rx + n->rdma_tx) / (double)whole : 0;
}

enum mn_p2p_carrier mn_p2p_carrier(const struct mn_p2p_report *report, const struct mn_p2p_end *end,
                                   double shares[MN_P2P_NICS])
{
    double rdma = 0, tcp = 0;
    int by_rdma;

    for (int i = 0; i < end->n_nics; i++) {
        const struct mn_nic_counters *n = &end->nics[i].n;
        rdma += rdma_part(report, n);
        tcp += (double)n->rx_bytes + (double)n->tx_bytes;
    }
    /* Counters may lag a little behind the last messages. */
    by_rdma = rdma > 0.9;
    for (int i = 0; i < end->n_nics; i++) {
        const struct mn_nic_counters *n = &end->nics[i].n;
        if (by_rdma)
            shares[i] = rdma_part(report, n) / rdma;
        else
            shares[i] = tcp > 0 ? ((double)n->rx_bytes + (double)n->tx_bytes) / tcp : 0;
    }
    if (by_rdma)
        return MN_P2P_RDMA;
    if (rdma > 0.1)
        return MN_P2P_MIXED;
    return tcp > 0.9 * (double)report->moved_bytes && tcp > 0 ? MN_P2P_TCP : MN_P2P_UNSEEN;
}
