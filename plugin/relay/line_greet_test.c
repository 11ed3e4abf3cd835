/* Who comes to a relayd, by which door, and who is let in. */
#include "plugin/relay/line_ends.h"

static void both_ends_know_each_other(void **state)
{
    struct end a, b;
    uint8_t *payload;
    int on = 0;
    socklen_t len = sizeof on;

    (void)state;
    dial(&a, 7);
    assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, "early", 5), MN_OK);
    take_in(&a, &b);
    until_both_know(&a, &b);
    assert_int_equal(a.err, MN_OK);
    assert_int_equal(b.err, MN_OK);
    assert_memory_equal(mn_line_key(a.line), mn_line_key(b.line), MN_KEY_SIZE);
    const struct mn_line_hello *who = mn_line_who(b.line);
    assert_int_equal(who->kind, MN_LINE_PROCESS);
    assert_int_equal(who->node, 3);
    assert_int_equal(who->relay_node, 7);
    assert_int_equal(who->pid, getpid());
    assert_int_equal(who->uid, geteuid());
    assert_string_equal(mn_line_peer(a.line), "node-b (127.9.0.1)");
    assert_string_equal(mn_line_peer(b.line), "127.9.0.1");
    mn_line_call(b.line, "node-a");
    assert_string_equal(mn_line_peer(b.line), "node-a (127.9.0.1)");
    assert_int_equal(await(&b, MN_LINE_TALK, &payload), 5);
    assert_memory_equal(payload, "early", 5);
    for (int i = 0; i < 2; i++) { /* at both ends */
        int fd = mn_line_fd(i ? a.line : b.line);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
        assert_int_equal(on, 1);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &on, &len), 0);
        assert_true(on > 0 && on <= (int)client.settings.relay_silence_ms);
    }
    part(&a, &b);
}

static void two_lines_have_two_keys(void **state)
{
    struct end a[2], b[2];

    (void)state;
    join(&a[0], &b[0]);
    join(&a[1], &b[1]);
    assert_memory_not_equal(mn_line_key(a[0].line), mn_line_key(a[1].line), MN_KEY_SIZE);
    part(&a[0], &b[0]);
    part(&a[1], &b[1]);
}

static void another_key_is_refused_and_said_at_both_ends(void **state)
{
    struct end a, b;

    (void)state;
    client.cluster_key[3] ^= 1;
    dial(&a, 7);
    take_in(&a, &b);
    until_both_know(&a, &b);
    assert_int_equal(a.err, MN_ERR_AUTH);
    assert_int_equal(b.err, MN_ERR_AUTH);
    assert_non_null(strstr(a.diag.text, "node-b (127.9.0.1)"));
    assert_non_null(strstr(a.diag.text, "plugin.key_file"));
    assert_non_null(strstr(b.diag.text, "plugin.key_file"));
    assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, "x", 1), MN_ERR_AUTH);
    part(&a, &b);
}

