/* Traffic as NCCL's progress thread drives it: a connection with a fixed set of slots, so many
 * steps posted ahead, the oldest request of each tested. */
#ifndef MN_CHECK_FLOW_H
#define MN_CHECK_FLOW_H

#include "bench/check/kit.h"

#define MN_FLOW_STEPS 8 /* NCCL_STEPS */

struct mn_flow {
    struct mn_pair pair;
    struct mn_buf out, in; /* one registration each, a slot for each step in flight */
    size_t slot;
    unsigned seed;
    unsigned steps; /* to move in all */
    unsigned posted, received, offered, sent;
    struct mn_req sends[MN_FLOW_STEPS], recvs[MN_FLOW_STEPS];
};

/* Registers for the pair, which is connected. */
void mn_flow_begin(struct mn_check *check, struct mn_flow *flow, size_t slot, unsigned steps,
                   unsigned seed);
/* Posts and tests once what can be; sends no step from `ready` on. A received step is checked, and
 * its slot overwritten, as soon as it is done. Never waits. */
void mn_flow_progress(struct mn_check *check, struct mn_flow *flow, unsigned ready);
int mn_flow_done(const struct mn_flow *flow);
/* All of them at once, in turn, until all are done. */
void mn_flow_run(struct mn_check *check, struct mn_flow *flows, int n);
/* deregMr, free, closeSend, closeRecv: whatever is in flight. */
void mn_flow_end(struct mn_check *check, struct mn_flow *flow);

#endif
