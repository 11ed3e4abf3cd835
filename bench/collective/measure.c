#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/collective.h"
#include "bench/collective/pattern.h"
#include "bench/stats.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define LOOK_S          0.5
#define PAGE            4096
#define MOST_ITERATIONS (1ul << 18)

/* A collective about to be measured at this rank. */
struct session {
    struct mn_group *group;
    struct mn_engine *engine; /* NULL = the schedule is run over the group's wire */
    const struct mn_collective_task *task;
    struct mn_coll_job job; /* of work */
    struct mn_collective_work work;
    struct mn_schedule schedule;
    struct mn_run *run;
    void *bufs[MN_BUFFERS];
    int *hosts;
};

const char *mn_collective_refusal(const struct mn_collective_task *task, int nranks)
{
    struct mn_collective_work work;
    const struct mn_algorithm *a = task->algorithm;

    mn_collective_work(task, 0, nranks, NULL, &work);
    const char *refusal = a && a->refuses ? a->refuses(&work.job) : NULL;
    mn_collective_work_free(&work);
    return refusal;
}

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
}

/* Bytes of this rank's input and output; returns those of all its buffers. */
static size_t extent(const struct session *s, size_t *in, size_t *out)
{
    *in = mn_collective_in(s->task->collective, &s->job) * s->job.element;
    *out = mn_collective_out(s->task->collective, &s->job) * s->job.element;
    return pages(*in) + pages(*out) + pages(s->schedule.tmp_bytes);
}

static enum mn_err write_schedule(struct session *s, const struct mn_algorithm *a,
                                  struct mn_diag *diag)
{
    const struct mn_collective_task *task = s->task;
    const char *refusal = a->refuses ? a->refuses(&s->job) : NULL;

    if (refusal)
        return mn_fail(diag, MN_ERR_CONFIG, "%s by %s with %d ranks: %s",
                       mn_collective_name(task->collective), a->name, s->job.nranks, refusal);
    a->write(&s->job, &s->schedule);
    if (s->schedule.err)
        return mn_fail(diag, s->schedule.err, "%s of %llu bytes: no memory for its steps",
                       mn_collective_name(task->collective), task->bytes);
    return MN_OK;
}

static enum mn_err make_run(struct session *s, struct mn_diag *diag)
{
    const struct mn_collective_task *task = s->task;
    enum mn_err err = mn_group_connect(s->group, &s->schedule, diag);

    if (err)
        return err;
    s->run =
        mn_run_new(&s->schedule, mn_group_wire(s->group), s->job.nranks,
                   mn_collective_reduces(task->collective) ? mn_reduce_kernel(task->type, task->op)
                                                           : NULL,
                   s->job.element);
    return s->run ? MN_OK : mn_fail(diag, MN_ERR_NOMEM, "no memory for a run");
}

static enum mn_err set_up(struct session *s, struct mn_collective_row *row, struct mn_diag *diag)
{
    const struct mn_collective_task *task = s->task;
    const struct mn_algorithm *a = s->engine ? mn_engine_label(s->engine) : task->algorithm;
    enum mn_err err = MN_OK;
    int n = mn_group_size(s->group);
    size_t in, out;

    s->hosts = mn_zalloc((size_t)n * sizeof *s->hosts);
    mn_group_hosts(s->group, s->hosts);
    mn_collective_work(task, mn_group_rank(s->group), n, s->hosts, &s->work);
    s->job = s->work.job;
    if (!a)
        a = mn_algorithm_auto(task->collective, &s->job);
    *row = (struct mn_collective_row){.task = *task, .count = s->job.count};
    row->task.algorithm = a;
    row->bytes = mn_collective_bytes(task->collective, &s->job);
    if (!s->engine)
        err = write_schedule(s, a, diag);
    if (!err)
        err = mn_group_room(s->group, extent(s, &in, &out), diag);
    return err || s->engine ? err : make_run(s, diag);
}

/* *there: 0 when this collective is not done in place. */
static enum mn_err place_buffers(struct session *s, int place, int *there, struct mn_diag *diag)
{
    size_t in, out, in_at, out_at, all = extent(s, &in, &out);
    uint8_t *base;
    enum mn_err err = mn_group_memory(s->group, all, &base, diag);

    if (err)
        return err;
    s->bufs[MN_IN] = base;
    s->bufs[MN_OUT] = base + pages(in);
    s->bufs[MN_TMP] = base + pages(in) + pages(out);
    *there = !place || mn_collective_in_place(s->task->collective, &s->job, &in_at, &out_at);
    if (place && *there) {
        s->bufs[MN_IN] = base + in_at;
        s->bufs[MN_OUT] = base + out_at;
    }
    return MN_OK;
}

