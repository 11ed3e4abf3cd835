/* Rules about RDMA ports: their interface, state, GIDs, MTU, and the memory they may pin. */
#include "topo/finding_rule.h"

#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"

#define ROCE_MTU    4200 /* 4096 payload and at most 104 of IP, UDP, transport headers and checks */
#define MEMLOCK_MIN (1ull << 30)

static int is_roce(const struct mn_rdma_port *port)
{
    return !strcmp(port->link_layer, "Ethernet");
}

/* The RoCE port of a NIC that data goes through, or NULL. */
static const struct mn_rdma_port *roce_port(const struct mn_host *host, const struct mn_nic *nic)
{
    if (nic->rdma < 0 || (size_t)nic->rdma >= host->n_rdma || nic->role == MN_ROLE_MANAGEMENT)
        return NULL;
    const struct mn_rdma_port *port = &host->rdma[nic->rdma];
    return is_roce(port) ? port : NULL;
}

void mn_check_rdma_no_netdev(const struct mn_finding_rule *rule, const struct mn_host *host,
                             struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_rdma; i++) {
        const struct mn_rdma_port *port = &host->rdma[i];
        char name[80];
        if (!is_roce(port) || (port->netdev[0] && mn_host_nic(host, port->netdev)))
            continue;
        snprintf(name, sizeof name, "%s/%d", port->device, port->port);
        struct mn_finding *f = mn_finding_add(found, rule, name);
        if (port->netdev[0])
            snprintf(f->seen, sizeof f->seen, "its interface %s is not in this network namespace",
                     port->netdev);
        else
            snprintf(f->seen, sizeof f->seen, "no network interface belongs to this port (%s)",
                     port->state[0] ? port->state : "state unknown");
        snprintf(f->expected, sizeof f->expected, "an Ethernet interface with an address");
        snprintf(f->fix, sizeof f->fix, "rdma link show %s/%d", port->device, port->port);
    }
}

void mn_check_rdma_inactive(const struct mn_finding_rule *rule, const struct mn_host *host,
                            struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (nic->rdma < 0 || (size_t)nic->rdma >= host->n_rdma)
            continue;
        const struct mn_rdma_port *port = &host->rdma[nic->rdma];
        int initializing = !strcmp(port->state, "INIT") && !is_roce(port);
        if (!port->state[0] || !strcmp(port->state, "ACTIVE") ||
            (!(nic->admin_up && nic->carrier) && !initializing))
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "%s port %d is %s%s", port->device, port->port,
                 port->state, initializing ? ": no subnet manager has set it up" : "");
        snprintf(f->expected, sizeof f->expected, "ACTIVE");
        if (initializing)
            snprintf(f->fix, sizeof f->fix, "opensm --guid 0x%016llx --daemon",
                     (unsigned long long)port->node_guid + (unsigned)port->port - 1);
        else
            snprintf(
                f->fix, sizeof f->fix,
                "ip link set dev %s down && ip link set dev %s up   # IPv6 addresses and routes "
                "go with it: meshnet topo apply sets those of the mesh again",
                nic->netdev, nic->netdev);
    }
}

static int has_older_gid(const struct mn_rdma_port *port, const struct mn_addr *addr)
{
    for (size_t i = 0; i < port->n_gids; i++)
        if (port->gids[i].type == MN_GID_ROCE_V1 && port->gids[i].addr.family &&
            mn_addr_equal(&port->gids[i].addr, addr))
            return 1;
    return 0;
}

