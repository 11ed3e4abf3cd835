#include "fleet/apply_nexthop.h"

#include <errno.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

static const struct mn_nexthop *find(const struct mn_nexthops *all, uint32_t id)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].id == id)
            return &all->items[i];
    return NULL;
}

static int on_message(struct nl_msg *msg, void *context)
{
    static const struct nla_policy rules[NHA_MAX + 1] =
        {[NHA_ID] = {.type = NLA_U32}, [NHA_OIF] = {.type = NLA_U32}};
    struct mn_nexthops *all = context;
    struct nlmsghdr *head = nlmsg_hdr(msg);
    const struct nhmsg *m = nlmsg_data(head);
    struct nlattr *a[NHA_MAX + 1];

    if (head->nlmsg_type != RTM_NEWNEXTHOP || nlmsg_parse(head, sizeof *m, a, NHA_MAX, rules) < 0 ||
        !a[NHA_ID])
        return NL_OK;
    struct mn_nexthop *hop = mn_grow((void **)&all->items, &all->n, sizeof *hop);
    hop->id = nla_get_u32(a[NHA_ID]);
    hop->family = m->nh_family;
    hop->ifindex = a[NHA_OIF] ? (int)nla_get_u32(a[NHA_OIF]) : 0;
    if (a[NHA_GATEWAY] && nla_len(a[NHA_GATEWAY]) <= (int)sizeof hop->gateway) {
        hop->gateway_len = (size_t)nla_len(a[NHA_GATEWAY]);
        memcpy(hop->gateway, nla_data(a[NHA_GATEWAY]), hop->gateway_len);
    }
    if (a[NHA_GROUP]) {
        hop->n_members = (size_t)nla_len(a[NHA_GROUP]) / sizeof(struct nexthop_grp);
        hop->members = mn_zalloc((hop->n_members + 1) * sizeof *hop->members);
        for (size_t i = 0; i < hop->n_members; i++)
            hop->members[i] = ((const struct nexthop_grp *)nla_data(a[NHA_GROUP]))[i].id;
    }
    return NL_OK;
}

enum mn_err mn_nexthops_read(const struct mn_kernel *kernel, struct mn_nexthops *all,
                             struct mn_diag *diag)
{
    struct nhmsg every = {.nh_family = AF_UNSPEC};

    *all = (struct mn_nexthops){.n = 0};
    int code = mn_kernel_dump(kernel, RTM_GETNEXTHOP, &every, sizeof every, on_message, all);
    if (code >= 0 || code == -NLE_OPNOTSUPP) /* Linux before 5.3 has none */
        return MN_OK;
    return mn_fail(diag, MN_ERR_SYS, "netlink: listing nexthop objects: %s", nl_geterror(code));
}

void mn_nexthops_free(struct mn_nexthops *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->items[i].members);
    free(all->items);
    *all = (struct mn_nexthops){.n = 0};
}

static void add(const struct mn_nexthop *one, struct rtnl_route *route)
{
    struct rtnl_nexthop *hop = one && one->ifindex ? rtnl_route_nh_alloc() : NULL;
    struct nl_addr *gateway =
        hop && one->gateway_len ? nl_addr_build(one->family, one->gateway, one->gateway_len) : NULL;

    if (!hop)
        return;
    rtnl_route_nh_set_ifindex(hop, one->ifindex);
    if (gateway)
        rtnl_route_nh_set_gateway(hop, gateway);
    nl_addr_put(gateway);
    rtnl_route_add_nexthop(route, hop);
}

void mn_nexthops_put(const struct mn_nexthops *all, uint32_t id, struct rtnl_route *route)
{
    const struct mn_nexthop *hop = find(all, id);

    if (hop && hop->n_members)
        for (size_t i = 0; i < hop->n_members; i++)
            add(find(all, hop->members[i]), route);
    else
        add(hop, route);
}
