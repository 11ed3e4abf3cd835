#include "fleet/errand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define POLL_MS 50
#define GRACE_S 2.0 /* from SIGTERM to SIGKILL, and again until it is given up */
#define CHUNK   65536
#define STREAMS 4

static void close_fd(struct mn_errand *e, int which)
{
    if (e->fds[which] < 0)
        return;
    /* The end is for the process at once, whoever else was forked meanwhile. */
    if (which == 0)
        (void)shutdown(e->fds[which], SHUT_WR);
    close(e->fds[which]);
    e->fds[which] = -1;
}

static _Noreturn void become(struct mn_errand *e, const int theirs[3], pid_t parent)
{
    static const int reset[] = {SIGTERM, SIGHUP, SIGCHLD};

    sigset_t none;

    for (size_t i = 0; i < sizeof reset / sizeof *reset; i++)
        signal(reset[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Ctrl-C reaches the parent, which ends those that may be ended. */
    signal(SIGINT, SIG_IGN);
    for (int i = 0; i < 3; i++)
        if (dup2(theirs[i], i) < 0)
            _exit(127);
    (void)close_range(3, ~0u, 0); /* this process's ends, and those of others */
    if (e->stays ? setsid() < 0 : prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
        _exit(127);
    int code = e->body(e->ctx);
    fflush(NULL);
    _exit(code);
}

static int open_streams(struct mn_errand *e, int theirs[3])
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};

    /* Of a socket's end one hears by an error, of a pipe's by a signal. */
    int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) || pipe2(out, O_CLOEXEC) ||
                 pipe2(err, O_CLOEXEC);
    memcpy(e->fds, (const int[]){in[1], out[0], err[0]}, sizeof e->fds);
    memcpy(theirs, (const int[]){in[0], out[1], err[1]}, sizeof e->fds);
    for (int i = 0; i < 3 && !failed; i++)
        (void)fcntl(e->fds[i], F_SETFL, O_NONBLOCK);
    return !failed;
}

/* 1: it runs. */
static int start(struct mn_errand *e)
{
    int theirs[3];
    pid_t parent = getpid();

    e->deadline = mn_seconds() + e->ms * 1e-3;
    fflush(NULL);
    int opened = open_streams(e, theirs);
    e->pid = opened ? fork() : -1;
    if (e->pid == 0)
        become(e, theirs, parent);
    int error = errno;
    for (int i = 0; i < 3; i++)
        if (theirs[i] >= 0)
            close(theirs[i]);
    if (e->pid > 0)
        return 1;
    e->pid = 0;
    e->end = MN_ERRAND_BROKEN;
    snprintf(e->last, sizeof e->last, "no process for it: %s", strerror(error));
    for (int i = 0; i < 3; i++)
        close_fd(e, i);
    return 0;
}

static void on_line(void *ctx, int which, const char *text)
{
    struct mn_errand *e = ctx;

    (void)which;
    mn_strlcpy_words(e->last, text, sizeof e->last);
    if (e->line)
        e->line(e->ctx, text);
}

