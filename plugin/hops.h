/* How far packets get on the way to an address over nodes that forward, for the message about a way
 * that is silent: UDP datagrams to the ports of traceroute(8), with hop limits from 1 on, whose
 * ICMP errors the kernel keeps (IP_RECVERR: ip(7), no privilege needed). Nothing here waits, and
 * nothing is decided by what is heard: ICMP proves nothing. One question serves all connections of
 * the process. Any thread. */
#ifndef MN_HOPS_H
#define MN_HOPS_H

#include "topo/nic.h"

#define MN_HOPS_MAX 8

enum mn_hop_kind {
    MN_HOP_SILENT,
    MN_HOP_PASSES,  /* a node that forwards: the datagram's hop limit ended there */
    MN_HOP_REFUSES, /* a node that has no way on, or a firewall that says so */
    MN_HOP_ARRIVED  /* the address itself */
};

struct mn_hop {
    enum mn_hop_kind kind;
    struct mn_addr at; /* who said it */
    int forbidden;     /* it refuses because of a rule, not for want of a route */
};

/* Asks, and again those that were silent; seldom enough for an ICMP rate limit of one a second.
 * Call it as often as you like. via (family 0: none) and ifindex: what the routing table says now;
 * what was heard on another way is forgotten. */
void mn_hops_ask(const struct mn_addr *to, const struct mn_addr *via, int ifindex);
/* What has been heard so far, [0] of the first node on the way. Returns how many hops are known:
 * the number of the last one that is not silent. */
int mn_hops_heard(const struct mn_addr *to, struct mn_hop hops[MN_HOPS_MAX]);
/* Nobody needs to hear more for now. What was heard stays known for a minute. */
void mn_hops_rest(const struct mn_addr *to);

#endif
