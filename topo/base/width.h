/* How much room text takes on a terminal, and how much there is. */
#ifndef MN_BASE_WIDTH_H
#define MN_BASE_WIDTH_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of a UTF-8 text, of its first size at most, that fit into so many columns: whole
 * characters, those of two columns and of none counted as such. *used: the columns they take; NULL
 * is fine. */
size_t mn_term_fit(const char *text, size_t size, int columns, int *used);
int mn_term_width(const char *text);
/* Columns of the terminal that file is, as $COLUMNS or else the terminal says; 0: it is none, or
 * does not say. */
int mn_term_columns(FILE *file);

#endif
