/* Verbs run here, over streams and by an agent: what they answer, how they fail, and who is left
 * when whoever asked has gone. The table of verbs is the test's own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fleet/crew.h"
#include "fleet/node_agent.h"

static volatile int *flags; /* shared with all processes: {it runs, it was let finish, it did} */
enum { RUNS, FINISH, DID };

/* --- the verbs --- */

static enum mn_err echo(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    (void)diag;
    fputs("a word for people\n", stderr);
    *answer = cJSON_CreateObject();
    cJSON_AddItemToObject(*answer, "asked", cJSON_Duplicate(ask, 1));
    return MN_OK;
}

static enum mn_err refuse(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    (void)ask;
    (void)answer;
    return mn_fail(diag, MN_ERR_EXISTS, "there is \x1b one already");
}

static enum mn_err crash(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    (void)ask;
    (void)answer;
    (void)diag;
    raise(SIGKILL);
    return MN_OK;
}

/* Until it is let. */
static enum mn_err wait_for_it(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    flags[RUNS] = 1;
    for (int i = 0; i < 1200 && !flags[FINISH]; i++)
        usleep(50000);
    flags[DID] = 1;
    return echo(ask, answer, diag);
}

static enum mn_err too_long(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    char *text = malloc(MN_NODE_TEXT + 1);

    (void)ask;
    (void)diag;
    memset(text, 'x', MN_NODE_TEXT);
    text[MN_NODE_TEXT] = 0;
    *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(*answer, "long", text);
    free(text);
    return MN_OK;
}

const struct mn_node_verb mn_node_verbs[] = {
    {.name = "about", .seconds = 60, .run = echo},
    {.name = "refuse", .seconds = 60, .run = refuse},
    {.name = "crash", .seconds = 60, .run = crash},
    {.name = "wait", .seconds = 60, .run = wait_for_it},
    {.name = "change", .seconds = 60, .run = wait_for_it, .changes = 1},
    {.name = "ssh-only", .seconds = 60, .run = wait_for_it, .changes = 1, .not_by_agents = 1},
    {.name = "long", .seconds = 60, .run = too_long},
    {.name = NULL},
};

const struct mn_node_verb *mn_node_verb(const char *name)
{
    for (const struct mn_node_verb *verb = mn_node_verbs; verb->name; verb++)
        if (!strcmp(verb->name, name))
            return verb;
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    flags = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return flags == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    return munmap((void *)(uintptr_t)flags, 4096);
}

static void wait_until(int which)
{
    for (int i = 0; i < 1200 && !flags[which]; i++)
        usleep(50000);
    assert_true(flags[which]);
}

/* --- a crew of this host --- */

static char said[256];

static void say(void *ctx, const char *host, const char *text)
{
    assert_null(ctx);
    snprintf(said, sizeof said, "%s says %s", host, text);
}

static struct mn_crew_answer ask_here(const char *verb)
{
    const char *names[] = {"localhost"};
    struct mn_opt_list hosts = {.items = names, .count = 1};
    struct mn_crew_plan plan = {.hosts = &hosts, .say = say};
    struct mn_crew_answer answer;
    struct mn_crew *crew;
    cJSON *ask = cJSON_Parse("{\"a\":[1,\"b\"]}");

    said[0] = 0;
    assert_int_equal(mn_crew_open(&plan, &crew, NULL), MN_OK);
    assert_int_equal(mn_crew_size(crew), 1);
    enum mn_err err = mn_crew_ask(crew, verb, ask, &answer);
    assert_int_equal(err, answer.err);
    assert_string_equal(answer.host, "localhost");
    mn_crew_close(crew);
    cJSON_Delete(ask);
    return answer;
}

static void expect_error(struct mn_crew_answer answer, enum mn_err err, const char *text)
{
    assert_int_equal(answer.err, err);
    assert_int_equal(answer.diag.code, err);
    assert_null(answer.json);
    if (strncmp(answer.diag.text, "localhost: ", 11) != 0 || !strstr(answer.diag.text, text))
        fail_msg("expected '%s': %s", text, answer.diag.text);
}

static void test_crew_here(void **state)
{
    struct mn_crew_answer answer = ask_here("about");

    (void)state;
    assert_int_equal(answer.err, MN_OK);
    char *text = cJSON_PrintUnformatted(answer.json);
    assert_string_equal(text, "{\"asked\":{\"a\":[1,\"b\"]}}");
    assert_string_equal(said, "localhost says a word for people");
    free(text);
    mn_crew_answers_free(&answer, 1);
    expect_error(ask_here("refuse"), MN_ERR_EXISTS, "there is ? one already");
    expect_error(ask_here("crash"), MN_ERR_INTERNAL, "'crash' was ended by signal 9");
    expect_error(ask_here("long"), MN_ERR_PROTO, "longer than 4194304 bytes");
    expect_error(ask_here("none"), MN_ERR_INTERNAL, "no verb 'none'");
}

