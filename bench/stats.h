/* Small statistics over samples. */
#ifndef MN_STATS_H
#define MN_STATS_H

#include <stddef.h>

void mn_stats_sort(float *samples, size_t count);
double mn_stats_mean(const float *samples, size_t count);
/* Nearest rank over sorted samples: the smallest sample that at least p percent do not exceed. */
double mn_stats_percentile(const float *sorted, size_t count, double p);

#endif