/* Whoever answers without the key is found out by who dials. */
static void a_relayd_without_the_key_is_refused(void **state)
{
    struct end a;
    uint8_t bytes[64] = {0}, out[MN_LINE_LAST] = {MN_LINE_LET_IN};
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    size_t got = 0;

    (void)state;
    dial(&a, 7);
    assert_int_equal(mn_line_step(a.line, &a.diag), MN_ERR_AGAIN);
    int fd = accept_greeting(&a);
    assert_int_equal(recv(fd, bytes, MN_LINE_FIRST, 0), MN_LINE_FIRST);
    bytes[MN_LINE_FIRST] = 7; /* echoes the random: nothing is proven by that */
    assert_int_equal(send(fd, bytes, MN_LINE_SECOND, MSG_NOSIGNAL), MN_LINE_SECOND);
    while (got < MN_LINE_THIRD) {
        (void)mn_line_step(a.line, &a.diag);
        ssize_t n = recv(fd, bytes + got, MN_LINE_THIRD - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
        assert_true(mn_now_ms() < end);
    }
    memcpy(out + 1, bytes + 13, MN_MAC_SIZE); /* its own proof is no welcome */
    assert_int_equal(send(fd, out, sizeof out, MSG_NOSIGNAL), sizeof out);
    until_both_know(&a, NULL);
    assert_int_equal(a.err, MN_ERR_AUTH);
    assert_non_null(strstr(a.diag.text, "has not the cluster key"));
    close(fd);
    mn_line_close(a.line);
}

/* What was overheard opens nothing: the relayd's random is another each time. */
static void a_replayed_hello_is_refused(void **state)
{
    struct end a, b, c;
    uint8_t first[MN_LINE_FIRST], third[MN_LINE_THIRD], seen[MN_LINE_SECOND];
    struct mn_bytes put = {third, third + sizeof third, 0};

    (void)state;
    join(&a, &b);
    memcpy(first, "MNRL\1\0\0\0", 8);
    memcpy(first + 8, a.line->hello.random[1], 16);
    mn_put(&put, a.line->hello.kind, 1);
    mn_put(&put, a.line->hello.node, 4);
    mn_put(&put, a.line->hello.uid, 4);
    mn_put(&put, a.line->hello.pid, 4);
    mn_put_raw(&put, a.line->signs.proof, MN_MAC_SIZE);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {htonl(0x7f090001)}};
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(send(fd, first, sizeof first, 0), sizeof first);
    take_in(NULL, &c);
    assert_int_equal(mn_line_step(c.line, &c.diag), MN_ERR_AGAIN);
    assert_int_equal(recv(fd, seen, sizeof seen, MSG_WAITALL), sizeof seen);
    assert_int_equal(send(fd, third, sizeof third, 0), sizeof third);
    until_both_know(&c, NULL);
    assert_int_equal(c.err, MN_ERR_AUTH);
    assert_int_equal(recv(fd, seen, sizeof seen, 0), 1);
    assert_int_equal(seen[0], MN_LINE_WRONG_KEY);
    close(fd);
    mn_line_close(c.line);
    part(&a, &b);
}

static void another_nodes_relayd_is_refused(void **state)
{
    struct end a, b;

    (void)state;
    dial(&a, 8);
    take_in(&a, &b);
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; a.err == MN_OK || a.err == MN_ERR_AGAIN;
         assert_true(mn_now_ms() < end)) {
        assert_int_equal(mn_line_step(b.line, &b.diag), MN_ERR_AGAIN);
        a.err = mn_line_step(a.line, &a.diag);
    }
    assert_int_equal(a.err, MN_ERR_AUTH);
    assert_non_null(strstr(a.diag.text, "node 7 of its mesh file"));
    mn_line_close(a.line);
    await_end(&b, MN_ERR_PEER_DEAD, "left while the line was greeted");
    mn_line_close(b.line);
}

static void another_version_is_said_at_both_ends(void **state)
{
    static const uint8_t other[MN_LINE_SECOND] = "MNRL\2\0";
    struct end a, b;
    uint8_t bytes[64];
    int pair[2];

    (void)state;
    dial(&a, 7);
    assert_int_equal(mn_line_step(a.line, &a.diag), MN_ERR_AGAIN);
    int fd = accept_greeting(&a);
    assert_int_equal(send(fd, other, MN_LINE_SECOND, 0), MN_LINE_SECOND);
    until_both_know(&a, NULL);
    assert_int_equal(a.err, MN_ERR_AUTH);
    assert_non_null(strstr(a.diag.text, "speaks version 2 of the relay's protocol, this end 1"));
    mn_line_close(a.line);
    close(fd);

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[1], other, MN_LINE_FIRST, 0), MN_LINE_FIRST);
    assert_int_equal(mn_line_judge(pair[0]), MN_ARRIVAL_STRANGER);
    assert_int_equal(recv(pair[1], bytes, sizeof bytes, 0), MN_LINE_SECOND);
    assert_memory_equal(bytes, "MNRL\1\0\0\0", 8);
    assert_int_equal(send(pair[1], other, MN_LINE_FIRST, 0), MN_LINE_FIRST);
    memset(&b, 0, sizeof b);
    assert_int_equal(mn_line_accept(&server, 7, pair[0], &b.line, &b.diag), MN_OK);
    await_end(&b, MN_ERR_AUTH, "speaks version 2");
    mn_line_close(b.line);
    close(pair[1]);
}

