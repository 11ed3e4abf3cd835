/* The -v view: addresses, RDMA attributes (as ibv_devinfo -v has them), GID tables. */
#include "cli/discover.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

enum attr_type { TEXT, INT, LONG, HEX32, HEX64, GUID };

struct attr {
    const char *key;
    enum attr_type type;
    size_t offset;
    int verbs_only; /* sysfs does not know it */
};
#define ATTR(type, field, verbs)                                                                   \
    {                                                                                              \
#field, type, offsetof(struct mn_rdma_port, field), verbs                                  \
    }

static const struct attr attrs[] = {
    ATTR(TEXT, hca_type, 0),
    ATTR(TEXT, fw_ver, 0),
    ATTR(TEXT, board_id, 0),
    ATTR(GUID, node_guid, 0),
    ATTR(GUID, sys_image_guid, 0),
    ATTR(HEX32, vendor_id, 1),
    ATTR(INT, vendor_part_id, 1),
    ATTR(HEX32, hw_ver, 1),
    ATTR(INT, phys_port_cnt, 1),
    ATTR(HEX64, max_mr_size, 1),
    ATTR(HEX64, page_size_cap, 1),
    ATTR(INT, max_qp, 1),
    ATTR(INT, max_qp_wr, 1),
    ATTR(INT, max_sge, 1),
    ATTR(INT, max_cq, 1),
    ATTR(INT, max_cqe, 1),
    ATTR(INT, max_mr, 1),
    ATTR(INT, max_pd, 1),
    ATTR(INT, max_srq, 1),
    ATTR(INT, max_ah, 1),
    ATTR(INT, max_qp_rd_atom, 1),
    ATTR(INT, max_qp_init_rd_atom, 1),
    ATTR(INT, max_pkeys, 1),
    ATTR(TEXT, atomic_cap, 1),
    ATTR(HEX64, device_cap_flags, 1),
    ATTR(TEXT, state, 0),
    ATTR(TEXT, phys_state, 0),
    ATTR(TEXT, link_layer, 0),
    ATTR(LONG, rate_mbps, 0),
    ATTR(INT, active_width, 0),
    ATTR(INT, active_mtu, 1),
    ATTR(INT, max_mtu, 1),
    ATTR(INT, lid, 0),
    ATTR(INT, sm_lid, 0),
    ATTR(INT, lmc, 0),
    ATTR(INT, gid_tbl_len, 1),
    ATTR(HEX32, max_msg_sz, 1),
    ATTR(HEX32, port_cap_flags, 1),
};

struct flag {
    uint64_t bit;
    const char *name;
};
#define DEVICE_FLAG(name)                                                                          \
    {                                                                                              \
        IBV_DEVICE_##name, #name                                                                   \
    }
static const struct flag device_flags[] = {
    DEVICE_FLAG(RESIZE_MAX_WR),      DEVICE_FLAG(BAD_PKEY_CNTR),
    DEVICE_FLAG(BAD_QKEY_CNTR),      DEVICE_FLAG(RAW_MULTI),
    DEVICE_FLAG(AUTO_PATH_MIG),      DEVICE_FLAG(CHANGE_PHY_PORT),
    DEVICE_FLAG(UD_AV_PORT_ENFORCE), DEVICE_FLAG(CURR_QP_STATE_MOD),
    DEVICE_FLAG(SHUTDOWN_PORT),      DEVICE_FLAG(INIT_TYPE),
    DEVICE_FLAG(PORT_ACTIVE_EVENT),  DEVICE_FLAG(SYS_IMAGE_GUID),
    DEVICE_FLAG(RC_RNR_NAK_GEN),     DEVICE_FLAG(SRQ_RESIZE),
    DEVICE_FLAG(N_NOTIFY_CQ),        DEVICE_FLAG(MEM_WINDOW),
    DEVICE_FLAG(UD_IP_CSUM),         DEVICE_FLAG(XRC),
    DEVICE_FLAG(MEM_MGT_EXTENSIONS), DEVICE_FLAG(MEM_WINDOW_TYPE_2A),
    DEVICE_FLAG(MEM_WINDOW_TYPE_2B), DEVICE_FLAG(RC_IP_CSUM),
    DEVICE_FLAG(RAW_IP_CSUM),        DEVICE_FLAG(MANAGED_FLOW_STEERING),
};

#define PORT_FLAG(name)                                                                            \
    {                                                                                              \
        IBV_PORT_##name, #name                                                                     \
    }
static const struct flag port_flags[] = {
    PORT_FLAG(SM),
    PORT_FLAG(NOTICE_SUP),
    PORT_FLAG(TRAP_SUP),
    PORT_FLAG(OPT_IPD_SUP),
    PORT_FLAG(AUTO_MIGR_SUP),
    PORT_FLAG(SL_MAP_SUP),
    PORT_FLAG(MKEY_NVRAM),
    PORT_FLAG(PKEY_NVRAM),
    PORT_FLAG(LED_INFO_SUP),
    PORT_FLAG(SYS_IMAGE_GUID_SUP),
    PORT_FLAG(PKEY_SW_EXT_PORT_TRAP_SUP),
    PORT_FLAG(EXTENDED_SPEEDS_SUP),
    PORT_FLAG(CAP_MASK2_SUP),
    PORT_FLAG(CM_SUP),
    PORT_FLAG(SNMP_TUNNEL_SUP),
    PORT_FLAG(REINIT_SUP),
    PORT_FLAG(DEVICE_MGMT_SUP),
    PORT_FLAG(VENDOR_CLASS_SUP),
    PORT_FLAG(DR_NOTICE_SUP),
    PORT_FLAG(CAP_MASK_NOTICE_SUP),
    PORT_FLAG(BOOT_MGMT_SUP),
    PORT_FLAG(LINK_LATENCY_SUP),
    PORT_FLAG(CLIENT_REG_SUP),
    PORT_FLAG(IP_BASED_GIDS),
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void put_flags(struct mn_out *out, const char *key, const struct flag *flags, size_t count,
                      uint64_t value)
{
    char text[1024] = "";
    size_t len = 0;
    for (size_t i = 0; i < count && len < sizeof text; i++)
        if (value & flags[i].bit)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "",
                                    flags[i].name);
    mn_out_str(out, key, key, text[0] ? text : NULL);
}

