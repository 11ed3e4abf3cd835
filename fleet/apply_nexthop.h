/* Nexthop objects (ip nexthop): with net.ipv4.nexthop_compat_mode 0 the kernel says of a route that
 * has one its number alone, and neither NIC nor gateway. */
#ifndef MN_APPLY_NEXTHOP_H
#define MN_APPLY_NEXTHOP_H

#include <netlink/route/route.h>

#include "fleet/apply_kernel.h"

struct mn_nexthops {
    struct mn_nexthop {
        uint32_t id;
        int family, ifindex; /* 0: a group, or nothing comes through */
        unsigned char gateway[16];
        size_t gateway_len;
        uint32_t *members; /* of a group */
        size_t n_members;
    } * items;
    size_t n;
};

/* All of them, to be freed in every case. */
enum mn_err mn_nexthops_read(const struct mn_kernel *kernel, struct mn_nexthops *all,
                             struct mn_diag *diag);
void mn_nexthops_free(struct mn_nexthops *all);
/* Gives a route the ways of that object. */
void mn_nexthops_put(const struct mn_nexthops *all, uint32_t id, struct rtnl_route *route);

#endif
