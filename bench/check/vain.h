/* What was waited for in vain: who only waits for the same shows nothing new. */
#ifndef MN_CHECK_VAIN_H
#define MN_CHECK_VAIN_H

#include "bench/check.h"
#include "bench/check/raw.h"

#define MN_VAIN_FAMILIES 32

/* Zeroed, but for the limit. */
struct mn_vain {
    unsigned limit_ms; /* of a rule */
    /* A rule with MN_CHECK_FIRST shows it for all, two rules of a family for that family. */
    const struct mn_check_rule *all[MN_RAW_N_CALLS];
    struct {
        const struct mn_check_rule *first;
        unsigned rules;
    } family[MN_VAIN_FAMILIES][MN_RAW_N_CALLS];
};

/* A rule that failed, in this call or after it, and had not come on for so long. */
void mn_vain_learn(struct mn_vain *vain, const struct mn_check_job *job, enum mn_raw_call call,
                   uint64_t still_ms);
/* Whether something that most rules use is known to be in vain. */
int mn_vain_hopeless(const struct mn_vain *vain);
/* Whether a rule that has not come on for so long only waits for what others waited for in vain;
 * then why, for its report. */
int mn_vain_known(const struct mn_vain *vain, const struct mn_check_job *job, enum mn_raw_call call,
                  uint64_t still_ms, char *why, size_t size);

#endif
