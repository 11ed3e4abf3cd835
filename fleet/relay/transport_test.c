/* The relay's transport over one way: what is sent comes through whole, in order and once. */
#define NODES 4
#include "fleet/relay/transport_kit.h"

static int set_up(void **state)
{
    (void)state;
    kit_open(18610);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

static void run(int to)
{
    struct flow flow;
    struct stream t;

    for (int i = 1; i < to; i++)
        kit_start(i);
    flow_open(&flow, 0, to);
    stream_begin(&t, &flow, 60, LARGEST);
    stream_all(&t);
    stream_end(&t);
    flow_close(&flow);
    for (int i = 1; i < to; i++)
        kit_stop(i);
}

static void through_one_relay(void **state)
{
    (void)state;
    run(2);
}

static void through_two_relays(void **state)
{
    (void)state;
    run(3);
}

/* The relay goes and comes back while one end's process computes: the other's way opens again
 * without it, and both find what they need when they go on. */
static void an_end_that_calls_nothing_attaches_anew(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct flow flow;
        struct stream t;
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        kit_start(1);
        flow_open(&flow, 0, 2);
        stream_begin(&t, &flow, 40, LARGEST);
        stream_until(&t, 20);
        while (flow_ways(&flow, side)) {
            if (relays[1].relay)
                kit_stop(1);
            flow_progress(&flow, side);
            assert_true(mn_now_ms() < end);
            kit_nap();
        }
        kit_start(1);
        while (!flow_ways(&flow, side)) {
            flow_progress(&flow, side);
            assert_true(mn_now_ms() < end);
            kit_nap();
        }
        stream_all(&t);
        stream_end(&t);
        flow_close(&flow);
        kit_stop(1);
    }
}

/* An outage of long ago does not count towards the bound of the next, although nothing waited while
 * the way came back. */
static void an_outage_that_is_over_is_forgotten(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct flow flow;
    struct stream t;

    (void)state;
    kit_start(1);
    flow_open(&flow, 0, 2);
    stream_begin(&t, &flow, 40, 4096);
    stream_until(&t, 10);
    kit_stop(1);
    while (!inside(&flow, 0)->none_ms && mn_now_ms() < end) {
        stream_receive(&t);
        flow_progress(&flow, 1);
    }
    assert_true(inside(&flow, 0)->none_ms);
    kit_start(1);
    while (!flow_ways(&flow, 0)) {
        flow_progress(&flow, 0);
        flow_progress(&flow, 1);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(inside(&flow, 0)->none_ms, 0);
    stream_all(&t);
    stream_end(&t);
    flow_close(&flow);
    kit_stop(1);
}

/* Of a set-up: 1 when both ends have a way, 0 when a relay has told one of them that it is full. */
static int fits(struct flow *flow)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    flow_begin(flow, 0, 2);
    while (flow->err[0] == MN_ERR_AGAIN || flow->err[1] == MN_ERR_AGAIN) {
        for (int side = 0; side < 2; side++) {
            const struct relay_comm *comm = flow->conn[side]->setup;
            if (flow->err[side] == MN_ERR_AGAIN)
                flow->err[side] = mn_transport_relay.step(flow->conn[side], &flow->diag[side]);
            if (comm->ways[0].why.code)
                return 0;
        }
        assert_true(mn_now_ms() < end);
        kit_nap();
    }
    return 1;
}

static void buffers_that_come_free_are_waited_for(void **state)
{
    struct flow flows[64];
    int n = 0;

    (void)state;
    configs[1].settings.relay_buffers = 8u << 20;
    kit_start(1);
    while (n < 64 && fits(&flows[n]))
        n++;
    assert_in_range(n, 1, 63);
    flow_close(&flows[0]);
    flow_step(&flows[n]);
    for (int side = 0; side < 2; side++)
        if (flows[n].err[side])
            fail_msg("%s", flows[n].diag[side].text);
    for (int i = 1; i <= n; i++)
        flow_close(&flows[i]);
    kit_stop(1);
}

/* Its end is told that the message is there, and that another is asked for, all the same. */
static void a_receiver_that_makes_no_more_calls(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct flow flow;
    struct stream t;

    (void)state;
    kit_start(1);
    flow_open(&flow, 0, 2);
    stream_begin(&t, &flow, 4, 4096);
    for (unsigned round = 1; round <= t.count; round++) {
        t.count = round;
        while (t.received < round && mn_now_ms() < end) {
            stream_receive(&t);
            stream_send(&t);
        }
        while (t.completed < round && mn_now_ms() < end)
            stream_send(&t);
        assert_int_equal(t.completed, round);
        t.count = 4;
        nanosleep(&(struct timespec){0, round * 20000000L}, NULL); /* its thread sleeps by then */
    }
    stream_end(&t);
    flow_close(&flow);
    kit_stop(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(through_one_relay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(through_two_relays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_calls_nothing_attaches_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_outage_that_is_over_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(buffers_that_come_free_are_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_receiver_that_makes_no_more_calls, set_up, tear_down),
    };

    (void)argc;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
