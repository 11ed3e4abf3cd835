/* What differs between a NIC as the mesh file wants it and as it is, and what goes along. */
#include <netlink/route/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fleet/apply_plan_impl.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

#define UPPER_DEPTH 8

static int parse_text(const char *text, struct mn_addr *addr)
{
    char plain[MN_ADDR_TEXT];

    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, " "), text);
    return !mn_addr_parse(plain, addr, NULL);
}

static int wanted(const struct mn_mesh_nic *nic, const char *text)
{
    struct mn_addr addr;

    for (size_t i = 0; parse_text(text, &addr) && i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], &addr) && nic->addrs[i].prefix == addr.prefix)
            return 1;
    return 0;
}

/* Of IPv6, an address that stands with another prefix length: that one's text. */
static const char *same_other_prefix(const struct mn_apply_pair *p, const struct mn_addr *want)
{
    struct mn_addr addr;

    for (size_t i = 0; i < p->n_addrs; i++)
        if (want->family == AF_INET6 && parse_text(p->addrs[i], &addr) &&
            mn_addr_equal(&addr, want) && addr.prefix != want->prefix)
            return p->addrs[i];
    return NULL;
}

static int is_replaced(const struct mn_apply_pair *p, const char *text)
{
    struct mn_addr addr;

    for (size_t i = 0; parse_text(text, &addr) && i < p->want->n_addrs; i++)
        if (addr.family == AF_INET6 && mn_addr_equal(&p->want->addrs[i], &addr))
            return 1;
    return 0;
}

/* What lies on a NIC and has no larger MTU than it: the kernel lowers it along, and forgets. */
static int is_upper(struct rtnl_link *link, int ifindex)
{
    static const char *const types[] = {"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"};
    const char *type = rtnl_link_get_type(link);
    int32_t elsewhere; /* the namespace whose numbers of links are meant, if not this one */

    if (!rtnl_link_get_link_netnsid(link, &elsewhere))
        return 0;
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i]))
            return rtnl_link_get_family(link) == AF_UNSPEC && rtnl_link_get_link(link) == ifindex &&
                   rtnl_link_get_ifindex(link) != ifindex;
    return 0;
}

/* Where another change has been there before, it goes on from there. */
static void set_mtu(struct mn_changes *list, const struct mn_nic *nic, int from, int to)
{
    char old[16], new[16];

    snprintf(old, sizeof old, "%d", from);
    snprintf(new, sizeof new, "%d", to);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind == MN_CHANGE_MTU && !strcmp(list->items[i].nic, nic->netdev))
            mn_strlcpy(old, list->items[i].to, sizeof old);
    if (strcmp(old, new) != 0)
        mn_change_add(list, MN_CHANGE_MTU, nic, NULL, old, new);
}

/* Before the NIC itself: going back they come after it. */
static void lower_uppers(struct mn_changes *list, const struct mn_kernel *kernel, int ifindex,
                         int mtu, int depth)
{
    for (struct nl_object *at = nl_cache_get_first(kernel->links); at; at = nl_cache_get_next(at)) {
        struct rtnl_link *link = (struct rtnl_link *)at;
        const struct nl_addr *mac = rtnl_link_get_addr(link);
        struct mn_nic nic = {.has_mac = mac && nl_addr_get_len(mac) == 6};
        int now = (int)rtnl_link_get_mtu(link);
        if (!is_upper(link, ifindex) || now <= mtu || depth == UPPER_DEPTH)
            continue;
        lower_uppers(list, kernel, rtnl_link_get_ifindex(link), mtu, depth + 1);
        mn_strlcpy(nic.netdev, rtnl_link_get_name(link), sizeof nic.netdev);
        if (nic.has_mac)
            memcpy(nic.mac, nl_addr_get_binary_addr(mac), sizeof nic.mac);
        set_mtu(list, &nic, now, mtu);
    }
}

static void add_mtu(struct mn_changes *list, const struct mn_apply_pair *p)
{
    if (!p->want->mtu || p->want->mtu == p->have->mtu)
        return;
    if (p->want->mtu < p->have->mtu)
        lower_uppers(list, p->kernel, p->have->ifindex, p->want->mtu, 0);
    set_mtu(list, p->have, p->have->mtu, p->want->mtu);
}

