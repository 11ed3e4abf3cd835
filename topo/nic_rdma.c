/* RDMA devices, ports and GID tables from sysfs: enough without libibverbs. */
#include "topo/nic_read.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

/* Where sysfs keeps a port: class/infiniband/<device>/ports/<port>. */
#define PORT_PATH "class/infiniband/%s/ports/%d/"

struct rdma_reader {
    const char *root;
    struct mn_host *host;
    const char *device;
    struct mn_rdma_port *port;
    long long netdev_port; /* dev_port of port->netdev, while device/net is searched */
};

/* "4: ACTIVE" -> "ACTIVE" */
static void read_state(const struct rdma_reader *r, const char *name, char *buf, size_t size)
{
    char text[64];
    if (!mn_sysfs_text(r->root, text, sizeof text, PORT_PATH "%s", r->port->device, r->port->port,
                       name))
        return;
    const char *colon = strchr(text, ':');
    mn_strlcpy(buf, colon ? colon + 1 + strspn(colon + 1, " ") : text, size);
}

/* "0002:c903:0000:1234" */
static uint64_t read_guid(const struct rdma_reader *r, const char *name)
{
    char text[64];
    unsigned part[4];
    if (!mn_sysfs_text(r->root, text, sizeof text, "class/infiniband/%s/%s", r->device, name) ||
        sscanf(text, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
        return 0;
    return (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
}

/* "200 Gb/sec (4X HDR)" */
static void read_rate(struct rdma_reader *r)
{
    char text[64];
    struct mn_rdma_port *port = r->port;
    if (!mn_sysfs_text(r->root, text, sizeof text, PORT_PATH "rate", port->device, port->port))
        return;
    port->rate_mbps = (long)(mn_sysfs_decimal(text) * 1000 + 0.5);
    const char *width = strchr(text, '(');
    if (width)
        port->active_width = (int)mn_sysfs_decimal(width + 1);
}

static int read_port_number(const struct rdma_reader *r, const char *name)
{
    long long number = 0;
    if (!mn_sysfs_number(r->root, &number, PORT_PATH "%s", r->port->device, r->port->port, name))
        return 0;
    return number > 0 && number <= INT_MAX ? (int)number : 0;
}

static int parse_raw_gid(const char *text, uint8_t raw[16])
{
    unsigned part[8];
    if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3],
               &part[4], &part[5], &part[6], &part[7]) != 8)
        return 0;
    for (int i = 0; i < 8; i++) {
        raw[2 * i] = (uint8_t)(part[i] >> 8);
        raw[2 * i + 1] = (uint8_t)part[i];
    }
    return 1;
}

static int parse_index(const char *name, int *index)
{
    char *end;
    long value = strtol(name, &end, 10);
    if (end == name || *end != '\0' || value < 0 || value > INT_MAX)
        return 0;
    *index = (int)value;
    return 1;
}

void mn_gid_set_addr(struct mn_gid *gid)
{
    static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};
    memset(&gid->addr, 0, sizeof gid->addr);
    if (gid->type == MN_GID_IB)
        return;
    gid->addr.prefix = -1;
    if (memcmp(gid->raw, v4_mapped, sizeof v4_mapped) == 0) {
        gid->addr.family = AF_INET;
        memcpy(gid->addr.bytes, gid->raw + 12, 4);
    } else {
        gid->addr.family = AF_INET6;
        memcpy(gid->addr.bytes, gid->raw, 16);
    }
}

/* An unused slot reads as zeros, and its type is an error: a hole, not the end of the table. */
static enum mn_err read_gid(void *arg, const char *name, struct mn_diag *diag)
{
    static const uint8_t zero[16];
    struct rdma_reader *r = arg;
    struct mn_rdma_port *port = r->port;
    struct mn_gid gid = {0};
    char text[64];
    if (!parse_index(name, &gid.index) ||
        !mn_sysfs_text(r->root, text, sizeof text, PORT_PATH "gids/%d", port->device, port->port,
                       gid.index) ||
        !parse_raw_gid(text, gid.raw) || memcmp(gid.raw, zero, sizeof zero) == 0)
        return MN_OK;
    int has_type = mn_sysfs_text(r->root, text, sizeof text, PORT_PATH "gid_attrs/types/%d",
                                 port->device, port->port, gid.index);
    if (strcmp(port->link_layer, "InfiniBand") == 0)
        gid.type = MN_GID_IB;
    else if (!has_type)
        return MN_OK;
    else
        gid.type = strcmp(text, "RoCE v2") == 0 ? MN_GID_ROCE_V2 : MN_GID_ROCE_V1;
    mn_sysfs_text(r->root, gid.netdev, sizeof gid.netdev, PORT_PATH "gid_attrs/ndevs/%d",
                  port->device, port->port, gid.index);
    mn_gid_set_addr(&gid);
    struct mn_gid *slot = mn_push(&port->gids, &port->n_gids, sizeof *slot, diag);
    if (!slot)
        return MN_ERR_NOMEM;
    *slot = gid;
    return MN_OK;
}

