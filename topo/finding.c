#include "topo/finding_rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

/* Worst first: the order of the rows is the order of the report. */
const struct mn_finding_rule mn_finding_rules[] = {
    {"duplicate-address", MN_SEVERITY_ERROR, "one address on two NICs",
     "The kernel answers for the address on either NIC, so traffic takes the wrong cable.",
     mn_check_duplicate_address},
    {"link-down", MN_SEVERITY_WARNING, "link down",
     "Check that the cable is in, that it is rated for this speed and that the other end is up.",
     mn_check_link_down},
    {"rdma-no-netdev", MN_SEVERITY_WARNING, "RDMA port without network interface",
     "RoCE takes its addresses from the interface. In a container the interface may be in another "
     "network namespace: share it, or use the host's.",
     mn_check_rdma_no_netdev},
    {"rdma-inactive", MN_SEVERITY_WARNING, "RDMA port not active",
     "The link is up but the RDMA port carries nothing. InfiniBand needs a subnet manager at one "
     "end of every cable.",
     mn_check_rdma_inactive},
    {"no-address", MN_SEVERITY_WARNING, "link up, no address",
     "Every cable needs a subnet of its own, /30 or /31. Make it permanent in netplan, "
     "systemd-networkd or NetworkManager: ip(8) alone lasts until the next boot.",
     mn_check_no_address},
    {"half-port", MN_SEVERITY_WARNING, "half of a port unused",
     "One physical port is reached through two PCIe functions; each carries its share only when "
     "it has an address in a subnet of its own.",
     mn_check_half_port},
    {"same-subnet", MN_SEVERITY_WARNING, "two NICs in one subnet",
     "The kernel sends through one of them whatever the cables are. Give every cable a subnet of "
     "its own.",
     mn_check_same_subnet},
    {"bridged", MN_SEVERITY_WARNING, "RoCE port in a bridge",
     "A bridge takes the frames and the address away from the port: RoCE cannot use it.",
     mn_check_bridged},
    {"gid-missing", MN_SEVERITY_WARNING, "RoCE v2 GID missing",
     "RoCE v2 sends from the GID that belongs to the address; without it this port can only "
     "carry TCP.",
     mn_check_gid_missing},
    {"mtu", MN_SEVERITY_WARNING, "MTU below 4200 on RoCE",
     "RDMA packets of 4096 bytes need 4200 with their headers; a smaller MTU costs bandwidth and "
     "both ends must agree.",
     mn_check_mtu},
    {"pcie-slow", MN_SEVERITY_WARNING, "PCIe slower than the port",
     "The slot, not the cable, sets the speed. Another slot, a reseated card or the BIOS's link "
     "settings may give the lanes back.",
     mn_check_pcie_slow},
    {"memlock", MN_SEVERITY_WARNING, "locked-memory limit too low for RDMA",
     "RDMA pins its buffers. Services: LimitMEMLOCK=infinity in the unit; containers: --ulimit "
     "memlock=-1; log in again afterwards.",
     mn_check_memlock},
    {"bonded", MN_SEVERITY_NOTE, "RoCE port in a bond",
     "The bond owns the address; a mesh wants every cable by itself.", mn_check_bonded},
    {"pcie-shared", MN_SEVERITY_NOTE, "ports share PCIe lanes",
     "Each port reaches its own speed alone, not all at once. Nothing to mend.",
     mn_check_pcie_shared},
    {"port-idle", MN_SEVERITY_NOTE, "nothing connected",
     "Fine when the port is not meant to be used.", mn_check_port_idle},
};
const size_t mn_finding_rule_count = sizeof mn_finding_rules / sizeof *mn_finding_rules;

const char *mn_severity_name(enum mn_severity severity)
{
    static const char *const names[] = {"note", "warning", "error"};
    return (size_t)severity < sizeof names / sizeof *names ? names[severity] : "?";
}

