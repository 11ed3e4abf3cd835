/* Text of a report. What a result file holds came over the network in part: names of hosts and
 * NICs, errors of other machines. It is cleaned once, when a file is read, and escaped by whatever
 * writes it. */
#ifndef MN_CLI_REPORT_TEXT_H
#define MN_CLI_REPORT_TEXT_H

#include <stdio.h>

/* A copy that is valid UTF-8 without control characters (a space in their place) and without
 * characters that turn the direction of writing (U+FFFD, as for wrong bytes), at most 500
 * characters and then "…". Caller frees. */
char *mn_text_clean(const char *text);

/* Characters of valid UTF-8. */
int mn_text_width(const char *text);
/* The first max characters of valid UTF-8 at most, the last of them "…" when some were left out;
 * returns buf. */
char *mn_text_short(const char *text, int max, char *buf, size_t size);

/* For an element or a quoted attribute of HTML and SVG. */
void mn_text_html(FILE *file, const char *text);
/* For a line or a table's cell of GitHub's Markdown: no markup, no mention of users, no reference
 * to issues. */
void mn_text_md(FILE *file, const char *text);

/* "97.1", or "–" for NaN; returns buf. */
char *mn_text_num(double value, int decimals, char *buf, size_t size);
/* Three figures: 0.0123, 1.23, 12.3, 123, 1234; returns buf. */
char *mn_text_figures(double value, char *buf, size_t size);
/* Bytes as sizes are given: 64K, 1M; returns buf. */
char *mn_text_size(double bytes, char *buf, size_t size);

#endif
