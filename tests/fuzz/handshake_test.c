/* What the fuzzer of the handshake begins with is what this version sends, and leads it on. */
#include "tests/fuzz/corpus_kit.h"

#include "tests/fuzz/fuzz_handshake.c"

enum { ACCEPTOR, CONNECTOR };

static uint8_t role(int connector, enum mn_conn_state state)
{
    return (uint8_t)(connector | (int)(state - MN_CONN_HELLO) << 1);
}

/* The same with a transport that has a SETUP. */
static uint8_t with(int connector, enum mn_conn_state state)
{
    return (uint8_t)(2 * STATES + role(connector, state));
}

struct frames {
    uint8_t bytes[2 + MN_FRAME_MAX];
    size_t len;
};

/* What a connection sends once it was put into a state by put and has got frames (NULL: none). */
static void sent(uint8_t of, enum mn_err (*put)(struct mn_conn *), const struct frames *got,
                 struct frames *out)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct mn_conn *conn = conn_new(of, pair[0]);
    if (put)
        assert_int_equal(put(conn), MN_OK);
    if (got)
        assert_int_equal(write(pair[1], got->bytes + 2, got->len - 2), got->len - 2);
    assert_int_equal(mn_conn_step(conn, NULL), MN_ERR_AGAIN);
    ssize_t n = read(pair[1], out->bytes + 2, sizeof out->bytes - 2);
    assert_true(n > 0);
    out->len = 2 + (size_t)n;
    mn_conn_close(conn);
    close(pair[1]);
}

static enum mn_err say_hello(struct mn_conn *conn)
{
    conn->state = MN_CONN_CONNECT;
    return MN_OK;
}

static enum mn_err say_lanes(struct mn_conn *conn)
{
    static const uint8_t first_of_two[8] = {1};

    return mn_chan_put(&conn->chan, MN_FRAME_LANES, first_of_two, sizeof first_of_two);
}

static enum mn_err say_return(struct mn_conn *conn)
{
    uint8_t frame[MN_RETURN_SIZE];

    memset(conn->session, 0xa5, sizeof conn->session);
    struct mn_reopen *reopen = mn_reopen_new(conn, 1);
    mn_return_write(reopen, 1, 1, frame);
    mn_reopen_free(reopen);
    return mn_chan_put(&conn->chan, MN_FRAME_RETURN, frame, sizeof frame);
}

/* What no connection is made to say. */
static void said(enum mn_frame type, const void *payload, size_t len, struct frames *out)
{
    struct mn_chan chan;

    mn_chan_init(&chan, -1);
    assert_int_equal(mn_chan_put(&chan, type, payload, len), MN_OK);
    memcpy(out->bytes + 2, chan.tx, chan.tx_len);
    out->len = 2 + chan.tx_len;
}

/* What a connector sends by its first lane, without the frame around it. */
static void sent_by_lane(struct frames *out)
{
    int control[2], lane[2];
    uint8_t frame[8 + MN_LANE_SIZE];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, control), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, lane), 0);
    struct mn_conn *conn = conn_new(role(CONNECTOR, MN_CONN_LANES), control[0]);
    conn->lanes_agreed = 0;
    conn->lane_chans[1] = calloc(1, sizeof *conn->lane_chans[1]);
    assert_non_null(conn->lane_chans[1]);
    mn_chan_init(conn->lane_chans[1], lane[0]);
    assert_int_equal(mn_conn_step(conn, NULL), MN_ERR_AGAIN);
    assert_int_equal(read(lane[1], frame, sizeof frame), sizeof frame);
    memcpy(out->bytes, frame + 8, MN_LANE_SIZE);
    out->len = MN_LANE_SIZE;
    mn_conn_close(conn);
    close(control[1]);
    close(lane[1]);
}

/* The file is these frames for who has that role; another version's is an error. */
static void is_current(const char *name, uint8_t to, struct frames *f, enum mn_conn_state leads_to)
{
    f->bytes[0] = to;
    f->bytes[1] = 0xff;
    corpus_is_current("handshake", name, f->bytes, f->len);
    assert_int_equal(handshake(f->bytes, f->len), leads_to);
}

static void links_and_lanes_are_of_this_version(void **state)
{
    struct mn_mesh_digest own = config.mesh.digest;
    struct frames links, answer, lanes, ready;

    (void)state;
    sent(role(CONNECTOR, MN_CONN_LINKS), mn_conn_send_links, NULL, &links);
    is_current("links-same", role(ACCEPTOR, MN_CONN_LINKS), &links, MN_CONN_PLAN);
    links.len = 6;
    is_current("lost", (uint8_t)(4 * STATES + role(ACCEPTOR, MN_CONN_LINKS)), &links,
               MN_CONN_LINKS);
    config.mesh.digest.hash++;
    config.mesh.digest.items[1].value++;
    sent(role(CONNECTOR, MN_CONN_LINKS), mn_conn_send_links, NULL, &links);
    config.mesh.digest = own;
    is_current("links-a", role(ACCEPTOR, MN_CONN_LINKS), &links, MN_CONN_PLAN);
    config.mesh.digest = (struct mn_mesh_digest){.hash = 0};
    sent(role(ACCEPTOR, MN_CONN_LINKS), NULL, &links, &answer);
    config.mesh.digest = own;
    /* The PLAN behind it is of another mixture: this connector has sent no LINKS. */
    is_current("links-c", role(CONNECTOR, MN_CONN_LINKS), &answer, MN_CONN_PLAN);
    sent(role(CONNECTOR, MN_CONN_LANES), say_lanes, NULL, &lanes);
    is_current("lanes", role(ACCEPTOR, MN_CONN_LANES), &lanes, MN_CONN_READY);
    sent(role(ACCEPTOR, MN_CONN_LANES), mn_conn_send_ready, NULL, &ready);
    is_current("ready", role(CONNECTOR, MN_CONN_LANES), &ready, MN_CONN_READY);
    sent(with(ACCEPTOR, MN_CONN_LANES), mn_conn_send_ready, NULL, &ready);
    is_current("ready-door", with(CONNECTOR, MN_CONN_LANES), &ready, MN_CONN_READY);
}

