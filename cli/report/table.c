#include "cli/report/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "topo/base/alloc.h"

#define NOTHING "–"

void mn_table_text(struct mn_report_table *table, const char *text)
{
    struct mn_report_cells *cell = mn_grow((void **)&table->cells, &table->n_cells, sizeof *cell);

    cell->text = mn_strdup(text && text[0] ? text : NOTHING);
}

void mn_table_textf(struct mn_report_table *table, const char *fmt, ...)
{
    char *text;
    va_list args;

    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    mn_table_text(table, n < 0 ? NULL : text);
    if (n >= 0)
        free(text);
}

void mn_table_num(struct mn_report_table *table, double value, int decimals)
{
    char text[64];
    mn_table_text(table, mn_text_num(value, decimals, text, sizeof text));
}

void mn_table_figures(struct mn_report_table *table, double value)
{
    char text[64];
    mn_table_text(table, mn_text_figures(value, text, sizeof text));
}

void mn_table_size(struct mn_report_table *table, double bytes)
{
    char text[64];
    mn_table_text(table, mn_text_size(bytes, text, sizeof text));
}

void mn_table_spread(struct mn_report_table *table, const struct mn_report_spread *spread)
{
    mn_table_num(table, spread->ci95, 1);
    mn_table_grade(table, spread->unsteady ? MN_GRADE_WARN : MN_GRADE_GOOD);
    mn_table_num(table, spread->repetitions, 0);
    mn_table_num(table, spread->outliers, 0);
}

void mn_table_grade(struct mn_report_table *table, enum mn_grade grade)
{
    table->cells[table->n_cells - 1].grade = grade;
}

static int is_empty(const struct mn_report_table *table, int col)
{
    for (size_t i = (size_t)col; i < table->n_cells; i += (size_t)table->n_cols)
        if (strcmp(table->cells[i].text, NOTHING) != 0)
            return 0;
    return 1;
}

static void write_html(const struct mn_report_table *table, const char *empty, FILE *file,
                       const char *caption)
{
    static const char *const grades[] = {"", " warn", " bad"};
    static const char *const kinds[] = {"txt", "num", "prose"};

    fputs(MN_SCROLL_BEGIN "<table>\n", file);
    if (caption) {
        fputs("<caption>", file);
        mn_text_html(file, caption);
        fputs("</caption>\n", file);
    }
    fputs("<thead><tr>", file);
    for (int c = 0; c < table->n_cols; c++) {
        if (empty[c])
            continue;
        fprintf(file, "<th scope=\"col\"%s>",
                table->cols[c].align == MN_NUMBER ? " class=\"num\"" : "");
        mn_text_html(file, table->cols[c].head);
        fputs("</th>", file);
    }
    fputs("</tr></thead>\n<tbody>", file);
    for (size_t i = 0; i < table->n_cells; i++) {
        int c = (int)(i % (size_t)table->n_cols);
        const struct mn_report_cells *cell = &table->cells[i];
        if (!c)
            fputs(i ? "</tr>\n<tr>" : "\n<tr>", file);
        if (empty[c])
            continue;
        fprintf(file, "<td class=\"%s%s\">", kinds[table->cols[c].align], grades[cell->grade]);
        mn_text_html(file, cell->text);
        fputs("</td>", file);
    }
    fputs("</tr>\n</tbody></table>" MN_SCROLL_END "\n", file);
}

static void write_md(const struct mn_report_table *table, const char *empty, FILE *file,
                     const char *caption)
{
    static const char *const grades[] = {"", " ⚠", " ❌"};

    if (caption) {
        fputs("**", file);
        mn_text_md(file, caption);
        fputs("**\n\n", file);
    }
    for (int row = 0; row < 2; row++) {
        fputc('|', file);
        for (int c = 0; c < table->n_cols; c++) {
            if (empty[c])
                continue;
            if (row) {
                fputs(table->cols[c].align == MN_NUMBER ? "---:|" : "---|", file);
                continue;
            }
            fputc(' ', file);
            mn_text_md(file, table->cols[c].head);
            fputs(" |", file);
        }
        fputc('\n', file);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        int c = (int)(i % (size_t)table->n_cols);
        if (!c)
            fputs(i ? "\n|" : "|", file);
        if (empty[c])
            continue;
        fputc(' ', file);
        mn_text_md(file, table->cells[i].text);
        fprintf(file, "%s |", grades[table->cells[i].grade]);
    }
    fputs("\n\n", file);
}

void mn_table_write(struct mn_report_table *table, FILE *file, enum mn_report_format format,
                    const char *caption)
{
    char *empty = mn_zalloc((size_t)table->n_cols);

    for (int c = 0; c < table->n_cols; c++)
        empty[c] = (char)is_empty(table, c);
    if (table->n_cells && format == MN_REPORT_HTML)
        write_html(table, empty, file, caption);
    else if (table->n_cells)
        write_md(table, empty, file, caption);
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i].text);
    free(table->cells);
    table->cells = NULL;
    table->n_cells = 0;
    free(empty);
}
