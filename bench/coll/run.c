/* Carries out a schedule. */
#include <stdlib.h>
#include <string.h>

#include "bench/coll/schedule.h"

/* The steps of one kind and peer, in the list's order. */
struct queue {
    int *steps;
    int n, begun, ended;
    void *requests[MN_RUN_FLIGHT];
};

struct mn_run {
    const struct mn_schedule *schedule;
    struct mn_wire wire;
    mn_reduce_fn *reduce;
    size_t element;
    uint8_t *bufs[MN_BUFFERS];
    uint8_t *done;        /* by step */
    struct queue *queues; /* sends by peer, receives by peer, the local ones */
    int n_queues, nranks, left;
    int *numbers; /* what the queues' lists point into */
};

static int queue_of(const struct mn_run *run, const struct mn_step *step)
{
    switch (step->kind) {
    case MN_STEP_SEND:
        return step->peer;
    case MN_STEP_RECV:
        return run->nranks + step->peer;
    default:
        return 2 * run->nranks;
    }
}

void mn_run_free(struct mn_run *run)
{
    if (!run)
        return;
    free(run->numbers);
    free(run->queues);
    free(run->done);
    free(run);
}

struct mn_run *mn_run_new(const struct mn_schedule *s, const struct mn_wire *wire, int nranks,
                          mn_reduce_fn *reduce, size_t element)
{
    struct mn_run *run = calloc(1, sizeof *run);
    size_t steps = (size_t)s->n + 1;

    if (!run)
        return NULL;
    run->schedule = s;
    run->wire = *wire;
    run->reduce = reduce;
    run->element = element;
    run->nranks = nranks;
    run->n_queues = 2 * nranks + 1;
    run->done = calloc(steps, 1);
    run->queues = calloc((size_t)run->n_queues, sizeof *run->queues);
    run->numbers = calloc(steps, sizeof *run->numbers);
    if (!run->done || !run->queues || !run->numbers) {
        mn_run_free(run);
        return NULL;
    }
    for (int i = 0; i < s->n; i++)
        run->queues[queue_of(run, &s->steps[i])].n++;
    int at = 0;
    for (int q = 0; q < run->n_queues; q++) {
        run->queues[q].steps = run->numbers + at;
        at += run->queues[q].n;
        run->queues[q].n = 0;
    }
    for (int i = 0; i < s->n; i++) {
        struct queue *queue = &run->queues[queue_of(run, &s->steps[i])];
        queue->steps[queue->n++] = i;
    }
    return run;
}

void mn_run_start(struct mn_run *run, void *const bufs[MN_BUFFERS])
{
    for (int i = 0; i < MN_BUFFERS; i++)
        run->bufs[i] = bufs[i];
    memset(run->done, 0, (size_t)run->schedule->n);
    for (int q = 0; q < run->n_queues; q++)
        run->queues[q].begun = run->queues[q].ended = 0;
    run->left = run->schedule->n;
}

static int may_begin(const struct mn_run *run, const struct mn_step *step)
{
    for (int i = 0; i < 3 && step->after[i] != MN_NO_STEP; i++)
        if (!run->done[step->after[i]])
            return 0;
    return 1;
}

static void end_step(struct mn_run *run, struct queue *queue, uint64_t *moved)
{
    run->done[queue->steps[queue->ended++]] = 1;
    run->left--;
    ++*moved;
}

/* Begins what may; the requests of a queue end in order, as the plugin's do. */
static enum mn_err advance_remote(struct mn_run *run, struct queue *queue, uint64_t *moved)
{
    while (queue->ended < queue->begun) {
        const struct mn_step *step = &run->schedule->steps[queue->steps[queue->ended]];
        size_t bytes = step->bytes;
        int done = 0;
        if (run->wire.test(run->wire.ctx, queue->requests[queue->ended % MN_RUN_FLIGHT], &done,
                           &bytes))
            return MN_ERR_FAILED;
        if (!done)
            break;
        if (step->kind == MN_STEP_RECV && bytes != step->bytes)
            return MN_ERR_PROTO;
        end_step(run, queue, moved);
    }
    while (queue->begun < queue->n && queue->begun - queue->ended < MN_RUN_FLIGHT) {
        const struct mn_step *step = &run->schedule->steps[queue->steps[queue->begun]];
        void **request = &queue->requests[queue->begun % MN_RUN_FLIGHT];
        if (!may_begin(run, step))
            break;
        const struct mn_at *at = step->kind == MN_STEP_SEND ? &step->from : &step->to;
        *request = NULL;
        int result =
            (step->kind == MN_STEP_SEND ? run->wire.send
                                        : run->wire.recv)(run->wire.ctx, step->peer,
                                                          run->bufs[at->buffer] + at->offset,
                                                          step->bytes, at->buffer, request);
        if (result)
            return MN_ERR_FAILED;
        if (!*request)
            break;
        queue->begun++;
    }
    return MN_OK;
}

static enum mn_err advance_local(struct mn_run *run, struct queue *queue, uint64_t *moved)
{
    while (queue->ended < queue->n) {
        const struct mn_step *step = &run->schedule->steps[queue->steps[queue->ended]];
        if (!may_begin(run, step))
            break;
        uint8_t *to = run->bufs[step->to.buffer] + step->to.offset;
        const uint8_t *from = run->bufs[step->from.buffer] + step->from.offset;
        mn_reduce_fn *reduce = step->kind == MN_STEP_REDUCE ? run->reduce : NULL;
        if (run->wire.local) {
            if (step->bytes && (reduce || to != from) &&
                run->wire.local(run->wire.ctx, to, from, step->bytes, reduce, run->element))
                return MN_ERR_FAILED;
        } else if (reduce)
            run->reduce(to, from, step->bytes / run->element);
        else if (to != from && step->bytes)
            memmove(to, from, step->bytes);
        end_step(run, queue, moved);
    }
    return MN_OK;
}

enum mn_err mn_run_poll(struct mn_run *run, uint64_t *moved)
{
    uint64_t before;
    enum mn_err err = MN_OK;

    do {
        before = *moved;
        for (int q = 0; q < 2 * run->nranks && !err; q++)
            if (run->queues[q].ended < run->queues[q].n)
                err = advance_remote(run, &run->queues[q], moved);
        if (!err)
            err = advance_local(run, &run->queues[2 * run->nranks], moved);
    } while (!err && *moved != before && run->left);
    return err ? err : run->left ? MN_ERR_AGAIN : MN_OK;
}
