/* Every rule has a warden: a process between the judge and the rule's own. It holds the time limit,
 * and whatever the plugin started, in whatever session, becomes its child when the rule ends and is
 * killed. The judge never loads a plugin and never waits for one. */
#ifndef MN_CHECK_WARDEN_H
#define MN_CHECK_WARDEN_H

#include <signal.h>
#include <sys/types.h>

#include "bench/check/record.h"

struct mn_warden {
    pid_t pid;
    uint64_t start_ns;
    unsigned limit_ms;
    struct mn_check_shared *shared;
};

/* target and rule are copied by the fork; they need not live on. */
enum mn_err mn_warden_start(const struct mn_check_target *target, const struct mn_check_rule *rule,
                            struct mn_warden *warden, struct mn_diag *diag);
/* Whether it has ended; does not wait. A warden that is long past its limit is killed. */
int mn_warden_ended(struct mn_warden *warden);
/* After mn_warden_ended: what the rule said and how its process ended. Frees. */
void mn_warden_collect(struct mn_warden *warden, const struct mn_check_rule *rule,
                       struct mn_check_result *result, struct mn_check_info *info,
                       char error[1024]);
/* To the rule's process, while it lives. */
void mn_warden_signal(const struct mn_warden *warden, int signal);
/* A number that grows while the rule comes on, and the kind of call that one of its
 * processes is in, else that it made last. */
unsigned mn_warden_moves(const struct mn_warden *warden, enum mn_raw_call *call);
/* Asks it to end and everything below it; mn_warden_ended and mn_warden_collect follow. */
void mn_warden_end(const struct mn_warden *warden);
/* The same, waits, and frees. */
void mn_warden_stop(struct mn_warden *warden);

/* Before the first start; an end is then waited for with sigtimedwait. */
void mn_warden_hold_sigchld(sigset_t *child, sigset_t *before);

#endif
