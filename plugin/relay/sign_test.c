/* Proofs, and asking the relayd of the own node for them: over a real socket, whose other end is
 * here. */
#include "plugin/relay/line_ends.h"

#include <sys/stat.h>

static const uint8_t cluster_key[MN_KEY_SIZE] = "0123456789abcdef";

static struct mn_line_hello example(void)
{
    struct mn_line_hello h = {.relay_node = 7,
                              .kind = MN_LINE_PROCESS,
                              .node = 0x01020304,
                              .uid = 1000,
                              .pid = 4711};

    memset(h.random[0], 1, 16);
    memset(h.random[1], 2, 16);
    return h;
}

static void a_hello_is_got_as_it_was_put(void **state)
{
    struct mn_line_hello h = example(), back;
    uint8_t bytes[MN_LINE_HELLO_SIZE];

    (void)state;
    mn_line_hello_put(&h, bytes);
    assert_true(mn_line_hello_get(bytes, &back));
    assert_memory_equal(back.random, h.random, sizeof h.random);
    assert_int_equal(back.relay_node, 7);
    assert_int_equal(back.node, 0x01020304);
    assert_int_equal(back.uid, 1000);
    assert_int_equal(back.pid, 4711);
    for (int kind = 0; kind < 5; kind++) {
        bytes[36] = (uint8_t)kind;
        assert_int_equal(mn_line_hello_get(bytes, &back),
                         kind == MN_LINE_PROCESS || kind == MN_LINE_RELAY);
    }
}

/* Each bit of a hello and of the key is in all three, and no two of those are the same. */
static void proofs_are_of_all_that_is_said(void **state)
{
    struct mn_line_hello h = example(), other;
    uint8_t bytes[MN_LINE_HELLO_SIZE], key[MN_KEY_SIZE];
    struct mn_line_signed made, again;

    (void)state;
    mn_line_sign(cluster_key, &h, &made);
    assert_memory_not_equal(made.proof, made.welcome, MN_MAC_SIZE);
    assert_memory_not_equal(made.proof, made.key, MN_MAC_SIZE);
    assert_memory_not_equal(made.welcome, made.key, MN_MAC_SIZE);
    for (size_t i = 0; i <= sizeof bytes; i++) {
        memcpy(key, cluster_key, sizeof key);
        mn_line_hello_put(&h, bytes);
        if (i < sizeof bytes)
            bytes[i] ^= i == 36 ? MN_LINE_PROCESS ^ MN_LINE_RELAY : 0x80;
        else
            key[15] ^= 1;
        assert_true(mn_line_hello_get(bytes, &other));
        mn_line_sign(key, &other, &again);
        assert_memory_not_equal(made.proof, again.proof, MN_MAC_SIZE);
        assert_memory_not_equal(made.welcome, again.welcome, MN_MAC_SIZE);
        assert_memory_not_equal(made.key, again.key, MN_KEY_SIZE);
    }
}

/* --- the local socket ------------------------------------------------------------------------- */

static char folder[64], path[108];
static int local_fd;

static int local_set_up(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (set_up(state))
        return 1;
    strcpy(folder, "/tmp/meshnet-sign-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/relay.sock", folder);
    strcpy(at.sun_path, path);
    strcpy(client.settings.relay_socket, path);
    local_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return local_fd < 0 || bind(local_fd, (struct sockaddr *)&at, sizeof at) || listen(local_fd, 4);
}

static int local_tear_down(void **state)
{
    if (local_fd >= 0)
        close(local_fd);
    unlink(path);
    rmdir(folder);
    return tear_down(state);
}

