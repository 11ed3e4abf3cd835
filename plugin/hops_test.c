/* How far packets get, as the kernel tells it without privilege. Nodes that forward, refuse and
 * drop: tests/far.bats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>

#include "plugin/hops.h"
#include "plugin/towards.h"

static void what_is_here_has_arrived_at_the_first_hop(void **state)
{
    static const char *const texts[] = {"127.0.0.1", "::1"};
    struct mn_hop hops[MN_HOPS_MAX];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mn_addr to, none = {.family = 0};
        int known = 0;
        assert_int_equal(mn_addr_parse(texts[i], &to, NULL), MN_OK);
        assert_int_equal(mn_hops_heard(&to, hops), 0);
        for (int tries = 0; tries < 50 && !known; tries++) {
            mn_hops_ask(&to, &none, 1);
            known = mn_hops_heard(&to, hops);
            if (!known)
                (void)poll(NULL, 0, 100);
        }
        mn_hops_rest(&to);
        if (i && !known)
            continue; /* a host without IPv6 */
        assert_int_equal(known, 1);
        assert_int_equal(hops[0].kind, MN_HOP_ARRIVED);
        assert_true(mn_addr_equal(&hops[0].at, &to));
        assert_int_equal(mn_hops_heard(&to, hops), 1);
    }
}

static void more_ways_than_are_kept_do_no_harm(void **state)
{
    struct mn_addr to, none = {.family = 0};
    struct mn_hop hops[MN_HOPS_MAX];

    (void)state;
    assert_int_equal(mn_addr_parse("127.1.0.0", &to, NULL), MN_OK);
    for (int i = 0; i < 100; i++) {
        to.bytes[3] = (uint8_t)(i + 1);
        mn_hops_ask(&to, &none, 1);
    }
    assert_int_equal(mn_hops_heard(&to, hops), 1);
    for (int i = 0; i < 100; i++) {
        to.bytes[3] = (uint8_t)(i + 1);
        mn_hops_rest(&to);
    }
}

static void an_own_address_is_no_way(void **state)
{
    struct mn_addr to;
    struct mn_towards way;

    (void)state;
    assert_int_equal(mn_addr_parse("127.0.0.1", &to, NULL), MN_OK);
    assert_int_equal(mn_towards(&to, &way), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_here_has_arrived_at_the_first_hop),
        cmocka_unit_test(more_ways_than_are_kept_do_no_harm),
        cmocka_unit_test(an_own_address_is_no_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
