/* A sender that attaches anew while the relay behind the first, played here, still speaks of the
 * turn before: that is of nobody's any more. */
#include "fleet/relay/engine_kit.h"

static struct kit_end s;
static struct mn_line *line; /* the played relay's */
static struct mn_line_attach asked;

/* The played relay hears what the first one says, and answers only what a test has it answer. */
static void hear(void)
{
    enum mn_line_frame type;
    uint8_t *p;
    struct mn_diag diag;
    size_t len;
    enum mn_err err = mn_line_step(line, &diag);

    if (err && err != MN_ERR_AGAIN)
        fail_msg("%s", diag.text);
    while (!mn_line_get(line, &type, &p, &len))
        if (type == MN_LINE_ATTACH)
            assert_true(mn_line_attach_get(p, len, &asked));
}

static void until_asked(uint32_t instance)
{
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; asked.instance != instance || !s.attached;
         assert_true(mn_now_ms() < end)) {
        (void)kit_step(&s);
        hear();
        kit_nap();
    }
}

static void say_opened(uint32_t instance, uint32_t pair)
{
    const struct mn_line_opened f = {.flow = asked.flow, .instance = instance, .pair = pair};
    uint8_t payload[MN_LINE_MAX];

    assert_int_equal(mn_line_put(line, MN_LINE_OPENED, payload, mn_line_opened_put(&f, payload)),
                     MN_OK);
}

static void say_gone(uint32_t instance)
{
    const struct mn_line_gone f = {.flow = asked.flow,
                                   .instance = instance,
                                   .why = MN_GONE_PEER,
                                   .text = "is away"};
    uint8_t payload[MN_LINE_MAX];

    assert_int_equal(mn_line_put(line, MN_LINE_GONE, payload, mn_line_gone_put(&f, payload)),
                     MN_OK);
}

static void what_is_said_of_the_turn_before_opens_and_ends_nothing(void **state)
{
    struct mn_line_attach f = kit_frame(0, 3, 8);

    (void)state;
    kit_attach_sender(&s, f);
    until_asked(1);
    kit_let_go(&s);
    f.instance = 2;
    kit_attach_sender(&s, f);
    until_asked(2);
    say_opened(1, 9);
    say_gone(1);
    say_opened(2, 10);
    say_opened(2, 11);
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; !s.pair; assert_true(mn_now_ms() < end)) {
        (void)kit_step(&s);
        hear();
        kit_nap();
    }
    assert_int_equal(s.pair, 10);
    assert_int_equal(s.gone.why, 0);
    say_gone(2);
    kit_until_gone(&s, MN_GONE_PEER);
    assert_int_equal(s.pair, 10);
    assert_string_equal(s.gone.text, "is away");
}

static int set_up(void **state)
{
    unsigned port = 10000 + (unsigned)getpid() % 10000;
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct mn_diag diag;
    int fd;

    (void)state;
    kit_open(port);
    int door = kit_listen(1, 1, port);
    kit_start(1);
    kit_dial(&s, 0, 1);
    /* The line to the next relay is dialled for the first flow that goes there. */
    struct mn_line_attach first = kit_frame(0, 3, 1);
    kit_attach_sender(&s, first);
    while ((fd = accept4(door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) {
        (void)kit_step(&s);
        assert_true(mn_now_ms() < end);
    }
    close(door);
    assert_int_equal(mn_line_accept(&configs[2], 2, fd, &line, &diag), MN_OK);
    until_asked(1);
    kit_let_go(&s);
    memset(&asked, 0, sizeof asked);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mn_line_close(line);
    kit_leave(&s);
    kit_stop(1);
    kit_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_said_of_the_turn_before_opens_and_ends_nothing,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
