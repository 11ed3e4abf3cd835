/* What one rank does in a collective, as a list of steps that an algorithm writes and a runner
 * carries out. The list knows no network and the runner no algorithm.
 *
 * A step may begin when the steps it waits for are done. Steps that send to one peer begin in the
 * order of the list, and so do those that receive from one peer, and the local ones: the k-th send
 * from a to b is the k-th receive at b from a, and must have its length. A list in which every step
 * waits only for earlier ones, at every rank in the same global order, cannot get stuck. */
#ifndef MN_SCHEDULE_H
#define MN_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "plugin/reduce.h"
#include "topo/base/err.h"

enum mn_step_kind {
    MN_STEP_SEND,   /* from -> peer; done: from may change */
    MN_STEP_RECV,   /* peer -> to; done: it is there */
    MN_STEP_REDUCE, /* to = to op from */
    MN_STEP_COPY    /* to = from, which may overlap */
};

/* in is the caller's and never written; out is the result; tmp is as large as the schedule says. */
enum mn_step_buffer { MN_IN, MN_OUT, MN_TMP, MN_BUFFERS };

struct mn_at {
    enum mn_step_buffer buffer;
    size_t offset;
};

struct mn_step {
    enum mn_step_kind kind;
    int peer; /* of sends and receives */
    struct mn_at from, to;
    size_t bytes;
    int after[3]; /* steps to wait for; MN_NO_STEP = none */
};
#define MN_NO_STEP (-1)

struct mn_schedule {
    struct mn_step *steps;
    int n;
    size_t tmp_bytes;
    enum mn_err err; /* set when there was no memory; then steps are lost */
    int room;
};

void mn_schedule_free(struct mn_schedule *s);
/* Appends and returns the step's number; a is what it waits for besides what is added later. */
int mn_schedule_send(struct mn_schedule *s, int peer, struct mn_at from, size_t bytes, int after);
int mn_schedule_recv(struct mn_schedule *s, int peer, struct mn_at to, size_t bytes, int after);
int mn_schedule_reduce(struct mn_schedule *s, struct mn_at from, struct mn_at to, size_t bytes,
                       int after);
int mn_schedule_copy(struct mn_schedule *s, struct mn_at from, struct mn_at to, size_t bytes,
                     int after);
/* One more step to wait for: at most three in all. */
void mn_schedule_wait(struct mn_schedule *s, int step, int after);

/* How bytes travel: the plugin's connections, or memory in tests. Results are 0 or an error that
 * mn_wire explains itself; *request NULL = no room now. buffer says which registration. */
struct mn_wire {
    void *ctx;
    int (*send)(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                void **request);
    int (*recv)(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                void **request);
    int (*test)(void *ctx, void *request, int *done, size_t *bytes);
    /* A step that nobody else takes part in, where the buffers cannot be touched: reduce NULL
     * copies. NULL: they can. */
    int (*local)(void *ctx, void *to, const void *from, size_t bytes, mn_reduce_fn *reduce,
                 size_t element);
};

#define MN_RUN_FLIGHT 8 /* sends to, and receives from, one peer under way */

/* A schedule being carried out. */
struct mn_run;
/* bufs: NULL where the schedule does not use one. reduce and element may be NULL and 1 when it
 * reduces nothing. NULL: no memory. The schedule must stay. */
struct mn_run *mn_run_new(const struct mn_schedule *s, const struct mn_wire *wire, int nranks,
                          mn_reduce_fn *reduce, size_t element);
/* Begins anew; any number of times. */
void mn_run_start(struct mn_run *run, void *const bufs[MN_BUFFERS]);
/* Does what can be done now. MN_OK: all is done; MN_ERR_AGAIN; MN_ERR_FAILED: the wire failed;
 * MN_ERR_PROTO: a peer's message had another length, its schedule is another one. *moved counts
 * steps that ended, for callers that notice a standstill. */
enum mn_err mn_run_poll(struct mn_run *run, uint64_t *moved);
void mn_run_free(struct mn_run *run);

#endif
