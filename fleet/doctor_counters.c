/* Counters that tell of a bad cable or of packets lost:
 *   "counters": [{"netdev", "values": {"rx_packets": 7, "fec_uncorrectable": 0, …}}]
 * Those of packets stand beside them, for lost ones to be measured by. */
#include <errno.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/doctor_ask.h"
#include "fleet/ethtool.h"
#include "topo/base/alloc.h"

static void add(void *ctx, const char *name, uint64_t value)
{
    cJSON_AddNumberToObject(ctx, name, (double)value);
}

static const struct {
    rtnl_link_stat_id_t id;
    const char *name;
} of_netdev[] = {
    {RTNL_LINK_RX_PACKETS, "rx_packets"},   {RTNL_LINK_TX_PACKETS, "tx_packets"},
    {RTNL_LINK_RX_ERRORS, "rx_errors"},     {RTNL_LINK_TX_ERRORS, "tx_errors"},
    {RTNL_LINK_RX_DROPPED, "rx_dropped"},   {RTNL_LINK_TX_DROPPED, "tx_dropped"},
    {RTNL_LINK_RX_CRC_ERR, "rx_crc"},       {RTNL_LINK_RX_FRAME_ERR, "rx_frame"},
    {RTNL_LINK_RX_MISSED_ERR, "rx_missed"}, {RTNL_LINK_TX_CARRIER_ERR, "tx_carrier"},
};

static void add_netdev(struct nl_sock *sock, const char *netdev, cJSON *values)
{
    struct rtnl_link *link = NULL;

    if (!sock || rtnl_link_get_kernel(sock, 0, netdev, &link) < 0)
        return;
    for (size_t i = 0; i < sizeof of_netdev / sizeof *of_netdev; i++)
        add(values, of_netdev[i].name, rtnl_link_get_stat(link, of_netdev[i].id));
    rtnl_link_put(link);
}

/* Of InfiniBand's table and mlx5's of its own; what a driver has not is left out. */
static const char *const of_port[][2] = {
    {"counters", "symbol_error"},
    {"counters", "port_rcv_errors"},
    {"counters", "link_error_recovery"},
    {"counters", "link_downed"},
    {"counters", "port_xmit_discards"},
    {"counters", "local_link_integrity_errors"},
    {"hw_counters", "out_of_sequence"},
    {"hw_counters", "packet_seq_err"},
    {"hw_counters", "local_ack_timeout_err"},
    {"hw_counters", "rx_icrc_encapsulated"},
};

static void add_port(const struct mn_rdma_port *port, cJSON *values)
{
    char text[32], *end;

    for (size_t i = 0; i < sizeof of_port / sizeof *of_port; i++) {
        if (!mn_doctor_line(text, sizeof text, "/sys/class/infiniband/%s/ports/%d/%s/%s",
                            port->device, port->port, of_port[i][0], of_port[i][1]))
            continue;
        errno = 0;
        unsigned long long value = strtoull(text, &end, 10);
        if (end != text && !errno)
            add(values, of_port[i][1], value);
    }
}

void mn_doctor_ask_counters(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *list = cJSON_AddArrayToObject(answer, "counters");
    const struct mn_mesh_node *node = look->self >= 0 ? &look->mesh->nodes[look->self] : NULL;
    struct nl_sock *sock = nl_socket_alloc();
    struct mn_ethtool *ethtool;

    if (sock && nl_connect(sock, NETLINK_ROUTE)) {
        nl_socket_free(sock);
        sock = NULL;
    }
    (void)mn_ethtool_open(&ethtool, NULL);
    for (size_t i = 0; node && i < node->n_nics; i++) {
        const struct mn_nic *nic = mn_doctor_nic(look, i);
        if (!nic)
            continue;
        cJSON *json = cJSON_CreateObject(), *values;
        cJSON_AddStringToObject(json, "netdev", nic->netdev);
        values = cJSON_AddObjectToObject(json, "values");
        add_netdev(sock, nic->netdev, values);
        if (ethtool)
            mn_ethtool_counters(ethtool, nic->netdev, add, values);
        if (nic->rdma >= 0)
            add_port(&look->host->rdma[nic->rdma], values);
        cJSON_AddItemToArray(list, json);
    }
    mn_ethtool_close(ethtool);
    if (sock)
        nl_socket_free(sock);
}
