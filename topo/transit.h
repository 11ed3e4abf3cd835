/* How packets get to nodes without a cable to this one: routes over neighbours, and what the nodes
 * in between need so that they pass on what is not theirs. For what goes through sockets (NCCL's
 * bootstrap, ssh, TCP): an RDMA NIC passes nothing on, the kernel of the node in between does.
 *
 * Routes are shortest paths, over a net's nearer end where one is nearer, so that an address is
 * reached over the cable it stands for. Of paths equally long, all nodes take the same one, by
 * names, in both directions: in lines, trees and rings an answer comes back the way the question
 * went. In other shapes, and from programs that bind to one address and ask another, it may not:
 * that is why rp_filter is 2. Parallel cables (the halves of a port) carry the nets of their own
 * rank. */
#ifndef MN_TRANSIT_H
#define MN_TRANSIT_H

#include "topo/mesh.h"

struct mn_transit_route {
    struct mn_addr to;  /* a cable's subnet, or one end's address (/32, /128) */
    struct mn_addr via; /* the neighbour's address on the cable; prefix -1 */
    int nic;            /* the own one through which it is reached: index into the node's */
};

struct mn_transit_sysctl {
    char
        key[80]; /* below /proc/sys: "net/ipv4/conf/eth0.7/forwarding", as sysctl(8) takes it too */
    int value;
    const char *why; /* in a few words; static */
};

struct mn_transit {
    struct mn_transit_route *routes; /* by subnet, IPv4 first */
    size_t n_routes;
    struct mn_transit_sysctl *sysctls; /* in the order in which they are set */
    size_t n_sysctls;
    /* Own ends of cables, as indices; between them packets of others pass where forwards is set:
     * the rules of a firewall must let them (mn_transit_script). */
    int *nics;
    size_t n_nics;
    int forwards;
    int ipv4, ipv6; /* families of the routes, or of what is passed on */
};

/* What the node needs. Everything is empty where each node that can be reached has a cable to every
 * other: pair, triangle, full mesh. Bare links and those for management carry nothing. */
void mn_transit_find(const struct mn_mesh *mesh, int node, struct mn_transit *transit);
void mn_transit_free(struct mn_transit *transit); /* zeroed afterwards */
int mn_transit_is_empty(const struct mn_transit *transit);

/* The texts below are malloc'ed, the caller's; netdevs of the node must be plain names (mn_emit
 * checks them). These are their places on the node. */
#define MN_TRANSIT_SYSCTL_PATH "/etc/sysctl.d/60-meshnet.conf"
#define MN_TRANSIT_SCRIPT_PATH "/etc/meshnet/transit.sh"
#define MN_TRANSIT_UNIT        "meshnet-transit.service"
#define MN_TRANSIT_UNIT_PATH   "/etc/systemd/system/" MN_TRANSIT_UNIT
/* Whose start starts the unit too, without "systemctl enable": mn_transit_wants_text. */
#define MN_TRANSIT_BOOT_PATH   "/etc/systemd/system/multi-user.target.d/60-meshnet-transit.conf"
#define MN_TRANSIT_DOCKER_PATH "/etc/systemd/system/docker.service.d/60-meshnet-transit.conf"

/* sysctl.d(5): all but the IPv6 ones, whose order matters; those are set by the script. */
char *mn_transit_sysctl_text(const struct mn_transit *transit);
/* nft(8): table inet meshnet, which counts what passes and accepts it. It cannot lift what another
 * table drops: that is for the script, which has this text in it. Can be loaded again and again. */
char *mn_transit_nft_text(const struct mn_transit *transit, const struct mn_mesh_node *node);
/* sh(1), for a node that forwards: the table above, IPv6's sysctls (and accept_ra on every other
 * NIC of the host that believes routers, for one that forwards believes none else), and rules where
 * iptables' FORWARD drops what passes, as Docker's and ufw's do: a chain MESHNET, called from
 * DOCKER-USER where there is Docker, else from FORWARD. Can run again and again; with the word
 * "remove" it takes table and rules away. */
char *mn_transit_script_text(const struct mn_transit *transit, const struct mn_mesh_node *node);
/* systemd.service(5): runs the script at boot, after what makes firewalls, and whenever Docker
 * starts. */
char *mn_transit_unit_text(void);
char *mn_transit_wants_text(void);

#endif
