#include "cli/report/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "topo/base/alloc.h"

#define LIMIT_MS   20000
#define MAX_OUTPUT (16u << 20)

enum { IN, OUT, ERR, STREAMS };

struct tool {
    pid_t pid;
    int ends[STREAMS]; /* this side's, -1 when closed */
    const char *input;
    size_t sent, len;
    char *output, said[512];
};

static long now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void finish(struct tool *tool, int stream)
{
    if (tool->ends[stream] >= 0)
        close(tool->ends[stream]);
    tool->ends[stream] = -1;
}

static enum mn_err start(struct tool *tool, const char *const argv[], struct mn_diag *diag)
{
    int pipes[STREAMS][2], made = 0;

    while (made < STREAMS && !pipe2(pipes[made], O_CLOEXEC))
        made++;
    tool->pid = made == STREAMS ? fork() : -1;
    if (!tool->pid) {
        for (int s = 0; s < STREAMS; s++)
            if (dup2(pipes[s][s != IN], s) < 0)
                _exit(126);
        signal(SIGPIPE, SIG_DFL);
        setenv("LC_ALL", "C.UTF-8", 1);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(errno == ENOENT ? 127 : 126);
    }
    enum mn_err err = tool->pid < 0 ? mn_fail_errno(diag, "%s", argv[0]) : MN_OK;
    for (int s = 0; s < made; s++) {
        close(pipes[s][s != IN]);
        tool->ends[s] = pipes[s][s == IN];
        fcntl(tool->ends[s], F_SETFL, O_NONBLOCK);
        if (err)
            finish(tool, s);
    }
    return err;
}

static void feed(struct tool *tool)
{
    size_t left = strlen(tool->input) - tool->sent;
    ssize_t n = write(tool->ends[IN], tool->input + tool->sent, left);

    if (n > 0)
        tool->sent += (size_t)n;
    if (n == (ssize_t)left || (n < 0 && errno != EAGAIN && errno != EINTR))
        finish(tool, IN);
}

static enum mn_err take(struct tool *tool, int stream, const char *name, struct mn_diag *diag)
{
    char part[16384];
    ssize_t n = read(tool->ends[stream], part, sizeof part);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        finish(tool, stream);
    if (n <= 0)
        return MN_OK;
    if (stream == ERR) {
        snprintf(tool->said, sizeof tool->said, "%.*s", (int)n, part);
        return MN_OK;
    }
    if (tool->len + (size_t)n > MAX_OUTPUT)
        return mn_fail(diag, MN_ERR_FAILED, "%s writes more than %u bytes", name, MAX_OUTPUT);
    char *more = realloc(tool->output, tool->len + (size_t)n + 1);
    if (!more)
        return mn_fail(diag, MN_ERR_NOMEM, "%s: out of memory", name);
    tool->output = more;
    memcpy(more + tool->len, part, (size_t)n);
    tool->len += (size_t)n;
    more[tool->len] = 0;
    return MN_OK;
}

static enum mn_err talk(struct tool *tool, const char *name, struct mn_diag *diag)
{
    long end = now_ms() + LIMIT_MS;
    enum mn_err err = MN_OK;

    while (!err && (tool->ends[OUT] >= 0 || tool->ends[ERR] >= 0)) {
        struct pollfd fds[STREAMS];
        long left = end - now_ms();
        if (left <= 0)
            return mn_fail(diag, MN_ERR_FAILED, "%s was not done after %d seconds", name,
                           LIMIT_MS / 1000);
        for (int s = 0; s < STREAMS; s++)
            fds[s] = (struct pollfd){.fd = tool->ends[s], .events = s == IN ? POLLOUT : POLLIN};
        if (poll(fds, STREAMS, (int)left) <= 0)
            continue;
        if (fds[IN].revents)
            feed(tool);
        for (int s = OUT; s <= ERR && !err; s++)
            if (fds[s].revents)
                err = take(tool, s, name, diag);
    }
    return err;
}

/* It has closed its output: give it a moment to end. */
static int reap(struct tool *tool, enum mn_err err)
{
    int status = 0;

    for (int i = 0; i < 200 && !err; i++) {
        if (waitpid(tool->pid, &status, WNOHANG) == tool->pid)
            return status;
        poll(NULL, 0, 5);
    }
    kill(tool->pid, SIGKILL);
    while (waitpid(tool->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

enum mn_err mn_tool_run(const char *const argv[], const char *input, char **output,
                        struct mn_diag *diag)
{
    struct tool tool = {.ends = {-1, -1, -1}, .input = input};

    *output = NULL;
    enum mn_err err = start(&tool, argv, diag);
    if (err)
        return err;
    err = talk(&tool, argv[0], diag);
    for (int s = 0; s < STREAMS; s++)
        finish(&tool, s);
    int status = reap(&tool, err);
    tool.said[strcspn(tool.said, "\n")] = 0;
    if (!err && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        err = mn_fail(diag, MN_ERR_NOTFOUND, "%s is not installed", argv[0]);
    else if (!err && (!WIFEXITED(status) || WEXITSTATUS(status) || !tool.output))
        err = mn_fail(diag, MN_ERR_FAILED, "%s failed: %s", argv[0],
                      tool.said[0] ? tool.said : "it said nothing");
    if (err)
        free(tool.output);
    else
        *output = tool.output;
    return err;
}
