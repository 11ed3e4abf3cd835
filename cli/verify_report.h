/* What meshnet verify-plugin writes: one table of formats, each fed with the jobs in order. */
#ifndef MN_VERIFY_REPORT_H
#define MN_VERIFY_REPORT_H

#include "bench/check.h"
#include "cli/verify_baseline.h"
#include "topo/base/out.h"

#define MN_VERIFY_TIMEOUT_MS 30000 /* of --timeout, unless given */

struct mn_verify_report {
    const struct mn_check_target *target;
    const struct mn_check_info *info;
    const char *profile; /* as given, or NULL */
    const char *peer, *token_file;
    long port;
    const struct mn_check_job *jobs;
    size_t n;
    int many;          /* several versions of one interface are driven */
    int tuner_version; /* the newest of the tuner that is driven, 0 = none */
    int verbose, strict;
    const struct mn_verify_baseline *baseline; /* or NULL */
    /* The writer's own: */
    size_t number; /* reported so far */
    int counts[MN_CHECK_N_STATUS];
    int failed;                      /* what mn_verify_failed says yes to */
    int known;                       /* that the baseline names */
    int late;                        /* not judged: the time was over */
    const struct mn_check_job *held; /* the first of skips with one reason, not written yet */
    size_t n_held;
    struct mn_out *out;
};

struct mn_verify_format {
    void (*begin)(struct mn_verify_report *report);
    void (*job)(struct mn_verify_report *report, const struct mn_check_job *job);
    /* Returns 0, or -1 when writing failed. */
    int (*end)(struct mn_verify_report *report);
};

extern const struct mn_verify_format mn_verify_text, mn_verify_json, mn_verify_tap, mn_verify_junit;

/* Whether both are of one version of one interface. */
int mn_verify_alike(const struct mn_check_job *a, const struct mn_check_job *b);
/* Behind the rule's title: "", or that its ends were in two processes. */
const char *mn_verify_ends(const struct mn_check_job *job);
/* The command that runs this job alone in the same way. */
void mn_verify_command(const struct mn_verify_report *report, const struct mn_check_job *job,
                       char *text, size_t size);
/* Whether the rule did not hold, whatever its grade. */
int mn_verify_found(const struct mn_check_result *result);
/* Whether it would fail a run without a baseline. */
int mn_verify_counts(const struct mn_verify_report *report, const struct mn_check_job *job);
/* Whether it fails the run: it counts, and the baseline does not name it. */
int mn_verify_failed(const struct mn_verify_report *report, const struct mn_check_job *job);

#endif
