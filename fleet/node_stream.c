#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/node.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/clock.h"
#include "topo/base/opt.h"

#define ASK_S   30.0 /* for the question to come */
#define LOOK_MS 100
#define GRACE_S 5.0 /* beyond a verb's seconds, and from SIGTERM to SIGKILL */

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number)
{
    asked_to_end = number;
}

static const char *verb_name(const void *ctx, size_t i)
{
    (void)ctx;
    return mn_node_verbs[i].name;
}

enum mn_err mn_node_find(const char *name, const struct mn_node_verb **verb, struct mn_diag *diag)
{
    const char *near = mn_nearest(name, verb_name, NULL);

    *verb = mn_node_verb(name);
    return *verb ? MN_OK
                 : mn_fail(diag, MN_ERR_USAGE,
                           "unknown verb '%.40s'%s%s%s; meshnet node --list shows them", name,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* A rule for sudoers, of the verbs that need root, or see less without, and nothing else: other
 * commands load what they are told to. "" for a program that its user may replace, or a copy, which
 * is gone tomorrow. */
static char *root_rule(const char *exe)
{
    char *rule = mn_strdup("");
    char *folder = mn_strdup(exe), *slash = strrchr(folder, '/');

    if (slash)
        *slash = 0;
    int lasts = slash && fnmatch("*/meshnet.????????[!/][!/]/meshnet", exe, 0) != 0 &&
                access(exe, W_OK) != 0 && access(folder, W_OK) != 0;
    for (const struct mn_node_verb *v = mn_node_verbs; v->name && lasts; v++) {
        if (v->root < MN_ROOT_BETTER)
            continue;
        char *more = mn_asprintf("%s%s%s node %s -- *", rule, *rule ? ", " : "", exe, v->name);
        free(rule);
        rule = more;
    }
    free(folder);
    return rule;
}

static enum mn_err check_root(const struct mn_node_verb *verb, struct mn_diag *diag)
{
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = 0;
    if (verb->root != MN_ROOT_NEEDED || !geteuid())
        return MN_OK;
    char *rule = root_rule(exe);
    enum mn_err err =
        *rule ? mn_fail(diag, MN_ERR_CONFIG,
                        "'%s' needs root: allow sudo without a password for it (in sudoers: NAME "
                        "ALL=(root) NOPASSWD: %s), or come as root",
                        verb->name, rule)
              : mn_fail(diag, MN_ERR_CONFIG,
                        "'%s' needs root: install this version of meshnet there, where only root "
                        "may write, and allow sudo for it, or come as root",
                        verb->name);
    free(rule);
    return err;
}

/* Standard input to its end; nothing comes from a terminal. */
enum mn_err mn_node_read(cJSON **ask, struct mn_diag *diag)
{
    char *text = mn_zalloc(MN_NODE_TEXT + 1);
    double deadline = mn_seconds() + ASK_S;
    enum mn_err err = MN_OK;
    size_t used = 0;
    ssize_t n = !isatty(STDIN_FILENO);

    while (n > 0 && !err) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        int left_ms = (int)((deadline - mn_seconds()) * 1e3);
        if (left_ms <= 0 || poll(&p, 1, left_ms) == 0)
            err = mn_fail(diag, MN_ERR_TIMEOUT, "no question came on standard input in %.0f s",
                          ASK_S);
        else if ((n = read(STDIN_FILENO, text + used, MN_NODE_TEXT - used)) < 0)
            err = errno == EINTR ? (n = 1, MN_OK) : mn_fail_errno(diag, "reading the question");
        else if ((used += (size_t)n) == MN_NODE_TEXT)
            err = mn_fail(diag, MN_ERR_PROTO, "the question is longer than %u bytes", MN_NODE_TEXT);
    }
    *ask = NULL;
    if (!err)
        *ask = cJSON_Parse(text[strspn(text, " \t\r\n")] ? text : "{}");
    free(text);
    if (!err && !cJSON_IsObject(*ask)) {
        cJSON_Delete(*ask);
        *ask = NULL;
        err = mn_fail(diag, MN_ERR_PROTO, "the question on standard input is no JSON object");
    }
    return err;
}

enum mn_err mn_node_put(cJSON *json)
{
    enum mn_err err = MN_OK;
    char *text = cJSON_PrintUnformatted(json);
    size_t left = text ? strlen(text) : 0;
    const char *at = text;

    cJSON_Delete(json);
    if (text)
        text[left++] = '\n';
    while (left && !err) {
        ssize_t n = write(STDOUT_FILENO, at, left);
        if (n < 0 && errno != EINTR) {
            fprintf(stderr, "meshnet node: writing the answer: %s\n", strerror(errno));
            err = MN_ERR_SYS;
        }
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    free(text);
    return err;
}

cJSON *mn_node_error(const struct mn_diag *diag)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "error", diag->text);
    cJSON_AddStringToObject(json, "code", mn_err_name(diag->code));
    return json;
}

