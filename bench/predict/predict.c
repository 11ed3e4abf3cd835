#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/predict/predict_impl.h"
#include "topo/base/alloc.h"

/* --- a library's choice --------------------------------------------------------------------- */

static int op_of(enum mn_collective c)
{
    static const struct {
        enum mn_collective collective;
        enum mn_model_op op;
    } ops[] = {
        {MN_ALLREDUCE, MN_MODEL_ALL_REDUCE},
        {MN_ALLGATHER, MN_MODEL_ALL_GATHER},
        {MN_REDUCESCATTER, MN_MODEL_REDUCE_SCATTER},
        {MN_BROADCAST, MN_MODEL_BROADCAST},
        {MN_REDUCE, MN_MODEL_REDUCE},
        {MN_ALLTOALL, MN_MODEL_ALL_TO_ALL},
        {MN_SENDRECV, MN_MODEL_SEND_RECV},
    };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].collective == c)
            return (int)ops[i].op;
    return -1;
}

/* NCCL sends directly only where it does not go by a ring. */
static enum mn_err by_library(const struct mn_model *model, const struct mn_collective_task *task,
                              struct mn_model_result *best, struct mn_diag *diag)
{
    int op = op_of(task->collective), rings = op >= 0 && mn_model_does(MN_MODEL_RING, op);
    enum mn_err err = MN_ERR_UNSUPPORTED;

    for (int a = 0; op >= 0 && a < MN_MODEL_ALGOS; a++) {
        struct mn_model_result one;
        enum mn_err now = (a == MN_MODEL_DIRECT) == rings
                              ? MN_ERR_UNSUPPORTED
                              : mn_model_predict(model, (enum mn_model_op)op, (enum mn_model_algo)a,
                                                 (double)task->bytes, 2, &one);
        if (now == MN_ERR_UNSUPPORTED || (now && !err))
            continue;
        if (now || err || !(one.seconds >= best->seconds))
            *best = one;
        err = now;
    }
    if (err == MN_ERR_NOTFOUND)
        return mn_fail(diag, err, "%s",
                       best->cable < 0 ? "ranks have no way to each other over the mesh file's "
                                         "cables"
                                       : "the rate of a cable is not known");
    return err ? mn_fail(diag, err, "%s by a library: not predicted",
                         mn_collective_name(task->collective))
               : MN_OK;
}

/* --- bench's own ---------------------------------------------------------------------------- */

static enum mn_err write_all(const struct mn_model *model, const struct mn_collective_task *task,
                             const int *hosts, struct mn_schedule *schedules, double *bytes,
                             struct mn_diag *diag)
{
    const struct mn_algorithm *a = task->algorithm;
    enum mn_err err = MN_OK;

    for (int r = 0; r < model->n_ranks && !err; r++) {
        struct mn_collective_work work;
        mn_collective_work(task, r, model->n_ranks, hosts, &work);
        if (!a)
            a = mn_algorithm_auto(task->collective, &work.job);
        a->write(&work.job, &schedules[r]);
        err = schedules[r].err;
        *bytes = (double)mn_collective_bytes(task->collective, &work.job);
        mn_collective_work_free(&work);
    }
    return err ? mn_fail(diag, err, "%s of %llu bytes: no memory for its steps",
                         mn_collective_name(task->collective), task->bytes)
               : MN_OK;
}

static void conclude(const struct mn_load *parts, double seconds, double bytes, double factor,
                     struct mn_model_result *r)
{
    struct mn_load_worst worst = mn_load_worst(parts);

    *r = (struct mn_model_result){.seconds = seconds, .latency = seconds - worst.seconds};
    r->algbw = seconds > 0 ? bytes / seconds : 0;
    r->busbw = r->algbw * factor;
    r->limit = 2 * worst.seconds < seconds ? MN_LIMIT_LATENCY : worst.limit;
    r->cable = worst.cable;
    r->direction = worst.direction;
    r->group = worst.group;
    r->node = worst.node;
}

/* Every pair of the schedules has a way, of cables with a rate. */
static enum mn_err check_ways(const struct mn_model *model, const struct mn_schedule *schedules,
                              struct mn_model_result *result, struct mn_diag *diag)
{
    int *path = mn_zalloc(((size_t)model->fabric->n + 1) * sizeof *path), unknown = -1;
    enum mn_err err = MN_OK;
    struct mn_load none;

    mn_load_make(model->fabric, &none);
    for (int r = 0; r < model->n_ranks && !err; r++)
        for (int i = 0; i < schedules[r].n && !err; i++) {
            const struct mn_step *step = &schedules[r].steps[i];
            if (step->kind != MN_STEP_SEND)
                continue;
            int from = mn_model_node(model, r), to = mn_model_node(model, step->peer);
            if (mn_load_flow(&none, model, from, to, 0, path, NULL, &unknown) < 0)
                err = mn_fail(diag, MN_ERR_NOTFOUND,
                              "no way from rank %d to rank %d over the mesh file's cables", r,
                              step->peer);
            else if (unknown >= 0)
                err = mn_fail(diag, MN_ERR_NOTFOUND, "the rate of a cable is not known");
        }
    result->cable = unknown;
    mn_load_free(&none);
    free(path);
    return err;
}

enum mn_err mn_predict(const struct mn_model *model, const struct mn_collective_task *task,
                       int engine, const int *hosts, struct mn_model_result *result,
                       struct mn_diag *diag)
{
    size_t n = (size_t)model->n_ranks;
    struct mn_load parts;
    double bytes = 0, seconds = 0;

    *result = (struct mn_model_result){.seconds = NAN, .cable = -1, .direction = -1};
    result->group = result->node = -1;
    if (engine)
        return by_library(model, task, result, diag);
    if (n > MN_PREDICT_RANKS)
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "%zu ranks: predicted for at most %d", n,
                       MN_PREDICT_RANKS);
    struct mn_schedule *schedules = mn_zalloc((n + 1) * sizeof *schedules);
    enum mn_err err = write_all(model, task, hosts, schedules, &bytes, diag);
    if (!err)
        err = check_ways(model, schedules, result, diag);
    if (!err) {
        mn_load_make(model->fabric, &parts);
        seconds = mn_simulate(model, schedules, &parts);
        conclude(&parts, seconds, bytes, mn_collective_bus_factor(task->collective, (int)n),
                 result);
        mn_load_free(&parts);
        if (seconds < 0)
            err = mn_fail(diag, MN_ERR_INTERNAL, "%s: a schedule without an end",
                          mn_collective_name(task->collective));
    }
    for (size_t r = 0; r < n; r++)
        mn_schedule_free(&schedules[r]);
    free(schedules);
    return err;
}
