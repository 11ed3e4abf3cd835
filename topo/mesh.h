/* The mesh: nodes, their NICs, the cables between them, and the settings. The model behind the mesh
 * file; see mesh_file.h for reading and writing and docs/man/meshnet.yaml.5 for the format. */
#ifndef MN_MESH_H
#define MN_MESH_H

#include "topo/nic.h"

#define MN_NAME_MAX 64
#define MN_PCI_TEXT sizeof "0000:1a:00.0"

struct mn_mesh_nic {
    char name[MN_NAME_MAX]; /* unique in its node; default: the netdev */
    char netdev[IF_NAMESIZE];
    char device[64]; /* RDMA device, "" = none given */
    int port;        /* RDMA port, default 1 */
    uint8_t mac[6];
    int has_mac;
    struct mn_addr *addrs; /* prefix always set */
    size_t n_addrs;
    int gid_index;           /* -1 = resolve at run time */
    struct mn_addr gid_addr; /* the address gid_index belonged to when written; family 0 = none */
    long speed_mbps;         /* 0 = ask the host */
    int mtu;                 /* 0 = ask the host */
    char group[MN_NAME_MAX]; /* capacity group: NICs of one node that share a port; "" = alone */
    enum mn_nic_role role;   /* management: never a cable's end; hosts are reached over it */
    int line, column;        /* where it stands in the file; 0 = not read from a file */
};

/* A GPU and the NICs of its node that are nearest to it, all equally near. */
struct mn_mesh_gpu {
    char pci[MN_PCI_TEXT];  /* unique in its node, lower case */
    char name[MN_NAME_MAX]; /* "" = none given */
    int *nics;              /* indices, at least one */
    size_t n_nics;
    enum mn_pci_distance path; /* what lies between */
    int line, column;
};

struct mn_mesh_node {
    char name[MN_NAME_MAX];
    char hostname[65]; /* default: name */
    struct mn_mesh_nic *nics;
    size_t n_nics;
    struct mn_mesh_gpu *gpus; /* those with a NIC */
    size_t n_gpus;
    int line, column;
};

struct mn_mesh_end {
    int node, nic; /* indices */
};

struct mn_mesh_link {
    char name[MN_NAME_MAX]; /* default "<node>-<node>", "-2", … for parallel links */
    struct mn_mesh_end ends[2];
    /* Network address and the shorter of both prefixes. Family 0: a bare cable, one end or both of
     * which have no address yet; it stands in the file and carries nothing. */
    struct mn_addr subnet;
    int line, column;
};

/* Two NICs without a common subnet, between which routers pass packets on. */
struct mn_mesh_route {
    struct mn_mesh_end ends[2];
    char via[MN_NAME_MAX]; /* what is in between, for messages: a node, a router */
    int line, column;
};

enum mn_transport_kind {
    MN_TRANSPORT_AUTO,
    MN_TRANSPORT_VERBS,
    MN_TRANSPORT_TCP,
    MN_TRANSPORT_RELAY /* of a connection alone: no setting says it */
};
enum mn_allow_tcp { MN_TCP_NEVER, MN_TCP_ALLOWED, MN_TCP_AUTO };
enum mn_reach {
    MN_REACH_AUTO,
    MN_REACH_DIRECT,
    MN_REACH_CABLES,
    MN_REACH_MANAGEMENT,
    MN_REACH_RELAY
};
enum mn_device_mode { MN_DEVICE_MESH, MN_DEVICE_PER_LINK };

/* TCP ports from first to last; first 0: any. */
struct mn_ports {
    int first, last;
};

/* Whether neighbours use meshnet relayd on others besides their own cable. */
enum mn_detour { MN_DETOUR_OFF, MN_DETOUR_SPARE, MN_DETOUR_ON };

/* Every setting is a row in mesh_setting.c: section, key, type, default, range, help. The reader,
 * the writer, the man page and MESHNET_<KEY> environment overrides come from the row. */
