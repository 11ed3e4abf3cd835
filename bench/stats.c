#include <math.h>
#include <stdlib.h>

#include "bench/stats.h"

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void mn_stats_sort(float *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
}

double mn_stats_mean(const float *samples, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)samples[i];
    return count ? sum / (double)count : 0;
}

double mn_stats_percentile(const float *sorted, size_t count, double p)
{
    if (!count)
        return 0;
    /* 99.9 has no exact double: without the slack, 99.9 % of 1000 is 999.0000000000001. */
    double rank = ceil(p / 100 * (double)count * (1 - 1e-12));
    size_t at = rank < 1 ? 0 : rank > (double)count ? count - 1 : (size_t)rank - 1;
    return (double)sorted[at];
}
