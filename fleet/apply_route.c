/* Routes as texts: "10.0.3.0/31 via 10.0.1.1 metric 100 src 10.0.1.0 proto
 * static scope link table 101", in that order; what is not said is the kernel's default. */
#include "fleet/apply_kernel.h"

#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define ROUTE_TEXT 256

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

/* The kernel makes it with an address and takes it away again with it. */
static int goes_with_address(const struct mn_kernel *kernel, struct rtnl_route *route,
                             const struct mn_addr *to, int ifindex)
{
    char **have;
    int goes = 0;

    if (rtnl_route_get_protocol(route) != RTPROT_KERNEL)
        return 0;
    if (mn_addr_is_link_local(to) || (to->family == AF_INET6 && to->bytes[0] == 0xff))
        return 1;
    size_t n = mn_kernel_addresses(kernel, ifindex, &have);
    for (size_t i = 0; i < n; i++) {
        struct mn_addr addr, net;
        char plain[MN_ADDR_TEXT];
        snprintf(plain, sizeof plain, "%.*s", (int)strcspn(have[i], " "), have[i]);
        if (mn_address_has_own_route(have[i]) || mn_addr_parse(plain, &addr, NULL))
            continue;
        net = mn_addr_network(&addr);
        goes |= mn_addr_equal(&net, to) && net.prefix == to->prefix;
    }
    mn_texts_free(have, n);
    return goes;
}

__attribute__((format(printf, 2, 3))) static void append(char text[ROUTE_TEXT], const char *fmt,
                                                         ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text + used, ROUTE_TEXT - used, fmt, args);
    va_end(args);
}

static int route_text(const struct mn_kernel *kernel, struct rtnl_route *route, int ifindex,
                      char text[ROUTE_TEXT])
{
    int family = rtnl_route_get_family(route);
    char buf[MN_ADDR_TEXT], proto[32];
    struct mn_addr to, via, src;

    if ((family != AF_INET && family != AF_INET6) ||
        rtnl_route_get_table(route) == RT_TABLE_LOCAL ||
        rtnl_route_get_type(route) != RTN_UNICAST || rtnl_route_get_nnexthops(route) != 1 ||
        !to_addr(rtnl_route_get_dst(route), family, &to))
        return 0;
    struct rtnl_nexthop *hop = rtnl_route_nexthop_n(route, 0);
    if (rtnl_route_nh_get_ifindex(hop) != ifindex || goes_with_address(kernel, route, &to, ifindex))
        return 0;
    snprintf(text, ROUTE_TEXT, "%s", mn_addr_format(&to, buf, sizeof buf));
    if (to_addr(rtnl_route_nh_get_gateway(hop), family, &via)) {
        via.prefix = -1;
        append(text, " via %s", mn_addr_format(&via, buf, sizeof buf));
    }
    if (rtnl_route_get_priority(route))
        append(text, " metric %u", rtnl_route_get_priority(route));
    if (to_addr(rtnl_route_get_pref_src(route), family, &src)) {
        src.prefix = -1;
        append(text, " src %s", mn_addr_format(&src, buf, sizeof buf));
    }
    append(text, " proto %s",
           rtnl_route_proto2str(rtnl_route_get_protocol(route), proto, sizeof proto));
    if (family == AF_INET && rtnl_route_get_scope(route) == RT_SCOPE_LINK)
        append(text, " scope link");
    if (rtnl_route_get_table(route) != RT_TABLE_MAIN)
        append(text, " table %u", rtnl_route_get_table(route));
    return 1;
}

size_t mn_kernel_routes(const struct mn_kernel *kernel, int ifindex, char ***texts)
{
    char text[ROUTE_TEXT];
    size_t n = 0;

    *texts = NULL;
    for (struct nl_object *obj = nl_cache_get_first(kernel->routes); obj;
         obj = nl_cache_get_next(obj))
        if (route_text(kernel, (struct rtnl_route *)obj, ifindex, text))
            mn_text_push(texts, &n, text);
    return n;
}

/* Words asked for are all there: the kernel says more about a route than whoever asks for it. */
static int has_words(const char *have, const char *text)
{
    size_t len = strcspn(text, " ");

    if (strncmp(have, text, len) != 0 || (have[len] && have[len] != ' ') ||
        (strstr(have, " table ") && !strstr(text, " table ")))
        return 0;
    for (const char *at = text + len; *at;) {
        /* " word value" */
        size_t pair = 1 + strcspn(at + 1, " ");
        pair += at[pair] ? 1 + strcspn(at + pair + 1, " ") : 0;
        const char *found = memmem(have, strlen(have), at, pair);
        if (!found || (found[pair] && found[pair] != ' '))
            return 0;
        at += pair;
    }
    return 1;
}

char *mn_kernel_find_route(const struct mn_kernel *kernel, int ifindex, const char *text)
{
    char **have, *found = NULL;
    size_t n = mn_kernel_routes(kernel, ifindex, &have);

    for (size_t i = 0; i < n && !found; i++)
        if (has_words(have[i], text))
            found = mn_strdup(have[i]);
    mn_texts_free(have, n);
    return found;
}

