#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cli/compare.h"

static struct mn_results files[2];
static struct mn_comparison c;
static struct mn_diag diag;

/* Results of a kind; rest is what follows the environment. */
static void give(int which, const char *kind, const char *environment, const char *rest)
{
    char text[8000];

    snprintf(text, sizeof text,
             "{\"schema\": \"meshnet-results\", \"schema_version\": 1, \"kind\": \"%s\", "
             "\"environment\": [%s], %s}",
             kind, environment, rest);
    assert_int_equal(mn_results_parse("x", text, strlen(text), &files[which], &diag), MN_OK);
}

static void done(void)
{
    mn_comparison_free(&c);
    for (int i = 0; i < 2; i++)
        mn_results_free(&files[i]);
}

static const struct mn_compare_row *row_of(const char *name, const char *metric)
{
    for (size_t i = 0; i < c.n_rows; i++)
        if (!strcmp(c.rows[i].name, name) &&
            (metric == c.rows[i].metric || !strcmp(c.rows[i].metric, metric)))
            return &c.rows[i];
    fail_msg("no row '%s' of %s", name, metric ? metric : "all");
    return NULL;
}

/* One bandwidth before and after, with their intervals ("null": unknown). */
static const struct mn_compare_row *speeds(double before, const char *ci_before, double after,
                                           const char *ci_after, double threshold)
{
    char text[200];
    const struct {
        double value;
        const char *ci;
    } sides[2] = {{before, ci_before}, {after, ci_after}};

    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "\"results\": [{\"size\": 16777216, \"direction\": \"out\", \"gbps\": %g, "
                 "\"ci95_percent\": %s}]",
                 sides[i].value, sides[i].ci);
        give(i, "link", "", text);
    }
    assert_int_equal(mn_compare(&files[0], &files[1], threshold, &c, &diag), MN_OK);
    return row_of("size=16777216 direction=out", "gbps");
}

