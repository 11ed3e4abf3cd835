/* Inside topo/draw*.c only: a grid of characters to draw on, whose lines join where they meet. */
#ifndef MN_DRAW_CANVAS_H
#define MN_DRAW_CANVAS_H

#include "topo/base/out.h"
#include "topo/draw.h"

struct mn_canvas_cell {
    char text[15]; /* a character and what combines with it; "": by the lines */
    uint8_t lines; /* directions in which it goes on */
    uint8_t dashed;
    uint8_t color; /* enum mn_color */
    uint8_t skip;  /* the second column of the character before */
};

struct mn_canvas {
    int wide, high; /* grows downwards by itself */
    struct mn_canvas_cell *cells;
};

void mn_canvas_init(struct mn_canvas *canvas, int wide);
void mn_canvas_free(struct mn_canvas *canvas);
/* Text from a column on, made fit to be shown; what is beyond the width is left out. */
void mn_canvas_text(struct mn_canvas *canvas, int x, int y, const char *text, enum mn_color color);
/* The same, so that it ends before column x. */
void mn_canvas_text_left(struct mn_canvas *canvas, int x, int y, const char *text,
                         enum mn_color color);
/* Lines between two places, both included; they end there in the middle of a cell. Text hides them.
 * Where two cross, the one downwards is seen. The later one says whether a cell is dashed. */
void mn_canvas_across(struct mn_canvas *canvas, int x0, int x1, int y, int dashed,
                      enum mn_color color);
void mn_canvas_down(struct mn_canvas *canvas, int x, int y0, int y1, int dashed,
                    enum mn_color color);
void mn_canvas_box(struct mn_canvas *canvas, int x, int y, int wide, int high);
void mn_canvas_print(const struct mn_canvas *canvas, const struct mn_draw_look *look, FILE *file);

#endif
