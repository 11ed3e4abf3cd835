/* A report as one page of HTML that needs nothing else, no script either. */
#ifndef MN_CLI_REPORT_HTML_H
#define MN_CLI_REPORT_HTML_H

#include <stdio.h>

#include "cli/report/doc.h"

extern const char mn_report_style[];

enum mn_page_tool { MN_PAGE_DOT, MN_PAGE_GNUPLOT, MN_PAGE_TOOLS };

/* What a page is told as it is written. */
struct mn_page {
    FILE *file;
    const struct mn_report *report;
    int charts; /* written so far */
    /* Why a program's first picture that is not there is not; text "" when all are. */
    struct mn_diag *missing;
};

/* A part that is closed until somebody opens it; "</details>" ends it. */
void mn_page_fold(FILE *file, const char *title);
/* Sections of one document: cli/report/html_parts.c. */
void mn_page_facts(struct mn_page *page, const struct mn_report_doc *doc);
void mn_page_document(struct mn_page *page, const struct mn_report_doc *doc);

/* Writes the page. A picture that cannot be drawn is left out with a note, and missing says why
 * (text "" when all of a program were drawn). */
void mn_report_html(const struct mn_report *report, FILE *file,
                    struct mn_diag missing[MN_PAGE_TOOLS]);

/* "Mesh of 4 nodes and collectives of 4 ranks"; returns buf. */
char *mn_report_title(const struct mn_report *report, char *buf, size_t size);

#endif
