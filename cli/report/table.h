/* A table that is written as HTML and as Markdown, from the same calls. Cells are added row by row,
 * one for each column; text is escaped when it is written. */
#ifndef MN_CLI_REPORT_TABLE_H
#define MN_CLI_REPORT_TABLE_H

#include <stdio.h>

#include "cli/report/doc.h"

enum mn_report_format { MN_REPORT_HTML, MN_REPORT_MD, MN_REPORT_CSV };

enum mn_report_align { MN_TEXT, MN_NUMBER, MN_PROSE }; /* prose is text that may wrap */

struct mn_report_col {
    const char *head;
    enum mn_report_align align;
};

struct mn_report_cells {
    char *text;
    enum mn_grade grade;
};

struct mn_report_table {
    const struct mn_report_col *cols;
    int n_cols;
    struct mn_report_cells *cells;
    size_t n_cells;
};

/* HTML around what may be wider than the page: it scrolls by itself, and says so where it does. */
#define MN_SCROLL_BEGIN "<div class=\"scroll\" tabindex=\"0\"><div class=\"inner\">"
#define MN_SCROLL_END                                                                              \
    "<p class=\"more\" aria-hidden=\"true\">↔ scroll sideways: there is more</p></div></div>"

/* struct mn_report_table table = MN_TABLE(cols); */
#define MN_TABLE(columns)                                                                          \
    {                                                                                              \
        .cols = (columns), .n_cols = (int)(sizeof(columns) / sizeof *(columns))                    \
    }

void mn_table_text(struct mn_report_table *table, const char *text); /* NULL: "–" */
void mn_table_textf(struct mn_report_table *table, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void mn_table_num(struct mn_report_table *table, double value, int decimals);
void mn_table_figures(struct mn_report_table *table, double value); /* three of them */
void mn_table_size(struct mn_report_table *table, double bytes);
/* Three cells: half of the confidence interval in percent, repetitions, outliers. */
void mn_table_spread(struct mn_report_table *table, const struct mn_report_spread *spread);
/* The cell added last is good, to be looked at, or bad. */
void mn_table_grade(struct mn_report_table *table, enum mn_grade grade);

/* Leaves out columns without any value, and a table without rows. Frees the cells. */
void mn_table_write(struct mn_report_table *table, FILE *file, enum mn_report_format format,
                    const char *caption);

#endif
