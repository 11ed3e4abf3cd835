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
    return count ? (double)sorted[mn_stats_rank(count, p)] : 0;
}

size_t mn_stats_rank(size_t count, double p)
{
    /* 99.9 has no exact double: without the slack, 99.9 % of 1000 is 999.0000000000001. */
    double rank = ceil(p / 100 * (double)count * (1 - 1e-12));
    return rank < 1 ? 0 : rank > (double)count ? count - 1 : (size_t)rank - 1;
}

double mn_stats_ci95(const float *samples, size_t count)
{
    /* Student's t of 0.975, by degrees of freedom from 1 on; beyond, right to 0.001. */
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                               2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                               2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    double mean = mn_stats_mean(samples, count), squares = 0;

    if (count < 2 || mean <= 0)
        return NAN;
    for (size_t i = 0; i < count; i++)
        squares += ((double)samples[i] - mean) * ((double)samples[i] - mean);
    double freedom = (double)count - 1, error = sqrt(squares / freedom / (double)count);
    double factor = count - 1 <= sizeof t / sizeof *t ? t[count - 2] : 1.95996 + 2.45 / freedom;
    return factor * error / mean * 100;
}

size_t mn_stats_outliers(const float *sorted, size_t count)
{
    double low = mn_stats_percentile(sorted, count, 25);
    double high = mn_stats_percentile(sorted, count, 75), fence = 1.5 * (high - low);
    size_t n = 0;

    for (size_t i = 0; count >= 4 && i < count; i++)
        n += (double)sorted[i] < low - fence || (double)sorted[i] > high + fence;
    return n;
}
