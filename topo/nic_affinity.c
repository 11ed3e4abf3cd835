/* How near NICs and GPUs are to each other, by their places in the PCI tree and NUMA nodes. */
#include "topo/nic.h"

#include <string.h>

const char *mn_pci_distance_name(enum mn_pci_distance distance)
{
    static const char *const names[MN_PCI_DISTANCES] = {"switch", "root", "numa", "across"};
    return (size_t)distance < MN_PCI_DISTANCES ? names[distance] : "?";
}

/* From the host bridge ("/pci0000:00/…") on; "" when the device is not below one. */
static const char *below_host_bridge(const char *path)
{
    static const char bridge[] = "/pci";
    while ((path = strstr(path, bridge))) {
        size_t domain = strspn(path + strlen(bridge), "0123456789abcdef");
        if (domain >= 4 && path[strlen(bridge) + domain] == ':')
            return path;
        path++;
    }
    return "";
}

/* How many parts of the paths are the same: the host bridge and the bridges below it. */
static int common_bridges(const char *a, const char *b)
{
    int bridges = 0;
    a = below_host_bridge(a);
    b = below_host_bridge(b);
    while (*a == '/' && *b == '/') {
        size_t len = strcspn(++a, "/");
        if (len != strcspn(++b, "/") || memcmp(a, b, len) != 0)
            break;
        bridges++;
        a += len;
        b += len;
    }
    return bridges;
}

static int same_numa(const struct mn_gpu *gpu, const struct mn_pci *pci)
{
    return gpu->numa >= 0 && gpu->numa == pci->numa;
}

enum mn_pci_distance mn_gpu_distance(const struct mn_gpu *gpu, const struct mn_pci *pci)
{
    int bridges = common_bridges(gpu->path, pci->path);
    if (bridges)
        return bridges > 1 ? MN_PCI_SWITCH : MN_PCI_ROOT;
    return same_numa(gpu, pci) ? MN_PCI_NUMA : MN_PCI_ACROSS;
}

int mn_gpu_nearness(const struct mn_gpu *gpu, const struct mn_pci *pci)
{
    return 2 * common_bridges(gpu->path, pci->path) + same_numa(gpu, pci);
}

/* Not what is built on top of ports: a bond, a VLAN. */
static int is_port(const struct mn_nic *nic)
{
    return nic->pci.path[0] && (nic->kind == MN_NIC_ETHERNET || nic->kind == MN_NIC_INFINIBAND ||
                                nic->kind == MN_NIC_THUNDERBOLT);
}

size_t mn_gpu_nics(const struct mn_host *host, const struct mn_gpu *gpu, const struct mn_nic **nics,
                   enum mn_pci_distance *distance)
{
    size_t count = 0;
    *distance = MN_PCI_ACROSS;
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        enum mn_pci_distance far = mn_gpu_distance(gpu, &nic->pci);
        if (!is_port(nic) || nic->role == MN_ROLE_MANAGEMENT || far > *distance)
            continue;
        if (far < *distance)
            count = 0;
        *distance = far;
        nics[count++] = nic;
    }
    return count;
}
