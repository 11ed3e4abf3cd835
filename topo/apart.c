#include "topo/apart.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 30

struct shared {
    int ended; /* the work has, with err */
    enum mn_err err;
    struct mn_diag diag;
    _Alignas(16) char result[];
};

/* A lock that another thread held at the fork is never released here: who waits for it ends,
 * whatever the caller does with the signal. */
static void limit_time(void)
{
    sigset_t alarms;

    signal(SIGALRM, SIG_DFL);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(LIMIT_S);
}

static _Noreturn void child(struct shared *shared, mn_apart_work work, const void *arg)
{
    limit_time();
    shared->err = work(arg, shared->result, &shared->diag);
    shared->ended = 1;
    _exit(0);
}

static enum mn_err judge(const char *what, const struct shared *shared, int status,
                         struct mn_diag *diag)
{
    if (!shared->ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return mn_fail(diag, MN_ERR_TIMEOUT, "%s did not end within %d s", what, LIMIT_S);
    if (!shared->ended && WIFSIGNALED(status))
        return mn_fail(diag, MN_ERR_SYS,
                       "%s ended its process by signal %d (%s), as it does when memory is short",
                       what, WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (!shared->ended)
        return mn_fail(diag, MN_ERR_SYS, "%s ended its process with status %d", what,
                       WEXITSTATUS(status));
    if (shared->err && diag)
        *diag = shared->diag;
    return shared->err;
}

enum mn_err mn_apart(const char *what, mn_apart_work work, const void *arg, void *result,
                     size_t size, struct mn_diag *diag)
{
    size_t whole = sizeof(struct shared) + size;
    struct shared *shared =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;

    if (shared == MAP_FAILED)
        return mn_fail_errno(diag, "%s: no memory", what);
    pid_t pid = fork();
    if (pid == 0)
        child(shared, work, arg);
    enum mn_err err = pid < 0 ? mn_fail_errno(diag, "%s: no process for it", what) : MN_OK;
    while (!err && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            err = mn_fail_errno(diag, "%s: waiting for its process", what);
    if (!err)
        err = judge(what, shared, status, diag);
    if (!err && size)
        memcpy(result, shared->result, size);
    munmap(shared, whole);
    return err;
}
