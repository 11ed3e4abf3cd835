/* The parent's side: one child a rule, its records, its limit. */
#include "bench/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/check/elf.h"
#include "bench/check/record.h"
#include "bench/check/rule.h"
#include "topo/base/alloc.h"

#define PROBE_LIMIT_MS 20000
#define POLL_MS        20

const struct mn_check_family *const mn_check_families[] = {
    &mn_check_load_family,    &mn_check_device_family,
    &mn_check_connect_family, &mn_check_transfer_family,
    &mn_check_group_family,   &mn_check_request_family,
    &mn_check_close_family,   NULL,
};

const char *mn_check_status_name(enum mn_check_status status)
{
    static const char *const names[] = {"pass", "warn", "fail", "skip", "note"};

    return names[status];
}

const char *mn_check_severity_name(enum mn_check_severity severity)
{
    static const char *const names[] = {"must", "should", "info"};

    return names[severity];
}

int mn_check_matches(const struct mn_check_family *family, const struct mn_check_rule *rule,
                     const char *name)
{
    return strcmp(name, family->name) == 0 || strcmp(name, rule->id) == 0;
}

/* A running child and what it said so far. */
struct child {
    pid_t pid;
    int fd;
    int verdict; /* a record kind, 0 = none yet */
    int wait_status, ended;
    struct mn_check_result *result;
    struct mn_check_info *info;
    char *error; /* of a probe's dlopen, 1024 bytes */
    char buffer[sizeof(struct mn_check_record)];
    size_t filled;
};

static void take_info(struct child *child, const char *text)
{
    struct mn_check_info *info = child->info;
    size_t used = strlen(info->versions);

    if (strncmp(text, "path=", 5) == 0)
        mn_strlcpy(info->path, text + 5, sizeof info->path);
    else if (strncmp(text, "name=", 5) == 0)
        mn_strlcpy(info->name, text + 5, sizeof info->name);
    else if (strncmp(text, "version=", 8) == 0)
        info->version = atoi(text + 8);
    else if (strncmp(text, "exports=", 8) == 0)
        snprintf(info->versions + used, sizeof info->versions - used, "%s%s", used ? " " : "",
                 text + 8);
    else if (strncmp(text, "error=", 6) == 0)
        mn_strlcpy(child->error, text + 6, 1024);
}

static void take_record(struct child *child, struct mn_check_record *record)
{
    struct mn_check_result *result = child->result;

    record->text[sizeof record->text - 1] = '\0';
    switch (record->kind) {
    case MN_RECORD_STEP:
        mn_strlcpy(result->step, record->text, sizeof result->step);
        break;
    case MN_RECORD_LOG:
        if (result->n_log < MN_CHECK_LOG_LINES)
            mn_strlcpy(result->log[result->n_log++], record->text, sizeof *result->log);
        break;
    case MN_RECORD_NOTE:
        mn_strlcpy(result->seen, record->text, sizeof result->seen);
        break;
    case MN_RECORD_TELL:
        if (child->info)
            take_info(child, record->text);
        break;
    case MN_RECORD_PASS:
    case MN_RECORD_WARN:
    case MN_RECORD_FAIL:
    case MN_RECORD_SKIP:
        if (child->verdict)
            break;
        child->verdict = record->kind;
        if (record->text[0])
            mn_strlcpy(result->seen, record->text, sizeof result->seen);
        break;
    default: /* a plugin that writes into descriptors it does not own */
        break;
    }
}

/* Reads what is there; 0 at the end of the stream. */
static int drain(struct child *child)
{
    for (;;) {
        ssize_t n =
            read(child->fd, child->buffer + child->filled, sizeof child->buffer - child->filled);
        if (n == 0)
            return 0;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        child->filled += (size_t)n;
        if (child->filled == sizeof child->buffer) {
            struct mn_check_record record;
            memcpy(&record, child->buffer, sizeof record);
            child->filled = 0;
            take_record(child, &record);
        }
    }
}

static void watch(struct child *child, unsigned limit_ms)
{
    uint64_t start = mn_check_now_ns(), limit_ns = (uint64_t)limit_ms * 1000000u;
    int open = 1;

    while (!child->ended && mn_check_now_ns() - start < limit_ns) {
        struct pollfd pfd = {.fd = open ? child->fd : -1, .events = POLLIN};
        poll(&pfd, 1, POLL_MS);
        if (open)
            open = drain(child);
        child->ended = waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid;
    }
    drain(child);
    child->result->timed_out = !child->ended;
    kill(-child->pid, SIGKILL); /* the rule's process and whatever the plugin started */
    if (!child->ended) {
        while (waitpid(child->pid, &child->wait_status, 0) < 0 && errno == EINTR)
            ;
    }
    child->result->ms = (unsigned)((mn_check_now_ns() - start) / 1000000u);
}

