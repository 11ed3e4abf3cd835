/* Addresses as numbers, and sets of them. */
#ifndef MN_ADDRESS_RANGE_H
#define MN_ADDRESS_RANGE_H

#include "topo/nic.h"

__extension__ typedef unsigned __int128 mn_wide;

struct mn_range {
    mn_wide first, last;
};

struct mn_ranges {
    struct mn_range *items;
    size_t count;
};

mn_wide mn_addr_number(const struct mn_addr *addr);
struct mn_addr mn_addr_of_number(int family, int prefix, mn_wide number);
/* Addresses of a subnet of that prefix. All of IPv6 are one less than it says. */
mn_wide mn_subnet_size(int family, int prefix);
struct mn_range mn_subnet_range(const struct mn_addr *addr);

void mn_ranges_add(struct mn_ranges *set, struct mn_range range);
/* In order, those that touch made one: before the next mn_ranges_hit. */
void mn_ranges_sort(struct mn_ranges *set);
/* One that has an address between first and last, or NULL. */
const struct mn_range *mn_ranges_hit(const struct mn_ranges *set, mn_wide first, mn_wide last);
void mn_ranges_free(struct mn_ranges *set);

#endif
