/* The picture of a mesh: nodes where graphviz puts them, links coloured by how much of what they
 * should deliver they do. graphviz sees numbers only. */
#ifndef MN_CLI_REPORT_DRAWING_H
#define MN_CLI_REPORT_DRAWING_H

#include <stdio.h>

#include "cli/report/doc.h"

/* Writes an <svg>. Without graphviz the nodes stand in a circle; then the error says so, and the
 * picture is written all the same. */
enum mn_err mn_drawing_write(const struct mn_report_doc *doc, FILE *file, struct mn_diag *diag);

/* "h4" (as it should be) down to "h0", "dead", "none" (not measured) or "plain" (nothing expected).
 */
const char *mn_drawing_class(const struct mn_report_way *way);

#endif