static void test_crew_stops(void **state)
{
    const char *names[] = {"localhost"};
    struct mn_opt_list hosts = {.items = names, .count = 1};
    volatile sig_atomic_t stop = 0;
    struct mn_crew_plan plan = {.hosts = &hosts, .stop = &stop};
    struct mn_crew_answer answer;
    struct mn_crew *crew;
    struct mn_diag diag;
    cJSON *ask = cJSON_CreateObject();

    (void)state;
    assert_int_equal(mn_crew_open(&plan, &crew, NULL), MN_OK);
    stop = SIGINT;
    assert_int_equal(mn_crew_ask(crew, "about", ask, &answer), MN_ERR_FAILED);
    expect_error(answer, MN_ERR_FAILED, "interrupted");
    mn_crew_close(crew);
    assert_int_equal(mn_crew_open(&plan, &crew, &diag), MN_ERR_FAILED);
    assert_null(crew);
    cJSON_Delete(ask);
}

/* --- whoever asked goes --- */

static pid_t start(const char *verb, int *out)
{
    int in[2], fds[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(fds[1], STDOUT_FILENO);
        for (int i = 0; i < 2; i++) {
            close(in[i]);
            close(fds[i]);
        }
        signal(SIGPIPE, SIG_IGN);
        _exit(mn_node_stream(verb));
    }
    close(in[0]);
    close(in[1]);
    close(fds[1]);
    *out = fds[0];
    return pid;
}

static void test_nobody_waits(void **state)
{
    int out, status;
    pid_t pid = start("wait", &out);

    (void)state;
    wait_until(RUNS);
    close(out);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_false(flags[DID]);
}

static void test_nobody_waits_for_a_change(void **state)
{
    int out, status;
    pid_t pid = start("change", &out);

    (void)state;
    wait_until(RUNS);
    close(out);
    kill(pid, SIGTERM);
    flags[FINISH] = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(flags[DID]);
}

/* --- an agent --- */

static const uint8_t token[MN_KEY_SIZE] = {1, 2, 3};

/* serve's process, over a pair of sockets: its end is the caller's to close. */
static pid_t serve(int manage, struct mn_ctl *ctl)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct mn_ctl there = {.fd = fds[1], .peer = "client"};
        struct mn_diag diag;
        cJSON *first;
        close(fds[0]);
        enum mn_err err = mn_ctl_authenticate(&there, 1, token, 20000, &diag);
        if (!err)
            err = mn_ctl_receive(&there, 20000, &first, &diag);
        if (!err && !mn_node_agent_asked(first))
            err = MN_ERR_INTERNAL;
        if (!err)
            err = mn_node_agent_serve(&there, first, manage, 20000, &diag);
        mn_ctl_close(&there);
        _exit((int)err);
    }
    close(fds[1]);
    *ctl = (struct mn_ctl){.fd = fds[0], .peer = "server"};
    assert_int_equal(mn_ctl_authenticate(ctl, 0, token, 20000, NULL), MN_OK);
    return pid;
}

static enum mn_err ended(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (enum mn_err)WEXITSTATUS(status);
}

/* What the agent's answer is, by a process that writes it on standard output. */
static enum mn_err ask_agent(const char *verb, const char *ask, int manage, cJSON **answer,
                             struct mn_diag *diag)
{
    struct mn_ctl ctl;
    pid_t server = serve(manage, &ctl), client;
    char *text = malloc(MN_NODE_TEXT + 2);
    size_t used = 0;
    ssize_t n;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    client = fork();
    if (client == 0) {
        dup2(fds[1], STDOUT_FILENO);
        enum mn_err err = mn_node_agent_ask(&ctl, mn_node_verb(verb), ask, strlen(ask), NULL);
        fflush(NULL);
        mn_ctl_finish(&ctl);
        _exit((int)err);
    }
    mn_ctl_drop(&ctl);
    close(fds[1]);
    while ((n = read(fds[0], text + used, MN_NODE_TEXT + 1 - used)) > 0)
        used += (size_t)n;
    text[used] = 0;
    close(fds[0]);
    assert_int_equal(ended(client), MN_OK);
    assert_int_equal(ended(server), MN_OK);
    enum mn_err err = mn_node_parse(text, answer, diag);
    free(text);
    return err;
}

static void test_agent(void **state)
{
    struct mn_diag diag;
    cJSON *answer;

    (void)state;
    assert_int_equal(ask_agent("about", "{\"a\":1}", 0, &answer, &diag), MN_OK);
    char *text = cJSON_PrintUnformatted(answer);
    assert_string_equal(text, "{\"asked\":{\"a\":1}}");
    free(text);
    cJSON_Delete(answer);
    assert_int_equal(ask_agent("refuse", "{}", 0, &answer, &diag), MN_ERR_EXISTS);
    assert_int_equal(ask_agent("crash", "{}", 0, &answer, &diag), MN_ERR_INTERNAL);
    assert_int_equal(ask_agent("long", "{}", 0, &answer, &diag), MN_ERR_FAILED);
    assert_int_equal(ask_agent("about", "[]", 0, &answer, &diag), MN_ERR_PROTO);
}

