/* Curves over message size, drawn by gnuplot and put into a page as SVG. gnuplot sees numbers only;
 * names stand in the legend, which is HTML. */
#ifndef MN_CLI_REPORT_CHART_H
#define MN_CLI_REPORT_CHART_H

#include <stdio.h>

#include "topo/base/err.h"

#define MN_CHART_SERIES 10

struct mn_chart_point {
    double x, y, error; /* error: half a confidence interval, or NaN */
};

struct mn_chart_series {
    char name[128];
    struct mn_chart_point *points; /* owned by the chart */
    size_t n_points;
};

struct mn_chart {
    char title[160];
    const char *unit;
    int log_y, left_out; /* left_out: series beyond what a chart can hold */
    struct mn_chart_series series[MN_CHART_SERIES];
    int n_series;
};

/* Adds to the series of that name, made when there is none. A point that is NaN, or not above 0
 * where an axis needs it, is left out; error is half of its confidence interval, in percent, or
 * NaN. */
void mn_chart_add(struct mn_chart *chart, const char *series, double x, double y, double error);
/* A figure with legend; nothing for a chart without points. number tells the charts of a page
 * apart. */
enum mn_err mn_chart_write(const struct mn_chart *chart, int number, FILE *file,
                           struct mn_diag *diag);
void mn_chart_free(struct mn_chart *chart);

#endif
