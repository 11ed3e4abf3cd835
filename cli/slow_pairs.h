/* Pairs of nodes without a common cable: they work, slowly. Said where a mesh is looked at, with
 * the speed to expect and what would be faster. */
#ifndef MN_SLOW_PAIRS_H
#define MN_SLOW_PAIRS_H

#include "topo/base/out.h"
#include "topo/pair_way.h"

struct mn_slow_pair {
    int nodes[2];
    struct mn_pair_way way; /* between the two, from the first */
    char *text;             /* "TCP over n1, at most 9.4 Gb/s" */
};

struct mn_slow_pairs {
    struct mn_slow_pair *items;
    size_t count, all; /* those in items, the first of them; all there are */
};

/* Looks for no more than max of them; node -1: of all nodes, else those with that node. */
void mn_slow_pairs_find(const struct mn_mesh *mesh, int node, size_t max,
                        struct mn_slow_pairs *pairs);
void mn_slow_pairs_free(struct mn_slow_pairs *pairs);
/* "TCP over n1, at most 9.4 Gb/s", for a pair without a common cable; returns buf. */
char *mn_slow_pair_way(const struct mn_mesh *mesh, int from, int to, char *buf, size_t size);
/* What would be faster than that kind of way; static. */
const char *mn_slow_pair_faster(enum mn_pair_kind kind);
/* Under "slow_pairs", and in text as notes: nothing where there are none. */
void mn_slow_pairs_print(struct mn_out *out, const struct mn_mesh *mesh);

#endif