static void test_agent_long_texts(void **state)
{
    enum { LENGTH = 1000003 };
    char *ask = malloc(LENGTH + 16);
    struct mn_diag diag;
    cJSON *answer;

    (void)state;
    /* Characters of two bytes, on the edges of parts as well. */
    int n = sprintf(ask, "{\"a\":\"");
    for (; n < LENGTH; n += 2)
        memcpy(ask + n, "\xc3\xa9", 2);
    strcpy(ask + n, "\"}");
    assert_int_equal(ask_agent("about", ask, 0, &answer, &diag), MN_OK);
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(answer, "asked"));
    assert_string_equal(text, ask);
    free(text);
    free(ask);
    cJSON_Delete(answer);
}

static void test_agent_and_changes(void **state)
{
    struct mn_diag diag;
    cJSON *answer;

    (void)state;
    flags[FINISH] = 1;
    assert_int_equal(ask_agent("change", "{}", 0, &answer, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "--manage"));
    assert_int_equal(ask_agent("ssh-only", "{}", 1, &answer, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "ask over ssh"));
    assert_false(flags[RUNS]);
    assert_int_equal(ask_agent("change", "{}", 1, &answer, &diag), MN_OK);
    assert_true(flags[DID]);
    cJSON_Delete(answer);
}

static void tell(struct mn_ctl *ctl, const char *text)
{
    assert_int_equal(mn_ctl_send(ctl, cJSON_Parse(text), NULL), MN_OK);
}

static void test_agent_is_left(void **state)
{
    struct mn_ctl ctl;
    pid_t pid = serve(1, &ctl);

    (void)state;
    tell(&ctl, "{\"op\":\"node\",\"verb\":\"wait\",\"parts\":0}");
    wait_until(RUNS);
    mn_ctl_close(&ctl);
    assert_int_equal(ended(pid), MN_ERR_PEER_DEAD);
    assert_false(flags[DID]);
    /* A change goes on. */
    flags[RUNS] = 0;
    pid = serve(1, &ctl);
    tell(&ctl, "{\"op\":\"node\",\"verb\":\"change\",\"parts\":0}");
    wait_until(RUNS);
    mn_ctl_close(&ctl);
    assert_int_equal(ended(pid), MN_ERR_PEER_DEAD);
    assert_false(flags[DID]);
    flags[FINISH] = 1;
    wait_until(DID);
}

static void test_agent_is_told_nonsense(void **state)
{
    static const char *const messages[][2] = {
        {"{\"op\":\"node\",\"verb\":\"about\"}", NULL},
        {"{\"op\":\"node\",\"verb\":\"about\",\"parts\":-1}", NULL},
        {"{\"op\":\"node\",\"verb\":\"about\",\"parts\":100000}", NULL},
        {"{\"op\":\"node\",\"verb\":\"about\",\"parts\":1}", "{\"part\":1}"},
        {"{\"op\":\"node\",\"verb\":\"about\",\"parts\":1}", "{}"},
        {"{\"op\":\"node\",\"verb\":\"about\",\"parts\":1}", "{\"part\":\"%%%%\"}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct mn_ctl ctl;
        pid_t pid = serve(1, &ctl);
        for (int k = 0; k < 2 && messages[i][k]; k++)
            tell(&ctl, messages[i][k]);
        assert_int_equal(ended(pid), MN_ERR_PROTO);
        mn_ctl_drop(&ctl);
    }
}

static void test_parse(void **state)
{
    struct mn_diag diag;
    cJSON *answer;

    (void)state;
    assert_int_equal(mn_node_parse("Welcome!\n{x}\n{\"a\":\"\\u001b[1m\"}\n", &answer, &diag),
                     MN_OK);
    assert_string_equal(cJSON_GetObjectItem(answer, "a")->valuestring, "?[1m");
    cJSON_Delete(answer);
    for (const char *const *text =
             (const char *const[]){"", "{", "[1]", "none", "{\"a\":1}\n{\n", "\n", NULL};
         *text; text++) {
        assert_int_equal(mn_node_parse(*text, &answer, &diag), MN_ERR_PROTO);
        assert_null(answer);
    }
    assert_int_equal(mn_node_parse("{\"error\":\"e\",\"code\":\"AUTH\"}", &answer, &diag),
                     MN_ERR_AUTH);
    assert_string_equal(diag.text, "e");
    /* No error is a success, whatever it says. */
    assert_int_equal(mn_node_parse("{\"error\":\"e\",\"code\":\"OK\"}", &answer, &diag),
                     MN_ERR_FAILED);
    assert_int_equal(mn_node_parse("{\"error\":\"e\"}", &answer, &diag), MN_ERR_FAILED);
    assert_int_equal(mn_node_parse("{\"error\":\"\"}", &answer, &diag), MN_ERR_FAILED);
    assert_string_equal(diag.text, "it failed, and did not say why");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_crew_here),
        TEST(test_crew_stops),
        TEST(test_nobody_waits),
        TEST(test_nobody_waits_for_a_change),
        TEST(test_agent),
        TEST(test_agent_long_texts),
        TEST(test_agent_and_changes),
        TEST(test_agent_is_left),
        TEST(test_agent_is_told_nonsense),
        TEST(test_parse),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
