/* The nodes of a graph in a circle, in which as many as possible are joined to the next one. */
#ifndef MN_RING_H
#define MN_RING_H

#include "topo/shape.h"

struct mn_ring {
    int *order;  /* all nodes, 0 first */
    int missing; /* steps between nodes that are not joined, the one from the last to the first too;
                    none with one node */
    int least;   /* no order has fewer than that: equal to missing where this one is the best */
};

/* The same graph has the same ring, everywhere. The order of the nodes' numbers where it is as good
 * as any. Up to a dozen nodes it is the best there is; beyond, a search with an end, which finds
 * the rings of grids, tori and hypercubes of thousands of nodes within a second or so. */
void mn_graph_ring(const struct mn_graph *graph, struct mn_ring *ring);
void mn_ring_free(struct mn_ring *ring);

/* How many steps of the order of n nodes are not joined. */
int mn_graph_gaps(const struct mn_graph *graph, const int *order, int n);

#endif
