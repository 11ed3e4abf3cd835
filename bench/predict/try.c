/* How fast a host works in its memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/predict.h"
#include "plugin/reduce.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define ROUNDS 5

/* Seconds for a chunk: the middle one of some tries. reduce NULL: a copy. */
static float chunk_time(mn_reduce_fn *reduce, size_t element, void *to, const void *from)
{
    double times[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        double start = mn_seconds();
        if (reduce)
            reduce(to, from, MN_COLLECTIVE_CHUNK / element);
        else
            memcpy(to, from, MN_COLLECTIVE_CHUNK);
        double took = mn_seconds() - start;
        int at = i;
        for (; at > 0 && times[at - 1] > took; at--)
            times[at] = times[at - 1];
        times[at] = took;
    }
    return (float)times[ROUNDS / 2];
}

static double rate(float seconds)
{
    return seconds > 0 ? MN_COLLECTIVE_CHUNK / (double)seconds : 0;
}

enum mn_err mn_predict_try(struct mn_group *group, const struct mn_collective_task *tasks,
                           size_t n_tasks, struct mn_predict_mesh *made, struct mn_diag *diag)
{
    float times[MN_TYPES * MN_REDOPS + 1] = {0};
    void *to = mn_zalloc(MN_COLLECTIVE_CHUNK), *from = mn_zalloc(MN_COLLECTIVE_CHUNK);

    memset(to, 0, MN_COLLECTIVE_CHUNK); /* so that both have pages of their own */
    memset(from, 0, MN_COLLECTIVE_CHUNK);
    times[MN_TYPES * MN_REDOPS] = chunk_time(NULL, 1, to, from);
    for (size_t i = 0; i < n_tasks; i++) {
        const struct mn_collective_task *task = &tasks[i];
        float *time = &times[task->type * MN_REDOPS + task->op];
        if (*time <= 0 && mn_collective_reduces(task->collective))
            *time = chunk_time(mn_reduce_kernel(task->type, task->op), mn_type_size(task->type), to,
                               from);
    }
    free(to);
    free(from);
    enum mn_err err = mn_group_max(group, times, sizeof times / sizeof *times, diag);
    for (int t = 0; t < MN_TYPES && !err; t++)
        for (int op = 0; op < MN_REDOPS; op++)
            made->reduce[t][op] = rate(times[t * MN_REDOPS + op]);
    made->copy = rate(times[MN_TYPES * MN_REDOPS]);
    return err;
}
