#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fleet/launch.h"
#include "fleet/lines.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define GRACE_S 8.0

volatile sig_atomic_t mn_launch_stop;

struct child {
    pid_t pid; /* 0 = has ended */
    int fd;    /* what it writes; -1 = closed */
    struct mn_lines lines;
    char last[200]; /* of them */
};

struct crew {
    const struct mn_launch *launch;
    struct child *children;
    int running, code, failed; /* failed: rank that ended in error first, -1 = none */
    int told;                  /* rank 0 has been asked to end */
    int killed;                /* those left have been */
    double deadline;           /* when those left are killed; 0 = no end is near */
};

static void on_signal(int number)
{
    mn_launch_stop = number;
}

void mn_launch_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void mn_launch_catch_hangup(void)
{
    struct sigaction action = {.sa_handler = on_signal}, now;

    if (!sigaction(SIGHUP, NULL, &now) && now.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

static void become_rank(const struct mn_launch *launch, int rank, int fd, pid_t launcher)
{
    /* The one rank that hears of Ctrl-C tells the others. */
    if (rank) {
        signal(SIGINT, SIG_IGN);
        if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
            _exit(1);
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
        _exit(1);
    int code = launch->body(launch->ctx, rank);
    fflush(NULL);
    _exit(code);
}

static enum mn_err start(struct crew *crew, int rank, struct mn_diag *diag)
{
    struct child *child = &crew->children[rank];
    pid_t launcher = getpid();
    int fds[2];

    if (pipe2(fds, O_CLOEXEC))
        return mn_fail_errno(diag, "a pipe for rank %d", rank);
    fflush(NULL);
    child->pid = fork();
    if (child->pid == 0)
        become_rank(crew->launch, rank, fds[1], launcher);
    close(fds[1]);
    child->fd = fds[0];
    if (child->pid < 0) {
        child->pid = 0;
        return mn_fail_errno(diag, "a process for rank %d", rank);
    }
    (void)fcntl(child->fd, F_SETFL, O_NONBLOCK);
    crew->running++;
    return MN_OK;
}

static double grace(const struct crew *crew)
{
    return crew->launch->grace_s > 0 ? crew->launch->grace_s : GRACE_S;
}

/* Those left have a while. */
static void hurry(struct crew *crew)
{
    double deadline = mn_seconds() + grace(crew);

    if (!crew->deadline || deadline < crew->deadline)
        crew->deadline = deadline;
}

static void on_line(void *ctx, int rank, const char *text)
{
    struct crew *crew = ctx;

    if (*text)
        mn_strlcpy_words(crew->children[rank].last, text, sizeof crew->children[rank].last);
    crew->launch->line(crew->launch->ctx, rank, text);
}

static void read_lines(struct crew *crew, int rank)
{
    struct child *child = &crew->children[rank];

    if (!mn_lines_read(&child->lines, child->fd, on_line, crew, rank)) {
        close(child->fd);
        child->fd = -1;
    }
}

/* Of our own SIGKILL the reason is told. */
static void how_it_died(const struct crew *crew, int rank, int number, char *text, size_t size)
{
    long pid = (long)crew->children[rank].pid;

    if (!crew->killed || number != SIGKILL)
        snprintf(text, size, "rank %d (pid %ld) was ended by signal %d (%s)", rank, pid, number,
                 strsignal(number));
    else if (crew->failed >= 0)
        snprintf(text, size,
                 "rank %d failed; rank %d (pid %ld) did not end within %g s and was killed",
                 crew->failed, rank, pid, grace(crew));
    else
        snprintf(text, size, "rank %d (pid %ld) did not end with the others and was killed", rank,
                 pid);
}

static void has_ended(struct crew *crew, int rank, int status)
{
    struct child *child = &crew->children[rank];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    char text[128];

    if (WIFSIGNALED(status)) {
        how_it_died(crew, rank, WTERMSIG(status), text, sizeof text);
        crew->launch->line(crew->launch->ctx, -1, text);
    }
    child->pid = 0;
    crew->running--;
    if (code && rank && crew->launch->lost &&
        crew->launch->lost(crew->launch->ctx, rank, child->last)) {
        crew->code = crew->code ? crew->code : 1;
        return;
    }
    if (rank == 0)
        crew->code = code > crew->code ? code : crew->code;
    else if (code && !crew->code)
        crew->code = 1;
    if (code && crew->failed < 0)
        crew->failed = rank;
    if (code || rank == 0)
        hurry(crew);
}

static void reap(struct crew *crew)
{
    int status;

    for (int r = 0; r < crew->launch->nranks; r++)
        if (crew->children[r].pid && waitpid(crew->children[r].pid, &status, WNOHANG) > 0) {
            if (crew->children[r].fd >= 0)
                read_lines(crew, r);
            has_ended(crew, r, status);
        }
}

static void kill_all(struct crew *crew)
{
    for (int r = 0; r < crew->launch->nranks; r++)
        if (crew->children[r].pid)
            kill(crew->children[r].pid, SIGKILL);
}

static void listen_to_all(struct crew *crew, struct pollfd *fds)
{
    int n = crew->launch->nranks;

    for (int r = 0; r < n; r++)
        fds[r] = (struct pollfd){.fd = crew->children[r].fd, .events = POLLIN};
    if (poll(fds, (nfds_t)n, 50) > 0)
        for (int r = 0; r < n; r++)
            if (fds[r].revents)
                read_lines(crew, r);
}

static void ask_to_end(struct crew *crew)
{
    kill(crew->children[0].pid, mn_launch_stop ? (int)mn_launch_stop : SIGTERM);
    hurry(crew);
    crew->told = 1;
}

/* A rank that failed before it could join is missed by nobody but the launcher. */
static void end_for_failed(struct crew *crew)
{
    const char *last = crew->children[crew->failed].last;
    char text[256];

    snprintf(text, sizeof text, "rank %d failed; ending the others", crew->failed);
    crew->launch->line(crew->launch->ctx, -1, text);
    snprintf(text, sizeof text, "rank %d failed%s%s", crew->failed, *last ? ": " : "", last);
    if (crew->launch->ending)
        crew->launch->ending(crew->launch->ctx, text);
    ask_to_end(crew);
}

static void supervise(struct crew *crew)
{
    struct pollfd *fds = mn_zalloc((size_t)crew->launch->nranks * sizeof *fds);

    while (crew->running) {
        listen_to_all(crew, fds);
        reap(crew);
        if (crew->children[0].pid && !crew->told) {
            if (mn_launch_stop)
                ask_to_end(crew);
            else if (crew->failed > 0 && mn_seconds() > crew->deadline - grace(crew) / 2)
                end_for_failed(crew);
        }
        if (crew->deadline && mn_seconds() > crew->deadline) {
            kill_all(crew);
            crew->killed = 1;
            crew->deadline = mn_seconds() + grace(crew);
        }
    }
    free(fds);
}

enum mn_err mn_launch_local(const struct mn_launch *launch, int *code, struct mn_diag *diag)
{
    struct crew crew = {.launch = launch, .failed = -1};
    enum mn_err err = MN_OK;

    crew.children = mn_zalloc((size_t)launch->nranks * sizeof *crew.children);
    for (int r = 0; r < launch->nranks; r++)
        crew.children[r].fd = -1;
    mn_launch_catch();
    for (int r = 0; r < launch->nranks && !err; r++)
        err = start(&crew, r, diag);
    if (err)
        kill_all(&crew);
    supervise(&crew);
    for (int r = 0; r < launch->nranks; r++)
        if (crew.children[r].fd >= 0)
            close(crew.children[r].fd);
    free(crew.children);
    *code = crew.code;
    return err;
}
