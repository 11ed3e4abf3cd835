#include "cli/live.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "topo/base/clock.h"
#include "topo/base/width.h"

#define EVERY_S 5.0

/* Rows and columns of the terminal. */
static void find_size(int *rows, int *cols)
{
    struct winsize size = {0};

    (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    *rows = size.ws_row ? size.ws_row : 24;
    *cols = size.ws_col ? size.ws_col : 80;
}

/* A line, cut at the terminal's width: one that wraps would be two to move over. */
static void draw_line(const char *text, size_t length, int cols)
{
    fprintf(stderr, "%.*s\033[K\n", (int)mn_term_fit(text, length, cols, NULL), text);
}

/* The last lines that fit, the whole screen less the cursor's line. */
static int draw(const char *text, int rows, int cols)
{
    int lines = 0, skip;

    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    skip = lines > rows - 1 ? lines - (rows - 1) : 0;
    for (int i = 0; i < lines; i++) {
        size_t length = strcspn(text, "\n");
        if (i >= skip)
            draw_line(text, length, cols);
        text += length + 1;
    }
    return lines - skip;
}

static void say_now_and_then(struct mn_live *live, size_t step, size_t steps, const char *what)
{
    double now = mn_seconds();

    if (live->said == 0)
        live->said = now;
    if (now - live->said < EVERY_S)
        return;
    live->said = now;
    fprintf(stderr, "meshnet bench: %zu of %zu: %s\n", step, steps, what);
    fflush(stderr);
}

void mn_live_show(struct mn_live *live, size_t step, size_t steps, const char *what)
{
    char *text = NULL;
    size_t size;
    int rows, cols;
    FILE *file = live->print && !live->off ? open_memstream(&text, &size) : NULL;

    if (!live->off && !isatty(STDERR_FILENO)) {
        say_now_and_then(live, step, steps, what);
    } else if (!live->off) {
        find_size(&rows, &cols);
        mn_live_clear(live);
        if (file) {
            struct mn_out *out = mn_out_new(file, MN_OUT_TEXT);
            mn_out_width(out, cols);
            live->print(out, live->ctx);
            mn_out_free(out);
            fflush(file);
            live->drawn = draw(text, rows, cols);
        }
        fprintf(stderr, "%zu/%zu %.*s\033[K", step, steps, cols - 24, what);
        fflush(stderr);
    }
    if (file)
        fclose(file);
    free(text);
}

void mn_live_clear(struct mn_live *live)
{
    if (live->off || !isatty(STDERR_FILENO))
        return;
    fputc('\r', stderr);
    if (live->drawn)
        fprintf(stderr, "\033[%dA", live->drawn);
    fputs("\033[J", stderr);
    fflush(stderr);
    live->drawn = 0;
}
