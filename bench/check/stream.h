/* Traffic as NCCL's progress thread drives it: a connection with a fixed set of slots, so many
 * steps posted ahead, the oldest request of each tested. */
#ifndef MN_CHECK_STREAM_H
#define MN_CHECK_STREAM_H

#include "bench/check/kit.h"

#define MN_STREAM_STEPS 8 /* NCCL_STEPS */

struct mn_stream {
    struct mn_pair pair;
    struct mn_buf out, in; /* one registration each, a slot for each step in flight */
    size_t slot;
    unsigned seed;
    unsigned steps; /* to move in all */
    unsigned posted, received, offered, sent;
    struct mn_req sends[MN_STREAM_STEPS], recvs[MN_STREAM_STEPS];
};

/* Registers for the pair, which is connected. */
void mn_stream_begin(struct mn_check *check, struct mn_stream *flow, size_t slot, unsigned steps,
                     unsigned seed);
/* Posts and tests once what can be; sends no step from `ready` on. A received step is checked, and
 * its slot overwritten, as soon as it is done. Never waits. */
void mn_stream_progress(struct mn_check *check, struct mn_stream *flow, unsigned ready);
int mn_stream_done(const struct mn_stream *flow);
/* All of them at once, in turn, until all are done. */
void mn_stream_run(struct mn_check *check, struct mn_stream *flows, int n);
/* deregMr, free, closeSend, closeRecv: whatever is in flight. */
void mn_stream_end(struct mn_check *check, struct mn_stream *flow);

#endif
