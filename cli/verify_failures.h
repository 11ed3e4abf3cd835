/* What matters of a run: which failures are one, and where to begin. */
#ifndef MN_VERIFY_FAILURES_H
#define MN_VERIFY_FAILURES_H

#include "cli/verify_report.h"

/* What a failure says without its numbers and its place: equal for what has one cause. */
void mn_verify_cause(const struct mn_check_result *result, char *cause, size_t size);
/* The first job before this one, of its version, that was found out for the same cause, or NULL. */
const struct mn_check_job *mn_verify_same(const struct mn_verify_report *report,
                                          const struct mn_check_job *job);
/* The closing list, of the jobs that fail the run. */
void mn_verify_failures(struct mn_verify_report *report);
/* What the baseline names and no longer fails. */
void mn_verify_mended(struct mn_verify_report *report);

#endif