static int put_error(const struct mn_diag *diag)
{
    (void)mn_node_put(mn_node_error(diag));
    return mn_err_exit_code(diag->code);
}

static int run(const struct mn_node_verb *verb, const cJSON *ask)
{
    struct mn_diag diag = {.text = ""};
    cJSON *answer = NULL;
    enum mn_err err = verb->run(ask, &answer, &diag);

    if (!err && !answer)
        err = mn_fail(&diag, MN_ERR_INTERNAL, "'%s' gave no answer", verb->name);
    diag.code = err;
    if (err)
        return put_error(&diag);
    return mn_err_exit_code(mn_node_put(answer));
}

/* done wakes it when the process has ended, unless that has left another behind. Ends it when
 * nobody waits for it any more or it takes too long, unless it changes the host. */
static int watch(const struct mn_node_verb *verb, pid_t pid, int done)
{
    double deadline = mn_seconds() + verb->seconds + GRACE_S;
    int number = SIGTERM, late = 0, status = 0;
    struct mn_diag diag;

    for (int gone = 0; waitpid(pid, &status, WNOHANG) == 0;) {
        struct pollfd p[] = {{.fd = done, .events = POLLIN},
                             {.fd = gone ? -1 : STDOUT_FILENO, .events = 0}};
        (void)poll(p, 2, p[0].fd < 0 ? LOOK_MS / 10 : LOOK_MS);
        done = p[0].revents ? -1 : done;
        int over = mn_seconds() > deadline, leave = !gone && (p[1].revents || asked_to_end);
        gone |= leave;
        late |= over;
        if (verb->changes || (!over && !leave))
            continue;
        kill(pid, number);
        number = SIGKILL;
        deadline = mn_seconds() + GRACE_S;
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (late)
        mn_fail(&diag, MN_ERR_TIMEOUT, "'%s' took longer than %u s and was ended", verb->name,
                verb->seconds);
    else
        mn_fail(&diag, MN_ERR_INTERNAL, "'%s' was ended by signal %d (%s)", verb->name,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    return put_error(&diag);
}

static int run_apart(const struct mn_node_verb *verb, const cJSON *ask)
{
    struct mn_diag diag;
    pid_t parent = getpid();
    int done[2];

    if (pipe2(done, O_CLOEXEC)) {
        mn_fail_errno(&diag, "a pipe for '%s'", verb->name);
        return put_error(&diag);
    }
    fflush(NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        if (!verb->changes && (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent))
            _exit(1);
        close(done[0]);
        int code = run(verb, ask);
        fflush(NULL);
        _exit(code);
    }
    if (pid < 0)
        mn_fail_errno(&diag, "a process for '%s'", verb->name);
    close(done[1]);
    int code = pid < 0 ? put_error(&diag) : watch(verb, pid, done[0]);
    close(done[0]);
    return code;
}

int mn_node_stream(const char *name)
{
    const struct mn_node_verb *verb;
    struct mn_diag diag = {.text = ""};
    cJSON *ask = NULL;
    enum mn_err err = mn_node_find(name, &verb, &diag);

    if (!err)
        err = check_root(verb, &diag);
    if (!err)
        err = mn_node_read(&ask, &diag);
    if (err)
        return put_error(&diag);
    int code = run_apart(verb, ask);
    cJSON_Delete(ask);
    return code;
}

static enum mn_err code_of(const cJSON *json)
{
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(json, "code");

    for (int i = 1; cJSON_IsString(code) && i < MN_ERR_COUNT; i++)
        if (!strcmp(code->valuestring, mn_err_name((enum mn_err)i)))
            return (enum mn_err)i;
    return MN_ERR_FAILED;
}

enum mn_err mn_node_parse(const char *text, cJSON **answer, struct mn_diag *diag)
{
    const char *begin = NULL;

    /* A shell that starts up may have had something to say before. */
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (*at == '{')
            begin = at;
    }
    *answer = begin ? cJSON_Parse(begin) : NULL;
    if (!cJSON_IsObject(*answer)) {
        cJSON_Delete(*answer);
        *answer = NULL;
        return mn_fail(diag, MN_ERR_PROTO, "the answer is no JSON: %.60s", begin ? begin : text);
    }
    mn_clean_json(*answer);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(*answer, "error");
    if (!cJSON_IsString(error))
        return MN_OK;
    const char *why = *error->valuestring ? error->valuestring : "it failed, and did not say why";
    enum mn_err err = mn_fail(diag, code_of(*answer), "%.900s", why);
    cJSON_Delete(*answer);
    *answer = NULL;
    return err;
}
