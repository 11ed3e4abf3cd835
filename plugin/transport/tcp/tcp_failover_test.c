/* Sockets that break under load: all that was sent arrives once, whatever breaks, and they come
 * back; what is said of it on the control sockets. */
#include "plugin/transport/tcp/tcp_failover_kit.h"

/* Of the data sockets one stays, and the control socket: all others may go at a time. */
static void break_at_random(struct ends *e)
{
    struct tcp_comm *comm = draw() % 2 ? sender(e) : receiver(e);
    int n = 0;

    for (int i = 0; i < comm->n_lanes; i++)
        n += !sender(e)->lanes[i].off && !receiver(e)->lanes[i].off;
    if (n > 1)
        break_socket(&comm->lanes[draw() % (unsigned)comm->n_lanes]);
}

static void all_arrives_though_sockets_break(void **state)
{
    struct ends e;

    (void)state;
    seed = 4711;
    open_ends(&e, 0);
    be_patient(&e);
    for (int i = 0; i < 40; i++) {
        pass_until(&e, e.n_received + draw() % 30);
        if (draw() % 3)
            send_one(&e);
        break_at_random(&e);
    }
    pass_until(&e, e.n_sent);
    assert_true(sum_of(sender(&e)).gone > 0);
    assert_true(sum_of(sender(&e)).again > 0);
    close_ends(&e);
}

static void each_socket_may_break_and_comes_back(void **state)
{
    struct ends e;

    (void)state;
    seed = 99;
    open_ends(&e, 0);
    int all = sender(&e)->n_all;
    for (int i = 0; i < 2 * all; i++) {
        struct tcp_comm *comm = i < all ? sender(&e) : receiver(&e);
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        sender(&e)->failover->links[0].back_ms = 0; /* not for flapping */
        pass_until(&e, e.n_received + 5);
        break_socket(&comm->lanes[i % all]);
        do {
            pass_until(&e, e.n_received + 1);
            assert_true(mn_now_ms() < end);
        } while (sum_of(sender(&e)).back <= (unsigned)i);
        while (lanes_up(sender(&e)) < all || lanes_up(receiver(&e)) < all) {
            pass_until(&e, e.n_received + 1);
            assert_true(mn_now_ms() < end);
        }
    }
    assert_int_equal(sum_of(sender(&e)).gone, 2 * all);
    close_ends(&e);
}

/* What recovery itself moved is looked at before its owner sleeps. */
static void who_is_fenced_does_not_go_to_sleep(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    seed = 77;
    open_ends(&e, 0);
    pass_until(&e, 20);
    post_one(&e);
    struct tcp_lane *lane = &receiver(&e)->lanes[1];
    tcp_give_up(sender(&e), &sender(&e)->lanes[1], mn_now_ms(), "the test");
    assert_int_equal(tcp_control(sender(&e)), 0);
    while (lane->state != TCP_DOWN) {
        enum mn_err err = tcp_arm(&receiver(&e)->base);
        assert_int_equal(err, lane->state == TCP_DOWN ? MN_ERR_AGAIN : err);
        assert_true(err == MN_OK || err == MN_ERR_AGAIN);
        assert_true(mn_now_ms() < end);
    }
    close_ends(&e);
}

/* Their numbers wrap; without a fault nothing is taken for recovery. */
static void many_messages_are_no_recovery(void **state)
{
    const uint32_t far = (1u << 31) - 16;
    struct ends e;

    (void)state;
    seed = 5;
    open_ends(&e, 0);
    struct tcp_comm *s = sender(&e), *r = receiver(&e);
    s->seq_next = s->seq_acked = s->seq_header = s->seq_take = far;
    r->seq_known = r->seq_unmatched = r->seq_landed = far;
    for (uint32_t n = 8; n <= 40; n += 8) {
        pass_until(&e, n);
        assert_false(tcp_is_recovering(r));
    }
    assert_true((int32_t)r->seq_known < 0);
    close_ends(&e);
}

