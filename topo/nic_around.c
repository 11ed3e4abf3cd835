/* What surrounds a NIC: routes through it, and how many others are in its subnets. */
#include "topo/nic_read.h"

#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX 256 /* told apart in one subnet */

static struct mn_nic *nic_at(struct mn_host *host, int ifindex)
{
    return (struct mn_nic *)(uintptr_t)mn_host_nic_by_index(host, ifindex);
}

/* 0.0.0.0/1 and 128.0.0.0/1 together are a default route that hides another. */
static int is_default(const struct mn_addr *to)
{
    return to->prefix <= 1;
}

void mn_host_add_route(struct mn_host *host, const struct mn_route *route)
{
    struct mn_nic *nic = nic_at(host, route->ifindex);
    if (!nic || nic->kind == MN_NIC_LOOPBACK)
        return;
    nic->default_route |= is_default(&route->to);
    if (!route->via.family || (nic->gateway.family && nic->gateway_prefix <= route->to.prefix))
        return;
    nic->gateway = route->via;
    nic->gateway.prefix = -1;
    nic->gateway_prefix = is_default(&route->to) ? 0 : route->to.prefix;
}

/* Of one subnet. A host is told by its MAC: it may have several addresses. */
static int count_in(const struct mn_nic *nic, const struct mn_addr *own,
                    const struct mn_neighbour *list, size_t count)
{
    const struct mn_neighbour *seen[HOSTS_MAX];
    int n = 0;
    for (size_t i = 0; i < count && n < HOSTS_MAX; i++) {
        struct mn_addr addr = list[i].addr;
        int k = 0;
        addr.prefix = own->prefix;
        if (list[i].ifindex != nic->ifindex || !mn_addr_share_subnet(own, &addr))
            continue;
        while (k < n && (seen[k]->mac_size != list[i].mac_size ||
                         memcmp(seen[k]->mac, list[i].mac, list[i].mac_size) != 0))
            k++;
        if (k == n)
            seen[n++] = &list[i];
    }
    return n;
}

void mn_host_count_neighbours(struct mn_host *host, const struct mn_neighbour *list, size_t count)
{
    for (size_t i = 0; i < host->n_nics; i++)
        for (size_t a = 0; a < host->nics[i].n_addrs; a++) {
            struct mn_nic *nic = &host->nics[i];
            /* Everybody on the wire has one, both functions of a port too. */
            if (mn_addr_is_link_local(&nic->addrs[a]))
                continue;
            int n = count_in(nic, &nic->addrs[a], list, count);
            nic->hosts = n > nic->hosts ? n : nic->hosts;
        }
}
