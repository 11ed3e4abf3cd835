/* Cables of which one end has an address and the other none. */
#include "topo/address_impl.h"

#include <stdlib.h>

#include "topo/base/alloc.h"

static const struct mn_addr *first_addr(const struct mn_mesh_nic *nic, int family)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_address_is_of_cable(&nic->addrs[i], family))
            return &nic->addrs[i];
    return NULL;
}

/* The address next to it in its subnet. */
static struct mn_addr next_to(const struct mn_addr *addr)
{
    struct mn_range net = mn_subnet_range(addr);
    mn_wide number = mn_addr_number(addr);
    int whole = net.last - net.first == 1; /* no network's and no broadcast address */
    mn_wide last = whole || addr->family == AF_INET6 ? net.last : net.last - 1;

    number = number < last ? number + 1 : number - 1;
    return mn_addr_of_number(addr->family, addr->prefix, number);
}

static int by_subnet(const void *x, const void *y)
{
    const struct mn_cable *a = *(struct mn_cable *const *)x, *b = *(struct mn_cable *const *)y;
    mn_wide p = mn_subnet_range(&a->beside).first, q = mn_subnet_range(&b->beside).first;

    return p < q ? -1 : p > q;
}

/* Two in one subnet: neither can have it. */
static void drop_doubles(struct mn_address_work *w, struct mn_cable **halves, size_t count)
{
    struct mn_cable *widest = NULL;

    if (count)
        qsort(halves, count, sizeof *halves, by_subnet);
    for (size_t i = 0; i < count; i++) {
        struct mn_range net = mn_subnet_range(&halves[i]->beside);
        if (mn_ranges_hit(&w->used, net.first, net.last))
            halves[i]->beside_side = -1;
        if (widest && net.first <= mn_subnet_range(&widest->beside).last)
            widest->beside_side = halves[i]->beside_side = -1;
        if (!widest || net.last > mn_subnet_range(&widest->beside).last)
            widest = halves[i];
    }
    for (size_t i = 0; i < count; i++)
        if (halves[i]->beside_side < 0)
            halves[i]->beside.family = 0;
}

void mn_address_find_halves(struct mn_address_work *w)
{
    struct mn_cable **halves = mn_zalloc((w->mesh->n_links + 1) * sizeof *halves);
    size_t count = 0;

    for (struct mn_cable *c = w->cables; c < w->cables + w->mesh->n_links; c++) {
        const struct mn_addr *ends[2];
        for (int side = 0; side < 2; side++)
            ends[side] = first_addr(mn_address_nic(w, c->link, side), w->plan->family);
        if (c->net.family || w->plan->renumber || !ends[0] == !ends[1])
            continue;
        c->beside_side = ends[0] != NULL;
        /* Another cable's, of this NIC. */
        if (!*mn_address_strip(w, c->link, !c->beside_side))
            continue;
        c->beside = next_to(ends[!c->beside_side]);
        halves[count++] = c;
    }
    drop_doubles(w, halves, count);
    for (size_t i = 0; i < count; i++) {
        if (!halves[i]->beside.family)
            continue;
        *mn_address_strip(w, halves[i]->link, !halves[i]->beside_side) = 0;
        mn_address_use(w, &halves[i]->beside);
    }
    mn_ranges_sort(&w->used);
    free(halves);
}