static void put_attr(struct mn_out *out, const struct attr *attr, const struct mn_rdma_port *port)
{
    const void *field = (const char *)port + attr->offset;
    const char *key = attr->key;
    uint64_t guid;
    switch (attr->type) {
    case TEXT:
        mn_out_str(out, key, key, *(const char *)field ? field : NULL);
        break;
    case INT:
        mn_out_int(out, key, key, *(const int *)field);
        break;
    case LONG:
        mn_out_int(out, key, key, *(const long *)field);
        break;
    case HEX32:
        mn_out_strf(out, key, key, "0x%x", *(const uint32_t *)field);
        break;
    case HEX64:
        mn_out_strf(out, key, key, "0x%llx", *(const unsigned long long *)field);
        break;
    case GUID:
        guid = *(const uint64_t *)field;
        mn_out_strf(out, key, key, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
                    (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
                    (unsigned)guid & 0xffff);
        break;
    }
}

static void put_gids(struct mn_out *out, const struct mn_rdma_port *port)
{
    static const struct mn_col cols[] = {
        {"index", "INDEX", 1},     {"type", "TYPE", MN_DROP(1)}, {"gid", "GID", 0},
        {"address", "ADDRESS", 0}, {"netdev", "NETDEV", 0},
    };
    mn_out_table(out, "gids", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < port->n_gids; i++) {
        const struct mn_gid *gid = &port->gids[i];
        const uint8_t *r = gid->raw;
        char addr[MN_ADDR_TEXT];
        struct mn_addr bare = gid->addr;
        bare.prefix = -1;
        mn_out_row(out);
        mn_out_cell_int(out, gid->index);
        mn_out_cell(out, mn_gid_type_name(gid->type));
        mn_out_cellf(out, "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
                     r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11],
                     r[12], r[13], r[14], r[15]);
        mn_out_cell(out, bare.family ? mn_addr_format(&bare, addr, sizeof addr) : NULL);
        mn_out_cell(out, gid->netdev[0] ? gid->netdev : NULL);
    }
    mn_out_table_end(out);
}

static void put_port(struct mn_out *out, const struct mn_rdma_port *port)
{
    char title[96];
    snprintf(title, sizeof title, "%s port %d", port->device, port->port);
    mn_out_begin(out, NULL, title);
    mn_out_str(out, "device", NULL, port->device);
    mn_out_int(out, "port", NULL, port->port);
    mn_out_str(out, "netdev", "netdev", port->netdev[0] ? port->netdev : NULL);
    mn_out_str(out, "pci_address", "pci_address", port->pci.address[0] ? port->pci.address : NULL);
    mn_out_bool(out, "from_verbs", "from_verbs", port->from_verbs);
    for (size_t i = 0; i < COUNT(attrs); i++)
        if (port->from_verbs || !attrs[i].verbs_only)
            put_attr(out, &attrs[i], port);
    if (port->from_verbs) {
        put_flags(out, "device_caps", device_flags, COUNT(device_flags), port->device_cap_flags);
        put_flags(out, "port_caps", port_flags, COUNT(port_flags), port->port_cap_flags);
    }
    put_gids(out, port);
    mn_out_end(out);
}

static void put_addresses(struct mn_out *out, const struct mn_host *host, int all)
{
    static const struct mn_col cols[] = {
        {"netdev", "NETDEV", 0},
        {"address", "ADDRESS", 0},
        {"family", "FAMILY", 0},
        {"subnet", "SUBNET", 0},
    };
    mn_out_table(out, "addresses", "Addresses", cols, COUNT(cols));
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        for (size_t k = 0; (all || mn_nic_is_relevant(host, nic)) && k < nic->n_addrs; k++) {
            struct mn_addr subnet = mn_addr_network(&nic->addrs[k]);
            char addr[MN_ADDR_TEXT], net[MN_ADDR_TEXT];
            mn_out_row(out);
            mn_out_cell(out, nic->netdev);
            mn_out_cell(out, mn_addr_format(&nic->addrs[k], addr, sizeof addr));
            mn_out_cell(out, nic->addrs[k].family == AF_INET6 ? "inet6" : "inet");
            mn_out_cell(out, mn_addr_format(&subnet, net, sizeof net));
        }
    }
    mn_out_table_end(out);
}

void mn_discover_details(struct mn_out *out, const struct mn_host *host, int all)
{
    put_addresses(out, host, all);
    mn_out_list_begin(out, "rdma", host->n_rdma ? "RDMA ports" : NULL);
    for (size_t i = 0; i < host->n_rdma; i++)
        put_port(out, &host->rdma[i]);
    mn_out_list_end(out);
    mn_discover_gpus(out, host, "GPUs");
}
