#include "bench/coll/schedule.h"

#include <stdlib.h>
#include <string.h>

void mn_schedule_free(struct mn_schedule *s)
{
    free(s->steps);
    memset(s, 0, sizeof *s);
}

static int append(struct mn_schedule *s, struct mn_step step, int after)
{
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 64;
        struct mn_step *steps = s->err ? NULL : realloc(s->steps, (size_t)room * sizeof *steps);
        if (!steps) {
            s->err = MN_ERR_NOMEM;
            return MN_NO_STEP;
        }
        s->steps = steps;
        s->room = room;
    }
    step.after[0] = after;
    step.after[1] = step.after[2] = MN_NO_STEP;
    s->steps[s->n] = step;
    return s->n++;
}

int mn_schedule_send(struct mn_schedule *s, int peer, struct mn_at from, size_t bytes, int after)
{
    return append(s,
                  (struct mn_step){.kind = MN_STEP_SEND,
                                   .peer = peer,
                                   .from = from,
                                   .bytes = bytes},
                  after);
}

int mn_schedule_recv(struct mn_schedule *s, int peer, struct mn_at to, size_t bytes, int after)
{
    return append(s, (struct mn_step){.kind = MN_STEP_RECV, .peer = peer, .to = to, .bytes = bytes},
                  after);
}

int mn_schedule_reduce(struct mn_schedule *s, struct mn_at from, struct mn_at to, size_t bytes,
                       int after)
{
    return append(s,
                  (struct mn_step){.kind = MN_STEP_REDUCE, .from = from, .to = to, .bytes = bytes},
                  after);
}

int mn_schedule_copy(struct mn_schedule *s, struct mn_at from, struct mn_at to, size_t bytes,
                     int after)
{
    return append(s, (struct mn_step){.kind = MN_STEP_COPY, .from = from, .to = to, .bytes = bytes},
                  after);
}

void mn_schedule_wait(struct mn_schedule *s, int step, int after)
{
    if (step < 0 || after < 0)
        return;
    for (int i = 0; i < 3; i++) {
        int *slot = &s->steps[step].after[i];
        if (*slot == after)
            return;
        if (*slot == MN_NO_STEP) {
            *slot = after;
            return;
        }
    }
    s->err = MN_ERR_INTERNAL;
}
