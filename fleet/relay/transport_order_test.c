/* The relay's transport where much more is posted than can be under way, and the sender goes on
 * only when what it has sent is complete: what it comes to next always finds room. */
#define NODES 4
#define KIT_RING
#include "fleet/relay/transport_kit.h"

#define MOST  (20u << 20)
#define RECVS 60

struct order {
    struct flow flow;
    uint8_t *in, *out;
    void *mh_in, *mh_out;
    struct mn_request *recvs[RECVS];
    int posted, n[RECVS], done[RECVS], sizes[RECVS][RELAY_RECVS];
};

static int set_up(void **state)
{
    (void)state;
    kit_open(18670);
    kit_start(1);
    kit_start(3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit_stop(1);
    kit_stop(3);
    kit_close();
    return 0;
}

/* Between opposite nodes of the ring, both ways open; or between neighbours' neighbours over one.
 */
static void order_open(struct order *o, int ways)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    memset(o, 0, sizeof *o);
    if (ways == 1)
        kit_stop(3);
    flow_open(&o->flow, 0, 2);
    while (flow_ways(&o->flow, 0) < ways || flow_ways(&o->flow, 1) < ways) {
        flow_progress(&o->flow, 0);
        flow_progress(&o->flow, 1);
        assert_true(mn_now_ms() < end);
    }
    o->in = malloc(MOST);
    o->out = malloc(MOST);
    memset(o->out, 0x3c, MOST);
    assert_int_equal(mn_transport_relay.reg_mr(o->flow.comm[0], o->in, MOST, NCCL_PTR_HOST,
                                               &o->mh_in),
                     MN_OK);
    assert_int_equal(mn_transport_relay.reg_mr(o->flow.comm[1], o->out, MOST, NCCL_PTR_HOST,
                                               &o->mh_out),
                     MN_OK);
}

static void order_close(struct order *o)
{
    flow_close(&o->flow);
    free(o->in);
    free(o->out);
}

/* A receive of n messages, tags from 0, each as large as said, all into the same place. */
static void order_post(struct order *o, int n, size_t size)
{
    void *data[RELAY_RECVS], *handles[RELAY_RECVS];
    size_t sizes[RELAY_RECVS];
    int tags[RELAY_RECVS];

    for (int i = 0; i < n; i++) {
        data[i] = o->in;
        handles[i] = o->mh_in;
        sizes[i] = size;
        tags[i] = i;
    }
    o->n[o->posted] = n;
    assert_int_equal(mn_transport_relay.irecv(o->flow.comm[0], n, data, sizes, tags, handles,
                                              &o->recvs[o->posted]),
                     MN_OK);
    assert_non_null(o->recvs[o->posted++]);
}

static void order_test_receives(struct order *o)
{
    for (int i = 0; i < o->posted; i++)
        if (!o->done[i])
            assert_int_equal(mn_transport_relay.test(o->recvs[i], &o->done[i], o->sizes[i]), MN_OK);
}

/* One message, until it is complete. */
static void order_send(struct order *o, int tag, size_t size)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct mn_request *request = NULL;

    for (int done = 0; !done;) {
        if (!request)
            assert_int_equal(mn_transport_relay.isend(o->flow.comm[1], o->out, size, tag, o->mh_out,
                                                      &request),
                             MN_OK);
        else
            assert_int_equal(mn_transport_relay.test(request, &done, NULL), MN_OK);
        order_test_receives(o);
        if (mn_now_ms() > end)
            fail_msg("a message of %zu bytes, tag %d, is not through", size, tag);
    }
}

static void order_finish(struct order *o)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int left = 1; left;) {
        left = 0;
        order_test_receives(o);
        for (int i = 0; i < o->posted; i++)
            left += !o->done[i];
        assert_true(mn_now_ms() < end);
    }
}

/* After one that was short a receive is not asked for as a whole: the rest of the first comes
 * behind the beginnings of all others. */
static void one_after_the_other(void **state)
{
    struct order o;

    (void)state;
    order_open(&o, 2);
    order_post(&o, 1, MOST);
    order_send(&o, 0, 1000);
    for (int i = 0; i < 16; i++)
        order_post(&o, 1, MOST);
    for (int i = 0; i < 16; i++)
        order_send(&o, 0, 4u << 20);
    order_finish(&o);
    assert_int_equal(o.sizes[16][0], 4 << 20);
    order_close(&o);
}

/* The message that is sent first is the last of its receive, behind more than fits. */
static void the_last_of_a_group_first(void **state)
{
    struct order o;

    (void)state;
    order_open(&o, 1);
    order_post(&o, RELAY_RECVS, MOST);
    for (int tag = RELAY_RECVS - 1; tag >= 0; tag--)
        order_send(&o, tag, 3u << 20);
    order_finish(&o);
    for (int i = 0; i < RELAY_RECVS; i++)
        assert_int_equal(o.sizes[0][i], 3 << 20);
    order_close(&o);
}

/* What was asked for over it has to be asked for over the other way, whose places are taken by what
 * comes later. */
static void a_way_goes_and_the_other_is_full(void **state)
{
    static const size_t sizes[] = {100, MN_RELAY_PIECE};

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct order o;
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        order_open(&o, 2);
        for (int i = 0; i < RECVS; i++)
            order_post(&o, 1, sizes[kind]);
        kit_stop(1);
        while (flow_ways(&o.flow, 0) > 1 || flow_ways(&o.flow, 1) > 1) {
            flow_progress(&o.flow, 0);
            flow_progress(&o.flow, 1);
            assert_true(mn_now_ms() < end);
        }
        for (int i = 0; i < RECVS; i++)
            order_send(&o, 0, sizes[kind]);
        order_finish(&o);
        order_close(&o);
        kit_start(1);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_after_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_of_a_group_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_way_goes_and_the_other_is_full, set_up, tear_down),
    };

    (void)argc;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
