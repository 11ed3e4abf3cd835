#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/stats.h"

/* Nearest rank by hand: of 5 samples 50 % is the 3rd, 99 % the 5th, 20 % the 1st, 21 % the 2nd. */
static void test_five(void **state)
{
    static const struct {
        double p, want;
    } rows[] = {{0, 1}, {20, 1}, {21, 2}, {40, 2}, {50, 3}, {80, 8}, {81, 16}, {99, 16}, {100, 16}};
    float samples[] = {8, 1, 16, 2, 3};

    (void)state;
    mn_stats_sort(samples, 5);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(mn_stats_percentile(samples, 5, rows[i].p) == rows[i].want);
    assert_true(mn_stats_mean(samples, 5) == 6);
}

/* 1..1000, last first: p percent is 10 p. */
static void test_thousand(void **state)
{
    float samples[1000];

    (void)state;
    for (int i = 0; i < 1000; i++)
        samples[i] = (float)(1000 - i);
    mn_stats_sort(samples, 1000);
    assert_true(mn_stats_percentile(samples, 1000, 50) == 500);
    assert_true(mn_stats_percentile(samples, 1000, 99) == 990);
    assert_true(mn_stats_percentile(samples, 1000, 99.9) == 999);
    assert_true(mn_stats_percentile(samples, 1000, 100) == 1000);
    assert_true(mn_stats_mean(samples, 1000) == 500.5);
}

static void test_few(void **state)
{
    float one = 7;

    (void)state;
    assert_true(mn_stats_percentile(&one, 1, 0) == 7);
    assert_true(mn_stats_percentile(&one, 1, 99.9) == 7);
    assert_true(mn_stats_percentile(NULL, 0, 50) == 0);
    assert_true(mn_stats_mean(NULL, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five),
        cmocka_unit_test(test_thousand),
        cmocka_unit_test(test_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
