/* Routes as texts: "10.0.3.0/31 via 10.0.1.1 metric 100 src 10.0.1.0 proto static scope link table
 * 101 tos 16 onlink 1 mtu 1400", in that order; what is not said is the kernel's default. Of
 * several ways each comes at the end: "nexthop via 10.0.1.1 dev p0 weight 1". */
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_kernel.h"
#include "topo/base/alloc.h"

/* What RTAX_LOCK has set of them the kernel does not change by itself. */
static const struct {
    const char *word;
    int number;
} metrics[] =
    {{"lock", RTAX_LOCK},         {"mtu", RTAX_MTU},           {"window", RTAX_WINDOW},
     {"rtt", RTAX_RTT},           {"rttvar", RTAX_RTTVAR},     {"ssthresh", RTAX_SSTHRESH},
     {"cwnd", RTAX_CWND},         {"advmss", RTAX_ADVMSS},     {"reordering", RTAX_REORDERING},
     {"hoplimit", RTAX_HOPLIMIT}, {"initcwnd", RTAX_INITCWND}, {"features", RTAX_FEATURES},
     {"rto_min", RTAX_RTO_MIN},   {"initrwnd", RTAX_INITRWND}, {"quickack", RTAX_QUICKACK}};
#define METRICS (sizeof metrics / sizeof *metrics)

static int to_addr(const struct nl_addr *from, int family, struct mn_addr *addr)
{
    unsigned len = from ? nl_addr_get_len(from) : 0;

    memset(addr, 0, sizeof *addr);
    if (!from || (len && len != (family == AF_INET ? 4u : 16u)))
        return 0;
    addr->family = family;
    addr->prefix = (int)nl_addr_get_prefixlen(from);
    memcpy(addr->bytes, nl_addr_get_binary_addr(from), len);
    return 1;
}

int mn_route_to(struct rtnl_route *route, struct mn_addr *to)
{
    int family = rtnl_route_get_family(route);

    return (family == AF_INET || family == AF_INET6) &&
           to_addr(rtnl_route_get_dst(route), family, to);
}

/* 0: it was cut. */
__attribute__((format(printf, 2, 3))) static int append(char text[MN_ROUTE_TEXT], const char *fmt,
                                                        ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(text + used, MN_ROUTE_TEXT - used, fmt, args);
    va_end(args);
    return n >= 0 && (size_t)n < MN_ROUTE_TEXT - used;
}

/* many: one of several. */
static int hop_text(struct rtnl_nexthop *hop, int family, int many, char text[MN_ROUTE_TEXT])
{
    char buf[MN_ADDR_TEXT], nic[IF_NAMESIZE];
    struct mn_addr via;
    /* Of a way of another family that is IPv6, which "via" does not say. */
    int good = !rtnl_route_nh_get_via(hop);

    if (many)
        good &= append(text, " nexthop");
    if (to_addr(rtnl_route_nh_get_gateway(hop), family, &via)) {
        via.prefix = -1;
        good &= append(text, " via %s", mn_addr_format(&via, buf, sizeof buf));
    }
    if (!many)
        return good;
    good &= if_indextoname((unsigned)rtnl_route_nh_get_ifindex(hop), nic) &&
            append(text, " dev %s weight %d", nic, rtnl_route_nh_get_weight(hop) + 1);
    if (rtnl_route_nh_get_flags(hop) & RTNH_F_ONLINK)
        good &= append(text, " onlink 1");
    return good;
}

int mn_route_text(struct rtnl_route *route, char text[MN_ROUTE_TEXT])
{
    int family = rtnl_route_get_family(route), n = rtnl_route_get_nnexthops(route);
    char buf[MN_ADDR_TEXT], proto[32];
    struct mn_addr to, src;
    uint32_t value;

    if (rtnl_route_get_type(route) != RTN_UNICAST || n < 1 || !mn_route_to(route, &to))
        return 0;
    struct rtnl_nexthop *hop = rtnl_route_nexthop_n(route, 0);
    snprintf(text, MN_ROUTE_TEXT, "%s", mn_addr_format(&to, buf, sizeof buf));
    int good = n > 1 || hop_text(hop, family, 0, text);
    if (rtnl_route_get_priority(route))
        good &= append(text, " metric %u", rtnl_route_get_priority(route));
    if (to_addr(rtnl_route_get_pref_src(route), family, &src)) {
        src.prefix = -1;
        good &= append(text, " src %s", mn_addr_format(&src, buf, sizeof buf));
    }
    good &= append(text, " proto %s",
                   rtnl_route_proto2str(rtnl_route_get_protocol(route), proto, sizeof proto));
    if (family == AF_INET && rtnl_route_get_scope(route) == RT_SCOPE_LINK)
        good &= append(text, " scope link");
    if (rtnl_route_get_table(route) != RT_TABLE_MAIN)
        good &= append(text, " table %u", rtnl_route_get_table(route));
    if (rtnl_route_get_tos(route))
        good &= append(text, " tos %u", rtnl_route_get_tos(route));
    if (n == 1 && (rtnl_route_nh_get_flags(hop) & RTNH_F_ONLINK))
        good &= append(text, " onlink 1");
    for (size_t i = 0; i < METRICS; i++)
        if (!rtnl_route_get_metric(route, metrics[i].number, &value))
            good &= append(text, " %s %u", metrics[i].word, value);
    for (int i = 0; i < n && n > 1; i++)
        good &= hop_text(rtnl_route_nexthop_n(route, i), family, 1, text);
    return good;
}

