/* What became faster or slower from one file of results to another of the same kind. */
#ifndef MN_COMPARE_H
#define MN_COMPARE_H

#include "cli/results.h"

enum mn_compare_better {
    MN_BETTER_HIGHER,
    MN_BETTER_LOWER,
    MN_BETTER_NONE, /* a count that is to be 0: more of it is a regression */
    MN_BETTER_OK,   /* a text that is to be "ok" */
};

struct mn_compare_metric {
    const char *key;
    enum mn_compare_better better;
    const char *ci; /* column of its confidence interval, NULL = it has none */
    int told_only;  /* told, but no reason to fail: noise of it is not known */
};

/* Of the rows of a list: the columns that say which row it is, and what is compared. */
struct mn_compare_list {
    const char *list;
    const char *keys[10];
    struct mn_compare_metric metrics[10];
};
/* By kind, each ended by a list of NULL. */
extern const struct mn_compare_list *const mn_compare_lists[MN_RESULTS_KINDS];

enum mn_verdict {
    MN_SAME,
    MN_FASTER,
    MN_SLOWER,
    MN_BROKEN,
    MN_MENDED,
    MN_GONE,
    MN_NEW,
    MN_VERDICTS
};
extern const char *const mn_verdict_names[MN_VERDICTS];

struct mn_compare_row {
    const char *list;
    char *name;           /* "size=8 direction=out" */
    const char *metric;   /* NULL: the whole row is gone or new */
    const char *texts[2]; /* of MN_BETTER_OK: before, after; else NULL */
    double values[2];     /* NaN = not measured */
    double change, noise; /* percent; NaN = cannot be said */
    enum mn_verdict verdict;
    int regression;
};

struct mn_comparison {
    struct mn_compare_row *rows;
    size_t n_rows;
    char **warnings; /* why the two may not be comparable */
    size_t n_warnings;
    size_t counts[MN_VERDICTS], regressions;
};

/* Both results stay with the caller and outlive the comparison; free it in every case. A change
 * within the noise, that of both confidence intervals together, is none; where one is not known,
 * within the threshold. Slower beyond noise by more than threshold percent is a regression. Results
 * of different kinds, or with no row in common, are MN_ERR_CONFIG. */
enum mn_err mn_compare(const struct mn_results *before, const struct mn_results *after,
                       double threshold, struct mn_comparison *c, struct mn_diag *diag);
void mn_comparison_free(struct mn_comparison *c);

/* compare_environment.c: adds to warnings. */
void mn_compare_environments(const struct mn_results *before, const struct mn_results *after,
                             struct mn_comparison *c);
void mn_compare_warn(struct mn_comparison *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
