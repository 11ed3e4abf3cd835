/* A table as text: aligned, and no wider than the terminal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/out_impl.h"
#include "topo/base/width.h"

#define GAP        2  /* between columns */
#define LEAST_TEXT 20 /* of a column, to have its text in several lines */

struct layout {
    struct mn_out *out;
    int *wide;  /* by column */
    int *shown; /* columns, from left to right */
    int n_shown, room;
};

/* --- figures ---------------------------------------------------------------------------------- */

/* As many decimals as the large figures of the column have, more where small ones would be lost:
 * two digits of the smallest are there, if it has them. */
static int shared_decimals(const struct mn_out *out, int column)
{
    int least = -1, most = -1;
    double smallest = INFINITY;

    for (size_t i = (size_t)column; i < out->n_cells; i += (size_t)out->n_cols) {
        const struct mn_out_cell *cell = &out->cells[i];
        if (cell->decimals < 0)
            continue;
        least = least < 0 || cell->decimals < least ? cell->decimals : least;
        most = cell->decimals > most ? cell->decimals : most;
        if (fabs(cell->value) > 0)
            smallest = fmin(smallest, fabs(cell->value));
    }
    while (least >= 0 && least < most && smallest * pow(10, least) < 10)
        least++;
    return least;
}

static void share_decimals(struct mn_out *out)
{
    for (int column = 0; column < out->n_cols; column++) {
        int decimals = shared_decimals(out, column);
        for (size_t i = (size_t)column; i < out->n_cells; i += (size_t)out->n_cols) {
            struct mn_out_cell *cell = &out->cells[i];
            if (cell->decimals < 0 || cell->decimals == decimals)
                continue;
            free(cell->text);
            cell->text = mn_asprintf("%.*f", decimals, cell->value);
        }
    }
}

static void put_marks(struct mn_out *out)
{
    for (size_t i = 0; i < out->n_cells; i++) {
        char *text = out->cells[i].text;
        if (!out->cells[i].mark)
            continue;
        out->cells[i].text = mn_asprintf("%s%s", out->cells[i].mark, text);
        free(text);
    }
}

/* --- what fits -------------------------------------------------------------------------------- */

static void measure(struct layout *l)
{
    const struct mn_out *out = l->out;

    for (int i = 0; i < out->n_cols; i++)
        l->wide[i] = out->cols[i].head ? mn_term_width(out->cols[i].head) : 0;
    for (size_t i = 0; i < out->n_cells; i++) {
        int w = mn_term_width(out->cells[i].text), *max = &l->wide[i % (size_t)out->n_cols];
        *max = w > *max ? w : *max;
    }
    for (int i = 0; i < out->n_cols; i++)
        if (out->cols[i].head)
            l->shown[l->n_shown++] = i;
}

static int total(const struct layout *l, int first, int last)
{
    int sum = GAP * (last - first);

    for (int i = first; i <= last; i++)
        sum += l->wide[l->shown[i]];
    return sum;
}

static int fits(const struct layout *l)
{
    return l->room <= 0 || !l->n_shown || total(l, 0, l->n_shown - 1) <= l->room;
}

static int is_empty(const struct mn_out *out, int column)
{
    for (size_t i = (size_t)column; i < out->n_cells; i += (size_t)out->n_cols)
        if (strcmp(out->cells[i].text, "-") != 0)
            return 0;
    return out->n_cells > 0;
}

