/* Command-line options as rows: the row is the option, its help, its default and its check.
 * Help, completion and the man page test come from the same rows. */
#ifndef MN_BASE_OPT_H
#define MN_BASE_OPT_H

#include <stddef.h>
#include <stdio.h>

#include "topo/base/err.h"

enum mn_opt_type {
    MN_OPT_FLAG,     /* int, 1 when given */
    MN_OPT_COUNT,    /* int, times given (-vv) */
    MN_OPT_INT,      /* long, min..max */
    MN_OPT_SIZE,     /* unsigned long long, bytes, min..max; see mn_parse_size */
    MN_OPT_DURATION, /* unsigned, milliseconds, min..max in milliseconds; see mn_parse_duration */
    MN_OPT_DOUBLE,   /* double, min..max */
    MN_OPT_STRING,   /* const char * into argv or the default text; a FILE's is not empty */
    MN_OPT_CHOICE,   /* int, index into choices "a|b|c" */
    MN_OPT_LIST,     /* struct mn_opt_list, comma separated and repeatable; no item is empty */
};

struct mn_opt_list {
    const char **items;
    size_t count;
};

struct mn_opt {
    const char *name; /* long name without dashes */
    char letter;      /* short name or 0 */
    enum mn_opt_type type;
    const char *arg;     /* HOST, FILE, …; NULL for FLAG and COUNT */
    const char *def;     /* default as text, parsed like an argument; NULL = zero */
    const char *help;    /* one sentence */
    size_t offset;       /* offsetof(struct options, field) */
    double min, max;     /* both 0 = no bounds */
    const char *choices; /* CHOICE only */
};
#define MN_OPT_END                                                                                 \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Fills *values (defaults first). Options and operands may stand in any order; argv is put in
 * order, operands last, and the first of them has index *first (argc when there is none). After
 * "--" all are operands. Errors are MN_ERR_USAGE with a text that quotes the argument and says what
 * was expected, with the nearest option name for a typing error. Where rows have --json beside
 * --csv, or a --format of which json is one, they exclude each other. --help is not handled here:
 * rows may hold it. */
enum mn_err mn_opt_parse(const struct mn_opt *rows, void *values, int argc, char **argv, int *first,
                         struct mn_diag *diag);
/* The name nearest to a misspelt word, or NULL when none is near. name_at gives the names by index,
 * NULL after the last. */
const char *mn_nearest(const char *word, const char *(*name_at)(const void *ctx, size_t i),
                       const void *ctx);

/* Frees lists. */
void mn_opt_free(const struct mn_opt *rows, void *values);
/* The options part of a help text. */
void mn_opt_help(const struct mn_opt *rows, FILE *file);

#endif
