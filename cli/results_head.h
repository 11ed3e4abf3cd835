/* How every result begins: what it is, when and of what. */
#ifndef MN_RESULTS_HEAD_H
#define MN_RESULTS_HEAD_H

#include <time.h>

#include "bench/environment.h"
#include "bench/repeat.h"
#include "cli/results.h"
#include "topo/base/out.h"

/* One environment a node. The text form has a line of each. */
void mn_results_print_head(struct mn_out *out, enum mn_results_kind kind, time_t started,
                           const struct mn_environment *environments, int count);

/* How well a row is known: the columns, and their cells. NULL: not measured. */
#define MN_SPREAD_COLUMNS(prefix)                                                                  \
    {prefix "ci95_percent", "±%", 1}, {prefix "repetitions", "reps", 1 | MN_DROP(2)},              \
        {prefix "outliers", "outl.", 1 | MN_DROP(1)},                                              \
    {                                                                                              \
        prefix "steady", NULL, 0                                                                   \
    }
void mn_results_print_spread(struct mn_out *out, const struct mn_spread *spread);
/* Says in text how many rows of all still changed speed when their measuring began. */
void mn_results_say_unsteady(struct mn_out *out, size_t unsteady, size_t all);

#endif
