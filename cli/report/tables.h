/* The tables of a report, as HTML and as Markdown. */
#ifndef MN_CLI_REPORT_TABLES_H
#define MN_CLI_REPORT_TABLES_H

#include "cli/report/table.h"

void mn_report_put_matrix(const struct mn_report_doc *doc, int pair, FILE *file,
                          enum mn_report_format format);
void mn_report_put_cells(const struct mn_report_doc *doc, int pair, FILE *file,
                         enum mn_report_format format);
void mn_report_put_latency(const struct mn_report_doc *doc, FILE *file,
                           enum mn_report_format format);
void mn_report_put_bandwidth(const struct mn_report_doc *doc, FILE *file,
                             enum mn_report_format format);
void mn_report_put_rates(const struct mn_report_doc *doc, FILE *file, enum mn_report_format format);
void mn_report_put_raw(const struct mn_report_doc *doc, FILE *file, enum mn_report_format format);
void mn_report_put_bursts(const struct mn_report_doc *doc, FILE *file,
                          enum mn_report_format format);
void mn_report_put_counters(const struct mn_report_doc *doc, FILE *file,
                            enum mn_report_format format);
void mn_report_put_collectives(const struct mn_report_doc *doc, FILE *file,
                               enum mn_report_format format);
void mn_report_put_environment(const struct mn_report *report, FILE *file,
                               enum mn_report_format format);

/* What carried a link's bytes and what the plugin warned of, in words: "" or sentences; returns
 * buf. */
char *mn_report_carrier(const struct mn_report_doc *doc, char *buf, size_t size);
/* "97.1 Gb/s, 98 %" or "dead" or "not measured", of one direction; returns buf. */
char *mn_report_way_text(const struct mn_report_way *way, char *buf, size_t size);

#endif
