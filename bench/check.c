/* The judge's side: which rules there are, and running them, several at once, in their wardens. */
#include "bench/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/check/elf.h"
#include "bench/check/rule.h"
#include "bench/check/warden.h"

#define PROBE_LIMIT_MS 20000
#define LOOK_MS        200 /* a lost SIGCHLD delays a report by this */

const struct mn_check_family *const mn_check_families[] = {
    &mn_check_load_family,
    &mn_check_device_family,
    &mn_check_connect_family,
    &mn_check_handshake_family,
    &mn_check_memory_family,
    &mn_check_transfer_family,
    &mn_check_deliver_family,
    &mn_check_group_family,
    &mn_check_request_family,
    &mn_check_visible_family,
    &mn_check_thread_family,
    &mn_check_close_family,
    &mn_check_context_family,
    &mn_check_life_family,
    &mn_check_death_family,
    &mn_check_idle_family,
    &mn_check_scenario_family,
    &mn_check_collnet_family,
    NULL,
};

const char *mn_check_status_name(enum mn_check_status status)
{
    static const char *const names[] = {"pass", "warn", "fail", "skip", "note"};

    return names[status];
}

const char *mn_check_grade_name(enum mn_check_grade grade)
{
    static const char *const names[] = {"must", "should", "style"};

    return names[grade];
}

int mn_check_applies(const struct mn_check_rule *rule, int version)
{
    return version >= rule->since && (!rule->until || version <= rule->until);
}

int mn_check_matches(const struct mn_check_family *family, const struct mn_check_rule *rule,
                     const char *name)
{
    return strcmp(name, family->name) == 0 || strcmp(name, rule->id) == 0;
}

enum state { WAITING, RUNNING, DONE };

struct slot {
    enum state state;
    struct mn_warden warden;
    unsigned runs;
};

struct run {
    const struct mn_check_plan *plan;
    struct mn_check_job *jobs;
    struct slot *slots;
    size_t n, reported;
    unsigned running;
    int alone; /* the one that runs wants no company */
    uint64_t start_ns;
};

static int wants_alone(const struct run *run, size_t i)
{
    return (run->jobs[i].rule->flags & MN_CHECK_ALONE) != 0;
}

/* The waiting job that ran least often; of those, what wants to be alone first. run->n: none. */
static size_t next_job(const struct run *run)
{
    size_t best = run->n;

    for (size_t i = 0; i < run->n; i++) {
        if (run->slots[i].state != WAITING)
            continue;
        if (best == run->n || run->slots[i].runs < run->slots[best].runs ||
            (run->slots[i].runs == run->slots[best].runs && wants_alone(run, i) &&
             !wants_alone(run, best)))
            best = i;
    }
    return best;
}

static struct mn_check_target target_of(const struct run *run, size_t i)
{
    struct mn_check_target target = *run->plan->target;

    if (run->jobs[i].version)
        target.version = run->jobs[i].version;
    target.two |= run->jobs[i].two;
    target.seed += run->slots[i].runs;
    if (run->jobs[i].rule->flags & MN_CHECK_SLOW)
        target.limit_ms *= 10;
    if (run->jobs[i].rule->flags & MN_CHECK_PATIENT)
        target.limit_ms *= 4;
    return target;
}

static enum mn_err start_some(struct run *run, struct mn_diag *diag)
{
    while (!run->alone && run->running < (run->plan->parallel ? run->plan->parallel : 1)) {
        size_t i = next_job(run);
        struct mn_check_target target;
        enum mn_err err;
        if (i == run->n || (wants_alone(run, i) && run->running))
            break;
        target = target_of(run, i);
        err = mn_warden_start(&target, run->jobs[i].rule, &run->slots[i].warden, diag);
        if (err)
            return err;
        run->slots[i].state = RUNNING;
        run->alone = wants_alone(run, i);
        run->running++;
    }
    return MN_OK;
}

