#include "bench/coll/flow.h"

#include <stdlib.h>
#include <string.h>

/* Memory from start to the next span's start, all of it last used by the same steps. */
struct span {
    size_t start;
    int writer;  /* the step that wrote it last */
    int readers; /* steps that read it since: where their list begins, MN_NO_STEP = none */
    int output;  /* written as the output */
};

struct space {
    struct span *spans;
    int n, room;
};

/* Lists of readers are only ever prepended to, so spans that were cut apart share what they had. */
struct reader {
    int step, next;
};

struct mn_flow {
    struct mn_schedule *s;
    size_t chunk;
    int nranks;
    struct space spaces[MN_BUFFERS]; /* the input uses the output's when they may be the same */
    int shared;
    size_t shift[MN_BUFFERS]; /* of a buffer in its space */
    struct reader *readers;
    int n_readers, readers_room;
    int *needs; /* what the next step waits for: one a queue of the runner */
    int n_needs;
};

static struct space *space_of(struct mn_flow *f, enum mn_step_buffer buffer)
{
    return &f->spaces[f->shared && buffer == MN_IN ? MN_OUT : buffer];
}

void mn_flow_free(struct mn_flow *f)
{
    if (!f)
        return;
    for (int i = 0; i < MN_BUFFERS; i++)
        free(f->spaces[i].spans);
    free(f->readers);
    free(f->needs);
    free(f);
}

static int room_for_spans(struct space *space, int more)
{
    if (space->n + more > space->room) {
        int room = 2 * space->room + 16;
        struct span *spans = realloc(space->spans, (size_t)room * sizeof *spans);
        if (!spans)
            return 0;
        space->spans = spans;
        space->room = room;
    }
    return 1;
}

struct mn_flow *mn_flow_new(enum mn_collective c, const struct mn_coll_job *job,
                            struct mn_schedule *s)
{
    struct mn_flow *f = calloc(1, sizeof *f);
    int ok = f != NULL;

    if (ok) {
        f->s = s;
        f->chunk = job->chunk;
        f->nranks = job->nranks;
        f->shared = mn_collective_in_place(c, job, &f->shift[MN_IN], &f->shift[MN_OUT]);
        f->needs = calloc(2 * (size_t)job->nranks + 1, sizeof *f->needs);
        ok = f->needs != NULL;
    }
    for (int i = 0; ok && i < MN_BUFFERS; i++) {
        struct space *space = &f->spaces[i];
        ok = room_for_spans(space, 1);
        if (ok)
            space->spans[space->n++] = (struct span){.writer = MN_NO_STEP, .readers = MN_NO_STEP};
    }
    if (ok)
        return f;
    mn_flow_free(f);
    s->err = MN_ERR_NOMEM;
    return NULL;
}

/* The span that begins at this place, made if need be; there must be room for it. */
static int cut(struct space *space, size_t at)
{
    int low = 0, high = space->n;

    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (space->spans[middle].start <= at)
            low = middle;
        else
            high = middle;
    }
    if (space->spans[low].start == at)
        return low;
    memmove(space->spans + low + 2, space->spans + low + 1,
            (size_t)(space->n - low - 1) * sizeof *space->spans);
    space->n++;
    space->spans[low + 1] = space->spans[low];
    space->spans[low + 1].start = at;
    return low + 1;
}

/* Which of the runner's queues a step is in: in each, steps end in the order of the list. */
static int queue_of(const struct mn_flow *f, const struct mn_step *step)
{
    return step->kind == MN_STEP_SEND   ? step->peer
           : step->kind == MN_STEP_RECV ? f->nranks + step->peer
                                        : 2 * f->nranks;
}

static void need(struct mn_flow *f, int step)
{
    if (step == MN_NO_STEP)
        return;
    int queue = queue_of(f, &f->s->steps[step]);
    for (int i = 0; i < f->n_needs; i++)
        if (queue_of(f, &f->s->steps[f->needs[i]]) == queue) {
            if (f->needs[i] < step)
                f->needs[i] = step;
            return;
        }
    f->needs[f->n_needs++] = step;
}

/* The spans of a place: first to the returned one, exclusively. */
static int spans_of(struct mn_flow *f, struct mn_at at, size_t bytes, struct space **space,
                    int *first)
{
    size_t start = at.offset + f->shift[at.buffer];

    *space = space_of(f, at.buffer);
    if (!room_for_spans(*space, 2)) {
        f->s->err = MN_ERR_NOMEM;
        return *first = 0;
    }
    *first = cut(*space, start);
    return cut(*space, start + bytes);
}

static void need_place(struct mn_flow *f, struct mn_at at, size_t bytes, int writes)
{
    struct space *space;
    int i, end = spans_of(f, at, bytes, &space, &i);

    for (; i < end; i++) {
        const struct span *span = &space->spans[i];
        need(f, span->writer);
        if (at.buffer == MN_IN && span->output)
            f->s->err = MN_ERR_INTERNAL;
        for (int r = writes ? span->readers : MN_NO_STEP; r != MN_NO_STEP; r = f->readers[r].next)
            need(f, f->readers[r].step);
    }
}

