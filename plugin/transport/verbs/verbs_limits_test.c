/* What a device has little of runs out while a connection moves data, or a link comes back: both
 * ends in one thread, on the libibverbs double. */
#include <limits.h>

#include "plugin/transport/verbs/recover_kit.h"

/* There is always something to be received: who is called answers. */
static void step(struct kit *kit)
{
    kit->messages = UINT_MAX;
    assert_int_equal(kit_step(kit), MN_OK);
}

static void move_some(struct kit *kit)
{
    for (unsigned until = kit->sent + 50; kit->sent < until;)
        step(kit);
}

static void wait_for(struct kit *kit, const char *words, unsigned count)
{
    while (kit_count(words) < count)
        step(kit);
}

static void finish(struct kit *kit)
{
    assert_int_equal(kit_move(kit, kit->n_recvs > kit->n_sends ? kit->n_recvs : kit->n_sends),
                     MN_OK);
    kit_close(kit);
}

/* The link's new queue pairs find no room, at one end, then at the other; later some: told once an
 * end. */
static void no_queue_pairs_for_a_link_that_comes_back(void **state)
{
    struct kit kit;
    char text[64];

    (void)state;
    kit_open(&kit, 2, 1, 2000, 1);
    move_some(&kit);
    kit_set("link=fv1:down");
    wait_for(&kit, "is given up: ", 2);
    move_some(&kit);
    snprintf(text, sizeof text, "max_qp=%d", 2); /* those of the link that is left */
    kit_set(text);
    kit_set("link=fv1:up");
    wait_for(&kit, "cannot come back: making a queue pair on fv1 (lo): ", 1);
    assert_true(kit_count("Cannot allocate memory") > 0);
    assert_true(kit_count("(see ulimit -l)") > 0);
    for (uint64_t until = mn_now_ms() + 1000; mn_now_ms() < until;)
        move_some(&kit);
    assert_int_equal(kit_count("cannot come back: "), 1); /* the receiver is not asked */
    kit_set("max_qp=4096,fail=modify_qp:2"); /* the sender's goes, the receiver's does not */
    wait_for(&kit, "cannot come back: preparing a queue pair on fv1 ", 1);
    assert_int_equal(kit_count("cannot come back: "), 2);
    wait_for(&kit, "is back after", 2);
    move_some(&kit);
    finish(&kit);
}

/* A registration in the middle of it all: an error that says what to do, and all else goes on. */
static void no_memory_to_be_locked(void **state)
{
    static uint8_t more[1 << 16];
    struct kit kit;
    void *mr = NULL;

    (void)state;
    kit_open(&kit, 2, 1, 2000, 2);
    move_some(&kit);
    kit_set("max_mr=1");
    assert_int_not_equal(mn_transport_verbs.reg_mr(kit.send, more, sizeof more, NCCL_PTR_HOST, &mr),
                         MN_OK);
    assert_true(kit_count("peer b: fv0 cannot register ") > 0);
    assert_true(kit_count("locked memory (RLIMIT_MEMLOCK) is limited to ") > 0);
    kit_set("link=fv1:down");
    wait_for(&kit, "is given up: ", 2);
    move_some(&kit);
    kit_set("link=fv1:up");
    wait_for(&kit, "is back after", 2); /* needs no registration */
    kit_set("max_mr=65536");
    assert_int_equal(mn_transport_verbs.reg_mr(kit.send, more, sizeof more, NCCL_PTR_HOST, &mr),
                     MN_OK);
    mn_transport_verbs.dereg_mr(kit.send, mr);
    move_some(&kit);
    finish(&kit);
}

/* A device that takes no request now: its link goes, comes back, and nothing is lost. */
static void a_request_is_refused(void **state)
{
    static const char *const calls[] = {"post_send", "post_recv"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kit kit;
        char text[64];
        kit_open(&kit, 2, 1, 2000, 3 + i);
        move_some(&kit);
        snprintf(text, sizeof text, "fail=%s:1", calls[i]);
        kit_set(text);
        wait_for(&kit, "is given up: ", 2);
        assert_true(kit_count(": Cannot allocate memory") > 0);
        wait_for(&kit, "is back after", 2);
        move_some(&kit);
        finish(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_queue_pairs_for_a_link_that_comes_back),
        cmocka_unit_test(no_memory_to_be_locked),
        cmocka_unit_test(a_request_is_refused),
    };

    setenv("FAKEVERBS",
           "dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2,dev=fv2:lo:127.0.0.3,timeout=100000000", 1);
    kit_find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