/* --- reading them ----------------------------------------------------------------------------- */

static struct nl_addr *nl_addr_of(const char *text, int *family)
{
    struct mn_addr addr;

    if (mn_addr_parse(text, &addr, NULL) || (*family && addr.family != *family))
        return NULL;
    *family = addr.family;
    struct nl_addr *nl = nl_addr_build(addr.family, addr.bytes, addr.family == AF_INET ? 4 : 16);
    if (nl && addr.prefix >= 0)
        nl_addr_set_prefixlen(nl, addr.prefix);
    return nl;
}

/* Each of these takes a word and its value. 0: not understood. */
static int take_metric(struct rtnl_route *route, const char *word, const char *value)
{
    for (size_t i = 0; i < METRICS; i++)
        if (!strcmp(word, metrics[i].word))
            return !rtnl_route_set_metric(route, metrics[i].number,
                                          (unsigned)strtoul(value, NULL, 10));
    return 0;
}

static int take_hop(struct rtnl_nexthop *hop, int *family, const char *word, const char *value)
{
    if (!strcmp(word, "via")) {
        struct nl_addr *addr = nl_addr_of(value, family);
        if (addr)
            rtnl_route_nh_set_gateway(hop, addr);
        nl_addr_put(addr);
        return addr != NULL;
    }
    if (!strcmp(word, "onlink")) {
        rtnl_route_nh_set_flags(hop, RTNH_F_ONLINK);
    } else if (!strcmp(word, "dev")) {
        rtnl_route_nh_set_ifindex(hop, (int)if_nametoindex(value));
        return if_nametoindex(value) != 0;
    } else if (!strcmp(word, "weight")) {
        unsigned long weight = strtoul(value, NULL, 10);
        rtnl_route_nh_set_weight(hop, (uint8_t)(weight - 1));
        return weight >= 1 && weight <= 256;
    } else {
        return 0;
    }
    return 1;
}

static int take_word(struct rtnl_route *route, int *family, const char *word, const char *value)
{
    int proto;

    if (!strcmp(word, "src")) {
        struct nl_addr *addr = nl_addr_of(value, family);
        if (addr)
            rtnl_route_set_pref_src(route, addr);
        nl_addr_put(addr);
        return addr != NULL;
    }
    if (!strcmp(word, "table"))
        rtnl_route_set_table(route, (uint32_t)strtoul(value, NULL, 10));
    else if (!strcmp(word, "tos"))
        rtnl_route_set_tos(route, (uint8_t)strtoul(value, NULL, 10));
    else if (!strcmp(word, "metric"))
        rtnl_route_set_priority(route, (uint32_t)strtoul(value, NULL, 10));
    else if (!strcmp(word, "proto") && (proto = rtnl_route_str2proto(value)) >= 0)
        rtnl_route_set_protocol(route, (uint8_t)proto);
    else if (!strcmp(word, "proto"))
        rtnl_route_set_protocol(route,
                                (uint8_t)strtoul(value + strcspn(value, "0123456789"), NULL, 0));
    else if (!strcmp(word, "scope"))
        rtnl_route_set_scope(route, RT_SCOPE_LINK);
    else
        return take_metric(route, word, value);
    return 1;
}

/* The route owns it; NULL: no memory. */
static struct rtnl_nexthop *add_hop(struct rtnl_route *route, int ifindex)
{
    struct rtnl_nexthop *hop = rtnl_route_nh_alloc();

    if (!hop)
        return NULL;
    rtnl_route_nh_set_ifindex(hop, ifindex);
    rtnl_route_add_nexthop(route, hop);
    return hop;
}

static int take_words(struct rtnl_route *route, int ifindex, int family, char *rest)
{
    int many = rest && strstr(rest, "nexthop ") != NULL;
    struct rtnl_nexthop *hop = many ? NULL : add_hop(route, ifindex);
    int good = many || hop;

    while (good && rest) {
        char *word = strsep(&rest, " ");
        if (many && !strcmp(word, "nexthop")) {
            good = (hop = add_hop(route, 0)) != NULL;
            continue;
        }
        const char *value = strsep(&rest, " ");
        good = value && ((hop && take_hop(hop, &family, word, value)) ||
                         take_word(route, &family, word, value));
    }
    return good;
}

int mn_route_parse(const char *text, int ifindex, struct rtnl_route *route)
{
    char buf[MN_ROUTE_TEXT], *rest = buf, *to;
    int family = 0;
    int good = mn_strlcpy(buf, text, sizeof buf) && (to = strsep(&rest, " "));
    struct nl_addr *dst = good ? nl_addr_of(to, &family) : NULL;

    if (!dst)
        return 0;
    rtnl_route_set_family(route, (uint8_t)family);
    good = rtnl_route_set_dst(route, dst) >= 0;
    nl_addr_put(dst);
    rtnl_route_set_table(route, RT_TABLE_MAIN);
    rtnl_route_set_protocol(route, RTPROT_STATIC);
    rtnl_route_set_scope(route, family == AF_INET && !strstr(text, " via ") ? RT_SCOPE_LINK
                                                                            : RT_SCOPE_UNIVERSE);
    return good && take_words(route, ifindex, family, rest);
}
