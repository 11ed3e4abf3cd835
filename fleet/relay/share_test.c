#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fleet/relay/share.h"

#define BULK MN_SHARE_QUANTUM

static void nobody_is_next_where_nobody_waits(void **state)
{
    struct mn_share share = {.cap = 8};

    (void)state;
    assert_null(mn_share_next(&share));
}

static void one_alone_has_half_of_the_buffers(void **state)
{
    struct mn_share share = {.cap = 8};
    struct mn_share_turn a = {.next = NULL};
    int sent = 0;

    (void)state;
    mn_share_wait(&share, &a, BULK);
    for (; mn_share_next(&share); sent++)
        mn_share_sent(&share, &a, BULK);
    assert_int_equal(sent, 4);
    mn_share_drained(&share, &a, 1);
    assert_ptr_equal(mn_share_next(&share), &a);
    assert_int_equal(share.used, 3);
}

/* One whose pieces are never drained leaves room; the next has a part of that, and so on. */
static void who_is_stuck_leaves_room_for_others(void **state)
{
    struct mn_share share = {.cap = 8};
    struct mn_share_turn stuck = {.next = NULL}, other = {.next = NULL};

    (void)state;
    mn_share_wait(&share, &stuck, BULK);
    while (mn_share_next(&share))
        mn_share_sent(&share, &stuck, BULK);
    mn_share_wait(&share, &other, BULK);
    for (int i = 0; i < 100; i++) {
        assert_ptr_equal(mn_share_next(&share), &other);
        mn_share_sent(&share, &other, BULK);
        mn_share_drained(&share, &other, 1);
    }
    assert_int_equal(stuck.used, 4);
}

static void one_buffer_may_be_had_in_any_case(void **state)
{
    struct mn_share share = {.cap = 2};
    struct mn_share_turn a = {.next = NULL}, b = {.next = NULL}, c = {.next = NULL};

    (void)state;
    mn_share_wait(&share, &a, BULK);
    mn_share_wait(&share, &b, BULK);
    mn_share_wait(&share, &c, BULK);
    assert_ptr_equal(mn_share_next(&share), &a);
    mn_share_sent(&share, &a, BULK);
    assert_ptr_equal(mn_share_next(&share), &b);
    mn_share_sent(&share, &b, BULK);
    assert_null(mn_share_next(&share));
    mn_share_drained(&share, &a, 1);
    assert_ptr_equal(mn_share_next(&share), &c);
}

/* Pieces of half the size come twice as often. */
static void turns_are_by_bytes(void **state)
{
    struct mn_share share = {.cap = 1000000};
    struct mn_share_turn flows[3] = {{.next = NULL}, {.next = NULL}, {.next = NULL}};
    const uint32_t cost[3] = {BULK, BULK / 2, BULK / 16};
    uint64_t bytes[3] = {0, 0, 0};

    (void)state;
    for (int i = 0; i < 3; i++)
        mn_share_wait(&share, &flows[i], cost[i]);
    for (int i = 0; i < 20000; i++) {
        struct mn_share_turn *next = mn_share_next(&share);
        assert_non_null(next);
        assert_ptr_equal(mn_share_next(&share), next);
        bytes[next - flows] += next->cost;
        mn_share_sent(&share, next, cost[next - flows]);
        mn_share_drained(&share, next, 1);
    }
    for (int i = 1; i < 3; i++) {
        assert_true(bytes[i] < bytes[0] + 4 * BULK);
        assert_true(bytes[i] + 4 * BULK > bytes[0]);
    }
}

static void who_has_nothing_left_is_out_of_the_turns(void **state)
{
    struct mn_share share = {.cap = 8};
    struct mn_share_turn a = {.next = NULL}, b = {.next = NULL};

    (void)state;
    mn_share_wait(&share, &a, 100);
    mn_share_wait(&share, &b, 100);
    mn_share_sent(&share, mn_share_next(&share), 0);
    assert_false(a.queued);
    assert_ptr_equal(mn_share_next(&share), &b);
    mn_share_sent(&share, &b, 0);
    assert_null(mn_share_next(&share));
    assert_int_equal(share.queued, 0);
    mn_share_wait(&share, &a, 100);
    assert_ptr_equal(mn_share_next(&share), &a);
}

static void who_leaves_is_still_counted_until_drained(void **state)
{
    struct mn_share share = {.cap = 2};
    struct mn_share_turn a = {.next = NULL}, b = {.next = NULL}, c = {.next = NULL};

    (void)state;
    mn_share_wait(&share, &a, 100);
    mn_share_wait(&share, &b, 100);
    mn_share_wait(&share, &c, 100);
    mn_share_sent(&share, mn_share_next(&share), 100);
    mn_share_sent(&share, mn_share_next(&share), 100);
    mn_share_leave(&share, &b);
    mn_share_leave(&share, &a);
    assert_null(mn_share_next(&share));
    mn_share_drained(&share, NULL, 1);
    assert_ptr_equal(mn_share_next(&share), &c);
    mn_share_leave(&share, &c);
    assert_null(mn_share_next(&share));
    assert_null(share.last);
}

/* What a relay says of more than there was does no harm. */
static void more_drained_than_sent_is_no_more_than_all(void **state)
{
    struct mn_share share = {.cap = 2};
    struct mn_share_turn a = {.next = NULL};

    (void)state;
    mn_share_wait(&share, &a, 100);
    mn_share_sent(&share, mn_share_next(&share), 100);
    mn_share_drained(&share, &a, 60000);
    assert_int_equal(share.used, 0);
    assert_int_equal(a.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_next_where_nobody_waits),
        cmocka_unit_test(one_alone_has_half_of_the_buffers),
        cmocka_unit_test(who_is_stuck_leaves_room_for_others),
        cmocka_unit_test(one_buffer_may_be_had_in_any_case),
        cmocka_unit_test(turns_are_by_bytes),
        cmocka_unit_test(who_has_nothing_left_is_out_of_the_turns),
        cmocka_unit_test(who_leaves_is_still_counted_until_drained),
        cmocka_unit_test(more_drained_than_sent_is_no_more_than_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
