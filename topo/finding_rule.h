/* Between the files of the findings: the rules' functions and what they share. */
#ifndef MN_FINDING_RULE_H
#define MN_FINDING_RULE_H

#include "topo/finding.h"

typedef void mn_finding_check(const struct mn_finding_rule *rule, const struct mn_host *host,
                              struct mn_findings *found);

/* finding_net.c */
mn_finding_check mn_check_duplicate_address, mn_check_link_down, mn_check_no_address,
    mn_check_same_subnet, mn_check_peer_address, mn_check_port_idle;
/* finding_rdma.c */
mn_finding_check mn_check_rdma_no_netdev, mn_check_rdma_inactive, mn_check_gid_missing,
    mn_check_mtu, mn_check_bridged, mn_check_bonded, mn_check_memlock;
/* finding_pcie.c */
mn_finding_check mn_check_pcie_slow, mn_check_pcie_shared, mn_check_half_port;

/* finding_file.c */
mn_finding_check mn_check_file_missing, mn_check_file_other, mn_check_file_address,
    mn_check_file_device, mn_check_file_mtu, mn_check_file_speed, mn_check_file_gid,
    mn_check_file_management, mn_check_file_extra;

/* The NIC of the file in force that nic is, or NULL. */
const struct mn_mesh_nic *mn_finding_file_nic(const struct mn_findings *found,
                                              const struct mn_host *host, const struct mn_nic *nic);
/* The first address that the file has for nic and the host has not there, or NULL. */
const struct mn_addr *mn_finding_file_addr(const struct mn_findings *found,
                                           const struct mn_host *host, const struct mn_nic *nic);

/* A new finding with its NIC filled in; the caller fills seen, expected and fix. */
struct mn_finding *mn_finding_add(struct mn_findings *found, const struct mn_finding_rule *rule,
                                  const char *nic);
/* Into f->fix, behind what stands there: "ip address add 10.0.3.1/30 dev NIC  # other end:
 * 10.0.3.2/30". The file's address, and its line in f; else a subnet that no NIC here or in the
 * file uses and that differs from the one offered for every other NIC. */
void mn_finding_suggest_address(const struct mn_findings *found, const struct mn_host *host,
                                const struct mn_nic *nic, struct mn_finding *f);

#endif
