/* The local socket, step by step, and who asks: forks that are other users where this test is root.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cjson/cJSON.h>
#include <cmocka.h>

#include "fleet/relay/daemon.h"
#include "fleet/relay/local_impl.h"

#define STRANGER 4711
#define FRIEND   4712

static const uint8_t key[MN_KEY_SIZE] = {1, 2, 3};
static const uint32_t users[] = {FRIEND};
static char folder[64], path[100];
static struct mn_local_plan plan;
static struct mn_relay_local *local;
static int states, large;

static void state_of(void *ctx, struct mn_out *out)
{
    assert_ptr_equal(ctx, &states);
    mn_out_int(out, "asked", NULL, ++states);
    mn_out_list_begin(out, "much", NULL);
    for (int i = 0; i < large; i++) {
        mn_out_begin(out, NULL, NULL);
        mn_out_int(out, "number", NULL, i);
        mn_out_end(out);
    }
    mn_out_list_end(out);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/relayd-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/socket", folder);
    states = large = 0;
    plan = (struct mn_local_plan){.path = path,
                                  .fd = -1,
                                  .cluster_key = key,
                                  .node = 3,
                                  .users = users,
                                  .n_users = 1,
                                  .state = state_of,
                                  .ctx = &states};
    assert_int_equal(mn_relay_local_open(&plan, &local, NULL), MN_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mn_relay_local_close(local);
    local = NULL;
    assert_int_equal(access(path, F_OK), -1);
    return rmdir(folder);
}

static int dial(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    memcpy(at.sun_path, path, strlen(path));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static const struct mn_line_hello hello = {.random = {{1, 2}, {3, 4}},
                                           .relay_node = 7,
                                           .kind = MN_LINE_RELAY,
                                           .node = 99,
                                           .uid = 98,
                                           .pid = 97};

static size_t ask_sign(uint8_t ask[MN_LOCAL_ASK])
{
    memcpy(ask, "sign", 4);
    mn_line_hello_put(&hello, ask + 4);
    return MN_LOCAL_ASK;
}

static void ask(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

/* Steps while there is something to do and for at most ms without. */
static void steps(int ms)
{
    struct pollfd p = {.fd = mn_relay_local_fd(local), .events = POLLIN};

    while (poll(&p, 1, ms) > 0)
        mn_relay_local_step(local);
}

/* All of an answer, while the socket is stepped; -1: it has not ended after a while. */
static ssize_t answer(int fd, char *buf, size_t size)
{
    size_t len = 0;

    for (int i = 0; i < 500; i++) {
        steps(0);
        ssize_t n = recv(fd, buf + len, size - 1 - len, 0);
        if (n > 0)
            len += (size_t)n;
        else if (!n || errno != EAGAIN)
            break;
        else
            poll(NULL, 0, 10);
        if (i == 499)
            return -1;
    }
    close(fd);
    buf[len] = '\0';
    return (ssize_t)len;
}

static void check_signed(const char *bytes, ssize_t len, uid_t uid, pid_t pid)
{
    struct mn_line_hello got, expected = hello;
    struct mn_line_signed made;
    const uint8_t *at = (const uint8_t *)bytes;

    assert_int_equal(len, MN_ASK_ANSWER);
    assert_int_equal(at[0], MN_ASK_SIGNED);
    assert_true(mn_line_hello_get(at + 1, &got));
    expected.kind = MN_LINE_PROCESS;
    expected.node = 3;
    expected.uid = uid;
    expected.pid = (uint32_t)pid;
    mn_line_sign(key, &expected, &made);
    assert_memory_equal(got.random, expected.random, sizeof got.random);
    assert_int_equal(got.relay_node, 7);
    assert_int_equal(got.kind, MN_LINE_PROCESS);
    assert_int_equal(got.node, 3);
    assert_int_equal(got.uid, uid);
    assert_int_equal(got.pid, pid);
    at += 1 + MN_LINE_HELLO_SIZE;
    assert_memory_equal(at, made.proof, MN_MAC_SIZE);
    assert_memory_equal(at + MN_MAC_SIZE, made.welcome, MN_MAC_SIZE);
    assert_memory_equal(at + 2 * MN_MAC_SIZE, made.key, MN_KEY_SIZE);
}

