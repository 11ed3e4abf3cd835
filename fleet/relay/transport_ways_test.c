/* The relay's transport over two ways of a ring: relays and ends that go. */
#define NODES 6
#define KIT_RING
#include "fleet/relay/transport_kit.h"

static int set_up(void **state)
{
    (void)state;
    kit_open(18620);
    for (int i = 0; i < NODES; i++) {
        configs[i].settings.silence_ms = 3000;
        kit_start(i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        kit_stop(i);
    kit_close();
    return 0;
}

static void open_both_ways(struct flow *flow)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    flow_open(flow, 0, 3);
    while (flow_ways(flow, 0) < 2 || flow_ways(flow, 1) < 2) {
        flow_progress(flow, 0);
        flow_progress(flow, 1);
        assert_true(mn_now_ms() < end);
    }
}

static void both_ways_carry(void **state)
{
    struct flow flow;
    struct stream t;

    (void)state;
    open_both_ways(&flow);
    stream_begin(&t, &flow, 60, LARGEST);
    stream_all(&t);
    for (int i = 0; i < 2; i++)
        assert_true(inside(&flow, 1)->ways[i].pieces > 20);
    stream_end(&t);
    flow_close(&flow);
}

/* Each relay in turn, in the middle of a stream; it comes back, and is used again. */
static void a_relay_that_goes_costs_nothing(void **state)
{
    static const int relays_in_turn[] = {1, 2, 5, 4};
    struct flow flow;
    struct stream t;

    (void)state;
    open_both_ways(&flow);
    stream_begin(&t, &flow, 200, LARGEST);
    for (int i = 0; i < 4; i++) {
        stream_until(&t, t.received + 15);
        kit_stop(relays_in_turn[i]);
        stream_until(&t, t.received + 15);
        assert_int_equal(flow_ways(&flow, 1), 1);
        kit_start(relays_in_turn[i]);
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        while (flow_ways(&flow, 0) < 2 || flow_ways(&flow, 1) < 2) {
            flow_progress(&flow, 0);
            flow_progress(&flow, 1);
            assert_true(mn_now_ms() < end);
        }
    }
    stream_all(&t);
    stream_end(&t);
    flow_close(&flow);
}

static void without_a_way_they_wait(void **state)
{
    struct flow flow;
    struct stream t;

    (void)state;
    open_both_ways(&flow);
    configs[0].settings.silence_ms = configs[3].settings.silence_ms = 10 * PATIENCE_MS;
    stream_begin(&t, &flow, 60, LARGEST);
    stream_until(&t, 10);
    kit_stop(1);
    kit_stop(4);
    for (int i = 0; i < 300 || flow_ways(&flow, 1); i++) {
        stream_receive(&t);
        stream_send(&t);
    }
    kit_start(1);
    kit_start(4);
    stream_all(&t);
    stream_end(&t);
    flow_close(&flow);
}

static void without_a_way_for_long_they_fail(void **state)
{
    struct flow flow;
    struct stream t;

    (void)state;
    open_both_ways(&flow);
    stream_begin(&t, &flow, 1000, LARGEST);
    stream_until(&t, 10);
    kit_stop(1);
    kit_stop(5);
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (!t.err[0] || !t.err[1]) {
        stream_receive(&t);
        stream_send(&t);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(t.err[0], MN_ERR_LINK_DEAD);
    assert_int_equal(t.err[1], MN_ERR_LINK_DEAD);
    stream_end(&t);
    flow_close(&flow);
}

static enum mn_err take_no_memory(struct mn_comm *comm, void *data, size_t size, int type,
                                  void **mhandle)
{
    (void)comm, (void)data, (void)size, (void)type, (void)mhandle;
    return MN_ERR_NOMEM;
}

/* As a device that is at its limit, or knows nothing of GPUs. */
static void make_unfit(struct flow *flow, int side, int way, struct mn_transport *ops)
{
    struct mn_comm *hop = inside(flow, side)->ways[way].hops[MN_RELAY_BULK].comm;

    *ops = *hop->ops;
    ops->reg_mr = take_no_memory;
    hop->ops = ops;
}

static void a_way_that_does_not_take_memory_is_left_to_others(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct mn_transport ops;
        struct flow flow;
        struct stream t;
        open_both_ways(&flow);
        make_unfit(&flow, side, 0, &ops);
        stream_begin(&t, &flow, 30, LARGEST);
        stream_all(&t);
        assert_int_equal(flow_ways(&flow, side), 1);
        assert_int_equal(inside(&flow, side)->ways[0].pieces, 0);
        /* The other end asks for it no more, whichever of the two words it hears first. */
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        while (inside(&flow, 0)->ways[0].state != RELAY_IS_REFUSED ||
               inside(&flow, 1)->ways[0].state != RELAY_IS_REFUSED) {
            flow_progress(&flow, 0);
            flow_progress(&flow, 1);
            assert_true(mn_now_ms() < end);
        }
        stream_end(&t);
        flow_close(&flow);
    }
}

static void memory_that_no_way_takes_is_refused(void **state)
{
    struct mn_transport ops[2];
    struct flow flow;
    struct stream t;
    char byte;
    void *mh;

    (void)state;
    open_both_ways(&flow);
    stream_begin(&t, &flow, 30, LARGEST);
    for (int i = 0; i < 2; i++)
        make_unfit(&flow, 1, i, &ops[i]);
    assert_int_equal(mn_transport_relay.reg_mr(flow.comm[1], &byte, 1, NCCL_PTR_HOST, &mh),
                     MN_ERR_NOMEM);
    stream_all(&t);
    assert_int_equal(flow_ways(&flow, 1), 2);
    stream_end(&t);
    flow_close(&flow);
}

static void close_side(struct flow *flow, int side)
{
    mn_transport_relay.close(flow->comm[side]);
    flow->comm[side] = NULL;
    flow->conn[side]->setup = NULL;
}

static void a_peer_that_ends_is_told_at_once(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct flow flow;
        struct stream t;
        open_both_ways(&flow);
        configs[0].settings.silence_ms = configs[3].settings.silence_ms = 10 * PATIENCE_MS;
        stream_begin(&t, &flow, 1000, LARGEST);
        stream_until(&t, 10);
        for (int i = 0; i < WINDOW; i++)
            assert_int_equal(mn_transport_relay.dereg_mr(flow.comm[side],
                                                         side ? t.mh_out[i] : t.mh_in[i]),
                             MN_OK);
        close_side(&flow, side);
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        while (!t.err[!side]) {
            if (side)
                stream_receive(&t);
            else
                stream_send(&t);
            assert_true(mn_now_ms() < end);
        }
        assert_int_equal(t.err[!side], MN_ERR_PEER_DEAD);
        stream_end(&t);
        flow_close(&flow);
    }
}

