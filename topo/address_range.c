#include "topo/address_range.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

static int bits(int family)
{
    return family == AF_INET ? 32 : 128;
}

mn_wide mn_addr_number(const struct mn_addr *addr)
{
    mn_wide number = 0;

    for (int i = 0; i < bits(addr->family) / 8; i++)
        number = number << 8 | addr->bytes[i];
    return number;
}

struct mn_addr mn_addr_of_number(int family, int prefix, mn_wide number)
{
    struct mn_addr addr = {.family = family, .prefix = prefix};

    for (int i = bits(family) / 8; i-- > 0; number >>= 8)
        addr.bytes[i] = (uint8_t)number;
    return addr;
}

mn_wide mn_subnet_size(int family, int prefix)
{
    return prefix || family == AF_INET ? (mn_wide)1 << (bits(family) - prefix) : ~(mn_wide)0;
}

struct mn_range mn_subnet_range(const struct mn_addr *addr)
{
    struct mn_addr net = *addr;

    if (net.prefix < 0)
        net.prefix = bits(net.family);
    net = mn_addr_network(&net);
    mn_wide first = mn_addr_number(&net);
    return (struct mn_range){first, first + (mn_subnet_size(net.family, net.prefix) - 1)};
}

void mn_ranges_add(struct mn_ranges *set, struct mn_range range)
{
    *(struct mn_range *)mn_grow((void **)&set->items, &set->count, sizeof range) = range;
}

static int by_first(const void *x, const void *y)
{
    const struct mn_range *a = x, *b = y;

    return a->first < b->first ? -1 : a->first > b->first;
}

void mn_ranges_sort(struct mn_ranges *set)
{
    size_t kept = 0;

    if (set->count)
        qsort(set->items, set->count, sizeof *set->items, by_first);
    for (size_t i = 0; i < set->count; i++) {
        struct mn_range *last = kept ? &set->items[kept - 1] : NULL;
        if (last && set->items[i].first <= last->last) {
            if (set->items[i].last > last->last)
                last->last = set->items[i].last;
        } else {
            set->items[kept++] = set->items[i];
        }
    }
    set->count = kept;
}

const struct mn_range *mn_ranges_hit(const struct mn_ranges *set, mn_wide first, mn_wide last)
{
    size_t low = 0, high = set->count;

    /* The first that does not end before. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->items[middle].last < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->items[low].first <= last ? &set->items[low] : NULL;
}

void mn_ranges_free(struct mn_ranges *set)
{
    free(set->items);
    *set = (struct mn_ranges){.items = NULL};
}
