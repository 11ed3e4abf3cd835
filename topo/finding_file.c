/* Rules that set the host against the mesh file in force: what the file says of this node's NICs,
 * and what is there. */
#include "topo/finding_rule.h"

#include <stdio.h>
#include <string.h>

static const struct mn_mesh_node *own_node(const struct mn_findings *found)
{
    return found->force ? &found->force->mesh->nodes[found->force->node] : NULL;
}

const struct mn_mesh_nic *mn_finding_file_nic(const struct mn_findings *found,
                                              const struct mn_host *host, const struct mn_nic *nic)
{
    const struct mn_mesh_node *node = own_node(found);
    for (size_t i = 0; node && i < node->n_nics; i++)
        if (mn_mesh_nic_on_host(host, &node->nics[i]) == nic)
            return &node->nics[i];
    return NULL;
}

static const struct mn_addr *same_addr(const struct mn_nic *nic, const struct mn_addr *addr)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], addr))
            return &nic->addrs[i];
    return NULL;
}

const struct mn_addr *mn_finding_file_addr(const struct mn_findings *found,
                                           const struct mn_host *host, const struct mn_nic *nic)
{
    const struct mn_mesh_nic *file = mn_finding_file_nic(found, host, nic);
    for (size_t i = 0; file && i < file->n_addrs; i++)
        if (!mn_addr_is_link_local(&file->addrs[i]) && !same_addr(nic, &file->addrs[i]))
            return &file->addrs[i];
    return NULL;
}

static struct mn_finding *add(struct mn_findings *found, const struct mn_finding_rule *rule,
                              const char *nic, const struct mn_mesh_nic *file)
{
    struct mn_finding *f = mn_finding_add(found, rule, nic);
    f->line = file->line;
    return f;
}

/* Calls check for each NIC of the file that carries data and is here. */
static void each_nic(const struct mn_finding_rule *rule, const struct mn_host *host,
                     struct mn_findings *found,
                     void (*check)(const struct mn_finding_rule *rule, const struct mn_host *host,
                                   const struct mn_mesh_nic *file, const struct mn_nic *nic,
                                   struct mn_findings *found))
{
    const struct mn_mesh_node *node = own_node(found);
    for (size_t i = 0; node && i < node->n_nics; i++) {
        const struct mn_nic *nic = mn_mesh_nic_on_host(host, &node->nics[i]);
        if (nic && node->nics[i].role != MN_ROLE_MANAGEMENT)
            check(rule, host, &node->nics[i], nic, found);
    }
}

static const struct mn_nic *nic_by_mac(const struct mn_host *host, const struct mn_mesh_nic *file)
{
    for (size_t i = 0; file->has_mac && i < host->n_nics; i++)
        if (host->nics[i].has_mac && !memcmp(host->nics[i].mac, file->mac, sizeof file->mac))
            return &host->nics[i];
    return NULL;
}

static void fix_file(const struct mn_findings *found, struct mn_finding *f)
{
    snprintf(f->fix, sizeof f->fix, "meshnet discover --output %.200s --merge --node %s",
             found->force->file, own_node(found)->name);
}

void mn_check_file_missing(const struct mn_finding_rule *rule, const struct mn_host *host,
                           struct mn_findings *found)
{
    const struct mn_mesh_node *node = own_node(found);
    for (size_t i = 0; node && i < node->n_nics; i++) {
        const struct mn_mesh_nic *file = &node->nics[i];
        if (file->role == MN_ROLE_MANAGEMENT || mn_mesh_nic_on_host(host, file))
            continue;
        const struct mn_nic *by_mac = nic_by_mac(host, file);
        struct mn_finding *f = add(found, rule, file->netdev, file);
        snprintf(f->seen, sizeof f->seen, "no such netdev, and none with its address%s%s",
                 by_mac ? "; its MAC is that of " : "", by_mac ? by_mac->netdev : "");
        snprintf(f->expected, sizeof f->expected, "NIC %s of node %s", file->name, node->name);
        fix_file(found, f);
    }
}

static void check_other(const struct mn_finding_rule *rule, const struct mn_host *host,
                        const struct mn_mesh_nic *file, const struct mn_nic *nic,
                        struct mn_findings *found)
{
    const uint8_t *m = nic->mac, *w = file->mac;
    int renamed = strcmp(nic->netdev, file->netdev) != 0;
    int changed = file->has_mac && nic->has_mac && memcmp(m, w, sizeof nic->mac) != 0;
    (void)host;
    if (!renamed && !changed)
        return;
    struct mn_finding *f = add(found, rule, nic->netdev, file);
    if (changed) {
        snprintf(f->seen, sizeof f->seen, "MAC %02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2],
                 m[3], m[4], m[5]);
        snprintf(f->expected, sizeof f->expected, "%s, MAC %02x:%02x:%02x:%02x:%02x:%02x",
                 file->netdev, w[0], w[1], w[2], w[3], w[4], w[5]);
    } else {
        snprintf(f->seen, sizeof f->seen, "the address of NIC %s is here", file->name);
        snprintf(f->expected, sizeof f->expected, "netdev %s", file->netdev);
    }
    fix_file(found, f);
}

