#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/bench.h"

static enum mn_err parse(const char *text, struct mn_bench_sizes *sizes, struct mn_diag *diag)
{
    const char *items[] = {text};
    struct mn_opt_list list = {.items = items, .count = 1};

    *sizes = (struct mn_bench_sizes){.n = 0};
    return mn_bench_sizes_parse(&list, sizes, diag);
}

static void ranges(void **state)
{
    static const struct {
        const char *text;
        unsigned long long size[8];
        size_t n;
    } rows[] = {
        {"64K", {65536}, 1},
        {"0", {0}, 1},
        {"8:64", {8, 16, 32, 64}, 4},
        {"8:100:2", {8, 16, 32, 64}, 4},
        {"1K:1M:32", {1024, 32768, 1048576}, 3},
        {"7:7:2", {7}, 1},
        {"512M:1G:2", {512ull << 20, 1ull << 30}, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_bench_sizes sizes;
        struct mn_diag diag;
        assert_int_equal(parse(rows[i].text, &sizes, &diag), MN_OK);
        assert_int_equal(sizes.n, rows[i].n);
        assert_memory_equal(sizes.size, rows[i].size, sizes.n * sizeof *sizes.size);
        free(sizes.size);
    }
}

static void bad_ranges(void **state)
{
    static const char *const texts[] = {"0:8:2",
                                        "64:8",
                                        "8:64:1",
                                        "8:64:0",
                                        "8:64:2:2",
                                        "8:2G:2",
                                        "8::2",
                                        ":8",
                                        "2G",
                                        "8:x:2",
                                        "99999999999999999999:1:2",
                                        "1:1G:18446744073709551615K"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mn_bench_sizes sizes;
        struct mn_diag diag;
        assert_int_equal(parse(texts[i], &sizes, &diag), MN_ERR_USAGE);
        assert_non_null(strstr(diag.text, "--sizes"));
        free(sizes.size);
    }
}

static const unsigned long long small[] = {8, 65536, 1 << 20}, large[] = {1 << 20};

#define OUT  1u
#define IN   2u
#define BOTH 4u

static void profiles(void **state)
{
    static const struct {
        const char *types[3];
        int direction;
        unsigned directions, rate, bursts;
        int latency;
    } rows[] = {
        {{NULL}, MN_P2P_DIRECTIONS, OUT | IN | BOTH, 0, 0, 1},
        {{NULL}, MN_P2P_OUT, OUT, 0, 0, 1},
        {{"bw"}, MN_P2P_DIRECTIONS, OUT | IN, 0, 0, 0},
        {{"bw"}, MN_P2P_BOTH, BOTH, 0, 0, 0},
        {{"bi"}, MN_P2P_DIRECTIONS, BOTH, 0, 0, 0},
        {{"lat"}, MN_P2P_DIRECTIONS, 0, 0, 0, 1},
        {{"rate", "burst"}, MN_P2P_DIRECTIONS, 0, OUT | IN, OUT | IN, 0},
        {{"rate", "burst"}, MN_P2P_IN, 0, IN, IN, 0},
        {{"rate"}, MN_P2P_BOTH, 0, BOTH, 0, 0},
        {{"all"}, MN_P2P_DIRECTIONS, OUT | IN | BOTH, OUT | IN, OUT | IN, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_bench_options o = {.peer = "b", .direction = rows[i].direction};
        struct mn_p2p_plan plan = {.sizes = small, .n_sizes = 3};
        struct mn_diag diag;
        o.types.items = (const char **)(uintptr_t)rows[i].types;
        while (o.types.count < 3 && rows[i].types[o.types.count])
            o.types.count++;
        assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_OK);
        assert_int_equal(plan.directions, rows[i].directions);
        assert_int_equal(plan.rate, rows[i].rate);
        assert_int_equal(plan.bursts, rows[i].bursts);
        assert_int_equal(plan.latency, rows[i].latency);
    }
}

static void how_messages_flow(void **state)
{
    const char *lat[] = {"latency"};
    struct mn_bench_options o = {.peer = "b", .direction = MN_P2P_DIRECTIONS};
    struct mn_p2p_plan plan = {.sizes = large, .n_sizes = 1};
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_OK);
    assert_int_equal(plan.connections, 1);
    assert_int_equal(plan.outstanding, 8);
    assert_int_equal(plan.rate_outstanding, MN_P2P_OUTSTANDING);
    assert_int_equal(plan.group, 1);
    assert_int_equal(plan.latency_max, 65536);
    /* Only what was asked for, although it is large. */
    o.tests = (struct mn_opt_list){.items = lat, .count = 1};
    assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_OK);
    assert_true(plan.latency_max > large[0]);
    assert_int_equal(plan.directions, 0);
    plan.sizes = small;
    plan.n_sizes = 3;
    assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_OK);
    assert_int_equal(plan.latency_max, 65536);
    o.threads = 4;
    o.outstanding = 3;
    assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_OK);
    assert_int_equal(plan.connections, 4);
    assert_int_equal(plan.threads, 4);
    assert_int_equal(plan.rate_outstanding, 3);
    o.flows = 3;
    assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_ERR_USAGE);
}