/* What was asked, and answers with what was made of it. */
static int question(struct mn_line_hello *hello)
{
    uint8_t ask[4 + MN_LINE_HELLO_SIZE];
    int fd = accept4(local_fd, NULL, NULL, SOCK_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(recv(fd, ask, sizeof ask, MSG_WAITALL), sizeof ask);
    assert_memory_equal(ask, "sign", 4);
    assert_true(mn_line_hello_get(ask + 4, hello));
    return fd;
}

static void answer(int fd, const struct mn_line_hello *hello, size_t len)
{
    uint8_t bytes[MN_ASK_ANSWER + 8] = {MN_ASK_SIGNED};
    struct mn_line_signed made;

    mn_line_sign(cluster_key, hello, &made);
    mn_line_hello_put(hello, bytes + 1);
    memcpy(bytes + 1 + MN_LINE_HELLO_SIZE, &made, sizeof made);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
    close(fd);
}

static void the_relayd_of_the_node_signs(void **state)
{
    struct mn_line_hello h = example(), asked;
    struct mn_line_signed made, want;
    struct mn_diag diag;
    int fd;

    (void)state;
    assert_int_equal(mn_line_ask(path, &h, &fd, &diag), MN_OK);
    assert_int_equal(mn_line_answer(&fd, &h, &made, &diag), MN_ERR_AGAIN);
    int other = question(&asked);
    assert_int_equal(mn_line_answer(&fd, &h, &made, &diag), MN_ERR_AGAIN);
    asked.uid = 4;
    asked.node = 9;
    answer(other, &asked, MN_ASK_ANSWER);
    assert_int_equal(mn_line_answer(&fd, &h, &made, &diag), MN_OK);
    assert_int_equal(fd, -1);
    assert_int_equal(h.uid, 4);
    assert_int_equal(h.node, 9);
    mn_line_sign(cluster_key, &h, &want);
    assert_memory_equal(&made, &want, sizeof made);
}

static void refused(const char *text, size_t len, enum mn_err want, const char *words)
{
    struct mn_line_hello h = example(), asked;
    struct mn_line_signed made;
    struct mn_diag diag;
    int fd;

    assert_int_equal(mn_line_ask(path, &h, &fd, &diag), MN_OK);
    int other = question(&asked);
    if (len)
        assert_int_equal(send(other, text, len, MSG_NOSIGNAL), len);
    close(other);
    assert_int_equal(mn_line_answer(&fd, &h, &made, &diag), want);
    assert_int_equal(fd, -1);
    if (!strstr(diag.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, diag.text);
}

static void what_it_says_instead_is_passed_on(void **state)
{
    char much[MN_ASK_WORDS + 10];

    (void)state;
    memset(much, 'x', sizeof much);
    refused("user 5 may not", 14, MN_ERR_AUTH, "the relayd of this node says: user 5 may not");
    refused("a\033[31m", 6, MN_ERR_AUTH, "says: a?[31m");
    refused("", 0, MN_ERR_PEER_DEAD, "not answered");
    refused(much, MN_ASK_WORDS, MN_ERR_AUTH, "says: xxx");
    refused(much, MN_ASK_WORDS + 1, MN_ERR_PROTO, "too much");
    refused("\1half", 5, MN_ERR_PROTO, "another version");
}

static void what_was_not_asked_for_is_refused(void **state)
{
    static const int bytes[] = {0, 31, 35}; /* of randoms and of the relay's node */

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct mn_line_hello h = example(), asked;
        struct mn_line_signed made;
        struct mn_diag diag;
        uint8_t text[MN_LINE_HELLO_SIZE];
        int fd;
        assert_int_equal(mn_line_ask(path, &h, &fd, &diag), MN_OK);
        int other = question(&asked);
        mn_line_hello_put(&asked, text);
        if (i < 3)
            text[bytes[i]] ^= 1;
        else if (i < 4)
            text[36] = MN_LINE_RELAY;
        assert_true(mn_line_hello_get(text, &asked));
        answer(other, &asked, i == 4 ? MN_ASK_ANSWER + 1 : MN_ASK_ANSWER);
        assert_int_equal(mn_line_answer(&fd, &h, &made, &diag), MN_ERR_PROTO);
        assert_int_equal(h.pid, 4711); /* as it was */
    }
}

static void nobody_to_ask_is_said(void **state)
{
    struct mn_line_hello h = example();
    char too_long[200];
    struct mn_diag diag;
    int fd;

    (void)state;
    close(local_fd);
    local_fd = -1;
    assert_int_equal(mn_line_ask(path, &h, &fd, &diag), MN_ERR_PEER_DEAD);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(diag.text, path));
    assert_non_null(strstr(diag.text, "does not run on this node"));
    assert_int_equal(mn_line_ask("/nowhere/relay.sock", &h, &fd, &diag), MN_ERR_PEER_DEAD);
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    assert_int_equal(mn_line_ask(too_long, &h, &fd, &diag), MN_ERR_CONFIG);
}