static void add_link(struct mn_changes *list, const struct mn_apply_pair *p)
{
    if (!p->have->admin_up)
        mn_change_add(list, MN_CHANGE_LINK, p->have, NULL, "down", "up");
}

static void add_addresses(struct mn_changes *list, const struct mn_apply_pair *p)
{
    char text[MN_ADDR_TEXT];

    for (size_t i = 0; i < p->want->n_addrs; i++) {
        const struct mn_addr *addr = &p->want->addrs[i];
        int there = 0;
        if (mn_addr_is_link_local(addr))
            continue;
        mn_addr_format(addr, text, sizeof text);
        for (size_t k = 0; k < p->n_addrs; k++)
            there |= strcspn(p->addrs[k], " ") == strlen(text) &&
                     !strncmp(p->addrs[k], text, strlen(text));
        if (!there)
            mn_change_add(list, MN_CHANGE_ADDRESS, p->have, NULL, same_other_prefix(p, addr), text);
    }
}

static int goes(const struct mn_apply_pair *p, const char *text)
{
    return !wanted(p->want, text) && !is_replaced(p, text);
}

static int reaches(const struct mn_addr *own, struct mn_addr gateway)
{
    gateway.prefix = own->prefix;
    return mn_addr_share_subnet(own, &gateway);
}

/* Its source is an address that goes; of whatever NIC. */
static int loses_source(const struct mn_apply_pair *p, const char *route)
{
    const char *src = strstr(route, " src ");
    struct mn_addr source, addr;

    for (size_t i = 0; src && parse_text(src + 5, &source) && i < p->n_addrs; i++)
        if (goes(p, p->addrs[i]) && parse_text(p->addrs[i], &addr) && mn_addr_equal(&addr, &source))
            return 1;
    return 0;
}

/* A NIC without any IPv4 address has no IPv4 routes. */
static int loses_all(const struct mn_apply_pair *p, const char *route)
{
    struct mn_addr addr;
    int gone = 0;

    if (!parse_text(route, &addr) || addr.family != AF_INET)
        return 0;
    for (size_t i = 0; i < p->n_addrs; i++)
        gone |= parse_text(p->addrs[i], &addr) && addr.family == AF_INET;
    for (size_t i = 0; i < p->want->n_addrs; i++)
        gone &= p->want->addrs[i].family != AF_INET;
    return gone;
}

/* The gateway lies in the subnet of an address that goes and of none that stays. A peer's address
 * is a subnet of its own. */
static int loses_gateway(const struct mn_apply_pair *p, const char *route)
{
    const char *via = strstr(route, " via "), *peer;
    struct mn_addr gateway, addr;
    int lost = 0, kept = 0;

    via = via && parse_text(via + 5, &gateway) ? via : NULL;
    for (size_t i = 0; i < p->n_addrs; i++) {
        if (!goes(p, p->addrs[i]) || !parse_text(p->addrs[i], &addr))
            continue;
        peer = strstr(p->addrs[i], " peer ");
        if (peer && !parse_text(peer + 6, &addr))
            continue;
        lost |= via && reaches(&addr, gateway);
    }
    for (size_t i = 0; i < p->want->n_addrs; i++)
        kept |= via && reaches(&p->want->addrs[i], gateway);
    return lost && !kept;
}

/* Over a NIC that is configured, too. */
static int loses_way(const struct mn_apply_pair *p, const char *route, const char *way)
{
    char dev[IF_NAMESIZE + 8];

    for (size_t i = 0; i < p->n_all; i++) {
        const struct mn_apply_pair *other = &p->all[i];
        snprintf(dev, sizeof dev, " dev %s ", other->have->netdev);
        if (strstr(way, dev))
            return other->want->role != MN_ROLE_MANAGEMENT &&
                   (loses_all(other, route) || loses_gateway(other, way));
    }
    return 0;
}

/* Of several ways all, be they over one NIC or over several: what is left of others stays. */
static int loses_ways(const struct mn_apply_pair *p, const char *route)
{
    char *copy = mn_strdup(route), *way = strstr(copy, " nexthop ");
    int every = 1;

    while (way) {
        char *next = strstr(way + 1, " nexthop ");
        if (next)
            *next = '\0';
        every &= loses_way(p, route, way);
        if (next)
            *next = ' ';
        way = next;
    }
    free(copy);
    return every;
}

