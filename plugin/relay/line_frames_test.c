/* What goes over a line that is up, and its end. */
#include "plugin/relay/line_ends.h"

static void frames_go_both_ways_whole_and_in_order(void **state)
{
    uint8_t big[MN_LINE_MAX], *payload;
    struct end a, b;

    (void)state;
    join(&a, &b);
    for (unsigned i = 0; i < 300; i++) {
        size_t len = (i * 37) % (MN_LINE_MAX + 1);
        memset(big, (int)i, sizeof big);
        assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, big, len), MN_OK);
        assert_int_equal(mn_line_put(b.line, MN_LINE_GONE, big, MN_LINE_MAX - len), MN_OK);
    }
    for (unsigned i = 0; i < 300; i++) {
        size_t len = (i * 37) % (MN_LINE_MAX + 1);
        assert_int_equal(await(&b, MN_LINE_TALK, &payload), len);
        assert_true(!len || (payload[0] == (uint8_t)i && payload[len - 1] == (uint8_t)i));
        assert_int_equal(await(&a, MN_LINE_GONE, &payload), MN_LINE_MAX - len);
        assert_true(len == MN_LINE_MAX || payload[0] == (uint8_t)i);
    }
    assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, big, MN_LINE_MAX + 1), MN_ERR_INTERNAL);
    assert_int_equal(mn_line_put(a.line, MN_LINE_FRAMES, big, 1), MN_ERR_INTERNAL);
    part(&a, &b);
}

static void who_does_not_read_fills_the_queue_and_no_more(void **state)
{
    uint8_t big[MN_LINE_MAX] = {0}, *payload;
    unsigned put = 0, got = 0;
    enum mn_err err;
    struct end a, b;

    (void)state;
    join(&a, &b);
    while (!(err = mn_line_put(a.line, MN_LINE_TALK, big, sizeof big)))
        memcpy(big, &(unsigned){++put}, sizeof put);
    assert_int_equal(err, MN_ERR_AGAIN);
    assert_true(put >= MN_LINE_QUEUE / (MN_LINE_MAX + MN_LINE_HEADER));
    assert_true(mn_line_events(a.line) & POLLOUT);
    assert_true(a.line->tx_room <= 4 * MN_LINE_QUEUE);
    for (unsigned more = 0; got < put; got++) {
        await(&b, MN_LINE_TALK, &payload);
        assert_memory_equal(payload, &got, sizeof got);
        assert_int_equal(mn_line_step(a.line, &a.diag), MN_OK);
        if (more++ < 2000 && !mn_line_put(a.line, MN_LINE_TALK, big, sizeof big))
            memcpy(big, &(unsigned){++put}, sizeof put);
    }
    assert_false(mn_line_events(a.line) & POLLOUT);
    part(&a, &b);
}

/* More than is read at once: what is left of it is asked for again once the frames are taken. */
static void a_burst_larger_than_what_is_read_at_once_wakes_the_reader_again(void **state)
{
    uint8_t big[MN_LINE_MAX] = {0}, *payload;
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    enum mn_line_frame type;
    unsigned put = 0, got = 0;
    struct end a, b;
    size_t len;

    (void)state;
    join(&a, &b);
    for (; put < 3 * MN_LINE_READ / sizeof big; put++)
        assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, big, sizeof big), MN_OK);
    while (got < put) {
        struct pollfd p = {.fd = mn_line_fd(b.line), .events = (short)mn_line_events(b.line)};
        assert_true(p.events & POLLIN);
        assert_int_equal(mn_line_step(a.line, &a.diag), MN_OK);
        if (poll(&p, 1, 100) > 0)
            assert_int_equal(mn_line_step(b.line, &b.diag), MN_OK);
        while (!mn_line_get(b.line, &type, &payload, &len))
            got++;
        assert_true(mn_now_ms() < end);
    }
    part(&a, &b);
}

