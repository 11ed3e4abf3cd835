/* Shortest ways over cables. Of ways equally long, all nodes take the same one, by names, in both
 * directions; every part of such a way is such a way too. What topo/transit writes for the kernel
 * and what is planned, predicted and shown come from here. */
#ifndef MN_TOPO_ROUTE_H
#define MN_TOPO_ROUTE_H

#include <stdint.h>

#include "topo/fabric.h"

/* --- the graph ------------------------------------------------------------------------------ */

/* All that joins two nodes: cables first to first + count - 1 of a list that the maker has. */
struct mn_way_edge {
    int ends[2];
    size_t first, count;
    uint64_t weight; /* tells ways of equal length apart: mn_way_weight */
};

/* An edge as a node sees it. */
struct mn_way_step {
    int to;
    uint32_t edge;
    uint64_t weight;
};

struct mn_ways {
    size_t n;
    struct mn_way_edge *edges;
    size_t n_edges;
    size_t *start; /* steps from node n: steps[start[n]] … steps[start[n + 1] - 1] */
    struct mn_way_step *steps;
};

/* By the names of both nodes, in either order. 40 bits: a million of them can be added. */
uint64_t mn_way_weight(const char *a, const char *b);
/* From n and edges, which it keeps: the rest. Free with mn_ways_free, edges included. */
void mn_ways_index(struct mn_ways *ways);
void mn_ways_free(struct mn_ways *ways);
size_t mn_ways_degree(const struct mn_ways *ways, int node);
int mn_way_other_end(const struct mn_way_edge *edge, int node);

/* What one node sees of the others, by node. */
struct mn_way_view {
    int self;
    int *hops; /* -1: out of reach */
    uint64_t *weight;
    uint32_t *first, *last; /* edges: where the way there begins and ends */
    int *order;             /* those in reach, the nearest first, self before all */
    int reached;
};

void mn_way_view_make(size_t n, struct mn_way_view *view);
void mn_way_view_free(struct mn_way_view *view);
/* Of the shortest ways those whose weights add up to the least. barred: edges that are not to be
 * used, by index; NULL = none. */
void mn_way_look(const struct mn_ways *ways, int self, const char *barred,
                 struct mn_way_view *view);

/* --- routes of a fabric --------------------------------------------------------------------- */

/* Ways between all nodes. A node's are looked for when they are asked for, and kept: 2 bytes for
 * each node that it may go to. For one thread at a time. */
struct mn_routes {
    struct mn_ways ways;
    size_t *cables;  /* of the fabric, by edge: what first and count of an edge mean */
    uint16_t **last; /* by node, NULL = not looked for: which of the other's edges ends the way */
    struct mn_way_view view;
    int looked; /* whose view that is, -1 = nobody's */
};

/* Keeps nothing of the fabric. Cables with weight 0 are told apart by their nodes' numbers. */
void mn_routes_find(const struct mn_fabric *fabric, struct mn_routes *routes);
void mn_routes_free(struct mn_routes *routes);
/* nodes (room for n; may be NULL) from the first to the last, both included. Returns how many
 * cables that is: 0 to itself; -1: there is no way. */
int mn_routes_path(struct mn_routes *routes, int from, int to, int *nodes);
/* The edge between neighbours, NULL = they have no cable. */
const struct mn_way_edge *mn_routes_edge(const struct mn_routes *routes, int a, int b);
/* What from sees, until the next call of any of these. */
const struct mn_way_view *mn_routes_view(struct mn_routes *routes, int from);
/* The way that packets take to the address that to has on its cable: kernels' routes lead over the
 * cable's nearer end, so that of ways equally long it may be another. As mn_routes_path. */
int mn_routes_path_by(const struct mn_fabric *fabric, struct mn_routes *routes, int from, int to,
                      int cable, int *nodes);
/* The best way that shares no cable with the first. Where parallel cables join two nodes the first
 * has one of them, and the other is free: both ways may go over the same nodes. As
 * mn_routes_path. */
int mn_route_other(struct mn_routes *routes, int from, int to, int *nodes);
/* The same beside a way of so many hops over these nodes; other: room for n, or NULL. */
int mn_route_beside(struct mn_routes *routes, const int *nodes, int hops, int *other);
/* Up to max ways from node to node with 2 to max_hops cables one after the other, best first: the
 * shortest, then the shortest of those that share no cable with the ones before, and no node
 * between either where there are such; back they are the same. nodes: room for max times max_hops +
 * 1, each way begins at a multiple of that; hops: of each. Returns how many. */
int mn_routes_apart(struct mn_routes *routes, int from, int to, int max_hops, int max, int *nodes,
                    int *hops);
/* The longest of all ways; -1: not all nodes are joined. Remembers no ways. */
int mn_routes_diameter(struct mn_routes *routes);

#endif
