/* Routes with more than their text says, which could not be put back. libnl leaves out what it does
 * not know of them: messages are read here. */
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <string.h>

#include "fleet/apply_nexthop.h"

struct odd {
    void (*each)(int ifindex, const char *text, const char *why, void *context);
    void *context;
    struct mn_nexthops objects;
};

static const struct {
    int attr;
    const char *why;
} odd_attrs[] = {{RTA_NH_ID, "it is by a nexthop object"},
                 {RTA_ENCAP, "it wraps packets (encap)"},
                 {RTA_VIA, "its gateway is of another family"}};

static const char *why_of(struct nlattr *const a[RTA_MAX + 1])
{
    for (size_t i = 0; i < sizeof odd_attrs / sizeof *odd_attrs; i++)
        if (a[odd_attrs[i].attr])
            return odd_attrs[i].why;
    return NULL;
}

static const char *why_of_ways(struct nlattr *ways)
{
    struct nlattr *a[RTA_MAX + 1];
    const char *why = NULL;
    struct rtnexthop *way = nla_data(ways);

    for (int left = nla_len(ways); !why && left >= (int)sizeof *way && RTNH_OK(way, left);) {
        int size = RTNH_ALIGN(way->rtnh_len);
        if (nla_parse(a, RTA_MAX, (struct nlattr *)(void *)RTNH_DATA(way),
                      (int)way->rtnh_len - (int)RTNH_LENGTH(0), NULL) >= 0)
            why = why_of(a);
        left -= size;
        way = RTNH_NEXT(way);
    }
    return why;
}

/* What did not fit is left out by whole ways. */
static void cut_ways(char *text)
{
    char *last = NULL, *at = text;

    while ((at = strstr(at, " nexthop ")) != NULL)
        last = at++;
    if (last && strlen(text) + 1 >= MN_ROUTE_TEXT)
        *last = '\0';
}

static int on_message(struct nl_msg *msg, void *context)
{
    static const struct nla_policy rules[RTA_MAX + 1] = {[RTA_NH_ID] = {.type = NLA_U32}};
    struct odd *odd = context;
    struct nlmsghdr *head = nlmsg_hdr(msg);
    struct nlattr *a[RTA_MAX + 1];
    const struct rtmsg *m = nlmsg_data(head);
    struct rtnl_route *route = NULL;
    char text[MN_ROUTE_TEXT] = "";

    if (head->nlmsg_type != RTM_NEWROUTE || nlmsg_parse(head, sizeof *m, a, RTA_MAX, rules) < 0 ||
        (m->rtm_family != AF_INET && m->rtm_family != AF_INET6) || m->rtm_type != RTN_UNICAST ||
        (m->rtm_flags & RTM_F_CLONED) || rtnl_route_parse(head, &route) < 0)
        return NL_OK;
    if (a[RTA_NH_ID] && !rtnl_route_get_nnexthops(route))
        mn_nexthops_put(&odd->objects, nla_get_u32(a[RTA_NH_ID]), route);
    const char *why = why_of(a);
    if (!why && a[RTA_MULTIPATH])
        why = why_of_ways(a[RTA_MULTIPATH]);
    if (!mn_route_text(route, text) && !why)
        why = "it is longer than what can be kept of one";
    cut_ways(text);
    for (int i = 0; why && text[0] && i < rtnl_route_get_nnexthops(route); i++)
        odd->each(rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(route, i)), text, why,
                  odd->context);
    rtnl_route_put(route);
    return NL_OK;
}

enum mn_err mn_kernel_each_odd_route(const struct mn_kernel *kernel,
                                     void (*each)(int ifindex, const char *text, const char *why,
                                                  void *context),
                                     void *context, struct mn_diag *diag)
{
    struct rtmsg all = {.rtm_family = AF_UNSPEC};
    struct odd odd = {.each = each, .context = context};
    enum mn_err err = mn_nexthops_read(kernel, &odd.objects, diag);
    int code = 0;

    if (!err)
        code = mn_kernel_dump(kernel, RTM_GETROUTE, &all, sizeof all, on_message, &odd);
    mn_nexthops_free(&odd.objects);
    if (err)
        return err;
    return code < 0 ? mn_fail(diag, MN_ERR_SYS, "netlink: listing routes: %s", nl_geterror(code))
                    : MN_OK;
}
