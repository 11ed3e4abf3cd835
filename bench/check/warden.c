#include "bench/check/warden.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/rule.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define KILL_MS   5000  /* for the kernel to end what was killed */
#define SECOND_FD 3     /* the only descriptor a rule gets, if it is the second of two */
#define LATE_MS   10000 /* past the limit a warden has this long to clean up */

static uint64_t ms_since(uint64_t start_ns)
{
    return (mn_check_now_ns() - start_ns) / 1000000u;
}

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGQUIT);
    sigaddset(set, SIGTERM);
}

static _Noreturn void in_rule(const struct mn_check_target *target,
                              const struct mn_check_rule *rule, struct mn_check_shared *shared,
                              pid_t warden)
{
    struct mn_check_target own = *target;
    struct rlimit no_core = {0, 0};
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    /* Before its first word to anybody, who may answer with a signal: the warden may come to run
     * later than that. */
    shared->rule = getpid();
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL); /* a crash ends the process, whatever the caller's handlers do */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(1);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* the report owns the standard output */
    if (target->second_fd)
        own.second_fd = dup2(target->second_fd, SECOND_FD);
    syscall(SYS_close_range, target->second_fd ? SECOND_FD + 1u : 3u, ~0u, 0u);
    mn_check_child(&own, rule, shared);
}

/* The parent of a process, or 0. */
static pid_t parent_of(const char *pid)
{
    char path[300], text[512], *end;
    ssize_t n;
    int fd, parent = 0;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')'); /* the name before it may hold anything */
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void kill_children(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc && (entry = readdir(proc)))
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid())
            kill((pid_t)atoi(entry->d_name), SIGKILL);
    if (proc)
        closedir(proc);
}

/* Kills and reaps until nothing is left: children of what dies become ours. Returns 0 when
 * something could not be killed. */
static int sweep(pid_t rule, int *wait_status)
{
    uint64_t start = mn_check_now_ns();
    int status;

    while (ms_since(start) < KILL_MS) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return 1;
        if (pid > 0 && pid == rule)
            *wait_status = status;
        if (pid > 0)
            continue;
        kill_children();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return 0;
}

/* Until the rule's process ended (1), or the limit or a signal came (0). */
static int watch(pid_t rule, const sigset_t *signals, unsigned limit_ms, int *wait_status)
{
    uint64_t start = mn_check_now_ns();

    for (;;) {
        uint64_t past = ms_since(start), left = past < limit_ms ? limit_ms - past : 0;
        struct timespec wait = {(time_t)(left / 1000), (long)(left % 1000 * 1000000)};
        int signal_seen = sigtimedwait(signals, NULL, &wait), status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            if (pid == rule) {
                *wait_status = status;
                return 1;
            }
        if (left == 0 || (signal_seen > 0 && signal_seen != SIGCHLD))
            return 0;
    }
}

static _Noreturn void in_warden(const struct mn_check_target *target,
                                const struct mn_check_rule *rule, struct mn_check_shared *shared,
                                pid_t judge)
{
    uint64_t start = mn_check_now_ns();
    sigset_t signals;
    pid_t pid, self = getpid();
    int status = 0, ended;

    stop_signals(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != judge)
        _exit(1);
    pid = fork();
    if (pid < 0)
        _exit(1);
    if (pid == 0)
        in_rule(target, rule, shared, self);
    ended = watch(pid, &signals, target->limit_ms, &status);
    if (!ended)
        kill(pid, SIGKILL);
    shared->unkillable = !sweep(pid, &status);
    shared->wait_status = status;
    shared->timed_out = !ended;
    shared->ms = (unsigned)ms_since(start);
    _exit(0);
}

enum mn_err mn_warden_start(const struct mn_check_target *target, const struct mn_check_rule *rule,
                            struct mn_warden *warden, struct mn_diag *diag)
{
    pid_t judge = getpid();
    sigset_t signals, before;