static void gid_missing(const struct mn_finding_rule *rule, const struct mn_nic *nic,
                        const struct mn_rdma_port *port, const struct mn_addr *addr,
                        struct mn_findings *found)
{
    char text[MN_ADDR_TEXT];
    struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
    mn_addr_format(addr, text, sizeof text);
    snprintf(f->expected, sizeof f->expected, "a RoCE v2 GID for %s on %s", text, port->device);
    if (port->n_gids == 0 && nic->pci.address[0]) {
        snprintf(f->seen, sizeof f->seen,
                 "%s is set but the GID table of %s is empty: RoCE is switched off in the device",
                 text, port->device);
        snprintf(f->fix, sizeof f->fix,
                 "devlink dev param set pci/%s name enable_roce value true cmode driverinit && "
                 "devlink dev reload pci/%s",
                 nic->pci.address, nic->pci.address);
        return;
    }
    if (has_older_gid(port, addr))
        snprintf(f->seen, sizeof f->seen, "%s has a RoCE v1 GID only: %s does not offer v2", text,
                 port->device);
    else
        snprintf(f->seen, sizeof f->seen, "%s is set but is not in the GID table of %s", text,
                 port->device);
    snprintf(
        f->fix, sizeof f->fix,
        "ip link set dev %s down && ip link set dev %s up   # the kernel fills the table anew; "
        "IPv6 addresses and routes go with it: meshnet topo apply sets those of the mesh again",
        nic->netdev, nic->netdev);
}

void mn_check_gid_missing(const struct mn_finding_rule *rule, const struct mn_host *host,
                          struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        const struct mn_rdma_port *port = roce_port(host, nic);
        if (!port || !nic->admin_up || !nic->carrier || nic->master[0])
            continue;
        for (size_t k = 0; k < nic->n_addrs; k++) {
            const struct mn_addr *addr = &nic->addrs[k];
            if (!mn_addr_is_link_local(addr) && !mn_rdma_gid_for(port, addr))
                gid_missing(rule, nic, port, addr, found);
        }
    }
}

void mn_check_mtu(const struct mn_finding_rule *rule, const struct mn_host *host,
                  struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        const struct mn_rdma_port *port = roce_port(host, nic);
        if (!port || !nic->admin_up || !nic->carrier || nic->mtu <= 0 || nic->mtu >= ROCE_MTU)
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "MTU %d", nic->mtu);
        if (port->active_mtu > 0)
            snprintf(f->seen, sizeof f->seen, "MTU %d: RDMA packets carry %d bytes", nic->mtu,
                     port->active_mtu);
        snprintf(f->expected, sizeof f->expected, "at least %d, for packets of 4096", ROCE_MTU);
        snprintf(f->fix, sizeof f->fix, "ip link set dev %s mtu 9000   # and the other end",
                 nic->netdev);
    }
}

static void enslaved(const struct mn_finding_rule *rule, const struct mn_host *host,
                     enum mn_nic_kind kind, struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        const struct mn_nic *master = nic->master[0] ? mn_host_nic(host, nic->master) : NULL;
        const struct mn_rdma_port *port = roce_port(host, nic);
        if (!port || !master || master->kind != kind)
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "%s is a member of the %s %s", port->device,
                 mn_nic_kind_name(kind), master->netdev);
        snprintf(f->expected, sizeof f->expected, "a port by itself, with its own address");
        snprintf(f->fix, sizeof f->fix, "ip link set dev %s nomaster", nic->netdev);
    }
}

void mn_check_bridged(const struct mn_finding_rule *rule, const struct mn_host *host,
                      struct mn_findings *found)
{
    enslaved(rule, host, MN_NIC_BRIDGE, found);
}

void mn_check_bonded(const struct mn_finding_rule *rule, const struct mn_host *host,
                     struct mn_findings *found)
{
    enslaved(rule, host, MN_NIC_BOND, found);
}

void mn_check_memlock(const struct mn_finding_rule *rule, const struct mn_host *host,
                      struct mn_findings *found)
{
    char text[32];
    if (host->n_rdma == 0 || host->memlock >= MEMLOCK_MIN)
        return;
    struct mn_finding *f = mn_finding_add(found, rule, "host");
    snprintf(f->seen, sizeof f->seen, "RLIMIT_MEMLOCK is %s",
             mn_format_size(host->memlock, text, sizeof text));
    snprintf(f->expected, sizeof f->expected, "unlimited, or 1G at the very least");
    snprintf(f->fix, sizeof f->fix,
             "echo '* - memlock unlimited' > /etc/security/limits.d/90-rdma.conf");
}