static int by_index(const void *a, const void *b)
{
    int x = ((const struct mn_gid *)a)->index, y = ((const struct mn_gid *)b)->index;
    return (x > y) - (x < y);
}

/* Two ports on one PCI function share device/net; dev_port counts from 0. One netdev alone is right
 * for every port: some drivers leave dev_port at 0. A representor of a VF has a longer name than
 * its PF with the same start. */
static enum mn_err read_netdev(void *arg, const char *name, struct mn_diag *diag)
{
    (void)diag;
    struct rdma_reader *r = arg;
    char *best = r->port->netdev;
    long long dev_port = 0, want = r->port->port - 1;
    mn_sysfs_number(r->root, &dev_port, "class/net/%s/dev_port", name);
    if (!*best || (dev_port == want && r->netdev_port != want) ||
        (dev_port == r->netdev_port && strcmp(name, best) < 0)) {
        mn_strlcpy(best, name, sizeof r->port->netdev);
        r->netdev_port = dev_port;
    }
    return MN_OK;
}

/* The GID table knows best (bonds, VFs); a port without GIDs is found by its PCI function; soft
 * devices name their netdev as parent. */
static enum mn_err find_netdev(struct rdma_reader *r, struct mn_diag *diag)
{
    struct mn_rdma_port *port = r->port;
    if (port->n_gids > 0 && port->gids[0].netdev[0]) {
        mn_strlcpy(port->netdev, port->gids[0].netdev, sizeof port->netdev);
        return MN_OK;
    }
    if (mn_sysfs_text(r->root, port->netdev, sizeof port->netdev, "class/infiniband/%s/parent",
                      port->device))
        return MN_OK;
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "class/infiniband/%s/device/net", port->device);
    return mn_sysfs_each(r->root, dir, read_netdev, r, diag);
}

static void read_device(struct rdma_reader *r)
{
    struct mn_rdma_port *port = r->port;
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"fw_ver", offsetof(struct mn_rdma_port, fw_ver)},
                {"hca_type", offsetof(struct mn_rdma_port, hca_type)},
                {"board_id", offsetof(struct mn_rdma_port, board_id)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mn_sysfs_text(r->root, (char *)port + rows[i].offset, sizeof port->fw_ver,
                      "class/infiniband/%s/%s", port->device, rows[i].name);
    port->node_guid = read_guid(r, "node_guid");
    port->sys_image_guid = read_guid(r, "sys_image_guid");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "class/infiniband/%s/device", port->device);
    mn_pci_read(r->root, path, &port->pci);
}

static enum mn_err read_port(void *arg, const char *name, struct mn_diag *diag)
{
    struct rdma_reader *r = arg;
    int number;
    if (!parse_index(name, &number) || number < 1)
        return MN_OK;
    struct mn_rdma_port *port = mn_push(&r->host->rdma, &r->host->n_rdma, sizeof *port, diag);
    if (!port)
        return MN_ERR_NOMEM;
    r->port = port;
    port->port = number;
    mn_strlcpy(port->device, r->device, sizeof port->device);
    read_device(r);
    read_state(r, "state", port->state, sizeof port->state);
    read_state(r, "phys_state", port->phys_state, sizeof port->phys_state);
    read_state(r, "link_layer", port->link_layer, sizeof port->link_layer);
    read_rate(r);
    port->lid = read_port_number(r, "lid");
    port->sm_lid = read_port_number(r, "sm_lid");
    port->lmc = read_port_number(r, "lid_mask_count");

    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, PORT_PATH "gids", port->device, port->port);
    enum mn_err err = mn_sysfs_each(r->root, dir, read_gid, r, diag);
    if (err != MN_OK)
        return err;
    if (port->n_gids > 1)
        qsort(port->gids, port->n_gids, sizeof *port->gids, by_index);
    return find_netdev(r, diag);
}

static enum mn_err read_ports(void *arg, const char *name, struct mn_diag *diag)
{
    struct rdma_reader *r = arg;
    char dir[PATH_MAX];
    r->device = name;
    snprintf(dir, sizeof dir, "class/infiniband/%s/ports", name);
    return mn_sysfs_each(r->root, dir, read_port, r, diag);
}

static int by_device(const void *a, const void *b)
{
    const struct mn_rdma_port *x = a, *y = b;
    int order = strcmp(x->device, y->device);
    return order ? order : (x->port > y->port) - (x->port < y->port);
}

enum mn_err mn_host_read_rdma(const char *root, struct mn_host *host, struct mn_diag *diag)
{
    struct rdma_reader reader = {.root = root, .host = host};
    enum mn_err err = mn_sysfs_each(root, "class/infiniband", read_ports, &reader, diag);
    if (host->n_rdma > 1)
        qsort(host->rdma, host->n_rdma, sizeof *host->rdma, by_device);
    return err;
}
