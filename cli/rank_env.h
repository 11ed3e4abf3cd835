/* A rank that another launcher started (mpirun, srun, torchrun): see fleet/launch_env.h. */
#ifndef MN_RANK_ENV_H
#define MN_RANK_ENV_H

#include "fleet/group.h"

/* What users add where the launcher does not say enough. */
struct mn_rank_options {
    const char *coordinator, *token_file; /* NULL = not given */
    long port;
};

/* Whether variables of a launcher, or PMIx, say that this process is a rank. */
enum mn_err mn_rank_launched(int *launched, struct mn_diag *diag);
/* Fills rank, size, token and meeting place of the plan; rank 0 listens there. */
enum mn_err mn_rank_meet(struct mn_group_plan *plan, const struct mn_rank_options *options,
                         struct mn_diag *diag);
/* Of the file, else of $MESHNET_TOKEN; which: what to write, for the message. */
enum mn_err mn_token_read(const char *file, const char *which, uint8_t token[MN_KEY_SIZE],
                          struct mn_diag *diag);

#endif
