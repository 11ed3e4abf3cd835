/* Scenarios that have a file of their own. */
#ifndef MN_CHECK_SCENARIO_H
#define MN_CHECK_SCENARIO_H

#include "bench/check/rule.h"

/* All connections of 3 to 6 ranks: rings, trees, PAT, all pairs. */
void mn_check_mesh(struct mn_check *check);

#endif