static void send_more(struct mn_errand *e)
{
    while (e->sent < e->size) {
        ssize_t n =
            send(e->fds[0], e->text + e->sent, e->size - e->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        /* Who reads no further has its reasons, and says them. */
        if (n < 0)
            break;
        e->sent += (size_t)n;
    }
    if (!e->enough || e->sent < e->size)
        close_fd(e, 0);
}

static void ends(struct mn_errand *e, enum mn_errand_end end)
{
    static const int numbers[] = {SIGTERM, SIGKILL};

    if (!e->signals)
        e->end = end;
    if (e->stays || e->signals >= 2) {
        e->over = 1; /* as one of root's may have to be: it ends with its verb */
        e->stays = 1;
        return;
    }
    kill(e->pid, numbers[e->signals++]);
    e->deadline = mn_seconds() + GRACE_S;
}

static void read_out(struct mn_errand *e)
{
    ssize_t n = 1;

    while (n > 0 && e->used < MN_ERRAND_OUT) {
        if (e->used + CHUNK >= e->room) {
            e->room = 2 * e->room + 2 * CHUNK;
            e->out = realloc(e->out, e->room);
            if (!e->out)
                mn_no_memory();
        }
        n = read(e->fds[1], e->out + e->used, CHUNK);
        e->used += n > 0 ? (size_t)n : 0;
        e->out[e->used] = 0;
    }
    if (e->used >= MN_ERRAND_OUT && !e->signals)
        ends(e, MN_ERRAND_LONG);
    if (n == 0 || e->used >= MN_ERRAND_OUT)
        close_fd(e, 1);
    if (e->enough && e->out && !e->signals && e->enough(e->ctx, e->out)) {
        e->over = 1;
        e->end = MN_ERRAND_SPOKE;
    }
}

static void read_lines(struct mn_errand *e)
{
    if (!mn_lines_read(&e->lines, e->fds[2], on_line, e, 2))
        close_fd(e, 2);
}

static void has_ended(struct mn_errand *e, int status)
{
    if (e->fds[1] >= 0)
        read_out(e);
    if (e->fds[2] >= 0) {
        read_lines(e);
        mn_lines_end(&e->lines, on_line, e, 2);
    }
    for (int i = 0; i < 3; i++)
        close_fd(e, i);
    e->pid = 0;
    e->over = 1;
    e->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (!e->signals)
        e->end = MN_ERRAND_RAN;
}

static void look_after(struct mn_errand *e, int stopped)
{
    int status;
    pid_t pid = waitpid(e->pid, &status, WNOHANG);

    if (pid == e->pid || (pid < 0 && errno == ECHILD))
        has_ended(e, pid < 0 ? 0 : status);
    else if (stopped && !e->signals)
        ends(e, MN_ERRAND_STOPPED);
    else if (mn_seconds() > e->deadline)
        ends(e, MN_ERRAND_LATE);
}

/* In the order of e->fds, and until_fd; poll() leaves out those below 0. */
static void fill(const struct mn_errand *e, struct pollfd fds[STREAMS])
{
    int until = e->until_fd && !e->signals ? e->until_fd : -1;

    fds[0] = (struct pollfd){.fd = e->sent < e->size ? e->fds[0] : -1, .events = POLLOUT};
    fds[1] = (struct pollfd){.fd = e->fds[1], .events = POLLIN};
    fds[2] = (struct pollfd){.fd = e->fds[2], .events = POLLIN};
    fds[3] = (struct pollfd){.fd = until, .events = POLLIN};
    for (int i = 0; e->over && i < STREAMS; i++)
        fds[i].fd = -1;
}

static void go_on(struct mn_errand *e, const struct pollfd fds[STREAMS], int stopped)
{
    if (fds[0].revents)
        send_more(e);
    if (fds[1].revents)
        read_out(e);
    if (fds[2].revents)
        read_lines(e);
    if (!e->over)
        look_after(e, stopped || fds[3].revents);
}

static void watch(struct mn_errand *errands, size_t n, const volatile sig_atomic_t *stop)
{
    struct pollfd *fds = mn_zalloc((n ? n : 1) * STREAMS * sizeof *fds);

    for (int running = 1; running;) {
        int wait_ms = POLL_MS;
        for (size_t i = 0; i < n; i++) {
            fill(&errands[i], &fds[STREAMS * i]);
            if (!errands[i].over && errands[i].fds[1] < 0 && errands[i].fds[2] < 0)
                wait_ms = 2; /* it is about to end */
        }
        (void)poll(fds, STREAMS * n, wait_ms);
        running = 0;
        for (size_t i = 0; i < n; i++) {
            if (!errands[i].over)
                go_on(&errands[i], &fds[STREAMS * i], stop && *stop);
            running |= !errands[i].over;
        }
    }
    free(fds);
}

void mn_errands_run(struct mn_errand *errands, size_t n, const volatile sig_atomic_t *stop)
{
    for (size_t i = 0; i < n; i++) {
        struct mn_errand *e = &errands[i];
        memcpy(e->fds, (const int[]){-1, -1, -1}, sizeof e->fds);
        e->begun = e->over = 1;
        e->end = MN_ERRAND_STOPPED;
        if (!e->body || (stop && *stop))
            continue;
        e->over = !start(e);
        if (!e->over && !e->size)
            send_more(e);
    }
    watch(errands, n, stop);
}

void mn_errands_end(struct mn_errand *errands, size_t n, unsigned ms)
{
    for (size_t i = 0; i < n; i++) {
        errands[i].over = !errands[i].pid;
        if (errands[i].over)
            continue;
        close_fd(&errands[i], 0);
        errands[i].enough = NULL;
        errands[i].deadline = mn_seconds() + ms * 1e-3;
    }
    watch(errands, n, NULL);
}

int mn_errand_goes_on(struct mn_errand *e)
{
    int status;

    if (e->pid && waitpid(e->pid, &status, WNOHANG) == e->pid)
        has_ended(e, status);
    return e->pid != 0;
}

void mn_errand_free(struct mn_errand *e)
{
    if (e->pid && !e->stays) {
        kill(e->pid, SIGKILL);
        waitpid(e->pid, NULL, 0);
    }
    for (int i = 0; e->begun && i < 3; i++)
        close_fd(e, i);
    free(e->out);
    memset(e, 0, sizeof *e);
}