/* --- the conversation ------------------------------------------------------------------------- */

static void test_sign(void **state)
{
    uint8_t question[MN_LOCAL_ASK];
    char got[512];
    int fd = dial();

    (void)state;
    ask(fd, question, ask_sign(question));
    check_signed(got, answer(fd, got, sizeof got), getuid(), getpid());
}

static void test_byte_by_byte(void **state)
{
    uint8_t question[MN_LOCAL_ASK];
    char got[512];
    int fd = dial();

    (void)state;
    ask_sign(question);
    for (size_t i = 0; i < sizeof question; i++) {
        assert_int_equal(recv(fd, got, 1, 0), -1);
        ask(fd, question + i, 1);
        steps(0);
    }
    check_signed(got, answer(fd, got, sizeof got), getuid(), getpid());
}

static void test_questions(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        enum mn_local_question is;
    } rows[] = {
        {"", 0, MN_LOCAL_MORE},
        {"s", 1, MN_LOCAL_MORE},
        {"sig", 3, MN_LOCAL_MORE},
        {"sign", 4, MN_LOCAL_MORE},
        {"sixn", 4, MN_LOCAL_NONSENSE},
        {"sta", 3, MN_LOCAL_MORE},
        {"state", 5, MN_LOCAL_STATE},
        {"state\n", 6, MN_LOCAL_STATE},
        {"states", 6, MN_LOCAL_NONSENSE},
        {"state\nx", 7, MN_LOCAL_NONSENSE},
        {"sa", 2, MN_LOCAL_MORE},
        {"same", 4, MN_LOCAL_MORE},
        {"sameabcdefghijklmno", 19, MN_LOCAL_MORE},
        {"sameabcdefghijklmnop", 20, MN_LOCAL_SAME},
        {"sameabcdefghijklmnopq", 21, MN_LOCAL_NONSENSE},
        {"\0", 1, MN_LOCAL_NONSENSE},
        {"GET /", 5, MN_LOCAL_NONSENSE},
    };
    uint8_t question[MN_LOCAL_ASK + 1] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(mn_local_question((const uint8_t *)rows[i].text, rows[i].len), rows[i].is);
    ask_sign(question);
    assert_int_equal(mn_local_question(question, MN_LOCAL_ASK - 1), MN_LOCAL_MORE);
    assert_int_equal(mn_local_question(question, MN_LOCAL_ASK), MN_LOCAL_SIGN);
    assert_int_equal(mn_local_question(question, MN_LOCAL_ASK + 1), MN_LOCAL_NONSENSE);
}

static void refused(const void *question, size_t len, int half, const char *word)
{
    char got[MN_ASK_WORDS + 1];
    int fd = dial();

    ask(fd, question, len);
    if (half)
        shutdown(fd, SHUT_WR);
    assert_true(answer(fd, got, sizeof got) > 0);
    assert_non_null(strstr(got, word));
}

static void test_nonsense_is_told(void **state)
{
    uint8_t question[MN_LOCAL_ASK];
    char much[8192];

    (void)state;
    refused("GET / HTTP/1.1\r\n", 16, 0, "expected");
    refused("si", 2, 1, "half a question");
    refused("", 0, 1, "half a question");
    memset(much, 'x', sizeof much);
    refused(much, sizeof much, 0, "expected");
    ask_sign(question);
    question[4 + 36] = 200; /* the kind */
    refused(question, sizeof question, 0, "no hello");
    assert_int_equal(mn_relay_local_refused(local), 0);
}

static void test_state(void **state)
{
    static char got[1u << 16];

    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd = dial();
        ask(fd, "state\n", 5 + (size_t)i);
        assert_true(answer(fd, got, sizeof got) > 0);
        cJSON *json = cJSON_Parse(got);
        assert_non_null(cJSON_GetObjectItem(json, "asked"));
        cJSON_Delete(json);
    }
}

