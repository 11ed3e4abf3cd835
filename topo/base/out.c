#include <cjson/cJSON.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/out_impl.h"
#include "topo/base/width.h"

static const char *const color_codes[] = {
    [MN_PLAIN] = "",          [MN_RED] = "\033[31m", [MN_GREEN] = "\033[32m",
    [MN_YELLOW] = "\033[33m", [MN_BOLD] = "\033[1m", [MN_DIM] = "\033[2m",
};

const char *mn_out_color_code(enum mn_color color)
{
    return color_codes[color];
}

int mn_out_is_colored(FILE *file)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

    return isatty(fileno(file)) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

struct mn_out *mn_out_new(FILE *file, enum mn_out_format format)
{
    struct mn_out *out = mn_zalloc(sizeof *out);

    out->file = file;
    out->format = format;
    out->colored = mn_out_is_colored(file);
    out->width = mn_term_columns(file);
    out->nodes[0] = cJSON_CreateObject();
    return out;
}

int mn_out_lost(FILE *file)
{
    int failed = fflush(file) != 0 || ferror(file);
    struct pollfd end = {.fd = fileno(file)};

    return failed && !(poll(&end, 1, 0) == 1 && end.revents & POLLERR);
}

void mn_out_width(struct mn_out *out, int columns)
{
    out->width = columns;
}

int mn_out_free(struct mn_out *out)
{
    if (out->format == MN_OUT_JSON) {
        char *text = cJSON_Print(out->nodes[0]);
        if (text)
            fprintf(out->file, "%s\n", text);
        free(text);
    }
    cJSON_Delete(out->nodes[0]);
    int failed = mn_out_lost(out->file);
    free(out->cells);
    free(out);
    return failed ? -1 : 0;
}

static int text_mode(const struct mn_out *out)
{
    return out->format == MN_OUT_TEXT;
}

void mn_out_paint(struct mn_out *out, enum mn_color color, const char *text)
{
    if (out->colored && color != MN_PLAIN)
        fprintf(out->file, "%s%s\033[0m", color_codes[color], text);
    else
        fputs(text, out->file);
}

void mn_out_indent(struct mn_out *out)
{
    fprintf(out->file, "%*s", 2 * out->indents[out->depth], "");
}

/* Lists take elements without a key. */
static void add(struct mn_out *out, const char *key, cJSON *item)
{
    cJSON *parent = out->nodes[out->depth];

    if (cJSON_IsArray(parent))
        cJSON_AddItemToArray(parent, item);
    else
        cJSON_AddItemToObject(parent, key ? key : "", item);
    mn_clean_json(item);
}

static void heading(struct mn_out *out, const char *title)
{
    if (!title || !text_mode(out))
        return;
    char *text = mn_clean(mn_strdup(title));
    mn_out_indent(out);
    mn_out_paint(out, MN_BOLD, text);
    fputc('\n', out->file);
    free(text);
}

static void descend(struct mn_out *out, const char *key, const char *title, cJSON *node)
{
    if (out->depth + 1 >= MN_OUT_DEPTH) {
        cJSON_Delete(node);
        abort();
    }
    add(out, key, node);
    heading(out, title);
    out->indents[out->depth + 1] = out->indents[out->depth] + (title != NULL);
    out->nodes[++out->depth] = node;
}

void mn_out_begin(struct mn_out *out, const char *key, const char *title)
{
    descend(out, key, title, cJSON_CreateObject());
}

void mn_out_end(struct mn_out *out)
{
    out->depth--;
}

void mn_out_list_begin(struct mn_out *out, const char *key, const char *title)
{
    descend(out, key, title, cJSON_CreateArray());
}

void mn_out_list_end(struct mn_out *out)
{
    out->depth--;
}

static void line(struct mn_out *out, const char *label, const char *text)
{
    if (!label || !text_mode(out))
        return;
    char *shown = mn_clean(mn_strdup(text));
    mn_out_indent(out);
    fprintf(out->file, "%s: %s\n", label, shown);
    free(shown);
}

void mn_out_str(struct mn_out *out, const char *key, const char *label, const char *str)
{
    add(out, key, str ? cJSON_CreateString(str) : cJSON_CreateNull());
    line(out, label, str ? str : "-");
}

void mn_out_strf(struct mn_out *out, const char *key, const char *label, const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        mn_no_memory();
    va_end(args);
    mn_out_str(out, key, label, text);
    free(text);
}

void mn_out_int(struct mn_out *out, const char *key, const char *label, int64_t value)
{
    char text[32];

    /* Raw: a double would round the last digits of large numbers. */
    snprintf(text, sizeof text, "%lld", (long long)value);
    add(out, key, cJSON_CreateRaw(text));
    line(out, label, text);
}

