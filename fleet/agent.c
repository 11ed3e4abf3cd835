#include "fleet/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/group.h"
#include "topo/base/clock.h"

#define FRAME_MS  10000 /* for the rest of a message that has begun to arrive */
#define GRACE_S   8.0   /* from SIGTERM to SIGKILL */
#define POLL_MS   50
#define OWN_WORDS 10

/* What a client may say to bench: these, or "--name=value". */
static const char *const allowed[] = {
    "--abi",       "--algorithm", "--collective", "--device",   "--duration",     "--iters",
    "--links",     "--no-check",  "--op",         "--pairs",    "--max-duration", "--pin",
    "--precision", "--root",      "--sizes",      "--timeout",  "--type",         "--warmup",
    "--memory",    "--gpu",       "--engine",     "--networks", "--apart",
};

static const char *const outputs[] = {NULL, "out", "err"};

/* --- the client ------------------------------------------------------------------------------- */

static enum mn_err ask(struct mn_ctl *ctl, const struct mn_agent_rank *rank, struct mn_diag *diag)
{
    cJSON *m = cJSON_CreateObject(), *words;

    cJSON_AddStringToObject(m, "op", "rank");
    cJSON_AddNumberToObject(m, "rank", rank->rank);
    cJSON_AddNumberToObject(m, "nranks", rank->nranks);
    cJSON_AddNumberToObject(m, "port", rank->port);
    words = cJSON_AddArrayToObject(m, "words");
    for (size_t i = 0; i < rank->n_words; i++)
        cJSON_AddItemToArray(words, cJSON_CreateString(rank->words[i]));
    return mn_ctl_send(ctl, m, diag);
}

static void show(const cJSON *m, mn_line_fn line, void *ctx)
{
    for (int which = 1; which <= 2; which++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(m, outputs[which]);
        if (!cJSON_IsString(item))
            continue;
        item->valuestring[strcspn(item->valuestring, "\n")] = 0;
        line(ctx, which, item->valuestring);
    }
}

enum mn_err mn_agent_run(struct mn_ctl *ctl, const struct mn_agent_rank *rank, mn_line_fn line,
                         void *ctx, int *code, struct mn_diag *diag)
{
    int ended = 0;
    enum mn_err err = ask(ctl, rank, diag);

    mn_ctl_watch(ctl);
    while (!err && !ended) {
        struct pollfd p = {.fd = ctl->fd, .events = POLLIN};
        double number;
        cJSON *m;
        /* As long as the rank measures: its group bounds that, and a host that vanishes ends the
         * connection. */
        if (poll(&p, 1, -1) <= 0)
            continue;
        err = mn_ctl_receive(ctl, FRAME_MS, &m, diag);
        if (err)
            return err;
        show(m, line, ctx);
        if (cJSON_HasObjectItem(m, "signal")) {
            err = mn_ctl_number(m, "signal", 1, NSIG - 1, &number, diag);
            if (!err)
                err = mn_fail(diag, MN_ERR_PEER_DEAD, "%s: rank %d was ended by signal %d (%s)",
                              ctl->peer, rank->rank, (int)number, strsignal((int)number));
        } else if (cJSON_HasObjectItem(m, "exit")) {
            err = mn_ctl_number(m, "exit", 0, 255, &number, diag);
            *code = err ? 1 : (int)number;
            ended = 1;
        }
        cJSON_Delete(m);
    }
    return err;
}

/* --- serve ------------------------------------------------------------------------------------ */

struct served {
    struct mn_ctl *ctl;
    pid_t pid;
    int fds[3]; /* by outputs; -1 = ended */
    struct mn_lines lines[3];
    enum mn_err err;
    struct mn_diag *diag;
};

int mn_agent_asked(const cJSON *first)
{
    const cJSON *op = cJSON_GetObjectItemCaseSensitive(first, "op");

    return cJSON_IsString(op) && !strcmp(op->valuestring, "rank");
}

static int is_allowed(const char *word)
{
    size_t length = strcspn(word, "=");

    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strlen(allowed[i]) == length && !strncmp(word, allowed[i], length))
            return 1;
    return 0;
}

/* argv has room for MN_AGENT_WORDS more. */
static enum mn_err read_words(const cJSON *first, const char **argv, struct mn_diag *diag)
{
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(first, "words"), *item;

    if (!cJSON_IsArray(words) || cJSON_GetArraySize(words) > MN_AGENT_WORDS)
        return mn_fail(diag, MN_ERR_PROTO, "control message: 'words' is no list of up to %d",
                       MN_AGENT_WORDS);
    cJSON_ArrayForEach(item, words)
    {
        const char *word = cJSON_IsString(item) ? item->valuestring : "";
        if (!is_allowed(word))
            return mn_fail(diag, MN_ERR_PROTO, "meshnet serve starts no rank with '%.40s'", word);
        *argv++ = word;
    }
    return MN_OK;
}

static enum mn_err read_rank(const cJSON *first, struct mn_agent_rank *rank, struct mn_diag *diag)
{
    double number, nranks, port;
    enum mn_err err = mn_ctl_number(first, "nranks", 2, MN_GROUP_RANKS, &nranks, diag);

    if (!err)
        err = mn_ctl_number(first, "rank", 1, nranks - 1, &number, diag);
    if (!err)
        err = mn_ctl_number(first, "port", 1, 65535, &port, diag);
    if (!err)
        *rank = (struct mn_agent_rank){.rank = (int)number,
                                       .nranks = (int)nranks,
                                       .port = (uint16_t)port};
    return err;
}

