#include <math.h>
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

/* By hand: mean 5, standard deviation sqrt(32 / 7), t of 7 degrees 2.365. */
static void test_interval(void **state)
{
    static const float known[] = {2, 4, 4, 4, 5, 5, 7, 9}, pair[] = {1, 3}, even[] = {6, 6, 6};
    static float many[1000];

    (void)state;
    assert_true(fabs(mn_stats_ci95(known, 8) - 35.755) < 0.01);
    /* mean 2, error of the mean 1, t of 1 degree */
    assert_true(fabs(mn_stats_ci95(pair, 2) - 635.3) < 0.01);
    assert_true(mn_stats_ci95(even, 3) == 0);
    assert_true(isnan(mn_stats_ci95(known, 1)));
    assert_true(isnan(mn_stats_ci95(NULL, 0)));
    /* 1 and 3 in turn: mean 2, deviation nearly 1, t of 999 degrees 1.9623 */
    for (int i = 0; i < 1000; i++)
        many[i] = i % 2 ? 1 : 3;
    assert_true(fabs(mn_stats_ci95(many, 1000) - 1.9623 / sqrt(999) / 2 * 100) < 0.001);
}

/* Quartiles 2 and 6 of 1..8 with nearest rank: fences at 2 - 4 and 6 + 6. */
static void test_outliers(void **state)
{
    static const float none[] = {1, 2, 3, 4, 5, 6, 7, 8}, one[] = {1, 2, 3, 4, 5, 6, 7, 12.5f},
                       both[] = {-90, 2, 3, 4, 5, 6, 7, 90}, few[] = {1, 1, 900};

    (void)state;
    assert_int_equal(mn_stats_outliers(none, 8), 0);
    assert_int_equal(mn_stats_outliers(one, 8), 1);
    assert_int_equal(mn_stats_outliers(both, 8), 2);
    assert_int_equal(mn_stats_outliers(few, 3), 0);
    assert_int_equal(mn_stats_outliers(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five),     cmocka_unit_test(test_thousand),
        cmocka_unit_test(test_few),      cmocka_unit_test(test_interval),
        cmocka_unit_test(test_outliers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
