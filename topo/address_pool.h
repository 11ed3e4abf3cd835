/* Out of which range the subnets of cables are taken. */
#ifndef MN_ADDRESS_POOL_H
#define MN_ADDRESS_POOL_H

#include "topo/taken.h"

/* Of a range that has room for so many subnets: /16 or wider, /48 for IPv6. */
int mn_pool_prefix(int family, int subnet_prefix, size_t subnets);
/* A private range of that prefix length that is nobody's, nor by habit: the lowest of those in
 * which nets (the cables' that there are) lie, else one for IPv4 always found in the same order and
 * one for IPv6 at random (RFC 4193). */
enum mn_err mn_pool_choose(int family, int prefix, const struct mn_addr *nets, size_t n_nets,
                           const struct mn_takens *taken, struct mn_addr *pool,
                           struct mn_diag *diag);

/* Why a NIC cannot have addresses of the range, "for loopback" say; NULL: it can. */
const char *mn_pool_reserved(const struct mn_addr *net);

#endif