static void what_was_sent_before_the_end_is_received(void **state)
{
    struct flow flow;
    struct stream t;

    (void)state;
    open_both_ways(&flow);
    stream_begin(&t, &flow, WINDOW, 300000);
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (t.completed < WINDOW) { /* it is received, but not looked at by its owner */
        unsigned received = t.received;
        if (t.posted < WINDOW)
            stream_receive(&t);
        assert_int_equal(received, t.received);
        flow_progress(&flow, 0);
        if (t.posted == WINDOW)
            stream_send(&t);
        assert_true(mn_now_ms() < end);
    }
    for (int i = 0; i < WINDOW; i++)
        assert_int_equal(mn_transport_relay.dereg_mr(flow.comm[1], t.mh_out[i]), MN_OK);
    close_side(&flow, 1);
    while (t.received < WINDOW && !t.err[0]) {
        stream_receive(&t);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(t.err[0], MN_OK);
    stream_end(&t);
    flow_close(&flow);
}

/* Ends the line that the receiver's words go over. */
static void cut_talk(struct flow *flow)
{
    struct relay_comm *comm = inside(flow, 0);

    assert_int_not_equal(comm->talk_way, -1);
    shutdown(mn_line_fd(comm->ways[comm->talk_way].line), SHUT_RDWR);
}

/* Cuts before the receiver has said that the last message has come, and nobody looks at that. */
static void receive_all_and_cut(struct flow *flow, struct stream *t, void (*cut)(struct flow *flow))
{
    int done = 0;

    open_both_ways(flow);
    stream_begin(t, flow, 20, LARGEST);
    stream_until(t, 19);
    while (t->sent < t->count) {
        stream_send(t);
        if (t->posted < t->count)
            stream_receive(t);
    }
    while (!done) {
        /* The flow's idle thread says nothing while busy is held. */
        struct relay_comm *comm = inside(flow, 0);
        pthread_mutex_lock(&comm->busy);
        assert_int_equal(relay_progress(comm), MN_OK);
        done = !((struct relay_group *)t->recvs[19 % WINDOW])->left;
        if (done)
            cut(flow);
        pthread_mutex_unlock(&comm->busy);
    }
    stream_check(t, 19, (int)stream_size(t, 19));
    for (int i = 0; i < WINDOW; i++)
        assert_int_equal(mn_transport_relay.dereg_mr(flow->comm[0], t->mh_in[i]), MN_OK);
}

static void all_is_sent(struct flow *flow, struct stream *t)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (t->completed < t->count) {
        stream_send(t);
        assert_int_equal(t->err[1], MN_OK);
        assert_true(mn_now_ms() < end);
    }
    stream_end(t);
    flow_close(flow);
}