/* --- running ---------------------------------------------------------------------------------- */

static enum mn_err run_engine(struct session *s, unsigned long n, double *seconds,
                              struct mn_diag *diag)
{
    const struct mn_engine_work work = {.collective = s->task->collective,
                                        .job = &s->job,
                                        .type = s->task->type,
                                        .op = s->task->op,
                                        .in = s->bufs[MN_IN],
                                        .out = s->bufs[MN_OUT]};

    return mn_engine_run(s->engine, &work, n, seconds, diag);
}

static enum mn_err once(struct session *s, struct mn_diag *diag)
{
    uint64_t moved = 0, before, idle = 0;
    enum mn_err err;

    if (s->engine)
        return run_engine(s, 1, NULL, diag);
    mn_run_start(s->run, s->bufs);
    for (;;) {
        before = moved;
        err = mn_run_poll(s->run, &moved);
        if (err != MN_ERR_AGAIN)
            break;
        if (moved != before)
            idle = 0;
        else if ((err = mn_group_idle(s->group, &idle, diag)))
            return err;
    }
    if (err == MN_ERR_PROTO)
        return mn_fail(diag, err, "%s: a message had another length than expected",
                       mn_collective_name(s->task->collective));
    return err ? mn_group_wire_error(s->group, diag) : MN_OK;
}

/* The engine's iterations are not timed one by one: each has had its part of the whole. */
static enum mn_err time_engine(struct session *s, unsigned long n, float *times, double *seconds,
                               struct mn_diag *diag)
{
    enum mn_err err = run_engine(s, n, seconds, diag);

    for (unsigned long i = 0; i < n && !err && times; i++)
        times[i] = (float)(*seconds * 1e6 / (double)n);
    return err;
}

static enum mn_err time_steps(struct session *s, unsigned long n, float *times, double *seconds,
                              struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    double start = mn_seconds(), last = start, looked = start;
    for (unsigned long i = 0; i < n && !err; i++) {
        err = once(s, diag);
        double t = mn_seconds();
        if (times)
            times[i] = (float)((t - last) * 1e6);
        last = t;
        /* Who never waits for others would not hear of Ctrl-C, or of another's end. */
        if (!err && t - looked > LOOK_S) {
            err = mn_group_look(s->group, diag);
            looked = last = mn_seconds();
        }
    }
    *seconds = last - start;
    return err;
}

/* Runs n times; times gets microseconds of each, *took the slowest rank's seconds for all. */
static enum mn_err loop(struct session *s, unsigned long n, float *times, double *took,
                        struct mn_diag *diag)
{
    enum mn_err err = mn_group_barrier(s->group, diag);
    double own = 0;

    /* The barrier lets ranks go one after the other: an untimed one brings them together. */
    if (!err)
        err = once(s, diag);
    if (!err)
        err =
            s->engine ? time_engine(s, n, times, &own, diag) : time_steps(s, n, times, &own, diag);
    float seconds = (float)own;
    if (!err)
        err = mn_group_max(s->group, &seconds, 1, diag);
    *took = (double)seconds;
    return err;
}

/* Warms up until the speed is steady, and finds how many iterations fill a repetition: the same
 * number at every rank. */
static enum mn_err choose_count(struct session *s, unsigned long *count, int *steady,
                                struct mn_diag *diag)
{
    const struct mn_collective_task *task = s->task;
    double want = mn_repeat_each(&task->repeat), took = 0, before;
    unsigned long n = task->warmup ? task->warmup : 3;
    enum mn_err err = loop(s, n, NULL, &took, diag);

    *steady = -1;
    *count = task->iters < MOST_ITERATIONS ? task->iters : MOST_ITERATIONS;
    if (task->iters || err)
        return err;
    while (!err && took < want / 2 && n < MOST_ITERATIONS / 4) {
        n *= 4;
        err = loop(s, n, NULL, &took, diag);
    }
    double fit = ceil((double)n * want / fmax(took, 1e-7));
    *count = (unsigned long)fmin(fmax(fit, 3), MOST_ITERATIONS);
    *steady = 0;
    took = 0;
    for (int i = 0; i < MN_REPEAT_WARMUPS && !*steady && !err; i++) {
        before = took;
        err = loop(s, *count, NULL, &took, diag);
        *steady = mn_repeat_is_steady(before, took);
        if (took * 1000 > task->repeat.most_ms)
            break;
    }
    return err;
}

/* Whether the ranks measure once more, which rank 0 says: their arithmetic may differ in the last
 * bit. */
