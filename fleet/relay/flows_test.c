#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fleet/relay/flows.h"

#define MANY 5000

static struct mn_flow_key keys[MANY];

static struct mn_flow_key key_of(unsigned number, uint8_t way)
{
    struct mn_flow_key key = {.way = way};

    memcpy(key.flow.id, &number, sizeof number);
    return key;
}

static void what_was_added_is_found_until_it_is_removed(void **state)
{
    static struct mn_flows flows = {.salt = 12345};

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        keys[i] = key_of(i / 4, (uint8_t)(i % 4));
        assert_null(mn_flows_find(&flows, &keys[i].flow, keys[i].way));
        mn_flows_add(&flows, &keys[i]);
    }
    assert_int_equal(flows.count, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_ptr_equal(mn_flows_find(&flows, &keys[i].flow, keys[i].way), &keys[i]);
    for (unsigned i = 0; i < MANY; i += 2)
        mn_flows_remove(&flows, &keys[i]);
    for (unsigned i = 0; i < MANY; i++)
        assert_ptr_equal(mn_flows_find(&flows, &keys[i].flow, keys[i].way),
                         i % 2 ? &keys[i] : NULL);
    assert_int_equal(flows.count, MANY / 2);
}

static void removing_twice_is_removing_once(void **state)
{
    static struct mn_flows flows;
    struct mn_flow_key a = key_of(1, 0), b = key_of(1, 1);

    (void)state;
    mn_flows_add(&flows, &a);
    mn_flows_add(&flows, &b);
    mn_flows_remove(&flows, &a);
    mn_flows_remove(&flows, &a);
    assert_int_equal(flows.count, 1);
    assert_ptr_equal(mn_flows_find(&flows, &b.flow, 1), &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found_until_it_is_removed),
        cmocka_unit_test(removing_twice_is_removing_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
