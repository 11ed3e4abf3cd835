/* One call writes text or JSON, so that they cannot drift. Build a document of named values,
 * objects and tables; in text they appear as "label: value" lines and aligned tables, in JSON as
 * one object (cJSON), in CSV the tables only. Keys are snake_case; numbers stay numbers in JSON.
 * What is no text for a terminal becomes '?' in all of them (topo/base/clean.h), whoever wrote it.
 */
#ifndef MN_BASE_OUT_H
#define MN_BASE_OUT_H

#include <stdint.h>
#include <stdio.h>

enum mn_out_format { MN_OUT_TEXT, MN_OUT_JSON, MN_OUT_CSV };

enum mn_color { MN_PLAIN, MN_RED, MN_GREEN, MN_YELLOW, MN_BOLD, MN_DIM };

/* Whether file is a terminal that is to have colours; the sequence that begins one ("" for none),
 * "\033[0m" ends it. For drawings: all else goes through mn_out. */
int mn_out_is_colored(FILE *file);
const char *mn_out_color_code(enum mn_color color);

struct mn_out;

/* Colours only when file is a terminal, NO_COLOR is unset and TERM is not dumb. */
struct mn_out *mn_out_new(FILE *file, enum mn_out_format format);
/* Writes what is pending (JSON is written here, whole) and frees. Returns 0, or -1 when writing to
 * file failed (full disk, closed descriptor). */
int mn_out_free(struct mn_out *out);
/* Writes what file has pending; 1 when writing to it failed. A pipe whose reader has gone (| head)
 * is no failure: nobody wants the rest. */
int mn_out_lost(FILE *file);

/* Columns of text that tables may take; 0: as many as they need. At first those of the terminal
 * that file is, or 0 where it is none. */
void mn_out_width(struct mn_out *out, int columns);

/* Nested objects: text shows title (NULL: nothing) as a heading and indents what follows. */
void mn_out_begin(struct mn_out *out, const char *key, const char *title);
void mn_out_end(struct mn_out *out);
/* A list of objects; every element between mn_out_begin(out, NULL, title) and mn_out_end(). */
void mn_out_list_begin(struct mn_out *out, const char *key, const char *title);
void mn_out_list_end(struct mn_out *out);

/* Values: label is the text form's name (NULL: JSON only). str NULL = JSON null, text "-". */
void mn_out_str(struct mn_out *out, const char *key, const char *label, const char *str);
void mn_out_strf(struct mn_out *out, const char *key, const char *label, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void mn_out_int(struct mn_out *out, const char *key, const char *label, int64_t value);
void mn_out_num(struct mn_out *out, const char *key, const char *label, double value, int decimals);
void mn_out_bool(struct mn_out *out, const char *key, const char *label, int value);

/* A line of text that JSON and CSV do not carry. */
void mn_out_note(struct mn_out *out, enum mn_color color, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Tables: JSON gets a list of objects under key. Column order is call order.
 * A row has exactly one cell call a column. Cells after mn_out_color() use that colour once; the
 * text of one after mn_out_mark() begins with the mark, a literal such as "≤".
 *
 * In text the figures of a column share their decimals. A table wider than the terminal loses
 * columns that hold nothing, then its droppable ones, the lowest number first, and says which; what
 * is still too wide has the text of its widest column go on in further lines, or is printed in
 * parts, each with the first column.
 */
struct mn_col {
    const char *key;
    const char *head; /* NULL: not in text */
    int how;          /* 1 aligns right, for numbers; MN_DROP(n), n from 1 on, or both (|) */
};
#define MN_DROP(n) ((n) << 1)
void mn_out_table(struct mn_out *out, const char *key, const char *title, const struct mn_col *cols,
                  int n_cols);
void mn_out_row(struct mn_out *out);
void mn_out_color(struct mn_out *out, enum mn_color color);
void mn_out_mark(struct mn_out *out, const char *mark);
void mn_out_cell(struct mn_out *out, const char *str); /* NULL = null, "-" */
void mn_out_cellf(struct mn_out *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mn_out_cell_int(struct mn_out *out, int64_t value);
void mn_out_cell_num(struct mn_out *out, double value, int decimals);
void mn_out_cell_bool(struct mn_out *out, int value); /* below 0 = null, "-" */
void mn_out_table_end(struct mn_out *out);

#endif