struct mn_settings {
    /* transport: */
    enum mn_transport_kind transport; /* kind: auto | verbs | tcp (default auto) */
    enum mn_allow_tcp allow_tcp;      /* allow_tcp: auto (default) | true | false */
    enum mn_reach reach;      /* reach: auto (default) | direct | cables | management | relay */
    int sockets_per_link;     /* 0 = auto (default), 1..8 */
    int qps_per_link;         /* 0 = auto (default), 1..4 */
    unsigned chunk_bytes;     /* default 256K, 64K..4M */
    unsigned silence_ms;      /* silence: default 60s, 2s..1h: how long a link may be silent */
    unsigned rdma_silence_ms; /* rdma_silence: default 40s, 2s..1h: the same for RDMA */
    int failover;             /* default true */
    enum mn_detour detour;    /* detour: off (default) | spare | on */
    unsigned handshake_ms;    /* handshake: default 5s per attempt, 1s..5m */
    unsigned connect_ms;      /* connect: default 60s: how long connect() keeps trying */
    int traffic_class;        /* -1 = default */
    int announce_class;       /* -1 = traffic_class */
    int service_level;        /* 0..15, default 0 */
    int ack_timeout;          /* 4.096 us * 2^n, 1..22; 0 = by rdma_silence */
    int ack_retries;          /* 0..7, -1 = auto */
    int partition;            /* index into the port's table of partition keys */
    int relaxed_ordering;     /* false | true | auto (default) */
    int gpu_direct;           /* default true */
    /* plugin: */
    enum mn_device_mode device_mode; /* mesh (default) | per-link */
    int tuner;                       /* default true */
    struct mn_ports port_range;      /* any (default) | first-last */
    char key_file[256];              /* cluster key; "" = none */
    /* relay: */
    int relay_port;            /* port: default 18525 */
    unsigned relay_silence_ms; /* silence: default 5s, 1s..10m */
    unsigned relay_buffers;    /* buffers: bytes, default 256M, 8M..2G */
    char relay_socket[108];    /* socket: default /run/meshnet/relay.sock; as sun_path */
    int relay_ways;            /* ways: 0 = auto (two), 1..4 */
};

struct mn_mesh {
    int version; /* 1 */
    char name[MN_NAME_MAX];
    struct mn_mesh_node *nodes;
    size_t n_nodes;
    struct mn_mesh_link *links;
    size_t n_links;
    struct mn_mesh_route *routes;
    size_t n_routes;
    struct mn_settings settings;
    uint64_t given; /* bit per row of mn_setting_rows that the file has */
};

/* The setting that keeps nodes without a common cable apart, "transport.reach: direct", or NULL:
 * TCP may reach them. */
const char *mn_reach_barred_by(enum mn_reach reach, enum mn_transport_kind kind,
                               enum mn_allow_tcp allow_tcp);

/* Whether nodes without a common cable are to reach each other by meshnet relayd: where nothing but
 * the relay is allowed, or the cluster key that it needs is named. Whether it runs no file says. */
int mn_reach_relays(const struct mn_settings *settings);
/* relay.ways, whose auto is two. */
int mn_reach_ways(const struct mn_settings *settings);

void mn_settings_default(struct mn_settings *settings);
/* MESHNET_SILENCE=30s, MESHNET_DEVICE_MODE=per-link, … override; a bad value is MN_ERR_CONFIG
 * naming variable, value and what was expected. */
enum mn_err mn_settings_from_env(struct mn_settings *settings, struct mn_diag *diag);
/* NCCL_IB_TC and its like, below the mesh file (given, as in struct mn_mesh) and the variables
 * above. What was taken and what not is said at INFO; a wrong value is one for NCCL too, which goes
 * on without it: a warning. */
void mn_settings_from_nccl(struct mn_settings *settings, uint64_t given);

