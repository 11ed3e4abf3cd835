/* The manual's pages, in the program itself. */
#ifndef MN_CLI_PAGES_H
#define MN_CLI_PAGES_H

#include <stdio.h>

#include "topo/base/err.h"

struct mn_page_source {
    const char *name; /* "meshnet-bench" */
    int section;
    const char *text; /* roff */
};

/* Made by cli/pages.cmake of docs/man; NULL ends it. */
extern const struct mn_page_source mn_pages[];

/* "bench", "meshnet-bench", "yaml", "meshnet.yaml", "meshnet": NULL when there is none. */
const struct mn_page_source *mn_page_find(const char *topic);
/* By its short name: "bench", "yaml"; "meshnet" is that. */
const char *mn_page_short(const struct mn_page_source *page);
/* Shows it: by man(1) on a terminal that has it, else as plain text. */
void mn_page_show(const struct mn_page_source *page);
/* As plain text of so many columns: cli/roff.c. */
void mn_roff_write(const char *roff, int columns, FILE *file);

#endif