/* More ask than wait in its queue: not yet, and no error. */
static void a_relayd_that_is_busy_is_asked_again(void **state)
{
    struct mn_line_hello h = example();
    struct mn_diag diag;
    int fds[64], n = 0;
    enum mn_err err = MN_OK;

    (void)state;
    while (n < 64 && !(err = mn_line_ask(path, &h, &fds[n], &diag)))
        n++;
    assert_int_equal(err, MN_ERR_AGAIN);
    assert_int_equal(fds[n], -1);
    while (n)
        close(fds[--n]);
}

/* --- a process without the key ---------------------------------------------------------------- */

static void a_process_without_the_key_gets_a_line(void **state)
{
    struct mn_line_hello asked;
    struct end a, b;
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    (void)state;
    client.has_key = 0;
    memset(client.cluster_key, 0, MN_KEY_SIZE);
    dial(&a, 7);
    take_in(&a, &b);
    for (b.err = MN_ERR_AGAIN;
         mn_line_fd(a.line) < 0 || a.line->state != MN_LINE_ASKING || a.line->ask_fd < 0;
         assert_true(mn_now_ms() < end)) {
        assert_int_equal(mn_line_step(a.line, &a.diag), MN_ERR_AGAIN);
        assert_int_equal(mn_line_step(b.line, &b.diag), MN_ERR_AGAIN);
    }
    assert_int_equal(mn_line_fd(a.line), a.line->ask_fd);
    int other = question(&asked);
    assert_int_equal(asked.relay_node, 7);
    asked.uid = 12345;
    asked.node = 3;
    answer(other, &asked, MN_ASK_ANSWER);
    until_both_know(&a, &b);
    assert_int_equal(a.err, MN_OK);
    assert_int_equal(b.err, MN_OK);
    assert_int_equal(mn_line_who(b.line)->uid, 12345);
    assert_memory_equal(mn_line_key(a.line), mn_line_key(b.line), MN_KEY_SIZE);
    part(&a, &b);
}

static void nobody_who_signs_ends_the_line(void **state)
{
    struct end a, b;

    (void)state;
    client.has_key = 0;
    close(local_fd);
    local_fd = -1;
    dial(&a, 7);
    take_in(&a, &b);
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; !a.err || a.err == MN_ERR_AGAIN;
         assert_true(mn_now_ms() < end)) {
        (void)mn_line_step(b.line, &b.diag);
        a.err = mn_line_step(a.line, &a.diag);
    }
    assert_int_equal(a.err, MN_ERR_PEER_DEAD); /* not for good: it may come back */
    assert_non_null(strstr(a.diag.text, "node-b (127.9.0.1): "));
    assert_non_null(strstr(a.diag.text, "does not run on this node"));
    part(&a, &b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, local_set_up, local_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_is_got_as_it_was_put),
        cmocka_unit_test(proofs_are_of_all_that_is_said),
        TEST(the_relayd_of_the_node_signs),
        TEST(what_it_says_instead_is_passed_on),
        TEST(what_was_not_asked_for_is_refused),
        TEST(nobody_to_ask_is_said),
        TEST(a_relayd_that_is_busy_is_asked_again),
        TEST(a_process_without_the_key_gets_a_line),
        TEST(nobody_who_signs_ends_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
