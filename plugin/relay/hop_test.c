/* What a hop carries, over TCP and over RDMA, and what of it is left when it is closed. */
#include "plugin/relay/hop_ends.h"

#include <dlfcn.h>

#include "plugin/relay/frame.h"

static void (*set_double)(const char *settings);

static void find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, "fakeverbs_set") : NULL;

    memcpy(&set_double, &symbol, sizeof set_double);
}

static void a_hop_carries_bytes(void **state)
{
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};

    (void)state;
    join(&receiver, &sender);
    assert_true(sender.comm->is_send && !receiver.comm->is_send);
    assert_int_equal(sender.comm->ops->kind, here.settings.transport);
    carry(&receiver, &sender);
    carry(&receiver, &sender);
    mn_hop_close(sender.hop);
    mn_hop_close(receiver.hop);
}

static void a_hop_carries_bytes_over_rdma(void **state)
{
    if (!set_double)
        skip();
    a_hop_carries_bytes(state);
}

static void a_comm_outlives_the_config_it_was_made_from(void **state)
{
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};
    struct mn_comm *comm;

    (void)state;
    join(&receiver, &sender);
    memset(&here, 0xee, sizeof here);
    memset(&there, 0xee, sizeof there);
    assert_int_equal(mn_hop_step(receiver.hop, &comm, NULL), MN_OK); /* stays so */
    assert_ptr_equal(comm, receiver.comm);
    carry(&receiver, &sender);
    mn_hop_close(receiver.hop);
    mn_hop_close(sender.hop);
}

/* A cable that is out, of an address that is on no host (RFC 5737), beside a slower one that is in.
 */
static void only_what_is_here_is_offered(void **state)
{
    struct mn_device *devices[] = {here.devices, there.devices};
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mn_local *out = &devices[i]->locals[0], *in = &devices[i]->locals[1];
        *in = *out;
        in->nic = 1;
        assert_int_equal(mn_addr_parse("127.0.0.1/8", &in->addr, NULL), MN_OK);
        assert_int_equal(mn_addr_parse("198.51.100.1/24", &out->addr, NULL), MN_OK);
        strcpy(out->netdev, "none");
        out->speed_mbps = 100000;
        devices[i]->n_locals = 2;
    }
    join(&receiver, &sender);
    carry(&receiver, &sender);
    mn_hop_close(receiver.hop);
    mn_hop_close(sender.hop);
}

/* They share what they work with, and nothing else. */
static void hops_of_one_line_are_independent_of_each_other(void **state)
{
    struct end receivers[3] = {{.hop = NULL}}, senders[3] = {{.hop = NULL}};
    int before = descriptors();

    (void)state;
    for (int i = 0; i < 3; i++)
        join(&receivers[i], &senders[i]);
    carry(&receivers[1], &senders[1]);
    mn_hop_close(receivers[1].hop);
    mn_hop_close(senders[1].hop);
    carry(&receivers[0], &senders[0]);
    mn_hop_close(receivers[0].hop);
    mn_hop_close(senders[0].hop);
    carry(&receivers[2], &senders[2]);
    mn_hop_close(receivers[2].hop);
    mn_hop_close(senders[2].hop);
    until_descriptors(before);
}

/* What was posted ends with it, at the end that stays. */
static void an_end_that_closes_is_seen_by_the_other(void **state)
{
    static uint8_t in[20000];

    (void)state;
    for (int sender_stays = 0; sender_stays < 2; sender_stays++) {
        struct end receiver = {.hop = NULL}, sender = {.hop = NULL};
        join(&receiver, &sender);
        struct end *stays = sender_stays ? &sender : &receiver;
        const struct mn_transport *ops = stays->comm->ops;
        struct mn_request *request = NULL;
        void *data = in, *mh;
        size_t size = sizeof in;
        int tag = 1, done = 0;
        enum mn_err err = ops->reg_mr(stays->comm, in, sizeof in, NCCL_PTR_HOST, &mh);
        assert_int_equal(err, MN_OK);
        if (sender_stays)
            err = ops->isend(stays->comm, in, 20000, tag, mh, &request);
        else
            err = ops->irecv(stays->comm, 1, &data, &size, &tag, &mh, &request);
        assert_true(!err && request);
        mn_hop_close(sender_stays ? receiver.hop : sender.hop);
        for (uint64_t end = mn_now_ms() + PATIENCE_MS; !err; assert_true(mn_now_ms() < end)) {
            err = ops->test(request, &done, NULL);
            assert_false(done);
        }
        assert_int_equal(err, MN_ERR_PEER_DEAD);
        assert_int_equal(ops->test(request, &done, NULL), err); /* stays so */
        mn_hop_close(stays->hop);
    }
}

