/* Runs rules, several at once, in their wardens; and stops in time where a plugin is hopeless. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/check/rule.h"
#include "bench/check/vain.h"
#include "bench/check/warden.h"

#define LOOK_MS 200 /* a lost SIGCHLD delays a report by this */

enum state { WAITING, RUNNING, DONE };

struct slot {
    enum state state;
    struct mn_warden warden;
    unsigned runs, moves;
    enum mn_raw_call call; /* the last one seen */
    uint64_t moved_ns;     /* when it last came on */
    enum mn_check_left cut;
    char why[256];
};

struct run {
    const struct mn_check_plan *plan;
    struct mn_check_job *jobs;
    struct slot *slots;
    size_t n, reported;
    unsigned running;
    int alone; /* the one that runs wants no company */
    uint64_t start_ns;
    struct mn_vain vain;
    enum mn_check_left over; /* why nothing is started any more */
    char over_why[256];
};

static unsigned past_ms(const struct run *run)
{
    return (unsigned)((mn_check_now_ns() - run->start_ns) / 1000000u);
}

static int has(const struct run *run, size_t i, unsigned flag)
{
    return (run->jobs[i].rule->flags & flag) != 0;
}

/* Of two waiting jobs: what shows most goes first, then what ran least often, then what wants to
 * be alone. */
static int goes_before(const struct run *run, size_t a, size_t b)
{
    if (has(run, a, MN_CHECK_FIRST) != has(run, b, MN_CHECK_FIRST))
        return has(run, a, MN_CHECK_FIRST) && run->slots[a].runs == 0;
    if (run->slots[a].runs != run->slots[b].runs)
        return run->slots[a].runs < run->slots[b].runs;
    return has(run, a, MN_CHECK_ALONE) && !has(run, b, MN_CHECK_ALONE);
}

/* run->n: none that may start now. A gate is passed before anything else starts. */
static size_t next_job(const struct run *run)
{
    size_t best = run->n;
    int first_runs = 0;

    for (size_t i = 0; i < run->n; i++) {
        if (run->slots[i].state == RUNNING && run->slots[i].runs == 0) {
            first_runs |= has(run, i, MN_CHECK_FIRST);
            if (has(run, i, MN_CHECK_GATE))
                return run->n;
        }
        if (run->slots[i].state == WAITING && (best == run->n || goes_before(run, i, best)))
            best = i;
    }
    if (best < run->n && first_runs && !has(run, best, MN_CHECK_FIRST))
        return run->n;
    return best;
}

static struct mn_check_target target_of(const struct run *run, size_t i)
{
    struct mn_check_target target = *run->plan->target;

    /* The plan's is of the net plugin. */
    if (run->jobs[i].version ||
        (run->jobs[i].family && run->jobs[i].family->interface != MN_CHECK_NET))
        target.version = run->jobs[i].version;
    target.two |= run->jobs[i].two;
    target.seed += run->slots[i].runs;
    if (has(run, i, MN_CHECK_SLOW))
        target.limit_ms *= 10;
    if (has(run, i, MN_CHECK_PATIENT))
        target.limit_ms *= 4;
    return target;
}

/* What only waits takes no processor. */
static unsigned at_once(const struct run *run)
{
    unsigned n = run->plan->parallel ? run->plan->parallel : 1;

    return mn_vain_hopeless(&run->vain) && run->plan->waiting > n ? run->plan->waiting : n;
}

static enum mn_err start_some(struct run *run, struct mn_diag *diag)
{
    while (!run->alone && run->running < at_once(run)) {
        size_t i = next_job(run);
        struct mn_check_target target;
        enum mn_err err;
        if (i == run->n || (has(run, i, MN_CHECK_ALONE) && run->running))
            break;
        target = target_of(run, i);
        err = mn_warden_start(&target, run->jobs[i].rule, &run->slots[i].warden, diag);
        if (err)
            return err;
        run->slots[i].state = RUNNING;
        run->slots[i].moves = 0;
        run->slots[i].call = MN_RAW_LOAD;
        run->slots[i].moved_ns = mn_check_now_ns();
        run->alone = has(run, i, MN_CHECK_ALONE);
        run->running++;
    }
    return MN_OK;
}

/* Ends a rule that runs: the rest of it would show nothing, or is too late. */
static void cut(struct slot *slot, enum mn_check_left left, const char *why)
{
    if (slot->cut)
        return;
    slot->cut = left;
    snprintf(slot->why, sizeof slot->why, "%s", why);
    mn_warden_end(&slot->warden);
}

static void look_at(struct run *run, size_t i)
{
    struct slot *slot = &run->slots[i];
    unsigned moves = mn_warden_moves(&slot->warden, &slot->call);
    char why[sizeof slot->why];

    if (moves != slot->moves) {
        slot->moves = moves;
        slot->moved_ns = mn_check_now_ns();
    } else if (mn_vain_known(&run->vain, &run->jobs[i], slot->call,
                             (mn_check_now_ns() - slot->moved_ns) / 1000000u, why, sizeof why)) {
        cut(slot, MN_CHECK_LEFT_SAME, why);
    }
}

