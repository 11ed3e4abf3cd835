/* By which way the plugin takes two nodes of a mesh to each other, judging by the mesh file alone:
 * routes along the cables are believed to be set (meshnet topo apply sets them). The plugin asks
 * the kernel, in the same order (plugin/far.h). */
#ifndef MN_PAIR_WAY_H
#define MN_PAIR_WAY_H

#include "topo/route.h"

enum mn_pair_kind {
    MN_PAIR_CABLE,      /* over all cables that join them */
    MN_PAIR_ROUTER,     /* over a route of the mesh file */
    MN_PAIR_RELAY,      /* by meshnet relayd of the nodes in between, along all of their cables */
    MN_PAIR_NODES,      /* TCP along cables, over nodes in between that forward */
    MN_PAIR_MANAGEMENT, /* TCP over the networks that the file has for management */
    MN_PAIR_OUTSIDE, /* TCP over a network that the file does not have: NCCL_SOCKET_IFNAME's, else
                        that of the default route */
    MN_PAIR_NONE     /* a setting forbids all that is left, or the networks for management have no
                        family of addresses in common */
};

struct mn_pair_way {
    enum mn_pair_kind kind;
    int hops;         /* cables one after the other: 1 of MN_PAIR_CABLE; 0 = over none */
    double rate;      /* payload bytes/s that it can carry at most, 0 = not known */
    const char *via;  /* of MN_PAIR_ROUTER; the mesh's */
    const char *text; /* "cable", "router", "relay", "nodes", "management", "outside", "none" */
};

/* nodes: room for the mesh's n and one more: the way's, both ends included, where hops is not 0. */
void mn_pair_way_find(const struct mn_mesh *mesh, const struct mn_fabric *fabric,
                      struct mn_routes *routes, int from, int to, int *nodes,
                      struct mn_pair_way *way);
/* What a way over these nodes can carry: neighbours use all their cables where it is one hop, and
 * relays at every hop; else what goes further has one cable a hop. 0: not known. */
double mn_pair_way_rate(const struct mn_fabric *fabric, const struct mn_routes *routes,
                        const int *nodes, int hops, int relayed);

/* Relays on a way at most (plugin/relay/relay.h says the same). */
#define MN_PAIR_RELAYS 8

#endif
