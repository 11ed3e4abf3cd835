/* What no ring of nodes can be better than. */
#ifndef MN_RING_BOUND_H
#define MN_RING_BOUND_H

#include "topo/shape.h"

/* How many steps between nodes that are not joined every order of at least two nodes has: by nodes
 * with fewer than two neighbours, by pieces, by nodes without which a piece falls apart, and where
 * neighbours are of two colours, by how many more there are of one. In a time that grows with nodes
 * and cables. */
int mn_ring_bound(const struct mn_graph *graph);

#endif
