/* Small statistics over samples. */
#ifndef MN_STATS_H
#define MN_STATS_H

#include <stddef.h>

void mn_stats_sort(float *samples, size_t count);
double mn_stats_mean(const float *samples, size_t count);
/* Nearest rank over sorted samples: the smallest sample that at least p percent do not exceed. */
double mn_stats_percentile(const float *sorted, size_t count, double p);
/* Which of count (not 0) sorted samples that is. */
size_t mn_stats_rank(size_t count, double p);

/* Half the width of the 95 % confidence interval of the mean, in percent of the mean (Student's t):
 * NaN where fewer than two samples or a mean of 0 tell nothing. Samples are to be independent:
 * repetitions, or means of many values that followed each other. */
double mn_stats_ci95(const float *samples, size_t count);
/* Samples beyond Tukey's fences: 1.5 times the distance of the quartiles below the first or above
 * the third. 0 of fewer than four. */
size_t mn_stats_outliers(const float *sorted, size_t count);

#endif
