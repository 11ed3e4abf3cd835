#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fleet/relay/quota.h"

#define ALL   2048 /* buffers */
#define NODES 3
#define USERS 4

static size_t used[NODES][USERS];

static size_t of_node(int node)
{
    size_t sum = 0;

    for (int user = 0; user < USERS; user++)
        sum += used[node][user];
    return sum;
}

static size_t free_ones(void)
{
    size_t sum = 0;

    for (int node = 0; node < NODES; node++)
        sum += of_node(node);
    assert_in_range(sum, 0, ALL);
    return ALL - sum;
}

static size_t more(int node, int user)
{
    return mn_quota_more(free_ones(), of_node(node), used[node][user]);
}

/* Takes one after the other while he may. */
static size_t takes_all(int node, int user)
{
    while (more(node, user))
        used[node][user]++;
    return used[node][user];
}

static void one_alone_has_seven_tenths(void **state)
{
    (void)state;
    assert_in_range(takes_all(0, 0), ALL * 7 / 10, ALL * 72 / 100);
}

/* Whoever is greedy: the next user has something, and users of other nodes have, too. */
static void the_next_user_has_a_fifth_of_what_the_last_had(void **state)
{
    size_t last = takes_all(0, 0);

    (void)state;
    for (int user = 1; user < USERS; user++) {
        size_t has = takes_all(0, user);
        assert_in_range(has, last / 5 - 2, last);
        last = has;
    }
}

static void a_node_leaves_a_ninth_to_others(void **state)
{
    size_t last = ALL;

    (void)state;
    for (int node = 0; node < NODES; node++) {
        /* Who may name users as he likes names a new one for each. */
        while (mn_quota_more(free_ones(), of_node(node), 0))
            used[node][0]++;
        assert_in_range(free_ones(), last / 9, ALL);
        last = free_ones();
    }
}

/* Nobody has to give back what he has when others come, and may have nothing more then. */
static void who_has_too_much_has_no_more(void **state)
{
    (void)state;
    assert_int_equal(mn_quota_more(0, 0, 0), 0);
    assert_int_equal(mn_quota_more(10, 2000, 0), 0);
    assert_int_equal(mn_quota_more(1000, 3500, 3500), 0);
    assert_int_equal(mn_quota_more(0, ALL, ALL), 0);
}

static int set_up(void **state)
{
    (void)state;
    for (int node = 0; node < NODES; node++)
        for (int user = 0; user < USERS; user++)
            used[node][user] = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_alone_has_seven_tenths, set_up),
        cmocka_unit_test_setup(the_next_user_has_a_fifth_of_what_the_last_had, set_up),
        cmocka_unit_test_setup(a_node_leaves_a_ninth_to_others, set_up),
        cmocka_unit_test_setup(who_has_too_much_has_no_more, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