/* Nobody looks again at what has nothing posted any more: what ends with an empty payload, right
 * behind large ones, is acknowledged all the same. */
static void what_was_received_last_is_acknowledged_at_once(void **state)
{
    enum { PIECE = 100000, N = 4 };
    static uint8_t out[PIECE], in[PIECE], heads[N][MN_HEAD_SIZE], heard[N][MN_HEAD_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};
    struct mn_request *received[N / 2], *sent[N];
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD}, done = 0;

    (void)state;
    join(&receiver, &sender);
    const struct mn_transport *ops = sender.comm->ops;
    for (int i = 0; i < N / 2; i++) {
        void *data[2] = {heard[i], in}, *none[2] = {NULL, NULL};
        size_t sizes[2] = {MN_HEAD_SIZE, PIECE};
        assert_int_equal(ops->irecv(receiver.comm, 2, data, sizes, tags, none, &received[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        size_t size = i % 2 ? (i == 1 ? PIECE : 0) : MN_HEAD_SIZE;
        assert_int_equal(ops->isend(sender.comm, i % 2 ? out : heads[i], size, tags[i % 2], NULL,
                                    &sent[i]),
                         MN_OK);
        assert_non_null(sent[i]);
    }
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* all of it is there */
    for (int i = 0; i < N / 2; i++, done = 0)
        while (!done) {
            assert_int_equal(ops->test(received[i], &done, NULL), MN_OK);
            assert_true(mn_now_ms() < end);
        }
    for (int i = 0; i < N; i++, done = 0)
        while (!done) {
            assert_int_equal(ops->test(sent[i], &done, NULL), MN_OK);
            assert_true(mn_now_ms() < end);
        }
    mn_hop_close(sender.hop);
    mn_hop_close(receiver.hop);
}

/* In one of the steps a thread asks for the neighbour's address: its end is not waited for. */
static void a_hop_that_a_thread_works_for_is_closed_at_once(void **state)
{
    (void)state;
    if (!set_double)
        skip();
    int before = descriptors();
    set_double("drop_rtr=400");
    for (int steps = 0; steps < 60; steps++) {
        uint8_t handle[MN_HANDLE_SIZE];
        struct mn_comm *comm;
        struct mn_hop *listens, *dials;
        assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &listens, NULL),
                         MN_OK);
        assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &dials, NULL), MN_OK);
        for (int i = 0; i < steps; i++) {
            (void)mn_hop_step(dials, &comm, NULL);
            (void)mn_hop_step(listens, &comm, NULL);
        }
        mn_hop_close(dials);
        mn_hop_close(listens);
    }
    set_double("drop_rtr=0");
    until_descriptors(before);
    a_hop_carries_bytes(state);
}

static void a_hop_is_closed_in_any_state(void **state)
{
    int before = descriptors();

    (void)state;
    for (int steps = 0; steps < 40; steps++) {
        uint8_t handle[MN_HANDLE_SIZE];
        struct mn_comm *comm;
        struct mn_hop *listens, *dials;
        assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &listens, NULL),
                         MN_OK);
        assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &dials, NULL), MN_OK);
        for (int i = 0; i < steps; i++) {
            (void)mn_hop_step(dials, &comm, NULL);
            (void)mn_hop_step(listens, &comm, NULL);
        }
        mn_hop_close(steps & 1 ? listens : dials);
        mn_hop_close(steps & 1 ? dials : listens);
    }
    mn_hop_close(NULL);
    until_descriptors(before);
    a_hop_carries_bytes(state); /* the next one is as the first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_hop_carries_bytes, set_up),
        cmocka_unit_test_setup(a_hop_carries_bytes_over_rdma, set_up_rdma),
        cmocka_unit_test_setup(a_comm_outlives_the_config_it_was_made_from, set_up),
        cmocka_unit_test_setup(only_what_is_here_is_offered, set_up),
        cmocka_unit_test_setup(hops_of_one_line_are_independent_of_each_other, set_up),
        cmocka_unit_test_setup(an_end_that_closes_is_seen_by_the_other, set_up),
        cmocka_unit_test_setup(what_was_received_last_is_acknowledged_at_once, set_up),
        cmocka_unit_test_setup(a_hop_that_a_thread_works_for_is_closed_at_once, set_up_rdma),
        cmocka_unit_test_setup(a_hop_is_closed_in_any_state, set_up),
    };

    find_double();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->quit();
    mn_hop_quit();
    return failed;
}
