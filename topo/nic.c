/* mn_host_read(): joins netlink, sysfs and verbs into one inventory. */
#include "topo/nic_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "topo/base/alloc.h"

const char *mn_nic_kind_name(enum mn_nic_kind kind)
{
    static const char *const names[] = {
        [MN_NIC_ETHERNET] = "ethernet",
        [MN_NIC_INFINIBAND] = "infiniband",
        [MN_NIC_THUNDERBOLT] = "thunderbolt",
        [MN_NIC_BOND] = "bond",
        [MN_NIC_VLAN] = "vlan",
        [MN_NIC_BRIDGE] = "bridge",
        [MN_NIC_VETH] = "veth",
        [MN_NIC_LOOPBACK] = "loopback",
        [MN_NIC_OTHER] = "other",
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

char *mn_speed_format(long mbps, char *buf, size_t size)
{
    buf[0] = '\0';
    if (mbps >= 1000)
        snprintf(buf, size, "%gG", (double)mbps / 1000);
    else if (mbps > 0)
        snprintf(buf, size, "%ldM", mbps);
    return buf;
}

const char *mn_nic_role_name(enum mn_nic_role role)
{
    return role == MN_ROLE_MANAGEMENT ? "management" : "cable";
}

const char *mn_gid_type_name(enum mn_gid_type type)
{
    static const char *const names[] = {"IB", "RoCE v1", "RoCE v2"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : "?";
}

static int by_ifindex(const void *a, const void *b)
{
    int x = ((const struct mn_nic *)a)->ifindex, y = ((const struct mn_nic *)b)->ifindex;
    return (x > y) - (x < y);
}

static int port_has_netdev(const struct mn_rdma_port *port, const char *netdev)
{
    for (size_t i = 0; i < port->n_gids; i++)
        if (strcmp(port->gids[i].netdev, netdev) == 0)
            return 1;
    return 0;
}

/* A port belongs to the netdev it names; a VLAN or bond above it is served by the port whose GID
 * table holds its addresses. */
static int find_rdma(const struct mn_host *host, const struct mn_nic *nic)
{
    for (size_t i = 0; i < host->n_rdma; i++)
        if (strcmp(host->rdma[i].netdev, nic->netdev) == 0)
            return (int)i;
    for (size_t i = 0; i < host->n_rdma; i++)
        if (port_has_netdev(&host->rdma[i], nic->netdev))
            return (int)i;
    return -1;
}

static void join_rdma(struct mn_host *host)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        struct mn_nic *nic = &host->nics[i];
        nic->rdma = find_rdma(host, nic);
        /* IPoIB reports a speed only while it is up; the port always knows its rate. */
        if (nic->rdma >= 0 && nic->speed_mbps == 0 && nic->kind == MN_NIC_INFINIBAND)
            nic->speed_mbps = host->rdma[nic->rdma].rate_mbps;
    }
}

static void read_limits(struct mn_host *host)
{
    struct rlimit limit;
    gethostname(host->hostname, sizeof host->hostname - 1);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        host->memlock = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

enum mn_err mn_host_read(const struct mn_host_source *src, struct mn_host *host,
                         struct mn_diag *diag)
{
    memset(host, 0, sizeof *host);
    const char *root = src && src->sysfs ? src->sysfs : "/sys";
    int recorded = src && (src->sysfs || src->netlink);
    if (recorded && !(src->sysfs && src->netlink))
        return mn_fail(diag, MN_ERR_USAGE,
                       "a recorded host needs both its sysfs tree and its netlink answers; only "
                       "%s was given",
                       src->sysfs ? src->sysfs : src->netlink);
    if (!recorded)
        read_limits(host);
    mn_sysfs_begin();
    enum mn_err err = recorded ? mn_host_read_recorded(src->netlink, host, diag)
                               : mn_host_read_netlink(host, diag);
    if (err != MN_OK)
        return err;
    if (host->n_nics > 0)
        qsort(host->nics, host->n_nics, sizeof *host->nics, by_ifindex);
    for (size_t i = 0; i < host->n_nics; i++)
        mn_nic_read_sysfs(root, &host->nics[i]);

    err = mn_host_read_rdma(root, host, diag);
    (void)mn_sysfs_missed(host->missing, sizeof host->missing);
    if (err != MN_OK)
        return err;
    if (recorded)
        mn_strlcpy(host->verbs, "not used: recorded host", sizeof host->verbs);
    else if (host->n_rdma == 0)
        mn_strlcpy(host->verbs, "not used: no RDMA device", sizeof host->verbs);
    else
        err = mn_host_read_verbs(host, diag);
    join_rdma(host);
    return err;
}

void mn_host_free(struct mn_host *host)
{
    for (size_t i = 0; i < host->n_nics; i++)
        free(host->nics[i].addrs);
    for (size_t i = 0; i < host->n_rdma; i++)
        free(host->rdma[i].gids);
    free(host->nics);
    free(host->rdma);
    free(host->gpus);
    memset(host, 0, sizeof *host);
}

const struct mn_nic *mn_host_nic(const struct mn_host *host, const char *netdev)
{
    for (size_t i = 0; i < host->n_nics; i++)
        if (strcmp(host->nics[i].netdev, netdev) == 0)
            return &host->nics[i];
    return NULL;
}

const struct mn_nic *mn_host_nic_by_index(const struct mn_host *host, int ifindex)
{
    for (size_t i = 0; i < host->n_nics; i++)
        if (host->nics[i].ifindex == ifindex)
            return &host->nics[i];
    return NULL;
}

const struct mn_nic *mn_host_nic_by_addr(const struct mn_host *host, const struct mn_addr *addr)
{
    for (size_t i = 0; i < host->n_nics; i++)
        for (size_t j = 0; j < host->nics[i].n_addrs; j++)
            if (mn_addr_equal(&host->nics[i].addrs[j], addr))
                return &host->nics[i];
    return NULL;
}

const struct mn_gid *mn_rdma_gid_for(const struct mn_rdma_port *port, const struct mn_addr *addr)
{
    for (size_t i = 0; i < port->n_gids; i++) {
        const struct mn_gid *gid = &port->gids[i];
        if (gid->type == MN_GID_IB ? gid->index == 0
                                   : gid->type == MN_GID_ROCE_V2 && mn_addr_equal(&gid->addr, addr))
            return gid;
    }
    return NULL;
}
