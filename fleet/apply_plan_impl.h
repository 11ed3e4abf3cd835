/* Between fleet/apply_plan.c, apply_differ.c and apply_back.c. */
#ifndef MN_APPLY_PLAN_IMPL_H
#define MN_APPLY_PLAN_IMPL_H

#include "fleet/apply_kernel.h"

/* A NIC that the mesh file configures, and the host's. */
struct mn_apply_pair {
    struct mn_mesh_nic *want;
    const struct mn_nic *have;
    int taken;
    const struct mn_kernel *kernel;
    char **addrs; /* there now */
    size_t n_addrs;
    const struct mn_apply_pair *all; /* that are configured with it, and it */
    size_t n_all;
};

/* Each adds changes; NULL at the end. */
extern void (*const mn_pair_steps[])(struct mn_changes *list, const struct mn_apply_pair *pair);
/* Routes of all NICs that go with addresses that are not wanted. */
void mn_pair_drop_routes(struct mn_changes *list, const struct mn_apply_pair *pair);
/* MN_ERR_CONFIG: one of them could not be put back. */
enum mn_err mn_pair_keep_routes(const struct mn_apply_pair *pair, struct mn_diag *diag);
/* Why it is not to be changed so unless it is taken; NULL: it may be. */
const char *mn_pair_guarded(const struct mn_apply_pair *pair, const struct mn_changes *list);
/* By "NIC", or "NODE/NIC". */
int mn_apply_taken(const struct mn_apply_want *want, const char *netdev, const char *name);

#endif