static void set_number(const char *variable, int number)
{
    char text[16];

    snprintf(text, sizeof text, "%d", number);
    setenv(variable, text, 1);
}

static _Noreturn void become_rank(const struct mn_agent_rank *rank, const char **argv, int fds[3],
                                  const uint8_t token[MN_KEY_SIZE], pid_t agent)
{
    struct mn_diag diag = {.text = ""};

    set_number("MESHNET_RANK", rank->rank);
    set_number("MESHNET_WORLD", rank->nranks);
    if (dup2(fds[1], STDOUT_FILENO) < 0 || dup2(fds[2], STDERR_FILENO) < 0 ||
        mn_key_to_stdin(token, &diag) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != agent)
        _exit(1);
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    fprintf(stderr, "meshnet serve: this program cannot be run again: %s\n", strerror(errno));
    _exit(1);
}

static enum mn_err start(struct served *s, const struct mn_agent_rank *rank, const char **argv,
                         const uint8_t token[MN_KEY_SIZE], struct mn_diag *diag)
{
    int out[2], err[2];

    if (pipe2(out, O_CLOEXEC))
        return mn_fail_errno(diag, "a pipe for rank %d", rank->rank);
    if (pipe2(err, O_CLOEXEC)) {
        close(out[0]);
        close(out[1]);
        return mn_fail_errno(diag, "a pipe for rank %d", rank->rank);
    }
    pid_t agent = getpid();
    s->pid = fork();
    if (s->pid == 0)
        become_rank(rank, argv, (int[3]){-1, out[1], err[1]}, token, agent);
    close(out[1]);
    close(err[1]);
    s->fds[1] = out[0];
    s->fds[2] = err[0];
    for (int which = 1; which <= 2; which++)
        (void)fcntl(s->fds[which], F_SETFL, O_NONBLOCK);
    return s->pid < 0 ? mn_fail_errno(diag, "a process for rank %d", rank->rank) : MN_OK;
}

static void send_line(void *ctx, int which, const char *text)
{
    struct served *s = ctx;
    cJSON *m = cJSON_CreateObject();

    cJSON_AddStringToObject(m, outputs[which], text);
    if (s->err)
        cJSON_Delete(m);
    else
        s->err = mn_ctl_send(s->ctl, m, s->diag);
}

static void read_outputs(struct served *s)
{
    for (int which = 1; which <= 2; which++)
        if (s->fds[which] >= 0 &&
            !mn_lines_read(&s->lines[which], s->fds[which], send_line, s, which)) {
            close(s->fds[which]);
            s->fds[which] = -1;
        }
}

/* Until the rank has ended; asks it to, and then makes it, when the client has gone. */
static int watch(struct served *s)
{
    double deadline = 0; /* of a rank that was asked to end */
    int status = 0;

    while (waitpid(s->pid, &status, WNOHANG) == 0) {
        struct pollfd p[] = {{.fd = deadline > 0 ? -1 : s->ctl->fd, .events = POLLIN},
                             {.fd = s->fds[1], .events = POLLIN},
                             {.fd = s->fds[2], .events = POLLIN}};
        int ready = poll(p, 3, POLL_MS);
        read_outputs(s);
        /* A client has nothing more to say: whatever comes means that it left. */
        if (ready > 0 && p[0].revents && !s->err)
            s->err = mn_fail(s->diag, MN_ERR_PEER_DEAD, "%s: left its rank", s->ctl->peer);
        if (s->err && !(deadline > 0)) {
            kill(s->pid, SIGTERM);
            deadline = mn_seconds() + GRACE_S;
        } else if (deadline > 0 && mn_seconds() > deadline) {
            kill(s->pid, SIGKILL);
        }
    }
    read_outputs(s);
    return status;
}

enum mn_err mn_agent_serve(struct mn_ctl *ctl, const cJSON *first, const uint8_t token[MN_KEY_SIZE],
                           const char *plugin, struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t length = sizeof ss;
    struct mn_addr addr;
    char host[MN_ADDR_TEXT], port[16];
    const char *argv[OWN_WORDS + MN_AGENT_WORDS + 1] = {"meshnet",       "bench",
                                                        "--coordinator", host,
                                                        "--port",        port,
                                                        "--token-file",  "/proc/self/fd/0",
                                                        "--plugin",      plugin};
    struct served s = {.ctl = ctl, .fds = {-1, -1, -1}, .diag = diag};
    struct mn_agent_rank rank = {.rank = 0};
    enum mn_err err = read_rank(first, &rank, diag);

    if (!err)
        err = read_words(first, argv + OWN_WORDS, diag);
    if (!err && (getpeername(ctl->fd, (struct sockaddr *)&ss, &length) ||
                 mn_addr_from_sockaddr((const struct sockaddr *)&ss, &addr) < 0))
        err = mn_fail_errno(diag, "the address of %s", ctl->peer);
    if (err)
        return err;
    mn_addr_format(&addr, host, sizeof host);
    snprintf(port, sizeof port, "%u", rank.port);
    mn_ctl_watch(ctl);
    err = start(&s, &rank, argv, token, diag);
    if (!err) {
        int status = watch(&s), signalled = WIFSIGNALED(status);
        cJSON *m = cJSON_CreateObject();
        cJSON_AddNumberToObject(m, signalled ? "signal" : "exit",
                                signalled ? WTERMSIG(status) : WEXITSTATUS(status));
        err = s.err;
        if (err)
            cJSON_Delete(m);
        else
            err = mn_ctl_send(ctl, m, diag);
    }
    for (int which = 1; which <= 2; which++)
        if (s.fds[which] >= 0)
            close(s.fds[which]);
    return err;
}
