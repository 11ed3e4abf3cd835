/* By which way this host sends to an address, as the kernel's routing table and rules say. Nothing
 * is sent. Asked by netlink (rtnetlink(7)), which needs no privilege. */
#ifndef MN_TOWARDS_H
#define MN_TOWARDS_H

#include "topo/nic.h"

struct mn_towards {
    struct mn_addr from; /* this host's address on that way; prefix -1 */
    struct mn_addr via;  /* the router; family 0: the address is on the link itself */
    int ifindex;
    int prefix; /* of the route's destination: 0 is a default route */
};

/* 1, or 0: there is no way, or the address is one of this host's own. */
int mn_towards(const struct mn_addr *to, struct mn_towards *way);

#endif
