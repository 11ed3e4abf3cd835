#include "topo/draw_canvas.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/width.h"

enum { LEFT = 1, RIGHT = 2, UP = 4, DOWN = 8 };

void mn_canvas_init(struct mn_canvas *canvas, int wide)
{
    *canvas = (struct mn_canvas){.wide = wide};
}

void mn_canvas_free(struct mn_canvas *canvas)
{
    free(canvas->cells);
    *canvas = (struct mn_canvas){.wide = 0};
}

/* NULL beside the canvas. */
static struct mn_canvas_cell *cell_at(struct mn_canvas *canvas, int x, int y)
{
    if (x < 0 || y < 0 || x >= canvas->wide)
        return NULL;
    if (y >= canvas->high) {
        size_t row = (size_t)canvas->wide * sizeof *canvas->cells, had = (size_t)canvas->high;
        int high = 2 * y + 16;
        char *cells = realloc(canvas->cells, (size_t)high * row);
        if (!cells)
            mn_no_memory();
        memset(cells + had * row, 0, ((size_t)high - had) * row);
        canvas->cells = (struct mn_canvas_cell *)(void *)cells;
        canvas->high = high;
    }
    return &canvas->cells[y * canvas->wide + x];
}

/* Appends what takes no column of its own. */
static void combine(struct mn_canvas_cell *cell, const char *text, size_t len)
{
    size_t used = strlen(cell->text);

    if (used + len < sizeof cell->text)
        memcpy(cell->text + used, text, len);
}

void mn_canvas_text(struct mn_canvas *canvas, int x, int y, const char *text, enum mn_color color)
{
    char *copy = mn_clean(mn_strdup(text));
    struct mn_canvas_cell *last = NULL;
    size_t len;

    for (const char *at = copy; *at; at += len) {
        uint32_t code;
        int columns;
        len = mn_utf8(at, strlen(at), &code);
        (void)mn_term_fit(at, len, 2, &columns);
        struct mn_canvas_cell *cell = columns ? cell_at(canvas, x, y) : last;
        if (!cell || x + columns > canvas->wide)
            break;
        if (columns) {
            *cell = (struct mn_canvas_cell){.color = (uint8_t)color};
            for (int i = 1; i < columns; i++)
                *cell_at(canvas, x + i, y) = (struct mn_canvas_cell){.skip = 1};
        }
        combine(cell, at, len);
        last = cell;
        x += columns;
    }
    free(copy);
}

void mn_canvas_text_left(struct mn_canvas *canvas, int x, int y, const char *text,
                         enum mn_color color)
{
    mn_canvas_text(canvas, x - mn_term_width(text), y, text, color);
}

static void draw(struct mn_canvas *canvas, int x, int y, int lines, int dashed, enum mn_color color)
{
    struct mn_canvas_cell *cell = lines ? cell_at(canvas, x, y) : NULL;

    if (!cell)
        return;
    cell->lines |= (uint8_t)lines;
    cell->dashed = (uint8_t)dashed;
    cell->color = (uint8_t)color;
}

void mn_canvas_across(struct mn_canvas *canvas, int x0, int x1, int y, int dashed,
                      enum mn_color color)
{
    for (int x = x0; x <= x1; x++)
        draw(canvas, x, y, (x > x0 ? LEFT : 0) | (x < x1 ? RIGHT : 0), dashed, color);
}

void mn_canvas_down(struct mn_canvas *canvas, int x, int y0, int y1, int dashed,
                    enum mn_color color)
{
    for (int y = y0; y <= y1; y++)
        draw(canvas, x, y, (y > y0 ? UP : 0) | (y < y1 ? DOWN : 0), dashed, color);
}

void mn_canvas_box(struct mn_canvas *canvas, int x, int y, int wide, int high)
{
    mn_canvas_across(canvas, x, x + wide - 1, y, 0, MN_PLAIN);
    mn_canvas_across(canvas, x, x + wide - 1, y + high - 1, 0, MN_PLAIN);
    mn_canvas_down(canvas, x, y, y + high - 1, 0, MN_PLAIN);
    mn_canvas_down(canvas, x + wide - 1, y, y + high - 1, 0, MN_PLAIN);
}

/* --- printing ------------------------------------------------------------------------------- */

static const char *glyph(const struct mn_canvas_cell *cell, int utf8)
{
    static const char *const joints[16] = {
        [0] = " ",
        [LEFT] = "─",
        [RIGHT] = "─",
        [LEFT | RIGHT] = "─",
        [UP] = "│",
        [DOWN] = "│",
        [UP | DOWN] = "│",
        [RIGHT | DOWN] = "┌",
        [LEFT | DOWN] = "┐",
        [RIGHT | UP] = "└",
        [LEFT | UP] = "┘",
        [UP | DOWN | RIGHT] = "├",
        [UP | DOWN | LEFT] = "┤",
        [LEFT | RIGHT | DOWN] = "┬",
        [LEFT | RIGHT | UP] = "┴",
        [LEFT | RIGHT | UP | DOWN] = "│",
    };
    int lines = cell->lines, level = !(lines & (UP | DOWN));
    int upright = !(lines & (LEFT | RIGHT)) || lines == (LEFT | RIGHT | UP | DOWN);

    if (cell->text[0] || cell->skip)
        return cell->text;
    if (!lines)
        return " ";
    if (cell->dashed && (level || upright))
        return utf8 ? level ? "╌" : "┆" : level ? "." : ":";
    if (utf8)
        return joints[lines];
    return level ? "-" : upright ? "|" : "+";
}

static int is_blank(const struct mn_canvas_cell *cell)
{
    return !cell->lines && !cell->skip && (!cell->text[0] || !strcmp(cell->text, " "));
}

static void print_row(const struct mn_canvas *canvas, const struct mn_canvas_cell *row,
                      const struct mn_draw_look *look, FILE *file)
{
    int end = canvas->wide;
    enum mn_color color = MN_PLAIN;

    while (end > 0 && is_blank(&row[end - 1]))
        end--;
    for (int x = 0; x < end; x++) {
        enum mn_color next = is_blank(&row[x]) ? MN_PLAIN : (enum mn_color)row[x].color;
        if (look->colors && next != color) {
            fputs(color != MN_PLAIN ? "\033[0m" : "", file);
            fputs(mn_out_color_code(next), file);
            color = next;
        }
        fputs(glyph(&row[x], look->utf8), file);
    }
    fputs(color != MN_PLAIN ? "\033[0m\n" : "\n", file);
}

void mn_canvas_print(const struct mn_canvas *canvas, const struct mn_draw_look *look, FILE *file)
{
    int rows = 0;

    for (int i = 0; i < canvas->wide * canvas->high; i++)
        if (!is_blank(&canvas->cells[i]))
            rows = i / canvas->wide + 1;
    for (int y = 0; y < rows; y++)
        print_row(canvas, canvas->cells + (size_t)y * (size_t)canvas->wide, look, file);
}
