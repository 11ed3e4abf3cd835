/* Which cables two nodes share. Both ends compute the plan from the same two lists and compare a
 * hash of it, so that they cannot use different ones. */
#ifndef MN_PLAN_H
#define MN_PLAN_H

#include "plugin/config.h"

/* Control connection that reached the peer through a route, not over a shared cable. */
#define MN_ROUTED     0xff
#define MN_TABLE_TEXT 320

enum mn_rdma_state {
    MN_RDMA_NONE,  /* no RDMA device behind this address */
    MN_RDMA_READY, /* its GID was found and its port is up */
    MN_RDMA_BROKEN /* a device that cannot be used; the side's rdma_text says why */
};

/* RDMA end of an address, as both ends must know it. Filled by the transport that uses it. */
struct mn_rdma_end {
    uint8_t state, infiniband, port;
    uint8_t grh;           /* InfiniBand: its packets need a global header */
    uint8_t mtu, gid_type; /* enum ibv_mtu, enum mn_gid_type */
    uint16_t gid_index, lid;
    uint32_t max_message;
    uint8_t gid[16];
    char device[32];
};

/* What a side can of the relay with this peer (relay/able.h). */
enum mn_relay_able {
    MN_RELAY_OFF,     /* no mesh file with nodes in between, or transport.reach is another */
    MN_RELAY_KEYLESS, /* no cluster key, and no relayd of this node to sign instead */
    MN_RELAY_LATELY, /* it failed less than a minute ago; not said where transport.reach is relay */
    MN_RELAY_ABLE
};

/* What one side tells the other. */
struct mn_side {
    char node[MN_NAME_MAX];
    uint64_t node_id;
    enum mn_transport_kind kind;
    enum mn_allow_tcp allow_tcp;
    enum mn_reach reach;
    int sockets_per_link, qps_per_link; /* 0 = auto */
    int failover;                       /* goes on over its other links when one is out */
    enum mn_detour detour;              /* besides a common cable */
    enum mn_relay_able relay;
    int relay_node; /* of config->relay; 0 where there is none */
    uint64_t mesh;  /* digest of the mesh file; 0 = none */
    struct mn_local locals[MN_MAX_LOCALS];
    struct mn_rdma_end rdma[MN_MAX_LOCALS]; /* of locals */
    int n_locals;
    const struct mn_routed *routes; /* of this node; NULL: the peer */
    char rdma_text[MN_TABLE_TEXT];  /* why an end is broken; "" = none is */
    char rdma_table[MN_TABLE_TEXT]; /* its GIDs, for messages; "" when all ends are READY */
};

/* One cable: indices into the connecting and the accepting side's locals. */
struct mn_pair {
    uint8_t connector, acceptor;
};

struct mn_plan {
    enum mn_transport_kind kind; /* what carries the data: verbs, tcp or relay */
    char why_tcp[128];           /* "" when TCP was asked for */
    int rdma_failed;             /* both have RDMA, and why_tcp says why it is not used */
    struct mn_pair pairs[MN_MAX_LOCALS];
    uint32_t weights[MN_MAX_LOCALS]; /* Mb/s of each pair, shared ports divided; not 0 */
    int n_pairs;                     /* 0 = routed: the control connection is all there is, or
                                        the relay's own ways */
    int lanes_per_pair;              /* sockets, or queue pairs */
    enum mn_detour detour;           /* of the relay: the pairs are a way of their own */
};

/* All pairs that share a subnet under both real netmasks, or have a route, each NIC used once,
 * fastest first; slower than half the fastest is left out (a management network beside the cables).
 * Processes of one host get the pairs of equal addresses. Returns the count. */
int mn_pairs_find(const struct mn_side *connector, const struct mn_side *acceptor,
                  struct mn_pair pairs[MN_MAX_LOCALS]);

/* Whether this side's settings let TCP reach a peer without a common cable. */
int mn_plan_reaches_far(const struct mn_side *side);
/* Whether the relay can, as far as this side knows. */
int mn_plan_may_relay(const struct mn_side *side);

/* Whether one of the two takes no other way to a peer without a cable. */
int mn_plan_only_relay(const struct mn_side sides[2]);
/* Why two sides do not take the relay, "" when they do: "on b …", for a sentence. Returns text. */
char *mn_plan_why_no_relay(const struct mn_side *connector, const struct mn_side *acceptor,
                           char *text, size_t size);

/* The plan around the pair that carries the control connection, which becomes the first unless it
 * has no RDMA and others have. RDMA where both ends of a pair can; TCP when asked for, or allowed
 * where RDMA cannot be. MN_ERR_CONFIG: neither; *diag has the reason and both GID tables. Both ends
 * come to the same plan, or to the same error. */
enum mn_err mn_plan_make(const struct mn_side *connector, const struct mn_side *acceptor,
                         struct mn_pair control, struct mn_plan *plan, struct mn_diag *diag);

#endif
