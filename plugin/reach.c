#include "plugin/reach.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/neighbour.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "topo/base/alloc.h"

char *mn_reach_error(int error, char *text, size_t size)
{
    const char *what = strerror(error);

    if (error == EHOSTUNREACH || error == ETIMEDOUT)
        snprintf(text, size, "nobody answers (%s)", what);
    else if (error == ENETUNREACH)
        snprintf(text, size, "this host has no route there (%s): see ip route", what);
    else if (error == EACCES || error == EPERM)
        snprintf(text, size, "this host forbids it (%s): its own firewall, or a route of it", what);
    else if (error == EINVAL)
        snprintf(text, size, "this host drops it (%s): a blackhole among its routes?", what);
    else
        snprintf(text, size, "connecting: %s", what);
    return text;
}

/* The link that leads there: the one named, else the one whose subnet has the address. */
static int find_link(const char *netdev, const struct mn_addr *remote, char name[IF_NAMESIZE],
                     unsigned *flags)
{
    struct ifaddrs *list;
    int found = 0;

    if (getifaddrs(&list))
        return 0;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
        struct mn_addr own, mask;
        if (netdev) {
            found = !strcmp(at->ifa_name, netdev);
        } else if (at->ifa_addr && at->ifa_netmask && at->ifa_addr->sa_family == remote->family) {
            (void)mn_addr_from_sockaddr(at->ifa_addr, &own);
            at->ifa_netmask->sa_family = at->ifa_addr->sa_family;
            (void)mn_addr_from_sockaddr(at->ifa_netmask, &mask);
            found = !mn_addr_is_loopback(&own);
            for (size_t i = 0; i < sizeof mask.bytes && found; i++)
                found = !((own.bytes[i] ^ remote->bytes[i]) & mask.bytes[i]);
        }
        if (found) {
            mn_strlcpy(name, at->ifa_name, IF_NAMESIZE);
            *flags = at->ifa_flags;
        }
    }
    freeifaddrs(list);
    return found;
}

/* NUD_* of the address at that link; 0: the kernel does not know it. */
static int neighbour_state(const char *netdev, const struct mn_addr *remote)
{
    int family = remote->family, len = family == AF_INET6 ? 16 : 4, state = 0;
    struct nl_sock *sock = nl_socket_alloc();
    struct nl_cache *cache = NULL;
    struct nl_addr *addr = nl_addr_build(family, remote->bytes, (size_t)len);

    if (sock && addr && !nl_connect(sock, NETLINK_ROUTE) && !rtnl_neigh_alloc_cache(sock, &cache)) {
        struct rtnl_neigh *n = rtnl_neigh_get(cache, (int)if_nametoindex(netdev), addr);
        if (n) {
            state = rtnl_neigh_get_state(n);
            rtnl_neigh_put(n);
        }
    }
    if (cache)
        nl_cache_free(cache);
    if (addr)
        nl_addr_put(addr);
    if (sock)
        nl_socket_free(sock);
    return state;
}

char *mn_reach_why(const char *netdev, const struct mn_addr *remote, uint16_t port, char *text,
                   size_t size)
{
    const char *how = remote->family == AF_INET6 ? "neighbour discovery" : "ARP";
    char name[IF_NAMESIZE];
    unsigned flags = 0;
    int state = 0;

    if (find_link(netdev, remote, name, &flags)) {
        if (!(flags & IFF_UP)) {
            snprintf(text, size, "%s is down: ip link set %s up", name, name);
            return text;
        }
        if (!(flags & IFF_RUNNING)) {
            snprintf(text, size,
                     "%s has no carrier: the cable is out, or the port at its other end is down",
                     name);
            return text;
        }
        state = flags & IFF_LOOPBACK ? 0 : neighbour_state(name, remote);
    }
    if (state & NUD_REACHABLE)
        snprintf(text, size, "its host is there (%s) " MN_REACH_SILENT "%u: a firewall?", how,
                 port);
    else if (state & (NUD_INCOMPLETE | NUD_FAILED))
        snprintf(text, size,
                 "not even for the address (no answer to %s): check that the peer still has it, "
                 "and the cable",
                 how);
    else
        snprintf(text, size,
                 "check that the peer still has this address, the cable, and whether a firewall "
                 "drops port %u",
                 port);
    return text;
}
