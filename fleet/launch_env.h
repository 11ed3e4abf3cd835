/* What a launcher that started this process tells of ranks in the environment. */
#ifndef MN_LAUNCH_ENV_H
#define MN_LAUNCH_ENV_H

#include <stdint.h>

#include "topo/base/err.h"

struct mn_launch_env {
    const char *launcher; /* "Open MPI"; NULL = none is seen */
    int rank, nranks;
    const char *address; /* where rank 0 is, NULL = not told */
    uint16_t port;       /* free for rank 0 to listen at, 0 = not told */
};

/* MN_ERR_CONFIG when a variable is no number, or no rank of so many. */
enum mn_err mn_launch_env(struct mn_launch_env *env, struct mn_diag *diag);

#endif
