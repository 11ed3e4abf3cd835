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
    {"peer-address", MN_SEVERITY_ERROR, "an address from a cable's subnet of two",
     "The other address of such a subnet is the peer's: the kernel keeps here what is meant for "
     "the "
     "peer, and the cable is of no use.",
     mn_check_peer_address},
    {"file-nic-missing", MN_SEVERITY_ERROR, "NIC of the mesh file missing",
     "The plugin goes on without it. A NIC that was moved or renamed needs its new name in the "
     "file, on every node.",
     mn_check_file_missing},
    {"file-address", MN_SEVERITY_ERROR, "address of the mesh file missing",
     "Peers look for this node at the address that the file gives it: without it the cable is not "
     "used. Make it permanent in netplan, systemd-networkd or NetworkManager.",
     mn_check_file_address},
    {"file-device", MN_SEVERITY_ERROR, "not the RDMA device of the mesh file",
     "The plugin opens the device that the file names.", mn_check_file_device},
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
    {"file-nic-other", MN_SEVERITY_WARNING, "not the NIC that the mesh file means",
     "Another card, or another name for it: the cables may have changed places.",
     mn_check_file_other},
    {"file-mtu", MN_SEVERITY_WARNING, "MTU differs from the mesh file",
     "Both ends of a cable need the same. Make it permanent where the address is.",
     mn_check_file_mtu},
    {"file-speed", MN_SEVERITY_WARNING, "speed differs from the mesh file",
     "Data is spread over links by the file's speeds. A cable or port that trained slower than it "
     "did is worth a look; if it is to be so, the file wants the new one.",
     mn_check_file_speed},
    {"file-gid", MN_SEVERITY_WARNING, "GID index differs from the mesh file",
     "The plugin finds the GID of the address by itself; other tools that are told an index do "
     "not.",
     mn_check_file_gid},
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
    {"file-management", MN_SEVERITY_NOTE, "management differs from the mesh file",
     "No data goes over it; who reaches this host by the file's address will not.",
     mn_check_file_management},
    {"file-nic-extra", MN_SEVERITY_NOTE, "NIC not in the mesh file",
     "Fine when it is no cable's end.", mn_check_file_extra},
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

void mn_findings_check(const struct mn_host *host, const struct mn_in_force *force,
                       struct mn_findings *found)
{
    memset(found, 0, sizeof *found);
    found->force = force;
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

/* Overlap in either direction, not only mutual reach. */
static int overlap(struct mn_addr a, struct mn_addr b)
{
    a.prefix = b.prefix = a.prefix < b.prefix ? a.prefix : b.prefix;
    return mn_addr_share_subnet(&a, &b);
}

static int subnet_taken(const struct mn_findings *found, const struct mn_host *host,
                        const struct mn_addr *addr)
{
    const struct mn_mesh *mesh = found->force ? found->force->mesh : NULL;
    for (size_t i = 0; i < host->n_nics; i++)
        for (size_t k = 0; k < host->nics[i].n_addrs; k++)
            if (overlap(host->nics[i].addrs[k], *addr))
                return 1;
    for (size_t n = 0; mesh && n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++)
            for (size_t k = 0; k < mesh->nodes[n].nics[i].n_addrs; k++)
                if (overlap(mesh->nodes[n].nics[i].addrs[k], *addr))
                    return 1;
    return 0;
}

void mn_finding_suggest_address(const struct mn_findings *found, const struct mn_host *host,
                                const struct mn_nic *nic, struct mn_finding *f)
{
    size_t skip = (size_t)(nic - host->nics), used = strlen(f->fix), size = sizeof f->fix - used;
    const struct mn_addr *wanted = mn_finding_file_addr(found, host, nic);
    char text[MN_ADDR_TEXT];
    if (wanted) {
        f->line = mn_finding_file_nic(found, host, nic)->line;
        snprintf(f->fix + used, size, "ip address add %s dev %s",
                 mn_addr_format(wanted, text, sizeof text), nic->netdev);
        return;
    }
    for (unsigned net = 1; net < 65536; net++) {
        struct mn_addr addr = {
            .family = AF_INET,
            .prefix = 30,
            .bytes = {10, (uint8_t)(net >> 8), (uint8_t)net, 1},
        };
        if (subnet_taken(found, host, &addr) || skip-- > 0)
            continue;
        snprintf(f->fix + used, size,
                 "ip address add 10.%u.%u.1/30 dev %s   # other end: 10.%u.%u.2/30", net >> 8,
                 net & 255, nic->netdev, net >> 8, net & 255);
        return;
    }
    snprintf(f->fix + used, size, "ip address add ADDRESS/30 dev %s", nic->netdev);
}