/* It goes with the addresses: the kernel drops the route without a word, so that it is named here.
 */
static int loses(const struct mn_apply_pair *p, const char *route)
{
    if (loses_source(p, route))
        return 1;
    return strstr(route, " nexthop ") ? loses_ways(p, route)
                                      : loses_all(p, route) || loses_gateway(p, route);
}

struct losses {
    struct mn_changes *list;
    const struct mn_apply_pair *p;
};

/* One of several ways is met at each of its NICs. */
static int is_listed(const struct mn_changes *list, const char *nic, const char *route)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind == MN_CHANGE_ROUTE && list->items[i].from &&
            !strcmp(list->items[i].from, route) &&
            (strstr(route, " nexthop ") || !strcmp(list->items[i].nic, nic)))
            return 1;
    return 0;
}

static void drop_route(const char *nic, int ifindex, const char *text, void *context)
{
    const struct losses *l = context;
    int own = ifindex == l->p->have->ifindex;

    if ((own ? !loses(l->p, text) : !loses_source(l->p, text)) || is_listed(l->list, nic, text))
        return;
    struct mn_change *c =
        mn_change_add(l->list, MN_CHANGE_ROUTE, own ? l->p->have : NULL, NULL, text, NULL);
    mn_strlcpy(c->nic, nic, sizeof c->nic);
}

void mn_pair_drop_routes(struct mn_changes *list, const struct mn_apply_pair *p)
{
    mn_kernel_each_route(p->kernel, drop_route, &(struct losses){list, p});
}

struct refusal {
    const struct mn_apply_pair *p;
    struct mn_diag *diag;
    enum mn_err err;
};

static void refuse_route(int ifindex, const char *text, const char *why, void *context)
{
    struct refusal *r = context;
    int own = ifindex == r->p->have->ifindex;

    if (r->err || (own ? !loses(r->p, text) : !loses_source(r->p, text)))
        return;
    r->err = mn_fail(r->diag, MN_ERR_CONFIG,
                     "%s: the route %.300s would go with the addresses and could not be put back: "
                     "%s; nothing was changed: take the route away first and add it afterwards",
                     r->p->have->netdev, text, why);
}

enum mn_err mn_pair_keep_routes(const struct mn_apply_pair *p, struct mn_diag *diag)
{
    struct refusal r = {.p = p, .diag = diag};
    enum mn_err err = mn_kernel_each_odd_route(p->kernel, refuse_route, &r, diag);

    return err ? err : r.err;
}

static void drop_addresses(struct mn_changes *list, const struct mn_apply_pair *p)
{
    for (size_t i = 0; i < p->n_addrs; i++)
        if (goes(p, p->addrs[i]))
            mn_change_add(list, MN_CHANGE_ADDRESS, p->have, NULL, p->addrs[i], NULL);
}

/* New addresses come before old ones go: a NIC without any loses all its routes. */
void (*const mn_pair_steps[])(struct mn_changes *,
                              const struct mn_apply_pair *) = {add_mtu,        add_link,
                                                               add_addresses,  mn_pair_drop_routes,
                                                               drop_addresses, NULL};

/* --- what is left alone ----------------------------------------------------------------------- */

static const char *guarded(const struct mn_apply_pair *p)
{
    return p->taken                              ? NULL
           : p->have->default_route              ? "it has the default route"
           : p->have->role == MN_ROLE_MANAGEMENT ? p->have->role_why
           : p->have->master[0]                  ? "it is part of another interface"
                                                 : NULL;
}

/* The default route among them, which may be another NIC's. */
static const char *loses_default(const struct mn_apply_pair *p, const struct mn_changes *list)
{
    for (size_t i = 0; !p->taken && i < list->count; i++) {
        const struct mn_change *c = &list->items[i];
        if (c->kind == MN_CHANGE_ROUTE && c->from && !strstr(c->from, " table ") &&
            (!strncmp(c->from, "0.0.0.0/0 ", 10) || !strncmp(c->from, "::/0 ", 5)))
            return "the default route goes with its address";
    }
    return NULL;
}

const char *mn_pair_guarded(const struct mn_apply_pair *p, const struct mn_changes *list)
{
    const char *why = guarded(p);

    return why ? why : loses_default(p, list);
}
