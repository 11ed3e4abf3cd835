/* What the settings make of a device's patience. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "plugin/patience.h"

static struct mn_patience patience(unsigned silence_s, int timeout, int retries)
{
    struct mn_settings s;

    mn_settings_default(&s);
    s.rdma_silence_ms = silence_s * 1000;
    s.ack_timeout = timeout;
    s.ack_retries = retries;
    return mn_patience(&s);
}

static void the_timeout_follows_rdma_silence(void **state)
{
    (void)state;
    for (unsigned silence_s = 2; silence_s <= 120; silence_s++)
        for (int retries = 2; retries <= 7; retries++) {
            struct mn_patience p = patience(silence_s, 0, retries);
            assert_int_equal(p.retries, retries);
            assert_true(p.timeout >= 14 && p.timeout <= 22);
            assert_true(p.ms * 1.25 <= silence_s * 1000);
            if (p.is_short)
                assert_int_equal(p.timeout, 22);
            else
                assert_true((p.ms + 1) * 2.5 > silence_s * 1000);
        }
    assert_int_equal(patience(40, 0, -1).retries, MN_ACK_RETRIES);
    assert_int_equal(patience(40, 0, -1).timeout, 20);
    assert_int_equal(patience(40, 0, -1).ms, 30064);
    assert_false(patience(40, 0, -1).is_short);
}

static void few_retries_are_made_up_for_as_far_as_timeouts_go(void **state)
{
    (void)state;
    assert_int_equal(patience(40, 0, 0).timeout, 22);
    assert_false(patience(40, 0, 0).is_short);
    assert_true(patience(60, 0, 0).is_short);
    assert_int_equal(patience(60, 0, 0).ms, 17179);
    assert_false(patience(60, 0, 1).is_short);
    assert_true(patience(120, 0, 1).is_short);
}

static void a_timeout_that_is_set_counts(void **state)
{
    (void)state;
    assert_int_equal(patience(40, 18, 5).timeout, 18);
    assert_int_equal(patience(40, 18, 5).ms, 6442);
    assert_true(patience(40, 18, 5).is_short);
    assert_false(patience(6, 18, 5).is_short);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeout_follows_rdma_silence),
        cmocka_unit_test(few_retries_are_made_up_for_as_far_as_timeouts_go),
        cmocka_unit_test(a_timeout_that_is_set_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