/* Takes one out. 0: none is left that may go. */
static int drop_one(struct layout *l, char **dropped)
{
    int victim = -1, order = 0;

    for (int i = 0; i < l->n_shown; i++) {
        int own = l->out->cols[l->shown[i]].how >> 1;
        if (i && is_empty(l->out, l->shown[i]))
            own = -1;
        if (own && (victim < 0 || own < order)) {
            victim = i;
            order = own;
        }
    }
    if (victim < 0)
        return 0;
    char *more = mn_asprintf("%s%s%s", *dropped ? *dropped : "", *dropped ? ", " : "",
                             l->out->cols[l->shown[victim]].head);
    free(*dropped);
    *dropped = more;
    l->n_shown--;
    memmove(l->shown + victim, l->shown + victim + 1,
            (size_t)(l->n_shown - victim) * sizeof *l->shown);
    return 1;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void pad(struct mn_out *out, int columns)
{
    fprintf(out->file, "%*s", columns > 0 ? columns : 0, "");
}

/* How much of a text goes into a line: up to the last blank, or where a word alone is too long. */
static size_t part_of(const char *text, int columns)
{
    size_t fit = mn_term_fit(text, strlen(text), columns, NULL), at = fit;

    if (!text[fit])
        return fit;
    while (at && text[at] != ' ')
        at--;
    return at ? at : fit ? fit : strlen(text);
}

/* What fits of a cell, aligned but for the blanks at a line's end; *text becomes what is left. */
static void put_cell(struct layout *l, int column, enum mn_color color, const char **text, int last)
{
    int wide = l->wide[column], right = l->out->cols[column].how & 1;
    size_t n = part_of(*text, wide);
    char *part = mn_asprintf("%.*s", (int)n, *text);
    int blanks = wide - mn_term_width(part);

    if (right)
        pad(l->out, blanks);
    mn_out_paint(l->out, color, part);
    if (!right && !last)
        pad(l->out, blanks);
    free(part);
    *text += n;
    while (n && **text == ' ')
        ++*text;
}

/* Columns 0 and first to last of those shown, in as many lines as the longest cell takes. row: the
 * first cell's number, -1: the heads. */
static void put_row(struct layout *l, int first, int last, long row)
{
    struct mn_out *out = l->out;
    const char **rest = mn_zalloc((size_t)out->n_cols * sizeof *rest);
    int left = 1;

    for (int c = 0; c < out->n_cols; c++)
        rest[c] = row < 0 ? out->cols[c].head : out->cells[row + c].text;
    while (left) {
        left = 0;
        mn_out_indent(out);
        for (int i = 0; i <= last; i = i < first ? first : i + 1) {
            int c = l->shown[i];
            pad(out, i ? GAP : 0);
            put_cell(l, c, row < 0 ? MN_DIM : out->cells[row + c].color, &rest[c], i == last);
            left |= *rest[c];
        }
        fputc('\n', out->file);
    }
    free(rest);
}

static void put_part(struct layout *l, int first, int last)
{
    put_row(l, first, last, -1);
    for (size_t row = 0; row + (size_t)l->out->n_cols <= l->out->n_cells;
         row += (size_t)l->out->n_cols)
        put_row(l, first, last, (long)row);
}

/* The widest column of text goes on in further lines, if it keeps room enough for that. */
static int squeeze(struct layout *l)
{
    int widest = -1, over = total(l, 0, l->n_shown - 1) - l->room;

    for (int i = 0; i < l->n_shown; i++)
        if (!(l->out->cols[l->shown[i]].how & 1) &&
            (widest < 0 || l->wide[l->shown[i]] > l->wide[widest]))
            widest = l->shown[i];
    if (widest < 0 || l->wide[widest] - over < LEAST_TEXT)
        return 0;
    l->wide[widest] -= over;
    return 1;
}

static void put_parts(struct layout *l)
{
    int last;

    for (int first = 1; first < l->n_shown; first = last + 1) {
        int used = l->wide[l->shown[0]] + GAP + l->wide[l->shown[first]];
        for (last = first; last + 1 < l->n_shown; last++) {
            used += GAP + l->wide[l->shown[last + 1]];
            if (used > l->room)
                break;
        }
        put_part(l, first, last);
    }
}

void mn_out_print_table(struct mn_out *out)
{
    struct layout l = {.out = out, .room = out->width - 2 * out->indents[out->depth]};
    char *dropped = NULL;

    l.wide = mn_zalloc((size_t)(out->n_cols + 1) * sizeof *l.wide);
    l.shown = mn_zalloc((size_t)(out->n_cols + 1) * sizeof *l.shown);
    if (!out->width)
        l.room = 0;
    else if (l.room < 1)
        l.room = 1;
    share_decimals(out);
    put_marks(out);
    measure(&l);
    while (!fits(&l) && drop_one(&l, &dropped))
        ;
    if (l.n_shown && (fits(&l) || squeeze(&l) || l.n_shown == 1))
        put_part(&l, 1, l.n_shown - 1);
    else
        put_parts(&l);
    if (dropped)
        mn_out_note(out, MN_DIM, "(no room for: %s; --wide shows all)", dropped);
    free(dropped);
    free(l.shown);
    free(l.wide);
}
