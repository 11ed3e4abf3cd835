#include "fleet/lines.h"
#include "topo/base/clean.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void take(struct mn_lines *l, char c, mn_line_fn line, void *ctx, int which)
{
    if (c != '\n')
        l->line[l->used++] = c;
    /* ssh ends its lines with CR LF. */
    while (c == '\n' && l->used && strchr("\r\t ", l->line[l->used - 1]))
        l->used--;
    if ((c == '\n' || l->used == MN_LINE - 1) && l->used) {
        l->line[l->used] = 0;
        l->used = 0;
        line(ctx, which, mn_clean_lines(l->line));
    }
}

int mn_lines_read(struct mn_lines *l, int fd, mn_line_fn line, void *ctx, int which)
{
    char text[4096];
    ssize_t n;

    while ((n = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++)
            take(l, text[i], line, ctx, which);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    mn_lines_end(l, line, ctx, which);
    return 0;
}

void mn_lines_end(struct mn_lines *l, mn_line_fn line, void *ctx, int which)
{
    take(l, '\n', line, ctx, which);
}
