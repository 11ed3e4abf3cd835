/* What only libibverbs knows of an RDMA port: limits, MTU, capabilities, and the GID table as
 * one answer. Written over what sysfs said. */
#include "topo/nic_read.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/ibv.h"

static int mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0;
}

/* IBTA codes; they are not lane counts. */
static int width_lanes(uint8_t code)
{
    switch (code) {
    case 1:
        return 1;
    case 2:
        return 4;
    case 4:
        return 8;
    case 8:
        return 12;
    case 16:
        return 2;
    default:
        return 0;
    }
}

static const char *atomic_name(enum ibv_atomic_cap cap)
{
    return cap == IBV_ATOMIC_GLOB ? "GLOB" : cap == IBV_ATOMIC_HCA ? "HCA" : "NONE";
}

static void set_device(const struct ibv_device_attr *attr, struct mn_rdma_port *port)
{
    mn_strlcpy(port->fw_ver, attr->fw_ver, sizeof port->fw_ver);
    mn_strlcpy(port->atomic_cap, atomic_name(attr->atomic_cap), sizeof port->atomic_cap);
    port->node_guid = be64toh(attr->node_guid);
    port->sys_image_guid = be64toh(attr->sys_image_guid);
    port->vendor_id = attr->vendor_id;
    port->vendor_part_id = attr->vendor_part_id;
    port->hw_ver = attr->hw_ver;
    port->max_qp = attr->max_qp;
    port->max_qp_wr = attr->max_qp_wr;
    port->max_sge = attr->max_sge;
    port->max_cq = attr->max_cq;
    port->max_cqe = attr->max_cqe;
    port->max_mr = attr->max_mr;
    port->max_pd = attr->max_pd;
    port->max_srq = attr->max_srq;
    port->max_ah = attr->max_ah;
    port->phys_port_cnt = attr->phys_port_cnt;
    port->max_qp_rd_atom = attr->max_qp_rd_atom;
    port->max_qp_init_rd_atom = attr->max_qp_init_rd_atom;
    port->max_pkeys = attr->max_pkeys;
    port->max_mr_size = attr->max_mr_size;
    port->page_size_cap = attr->page_size_cap;
    port->device_cap_flags = attr->device_cap_flags;
}

static void set_port(const struct ibv_port_attr *attr, struct mn_rdma_port *port)
{
    port->lid = attr->lid;
    port->sm_lid = attr->sm_lid;
    port->lmc = attr->lmc;
    port->active_mtu = mtu_bytes(attr->active_mtu);
    port->max_mtu = mtu_bytes(attr->max_mtu);
    port->active_width = width_lanes(attr->active_width);
    port->gid_tbl_len = attr->gid_tbl_len;
    port->port_cap_flags = attr->port_cap_flags;
    port->max_msg_sz = attr->max_msg_sz;
}

static const char *netdev_name(const struct mn_host *host, uint32_t ifindex)
{
    const struct mn_nic *nic = mn_host_nic_by_index(host, (int)ifindex);

    return nic ? nic->netdev : "";
}

