/* How ranks that a launcher started find rank 0 when the launcher hands a line of text on: rank 0
 * listens at addresses of its host and says so, with a token; the others take the address that
 * they share a subnet with. */
#ifndef MN_MEET_H
#define MN_MEET_H

#include "fleet/group.h"

#define MN_MEET_LINE 2048

/* Addresses of this host's NICs, loopback and link-local ones left out; free(*addrs). */
enum mn_err mn_meet_addresses(struct mn_addr **addrs, size_t *count, struct mn_diag *diag);
/* Rank 0: makes a token, opens doors of the plan at loopback and at up to MN_GROUP_DOORS - 1 of the
 * addresses, and writes the line. */
enum mn_err mn_meet_open(struct mn_group_plan *plan, const struct mn_addr *addrs, size_t count,
                         char line[MN_MEET_LINE], struct mn_diag *diag);
/* The others: where to go, from the line and their own addresses. The line comes from a stranger:
 * MN_ERR_PROTO when it is none. host stays the caller's; the plan points to it. */
enum mn_err mn_meet_read(const char *line, const struct mn_addr *addrs, size_t count,
                         struct mn_group_plan *plan, char host[MN_ADDR_TEXT], struct mn_diag *diag);

#endif
