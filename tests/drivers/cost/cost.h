/* Shared by the parts of the cost driver. */
#ifndef COST_H
#define COST_H

#include <stdint.h>
#include <sys/types.h>

#include "bench/host.h"

#define PATIENCE_S 20

int cost_call(const char *what, int result); /* says what failed; returns result */

/* cost PLUGIN messages SIZE COUNT */
int cost_messages(const char *library, size_t size, long count);

/* --- instructions, counted by single steps ---------------------------------------------------- */

/* A traced process's side: in shared memory, so that its tracer sees when the call is over. */
struct cost_steps {
    volatile int inside;
    uint64_t plugin; /* of the call just made, with what it calls but verbs */
};

int cost_steps_allow(void); /* in the child: its parent may trace it. 0 where that is forbidden */
void cost_steps_begin(struct cost_steps *steps);
void cost_steps_end(struct cost_steps *steps);

/* The parent's: runs its n children until they end, steps those that are inside. Returns 1 when all
 * exited with 0. */
int cost_steps_run(const pid_t *children, struct cost_steps *const *steps, int n,
                   const char *library);

#endif