/* Replaces the ports' GIDs of sysfs; keeps them when the library or the kernel is too old. */
static enum mn_err read_gids(const struct mn_ibv *ibv, struct ibv_context *context,
                             const struct mn_host *host, struct mn_rdma_port *port,
                             struct mn_diag *diag)
{
    /* The call answers for all ports of the device at once. */
    size_t max = 0;
    for (size_t i = 0; i < host->n_rdma; i++)
        if (strcmp(host->rdma[i].device, port->device) == 0)
            max += host->rdma[i].gid_tbl_len > 0 ? (size_t)host->rdma[i].gid_tbl_len : 256;
    struct ibv_gid_entry *entries = calloc(max, sizeof *entries);
    if (!entries)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for the GID table of %s", port->device);
    ssize_t count = ibv->query_gid_table(context, entries, max, 0, sizeof *entries);
    if (count >= 0) {
        free(port->gids);
        port->gids = NULL;
        port->n_gids = 0;
    }
    enum mn_err err = MN_OK;
    for (ssize_t i = 0; i < count && err == MN_OK; i++) {
        if (entries[i].port_num != (uint32_t)port->port)
            continue;
        struct mn_gid *gid = mn_push(&port->gids, &port->n_gids, sizeof *gid, diag);
        if (!gid) {
            err = MN_ERR_NOMEM;
            break;
        }
        gid->index = (int)entries[i].gid_index;
        /* iWARP entries also say IB; they are nothing an address can be resolved with. */
        gid->type = entries[i].gid_type == IBV_GID_TYPE_ROCE_V2   ? MN_GID_ROCE_V2
                    : strcmp(port->link_layer, "InfiniBand") == 0 ? MN_GID_IB
                                                                  : MN_GID_ROCE_V1;
        memcpy(gid->raw, entries[i].gid.raw, sizeof gid->raw);
        mn_strlcpy(gid->netdev, netdev_name(host, entries[i].ndev_ifindex), sizeof gid->netdev);
        mn_gid_set_addr(gid);
    }
    free(entries);
    return err;
}

static enum mn_err read_ports(const struct mn_ibv *ibv, struct ibv_context *context,
                              const char *device, struct mn_host *host, struct mn_diag *diag)
{
    struct ibv_device_attr device_attr;
    memset(&device_attr, 0, sizeof device_attr);
    if (ibv->query_device(context, &device_attr) != 0)
        return MN_OK;
    enum mn_err err = MN_OK;
    for (size_t i = 0; i < host->n_rdma; i++) {
        struct mn_rdma_port *port = &host->rdma[i];
        struct ibv_port_attr attr;
        if (strcmp(port->device, device) != 0 ||
            mn_ibv_query_port(ibv, context, (uint8_t)port->port, &attr) != 0)
            continue;
        set_device(&device_attr, port);
        set_port(&attr, port);
        port->from_verbs = 1;
    }
    for (size_t i = 0; i < host->n_rdma && err == MN_OK; i++)
        if (host->rdma[i].from_verbs && strcmp(host->rdma[i].device, device) == 0)
            err = read_gids(ibv, context, host, &host->rdma[i], diag);
    return err;
}

enum mn_err mn_host_ask_verbs(const struct mn_ibv *ibv, struct mn_host *host, struct mn_diag *diag)
{
    snprintf(host->verbs, sizeof host->verbs, "libibverbs %s", ibv->version);
    int count = 0;
    struct ibv_device **list = ibv->get_device_list(&count);
    if (!list) {
        snprintf(host->verbs, sizeof host->verbs, "libibverbs %s lists no device: %s", ibv->version,
                 strerror(errno));
        return MN_OK;
    }
    enum mn_err err = MN_OK;
    for (int i = 0; i < count && err == MN_OK; i++) {
        const char *device = ibv->get_device_name(list[i]);
        struct ibv_context *context = ibv->open_device(list[i]);
        if (!context) {
            snprintf(host->verbs, sizeof host->verbs, "libibverbs %s cannot open %.24s: %.32s",
                     ibv->version, device, strerror(errno));
            if (!*host->missing && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
                snprintf(host->missing, sizeof host->missing, "%.60s, by libibverbs: %.60s", device,
                         strerror(errno));
            continue;
        }
        err = read_ports(ibv, context, device, host, diag);
        ibv->close_device(context);
    }
    ibv->free_device_list(list);
    return err;
}

enum mn_err mn_host_read_verbs(struct mn_host *host, struct mn_diag *diag)
{
    struct mn_diag reason;
    const struct mn_ibv *ibv = mn_ibv_open(&reason);
    if (ibv)
        return mn_host_ask_verbs(ibv, host, diag);
    snprintf(host->verbs, sizeof host->verbs, "not used: %.100s", reason.text);
    return MN_OK;
}
