/* Whole lines out of what a process writes. */
#ifndef MN_LINES_H
#define MN_LINES_H

#include <stddef.h>

#define MN_LINE 1024 /* longer ones come in parts */

struct mn_lines {
    char line[MN_LINE];
    size_t used;
};

typedef void (*mn_line_fn)(void *ctx, int which, const char *text);

/* Reads what is there, without waiting when fd is non-blocking, and hands on lines that are not
 * empty, without the CR or blanks at their end. 0 at the end of the stream. */
int mn_lines_read(struct mn_lines *lines, int fd, mn_line_fn line, void *ctx, int which);
/* Hands on what has no line's end yet. */
void mn_lines_end(struct mn_lines *lines, mn_line_fn line, void *ctx, int which);

#endif
