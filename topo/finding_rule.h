/* Between the files of the findings: the rules' functions and what they share. */
#ifndef MN_FINDING_RULE_H
#define MN_FINDING_RULE_H

#include "topo/finding.h"

typedef void mn_finding_check(const struct mn_finding_rule *rule, const struct mn_host *host,
                              struct mn_findings *found);

/* finding_net.c */
mn_finding_check mn_check_duplicate_address, mn_check_link_down, mn_check_no_address,
    mn_check_same_subnet, mn_check_port_idle;
/* finding_rdma.c */
mn_finding_check mn_check_rdma_no_netdev, mn_check_rdma_inactive, mn_check_gid_missing,
    mn_check_mtu, mn_check_bridged, mn_check_bonded, mn_check_memlock;
/* finding_pcie.c */
mn_finding_check mn_check_pcie_slow, mn_check_pcie_shared, mn_check_half_port;

/* A new finding with its NIC filled in; the caller fills seen, expected and fix. */
struct mn_finding *mn_finding_add(struct mn_findings *found, const struct mn_finding_rule *rule,
                                  const char *nic);
/* "ip address add 10.0.3.1/30 dev NIC  # other end: 10.0.3.2/30", a subnet no NIC here uses and
 * that differs from the one offered for every other NIC. */
void mn_finding_suggest_address(const struct mn_host *host, const struct mn_nic *nic, char *buf,
                                size_t size);

#endif
