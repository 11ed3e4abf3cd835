/* Ranks as processes of this host. */
#ifndef MN_LAUNCH_H
#define MN_LAUNCH_H

#include <signal.h>

#include "topo/base/err.h"

struct mn_launch {
    int nranks;
    /* What a rank does, in a process of its own; returns its exit code. */
    int (*body)(void *ctx, int rank);
    /* Lines that ranks other than 0 write to either output; those of rank 0 go where this
     * process's go. rank -1: what the launcher has to say. */
    void (*line)(void *ctx, int rank, const char *text);
    /* Rank, not 0, ended in error, with this as its last line: whether the others go on without it.
     * NULL: never. */
    int (*lost)(void *ctx, int rank, const char *last);
    /* Rank 0 is about to be asked to end, for this reason and not by a person. NULL: nobody cares.
     */
    void (*ending)(void *ctx, const char *why);
    void *ctx;
    double grace_s; /* what a rank that fails leaves the others to end by themselves; 0: 8 */
};

/* The signal by which this process was asked to end: SIGTERM, or SIGINT at rank 0 and the launcher.
 */
extern volatile sig_atomic_t mn_launch_stop;
/* SIGINT and SIGTERM set it from now on. */
void mn_launch_catch(void);
/* A terminal that goes does too, unless nohup has it otherwise. */
void mn_launch_catch_hangup(void);

/* Runs all ranks and returns when no process of theirs is left, *code being rank 0's exit code or 1
 * when a rank ended in another way. A rank that fails gives the others grace_s to end by
 * themselves; so does an interrupt. Who is killed then is told with the rank that failed first.
 * Processes end with the launcher however it ends. */
enum mn_err mn_launch_local(const struct mn_launch *launch, int *code, struct mn_diag *diag);

#endif