/* All of a default run ends soon; who says how long or what to measure has it so. */
static void what_is_quick(void **state)
{
    static const char *one[] = {"1M"};
    static const struct {
        struct mn_bench_options o;
        int quick;
        size_t sizes;
        unsigned duration_ms;
    } rows[] = {
        {{.peer = "b"}, 1, 5, 150},
        {{.peer = "b", .thorough = 1}, 0, 11, 500},
        {{.peer = "b", .sizes = {one, 1}}, 0, 1, 500},
        {{.peer = "b", .duration_ms = 30}, 0, 11, 30},
        {{.peer = "b", .iters = 10}, 0, 11, 500},
        {{.peer = "b", .max_duration_ms = 700}, 0, 11, 500},
        {{.links = 1}, 0, 11, 500},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_bench_options o = rows[i].o;
        struct mn_p2p_plan plan = {.sizes = small, .n_sizes = 3};
        struct mn_diag diag;
        mn_bench_defaults(&o);
        assert_int_equal(o.quick, rows[i].quick);
        assert_int_equal(o.sizes.count, rows[i].sizes);
        assert_int_equal(o.duration_ms, rows[i].duration_ms);
        o.direction = MN_P2P_DIRECTIONS;
        assert_int_equal(mn_bench_profile(&o, &plan, &diag), MN_OK);
        assert_int_equal(plan.budget_ms > 0, rows[i].quick);
        assert_true(plan.budget_ms < 15000);
    }
}

static enum mn_err refused(const char *type, int direction, int collective, const char *says)
{
    const char *types[] = {type}, *collectives[] = {"all-reduce"};
    struct mn_bench_options o = {.direction = direction,
                                 .types = {.items = types, .count = 1},
                                 .collectives = {.items = collectives, .count = collective}};
    struct mn_p2p_plan plan = {.sizes = small, .n_sizes = 3};
    struct mn_diag diag = {.text = ""};
    enum mn_err err = mn_bench_profile(&o, &plan, &diag);

    assert_non_null(strstr(diag.text, says));
    return err;
}

static void two_meanings_of_type(void **state)
{
    (void)state;
    assert_int_equal(refused("half", MN_P2P_DIRECTIONS, 0, "for --collective"), MN_ERR_USAGE);
    assert_int_equal(refused("bandwith", MN_P2P_DIRECTIONS, 0, "bw, lat, bi"), MN_ERR_USAGE);
    assert_int_equal(refused("burst", MN_P2P_DIRECTIONS, 1, "--peer"), MN_ERR_USAGE);
    assert_int_equal(refused("bi", MN_P2P_IN, 0, "--direction in"), MN_ERR_USAGE);
    assert_int_equal(refused("burst", MN_P2P_BOTH, 0, "--direction both"), MN_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(bad_ranges),
        cmocka_unit_test(profiles),
        cmocka_unit_test(what_is_quick),
        cmocka_unit_test(how_messages_flow),
        cmocka_unit_test(two_meanings_of_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
