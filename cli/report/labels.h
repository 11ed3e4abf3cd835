/* Where the labels of a drawing's links stand: each on its link, on no box and no other label.
 * Knows geometry alone. */
#ifndef MN_CLI_REPORT_LABELS_H
#define MN_CLI_REPORT_LABELS_H

#include <stddef.h>

struct mn_box {
    double x, y, wide, high; /* x and y are the middle's */
};

/* From a to b, bent towards c. */
struct mn_curve {
    double ax, ay, cx, cy, bx, by;
    struct mn_box label; /* wide and high are given; x and y found */
    double home;         /* where it should be: 0 (the middle), or from -0.5 (a) to 0.5 (b) */
    int placed;
};

/* Places the labels, the first of them first: as far from other curves and as near to where it
 * should be on its own as each can be. Returns how many found no room. Of more than 300 nobody
 * could read one, and to place them takes long: then none is placed, and 0 returned. */
size_t mn_labels_place(const struct mn_box *boxes, size_t n_boxes, struct mn_curve *curves,
                       size_t n_curves);
/* Whether less than gap is between them. */
int mn_boxes_touch(const struct mn_box *a, const struct mn_box *b, double gap);
/* The point at t of 0 to 1. */
void mn_curve_at(const struct mn_curve *curve, double t, double *x, double *y);

#endif
