/* What a rule's process tells the judge: memory that both see. A plugin that closes, reuses or
 * fills descriptors cannot come between. Texts may be torn by a wild write; the judge cleans them.
 */
#ifndef MN_CHECK_RECORD_H
#define MN_CHECK_RECORD_H

#include <stdatomic.h>
#include <sys/types.h>

#include "bench/check.h"
#include "bench/check/raw.h"

#define MN_CHECK_STEPS 8 /* a reader takes the newest whole one */

/* Four letters each: what strays into this memory by accident is no verdict. */
enum mn_check_verdict {
    MN_VERDICT_PASS = 0x50617373,
    MN_VERDICT_WARN = 0x5761726e,
    MN_VERDICT_FAIL = 0x4661696c,
    MN_VERDICT_SKIP = 0x536b6970,
};

struct mn_check_shared {
    /* Written by the rule's process. */
    atomic_int claimed; /* the first verdict counts; whoever set this writes it */
    atomic_int verdict; /* set last */
    atomic_uint steps_begun, steps, logs_begun;
    struct mn_raw_watch watch;
    char step[MN_CHECK_STEPS][256];
    char note[1024], seen[1024];
    char log[MN_CHECK_LOG_LINES][512];
    struct mn_check_info info; /* of the probe */
    char error[1024];          /* of the probe's dlopen */
    /* Written by the warden, most of it when nothing of the rule lives any more. */
    pid_t rule; /* its process, from the start */
    int wait_status, timed_out, unkillable;
    unsigned ms;
};

/* Grows with all that a rule's calls bring, and its steps. */
static inline unsigned mn_check_moves(struct mn_check_shared *shared)
{
    return atomic_load(&shared->watch.moves) + atomic_load(&shared->steps_begun);
}

/* The whole life of a rule's process. */
_Noreturn void mn_check_child(const struct mn_check_target *target,
                              const struct mn_check_rule *rule, struct mn_check_shared *shared);
/* The probe, as a rule. */
void mn_check_probe_child(struct mn_check *check);

#endif
