/* What a NIC's driver counts, by ethtool's netlink: FEC, pause frames and the standard statistics.
 */
#ifndef MN_ETHTOOL_H
#define MN_ETHTOOL_H

#include <stdint.h>

#include "topo/base/err.h"

struct mn_ethtool;

/* MN_ERR_UNSUPPORTED where the kernel has no such netlink. End with mn_ethtool_close. */
enum mn_err mn_ethtool_open(struct mn_ethtool **ethtool, struct mn_diag *diag);
/* Calls count for each counter that the driver has; one that has none is no error. */
void mn_ethtool_counters(struct mn_ethtool *ethtool, const char *netdev,
                         void (*count)(void *ctx, const char *name, uint64_t value), void *ctx);
void mn_ethtool_close(struct mn_ethtool *ethtool); /* NULL is fine */

#endif