/* Longer than a socket takes at once, and one who does not read it. */
static void test_long_state(void **state)
{
    enum { ROOM = 4 << 20 };
    char *got = malloc(ROOM);

    (void)state;
    large = 40000;
    int stuck = dial(), fd = dial();
    ask(stuck, "state", 5);
    ask(fd, "state", 5);
    assert_true(answer(fd, got, ROOM) > 400000);
    cJSON *json = cJSON_Parse(got);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "much")), large);
    cJSON_Delete(json);
    free(got);
    close(stuck);
    steps(0);
}

/* However many ask at once, it is made once. */
static void test_state_is_shared(void **state)
{
    int fds[MN_LOCAL_CLIENTS];
    char got[512];

    (void)state;
    for (int i = 0; i < MN_LOCAL_CLIENTS; i++)
        ask(fds[i] = dial(), "state", 5);
    mn_relay_local_step(local);
    assert_int_equal(states, 1);
    for (int i = 0; i < MN_LOCAL_CLIENTS; i++)
        assert_true(answer(fds[i], got, sizeof got) > 0);
    assert_in_range(states, 1, MN_LOCAL_CLIENTS - 1);
}

static const uint8_t challenge[MN_KEY_SIZE] = {9, 8, 7};

static void ask_child(int *fds, int same)
{
    char *json = NULL;
    uint8_t made[MN_MAC_SIZE];
    struct mn_diag diag;

    close(fds[0]);
    enum mn_err err = same ? mn_relay_ask_same(path, challenge, made, &diag)
                           : mn_relay_ask_state(path, &json, &diag);
    if (err || !same)
        dprintf(fds[1], "%s", err ? diag.text : json);
    else if (write(fds[1], made, sizeof made) != sizeof made)
        _exit(99);
    _exit(err);
}

/* The other half: its own process, for it waits. */
static int ask_other(int same, char *text, size_t size)
{
    int fds[2], status;
    size_t len = 0;
    ssize_t n;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid)
        ask_child(fds, same);
    close(fds[1]);
    if (local)
        steps(1500);
    while ((n = read(fds[0], text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void test_ask_state(void **state)
{
    char text[2048];

    (void)state;
    large = 3;
    assert_int_equal(ask_other(0, text, sizeof text), MN_OK);
    cJSON *json = cJSON_Parse(text);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "much")), 3);
    cJSON_Delete(json);
    mn_relay_local_close(local);
    local = NULL;
    assert_int_equal(ask_other(0, text, sizeof text), MN_ERR_NOTFOUND);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "systemctl enable --now meshnet-relayd"));
}

/* Equal for equal keys and challenges, and nothing of the key. */
static void test_same(void **state)
{
    static const uint8_t other_key[MN_KEY_SIZE] = {1, 2, 4};
    char first[64], again[64], other[64];

    (void)state;
    assert_int_equal(ask_other(1, first, sizeof first), MN_OK);
    assert_int_equal(ask_other(1, again, sizeof again), MN_OK);
    assert_memory_equal(first, again, MN_MAC_SIZE);
    mn_relay_local_close(local);
    plan.cluster_key = other_key;
    assert_int_equal(mn_relay_local_open(&plan, &local, NULL), MN_OK);
    assert_int_equal(ask_other(1, other, sizeof other), MN_OK);
    assert_memory_not_equal(first, other, MN_MAC_SIZE);
}

/* --- who -------------------------------------------------------------------------------------- */

