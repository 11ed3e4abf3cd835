/* A mesh as numbers: what can carry how much, for routes, plans and predictions. It has no names:
 * it is made from a mesh file, or by hand. */
#ifndef MN_FABRIC_H
#define MN_FABRIC_H

#include <stdint.h>

#include "topo/mesh.h"

/* What follows latency may be left 0 where a fabric is made by hand; no group is -1, though. */
struct mn_fabric_cable {
    int nodes[2];
    double rate;     /* payload bytes/s from nodes[0] to nodes[1], and back; 0 = not known */
    double latency;  /* s one way, of a short message from memory to memory */
    int groups[2];   /* capacity group that each end is of, -1: none */
    int link;        /* index in the mesh, -1: none */
    double back;     /* bytes/s from nodes[1] to nodes[0] where it differs from rate; 0 = as rate */
    double both;     /* bytes/s of both directions together; 0 = as much as of each alone */
    uint64_t weight; /* mn_way_weight of its nodes' names; 0: by their numbers */
};

/* Ends of cables that share a port: so much each way, together. */
struct mn_fabric_group {
    int node;
    double rate; /* payload bytes/s */
};

struct mn_fabric {
    int n; /* nodes */
    struct mn_fabric_cable *cables;
    size_t n_cables;
    struct mn_fabric_group *groups;
    size_t n_groups;
    double far;    /* s that ranks without a common cable need more: TCP where cables do RDMA */
    double *hosts; /* by node: bytes/s that it sends and receives in all, 0 = any; NULL: all any */
    /* By node the cable at whose address nodes without a cable to it find it, -1: has none; NULL:
     * they come by the shortest way, over all cables of each hop, as by the relay. */
    int *doors;
    /* Where doors is NULL: how many ways beside each other nodes without a common cable use, each
     * for what it can carry; below 2: one. */
    int relay_ways;
};

/* Of a mesh of more nodes all use one: to look for more costs too much there. */
#define MN_FABRIC_SPLITS 64

/* Latencies that cables have until they are measured: RDMA NICs on a short cable and kernel TCP,
 * half of a round trip of 8 bytes, as bench measures it. */
#define MN_FABRIC_RDMA_LATENCY 2.5e-6
#define MN_FABRIC_TCP_LATENCY  20e-6

/* Cables that carry something, in the order of the mesh's links. Speeds and MTUs are the NICs' of
 * the mesh file; a cable whose ends give no speed has rate 0. RDMA where both ends have a device
 * and settings allow it. A group's rate is its fastest cable's. */
void mn_fabric_from_mesh(const struct mn_mesh *mesh, struct mn_fabric *fabric);
void mn_fabric_free(struct mn_fabric *fabric);
/* For one that is made by hand; returns its index. */
int mn_fabric_add(struct mn_fabric *fabric, int a, int b, double rate, double latency);
/* direction 0: from nodes[0] to nodes[1]; 1: back. */
double mn_fabric_rate(const struct mn_fabric_cable *cable, int direction);
/* Where node is of the cable's nodes: the direction in which it sends. */
int mn_fabric_direction(const struct mn_fabric_cable *cable, int node);

/* The part of the wire's bits that is payload in full packets of that MTU. */
double mn_fabric_payload(int mtu, int rdma);
/* Payload bytes/s between two NICs, by what the mesh file says of them; 0 = no speed is given. */
double mn_fabric_nic_rate(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b, int rdma);

#endif