void mn_check_file_other(const struct mn_finding_rule *rule, const struct mn_host *host,
                         struct mn_findings *found)
{
    each_nic(rule, host, found, check_other);
}

/* "10.0.1.9/24 10.0.7.1/24", "no address" */
static char *addresses(const struct mn_nic *nic, char *buf, size_t size)
{
    char text[MN_ADDR_TEXT];
    size_t used = 0;
    snprintf(buf, size, "no address");
    for (size_t i = 0; i < nic->n_addrs && used < size; i++)
        if (!mn_addr_is_link_local(&nic->addrs[i]))
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? " " : "",
                                     mn_addr_format(&nic->addrs[i], text, sizeof text));
    return buf;
}

static void wrong_address(const struct mn_host *host, const struct mn_nic *nic,
                          const struct mn_addr *want, struct mn_finding *f)
{
    char text[MN_ADDR_TEXT], other[MN_ADDR_TEXT], all[160];
    const struct mn_addr *same = same_addr(nic, want);
    const struct mn_nic *owner = same ? nic : mn_host_nic_by_addr(host, want);
    mn_addr_format(want, text, sizeof text);
    snprintf(f->expected, sizeof f->expected, "%s", text);
    snprintf(f->fix, sizeof f->fix, "ip address add %s dev %s", text, nic->netdev);
    if (!owner) {
        snprintf(f->seen, sizeof f->seen, "%s", addresses(nic, all, sizeof all));
        return;
    }
    mn_addr_format(same_addr(owner, want), other, sizeof other);
    snprintf(f->seen, sizeof f->seen, "%s%s%s", other, same ? "" : " is on ",
             same ? "" : owner->netdev);
    snprintf(f->fix, sizeof f->fix, "ip address del %s dev %s && ip address add %s dev %s", other,
             owner->netdev, text, nic->netdev);
}

static void check_address(const struct mn_finding_rule *rule, const struct mn_host *host,
                          const struct mn_mesh_nic *file, const struct mn_nic *nic,
                          struct mn_findings *found)
{
    for (size_t i = 0; i < file->n_addrs; i++) {
        const struct mn_addr *want = &file->addrs[i], *have = same_addr(nic, want);
        if (mn_addr_is_link_local(want) || (have && have->prefix == want->prefix))
            continue;
        wrong_address(host, nic, want, add(found, rule, nic->netdev, file));
    }
}

void mn_check_file_address(const struct mn_finding_rule *rule, const struct mn_host *host,
                           struct mn_findings *found)
{
    each_nic(rule, host, found, check_address);
}

static void check_mtu(const struct mn_finding_rule *rule, const struct mn_host *host,
                      const struct mn_mesh_nic *file, const struct mn_nic *nic,
                      struct mn_findings *found)
{
    (void)host;
    if (!file->mtu || nic->mtu <= 0 || file->mtu == nic->mtu)
        return;
    struct mn_finding *f = add(found, rule, nic->netdev, file);
    snprintf(f->seen, sizeof f->seen, "MTU %d", nic->mtu);
    snprintf(f->expected, sizeof f->expected, "MTU %d", file->mtu);
    snprintf(f->fix, sizeof f->fix, "ip link set dev %s mtu %d", nic->netdev, file->mtu);
}

void mn_check_file_mtu(const struct mn_finding_rule *rule, const struct mn_host *host,
                       struct mn_findings *found)
{
    each_nic(rule, host, found, check_mtu);
}

static void check_speed(const struct mn_finding_rule *rule, const struct mn_host *host,
                        const struct mn_mesh_nic *file, const struct mn_nic *nic,
                        struct mn_findings *found)
{
    (void)host;
    if (!file->speed_mbps || !nic->carrier || nic->speed_mbps <= 0 ||
        file->speed_mbps == nic->speed_mbps)
        return;
    struct mn_finding *f = add(found, rule, nic->netdev, file);
    snprintf(f->seen, sizeof f->seen, "%ld Mb/s", nic->speed_mbps);
    snprintf(f->expected, sizeof f->expected, "%ld Mb/s", file->speed_mbps);
    snprintf(f->fix, sizeof f->fix, "ethtool %s   # then the same at the other end", nic->netdev);
}

