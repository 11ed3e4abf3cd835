#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <math.h>
#include <cmocka.h>

#include "bench/repeat.h"

/* How many repetitions of so many seconds, values taken in turn, and what they say. */
static struct mn_spread play(struct mn_repeat_plan plan, const double *values, size_t n,
                             double seconds)
{
    struct mn_repeat r = {.plan = plan};

    for (size_t i = 0; mn_repeat_wants_more(&r); i++)
        mn_repeat_add(&r, values[i % n], seconds);
    struct mn_spread spread = mn_repeat_spread(&r);
    mn_repeat_free(&r);
    return spread;
}

static void how_often(void **state)
{
    static const double even[] = {1}, odd[] = {1, 1.2}, wild[] = {1, 9};
    struct mn_repeat_plan plan = {.duration_ms = 1000, .most_ms = 4000, .precision = 5};

    (void)state;
    assert_true(mn_repeat_each(&plan) == 0.1);
    /* Exact values: as many as are always wanted. */
    assert_int_equal(play(plan, even, 1, 0.125).repetitions, 10);
    /* Shorter than planned: until the duration is over. */
    assert_int_equal(play(plan, even, 1, 0.0625).repetitions, 16);
    /* +-10 % in turn: at 10 the interval is 6.8 %, at 17 just above 5, at 18 below. */
    struct mn_spread spread = play(plan, odd, 2, 0.125);
    assert_in_range(spread.repetitions, 16, 18);
    assert_true(spread.ci95 <= 5);
    /* Never precise enough: ends with the time. */
    spread = play(plan, wild, 2, 0.125);
    assert_int_equal(spread.repetitions, 32);
    assert_true(spread.ci95 > 5);
    /* A repetition that takes more than all the time is the only one. */
    spread = play(plan, even, 1, 9);
    assert_int_equal(spread.repetitions, 1);
    assert_true(isnan(spread.ci95));
    assert_true(spread.median == 1);
    /* Nearly no time: there is a limit. */
    assert_int_equal(play(plan, even, 1, 1e-9).repetitions, MN_REPEAT_MOST);
}

static void outliers_are_counted_and_stay(void **state)
{
    static const double values[] = {1, 1.01, 1.02, 0.99, 0.98, 1, 1.01, 1, 0.99, 3};
    struct mn_repeat r = {.plan = {.duration_ms = 10}};

    (void)state;
    for (int i = 0; i < 10; i++)
        mn_repeat_add(&r, values[i], 1);
    struct mn_spread spread = mn_repeat_spread(&r);
    mn_repeat_free(&r);
    assert_int_equal(spread.outliers, 1);
    assert_int_equal(spread.repetitions, 10);
    assert_true(fabs(spread.median - 1) < 1e-6);
    /* mean 1.2, deviation 0.6326, t of 9 degrees 2.262: without the 3 it would be below 1 % */
    assert_true(fabs(spread.ci95 - 37.7) < 0.1);
}

static void steadiness(void **state)
{
    (void)state;
    assert_true(mn_repeat_is_steady(1, 1.09));
    assert_true(mn_repeat_is_steady(1.09, 1));
    assert_false(mn_repeat_is_steady(1, 1.2));
    assert_false(mn_repeat_is_steady(1.2, 1));
    assert_false(mn_repeat_is_steady(0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_often),
        cmocka_unit_test(outliers_are_counted_and_stay),
        cmocka_unit_test(steadiness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
