/* What a client may ask serve to start, and what it may not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "fleet/agent.h"

static const uint8_t token[MN_KEY_SIZE];

/* serve's answer to a request, over a connection that is no TCP one: what gets past the checks
 * fails there, and starts nothing. */
static enum mn_err ask(const char *text, struct mn_diag *diag)
{
    struct mn_ctl ctl = {.peer = "client"};
    cJSON *first = cJSON_Parse(text);
    int fds[2];

    assert_non_null(first);
    assert_true(mn_agent_asked(first));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ctl.fd = fds[0];
    enum mn_err err = mn_agent_serve(&ctl, first, token, "plugin.so", diag);
    cJSON_Delete(first);
    close(fds[0]);
    close(fds[1]);
    return err;
}

#define REQUEST(rank, nranks, port, words)                                                         \
    "{\"op\":\"rank\",\"rank\":" rank ",\"nranks\":" nranks ",\"port\":" port ",\"words\":" words  \
    "}"

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *request, *reason;
    } cases[] = {
        {"{\"op\":\"rank\"}", "'nranks'"},
        {REQUEST("0", "2", "7", "[]"), "'rank'"},
        {REQUEST("2", "2", "7", "[]"), "'rank'"},
        {REQUEST("1", "100000", "7", "[]"), "'nranks'"},
        {REQUEST("1", "2", "0", "[]"), "'port'"},
        {REQUEST("1", "2", "65536", "[]"), "'port'"},
        {REQUEST("1", "2", "7", "{}"), "'words'"},
        {REQUEST("1", "2", "7", "\"--links\""), "'words'"},
        {REQUEST("1", "2", "7", "[1]"), "no rank with ''"},
        {REQUEST("1", "2", "7", "[\"--plugin=/tmp/x.so\"]"), "no rank with '--plugin=/tmp/x.so'"},
        {REQUEST("1", "2", "7", "[\"--links\",\"--plugin\"]"), "'--plugin'"},
        {REQUEST("1", "2", "7", "[\"--mesh=/etc/shadow\"]"), "'--mesh=/etc/shadow'"},
        {REQUEST("1", "2", "7", "[\"--token-file=x\"]"), "'--token-file=x'"},
        {REQUEST("1", "2", "7", "[\"--link\"]"), "'--link'"},
        {REQUEST("1", "2", "7", "[\"--linksx=1\"]"), "'--linksx=1'"},
        {REQUEST("1", "2", "7", "[\"8\"]"), "'8'"},
        {REQUEST("1", "2", "7", "[\"-n5\"]"), "'-n5'"},
        {REQUEST("1", "2", "7", "[\"\"]"), "''"},
        {REQUEST("1", "2", "7", "[\"--\"]"), "'--'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mn_diag diag = {.text = ""};
        assert_int_equal(ask(cases[i].request, &diag), MN_ERR_PROTO);
        if (!strstr(diag.text, cases[i].reason))
            fail_msg("%s: %s", cases[i].request, diag.text);
    }
}

static void test_too_many_words(void **state)
{
    char text[16 * MN_AGENT_WORDS] = "";
    struct mn_diag diag = {.text = ""};

    (void)state;
    strcat(text, "{\"op\":\"rank\",\"rank\":1,\"nranks\":2,\"port\":7,\"words\":[\"--links\"");
    for (int i = 0; i < MN_AGENT_WORDS; i++)
        strcat(text, ",\"--links\"");
    strcat(text, "]}");
    assert_int_equal(ask(text, &diag), MN_ERR_PROTO);
    assert_non_null(strstr(diag.text, "up to 256"));
}

static void test_what_is_taken(void **state)
{
    struct mn_diag diag = {.text = ""};

    (void)state;
    assert_int_equal(ask(REQUEST("1", "2", "7", "[\"--links\",\"--sizes=8,--plugin=x\"]"), &diag),
                     MN_ERR_SYS);
    assert_non_null(strstr(diag.text, "the address of client"));
}

static void test_other_messages(void **state)
{
    (void)state;
    for (const char *const *text =
             (const char *const[]){"{}", "{\"op\":\"check\"}", "{\"op\":1}", "[]", "null", NULL};
         *text; text++) {
        cJSON *m = cJSON_Parse(*text);
        assert_false(mn_agent_asked(m));
        cJSON_Delete(m);
    }
}

/* --- lines --- */

static char heard[8][MN_LINE];
static int n_heard;

static void hear(void *ctx, int which, const char *text)
{
    assert_null(ctx);
    assert_int_equal(which, 2);
    strcpy(heard[n_heard++], text);
}

static void test_lines(void **state)
{
    struct mn_lines lines = {.used = 0};
    char longer[MN_LINE + 10];
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(mn_lines_read(&lines, fds[0], hear, NULL, 2), 1);
    assert_int_equal(write(fds[1], "one\n\ntw", 7), 7);
    assert_int_equal(mn_lines_read(&lines, fds[0], hear, NULL, 2), 1);
    assert_int_equal(n_heard, 1);
    assert_int_equal(write(fds[1], "o \t\r\n \r\n", 8), 8);
    memset(longer, 'x', sizeof longer);
    assert_int_equal(write(fds[1], longer, sizeof longer), sizeof longer);
    close(fds[1]);
    assert_int_equal(mn_lines_read(&lines, fds[0], hear, NULL, 2), 0);
    close(fds[0]);
    assert_int_equal(n_heard, 4);
    assert_string_equal(heard[0], "one");
    assert_string_equal(heard[1], "two");
    assert_int_equal(strlen(heard[2]), MN_LINE - 1);
    assert_int_equal(strlen(heard[3]), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_too_many_words),
        cmocka_unit_test(test_what_is_taken),   cmocka_unit_test(test_other_messages),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