static void noise_and_threshold(void **state)
{
    static const struct {
        double before;
        const char *ci_before;
        double after;
        const char *ci_after;
        double threshold;
        enum mn_verdict verdict;
        int regression;
    } rows[] = {
        {100, "1", 100, "1", 5, MN_SAME, 0},
        {100, "3", 96, "4", 5, MN_SAME, 0},    /* noise 5 */
        {100, "3", 94, "4", 5, MN_SLOWER, 1},  /* -6 % */
        {100, "3", 94, "4", 10, MN_SLOWER, 0}, /* beyond noise, within the threshold */
        {100, "1", 97, "1", 5, MN_SLOWER, 0},  /* the same the other way */
        {100, "30", 80, "30", 5, MN_SAME, 0},  /* far, but so is the noise */
        {100, "1", 110, "1", 5, MN_FASTER, 0},
        {100, "null", 96, "1", 5, MN_SAME, 0}, /* unknown noise: the threshold's */
        {100, "null", 94, "1", 5, MN_SLOWER, 1},
        {0, "1", 0, "1", 5, MN_SAME, 0},
        {0, "1", 5, "1", 5, MN_FASTER, 0},
        {5, "1", 0, "1", 5, MN_SLOWER, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mn_compare_row *row = speeds(rows[i].before, rows[i].ci_before, rows[i].after,
                                                  rows[i].ci_after, rows[i].threshold);
        assert_int_equal(row->verdict, rows[i].verdict);
        assert_int_equal(row->regression, rows[i].regression);
        assert_int_equal(c.regressions, rows[i].regression);
        done();
    }
    const struct mn_compare_row *row = speeds(80, "3", 100, "4", 5);
    assert_true(fabs(row->change - 25) < 1e-9 && fabs(row->noise - 5) < 1e-9);
    done();
}

/* Less is better; p99 is told but fails nothing; counts and states fail whatever the threshold. */
static void other_metrics(void **state)
{
    (void)state;
    give(0, "link", "",
         "\"latency\": [{\"size\": 8, \"p50_us\": 10, \"p99_us\": 20, "
         "\"ci95_percent\": 1}]");
    give(1, "link", "",
         "\"latency\": [{\"size\": 8, \"p50_us\": 8, \"p99_us\": 40, "
         "\"ci95_percent\": 1}]");
    assert_int_equal(mn_compare(&files[0], &files[1], 5, &c, &diag), MN_OK);
    assert_int_equal(row_of("size=8", "p50_us")->verdict, MN_FASTER);
    assert_int_equal(row_of("size=8", "p99_us")->verdict, MN_SLOWER);
    assert_int_equal(c.regressions, 0);
    assert_int_equal(c.n_rows, 2);
    done();

    give(0, "collectives", "",
         "\"collectives\": [{\"collective\": \"reduce\", \"bytes\": 8, "
         "\"root\": null, \"time_us\": 5, \"wrong\": 0}]");
    give(1, "collectives", "",
         "\"collectives\": [{\"collective\": \"reduce\", \"bytes\": 8, "
         "\"root\": null, \"time_us\": 5, \"wrong\": 1}]");
    assert_int_equal(mn_compare(&files[0], &files[1], 900, &c, &diag), MN_OK);
    assert_int_equal(row_of("collective=reduce bytes=8", "wrong")->verdict, MN_BROKEN);
    assert_int_equal(c.regressions, 1);
    done();

    give(0, "matrix", "",
         "\"cells\": [{\"link\": \"a-b\", \"status\": \"ok\"}, "
         "{\"link\": \"b-c\", \"status\": \"dead\"}]");
    give(1, "matrix", "",
         "\"cells\": [{\"link\": \"b-c\", \"status\": \"ok\"}, "
         "{\"link\": \"a-b\", \"status\": \"wrong\"}]");
    assert_int_equal(mn_compare(&files[0], &files[1], 5, &c, &diag), MN_OK);
    assert_int_equal(row_of("link=a-b", "status")->verdict, MN_BROKEN);
    assert_string_equal(row_of("link=a-b", "status")->texts[1], "wrong");
    assert_int_equal(row_of("link=b-c", "status")->verdict, MN_MENDED);
    assert_int_equal(c.regressions, 1);
    done();
}

static void which_rows(void **state)
{
    (void)state;
    /* Two of one name are paired in order, whatever lies between. */
    give(0, "link", "",
         "\"results\": [{\"size\": 8, \"gbps\": 1}, {\"size\": 64, \"gbps\": 5}, "
         "{\"size\": 8, \"gbps\": 100}]");
    give(1, "link", "",
         "\"results\": [{\"size\": 8, \"gbps\": 1}, {\"size\": 8, \"gbps\": 100}, "
         "{\"size\": 512, \"gbps\": 5}]");
    assert_int_equal(mn_compare(&files[0], &files[1], 5, &c, &diag), MN_OK);
    assert_int_equal(c.counts[MN_SAME], 2);
    assert_int_equal(row_of("size=64", NULL)->verdict, MN_GONE);
    assert_int_equal(row_of("size=512", NULL)->verdict, MN_NEW);
    assert_int_equal(c.regressions, 0);
    done();

    give(0, "link", "", "\"results\": [{\"size\": 8, \"gbps\": 1}]");
    give(1, "link", "", "\"results\": [{\"size\": 9, \"gbps\": 1}]");
    assert_int_equal(mn_compare(&files[0], &files[1], 5, &c, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "no row in common"));
    done();

    give(0, "link", "", "\"results\": []");
    give(1, "matrix", "", "\"cells\": []");
    assert_int_equal(mn_compare(&files[0], &files[1], 5, &c, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "'link'"));
    assert_non_null(strstr(diag.text, "'matrix'"));
    done();
}

static void what_differs_is_told(void **state)
{
    static const char *const warnings[] = {
        "meshnet: '0.1' before, 'unknown' now",
        "a: kernel: 'Linux 6' before, 'Linux 7' now",
        "a: plugin sha256: 'aa' before, 'bb' now",
        "a, p0: mtu: '9000' before, '1500' now",
        "a, p1: was there before, is not now",
        "b: took part before, does not now",
        "c: takes part now, did not before",
        "the second file is of a run that ended early: interrupted",
    };

    (void)state;
    give(0, "link",
         "{\"node\": \"a\", \"kernel\": \"Linux 6\", \"plugin\": {\"path\": \"/x\", \"sha256\": "
         "\"aa\"}, \"nics\": [{\"netdev\": \"p0\", \"mtu\": 9000}, {\"netdev\": \"p1\", "
         "\"device\": \"roce1\"}, {\"netdev\": \"veth7\"}]}, {\"node\": \"b\"}",
         "\"meshnet\": \"0.1\", \"results\": [{\"size\": 8, \"gbps\": 1}]");
    give(1, "link",
         "{\"node\": \"c\"}, {\"node\": \"a\", \"kernel\": \"Linux 7\", \"plugin\": {\"path\": "
         "\"/y\", \"sha256\": \"bb\"}, \"nics\": [{\"netdev\": \"p0\", \"mtu\": 1500}]}",
         "\"complete\": false, \"error\": \"interrupted\", "
         "\"results\": [{\"size\": 8, \"gbps\": 1}]");
    assert_int_equal(mn_compare(&files[0], &files[1], 5, &c, &diag), MN_OK);
    assert_int_equal(c.n_warnings, sizeof warnings / sizeof *warnings);
    for (size_t i = 0; i < c.n_warnings; i++)
        assert_string_equal(c.warnings[i], warnings[i]);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_and_threshold),
        cmocka_unit_test(other_metrics),
        cmocka_unit_test(which_rows),
        cmocka_unit_test(what_differs_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
