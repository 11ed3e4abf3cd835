/* Where in a pool the subnets of cables lie. */
#ifndef MN_ADDRESS_PLACE_H
#define MN_ADDRESS_PLACE_H

#include "topo/address_range.h"

struct mn_place {
    size_t group;  /* of the cables between two nodes; those of one stand side by side */
    int has_home;  /* one of the group has a subnet already */
    mn_wide home;  /* the block in which it lies */
    int found;     /* start is set */
    mn_wide start; /* first address of the subnet */
};

struct mn_place_rules {
    struct mn_range pool;
    mn_wide size;  /* of a subnet */
    mn_wide block; /* of what two nodes share where there is room; a multiple of size */
    const struct mn_ranges *used;
};

/* Finds a place for each; returns how many have one. */
size_t mn_place_all(struct mn_place *places, size_t count, const struct mn_place_rules *rules);

#endif
