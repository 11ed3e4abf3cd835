/* Which routes there are, and setting them; how they are written is in apply_route_text.c. */
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

/* The kernel makes it with an address and takes it away again with it. */
static int goes_with_address(const struct mn_kernel *kernel, struct rtnl_route *route, int ifindex)
{
    struct mn_addr dst, *to = &dst;
    char **have;
    int goes = 0;

    if (rtnl_route_get_protocol(route) != RTPROT_KERNEL || !mn_route_to(route, to))
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

static int leads_over(struct rtnl_route *route, int ifindex)
{
    for (int i = 0; i < rtnl_route_get_nnexthops(route); i++)
        if (rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(route, i)) == ifindex)
            return 1;
    return 0;
}

static int text_of(const struct mn_kernel *kernel, struct rtnl_route *route, int ifindex,
                   char text[MN_ROUTE_TEXT])
{
    return leads_over(route, ifindex) && rtnl_route_get_table(route) != RT_TABLE_LOCAL &&
           !goes_with_address(kernel, route, ifindex) && mn_route_text(route, text);
}

size_t mn_kernel_routes(const struct mn_kernel *kernel, int ifindex, char ***texts)
{
    char text[MN_ROUTE_TEXT];
    size_t n = 0;

    *texts = NULL;
    for (struct nl_object *obj = nl_cache_get_first(kernel->routes); obj;
         obj = nl_cache_get_next(obj))
        if (text_of(kernel, (struct rtnl_route *)obj, ifindex, text))
            mn_text_push(texts, &n, text);
    return n;
}

/* Words asked for are all there: the kernel says more about a route than whoever asks for it. */
static int has_words(const char *have, const char *text)
{
    size_t len = strcspn(text, " ");

    /* One of several ways is another route than that way alone. */
    if (strstr(have, " nexthop ") || strstr(text, " nexthop "))
        return !strcmp(have, text);
    if (strncmp(have, text, len) != 0 || (have[len] && have[len] != ' ') ||
        (strstr(have, " table ") && !strstr(text, " table ")) ||
        (strstr(have, " tos ") && !strstr(text, " tos ")))
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

/* The kernel has one route for each destination, metric and TOS; IPv6's is 1024 where none is
 * given. */
static int is_rival(const char *have, const char *to)
{
    size_t len = strlen(to);
    const char *metric = strstr(have, " metric ");

    return !strncmp(have, to, len) && have[len] == ' ' && !strstr(have, " table ") &&
           !strstr(have, " tos ") &&
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

enum mn_err mn_kernel_set_route(struct mn_kernel *kernel, const struct mn_change *change,
                                int ifindex, const char *text, int on, struct mn_diag *diag)
{
    struct rtnl_route *route = rtnl_route_alloc();
    enum mn_err err = MN_OK;

    if (!route) {
        err = mn_fail(diag, MN_ERR_NOMEM, "no memory for a route");
    } else if (!mn_route_parse(text, ifindex, route)) {
        err =
            mn_fail(diag, MN_ERR_PROTO, "%s: no route can be read from \"%s\"", change->nic, text);
    } else {
        int code = on ? rtnl_route_add(kernel->sock, route, NLM_F_CREATE | NLM_F_EXCL)
                      : rtnl_route_delete(kernel->sock, route, 0);
        /* So it is already; or another stands in its place, which whoever looks again will see. */
        if (code == (on ? -NLE_EXIST : -NLE_OBJ_NOTFOUND) || (!on && code == -NLE_FAILURE))
            code = 0;
        err = code < 0 ? mn_kernel_failed(diag, change, text, code) : MN_OK;
    }
    if (route)
        rtnl_route_put(route);
    return err;
}
