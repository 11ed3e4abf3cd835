/* Counters: which NIC carried the bytes. */
#include "topo/nic_read.h"

#include <string.h>

/* RDMA counters by driver family. Sums over all rows of the first set that is there. */
static const struct {
    const char *dir, *rx, *tx;
    unsigned bytes; /* in one count; 0: it counts packets */
    int set;
} rdma_rows[] = {
    {"counters", "port_rcv_data", "port_xmit_data", 4, 0}, /* IBTA: 32-bit words */
    {"hw_counters", "rx_bytes", "tx_bytes", 1, 1},         /* bnxt_re, efa */
    {"hw_counters", "ip4InOctets", "ip4OutOctets", 1, 2},  /* irdma */
    {"hw_counters", "ip6InOctets", "ip6OutOctets", 1, 2},
    {"hw_counters", "rcvd_pkts", "sent_pkts", 0, 3}, /* rxe */
};

static int read_one(const char *root, const char *device, int port, size_t row,
                    struct mn_nic_counters *counters)
{
    static const char path[] = "class/infiniband/%s/ports/%d/%s/%s";
    long long rx, tx;
    if (!mn_sysfs_number(root, &rx, path, device, port, rdma_rows[row].dir, rdma_rows[row].rx) ||
        !mn_sysfs_number(root, &tx, path, device, port, rdma_rows[row].dir, rdma_rows[row].tx))
        return 0;
    unsigned bytes = rdma_rows[row].bytes;
    counters->rdma_unit = bytes ? MN_RDMA_BYTES : MN_RDMA_PACKETS;
    counters->rdma_rx += (uint64_t)rx * (bytes ? bytes : 1);
    counters->rdma_tx += (uint64_t)tx * (bytes ? bytes : 1);
    return 1;
}

static void read_rdma(const char *root, const char *device, int port,
                      struct mn_nic_counters *counters)
{
    int set = -1;
    for (size_t i = 0; i < sizeof rdma_rows / sizeof *rdma_rows; i++)
        if ((set < 0 || set == rdma_rows[i].set) && read_one(root, device, port, i, counters))
            set = rdma_rows[i].set;
}

static enum mn_err read_recorded(const char *root, const char *netdev,
                                 struct mn_nic_counters *counters, struct mn_diag *diag)
{
    long long rx, tx;
    if (!mn_sysfs_number(root, &rx, "class/net/%s/statistics/rx_bytes", netdev) ||
        !mn_sysfs_number(root, &tx, "class/net/%s/statistics/tx_bytes", netdev))
        return mn_fail(diag, MN_ERR_NOTFOUND, "no byte counters for netdev \"%s\" in %s/class/net",
                       netdev, root);
    counters->rx_bytes = (uint64_t)rx;
    counters->tx_bytes = (uint64_t)tx;
    return MN_OK;
}

enum mn_err mn_nic_counters_read(const struct mn_host_source *src, const char *netdev,
                                 const char *rdma_device, int rdma_port,
                                 struct mn_nic_counters *counters, struct mn_diag *diag)
{
    const char *root = src ? src->sysfs : NULL;
    memset(counters, 0, sizeof *counters);
    enum mn_err err = root
                          ? read_recorded(root, netdev, counters, diag)
                          : mn_netdev_bytes(netdev, &counters->rx_bytes, &counters->tx_bytes, diag);
    if (err == MN_OK && rdma_device && *rdma_device)
        read_rdma(root ? root : "/sys", rdma_device, rdma_port, counters);
    return err;
}
