/* Routes and neighbours from the kernel. Apart from links and addresses, which the plugin reads
 * too.
 */
#include "topo/nic_read.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"

/* 1 and *addr, or 0: absent or of another family. A default route's destination may have no bytes.
 */
static int to_addr(const struct nl_addr *from, int family, struct mn_addr *addr)
{
    memset(addr, 0, sizeof *addr);
    if (!from || (family != AF_INET && family != AF_INET6))
        return 0;
    unsigned len = nl_addr_get_len(from);
    if (len && len != (family == AF_INET ? 4u : 16u))
        return 0;
    addr->family = family;
    addr->prefix = (int)nl_addr_get_prefixlen(from);
    memcpy(addr->bytes, nl_addr_get_binary_addr(from), len);
    return 1;
}

static void add_route(struct mn_host *host, struct rtnl_route *entry)
{
    int family = rtnl_route_get_family(entry);
    struct mn_route route;
    if (rtnl_route_get_table(entry) != RT_TABLE_MAIN || rtnl_route_get_type(entry) != RTN_UNICAST ||
        !to_addr(rtnl_route_get_dst(entry), family, &route.to))
        return;
    for (int i = 0; i < rtnl_route_get_nnexthops(entry); i++) {
        struct rtnl_nexthop *hop = rtnl_route_nexthop_n(entry, i);
        const struct nl_addr *via = rtnl_route_nh_get_gateway(hop);
        if (!via)
            via = rtnl_route_nh_get_via(hop);
        route.ifindex = rtnl_route_nh_get_ifindex(hop);
        to_addr(via, via ? nl_addr_get_family(via) : AF_UNSPEC, &route.via);
        mn_host_add_route(host, &route);
    }
}

/* rtnl_route_alloc_cache() of libnl 3.7 loses a table when it fails. */
int mn_nl_routes(struct nl_sock *sock, struct nl_cache **routes)
{
    int code = nl_cache_alloc_name("route/route", routes);

    if (code < 0)
        return code;
    code = nl_cache_refill(sock, *routes);
    if (code < 0) {
        nl_cache_free(*routes);
        *routes = NULL;
    }
    return code;
}

static void read_routes(struct nl_sock *sock, struct mn_host *host)
{
    struct nl_cache *routes = NULL;
    int code = mn_nl_routes(sock, &routes);
    if (code < 0) {
        MN_INFO("the kernel does not list routes: %s", nl_geterror(code));
        return;
    }
    for (struct nl_object *obj = nl_cache_get_first(routes); obj; obj = nl_cache_get_next(obj))
        add_route(host, (struct rtnl_route *)obj);
    nl_cache_free(routes);
}

/* Those that have answered once; a question without an answer names nobody. */
static int neighbour(struct rtnl_neigh *entry, struct mn_neighbour *to)
{
    const struct nl_addr *mac = rtnl_neigh_get_lladdr(entry);
    int state = rtnl_neigh_get_state(entry);
    to->ifindex = rtnl_neigh_get_ifindex(entry);
    if (!mac || nl_addr_get_len(mac) == 0 || nl_addr_get_len(mac) > sizeof to->mac || state < 0 ||
        !(state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)) ||
        !to_addr(rtnl_neigh_get_dst(entry), rtnl_neigh_get_family(entry), &to->addr))
        return 0;
    to->mac_size = nl_addr_get_len(mac);
    memcpy(to->mac, nl_addr_get_binary_addr(mac), to->mac_size);
    return 1;
}

static enum mn_err read_neighbours(struct nl_sock *sock, struct mn_host *host, struct mn_diag *diag)
{
    struct nl_cache *cache = NULL;
    struct mn_neighbour *list = NULL, found;
    size_t count = 0;
    enum mn_err err = MN_OK;
    int code = rtnl_neigh_alloc_cache(sock, &cache);
    if (code < 0) {
        MN_INFO("the kernel does not list neighbours: %s", nl_geterror(code));
        return MN_OK;
    }
    for (struct nl_object *obj = nl_cache_get_first(cache); obj && !err;
         obj = nl_cache_get_next(obj)) {
        memset(&found, 0, sizeof found);
        if (!neighbour((struct rtnl_neigh *)obj, &found))
            continue;
        struct mn_neighbour *place = mn_push(&list, &count, sizeof *place, diag);
        if (place)
            *place = found;
        err = place ? MN_OK : MN_ERR_NOMEM;
    }
    nl_cache_free(cache);
    if (!err)
        mn_host_count_neighbours(host, list, count);
    free(list);
    return err;
}

enum mn_err mn_host_around(const struct mn_host_source *src, struct mn_host *host,
                           struct mn_diag *diag)
{
    struct nl_sock *sock;
    if (src && src->sysfs)
        return MN_OK;
    enum mn_err err = mn_nl_open(&sock, diag);
    if (err)
        return err;
    read_routes(sock, host);
    err = read_neighbours(sock, host, diag);
    nl_socket_free(sock);
    return err;
}

static enum mn_err add_destination(struct rtnl_route *entry, struct mn_destination **list,
                                   size_t *count, struct mn_diag *diag)
{
    struct mn_addr to;
    int hops = rtnl_route_get_nnexthops(entry), type = rtnl_route_get_type(entry);

    if (rtnl_route_get_table(entry) == RT_TABLE_LOCAL || type == RTN_LOCAL ||
        type == RTN_BROADCAST || type == RTN_MULTICAST || type == RTN_ANYCAST ||
        !to_addr(rtnl_route_get_dst(entry), rtnl_route_get_family(entry), &to))
        return MN_OK;
    for (int i = 0; i < hops || i == 0; i++) {
        struct mn_destination *place = mn_push(list, count, sizeof *place, diag);
        if (!place)
            return MN_ERR_NOMEM;
        place->to = to;
        place->ifindex = hops ? rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(entry, i)) : 0;
    }
    return MN_OK;
}

enum mn_err mn_host_destinations(struct mn_destination **list, size_t *count, struct mn_diag *diag)
{
    struct nl_cache *routes = NULL;
    struct nl_sock *sock;

    *list = NULL;
    *count = 0;
    enum mn_err err = mn_nl_open(&sock, diag);
    if (err)
        return err;
    int code = mn_nl_routes(sock, &routes);
    if (code < 0)
        MN_INFO("the kernel does not list routes: %s", nl_geterror(code));
    for (struct nl_object *obj = code < 0 ? NULL : nl_cache_get_first(routes); obj && !err;
         obj = nl_cache_get_next(obj))
        err = add_destination((struct rtnl_route *)obj, list, count, diag);
    nl_cache_free(routes);
    nl_socket_free(sock);
    if (err) {
        free(*list);
        *list = NULL;
        *count = 0;
    }
    return err;
}
