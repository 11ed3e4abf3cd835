/* A report as text to paste: Markdown for an issue, CSV for a spreadsheet. */
#ifndef MN_CLI_REPORT_PLAIN_H
#define MN_CLI_REPORT_PLAIN_H

#include <stdio.h>

#include "cli/report/doc.h"

/* GitHub's Markdown. */
void mn_report_md(const struct mn_report *report, FILE *file);
/* One line for each figure: where it is from, what it is of, its unit. */
enum mn_err mn_report_csv(const struct mn_report *report, FILE *file, struct mn_diag *diag);

#endif
