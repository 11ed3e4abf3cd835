/* Hops between two nodes of one process, over TCP on loopback and over RDMA where the libibverbs
 * double is, which ctest puts before the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/relay/hop.h"
#include "topo/base/alloc.h"

#define PATIENCE_MS 20000

static const uint8_t key[MN_KEY_SIZE] = "of the line", other_key[MN_KEY_SIZE] = "of another";

/* Loopback is a cable of processes of one node, from an address to itself. */
static void make(struct mn_config *config, const char *name)
{
    memset(config, 0, sizeof *config);
    mn_settings_default(&config->settings);
    config->settings.allow_tcp = MN_TCP_ALLOWED;
    config->settings.transport = MN_TRANSPORT_TCP;
    config->settings.connect_ms = 1500;
    config->settings.handshake_ms = 1000;
    mn_strlcpy(config->node, name, sizeof config->node);
    config->node_id = 1;
    config->pointers = NCCL_PTR_HOST;
    config->n_devices = 1;
    strcpy(config->devices[0].name, "mesh");
    struct mn_local *local = &config->devices[0].locals[0];
    assert_int_equal(mn_addr_parse("127.9.0.1/24", &local->addr, NULL), MN_OK);
    strcpy(local->netdev, "lo");
    local->ifindex = if_nametoindex("lo");
    local->rdma_port = 1;
    local->gid_index = -1;
    local->speed_mbps = 1000;
    config->devices[0].n_locals = 1;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

struct end {
    struct mn_hop *hop;
    struct mn_comm *comm;
    enum mn_err err;
    struct mn_diag diag;
};

static void step(struct end *e)
{
    if (e->hop && e->err == MN_ERR_AGAIN)
        e->err = mn_hop_step(e->hop, &e->comm, &e->diag);
}

static void until_both_know(struct end *a, struct end *b)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    a->err = b->err = MN_ERR_AGAIN;
    for (; (a->hop && a->err == MN_ERR_AGAIN) || (b->hop && b->err == MN_ERR_AGAIN); nap()) {
        step(a);
        step(b);
        assert_true(mn_now_ms() < end);
    }
}

static struct mn_config here, there;
static void (*set_double)(const char *settings);

static void find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, "fakeverbs_set") : NULL;

    memcpy(&set_double, &symbol, sizeof set_double);
}

static int set_up(void **state)
{
    (void)state;
    make(&here, "node-a");
    make(&there, "node-b");
    return 0;
}

/* The double's device is at 127.0.0.1. */
static int set_up_rdma(void **state)
{
    (void)set_up(state);
    here.settings.transport = there.settings.transport = MN_TRANSPORT_VERBS;
    here.devices[0].locals[0].addr.bytes[1] = there.devices[0].locals[0].addr.bytes[1] = 0;
    return 0;
}

static void join(struct end *receiver, struct end *sender)
{
    uint8_t handle[MN_HANDLE_SIZE];

    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver->hop,
                                   &receiver->diag),
                     MN_OK);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender->hop,
                                 &sender->diag),
                     MN_OK);
    until_both_know(receiver, sender);
    if (receiver->err || sender->err)
        fail_msg("%s; %s", receiver->diag.text, sender->diag.text);
}

static void advance(struct mn_request **request, int *size)
{
    int done = 0;

    if (*request)
        assert_int_equal((*request)->comm->ops->test(*request, &done, size), MN_OK);
    if (done)
        *request = NULL;
}

static void a_hop_carries_bytes(void **state)
{
    static uint8_t out[300000], in[300000];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};
    struct mn_request *recv = NULL, *send = NULL;
    void *data = in, *handles[2];
    size_t size = sizeof in;
    int tag = 7, got = 0, sent = 0;

    (void)state;
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (uint8_t)(i * 31);
    join(&receiver, &sender);
    assert_true(sender.comm->is_send && !receiver.comm->is_send);
    assert_int_equal(receiver.comm->ops->reg_mr(receiver.comm, in, sizeof in, NCCL_PTR_HOST,
                                                &handles[0]),
                     0);
    assert_int_equal(sender.comm->ops->reg_mr(sender.comm, out, sizeof out, NCCL_PTR_HOST,
                                              &handles[1]),
                     0);
    assert_int_equal(receiver.comm->ops->irecv(receiver.comm, 1, &data, &size, &tag, &handles[0],
                                               &recv),
                     0);
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; recv || send || !sent;
         assert_true(mn_now_ms() < end)) {
        if (!sent)
            assert_int_equal(sender.comm->ops->isend(sender.comm, out, sizeof out, tag, handles[1],
                                                     &send),
                             0);
        sent |= send != NULL;
        advance(&send, NULL);
        advance(&recv, &got);
    }
    assert_int_equal(got, sizeof out);
    assert_memory_equal(in, out, sizeof out);
    assert_int_equal(receiver.comm->ops->dereg_mr(receiver.comm, handles[0]), 0);
    assert_int_equal(sender.comm->ops->dereg_mr(sender.comm, handles[1]), 0);
    mn_hop_close(sender.hop);
    mn_hop_close(receiver.hop);
}

