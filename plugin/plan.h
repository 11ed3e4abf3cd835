/* Which cables two nodes share. Both ends compute the plan from the same two lists and compare a
 * hash of it, so that they cannot use different ones. */
#ifndef MN_PLAN_H
#define MN_PLAN_H

#include "plugin/config.h"

#define MN_ROUTED                                                                                  \
    0xff /* control connection reached the peer through a route, not a shared cable                \
          */

/* What one side tells the other. */
struct mn_side {
    char node[MN_NAME_MAX];
    uint64_t node_id;
    int sockets_per_link; /* 0 = auto */
    struct mn_local locals[MN_MAX_LOCALS];
    int n_locals;
};

/* One cable: indices into the connecting and the accepting side's locals. */
struct mn_pair {
    uint8_t connector, acceptor;
};

struct mn_plan {
    struct mn_pair pairs[MN_MAX_LOCALS];
    int n_pairs; /* 0 = routed: the control connection is all there is */
    int lanes_per_pair;
};

/* All pairs that share a subnet under both real netmasks, each NIC used once, fastest first; slower
 * than half the fastest is left out (a management network beside the cables). Processes of one host
 * get the pairs of equal addresses. Returns the count. */
int mn_pairs_find(const struct mn_side *connector, const struct mn_side *acceptor,
                  struct mn_pair pairs[MN_MAX_LOCALS]);

/* The plan around the pair that carries the control connection, which becomes the first. */
void mn_plan_make(const struct mn_side *connector, const struct mn_side *acceptor,
                  struct mn_pair control, struct mn_plan *plan);

#endif
