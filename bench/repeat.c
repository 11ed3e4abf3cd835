#include <math.h>
#include <stdlib.h>

#include "bench/repeat.h"
#include "bench/stats.h"
#include "topo/base/alloc.h"

void mn_repeat_add(struct mn_repeat *r, double value, double seconds)
{
    *(float *)mn_grow((void **)&r->values, &r->n, sizeof *r->values) = (float)value;
    r->seconds += seconds;
    r->last = seconds;
}

int mn_repeat_wants_more(const struct mn_repeat *r)
{
    if (!r->n)
        return 1;
    if (r->n >= MN_REPEAT_MOST || (r->seconds + r->last) * 1000 > r->plan.most_ms)
        return 0;
    return r->n < MN_REPEAT_LEAST || r->seconds * 1000 < r->plan.duration_ms ||
           mn_stats_ci95(r->values, r->n) > r->plan.precision;
}

double mn_repeat_each(const struct mn_repeat_plan *plan)
{
    return plan->duration_ms / 1000.0 / MN_REPEAT_LEAST;
}

struct mn_spread mn_repeat_spread(struct mn_repeat *r)
{
    struct mn_spread spread = {.repetitions = r->n,
                               .ci95 = mn_stats_ci95(r->values, r->n),
                               .steady = -1};

    mn_stats_sort(r->values, r->n);
    spread.median = mn_stats_percentile(r->values, r->n, 50);
    spread.outliers = mn_stats_outliers(r->values, r->n);
    return spread;
}

void mn_repeat_free(struct mn_repeat *r)
{
    free(r->values);
    r->values = NULL;
    r->n = 0;
}

int mn_repeat_is_steady(double before, double now)
{
    return fabs(now - before) <= 0.1 * fmin(now, before);
}