static void a_judge_knows_lines_by_their_first_bytes(void **state)
{
    static const uint8_t first[MN_LINE_FIRST] = "MNRL\1\0\0\0random";
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (size_t i = 0; i < sizeof first; i++) {
        assert_int_equal(mn_line_judge(pair[0]), MN_ARRIVAL_WAITS);
        assert_int_equal(send(pair[1], first + i, 1, 0), 1);
    }
    assert_int_equal(mn_line_judge(pair[0]), MN_ARRIVAL_TAKEN);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[1], "MNRM", 4, 0), 4);
    assert_int_equal(mn_line_judge(pair[0]), MN_ARRIVAL_STRANGER);
    close(pair[1]);
    close(pair[0]);
}

static void who_says_half_a_greeting_is_left(void **state)
{
    struct end b;
    int pair[2];

    (void)state;
    server.settings.handshake_ms = 100;
    memset(&b, 0, sizeof b);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[1], "MNRL\1", 5, 0), 5);
    assert_int_equal(mn_line_accept(&server, 7, pair[0], &b.line, &b.diag), MN_OK);
    await_end(&b, MN_ERR_TIMEOUT, "greeting");
    mn_line_close(b.line);
    close(pair[1]);
}

/* --- doors ------------------------------------------------------------------------------------ */

static void nobody_listens_is_said(void **state)
{
    struct end a;

    (void)state;
    close(door_fd);
    door_fd = -1;
    dial(&a, 7);
    await_end(&a, MN_ERR_PEER_DEAD, "meshnet relayd does not run there");
    assert_non_null(strstr(a.diag.text, "node-b (127.9.0.1)"));
    mn_line_close(a.line);
}

static void a_relayd_that_is_silent_is_said(void **state)
{
    struct end a;

    (void)state;
    client.settings.handshake_ms = 100;
    dial(&a, 7);
    await_end(&a, MN_ERR_LINK_DEAD, "its relayd does not");
    mn_line_close(a.line);
}

/* The first address is not this host's, nobody listens at the second, one hangs up at the third. */
static void the_next_door_is_tried(void **state)
{
    struct end a, b;
    struct mn_relay_door doors[4] = {door, door, door, door};
    struct mn_line_dial d = {.config = &client,
                             .kind = MN_LINE_RELAY,
                             .node = 3,
                             .relay_node = 7,
                             .relay_name = "node-b",
                             .doors = doors,
                             .n_doors = 4,
                             .port = port};
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int fd = -1;

    (void)state;
    memset(&a, 0, sizeof a);
    doors[0].from.bytes[3] = 77;
    doors[1].to.bytes[3] = 77; /* nobody is at 127.9.0.77 */
    assert_int_equal(mn_line_dial(&d, &a.line, &a.diag), MN_OK);
    while (fd < 0) {
        assert_int_equal(mn_line_step(a.line, &a.diag), MN_ERR_AGAIN);
        fd = accept4(door_fd, NULL, NULL, SOCK_CLOEXEC);
        assert_true(mn_now_ms() < end);
    }
    close(fd);
    assert_int_equal(mn_line_step(a.line, &a.diag), MN_ERR_AGAIN);
    take_in(&a, &b);
    until_both_know(&a, &b);
    assert_int_equal(a.err, MN_OK);
    assert_int_equal(b.err, MN_OK);
    assert_int_equal(mn_line_who(b.line)->kind, MN_LINE_RELAY);
    part(&a, &b);
}

static void the_last_door_says_why(void **state)
{
    struct end a;

    (void)state;
    door.from.bytes[3] = 77;
    dial(&a, 7);
    await_end(&a, MN_ERR_LINK_DEAD, "no cable here has the address 127.9.0.77");
    mn_line_close(a.line);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(both_ends_know_each_other),
        TEST(two_lines_have_two_keys),
        TEST(another_key_is_refused_and_said_at_both_ends),
        TEST(a_relayd_without_the_key_is_refused),
        TEST(a_replayed_hello_is_refused),
        TEST(another_nodes_relayd_is_refused),
        TEST(another_version_is_said_at_both_ends),
        TEST(a_judge_knows_lines_by_their_first_bytes),
        TEST(who_says_half_a_greeting_is_left),
        TEST(nobody_listens_is_said),
        TEST(a_relayd_that_is_silent_is_said),
        TEST(the_next_door_is_tried),
        TEST(the_last_door_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
