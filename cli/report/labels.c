#include "cli/report/labels.h"

#include <math.h>

#define GAP     3.0
#define STEPS   11 /* places on each side of the middle */
#define STEP    0.035
#define SAMPLES 40 /* points of a curve that are looked at */
#define MOST    300

int mn_boxes_touch(const struct mn_box *a, const struct mn_box *b, double gap)
{
    return fabs(a->x - b->x) * 2 < a->wide + b->wide + 2 * gap &&
           fabs(a->y - b->y) * 2 < a->high + b->high + 2 * gap;
}

void mn_curve_at(const struct mn_curve *curve, double t, double *x, double *y)
{
    double u = 1 - t;

    *x = u * u * curve->ax + 2 * u * t * curve->cx + t * t * curve->bx;
    *y = u * u * curve->ay + 2 * u * t * curve->cy + t * t * curve->by;
}

static int runs_through(const struct mn_curve *curve, const struct mn_box *box)
{
    struct mn_box point = {.wide = 0};

    for (int i = 0; i <= SAMPLES; i++) {
        mn_curve_at(curve, (double)i / SAMPLES, &point.x, &point.y);
        if (mn_boxes_touch(&point, box, 1))
            return 1;
    }
    return 0;
}

static int is_free(const struct mn_box *label, const struct mn_box *boxes, size_t n_boxes,
                   const struct mn_curve *curves, size_t n_curves)
{
    for (size_t i = 0; i < n_boxes; i++)
        if (mn_boxes_touch(label, &boxes[i], GAP))
            return 0;
    for (size_t i = 0; i < n_curves; i++)
        if (curves[i].placed && mn_boxes_touch(label, &curves[i].label, GAP))
            return 0;
    return 1;
}

size_t mn_labels_place(const struct mn_box *boxes, size_t n_boxes, struct mn_curve *curves,
                       size_t n_curves)
{
    size_t homeless = 0;

    for (size_t i = 0; i < n_curves; i++)
        curves[i].placed = 0;
    if (n_curves > MOST)
        return 0;
    for (size_t i = 0; i < n_curves; i++) {
        struct mn_curve *curve = &curves[i];
        double least = INFINITY;
        for (int step = -STEPS; step <= STEPS; step++) {
            struct mn_box label = curve->label;
            double cost = fabs(step * STEP), t = 0.5 + curve->home + step * STEP;
            mn_curve_at(curve, t, &label.x, &label.y);
            if (t < 0 || t > 1 || cost >= least ||
                !is_free(&label, boxes, n_boxes, curves, n_curves))
                continue;
            for (size_t k = 0; k < n_curves; k++)
                cost += k != i && runs_through(&curves[k], &label);
            if (cost < least) {
                least = cost;
                curve->label = label;
            }
        }
        curve->placed = isfinite(least);
        homeless += !curve->placed;
    }
    return homeless;
}