static void collect(struct run *run, size_t i)
{
    struct slot *slot = &run->slots[i];
    struct mn_check_result *result = &run->jobs[i].result;
    uint64_t past_ms = (mn_check_now_ns() - run->start_ns) / 1000000u;

    mn_warden_collect(&slot->warden, run->jobs[i].rule, result, NULL, NULL);
    result->seed = run->plan->target->seed + slot->runs;
    result->runs = ++slot->runs;
    slot->state =
        result->status == MN_CHECK_PASS && past_ms < run->plan->stress_ms ? WAITING : DONE;
    run->running--;
    run->alone = 0;
}

static void collect_ended(struct run *run)
{
    for (size_t i = 0; i < run->n; i++)
        if (run->slots[i].state == RUNNING && mn_warden_ended(&run->slots[i].warden))
            collect(run, i);
    for (; run->reported < run->n && run->slots[run->reported].state == DONE; run->reported++)
        if (run->plan->done)
            run->plan->done(run->plan->ctx, &run->jobs[run->reported]);
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
        enum mn_err err = start_some(run, diag);
        if (err) {
            stop_all(run);
            return err;
        }
        sigtimedwait(child, NULL, &look);
        collect_ended(run);
    }
    return MN_OK;
}

/* SIGCHLD is blocked before the first fork: none is lost between looking and waiting. */
static void hold_sigchld(sigset_t *child, sigset_t *before)
{
    sigemptyset(child);
    sigaddset(child, SIGCHLD);
    sigprocmask(SIG_BLOCK, child, before);
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
    hold_sigchld(&child, &before);
    err = run_all(&run, &child, diag);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(run.slots);
    return err;
}

enum mn_err mn_check_run(const struct mn_check_rule *rule, const struct mn_check_target *target,
                         struct mn_check_result *result, struct mn_diag *diag)
{
    struct mn_check_plan plan = {.target = target};
    struct mn_check_job job = {.rule = rule};
    enum mn_err err = mn_check_run_all(&plan, &job, 1, diag);

    *result = job.result;
    return err;
}

static enum mn_err look(const struct mn_check_target *target, struct mn_check_info *info,
                        char error[1024], struct mn_diag *diag)
{
    static const struct mn_check_rule rule = {.id = "probe", .run = mn_check_probe_child};
    struct mn_check_target probe = *target;
    struct mn_check_result result;
    struct mn_warden warden;
    sigset_t child, before;
    enum mn_err err;

    probe.limit_ms = PROBE_LIMIT_MS;
    hold_sigchld(&child, &before);
    err = mn_warden_start(&probe, &rule, &warden, diag);
    while (!err && !mn_warden_ended(&warden))
        sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = LOOK_MS * 1000000});
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (!err)
        mn_warden_collect(&warden, &rule, &result, info, error);
    return err;
}

static enum mn_err check_version(const struct mn_check_target *target,
                                 const struct mn_check_info *info, struct mn_diag *diag)
{
    if (target->version == 0 || info->version == target->version || !info->versions[0])
        return MN_OK;
    return mn_fail(diag, MN_ERR_USAGE, "%s does not export ncclNetPlugin_v%d; it exports %s",
                   info->path, target->version, info->versions);
}

enum mn_err mn_check_probe(const struct mn_check_target *target, struct mn_check_info *info,
                           struct mn_diag *diag)
{
    char error[1024] = "";
    enum mn_err err;

    memset(info, 0, sizeof *info);
    if (strchr(target->path, '/')) {
        struct mn_elf elf;
        err = mn_elf_open(target->path, &elf, diag);
        if (err)
            return err;
        mn_elf_close(&elf);
    }
    err = look(target, info, error, diag);
    if (err)
        return err;
    if (error[0] && !strchr(target->path, '/'))
        return mn_fail(diag, MN_ERR_NOTFOUND,
                       "%s: the loader does not find it (%s); give a path, or set LD_LIBRARY_PATH",
                       target->path, error);
    return check_version(target, info, diag);
}