static enum mn_err another(struct session *s, const struct mn_repeat *repeat, size_t done,
                           int *more, struct mn_diag *diag)
{
    int rank = mn_group_rank(s->group);
    float wanted = !rank && mn_repeat_wants_more(repeat) && done < MOST_ITERATIONS;

    if (s->task->iters)
        wanted = !repeat->n;
    enum mn_err err = mn_group_max(s->group, &wanted, 1, diag);
    *more = wanted > 0;
    return err;
}

/* Repeats the loop of n iterations; *times are all of theirs. */
static enum mn_err repeat_it(struct session *s, unsigned long n, struct mn_repeat *repeat,
                             float **times, size_t *done, struct mn_diag *diag)
{
    double took;
    int more;
    enum mn_err err = another(s, repeat, *done, &more, diag);

    while (!err && more) {
        float *longer = realloc(*times, (*done + n) * sizeof **times);
        if (!longer)
            return mn_fail(diag, MN_ERR_NOMEM, "no memory for the times of %zu iterations",
                           *done + n);
        *times = longer;
        err = loop(s, n, *times + *done, &took, diag);
        if (!err)
            err = mn_group_max(s->group, *times + *done, n, diag);
        *done += n;
        mn_repeat_add(repeat, took * 1e6 / (double)n, took);
        if (!err)
            err = another(s, repeat, *done, &more, diag);
    }
    return err;
}

static enum mn_err time_it(struct session *s, struct mn_collective_times *t, size_t bytes,
                           struct mn_diag *diag)
{
    struct mn_repeat repeat = {.plan = s->task->repeat};
    float *times = NULL;
    unsigned long n;
    size_t done = 0;
    int steady;
    enum mn_err err = choose_count(s, &n, &steady, diag);

    if (!err)
        err = repeat_it(s, n, &repeat, &times, &done, diag);
    if (!err) {
        mn_stats_sort(times, done);
        t->iterations = done;
        t->mean = repeat.seconds * 1e6 / (double)done;
        t->min = (double)times[0];
        t->p50 = s->engine ? NAN : mn_stats_percentile(times, done, 50);
        t->p99 = s->engine ? NAN : mn_stats_percentile(times, done, 99);
        t->algbw = t->mean > 0 ? (double)bytes / t->mean / 1e3 : 0;
        t->busbw = t->algbw * mn_collective_bus_factor(s->task->collective, s->job.nranks);
        t->spread = mn_repeat_spread(&repeat);
        t->spread.outliers = s->engine ? 0 : mn_stats_outliers(times, done);
        t->spread.steady = steady;
    }
    mn_repeat_free(&repeat);
    free(times);
    return err;
}

/* A run of its own, whose results are compared at every rank. */
static enum mn_err check_it(struct session *s, struct mn_collective_times *t, struct mn_diag *diag)
{
    struct mn_pattern pattern = {s->task->collective, &s->job, s->task->type, s->task->op};
    uint64_t mine[2], all[2 * MN_GROUP_RANKS];
    const struct mn_memory *memory = mn_group_memory_kind(s->group);
    size_t in, out;

    extent(s, &in, &out);
    uint8_t *data = mn_zalloc(in > out ? in + 1 : out + 1);
    memset(data, 0xa5, out);
    enum mn_err err = mn_area_copy(memory, s->bufs[MN_OUT], data, out, diag);
    mn_pattern_fill(&pattern, data);
    if (!err)
        err = mn_area_copy(memory, s->bufs[MN_IN], data, in, diag);
    if (!err)
        err = once(s, diag);
    if (!err)
        err = mn_area_copy(memory, data, s->bufs[MN_OUT], out, diag);
    mine[0] = mn_collective_out(s->task->collective, &s->job);
    mine[1] = err ? 0 : mn_pattern_wrong(&pattern, data);
    free(data);
    if (err)
        return err;
    err = mn_group_allgather(s->group, mine, sizeof mine, all, diag);
    for (int r = 0; r < s->job.nranks && !err; r++) {
        t->checked += all[2 * r];
        t->wrong += all[2 * r + 1];
    }
    return err;
}

enum mn_err mn_collective_measure(struct mn_group *group, struct mn_engine *engine,
                                  const struct mn_collective_task *task,
                                  struct mn_collective_row *row, struct mn_diag *diag)
{
    struct session s = {.group = group, .engine = engine, .task = task};
    enum mn_err err = set_up(&s, row, diag);

    for (int place = 0; place < 2 && !err; place++) {
        struct mn_collective_times *t = &row->place[place];
        err = place_buffers(&s, place, &t->measured, diag);
        if (!err && t->measured && task->check)
            err = check_it(&s, t, diag);
        if (!err && t->measured)
            err = time_it(&s, t, (size_t)row->bytes, diag);
    }
    mn_run_free(s.run);
    mn_schedule_free(&s.schedule);
    mn_collective_work_free(&s.work);
    free(s.hosts);
    return err;
}