static cJSON *number(double value, int decimals, char text[64])
{
    if (!isfinite(value)) {
        strcpy(text, "-");
        return cJSON_CreateNull();
    }
    snprintf(text, 64, "%.*f", decimals, value);
    return fabs(value) < 1e40 ? cJSON_CreateRaw(text) : cJSON_CreateNumber(value);
}

void mn_out_num(struct mn_out *out, const char *key, const char *label, double value, int decimals)
{
    char text[64];

    add(out, key, number(value, decimals, text));
    line(out, label, text);
}

void mn_out_bool(struct mn_out *out, const char *key, const char *label, int value)
{
    add(out, key, cJSON_CreateBool(value));
    line(out, label, value ? "yes" : "no");
}

void mn_out_note(struct mn_out *out, enum mn_color color, const char *fmt, ...)
{
    va_list args;
    char *text;

    if (!text_mode(out))
        return;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        mn_no_memory();
    va_end(args);
    mn_out_indent(out);
    mn_out_paint(out, color, mn_clean_lines(text));
    fputc('\n', out->file);
    free(text);
}

/* --- tables ----------------------------------------------------------------------------------- */

void mn_out_table(struct mn_out *out, const char *key, const char *title, const struct mn_col *cols,
                  int n_cols)
{
    out->cols = cols;
    out->n_cols = n_cols;
    out->col = n_cols;
    out->rows = cJSON_CreateArray();
    add(out, key, out->rows);
    heading(out, title);
}

void mn_out_row(struct mn_out *out)
{
    out->row = cJSON_CreateObject();
    cJSON_AddItemToArray(out->rows, out->row);
    out->col = 0;
}

void mn_out_color(struct mn_out *out, enum mn_color color)
{
    out->next_color = color;
}

void mn_out_mark(struct mn_out *out, const char *mark)
{
    out->next_mark = mark;
}

/* As it is shown: JSON has none of it. */
static void show_cell(struct mn_out *out, const char *text)
{
    struct mn_out_cell *c = mn_grow((void **)&out->cells, &out->n_cells, sizeof *c);

    c->text = mn_clean(mn_strdup(text));
    c->color = out->next_color;
    c->decimals = -1;
    c->mark = out->next_mark;
}

static void cell(struct mn_out *out, const char *text, cJSON *item)
{
    if (out->col >= out->n_cols || !out->row) {
        cJSON_Delete(item);
        return;
    }
    if (out->format != MN_OUT_JSON)
        show_cell(out, text);
    out->next_color = MN_PLAIN;
    out->next_mark = NULL;
    mn_clean_json(item);
    cJSON_AddItemToObject(out->row, out->cols[out->col++].key, item);
}

void mn_out_cell(struct mn_out *out, const char *str)
{
    cell(out, str ? str : "-", str ? cJSON_CreateString(str) : cJSON_CreateNull());
}

void mn_out_cellf(struct mn_out *out, const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        mn_no_memory();
    va_end(args);
    mn_out_cell(out, text);
    free(text);
}

void mn_out_cell_int(struct mn_out *out, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    cell(out, text, cJSON_CreateRaw(text));
}

void mn_out_cell_num(struct mn_out *out, double value, int decimals)
{
    char text[64];
    cJSON *item = number(value, decimals, text);
    size_t before = out->n_cells;

    cell(out, text, item);
    if (out->n_cells > before && isfinite(value)) {
        out->cells[before].value = value;
        out->cells[before].decimals = decimals;
    }
}

void mn_out_cell_bool(struct mn_out *out, int value)
{
    if (value < 0)
        mn_out_cell(out, NULL);
    else
        cell(out, value ? "yes" : "no", cJSON_CreateBool(value));
}

static void csv_field(FILE *file, const char *text)
{
    if (!text[strcspn(text, ",\"\n\r")]) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void print_csv(struct mn_out *out)
{
    if (out->tables++)
        fputc('\n', out->file);
    for (int i = 0; i < out->n_cols; i++)
        fprintf(out->file, "%s%s", out->cols[i].key, i + 1 < out->n_cols ? "," : "\n");
    for (size_t i = 0; i < out->n_cells; i++) {
        csv_field(out->file, out->cells[i].text);
        fputc((i + 1) % (size_t)out->n_cols ? ',' : '\n', out->file);
    }
}

void mn_out_table_end(struct mn_out *out)
{
    if (text_mode(out))
        mn_out_print_table(out);
    else if (out->format == MN_OUT_CSV)
        print_csv(out);
    for (size_t i = 0; i < out->n_cells; i++)
        free(out->cells[i].text);
    free(out->cells);
    out->cells = NULL;
    out->n_cells = 0;
    out->rows = out->row = NULL;
}
