/* Failures that are known: a file of lines "RULE vN", kept beside a plugin's sources for its CI.
 * What it names does not fail the run; what it names and no longer fails is said. */
#ifndef MN_VERIFY_BASELINE_H
#define MN_VERIFY_BASELINE_H

#include "bench/check.h"

struct mn_verify_known {
    const struct mn_check_rule *rule;
    int version, two;
    unsigned line;
};

struct mn_verify_baseline {
    const char *path;
    struct mn_verify_known *known;
    size_t n;
};

/* Free with mn_verify_baseline_free. MN_ERR_USAGE names the line that is none. */
enum mn_err mn_verify_baseline_read(const char *path, struct mn_verify_baseline *baseline,
                                    struct mn_diag *diag);
void mn_verify_baseline_free(struct mn_verify_baseline *baseline);
/* The line that names the job, or NULL; baseline may be NULL. */
const struct mn_verify_known *mn_verify_known(const struct mn_verify_baseline *baseline,
                                              const struct mn_check_job *job);
/* Writes one that names every job of which fails() says yes. */
enum mn_err mn_verify_baseline_write(const char *path, const struct mn_check_job *jobs, size_t n,
                                     int (*fails)(void *ctx, const struct mn_check_job *job),
                                     void *ctx, struct mn_diag *diag);

#endif