static void greetings_are_of_this_version(void **state)
{
    struct frames hello, answer, proof;

    (void)state;
    sent(role(CONNECTOR, MN_CONN_HELLO), say_hello, NULL, &hello);
    is_current("hello", role(ACCEPTOR, MN_CONN_HELLO), &hello, MN_CONN_PROOF);
    sent(role(ACCEPTOR, MN_CONN_HELLO), NULL, &hello, &answer);
    is_current("hello-c", role(CONNECTOR, MN_CONN_HELLO), &answer, MN_CONN_PROOF);
    hello.bytes[10]++;
    is_current("hello-version", role(ACCEPTOR, MN_CONN_HELLO), &hello, MN_CONN_HELLO);
    sent(role(CONNECTOR, MN_CONN_HELLO), NULL, &answer, &proof);
    is_current("proof", role(ACCEPTOR, MN_CONN_PROOF), &proof, MN_CONN_LINKS);
    sent(role(ACCEPTOR, MN_CONN_PROOF), NULL, &proof, &answer);
    is_current("proof-c", role(CONNECTOR, MN_CONN_PROOF), &answer, MN_CONN_LINKS);
    answer.bytes[10]++;
    is_current("proof-wrong", role(CONNECTOR, MN_CONN_PROOF), &answer, MN_CONN_PROOF);
}

static void plans_and_setups_are_of_this_version(void **state)
{
    static const uint8_t done[] = {SETUP_DONE}, waits[] = {SETUP_WAITS}, fails[] = {SETUP_FAILS},
                         no[] = "\1no";
    struct frames plan, setup, error;

    (void)state;
    for (int c = 0; c < 2; c++) {
        sent(role(!c, MN_CONN_PLAN), mn_conn_send_plan, NULL, &plan);
        is_current(c ? "plan-c" : "plan", role(c, MN_CONN_PLAN), &plan, MN_CONN_LANES);
        is_current(c ? "plan-setup-c" : "plan-setup", with(c, MN_CONN_PLAN), &plan, MN_CONN_SETUP);
        said(MN_FRAME_SETUP, done, sizeof done, &setup);
        is_current(c ? "setup-c" : "setup", with(c, MN_CONN_SETUP), &setup, MN_CONN_LANES);
    }
    said(MN_FRAME_SETUP, waits, sizeof waits, &setup);
    is_current("setup-ends", with(ACCEPTOR, MN_CONN_SETUP), &setup, MN_CONN_SETUP);
    said(MN_FRAME_ERROR, no, sizeof no - 1, &error);
    memcpy(setup.bytes + setup.len, error.bytes + 2, error.len - 2);
    setup.len += error.len - 2;
    is_current("setup-refused", with(CONNECTOR, MN_CONN_SETUP), &setup, MN_CONN_SETUP);
    is_current("refused", role(CONNECTOR, MN_CONN_LINKS), &error, MN_CONN_LINKS);
    said(MN_FRAME_SETUP, fails, sizeof fails, &setup);
    is_current("setup-fails", with(ACCEPTOR, MN_CONN_SETUP), &setup, MN_CONN_SETUP);
}

/* By other ways than the control connection. */
static void who_joins_or_returns_is_of_this_version(void **state)
{
    struct frames lane, back;
    int pair[2];

    (void)state;
    sent_by_lane(&lane);
    is_current("lane", role(ACCEPTOR, MN_CONN_LANES), &lane, MN_CONN_LANES);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct mn_conn *conn = conn_new(lane.bytes[0], pair[0]);
    assert_true(attach(conn, lane.bytes, lane.len));
    mn_conn_close(conn);
    close(pair[1]);
    lane.bytes[10]++;
    is_current("lane-wrong", role(ACCEPTOR, MN_CONN_LANES), &lane, MN_CONN_LANES);
    sent(role(CONNECTOR, MN_CONN_LANES), say_return, NULL, &back);
    is_current("return", role(ACCEPTOR, MN_CONN_LANES), &back, MN_CONN_LANES);
    assert_true(knock(back.bytes, back.len));
}

/* Of the first address; the plan multiplies speeds. */
static void a_speed_that_no_link_has_is_refused(void **state)
{
    static const uint8_t address[] = {127, 9, 0, 1}, speed[] = {0xff, 0xff, 0xff, 0xff};
    struct frames links;

    (void)state;
    sent(role(CONNECTOR, MN_CONN_LINKS), mn_conn_send_links, NULL, &links);
    links.bytes[0] = role(ACCEPTOR, MN_CONN_LINKS);
    links.bytes[1] = 0xff;
    uint8_t *at = memmem(links.bytes, links.len, address, sizeof address);
    assert_non_null(at);
    assert_int_equal(handshake(links.bytes, links.len), MN_CONN_PLAN);
    memcpy(at + 19, speed, sizeof speed);
    assert_int_equal(handshake(links.bytes, links.len), MN_CONN_LINKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_speed_that_no_link_has_is_refused),
        cmocka_unit_test(greetings_are_of_this_version),
        cmocka_unit_test(links_and_lanes_are_of_this_version),
        cmocka_unit_test(plans_and_setups_are_of_this_version),
        cmocka_unit_test(who_joins_or_returns_is_of_this_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
