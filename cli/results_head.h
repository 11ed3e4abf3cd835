/* How every result begins: what it is, when and of what. */
#ifndef MN_RESULTS_HEAD_H
#define MN_RESULTS_HEAD_H

#include <time.h>

#include "bench/environment.h"
#include "cli/results.h"
#include "topo/base/out.h"

/* One environment a node. The text form has a line of each. */
void mn_results_print_head(struct mn_out *out, enum mn_results_kind kind, time_t started,
                           const struct mn_environment *environments, int count);

#endif
