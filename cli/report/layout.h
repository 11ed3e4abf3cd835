/* Where the nodes of a drawing stand, how the edges between them run and where their labels are.
 * Knows geometry alone; graphviz, too, sees numbers only. */
#ifndef MN_CLI_REPORT_LAYOUT_H
#define MN_CLI_REPORT_LAYOUT_H

#include "cli/report/labels.h"
#include "topo/base/err.h"

struct mn_layout_edge {
    size_t a, b; /* nodes */
};

struct mn_layout {
    struct mn_box *nodes; /* wide and high are given; x and y found */
    size_t n_nodes;
    const struct mn_layout_edge *edges;
    size_t n_edges;
    struct mn_curve *curves; /* of each edge so many: all alike but for their labels */
    size_t labels;
};

/* Gives the nodes their places, with room between any two that an edge joins: where graphviz puts
 * them, else in a circle; then the error says why. */
enum mn_err mn_layout_nodes(struct mn_layout *layout, double room, struct mn_diag *diag);
/* Bends the edges between the same nodes apart and places all labels, whose sizes are given: where
 * they have no room, all the rest grows. */
void mn_layout_edges(struct mn_layout *layout);
/* What holds all of it. */
struct mn_box mn_layout_bounds(const struct mn_layout *layout);

#endif