/* The answer to a question of a process of that user. */
static ssize_t as_user(uid_t uid, const void *question, size_t len, char *buf, size_t size,
                       pid_t *pid)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds), 0);
    *pid = fork();
    if (!*pid) {
        char got[1024];
        size_t have = 0;
        ssize_t n;
        if (setresuid(uid, uid, uid))
            _exit(1);
        int fd = dial();
        ask(fd, question, len);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        while (poll(&p, 1, 3000) > 0 && (n = recv(fd, got + have, sizeof got - have, 0)) > 0)
            have += (size_t)n;
        _exit(send(fds[1], got, have, 0) < 0);
    }
    close(fds[1]);
    struct pollfd p = {.fd = fds[0], .events = POLLIN};
    for (int i = 0; i < 300 && poll(&p, 1, 10) == 0; i++)
        steps(0);
    ssize_t n = recv(fds[0], buf, size - 1, MSG_DONTWAIT);
    close(fds[0]);
    assert_int_equal(waitpid(*pid, NULL, 0), *pid);
    buf[n > 0 ? n : 0] = '\0';
    return n;
}

static void test_users(void **state)
{
    uint8_t question[MN_LOCAL_ASK];
    char got[1024];
    pid_t pid;
    ssize_t n;

    (void)state;
    if (getuid())
        skip();
    ask_sign(question);
    n = as_user(FRIEND, question, sizeof question, got, sizeof got, &pid);
    check_signed(got, n, FRIEND, pid);
    assert_true(as_user(STRANGER, question, sizeof question, got, sizeof got, &pid) > 0);
    assert_non_null(strstr(got, "user 4711 may not use the relay of this node"));
    assert_non_null(strstr(got, "--users 4711"));
    assert_int_equal(mn_relay_local_refused(local), 1);
    assert_true(as_user(STRANGER, "state", 5, got, sizeof got, &pid) > 0);
    assert_int_equal(got[0], '{');
}

static void test_anyone(void **state)
{
    uint8_t question[MN_LOCAL_ASK];
    char got[1024];
    pid_t pid;

    (void)state;
    if (getuid())
        skip();
    mn_relay_local_close(local);
    plan.anyone = 1;
    assert_int_equal(mn_relay_local_open(&plan, &local, NULL), MN_OK);
    ask_sign(question);
    ssize_t n = as_user(STRANGER, question, sizeof question, got, sizeof got, &pid);
    check_signed(got, n, STRANGER, pid);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static int is_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK) == 0;
}

/* One user's silent ones take all places: another's question is answered, the oldest have gone. */
static void test_flood(void **state)
{
    enum { MANY = MN_LOCAL_CLIENTS + 10 };
    int fds[MANY], closed = 0;
    uint8_t question[MN_LOCAL_ASK];
    char got[1024];
    pid_t pid;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial();
        steps(0);
    }
    for (int i = 0; i < MANY; i++)
        closed += is_closed(fds[i]);
    assert_int_equal(closed, MANY - MN_LOCAL_CLIENTS);
    assert_true(is_closed(fds[0]));
    assert_false(is_closed(fds[MANY - 1]));
    if (!getuid()) {
        ask_sign(question);
        ssize_t n = as_user(FRIEND, question, sizeof question, got, sizeof got, &pid);
        check_signed(got, n, FRIEND, pid);
    }
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

/* A step ends, however many come. */
static void test_turn(void **state)
{
    enum { MANY = MN_LOCAL_TURN + 5 };
    int fds[MANY], answered = 0;
    char byte;

    (void)state;
    for (int i = 0; i < MANY; i++)
        ask(fds[i] = dial(), "state", 5);
    mn_relay_local_step(local);
    for (int i = 0; i < MANY; i++)
        answered += recv(fds[i], &byte, 1, 0) == 1;
    assert_int_equal(answered, MN_LOCAL_TURN);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

static void test_silent_ones_end(void **state)
{
    int fd = dial();
    struct pollfd p = {.fd = fd, .events = POLLIN};

    (void)state;
    ask(fd, "sig", 3);
    for (int i = 0; i < 1000 && !poll(&p, 1, 0); i++)
        steps(10);
    assert_true(is_closed(fd));
    close(fd);
}

/* Without descriptors it neither spins nor ends, and is there again afterwards. */
static void test_descriptors_run_out(void **state)
{
    struct rlimit limit, none;
    struct pollfd p = {.fd = mn_relay_local_fd(local), .events = POLLIN};
    char got[512];
    int rang = 0;

    (void)state;
    int fd = dial();
    ask(fd, "state", 5);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)fd;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 20; i++) {
        rang += poll(&p, 1, 0);
        mn_relay_local_step(local);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_in_range(rang, 1, 5);
    assert_true(answer(fd, got, sizeof got) > 0);
    assert_int_equal(got[0], '{');
}

