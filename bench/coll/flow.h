/* Writes a schedule from a program: steps in the order in which one rank could do them one by one.
 * What each must wait for follows from the memory that it and earlier steps read and write, taking
 * input and output for the same memory where NCCL allows that. So a program that is right when
 * done one by one is right when its steps overlap, and in place.
 *
 * What is longer than the job's chunk is cut into chunks from its start on; both ends of a message
 * must therefore name it as one. The order must be the same globally, see schedule.h. */
#ifndef MN_FLOW_H
#define MN_FLOW_H

#include "bench/coll/algorithm.h"

struct mn_flow;

/* NULL: no memory, s->err says so. Reading the input where the output is already written, which
 * would go wrong in place, sets s->err to MN_ERR_INTERNAL. s->tmp_bytes follows from the steps. */
struct mn_flow *mn_flow_new(enum mn_collective c, const struct mn_coll_job *job,
                            struct mn_schedule *s);
void mn_flow_free(struct mn_flow *f);
void mn_flow_send(struct mn_flow *f, int peer, struct mn_at from, size_t bytes);
void mn_flow_recv(struct mn_flow *f, int peer, struct mn_at to, size_t bytes);
void mn_flow_reduce(struct mn_flow *f, struct mn_at from, struct mn_at to, size_t bytes);
void mn_flow_copy(struct mn_flow *f, struct mn_at from, struct mn_at to, size_t bytes);

static inline struct mn_at mn_at(enum mn_step_buffer buffer, size_t offset)
{
    return (struct mn_at){buffer, offset};
}

#endif