/* That all is received is said when the relay that would pass it on is gone. */
static void a_receiver_that_closes_says_it_over_every_way(void **state)
{
    struct flow flow;
    struct stream t;

    (void)state;
    receive_all_and_cut(&flow, &t, cut_talk);
    close_side(&flow, 0);
    all_is_sent(&flow, &t);
}

static void *close_receiver(void *flow)
{
    close_side(flow, 0);
    return NULL;
}

static void stop_all(struct flow *flow)
{
    struct relay_comm *comm = inside(flow, 0);

    kit_stop(2);
    kit_stop(4);
    while (relay_ways_open(comm))
        assert_int_equal(relay_progress(comm), MN_OK);
}

/* ... and when all are, for which it waits. */
static void a_receiver_that_closes_waits_for_a_way_to_say_it(void **state)
{
    pthread_t closing;
    struct flow flow;
    struct stream t;

    (void)state;
    configs[0].settings.silence_ms = configs[3].settings.silence_ms = PATIENCE_MS;
    receive_all_and_cut(&flow, &t, stop_all);
    assert_int_equal(pthread_create(&closing, NULL, close_receiver, &flow), 0);
    kit_start(2);
    kit_start(4);
    while (t.completed < t.count && !t.err[1])
        stream_send(&t);
    assert_int_equal(t.err[1], MN_OK);
    pthread_join(closing, NULL);
    all_is_sent(&flow, &t);
}

static void without_a_relay_there_is_no_flow(void **state)
{
    struct flow flow;

    (void)state;
    kit_stop(1);
    kit_stop(5);
    flow_begin(&flow, 0, 3);
    while (flow.err[1] == MN_ERR_AGAIN)
        flow.err[1] = mn_transport_relay.step(flow.conn[1], &flow.diag[1]);
    assert_int_equal(flow.err[1], MN_ERR_LINK_DEAD);
    assert_non_null(strstr(flow.diag[1].text, "n1 (127."));
    assert_non_null(strstr(flow.diag[1].text, "relayd does not run"));
    flow_close(&flow);
}