static void note_read(struct mn_flow *f, struct mn_at at, size_t bytes, int step)
{
    struct space *space;
    int i, end = spans_of(f, at, bytes, &space, &i);

    for (; i < end; i++) {
        if (f->n_readers == f->readers_room) {
            int room = 2 * f->readers_room + 64;
            struct reader *readers = realloc(f->readers, (size_t)room * sizeof *readers);
            if (!readers) {
                f->s->err = MN_ERR_NOMEM;
                return;
            }
            f->readers = readers;
            f->readers_room = room;
        }
        f->readers[f->n_readers] = (struct reader){step, space->spans[i].readers};
        space->spans[i].readers = f->n_readers++;
    }
}

static void note_write(struct mn_flow *f, struct mn_at at, size_t bytes, int step)
{
    struct space *space;
    int first, end = spans_of(f, at, bytes, &space, &first);

    if (first == end)
        return;
    space->spans[first].writer = step;
    space->spans[first].readers = MN_NO_STEP;
    space->spans[first].output = at.buffer == MN_OUT;
    memmove(space->spans + first + 1, space->spans + end,
            (size_t)(space->n - end) * sizeof *space->spans);
    space->n -= end - first - 1;
}

/* Drops what follows from the rest, and joins what is more than a step can wait for. */
static void thin_needs(struct mn_flow *f, int local)
{
    struct mn_schedule *s = f->s;
    int n = 0;

    for (int i = 0; i < f->n_needs; i++) {
        int step = f->needs[i], implied = local && s->steps[step].kind >= MN_STEP_REDUCE;
        for (int k = 0; k < f->n_needs && !implied; k++)
            for (int a = 0; a < 3; a++)
                implied |= s->steps[f->needs[k]].after[a] == step;
        /* What is dropped stays in the list for those behind it: after only names earlier steps,
         * so nothing is dropped for one that is dropped for it. */
        if (!implied) {
            f->needs[i] = f->needs[n];
            f->needs[n++] = step;
        }
    }
    f->n_needs = n;
    while (f->n_needs > 3) {
        int join = mn_schedule_copy(s, mn_at(MN_IN, 0), mn_at(MN_IN, 0), 0, MN_NO_STEP);
        for (int i = 0; i < 3; i++)
            mn_schedule_wait(s, join, f->needs[--f->n_needs]);
        f->needs[f->n_needs++] = join;
    }
}

static void add(struct mn_flow *f, struct mn_step step)
{
    struct mn_schedule *s = f->s;
    int reads = step.kind != MN_STEP_RECV, writes = step.kind != MN_STEP_SEND, number;

    if (s->err)
        return;
    f->n_needs = 0;
    if (reads)
        need_place(f, step.from, step.bytes, 0);
    if (writes)
        need_place(f, step.to, step.bytes, 1);
    thin_needs(f, step.kind >= MN_STEP_REDUCE);
    switch (step.kind) {
    case MN_STEP_SEND:
        number = mn_schedule_send(s, step.peer, step.from, step.bytes, MN_NO_STEP);
        break;
    case MN_STEP_RECV:
        number = mn_schedule_recv(s, step.peer, step.to, step.bytes, MN_NO_STEP);
        break;
    case MN_STEP_REDUCE:
        number = mn_schedule_reduce(s, step.from, step.to, step.bytes, MN_NO_STEP);
        break;
    default:
        number = mn_schedule_copy(s, step.from, step.to, step.bytes, MN_NO_STEP);
    }
    if (s->err)
        return;
    for (int i = 0; i < f->n_needs; i++)
        mn_schedule_wait(s, number, f->needs[i]);
    if (reads)
        note_read(f, step.from, step.bytes, number);
    if (writes)
        note_write(f, step.to, step.bytes, number);
    if (writes && step.to.buffer == MN_TMP && step.to.offset + step.bytes > s->tmp_bytes)
        s->tmp_bytes = step.to.offset + step.bytes;
}

static void add_chunks(struct mn_flow *f, struct mn_step whole)
{
    for (size_t at = 0; at < whole.bytes; at += f->chunk) {
        struct mn_step step = whole;
        step.from.offset += at;
        step.to.offset += at;
        step.bytes = whole.bytes - at < f->chunk ? whole.bytes - at : f->chunk;
        add(f, step);
    }
}

void mn_flow_send(struct mn_flow *f, int peer, struct mn_at from, size_t bytes)
{
    add_chunks(f,
               (struct mn_step){.kind = MN_STEP_SEND, .peer = peer, .from = from, .bytes = bytes});
}

void mn_flow_recv(struct mn_flow *f, int peer, struct mn_at to, size_t bytes)
{
    add_chunks(f, (struct mn_step){.kind = MN_STEP_RECV, .peer = peer, .to = to, .bytes = bytes});
}

void mn_flow_reduce(struct mn_flow *f, struct mn_at from, struct mn_at to, size_t bytes)
{
    add_chunks(f, (struct mn_step){.kind = MN_STEP_REDUCE, .from = from, .to = to, .bytes = bytes});
}

void mn_flow_copy(struct mn_flow *f, struct mn_at from, struct mn_at to, size_t bytes)
{
    add_chunks(f, (struct mn_step){.kind = MN_STEP_COPY, .from = from, .to = to, .bytes = bytes});
}
