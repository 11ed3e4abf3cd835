/* Through which versions the rules of a run go, and the jobs that come of it. */
#ifndef MN_VERIFY_JOBS_H
#define MN_VERIFY_JOBS_H

#include "bench/check.h"
#include "bench/check/profile.h"
#include "cli/verify_rules.h"

struct mn_verify_wish {
    int version;                            /* 0 = the newest */
    int all;                                /* all there are */
    const struct mn_check_profile *profile; /* only what it looks for, or NULL */
};

/* 0-terminated; {0} when there is none to drive. */
struct mn_verify_versions {
    int net[MN_CHECK_VERSIONS], tuner[MN_CHECK_VERSIONS];
    int n_net, n_tuner;
};

/* "v10" or "10", of any interface. */
enum mn_err mn_verify_read_version(const char *text, int *version, struct mn_diag *diag);
/* Whether only rules about tuners are meant: a version is then a tuner's. */
int mn_verify_tuner_alone(const struct mn_verify_choice *choice);
/* MN_ERR_USAGE when the version that was asked for, or any that the profile looks for, is not
 * there. */
enum mn_err mn_verify_versions(const struct mn_verify_choice *choice,
                               const struct mn_verify_wish *wish, const struct mn_check_info *info,
                               struct mn_verify_versions *versions, struct mn_diag *diag);
/* Free with free(). */
struct mn_check_job *mn_verify_jobs(const struct mn_verify_choice *choice,
                                    const struct mn_check_info *info,
                                    const struct mn_verify_versions *versions, size_t *n);

#endif