/* What was said on the old one may not have been heard. */
static void a_new_control_socket_hears_it_all_again(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    seed = 6;
    open_ends(&e, 0);
    pass_until(&e, 20);
    struct tcp_comm *s = sender(&e), *r = receiver(&e);
    struct tcp_lane *control = &r->lanes[r->n_lanes];
    r->lanes[1].asked = 1; /* and said, on a socket that loses it */
    tcp_give_up(s, &s->lanes[s->n_lanes], mn_now_ms(), "the test");
    while (!mn_reopen_is_done(control->reopen)) {
        assert_int_equal(tcp_look(s), 0);
        nap();
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(control->state, TCP_UP);
    assert_int_equal(tcp_take_back(r, control), 0);
    assert_ptr_equal(r->failover->control, control);
    assert_true(r->lanes[1].say & TCP_SAY_REQUEST);
    while (!s->lanes[1].turn) {
        pass_until(&e, e.n_received + 1);
        assert_true(mn_now_ms() < end);
    }
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

/* One of two sockets is back, and goes again: it is not dialled at once for ever. */
static void a_socket_that_does_not_hold_waits_longer(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    seed = 8;
    open_ends(&e, 0);
    pass_until(&e, 20);
    struct tcp_comm *s = sender(&e);
    struct tcp_link *link = &s->failover->links[0];
    struct mn_reopen *way_back = s->lanes[2].reopen;
    s->lanes[2].reopen = NULL; /* it stays away */
    tcp_give_up(s, &s->lanes[1], mn_now_ms(), "the test");
    tcp_give_up(s, &s->lanes[2], mn_now_ms(), "the test");
    unsigned hold = link->hold_ms;
    while (s->lanes[1].state != TCP_UP) {
        pass_until(&e, e.n_received + 1);
        assert_true(mn_now_ms() < end);
    }
    assert_true(link->gone);
    nap();
    while (mn_now_ms() == link->up_ms)
        nap();
    tcp_give_up(s, &s->lanes[1], mn_now_ms(), "the test");
    assert_int_equal(link->hold_ms, 2 * hold);
    assert_true(link->fell_ms > link->gone_ms);
    s->lanes[2].reopen = way_back;
    while (link->gone) {
        pass_until(&e, e.n_received + 1);
        assert_true(mn_now_ms() < end);
    }
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

/* Half a frame on a control socket: the next are said on another, the rest of it follows all the
 * same. */
static void half_a_control_frame_is_finished(void **state)
{
    struct ends e;

    (void)state;
    seed = 9;
    open_ends(&e, 0);
    pass_until(&e, 20);
    struct tcp_comm *s = sender(&e);
    struct tcp_lane *control = &s->lanes[s->n_lanes];
    control->tx_frame = (struct tcp_frame){.magic = TCP_MAGIC, .type = TCP_JOIN, .tag = 0};
    assert_int_equal(send(control->fd, &control->tx_frame, 20, MSG_NOSIGNAL), 20);
    control->tx_header_left = TCP_FRAME_SIZE - 20;
    s->failover->control = NULL;
    assert_int_equal(tcp_control(s), 0);
    assert_int_equal(control->tx_header_left, 0);
    s->failover->control = control;
    pass_until(&e, e.n_sent + 5);
    assert_int_equal(atomic_load(&receiver(&e)->error), 0);
    close_ends(&e);
}

/* No socket for data is left, and the peer's process calls nothing for longer than a link may be
 * silent: its host answers all the while. */
static void who_calls_nothing_is_not_dead(void **state)
{
    struct ends e;

    (void)state;
    seed = 31;
    open_ends(&e, 0);
    pass_until(&e, 20);
    while (!e.out[e.n_sent % SLOTS])
        send_one(&e);
    for (int i = 0; i < sender(&e)->n_lanes; i++)
        break_socket(&sender(&e)->lanes[i]);
    uint64_t end = mn_now_ms() + 2 * (uint64_t)sender(&e)->silence_ms;
    while (mn_now_ms() < end) {
        assert_int_equal(tcp_look(sender(&e)), 0);
        test_sends(&e);
        nap();
    }
    assert_int_equal(lanes_up(sender(&e)), sender(&e)->n_all - sender(&e)->n_lanes);
    assert_true(sender(&e)->failover->n_waiting > 0);
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

static void a_thread_that_sends_goes_on_too(void **state)
{
    struct ends e;

    (void)state;
    seed = 17;
    open_ends(&e, 1);
    for (int i = 0; i < 10; i++) {
        pass_until(&e, e.n_received + 20);
        break_socket(&receiver(&e)->lanes[i % (receiver(&e)->n_lanes - 1)]);
    }
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

/* A process that has ended is not taken for a socket that broke. */
static void the_end_of_the_peer_is_told(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;
    int err = 0;

    (void)state;
    seed = 3;
    open_ends(&e, 0);
    pass_until(&e, 20);
    post_one(&e);
    assert_int_equal(mn_net_close_send(e.send), 0);
    while (!err) {
        int done = 0;
        err = mn_net_test(e.in[e.n_received % SLOTS], &done, NULL);
        assert_false(done);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(atomic_load(&receiver(&e)->error), MN_ERR_PEER_DEAD);
    assert_int_equal(sum_of(receiver(&e)).gone, 0);
    assert_int_equal(mn_net_close_recv(e.recv), 0);
    free_ends(&e);
}

/* Control frames are nobody's word: each of these ends the connection, and touches nothing. */
static void bad_control_frames_are_refused(void **state)
{
    static const struct tcp_frame bad[] = {
        {.magic = 1, .type = TCP_SYNC},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .seq = 1000},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .size = 1},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .offset = 100000},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .tag = 77},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .tag = -2},
        {.magic = TCP_MAGIC, .type = TCP_ANSWER},
        {.magic = TCP_MAGIC, .type = TCP_FIRST},
        {.magic = TCP_MAGIC, .type = 99},
        {.magic = TCP_MAGIC, .type = TCP_JOIN, .zero = 1},
        {.magic = TCP_MAGIC, .type = TCP_JOIN, .flags = 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        struct ends e;
        int err = 0;
        open_ends(&e, 0);
        assert_int_equal(send(sender(&e)->lanes[sender(&e)->n_lanes].fd, &bad[i], sizeof *bad, 0),
                         sizeof *bad);
        post_one(&e);
        while (!err) {
            int done = 0;
            err = mn_net_test(e.in[0], &done, NULL);
            assert_true(mn_now_ms() < end);
        }
        assert_int_equal(atomic_load(&receiver(&e)->error), MN_ERR_PROTO);
        close_ends(&e);
    }
}

static uint32_t pick(void)
{
    static const uint32_t some[] = {0,   1,   2,    3,     5,          127,
                                    128, 129, 4096, 65536, UINT32_MAX, 1u << 31};

    return draw() % 4 ? some[draw() % (sizeof some / sizeof *some)] : draw();
}

/* A frame, or a part of one, of nobody, to either end. */
static void say_something(struct ends *e)
{
    struct tcp_comm *comm = draw() % 2 ? sender(e) : receiver(e);
    const struct tcp_lane *lane = &comm->lanes[draw() % (unsigned)comm->n_all];
    struct tcp_frame frame = {
        .magic = draw() % 50 ? TCP_MAGIC : draw(),
        .type = (uint8_t)(draw() % (TCP_JOIN + 2)),
        .flags = draw() % 4 ? 0 : (uint8_t)draw(),
        .zero = draw() % 50 ? 0 : 1,
        .seq = draw() % 2 ? receiver(e)->seq_known : pick(),
        .tag = draw() % 2 ? (int32_t)(draw() % 6) : (int32_t)pick(),
        .size = pick(),
        .offset = pick(),
        .length = pick(),
        .spare = pick(),
    };

    if (lane->fd >= 0)
        (void)send(lane->fd, &frame, draw() % 8 ? sizeof frame : draw() % sizeof frame,
                   MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Whatever it makes of it, each end goes on or fails, and writes to no buffer beyond its size. */
static void frames_of_nobody_do_no_harm(void **state)
{
    (void)state;
    for (uint32_t round = 1; round <= 150; round++) {
        struct ends e;
        int err = 0;
        seed = round * 2654435761u;
        open_ends(&e, 0);
        for (int i = 0; i < 200 && !err; i++) {
            void *request = NULL;
            int done = 0;
            if (draw() % 4 == 0)
                say_something(&e);
            if (i % 8 == 0 && i / 8 < SLOTS) {
                void *data = e.to + (size_t)(i / 8) * (MOST + CANARY);
                size_t size = MOST;
                int tag = (int)(draw() % 3) + 4;
                memset(e.to + (size_t)(i / 8) * (MOST + CANARY) + MOST, 0xaa, CANARY);
                err |= mn_net_irecv(e.recv, 1, &data, &size, &tag, &e.recv_mr, &e.in[i / 8]);
                err |= mn_net_isend(e.send, e.from, size_of(draw()), 5, e.send_mr, &request);
            }
            if (e.in[0] && !err)
                err |= mn_net_test(e.in[0], &done, NULL);
            e.in[0] = done ? NULL : e.in[0];
            if (request && !err)
                err |= mn_net_test(request, &done, NULL);
            (void)tcp_idle(sender(&e));
            (void)tcp_idle(receiver(&e));
        }
        for (int i = 0; i < SLOTS; i++)
            for (int k = 0; e.in[i] && k < CANARY; k++)
                assert_int_equal(e.to[(size_t)i * (MOST + CANARY) + MOST + (size_t)k], 0xaa);
        close_ends(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives_though_sockets_break),
        cmocka_unit_test(each_socket_may_break_and_comes_back),
        cmocka_unit_test(who_is_fenced_does_not_go_to_sleep),
        cmocka_unit_test(many_messages_are_no_recovery),
        cmocka_unit_test(a_new_control_socket_hears_it_all_again),
        cmocka_unit_test(a_socket_that_does_not_hold_waits_longer),
        cmocka_unit_test(half_a_control_frame_is_finished),
        cmocka_unit_test(who_calls_nothing_is_not_dead),
        cmocka_unit_test(a_thread_that_sends_goes_on_too),
        cmocka_unit_test(the_end_of_the_peer_is_told),
        cmocka_unit_test(bad_control_frames_are_refused),
        cmocka_unit_test(frames_of_nobody_do_no_harm),
    };

    use_loopback();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
