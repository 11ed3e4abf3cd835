/* Why a peer's port does not answer, as far as this host's kernel knows: its links, their carriers
 * and the neighbour tables (ARP, IPv6 neighbour discovery). Nothing is sent. */
#ifndef MN_REACH_H
#define MN_REACH_H

#include <stdint.h>

#include "topo/nic.h"

/* The outcome of a connect(), but for ECONNREFUSED, which its callers know more of. Returns text.
 */
char *mn_reach_error(int error, char *text, size_t size);
#define MN_REACH_SILENT                                                                            \
    "and silent at port " /* before the port's number, of a host that is there */

/* What to look at when nobody answers. netdev: the link it goes over, NULL = to be found by its
 * subnet. Returns text. */
char *mn_reach_why(const char *netdev, const struct mn_addr *remote, uint16_t port, char *text,
                   size_t size);

#endif