/* --- the file --------------------------------------------------------------------------------- */

static void test_mode(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
}

static void test_live_one_is_refused(void **state)
{
    struct mn_relay_local *other;
    struct mn_diag diag;
    char got[512];

    (void)state;
    assert_int_equal(mn_relay_local_open(&plan, &other, &diag), MN_ERR_EXISTS);
    assert_null(other);
    assert_non_null(strstr(diag.text, path));
    int fd = dial();
    ask(fd, "state", 5);
    assert_true(answer(fd, got, sizeof got) > 0);
}

static void test_stale_one_is_replaced(void **state)
{
    char got[512];

    (void)state;
    pid_t pid = fork();
    if (!pid) {
        mn_relay_local_close(local);
        _exit(mn_relay_local_open(&plan, &local, NULL)); /* and leaves it */
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(access(path, F_OK), 0);
    mn_relay_local_close(local); /* whose it is not: it stays */
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(mn_relay_local_open(&plan, &local, NULL), MN_OK);
    int fd = dial();
    ask(fd, "state", 5);
    assert_true(answer(fd, got, sizeof got) > 0);
}

static void bad_path(const char *at, enum mn_err err, const char *word)
{
    struct mn_local_plan bad = plan;
    struct mn_relay_local *other;
    struct mn_diag diag;

    bad.path = at;
    assert_int_equal(mn_relay_local_open(&bad, &other, &diag), err);
    assert_non_null(strstr(diag.text, word));
}

static void test_bad_paths(void **state)
{
    char at[300];

    (void)state;
    bad_path("relative", MN_ERR_CONFIG, "begins with /");
    memset(at, 'x', sizeof at - 1);
    at[0] = '/';
    at[sizeof at - 1] = '\0';
    bad_path(at, MN_ERR_CONFIG, "at most 107 bytes");
    snprintf(at, sizeof at, "%s/none/socket", folder);
    bad_path(at, MN_ERR_SYS, "--socket PATH");
    snprintf(at, sizeof at, "%s/file", folder);
    close(open(at, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    bad_path(at, MN_ERR_CONFIG, "no socket");
    assert_int_equal(unlink(at), 0);
}

static void test_handed_over(void **state)
{
    struct mn_relay_local *other;
    struct mn_local_bound bound = {.fd = -1};
    struct mn_diag diag;
    char got[512];
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    plan.fd = fds[0];
    assert_int_equal(mn_relay_local_open(&plan, &other, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "ListenStream="));
    close(fds[1]);
    mn_relay_local_close(local);
    assert_int_equal(mn_local_bind(path, &bound, NULL), MN_OK);
    plan.fd = bound.fd;
    assert_int_equal(mn_relay_local_open(&plan, &local, NULL), MN_OK);
    int fd = dial();
    ask(fd, "state", 5);
    assert_true(answer(fd, got, sizeof got) > 0);
    mn_relay_local_close(local);
    local = NULL;
    assert_int_equal(unlink(path), 0); /* systemd's stays */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sign),
        TEST(test_byte_by_byte),
        cmocka_unit_test(test_questions),
        TEST(test_nonsense_is_told),
        TEST(test_state),
        TEST(test_long_state),
        TEST(test_state_is_shared),
        TEST(test_ask_state),
        TEST(test_same),
        TEST(test_users),
        TEST(test_anyone),
        TEST(test_flood),
        TEST(test_turn),
        TEST(test_silent_ones_end),
        TEST(test_descriptors_run_out),
        TEST(test_mode),
        TEST(test_live_one_is_refused),
        TEST(test_stale_one_is_replaced),
        TEST(test_bad_paths),
        TEST(test_handed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