static void what_is_held_goes_together(void **state)
{
    enum mn_line_frame type;
    uint8_t *payload;
    struct end a, b;
    size_t len;

    (void)state;
    join(&a, &b);
    mn_line_hold(a.line, 1);
    for (char i = 'a'; i < 'd'; i++)
        assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, &i, 1), MN_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mn_line_step(b.line, &b.diag), MN_OK);
        assert_int_equal(mn_line_get(b.line, &type, &payload, &len), MN_ERR_AGAIN);
    }
    mn_line_hold(a.line, 0);
    for (char i = 'a'; i < 'd'; i++) {
        assert_int_equal(await(&b, MN_LINE_TALK, &payload), 1);
        assert_int_equal(payload[0], i);
    }
    assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, "d", 1), MN_OK);
    assert_int_equal(await(&b, MN_LINE_TALK, &payload), 1);
    assert_int_equal(payload[0], 'd');
    part(&a, &b);
}

static void pings_are_answered_and_an_answer_is_missed(void **state)
{
    enum mn_line_frame type;
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    uint8_t *payload;
    struct end a, b;
    size_t len;

    (void)state;
    join(&a, &b);
    assert_int_equal(mn_line_silent_ms(a.line), 0);
    mn_line_ping(a.line);
    mn_line_ping(a.line); /* too soon: the same one */
    assert_int_equal(a.line->pings, 1);
    for (; !mn_line_silent_ms(a.line); assert_true(mn_now_ms() < end))
        ;
    while (a.line->since_ms) {
        assert_int_equal(mn_line_step(b.line, &b.diag), MN_OK);
        assert_int_equal(mn_line_get(b.line, &type, &payload, &len), MN_ERR_AGAIN);
        assert_int_equal(mn_line_step(a.line, &a.diag), MN_OK);
        assert_int_equal(mn_line_get(a.line, &type, &payload, &len), MN_ERR_AGAIN);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(mn_line_silent_ms(a.line), 0);
    part(&a, &b);
}

/* Nor does he fill the queue with answers that he asks for. */
static void who_does_not_read_is_not_answered_for_ever(void **state)
{
    uint8_t pings[8 * 512], *payload;
    enum mn_line_frame type;
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int small = 4096;
    struct end a, b;
    size_t len;

    (void)state;
    join(&a, &b);
    (void)setsockopt(a.line->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    (void)setsockopt(b.line->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (size_t i = 0; i < sizeof pings; i += 8)
        memcpy(pings + i, "\4\0\1\0ping", 8);
    for (unsigned rounds = 0; rounds < 500; assert_true(mn_now_ms() < end)) {
        rounds += mn_line_waits(b.line) > 0;
        assert_int_equal(send(a.line->fd, pings, sizeof pings, 0), sizeof pings);
        assert_int_equal(mn_line_step(b.line, &b.diag), MN_OK);
        assert_int_equal(mn_line_get(b.line, &type, &payload, &len), MN_ERR_AGAIN);
    }
    assert_in_range(mn_line_waits(b.line), 1, 8192);
    /* What waits is his sign of life; all else is as before. */
    mn_line_ping(a.line);
    assert_int_equal(mn_line_put(b.line, MN_LINE_TALK, "x", 1), MN_OK);
    do {
        assert_int_equal(mn_line_step(b.line, &b.diag), MN_OK);
        assert_int_equal(mn_line_step(a.line, &a.diag), MN_OK);
        assert_true(mn_now_ms() < end);
    } while (mn_line_get(a.line, &type, &payload, &len));
    assert_int_equal(type, MN_LINE_TALK);
    assert_int_equal(a.line->since_ms, 0);
    part(&a, &b);
}

static void what_was_said_before_the_end_is_heard(void **state)
{
    uint8_t *payload;
    struct end a, b;

    (void)state;
    join(&a, &b);
    assert_int_equal(mn_line_put(b.line, MN_LINE_GONE, "1", 1), MN_OK);
    assert_int_equal(mn_line_put(b.line, MN_LINE_GONE, "2", 1), MN_OK);
    mn_line_close(b.line);
    await(&a, MN_LINE_GONE, &payload);
    assert_int_equal(payload[0], '1');
    await(&a, MN_LINE_GONE, &payload);
    assert_int_equal(payload[0], '2');
    await_end(&a, MN_ERR_PEER_DEAD, "has closed the line");
    assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, "x", 1), MN_ERR_PEER_DEAD);
    mn_line_close(a.line);
}

/* With no relayd at either end: up at once, and an end that breaks is not one that was closed. */
static void a_line_over_a_socket_is_up_at_once(void **state)
{
    static const uint8_t key[MN_KEY_SIZE] = "fedcba987654321";
    const struct linger reset = {.l_onoff = 1};
    uint8_t *payload;

    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        struct end a, b, first, second;
        join(&first, &second); /* sockets of a cable */
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        assert_int_equal(mn_line_over(&client, dup(first.line->fd), key, "node-b", 2000, &a.line,
                                      &a.diag),
                         MN_OK);
        assert_int_equal(mn_line_over(&server, dup(second.line->fd), key, "node-a", 2000, &b.line,
                                      &b.diag),
                         MN_OK);
        part(&first, &second);
        assert_string_equal(mn_line_peer(a.line), "node-b");
        assert_memory_equal(mn_line_key(b.line), key, sizeof key);
        assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, "there", 5), MN_OK);
        assert_int_equal(await(&b, MN_LINE_TALK, &payload), 5);
        assert_int_equal(mn_line_put(b.line, MN_LINE_TALK, "back", 4), MN_OK);
        assert_int_equal(await(&a, MN_LINE_TALK, &payload), 4);
        if (broken)
            assert_int_equal(setsockopt(b.line->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset),
                             0);
        mn_line_close(b.line);
        await_end(&a, MN_ERR_PEER_DEAD, broken ? "is gone" : "has closed the line");
        assert_int_equal(mn_line_has_closed(a.line), !broken);
        mn_line_close(a.line);
    }
}

