#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "plugin/plan.h"

static void add(struct mn_side *side, const char *addr, uint8_t nic, long speed)
{
    struct mn_local *l = &side->locals[side->n_locals++];

    l->nic = nic;
    l->speed_mbps = speed;
    assert_int_equal(mn_addr_parse(addr, &l->addr, NULL), MN_OK);
}

static void test_only_the_shared_cable(void **state)
{
    struct mn_side a = {.node_id = 1}, b = {.node_id = 2};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "10.0.1.0/31", 0, 100000);
    add(&a, "10.0.2.1/30", 1, 100000);
    add(&b, "10.0.3.1/24", 0, 100000);
    add(&b, "10.0.1.1/31", 1, 100000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    assert_int_equal(pairs[0].connector, 0);
    assert_int_equal(pairs[0].acceptor, 1);
}

static void test_both_netmasks_count(void **state)
{
    struct mn_side a = {.node_id = 1}, b = {.node_id = 2};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "10.0.0.1/16", 0, 0); /* sees b in its subnet, b does not see a in its own */
    add(&b, "10.0.9.1/24", 0, 0);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 0);
}

static void test_parallel_links_and_one_pair_a_nic(void **state)
{
    struct mn_side a = {.node_id = 1}, b = {.node_id = 2};
    struct mn_pair pairs[MN_MAX_LOCALS];
    struct mn_plan plan;

    (void)state;
    add(&a, "10.0.1.1/24", 0, 100000);
    add(&a, "fd00::1/64", 0, 100000); /* the same cable again */
    add(&a, "10.0.2.1/24", 1, 200000);
    add(&b, "10.0.1.2/24", 0, 100000);
    add(&b, "fd00::2/64", 0, 100000);
    add(&b, "10.0.2.2/24", 1, 200000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 2);
    assert_int_equal(pairs[0].connector, 2); /* fastest first */
    mn_plan_make(&a, &b, pairs[1], &plan);
    assert_int_equal(plan.n_pairs, 2);
    assert_int_equal(plan.pairs[0].connector, pairs[1].connector); /* control first */
    assert_int_equal(plan.pairs[1].connector, 2);
}

static void test_slow_network_beside_the_cables(void **state)
{
    struct mn_side a = {.node_id = 1}, b = {.node_id = 2};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "192.168.0.1/24", 0, 1000);
    add(&a, "10.0.1.1/31", 1, 100000);
    add(&b, "192.168.0.2/24", 0, 1000);
    add(&b, "10.0.1.0/31", 1, 100000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    assert_int_equal(pairs[0].connector, 1);
}

static void test_same_host_uses_equal_addresses(void **state)
{
    struct mn_side a = {.node_id = 1}, b = {.node_id = 1};
    struct mn_pair pairs[MN_MAX_LOCALS];
    struct mn_plan plan;

    (void)state;
    add(&a, "10.0.1.1/24", 0, 0);
    add(&b, "10.0.1.1/24", 0, 0);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    mn_plan_make(&a, &b, pairs[0], &plan);
    assert_int_equal(plan.n_pairs, 1);
    b.node_id = 2; /* equal addresses on two hosts: a container bridge, or a mistake */
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 0);
}

/* Both ends must come to one plan from the same two lists, whatever is in them. */
static void test_both_ends_agree(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        struct mn_side s[2] = {{.node_id = 1}, {.node_id = 2}};
        struct mn_pair pairs[MN_MAX_LOCALS];
        struct mn_plan plan;
        for (int k = 0; k < 2; k++) {
            s[k].sockets_per_link = rand() % 9;
            s[k].n_locals = 1 + rand() % MN_MAX_LOCALS;
            for (int i = 0; i < s[k].n_locals; i++) {
                struct mn_local *l = &s[k].locals[i];
                l->addr = (struct mn_addr){.family = AF_INET,
                                           .prefix = 22 + rand() % 11,
                                           .bytes = {10, 0, (uint8_t)(rand() % 4),
                                                     (uint8_t)(rand() % 8)}};
                l->nic = (uint8_t)(rand() % 4);
                l->speed_mbps = rand() % 3 * 100000;
            }
        }
        int count = mn_pairs_find(&s[0], &s[1], pairs);
        if (!count)
            continue;
        mn_plan_make(&s[0], &s[1], pairs[rand() % count], &plan);
        assert_in_range(plan.n_pairs, 1, MN_MAX_LOCALS);
        assert_in_range(plan.lanes_per_pair, 1, 8);
        for (int i = 0; i < plan.n_pairs; i++)
            for (int j = i + 1; j < plan.n_pairs; j++) {
                assert_int_not_equal(s[0].locals[plan.pairs[i].connector].nic,
                                     s[0].locals[plan.pairs[j].connector].nic);
                assert_int_not_equal(s[1].locals[plan.pairs[i].acceptor].nic,
                                     s[1].locals[plan.pairs[j].acceptor].nic);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_shared_cable),
        cmocka_unit_test(test_both_netmasks_count),
        cmocka_unit_test(test_parallel_links_and_one_pair_a_nic),
        cmocka_unit_test(test_slow_network_beside_the_cables),
        cmocka_unit_test(test_same_host_uses_equal_addresses),
        cmocka_unit_test(test_both_ends_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
