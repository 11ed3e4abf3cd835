/* Ways through relays: which nodes lie between two that share no cable (or, for a detour, whose
 * cable is not to be used). From the mesh file alone, so that every node comes to the same. */
#ifndef MN_RELAY_WAY_H
#define MN_RELAY_WAY_H

#include "plugin/relay/relay.h"
#include "topo/mesh.h"

#define MN_RELAY_UNKNOWN_MBPS 1000

/* The ways from one node to another, best first, at most MN_RELAY_WAYS and max: the shortest
 * (topo/route), then the shortest of those that share no cable with the ones before, and no relay
 * either where there are such. The cables between the two are none. The way back is the same one
 * turned round. weights: Mb/s that the narrowest of a way's hops can carry, all the same,
 * MN_RELAY_UNKNOWN_MBPS, where a speed is not known. Returns how many; 0: there is none with 1 to
 * MN_RELAY_MAX relays, or no memory. For one thread at a time; costs a look at the mesh, so keep
 * the result. */
int mn_relay_ways(const struct mn_mesh *mesh, int from, int to, int max,
                  struct mn_relay_way ways[MN_RELAY_WAYS], uint32_t weights[MN_RELAY_WAYS]);

/* The addresses of neighbour's ends of the cables that it shares with node, fastest first, with
 * node's own address on each: where a line is dialled, and from where. Returns how many of max. */
struct mn_relay_door {
    struct mn_addr from, to;
};
int mn_relay_doors(const struct mn_mesh *mesh, int node, int neighbour, struct mn_relay_door *doors,
                   int max);

/* Whether a way is one: 3 to MN_RELAY_NODES nodes of the mesh, no node twice, each two in a row
 * joined by a cable. For what came over a wire. */
int mn_relay_way_holds(const struct mn_mesh *mesh, const struct mn_relay_way *way);

#endif