int mn_kernel_has_route(const struct mn_kernel *kernel, int ifindex, const char *text)
{
    char *found = mn_kernel_find_route(kernel, ifindex, text);
    int there = found != NULL;

    free(found);
    return there;
}

void mn_kernel_each_route(const struct mn_kernel *kernel,
                          void (*each)(const char *nic, int ifindex, const char *text,
                                       void *context),
                          void *context)
{
    for (struct nl_object *obj = nl_cache_get_first(kernel->links); obj;
         obj = nl_cache_get_next(obj)) {
        struct rtnl_link *link = (struct rtnl_link *)obj;
        char **have;
        if (rtnl_link_get_family(link) != AF_UNSPEC)
            continue;
        int ifindex = rtnl_link_get_ifindex(link);
        size_t n = mn_kernel_routes(kernel, ifindex, &have);
        for (size_t i = 0; i < n; i++)
            each(rtnl_link_get_name(link), ifindex, have[i], context);
        mn_texts_free(have, n);
    }
}

/* The kernel has one route for each destination and metric; IPv6's is 1024 where none is given. */
static int is_rival(const char *have, const char *to)
{
    size_t len = strlen(to);
    const char *metric = strstr(have, " metric ");

    return !strncmp(have, to, len) && have[len] == ' ' && !strstr(have, " table ") &&
           (strchr(to, ':') ? metric && strtoul(metric + 8, NULL, 10) == 1024 : !metric);
}

char *mn_kernel_rival(const struct mn_kernel *kernel, const char *to, size_t *at,
                      char nic[IF_NAMESIZE])
{
    size_t nth = 0;

    for (struct nl_object *obj = nl_cache_get_first(kernel->links); obj;
         obj = nl_cache_get_next(obj)) {
        struct rtnl_link *link = (struct rtnl_link *)obj;
        char **have, *found = NULL;
        if (rtnl_link_get_family(link) != AF_UNSPEC)
            continue;
        size_t n = mn_kernel_routes(kernel, rtnl_link_get_ifindex(link), &have);
        for (size_t i = 0; i < n && !found; i++)
            if (is_rival(have[i], to) && nth++ == *at)
                found = mn_strdup(have[i]);
        mn_texts_free(have, n);
        if (!found)
            continue;
        (*at)++;
        mn_strlcpy(nic, rtnl_link_get_name(link), IF_NAMESIZE);
        return found;
    }
    return NULL;
}

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

/* The word and its value into route or hop; 0: not understood. */
static int take_word(struct rtnl_route *route, struct rtnl_nexthop *hop, int *family,
                     const char *word, const char *value)
{
    struct nl_addr *addr = NULL;
    int proto;

    if (!strcmp(word, "via") || !strcmp(word, "src")) {
        addr = nl_addr_of(value, family);
        if (addr && *word == 'v')
            rtnl_route_nh_set_gateway(hop, addr);
        else if (addr)
            rtnl_route_set_pref_src(route, addr);
        nl_addr_put(addr);
        return addr != NULL;
    }
    if (!strcmp(word, "table"))
        rtnl_route_set_table(route, (uint32_t)strtoul(value, NULL, 10));
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
        return 0;
    return 1;
}

static int parse(const char *text, struct rtnl_route *route, struct rtnl_nexthop *hop)
{
    char buf[ROUTE_TEXT], *rest = buf, *to, *word, *value;
    int family = 0, good;

    good = mn_strlcpy(buf, text, sizeof buf) && (to = strsep(&rest, " "));
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
    while (good && rest) {
        word = strsep(&rest, " ");
        value = strsep(&rest, " ");
        good = value && take_word(route, hop, &family, word, value);
    }
    return good;
}

enum mn_err mn_kernel_set_route(struct mn_kernel *kernel, const struct mn_change *change,
                                int ifindex, const char *text, int on, struct mn_diag *diag)
{
    struct rtnl_route *route = rtnl_route_alloc();
    struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
    enum mn_err err = MN_OK;

    if (!route || !hop) {
        err = mn_fail(diag, MN_ERR_NOMEM, "no memory for a route");
    } else if (!parse(text, route, hop)) {
        err =
            mn_fail(diag, MN_ERR_PROTO, "%s: no route can be read from \"%s\"", change->nic, text);
    } else {
        rtnl_route_nh_set_ifindex(hop, ifindex);
        rtnl_route_add_nexthop(route, hop);
        hop = NULL; /* the route's */
        int code = on ? rtnl_route_add(kernel->sock, route, NLM_F_CREATE | NLM_F_EXCL)
                      : rtnl_route_delete(kernel->sock, route, 0);
        /* So it is already; or another stands in its place, which whoever looks again will see. */
        if (code == (on ? -NLE_EXIST : -NLE_OBJ_NOTFOUND) || (!on && code == -NLE_FAILURE))
            code = 0;
        err = code < 0 ? mn_kernel_failed(diag, change, text, code) : MN_OK;
    }
    if (hop)
        rtnl_route_nh_free(hop);
    if (route)
        rtnl_route_put(route);
    return err;
}
