/* Inside cli/report/drawing*.c only. */
#ifndef MN_CLI_REPORT_DRAWING_IMPL_H
#define MN_CLI_REPORT_DRAWING_IMPL_H

#include "cli/report/drawing.h"
#include "cli/report/labels.h"

struct mn_drawing {
    const struct mn_report_doc *doc;
    struct mn_box *nodes;
    const struct mn_report_way **edges; /* what is odd first: its labels matter most */
    struct mn_curve *curves;            /* of the edges */
    size_t n_edges;
    double most;
    int pair;
};

/* The number of a node. */
size_t mn_drawing_node(const struct mn_report_doc *doc, const char *name);
/* Gives the nodes their boxes; an error says why graphviz did not place them. */
enum mn_err mn_drawing_lay_out(struct mn_drawing *d, struct mn_diag *diag);

#endif