static void a_hop_carries_bytes_over_rdma(void **state)
{
    if (!set_double)
        skip();
    a_hop_carries_bytes(state);
}

/* In one of the steps a thread asks for the neighbour's address: its end is not waited for. */
static void a_hop_that_a_thread_works_for_is_closed_at_once(void **state)
{
    (void)state;
    if (!set_double)
        skip();
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
    mn_hop_close(receiver.hop);
    mn_hop_close(sender.hop);
}

static void who_has_another_lines_key_is_refused(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};

    (void)state;
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], other_key, handle, &sender.hop,
                                 &sender.diag),
                     MN_ERR_PROTO);
    assert_null(sender.hop);
    handle[40] ^= 1; /* and an address that nobody signed */
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender.hop, NULL),
                     MN_ERR_PROTO);
    mn_hop_close(receiver.hop);
}

static void nobody_comes_is_an_end(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};

    (void)state;
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    until_both_know(&receiver, &sender);
    assert_int_equal(receiver.err, MN_ERR_TIMEOUT);
    assert_non_null(strstr(receiver.diag.text, "no neighbour came"));
    assert_int_equal(mn_hop_step(receiver.hop, &receiver.comm, NULL), MN_ERR_TIMEOUT);
    mn_hop_close(receiver.hop);
}

static void nobody_listens_is_an_end(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};

    (void)state;
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    mn_hop_close(receiver.hop);
    receiver.hop = NULL;
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender.hop, &sender.diag),
                     MN_OK);
    until_both_know(&receiver, &sender);
    assert_int_equal(sender.err, MN_ERR_PEER_DEAD);
    assert_non_null(strstr(sender.diag.text, "127.9."));
    mn_hop_close(sender.hop);
}

/* The other end listens and does not come to accept: bounded at both. */
static void who_does_not_accept_is_an_end(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL}, nobody = {.hop = NULL};

    (void)state;
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender.hop, &sender.diag),
                     MN_OK);
    until_both_know(&nobody, &sender);
    assert_true(sender.err != MN_OK);
    mn_hop_close(receiver.hop);
    mn_hop_close(sender.hop);
}

/* Over cables alone, whatever the config allows. */
static void who_shares_no_cable_is_refused(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL}, nobody = {.hop = NULL};

    (void)state;
    here.far[0] = here.devices[0].locals[0];
    here.n_far = 1;
    here.devices[0].locals[0].addr.bytes[2] = 1; /* 127.9.1.1 */
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender.hop, &sender.diag),
                     MN_OK);
    until_both_know(&nobody, &sender);
    assert_int_equal(sender.err, MN_ERR_CONFIG);
    mn_hop_close(receiver.hop);
    mn_hop_close(sender.hop);
}

static void a_hop_is_closed_in_any_state(void **state)
{
    (void)state;
    for (int steps = 0; steps < 12; steps++) {
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_hop_carries_bytes, set_up),
        cmocka_unit_test_setup(a_hop_carries_bytes_over_rdma, set_up_rdma),
        cmocka_unit_test_setup(a_hop_that_a_thread_works_for_is_closed_at_once, set_up_rdma),
        cmocka_unit_test_setup(a_comm_outlives_the_config_it_was_made_from, set_up),
        cmocka_unit_test_setup(who_has_another_lines_key_is_refused, set_up),
        cmocka_unit_test_setup(nobody_comes_is_an_end, set_up),
        cmocka_unit_test_setup(nobody_listens_is_an_end, set_up),
        cmocka_unit_test_setup(who_does_not_accept_is_an_end, set_up),
        cmocka_unit_test_setup(who_shares_no_cable_is_refused, set_up),
        cmocka_unit_test_setup(a_hop_is_closed_in_any_state, set_up),
    };

    find_double();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->quit();
    mn_hop_quit();
    return failed;
}