void mn_mesh_init(struct mn_mesh *mesh); /* empty, default settings */
void mn_mesh_free(struct mn_mesh *mesh);

/* The host's NIC that the file's is: by netdev, else by an address; NULL = none. */
const struct mn_nic *mn_mesh_nic_on_host(const struct mn_host *host,
                                         const struct mn_mesh_nic *file);

/* Finds this host's node: by NIC identity (MAC, then addresses that the host has), then host name,
 * then $MESHNET_NODE (which wins when set). *why says in words what matched. MN_ERR_CONFIG when
 * none or two match, naming what was compared. */
enum mn_err mn_mesh_find_self(const struct mn_mesh *mesh, const struct mn_host *host, int *node,
                              char *why, size_t why_size, struct mn_diag *diag);

/* $MESHNET_NODE, else the host's name: what this process is called by others. */
void mn_node_name(char *name, size_t size);

/* Whether a mesh can have the NIC. */
int mn_mesh_usable(const struct mn_nic *nic);
/* Says of the host's NICs which are cables' ends and which lead to a network for management:
 * routes, neighbours, leases and speeds tell (mn_host_around). A role that is set stays, so does
 * one that the node of that name has in mesh (NULL: no mesh). Something is left for cables, if need
 * be. MN_ERR_NOMEM: nothing was said. */
enum mn_err mn_mesh_roles(struct mn_host *host, const struct mn_mesh *mesh, const char *node);
/* Adds this host as a node (its usable NICs: not loopback, bridge, tunnel or enslaved, with an
 * address other than fe80::/10, /32 and /128; the GPUs that mn_host_locality found, each with the
 * nearest of these NICs that are no management), or replaces the node of that name. */
enum mn_err mn_mesh_add_host(struct mn_mesh *mesh, const struct mn_host *host,
                             struct mn_diag *diag);
/* A cable without addresses: see struct mn_mesh_link. */
int mn_link_is_bare(const struct mn_mesh_link *link);
/* How many of the node's cables (node -1: of all) are bare; in names the first of them, "a-b, b-c
 * and 5 others". */
#define MN_BARE_NAMES 256
size_t mn_mesh_bare(const struct mn_mesh *mesh, int node, char names[MN_BARE_NAMES]);
/* Recomputes links: every pair of NICs of different nodes, none for management, with an address
 * pair that shares a subnet under both real netmasks. Keeps names of links that existed, but for
 * gaps in the numbers of default names, and bare ones whose ends are not taken by another. A subnet
 * of more than two nodes is a switched network and gives none; addresses used twice, two NICs of a
 * node in one subnet and subnets that overlap are MN_ERR_CONFIG. */
enum mn_err mn_mesh_link_up(struct mn_mesh *mesh, struct mn_diag *diag);
/* Takes nodes of other that mesh lacks, replaces those of equal name, then mn_mesh_link_up. */
enum mn_err mn_mesh_merge(struct mn_mesh *mesh, const struct mn_mesh *other, struct mn_diag *diag);

/* Puts n of the mesh's nodes into an order in which as many as possible have a cable to the next
 * one, the last to the first; the first stays it, and all do where no other order is better.
 * Returns how many have none; least (may be NULL): no order has fewer. See topo/ring.h. Bare cables
 * count. */
int mn_mesh_ring(const struct mn_mesh *mesh, const int *nodes, int n, int *order, int *least);
/* How many of n different nodes in that order have no cable to the next one. */
int mn_mesh_ring_gaps(const struct mn_mesh *mesh, const int *order, int n);
/* Whether a cable joins the nodes, bare or not. */
int mn_mesh_has_cable(const struct mn_mesh *mesh, int a, int b);

/* "full mesh", "ring", "line", "pair", "star", "torus", "partial mesh", "single node": by neighbour
 * sets (topo/shape.h). */
const char *mn_mesh_shape(const struct mn_mesh *mesh);

#endif
