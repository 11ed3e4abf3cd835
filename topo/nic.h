/* What this host has: netdevs, their addresses and PCI place, RDMA ports and their GID tables,
 * GPUs. Reads sysfs, netlink and (when present) libibverbs; sends nothing. */
#ifndef MN_NIC_H
#define MN_NIC_H

#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "topo/base/err.h"

/* An address with its real prefix length. family is AF_INET or AF_INET6; bytes in network order
 * (IPv4 in the first four). */
struct mn_addr {
    int family;
    int prefix;
    uint8_t bytes[16];
};
#define MN_ADDR_TEXT 64

/* "10.0.1.1/24", "fe80::1/64"; prefix < 0 leaves "/len" out. Returns buf. */
char *mn_addr_format(const struct mn_addr *addr, char *buf, size_t size);
/* "10.0.1.1/24" or "10.0.1.1" (prefix = -1). MN_ERR_CONFIG with the text quoted. */
enum mn_err mn_addr_parse(const char *text, struct mn_addr *addr, struct mn_diag *diag);
int mn_addr_equal(const struct mn_addr *a, const struct mn_addr *b); /* prefix not compared */
/* 1 when each address lies in the other's subnet, each judged by its own prefix length (the house's
 * definition of a link). Prefix lengths may differ. Different families: 0. */
int mn_addr_share_subnet(const struct mn_addr *a, const struct mn_addr *b);
/* Masks host bits: 10.0.1.7/24 -> 10.0.1.0/24. */
struct mn_addr mn_addr_network(const struct mn_addr *addr);
int mn_addr_is_loopback(const struct mn_addr *addr);
int mn_addr_is_link_local(const struct mn_addr *addr); /* fe80::/10 only */
/* No network of anybody's own: loopback, IPv6 link-local, multicast, 0.0.0.0/8. */
int mn_addr_is_nobodys(const struct mn_addr *addr);
int mn_addr_is_self_assigned(const struct mn_addr *addr); /* 169.254.0.0/16 */
/* Fills a sockaddr (scope = ifindex for IPv6 link-local) and returns its length. */
socklen_t mn_addr_sockaddr(const struct mn_addr *addr, uint16_t port, uint32_t scope,
                           struct sockaddr_storage *ss);
/* The other way round; an IPv4 address in an IPv6 one counts as IPv4. Returns the port, and -1 with
 * family 0 when it is of another family. */
int mn_addr_from_sockaddr(const struct sockaddr *sa, struct mn_addr *addr);
struct ifaddrs;
/* Its entry in what getifaddrs() gave, on a NIC that is up; NULL: nothing goes from there now. */
const struct ifaddrs *mn_addr_here(const struct ifaddrs *all, const struct mn_addr *addr);

enum mn_nic_kind {
    MN_NIC_ETHERNET,
    MN_NIC_INFINIBAND,
    MN_NIC_THUNDERBOLT,
    MN_NIC_BOND,
    MN_NIC_VLAN,
    MN_NIC_BRIDGE,
    MN_NIC_VETH,
    MN_NIC_LOOPBACK,
    MN_NIC_OTHER /* tun, dummy, docker, … */
};
const char *mn_nic_kind_name(enum mn_nic_kind kind);

enum mn_gid_type { MN_GID_IB, MN_GID_ROCE_V1, MN_GID_ROCE_V2 };
const char *mn_gid_type_name(enum mn_gid_type type); /* "IB", "RoCE v1", "RoCE v2" */

struct mn_gid {
    int index;
    enum mn_gid_type type;
    uint8_t raw[16];
    struct mn_addr addr; /* family 0 when the GID names no address (IB) */
    char netdev[IF_NAMESIZE];
};

struct mn_pci {
    char path[256]; /* "/sys/devices/…" of the PCI function, of a recorded host too; "" = none */
    char address[16];        /* "0000:01:00.0" */
    int width, max_width;    /* lanes; 0 = unknown */
    double speed, max_speed; /* GT/s; 0 = unknown */
    int numa;                /* -1 = unknown */
};

/* One port of an RDMA device. Attribute names follow ibv_device_attr and ibv_port_attr; all zero
 * when only sysfs could be read (from_verbs = 0). */