static void skip(struct run *run, size_t i, enum mn_check_left left, const char *why)
{
    struct mn_check_result *result = &run->jobs[i].result;

    result->status = MN_CHECK_SKIP;
    result->left = left;
    result->seed = run->plan->target->seed;
    result->timed_out = 0;
    snprintf(result->seen, sizeof result->seen, "%s", why);
}

/* Nothing more is started, and what runs is ended. */
static void stop(struct run *run, enum mn_check_left left, const char *why)
{
    if (run->over)
        return;
    run->over = left;
    snprintf(run->over_why, sizeof run->over_why, "%s", why);
    for (size_t i = 0; i < run->n; i++)
        if (run->slots[i].state == RUNNING)
            cut(&run->slots[i], left, why);
}

static void learn(struct run *run, size_t i)
{
    const struct mn_check_job *job = &run->jobs[i];
    const struct slot *slot = &run->slots[i];
    char why[256];

    if (job->result.left || job->result.status == MN_CHECK_PASS ||
        job->result.status == MN_CHECK_SKIP)
        return;
    mn_vain_learn(&run->vain, job, slot->call, (mn_check_now_ns() - slot->moved_ns) / 1000000u);
    if (job->result.status == MN_CHECK_FAIL && has(run, i, MN_CHECK_GATE)) {
        snprintf(why, sizeof why, "not run: NCCL does not take the library (rule %s)",
                 job->rule->id);
        stop(run, MN_CHECK_LEFT_GATE, why);
    }
    if (run->plan->enough && run->plan->enough(run->plan->ctx, job)) {
        snprintf(why, sizeof why, "not run after the first failure (rule %s)", job->rule->id);
        stop(run, MN_CHECK_LEFT_ENOUGH, why);
    }
}

static void collect(struct run *run, size_t i)
{
    struct slot *slot = &run->slots[i];
    struct mn_check_result *result = &run->jobs[i].result;

    mn_warden_collect(&slot->warden, run->jobs[i].rule, result, NULL, NULL);
    if (slot->cut && result->timed_out)
        skip(run, i, slot->cut, slot->why);
    result->seed = run->plan->target->seed + slot->runs;
    result->runs = ++slot->runs;
    slot->state =
        result->status == MN_CHECK_PASS && past_ms(run) < run->plan->stress_ms ? WAITING : DONE;
    run->running--;
    run->alone = 0;
    learn(run, i);
}

static void collect_ended(struct run *run)
{
    for (size_t i = 0; i < run->n; i++)
        if (run->slots[i].state == RUNNING) {
            if (mn_warden_ended(&run->slots[i].warden))
                collect(run, i);
            else
                look_at(run, i);
        }
    for (size_t i = 0; i < run->n && run->over; i++)
        if (run->slots[i].state == WAITING) {
            if (run->slots[i].runs == 0)
                skip(run, i, run->over, run->over_why);
            run->slots[i].state = DONE;
        }
    for (; run->reported < run->n && run->slots[run->reported].state == DONE; run->reported++)
        if (run->plan->done)
            run->plan->done(run->plan->ctx, &run->jobs[run->reported]);
}

static void keep_time(struct run *run)
{
    char why[256];

    if (!run->plan->total_ms || past_ms(run) < run->plan->total_ms)
        return;
    snprintf(why, sizeof why, "not judged: the %g s of the whole run were over (--total)",
             run->plan->total_ms / 1000.0);
    stop(run, MN_CHECK_LEFT_TIME, why);
}

static void stop_all(struct run *run)
{
    for (size_t i = 0; i < run->n; i++)
        if (run->slots[i].state == RUNNING)
            mn_warden_stop(&run->slots[i].warden);
}

static enum mn_err run_all(struct run *run, const sigset_t *child, struct mn_diag *diag)
{
    while (run->reported < run->n) {
        struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
        enum mn_err err = run->over ? MN_OK : start_some(run, diag);
        if (err) {
            stop_all(run);
            return err;
        }
        sigtimedwait(child, NULL, &look);
        keep_time(run);
        collect_ended(run);
    }
    return MN_OK;
}

enum mn_err mn_check_run_all(const struct mn_check_plan *plan, struct mn_check_job *jobs, size_t n,
                             struct mn_diag *diag)
{
    struct run run = {.plan = plan, .jobs = jobs, .n = n, .start_ns = mn_check_now_ns()};
    sigset_t child, before;
    enum mn_err err;

    run.slots = calloc(n ? n : 1, sizeof *run.slots);
    if (!run.slots)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for %zu rules", n);
    run.vain.limit_ms = plan->target->limit_ms;
    mn_warden_hold_sigchld(&child, &before);
    err = run_all(&run, &child, diag);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(run.slots);
    return err;
}