static void groups_take_their_sends_in_any_order(void **state)
{
    static uint8_t in[8][400000], out[8][400000];
    struct flow flow;
    void *mh_in[8], *mh_out[8], *data[8];
    size_t sizes[8];
    int tags[8], got[8], done = 0;
    struct mn_request *recv = NULL;

    (void)state;
    open_both_ways(&flow);
    for (int i = 0; i < 8; i++) {
        memset(out[i], i + 1, sizeof out[i]);
        data[i] = in[i];
        sizes[i] = sizeof in[i];
        tags[i] = 100 + i;
        assert_int_equal(mn_transport_relay.reg_mr(flow.comm[0], in[i], sizeof in[i], NCCL_PTR_HOST,
                                                   &mh_in[i]),
                         MN_OK);
        assert_int_equal(mn_transport_relay.reg_mr(flow.comm[1], out[i], sizeof out[i],
                                                   NCCL_PTR_HOST, &mh_out[i]),
                         MN_OK);
    }
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (!recv)
        assert_int_equal(mn_transport_relay.irecv(flow.comm[0], 8, data, sizes, tags, mh_in, &recv),
                         MN_OK);
    for (int i = 7; i >= 0; i--) { /* each is waited for before the next is sent */
        struct mn_request *send = NULL;
        size_t size = sizeof out[i] - (size_t)i * 50000;
        for (int sent = 0; !sent; assert_true(mn_now_ms() < end)) {
            if (!send)
                assert_int_equal(mn_transport_relay.isend(flow.comm[1], out[i], size, tags[i],
                                                          mh_out[i], &send),
                                 MN_OK);
            if (send)
                assert_int_equal(mn_transport_relay.test(send, &sent, NULL), MN_OK);
            assert_false(done);
            if (i)
                flow_progress(&flow, 0);
            else
                assert_int_equal(mn_transport_relay.test(recv, &done, got), MN_OK);
            if (done)
                break;
        }
    }
    while (!done)
        assert_int_equal(mn_transport_relay.test(recv, &done, got), MN_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(got[i], (int)(sizeof out[i] - (size_t)i * 50000));
        assert_memory_equal(in[i], out[i], (size_t)got[i]);
        assert_int_equal(in[i][sizeof in[i] - 1], i ? 0 : 1);
    }
    flow_close(&flow);
}

static void a_message_that_is_too_long_fails_both(void **state)
{
    struct flow flow;
    struct stream t;
    struct mn_request *recv = NULL, *send = NULL;
    size_t size = 1000;
    int tag = 5, done = 0;
    enum mn_err err[2] = {MN_OK, MN_OK};

    (void)state;
    open_both_ways(&flow);
    stream_begin(&t, &flow, 1, 5000);
    void *data = t.in[0];
    assert_int_equal(mn_transport_relay.irecv(flow.comm[0], 1, &data, &size, &tag, t.mh_in, &recv),
                     MN_OK);
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (!err[0] || !err[1]) {
        if (!err[1])
            err[1] =
                mn_transport_relay.isend(flow.comm[1], t.out[0], 1001, tag, t.mh_out[0], &send);
        if (!err[0])
            err[0] = mn_transport_relay.test(recv, &done, NULL);
        assert_false(done);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(err[0], MN_ERR_TOO_LONG);
    assert_int_equal(err[1], MN_ERR_TOO_LONG);
    stream_end(&t);
    flow_close(&flow);
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(both_ways_carry),
        CASE(a_relay_that_goes_costs_nothing),
        CASE(without_a_way_they_wait),
        CASE(without_a_way_for_long_they_fail),
        CASE(a_way_that_does_not_take_memory_is_left_to_others),
        CASE(memory_that_no_way_takes_is_refused),
        CASE(a_peer_that_ends_is_told_at_once),
        CASE(what_was_sent_before_the_end_is_received),
        CASE(a_receiver_that_closes_says_it_over_every_way),
        CASE(a_receiver_that_closes_waits_for_a_way_to_say_it),
        CASE(without_a_relay_there_is_no_flow),
        CASE(groups_take_their_sends_in_any_order),
        CASE(a_message_that_is_too_long_fails_both),
    };

    (void)argc;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
