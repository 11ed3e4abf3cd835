#include "bench/check/vain.h"

#include <stdio.h>

#define PART     30  /* of a rule's limit: what waits for something known to be in vain gets it */
#define LEAST_MS 500 /* and no less: a healthy call may wait for the processor */
#define ENOUGH   2   /* rules of one family */

static const char *const names[] = {
    [MN_RAW_LOAD] = "loading, or its first call",
    [MN_RAW_INIT] = "init",
    [MN_RAW_PROPERTIES] = "devices or getProperties",
    [MN_RAW_CONNECT] = "connect or accept",
    [MN_RAW_MEMORY] = "regMr or deregMr",
    [MN_RAW_TRANSFER] = "isend, irecv or test",
    [MN_RAW_CLOSE] = "a close or finalize",
    [MN_RAW_TUNER] = "a call of the tuner",
};

static int family_of(const struct mn_check_job *job)
{
    for (int f = 0; mn_check_families[f] && f < MN_VAIN_FAMILIES; f++)
        if (mn_check_families[f] == job->family)
            return f;
    return -1;
}

void mn_vain_learn(struct mn_vain *vain, const struct mn_check_job *job, enum mn_raw_call call,
                   uint64_t still_ms)
{
    int f = family_of(job);

    if (still_ms < vain->limit_ms / 2)
        return;
    if (job->rule->flags & MN_CHECK_FIRST && !vain->all[call])
        vain->all[call] = job->rule;
    if (f < 0)
        return;
    if (!vain->family[f][call].first)
        vain->family[f][call].first = job->rule;
    vain->family[f][call].rules++;
}

int mn_vain_hopeless(const struct mn_vain *vain)
{
    for (int c = 0; c < MN_RAW_N_CALLS; c++)
        if (vain->all[c])
            return 1;
    return 0;
}

int mn_vain_known(const struct mn_vain *vain, const struct mn_check_job *job, enum mn_raw_call call,
                  uint64_t still_ms, char *why, size_t size)
{
    const struct mn_check_rule *shown = vain->all[call];
    unsigned patience = vain->limit_ms / PART < LEAST_MS ? LEAST_MS : vain->limit_ms / PART;
    int f = family_of(job);

    if (!shown && call == MN_RAW_LOAD) /* by calls of its own, of which nothing is seen */
        shown = vain->all[MN_RAW_INIT];
    if (!shown && f >= 0 && vain->family[f][call].rules >= ENOUGH)
        shown = vain->family[f][call].first;
    if (!shown || still_ms < patience)
        return 0;
    snprintf(why, size, "not judged: waits for %s, as rule %s did in vain", names[call], shown->id);
    return 1;
}
