/* The parts of mn_host_read() and the sysfs readers they share: for topo/nic*.c, and whoever asks
 * the kernel as they do. */
#ifndef MN_NIC_READ_H
#define MN_NIC_READ_H

#include "topo/nic.h"

/* Readers of one attribute under root; the path is relative to it. All return 1 when the attribute
 * was there and of the wanted form, else 0 and leave the result alone: an absent attribute is
 * normal. Text comes without the white space at its end. */
int mn_sysfs_text(const char *root, char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int mn_sysfs_number(const char *root, long long *value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Follows symlinks; the result starts with "/sys/" whatever the root is, and never leaves it. */
int mn_sysfs_resolve(const char *root, char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Calls each for the entries of a directory (not "." and ".."), in any order, until it returns an
 * error. An absent directory is empty. */
enum mn_err mn_sysfs_each(const char *root, const char *dir,
                          enum mn_err (*each)(void *arg, const char *name, struct mn_diag *diag),
                          void *arg, struct mn_diag *diag);

/* Attributes and directories that were not read because this process has too few descriptors or
 * too little memory, from mn_sysfs_begin on in this thread: 1, and in buf the first and why. */
void mn_sysfs_begin(void);
int mn_sysfs_missed(char *buf, size_t size);

/* "32.0 GT/s PCIe", "200 Gb/sec (4X HDR)": the number at the start, always with a decimal point;
 * 0 when there is none. */
double mn_sysfs_decimal(const char *text);

/* The PCI function a device link ("class/net/eth0/device") belongs to, or all unknown. */
void mn_pci_read(const char *root, const char *device, struct mn_pci *pci);
/* Everything sysfs knows of a netdev whose netdev, ifindex and kind are set. */
void mn_nic_read_sysfs(const char *root, struct mn_nic *nic);

enum mn_nic_kind mn_nic_kind_of(unsigned arp_type, const char *link_kind);

/* Links and addresses: from the kernel, or from a JSON file that also names host and memlock. */
enum mn_err mn_host_read_netlink(struct mn_host *host, struct mn_diag *diag);
/* Counters of a netdev in the caller's network namespace; the mounted sysfs may show another. */
enum mn_err mn_netdev_bytes(const char *netdev, uint64_t *rx, uint64_t *tx, struct mn_diag *diag);
enum mn_err mn_host_read_recorded(const char *path, struct mn_host *host, struct mn_diag *diag);
/* A route of the main table: one hop through a NIC. via: family 0 = none. */
struct mn_route {
    int ifindex;
    struct mn_addr to, via;
};
/* Whom a NIC has spoken with. */
struct mn_neighbour {
    int ifindex;
    struct mn_addr addr;
    uint8_t mac[32];
    size_t mac_size;
};
void mn_host_add_route(struct mn_host *host, const struct mn_route *route);
void mn_host_count_neighbours(struct mn_host *host, const struct mn_neighbour *list, size_t count);

/* A netlink socket whose answers have a bound; *sock is to be freed with nl_socket_free. */
struct nl_sock;
enum mn_err mn_nl_open(struct nl_sock **sock, struct mn_diag *diag);
struct nl_cache;
/* All routes, to be freed with nl_cache_free; libnl's code, below 0 for an error. */
int mn_nl_routes(struct nl_sock *sock, struct nl_cache **routes);

/* RDMA ports: sysfs first, then libibverbs over it. */
enum mn_err mn_host_read_rdma(const char *root, struct mn_host *host, struct mn_diag *diag);
enum mn_err mn_host_read_verbs(struct mn_host *host, struct mn_diag *diag);
/* The same from an open library. */
struct mn_ibv;
enum mn_err mn_host_ask_verbs(const struct mn_ibv *ibv, struct mn_host *host, struct mn_diag *diag);
/* Sets the address a RoCE GID stands for. */
void mn_gid_set_addr(struct mn_gid *gid);

#endif
