/* Inside of topo/base/out*. */
#ifndef MN_BASE_OUT_IMPL_H
#define MN_BASE_OUT_IMPL_H

#include <cjson/cJSON.h>

#include "topo/base/out.h"

#define MN_OUT_DEPTH 16

struct mn_out_cell {
    char *text;
    enum mn_color color;
    double value; /* of a number with decimals */
    int decimals; /* -1: it is none */
    const char *mark;
};

struct mn_out {
    FILE *file;
    enum mn_out_format format;
    int colored;
    int width; /* of the terminal; 0 = as wide as need be */
    int depth;
    cJSON *nodes[MN_OUT_DEPTH]; /* the object or list being filled, outermost first */
    int indents[MN_OUT_DEPTH];
    /* the table under way */
    const struct mn_col *cols;
    int n_cols, col;
    struct mn_out_cell *cells;
    size_t n_cells;
    cJSON *rows, *row;
    enum mn_color next_color;
    const char *next_mark;
    int tables; /* so far: CSV separates them by an empty line */
};

void mn_out_paint(struct mn_out *out, enum mn_color color, const char *text);
void mn_out_indent(struct mn_out *out);
/* The table under way, as lines of text. */
void mn_out_print_table(struct mn_out *out);

#endif