/* The error is told once, and the socket reads as closed from there on. */
static void an_end_that_sending_finds_is_one(void **state)
{
    struct end a, b;

    (void)state;
    join(&a, &b);
    mn_line_close(b.line);
    while (mn_line_put(a.line, MN_LINE_TALK, "anybody?", 8) == MN_OK)
        usleep(1000);
    await_end(&a, MN_ERR_PEER_DEAD, "");
    assert_false(mn_line_has_closed(a.line));
    mn_line_close(a.line);
}

static void what_is_no_frame_ends_the_line(void **state)
{
    static const uint8_t bad[][8] = {{1, 0, 0, 0, 9},
                                     {1, 0, MN_LINE_FRAMES, 0, 9},
                                     {1, 0, MN_LINE_TALK, 1, 9},
                                     {1, 4, 7, 0},
                                     {3, 0, MN_LINE_PING, 0, 1, 2, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct end a, b;
        uint8_t *payload;
        join(&a, &b);
        assert_int_equal(mn_line_put(a.line, MN_LINE_TALK, "good", 4), MN_OK);
        assert_int_equal(send(a.line->fd, bad[i], sizeof *bad, 0), sizeof *bad);
        assert_int_equal(await(&b, MN_LINE_TALK, &payload), 4); /* what came before is good */
        await_end(&b, MN_ERR_PROTO, "no frame of the relay's protocol");
        part(&a, &b);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(frames_go_both_ways_whole_and_in_order),
        TEST(who_does_not_read_fills_the_queue_and_no_more),
        TEST(a_burst_larger_than_what_is_read_at_once_wakes_the_reader_again),
        TEST(what_is_held_goes_together),
        TEST(pings_are_answered_and_an_answer_is_missed),
        TEST(who_does_not_read_is_not_answered_for_ever),
        TEST(what_was_said_before_the_end_is_heard),
        TEST(a_line_over_a_socket_is_up_at_once),
        TEST(an_end_that_sending_finds_is_one),
        TEST(what_is_no_frame_ends_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