struct mn_finding *mn_finding_add(struct mn_findings *found, const struct mn_finding_rule *rule,
                                  const char *nic)
{
    struct mn_finding *f = mn_grow((void **)&found->items, &found->count, sizeof *f);
    f->rule = rule;
    snprintf(f->nic, sizeof f->nic, "%s", nic);
    return f;
}

void mn_findings_check(const struct mn_host *host, struct mn_findings *found)
{
    memset(found, 0, sizeof *found);
    for (size_t i = 0; i < mn_finding_rule_count; i++)
        mn_finding_rules[i].check(&mn_finding_rules[i], host, found);
}

void mn_findings_free(struct mn_findings *found)
{
    free(found->items);
    memset(found, 0, sizeof *found);
}

size_t mn_findings_count(const struct mn_findings *found, enum mn_severity severity)
{
    size_t n = 0;
    for (size_t i = 0; i < found->count; i++)
        n += found->items[i].rule->severity == severity;
    return n;
}

int mn_nic_is_relevant(const struct mn_host *host, const struct mn_nic *nic)
{
    switch (nic->kind) {
    case MN_NIC_LOOPBACK:
        return 0;
    case MN_NIC_VETH:
        return !nic->master[0]; /* in a bridge it is the host's end of a container */
    case MN_NIC_BRIDGE:
        for (size_t i = 0; i < host->n_nics; i++) {
            const struct mn_nic *member = &host->nics[i];
            if (!strcmp(member->master, nic->netdev) && member->kind != MN_NIC_VETH &&
                mn_nic_is_relevant(host, member))
                return 1;
        }
        return 0;
    case MN_NIC_OTHER:
        return nic->rdma >= 0;
    default:
        return 1;
    }
}

const struct mn_addr *mn_nic_main_addr(const struct mn_nic *nic)
{
    for (size_t i = 0; i < nic->n_addrs; i++) {
        const struct mn_addr *addr = &nic->addrs[i];
        if (!mn_addr_is_loopback(addr) && !mn_addr_is_link_local(addr))
            return addr;
    }
    return NULL;
}

const struct mn_nic *mn_nic_twin(const struct mn_host *host, const struct mn_nic *nic)
{
    if (!nic->phys_port[0] || nic->is_vf || !nic->pci.address[0])
        return NULL;
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *other = &host->nics[i];
        if (other != nic && !other->is_vf && !strcmp(other->phys_port, nic->phys_port) &&
            other->pci.address[0] && strcmp(other->pci.address, nic->pci.address) != 0)
            return other;
    }
    return NULL;
}

static int subnet_taken(const struct mn_host *host, const struct mn_addr *addr)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        for (size_t k = 0; k < host->nics[i].n_addrs; k++) {
            /* Overlap in either direction, not only mutual reach. */
            struct mn_addr wide = host->nics[i].addrs[k], narrow = *addr;
            if (wide.prefix > narrow.prefix)
                wide.prefix = narrow.prefix;
            narrow.prefix = wide.prefix;
            if (mn_addr_share_subnet(&wide, &narrow))
                return 1;
        }
    }
    return 0;
}

void mn_finding_suggest_address(const struct mn_host *host, const struct mn_nic *nic, char *buf,
                                size_t size)
{
    size_t skip = (size_t)(nic - host->nics);
    for (unsigned net = 1; net < 65536; net++) {
        struct mn_addr addr = {
            .family = AF_INET,
            .prefix = 30,
            .bytes = {10, (uint8_t)(net >> 8), (uint8_t)net, 1},
        };
        if (subnet_taken(host, &addr) || skip-- > 0)
            continue;
        snprintf(buf, size, "ip address add 10.%u.%u.1/30 dev %s   # other end: 10.%u.%u.2/30",
                 net >> 8, net & 255, nic->netdev, net >> 8, net & 255);
        return;
    }
    snprintf(buf, size, "ip address add ADDRESS/30 dev %s", nic->netdev);
}
