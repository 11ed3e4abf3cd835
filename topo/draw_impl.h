/* Inside topo/draw*.c only: the two ways to draw on a terminal, and what both write at a cable. */
#ifndef MN_DRAW_IMPL_H
#define MN_DRAW_IMPL_H

#include "topo/draw_canvas.h"

#define MN_DRAW_LABEL (2 * MN_NAME_MAX + 32)

/* A ring or line: boxes in two columns. 0: it does not fit, or is another shape; nothing is
 * printed. */
int mn_draw_boxes(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file);
/* Everything else: a block for each node, wires beside them. */
void mn_draw_blocks(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file);

int mn_draw_is_bare(const struct mn_draw *draw, const struct mn_draw_cable *cable, size_t link);
/* How a link is coloured. */
enum mn_color mn_draw_color(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                            size_t link);
/* What stands in the middle: the speed, at the first link of a cable, and a name that the file
 * gives. Returns text. */
const char *mn_draw_middle(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                           size_t link, char text[MN_DRAW_LABEL]);

#endif