    *warden = (struct mn_warden){.start_ns = mn_check_now_ns(), .limit_ms = target->limit_ms};
    warden->shared = mmap(NULL, sizeof *warden->shared, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (warden->shared == MAP_FAILED)
        return mn_fail_errno(diag, "no memory for what a rule's process reports");
    fflush(NULL);
    /* One that is ended while it begins has to report, too. */
    stop_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    warden->pid = fork();
    if (warden->pid != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    if (warden->pid < 0) {
        munmap(warden->shared, sizeof *warden->shared);
        return mn_fail_errno(diag, "cannot start a rule's process");
    }
    if (warden->pid == 0)
        in_warden(target, rule, warden->shared, judge);
    return MN_OK;
}

int mn_warden_ended(struct mn_warden *warden)
{
    int status = SIGKILL; /* when there is nothing to wait for */

    if (waitpid(warden->pid, &status, WNOHANG) == 0) {
        if (ms_since(warden->start_ns) < (uint64_t)warden->limit_ms + LATE_MS)
            return 0;
        kill(warden->pid, SIGKILL);
        waitpid(warden->pid, &status, 0);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        warden->pid = 0; /* it could not do its work */
    return 1;
}

void mn_warden_signal(const struct mn_warden *warden, int signal)
{
    if (warden->shared->rule > 0)
        kill(warden->shared->rule, signal);
}

void mn_warden_end(const struct mn_warden *warden)
{
    kill(warden->pid, SIGTERM);
}

unsigned mn_warden_moves(const struct mn_warden *warden, enum mn_raw_call *call)
{
    struct mn_check_shared *shared = warden->shared;
    int at = atomic_load(&shared->watch.call);

    for (int c = MN_RAW_INIT; c < MN_RAW_N_CALLS; c++)
        if (atomic_load(&shared->watch.inside[c]) > 0) {
            at = c;
            break;
        }
    *call = at > 0 && at < MN_RAW_N_CALLS ? (enum mn_raw_call)at : MN_RAW_LOAD;
    return mn_check_moves(shared);
}

void mn_warden_stop(struct mn_warden *warden)
{
    mn_warden_end(warden);
    while (!mn_warden_ended(warden))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    munmap(warden->shared, sizeof *warden->shared);
}

/* What the plugin wrote may hold anything. from holds size bytes, terminated or not. */
static void copy_clean(char *to, const char *from, size_t size)
{
    size_t length = strnlen(from, size - 1);

    memcpy(to, from, length);
    to[length] = '\0';
    for (char *c = to; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    mn_clean(to);
}

/* The status of a rule that does not hold. */
static enum mn_check_status broken(enum mn_check_grade grade)
{
    static const enum mn_check_status is[] = {MN_CHECK_FAIL, MN_CHECK_WARN, MN_CHECK_NOTE};

    return is[grade];
}

static void judge_end(const struct mn_warden *warden, const struct mn_check_rule *rule,
                      struct mn_check_result *result)
{
    const struct mn_check_shared *shared = warden->shared;
    const char *step = result->step[0] ? result->step : "start";
    char *seen = result->seen;
    size_t size = sizeof result->seen;

    result->status = broken(rule->grade);
    if (shared->unkillable) {
        result->status = MN_CHECK_FAIL;
        snprintf(seen, size, "a process could not be killed after step \"%s\"", step);
    } else if (warden->pid == 0) {
        result->status = MN_CHECK_FAIL;
        snprintf(seen, size, "the process that watches the rule was killed in step \"%s\"", step);
    } else if (shared->timed_out) {
        snprintf(seen, size, "hung: killed at the limit of %g s in step \"%s\"",
                 warden->limit_ms / 1000.0, step);
    } else if (WIFSIGNALED(shared->wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(shared->wait_status));
        result->signal = WTERMSIG(shared->wait_status);
        snprintf(seen, size, "crashed with SIG%s in step \"%s\"", name ? name : "?", step);
    } else {
        snprintf(seen, size,
                 "ended without a verdict: the process exited with status %d in step "
                 "\"%s\"",
                 WEXITSTATUS(shared->wait_status), step);
    }
}

void mn_warden_collect(struct mn_warden *warden, const struct mn_check_rule *rule,
                       struct mn_check_result *result, struct mn_check_info *info, char error[1024])
{
    struct mn_check_shared *shared = warden->shared;
    unsigned steps = atomic_load(&shared->steps), logs = atomic_load(&shared->logs_begun);
    int verdict = warden->pid && !shared->unkillable ? atomic_load(&shared->verdict) : 0;

    memset(result, 0, sizeof *result);
    if (steps)
        copy_clean(result->step, shared->step[(steps - 1) % MN_CHECK_STEPS], sizeof result->step);
    result->n_log = logs < MN_CHECK_LOG_LINES ? (int)logs : MN_CHECK_LOG_LINES;
    for (int i = 0; i < result->n_log; i++)
        copy_clean(result->log[i], shared->log[i], sizeof result->log[i]);
    copy_clean(result->seen, shared->seen[0] ? shared->seen : shared->note, sizeof result->seen);
    result->ms = shared->ms;
    result->timed_out = shared->timed_out && !verdict;
    if (verdict == MN_VERDICT_PASS)
        result->status = MN_CHECK_PASS;
    else if (verdict == MN_VERDICT_WARN)
        result->status = MN_CHECK_WARN;
    else if (verdict == MN_VERDICT_FAIL)
        result->status = broken(rule->grade);
    else if (verdict == MN_VERDICT_SKIP)
        result->status = MN_CHECK_SKIP;
    else
        judge_end(warden, rule, result);
    if (info) {
        copy_clean(info->path, shared->info.path, sizeof info->path);
        copy_clean(info->name, shared->info.name, sizeof info->name);
        copy_clean(info->versions, shared->info.versions, sizeof info->versions);
        info->version = shared->info.version;
        memcpy(info->driven, shared->info.driven, sizeof info->driven);
        info->driven[MN_CHECK_VERSIONS - 1] = 0;
        copy_clean(info->tuner_name, shared->info.tuner_name, sizeof info->tuner_name);
        copy_clean(info->tuner_versions, shared->info.tuner_versions, sizeof info->tuner_versions);
        memcpy(info->tuner_driven, shared->info.tuner_driven, sizeof info->tuner_driven);
        info->tuner_driven[MN_CHECK_VERSIONS - 1] = 0;
        copy_clean(error, shared->error, sizeof shared->error);
    }
    munmap(shared, sizeof *shared);
}

/* SIGCHLD is blocked before the first fork: none is lost between looking and waiting. */
void mn_warden_hold_sigchld(sigset_t *child, sigset_t *before)
{
    sigemptyset(child);
    sigaddset(child, SIGCHLD);
    sigprocmask(SIG_BLOCK, child, before);
}