static _Noreturn void in_child(const struct mn_check_target *target, int fd,
                               const struct mn_check_rule *rule)
{
    struct rlimit no_core = {0, 0};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL); /* a crash ends the process, whatever the caller's handlers do */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* the report owns the standard output */
    mn_check_child(target, fd, rule);
}

static enum mn_err start(const struct mn_check_target *target, const struct mn_check_rule *rule,
                         struct child *child, struct mn_diag *diag)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return mn_fail_errno(diag, "cannot make a pipe for a rule's process");
    fflush(NULL);
    child->pid = fork();
    if (child->pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return mn_fail_errno(diag, "cannot start a rule's process");
    }
    if (child->pid == 0) {
        close(fds[0]);
        in_child(target, fds[1], rule);
    }
    setpgid(child->pid, child->pid); /* both sides, whoever comes first */
    close(fds[1]);
    child->fd = fds[0];
    fcntl(child->fd, F_SETFL, O_NONBLOCK);
    return MN_OK;
}

static void judge_end(const struct mn_check_target *target, struct child *child)
{
    struct mn_check_result *result = child->result;
    const char *step = result->step[0] ? result->step : "start";

    result->status = MN_CHECK_FAIL;
    if (result->timed_out) {
        snprintf(result->seen, sizeof result->seen,
                 "hung: killed at the limit of %g s in step \"%s\"", target->limit_ms / 1000.0,
                 step);
    } else if (WIFSIGNALED(child->wait_status)) {
        result->signal = WTERMSIG(child->wait_status);
        snprintf(result->seen, sizeof result->seen, "crashed with SIG%s in step \"%s\"",
                 sigabbrev_np(result->signal) ? sigabbrev_np(result->signal) : "?", step);
    } else {
        snprintf(result->seen, sizeof result->seen,
                 "ended the process with exit status %d in step \"%s\"",
                 WEXITSTATUS(child->wait_status), step);
    }
}

static enum mn_check_status broken(enum mn_check_severity severity)
{
    static const enum mn_check_status is[] = {MN_CHECK_FAIL, MN_CHECK_WARN, MN_CHECK_NOTE};

    return is[severity];
}

static enum mn_err run_child(const struct mn_check_target *target, const struct mn_check_rule *rule,
                             struct child *child, struct mn_diag *diag)
{
    enum mn_err err = start(target, rule, child, diag);

    if (err)
        return err;
    watch(child, target->limit_ms);
    close(child->fd);
    switch (child->verdict) {
    case MN_RECORD_PASS:
        child->result->status = MN_CHECK_PASS;
        break;
    case MN_RECORD_WARN:
        child->result->status = MN_CHECK_WARN;
        break;
    case MN_RECORD_FAIL:
        child->result->status = broken(rule->severity);
        break;
    case MN_RECORD_SKIP:
        child->result->status = MN_CHECK_SKIP;
        break;
    default:
        judge_end(target, child);
    }
    return MN_OK;
}

enum mn_err mn_check_run(const struct mn_check_rule *rule, const struct mn_check_target *target,
                         struct mn_check_result *result, struct mn_diag *diag)
{
    struct child child = {.result = result};

    memset(result, 0, sizeof *result);
    return run_child(target, rule, &child, diag);
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
    static const struct mn_check_rule look = {.id = "probe", .run = mn_check_probe_child};
    struct mn_check_target probe = *target;
    struct mn_check_result result = {.status = MN_CHECK_PASS};
    char error[1024] = "";
    struct child child = {.result = &result, .info = info, .error = error};
    enum mn_err err;

    memset(info, 0, sizeof *info);
    if (strchr(target->path, '/')) {
        struct mn_elf elf;
        err = mn_elf_open(target->path, &elf, diag);
        if (err)
            return err;
        mn_elf_close(&elf);
    }
    probe.limit_ms = PROBE_LIMIT_MS;
    err = run_child(&probe, &look, &child, diag);
    if (err)
        return err;
    if (error[0] && !strchr(target->path, '/'))
        return mn_fail(diag, MN_ERR_NOTFOUND,
                       "%s: the loader does not find it (%s); give a path, or set LD_LIBRARY_PATH",
                       target->path, error);
    return check_version(target, info, diag);
}
