/* The judge's side: which rules there are, and what a library is before any of them runs. */
#include "bench/check.h"

#include <signal.h>
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
    &mn_check_wear_family,
    &mn_check_visible_family,
    &mn_check_thread_family,
    &mn_check_close_family,
    &mn_check_leave_family,
    &mn_check_context_family,
    &mn_check_life_family,
    &mn_check_death_family,
    &mn_check_idle_family,
    &mn_check_guest_family,
    &mn_check_scenario_family,
    &mn_check_collnet_family,
    &mn_check_tuner_family,
    NULL, /* the end */
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
    mn_warden_hold_sigchld(&child, &before);
    err = mn_warden_start(&probe, &rule, &warden, diag);
    while (!err && !mn_warden_ended(&warden))
        sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = LOOK_MS * 1000000});
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (!err)
        mn_warden_collect(&warden, &rule, &result, info, error);
    return err;
}

int mn_check_only_tuner(const struct mn_check_info *info)
{
    static const char only[] = "libnccl-tuner";
    const char *slash = strrchr(info->path, '/');

    return info->path[0] && !info->versions[0] &&
           (info->tuner_versions[0] ||
            strncmp(slash ? slash + 1 : info->path, only, sizeof only - 1) == 0);
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
