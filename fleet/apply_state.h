/* A set of changes that is being tried on this host, or was kept: in a file that outlives its
 * process and a boot. */
#ifndef MN_APPLY_STATE_H
#define MN_APPLY_STATE_H

#include "fleet/apply.h"

/* How long a node may wait to be told to keep changes; less is too short for a check of them. */
#define MN_APPLY_ROLLBACK_MIN_MS 10000
#define MN_APPLY_ROLLBACK_MAX_MS (3600 * 1000)

#define MN_APPLY_ID 33 /* 32 hexadecimal digits: who has it may keep or undo the changes */

struct mn_apply_state {
    char id[MN_APPLY_ID];
    char who[128];   /* has them made, for people */
    char boot[40];   /* of the kernel that they were made in */
    long long since; /* seconds of the wall clock */
    unsigned rollback_ms;
    const struct mn_manager *manager;
    struct mn_changes kernel, files;
};

enum mn_apply_stage {
    MN_APPLY_PENDING, /* tried: /var/lib/meshnet/apply-pending.json */
    MN_APPLY_KEPT     /* the last that was kept: …/apply-kept.json */
};

/* Sets boot and since. */
void mn_apply_state_stamp(struct mn_apply_state *state);
enum mn_err mn_apply_state_write(enum mn_apply_stage stage, const struct mn_apply_state *state,
                                 struct mn_diag *diag);
/* MN_ERR_NOTFOUND: there is none. Free it, after an error too. */
enum mn_err mn_apply_state_read(enum mn_apply_stage stage, struct mn_apply_state *state,
                                struct mn_diag *diag);
void mn_apply_state_free(struct mn_apply_state *state);
/* The tried ones are kept from now on. */
enum mn_err mn_apply_state_keep(struct mn_diag *diag);
enum mn_err mn_apply_state_drop(enum mn_apply_stage stage, struct mn_diag *diag);

#endif
