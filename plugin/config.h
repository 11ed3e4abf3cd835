/* What this process may use: settings, this node's name, and the NIC addresses behind each device.
 * Read once, at the first init; constant afterwards, so that any thread may read it. */
#ifndef MN_CONFIG_H
#define MN_CONFIG_H

#include "plugin/routed.h"
#include "topo/base/mac.h"
#include "topo/mesh_digest.h"

#define MN_MAX_LOCALS  8 /* addresses a device offers: what the handle carries */
#define MN_MAX_FAR     2 /* further ones at which a node without a common cable finds it */
#define MN_MAX_DEVICES 32
#define MN_ACK_RETRIES 6 /* 7 means for ever on soft-RoCE, and on other devices for RNR */

static inline int mn_ack_retries(const struct mn_settings *settings)
{
    return settings->ack_retries < 0 ? MN_ACK_RETRIES : settings->ack_retries;
}

/* One address of this node. Two addresses with the same nic are the same cable. */
struct mn_local {
    struct mn_addr addr;
    char netdev[IF_NAMESIZE];
    uint32_t ifindex;
    uint8_t nic;   /* number of the NIC inside its device */
    uint8_t group; /* NICs of one group share a port's capacity; 0 = alone */
    uint8_t spare; /* the mesh file has another link to the same node, which comes first */
    long speed_mbps;
    /* What the host and the mesh file say of its RDMA port; the GID is looked up when connecting.
     */
    char rdma_device[64]; /* "" = not known */
    int rdma_port;
    int gid_index; /* -1 = any */
};

struct mn_device {
    char name[MN_NAME_MAX];
    char pci_path[256]; /* its NIC's; of several, the first of the fastest; "" = not PCI */
    uint64_t guid;
    long speed_mbps; /* of the fastest NIC */
    int pointers;    /* NCCL_PTR_*: the memory that its connections take */
    struct mn_local locals[MN_MAX_LOCALS];
    int n_locals;
};

/* The mesh file as all that relay number it: sorted (topo/mesh_sort.h), so that a node's index is
 * the same wherever the digest is, in whatever order the files have them. */
struct mn_relay_own {
    struct mn_mesh mesh;
    int node;        /* of mesh: this one */
    uint64_t digest; /* of the file */
};

struct mn_config {
    struct mn_settings settings;
    char node[MN_NAME_MAX];
    uint64_t node_id; /* equal for processes of one host and one network namespace */
    struct mn_device devices[MN_MAX_DEVICES];
    int n_devices;
    struct mn_routed routes; /* of this node */
    /* Where those without a common cable may come: of management NICs, never a cable's end. */
    struct mn_local far[MN_MAX_FAR];
    int n_far;
    /* The addresses that the mesh file gives nodes which share a cable with this one, each once; a
     * further cable to such a node has family 0. Copies share them; mn_config_free() frees them. */
    struct mn_beside {
        struct mn_addr addr;
        char node[MN_NAME_MAX], link[MN_NAME_MAX], netdev[IF_NAMESIZE]; /* netdev: the own end */
    } * beside;
    size_t n_beside;
    int uncabled; /* the mesh file has nodes that share no cable with this one */
    int pointers; /* NCCL_PTR_*: the memory that RDMA takes, whoever the peer is */
    /* What the comms of this config are for; 0 in NCCL's processes, which poll for ever. */
    int sleeps;   /* the owner sleeps while nothing moves: mn_transport's arm() */
    int unpolled; /* nobody looks at a buffer before test() says done */
    int hop;      /* … a hop of the relay: its owner says when a peer is gone */
    int pushes;   /* a thread sends over TCP, since the owner's has other things to do */
    int has_key;
    uint8_t cluster_key[MN_KEY_SIZE];
    struct mn_mesh_own mesh; /* what the mesh file says, all zero without one */
    /* NULL without one. Copies share it; mn_config_free() frees it. */
    struct mn_relay_own *relay;
};

/* The cluster key, NULL when the mesh has none. */
static inline const uint8_t *mn_config_key(const struct mn_config *config)
{
    return config->has_key ? config->cluster_key : NULL;
}

/* Mesh file ($MESHNET_CONFIG, else the standard places), else NCCL's selectors, else discovery;
 * logs each choice with its reason at INFO. May read files and ask the kernel: called from init
 * only. */
enum mn_err mn_config_load(struct mn_config *config, struct mn_diag *diag);
/* The same for a host that was read before; without a mesh file its NICs get roles. */
enum mn_err mn_config_from_host(struct mn_config *config, struct mn_host *host,
                                struct mn_diag *diag);

/* Frees what lies behind it, and wipes its key: once, however many copies there are. */
void mn_config_free(struct mn_config *config);

/* Equal for processes of one boot of a kernel and one network namespace, whatever their host names
 * (containers). proc: where its files are, "/proc". Where the boot id is masked, hostname stands
 * for it. */
uint64_t mn_node_id(const char *proc, const char *hostname);

/* NCCL's interface list syntax (NCCL documentation, NCCL_SOCKET_IFNAME, NCCL_IB_HCA): a comma
 * separated list of prefixes; "=" in front: exact names; "^" in front: all but these. port is
 * compared with a ":N" suffix when the entry has one and port is not negative. */
int mn_selector_match(const char *list, const char *name, int port);

#endif