struct mn_rdma_port {
    char device[64];
    int port;
    char netdev[IF_NAMESIZE]; /* "" = none */
    char state[24];           /* "ACTIVE", "DOWN", … */
    char phys_state[24];
    char link_layer[16]; /* "Ethernet", "InfiniBand" */
    char fw_ver[64];
    char hca_type[64];
    char board_id[64];
    uint64_t node_guid, sys_image_guid;
    uint32_t vendor_id, vendor_part_id, hw_ver;
    int lid, sm_lid, lmc;
    int active_mtu, max_mtu; /* bytes */
    long rate_mbps;
    int active_width; /* lanes */
    int from_verbs;
    int max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd, max_srq, max_ah, phys_port_cnt;
    int max_qp_rd_atom, max_qp_init_rd_atom, max_pkeys, gid_tbl_len;
    char atomic_cap[16]; /* "NONE", "HCA", "GLOB" */
    uint64_t max_mr_size, page_size_cap, device_cap_flags;
    uint32_t port_cap_flags, max_msg_sz;
    struct mn_pci pci;
    struct mn_gid *gids; /* holes in the table are left out; ordered by index */
    size_t n_gids;
};

/* What a NIC is for. MN_ROLE_AUTO: nobody has said; it counts as a cable's end. */
enum mn_nic_role { MN_ROLE_AUTO, MN_ROLE_CABLE, MN_ROLE_MANAGEMENT };
const char *mn_nic_role_name(enum mn_nic_role role); /* "cable" (auto too), "management" */
/* "200G", "2.5G", "100M"; "" for 0. Returns buf. */
char *mn_speed_format(long mbps, char *buf, size_t size);

struct mn_nic {
    char netdev[IF_NAMESIZE];
    int ifindex;
    enum mn_nic_kind kind;
    char driver[32];
    uint8_t mac[6];
    int has_mac;
    int mtu;
    int admin_up, carrier;
    long speed_mbps; /* 0 = unknown */
    int is_vf;
    char master[IF_NAMESIZE]; /* bond or bridge it is in; "" = none */
    int lower;                /* ifindex of what a VLAN or macvlan stands on, 0 = none or unknown */
    struct mn_pci pci;
    struct mn_addr *addrs;
    size_t n_addrs;
    char gpu[64];       /* PCI address of the nearest GPU, "" = none (mn_host_locality fills it) */
    char phys_port[64]; /* phys_port_id / switch id + port name: equal for the PCIe functions of
                           one physical port or ASIC; "" = unknown */
    int rdma;           /* index into mn_host.rdma, -1 = none */
    int wireless;
    int leased; /* an address has a lifetime: DHCP, router advertisement */
    /* The widest route through a gateway here (mn_host_around fills these); family 0 = none. */
    struct mn_addr gateway;
    int gateway_prefix; /* of its destination; 0 = the default route */
    int default_route;  /* with a gateway or without */
    int hosts;          /* others that were seen in the same subnet */
    /* mn_mesh_roles fills these: the role, and why in words. */
    enum mn_nic_role role;
    char role_why[224];
};

struct mn_gpu {
    char address[16]; /* PCI address */
    char path[256];   /* as that of struct mn_pci */
    char name[64];
    int numa;
};

/* What a GPU and a NIC have in common, the nearest first. */
enum mn_pci_distance {
    MN_PCI_SWITCH, /* a PCIe switch or bridge below the host bridge */
    MN_PCI_ROOT,   /* the host bridge */
    MN_PCI_NUMA,   /* the NUMA node, known of both */
    MN_PCI_ACROSS  /* nothing that is known */
};
#define MN_PCI_DISTANCES (MN_PCI_ACROSS + 1)
const char *mn_pci_distance_name(enum mn_pci_distance distance); /* "switch", "root", … */

struct mn_host {
    char hostname[65];
    struct mn_nic *nics; /* ordered by ifindex */
    size_t n_nics;
    struct mn_rdma_port *rdma; /* ordered by device, port */
    size_t n_rdma;
    struct mn_gpu *gpus;
    size_t n_gpus;
    uint64_t memlock; /* RLIMIT_MEMLOCK soft limit in bytes; UINT64_MAX = unlimited */
    char verbs[128];  /* "libibverbs 1.14", or why it was not used */
    /* What could not be read for want of descriptors or memory, though it may be there, and why; ""
     * when everything was. */
    char missing[192];
};

