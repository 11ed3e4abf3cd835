/* Hops that come to nothing: nobody comes, listens, answers or may, each within its time. */
#include "plugin/relay/hop_ends.h"

/* Its handle is for one: whoever else has it is not let in. */
static void a_listener_makes_one_comm(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL}, second = {.hop = NULL};

    (void)state;
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender.hop, &sender.diag),
                     MN_OK);
    until_both_know(&receiver, &sender);
    assert_true(!receiver.err && !sender.err);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &second.hop, &second.diag),
                     MN_OK);
    second.err = MN_ERR_AGAIN;
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; second.err == MN_ERR_AGAIN; nap()) {
        step(&second);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(second.err, MN_ERR_PEER_DEAD);
    carry(&receiver, &sender);
    mn_hop_close(second.hop);
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

/* The dialer leaves out the time in which nobody called, and has not given up when the hop does. */
static void who_was_refused_says_so_though_nobody_called(void **state)
{
    uint8_t handle[MN_HANDLE_SIZE];
    struct end receiver = {.hop = NULL}, sender = {.hop = NULL};

    (void)state;
    there.settings.connect_ms = there.settings.handshake_ms = 1000;
    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver.hop,
                                   &receiver.diag),
                     MN_OK);
    mn_hop_close(receiver.hop);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender.hop, &sender.diag),
                     MN_OK);
    sender.err = MN_ERR_AGAIN;
    for (int i = 0; i < 20; i++, nap())
        step(&sender);
    assert_int_equal(sender.err, MN_ERR_AGAIN);
    nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 200000000}, NULL);
    step(&sender);
    assert_int_equal(sender.err, MN_ERR_PEER_DEAD);
    assert_non_null(strstr(sender.diag.text, "connection refused"));
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
    assert_int_equal(sender.err, MN_ERR_TIMEOUT);
    assert_non_null(strstr(sender.diag.text, "was not accepted within"));
    assert_null(sender.comm);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_listener_makes_one_comm, set_up),
        cmocka_unit_test_setup(who_has_another_lines_key_is_refused, set_up),
        cmocka_unit_test_setup(nobody_comes_is_an_end, set_up),
        cmocka_unit_test_setup(nobody_listens_is_an_end, set_up),
        cmocka_unit_test_setup(who_was_refused_says_so_though_nobody_called, set_up),
        cmocka_unit_test_setup(who_does_not_accept_is_an_end, set_up),
        cmocka_unit_test_setup(who_shares_no_cable_is_refused, set_up),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->quit();
    mn_hop_quit();
    return failed;
}
