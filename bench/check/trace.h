/* Recorded traffic as a scenario. */
#ifndef MN_CHECK_TRACE_H
#define MN_CHECK_TRACE_H

#include "bench/check/rule.h"

/* Plays the target's traces, a process each; skips when there are none. */
void mn_check_trace(struct mn_check *check);

#endif