/* Where to read from. All NULL: this host. With sysfs set, nothing of the real host is read:
 * netlink answers come from <netlink> (a JSON file, format in tests/fixtures/README.md). */
struct mn_host_source {
    const char *sysfs;   /* default "/sys" */
    const char *netlink; /* recorded answers; NULL = ask the kernel */
};

/* Fills *host (zeroed first). Missing libibverbs, devices or attributes are normal and no error.
 * Does not call hwloc: safe and quick inside the plugin. Free with mn_host_free, also after an
 * error. */
enum mn_err mn_host_read(const struct mn_host_source *src, struct mn_host *host,
                         struct mn_diag *diag);
/* Adds GPUs and the nearest GPU of each NIC (hwloc; sysfs alone when src has a root). CLI only: the
 * plugin never calls it, so that it does not need hwloc at run time. */
enum mn_err mn_host_locality(const struct mn_host_source *src, struct mn_host *host,
                             struct mn_diag *diag);
/* Adds routes and neighbours: what tells a cable from a network. Of a recorded host mn_host_read
 * has read them. What the kernel does not list is left out. CLI only. */
enum mn_err mn_host_around(const struct mn_host_source *src, struct mn_host *host,
                           struct mn_diag *diag);
/* Where this host's kernel knows a way to, or knows that there is none: all tables but that of its
 * own addresses. *list is malloc'ed, the caller's, NULL after an error. What the kernel does not
 * list is left out. CLI only. */
struct mn_destination {
    struct mn_addr to;
    int ifindex; /* 0: none */
};
enum mn_err mn_host_destinations(struct mn_destination **list, size_t *count, struct mn_diag *diag);
void mn_host_free(struct mn_host *host);

enum mn_pci_distance mn_gpu_distance(const struct mn_gpu *gpu, const struct mn_pci *pci);
/* Into nics, which has room for host->n_nics, those of the host's ports and VFs on PCI, none for
 * management, that are nearest to gpu, all equally near; returns how many. */
size_t mn_gpu_nics(const struct mn_host *host, const struct mn_gpu *gpu, const struct mn_nic **nics,
                   enum mn_pci_distance *distance);
/* More is nearer, by distance first, then by the number of common bridges; 0: nothing is shared. */
int mn_gpu_nearness(const struct mn_gpu *gpu, const struct mn_pci *pci);

const struct mn_nic *mn_host_nic(const struct mn_host *host, const char *netdev);   /* or NULL */
const struct mn_nic *mn_host_nic_by_index(const struct mn_host *host, int ifindex); /* or NULL */
/* The NIC that owns addr, or NULL. */
const struct mn_nic *mn_host_nic_by_addr(const struct mn_host *host, const struct mn_addr *addr);
/* The RoCEv2 GID (IB: the IB GID at 0) for an address of this port, or NULL. */
const struct mn_gid *mn_rdma_gid_for(const struct mn_rdma_port *port, const struct mn_addr *addr);

/* What an RDMA port counts: bytes, or packets where the driver has nothing better (soft-RoCE). */
enum mn_rdma_unit { MN_RDMA_UNCOUNTED, MN_RDMA_BYTES, MN_RDMA_PACKETS };

/* Counters of a NIC: netdev rx/tx bytes as the kernel counts them, and of its RDMA port when there
 * is one (hw_counters and counters; perfquery data words are already multiplied by 4). Soft-RoCE's
 * bytes are in the netdev's counters too, those of hardware are not. */
struct mn_nic_counters {
    uint64_t rx_bytes, tx_bytes;
    uint64_t rdma_rx, rdma_tx;
    enum mn_rdma_unit rdma_unit;
};
enum mn_err mn_nic_counters_read(const struct mn_host_source *src, const char *netdev,
                                 const char *rdma_device, int rdma_port,
                                 struct mn_nic_counters *counters, struct mn_diag *diag);

#endif