void mn_check_file_speed(const struct mn_finding_rule *rule, const struct mn_host *host,
                         struct mn_findings *found)
{
    each_nic(rule, host, found, check_speed);
}

static void check_device(const struct mn_finding_rule *rule, const struct mn_host *host,
                         const struct mn_mesh_nic *file, const struct mn_nic *nic,
                         struct mn_findings *found)
{
    const struct mn_rdma_port *port = nic->rdma >= 0 ? &host->rdma[nic->rdma] : NULL;
    if (!file->device[0] ||
        (port && !strcmp(port->device, file->device) && port->port == file->port))
        return;
    struct mn_finding *f = add(found, rule, nic->netdev, file);
    snprintf(f->expected, sizeof f->expected, "%s, port %d", file->device, file->port);
    if (port) {
        snprintf(f->seen, sizeof f->seen, "%s, port %d", port->device, port->port);
        fix_file(found, f);
    } else {
        snprintf(f->seen, sizeof f->seen, "no RDMA device");
        snprintf(f->fix, sizeof f->fix, "rdma link show   # is the driver of %s loaded?",
                 file->device);
    }
}

void mn_check_file_device(const struct mn_finding_rule *rule, const struct mn_host *host,
                          struct mn_findings *found)
{
    each_nic(rule, host, found, check_device);
}

/* A GID that is not there at all is another rule's. */
static void check_gid(const struct mn_finding_rule *rule, const struct mn_host *host,
                      const struct mn_mesh_nic *file, const struct mn_nic *nic,
                      struct mn_findings *found)
{
    const struct mn_rdma_port *port = nic->rdma >= 0 ? &host->rdma[nic->rdma] : NULL;
    const struct mn_gid *now =
        port && file->gid_addr.family ? mn_rdma_gid_for(port, &file->gid_addr) : NULL;
    if (file->gid_index < 0 || !now || now->type != MN_GID_ROCE_V2)
        return;
    for (size_t i = 0; i < port->n_gids; i++)
        if (port->gids[i].index == file->gid_index && port->gids[i].type == MN_GID_ROCE_V2 &&
            mn_addr_equal(&port->gids[i].addr, &file->gid_addr))
            return;
    char text[MN_ADDR_TEXT];
    struct mn_finding *f = add(found, rule, nic->netdev, file);
    snprintf(f->seen, sizeof f->seen, "index %d is the RoCE v2 GID of %s", now->index,
             mn_addr_format(&file->gid_addr, text, sizeof text));
    snprintf(f->expected, sizeof f->expected, "index %d", file->gid_index);
    fix_file(found, f);
}

void mn_check_file_gid(const struct mn_finding_rule *rule, const struct mn_host *host,
                       struct mn_findings *found)
{
    each_nic(rule, host, found, check_gid);
}

/* Leases change; what is reached over it is another matter than data. */
void mn_check_file_management(const struct mn_finding_rule *rule, const struct mn_host *host,
                              struct mn_findings *found)
{
    const struct mn_mesh_node *node = own_node(found);
    for (size_t i = 0; node && i < node->n_nics; i++) {
        const struct mn_mesh_nic *file = &node->nics[i];
        const struct mn_nic *nic = mn_mesh_nic_on_host(host, file);
        char text[MN_ADDR_TEXT], all[160];
        size_t k = 0;
        while (nic && k < file->n_addrs && same_addr(nic, &file->addrs[k]))
            k++;
        if (file->role != MN_ROLE_MANAGEMENT || (nic && k == file->n_addrs))
            continue;
        struct mn_finding *f = add(found, rule, file->netdev, file);
        snprintf(f->seen, sizeof f->seen, "%s",
                 nic ? addresses(nic, all, sizeof all)
                     : "no such netdev, and none with its address");
        snprintf(f->expected, sizeof f->expected, "%s",
                 nic ? mn_addr_format(&file->addrs[k], text, sizeof text) : file->netdev);
        fix_file(found, f);
    }
}

void mn_check_file_extra(const struct mn_finding_rule *rule, const struct mn_host *host,
                         struct mn_findings *found)
{
    const struct mn_mesh_node *node = own_node(found);
    for (size_t i = 0; node && i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        char all[160];
        if (!mn_mesh_usable(nic) || mn_finding_file_nic(found, host, nic))
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        f->line = node->line;
        snprintf(f->seen, sizeof f->seen, "%s", addresses(nic, all, sizeof all));
        snprintf(f->expected, sizeof f->expected,
                 "a NIC of node %s in the file, if it is a cable's", node->name);
        fix_file(found, f);
    }
}
