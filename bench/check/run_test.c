/* A run ends in time: what cannot be judged, or only waits for what others waited for, is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/check.h"
#include "bench/check/rule.h"
#include "bench/check/vain.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LIMIT_MS     2000

static const struct mn_check_target target = {.path = "", .limit_ms = LIMIT_MS, .seed = 1};

static void passes(struct mn_check *check)
{
    (void)check;
}

static void fails(struct mn_check *check)
{
    mn_check_fail(check, "no");
}

static void waits(struct mn_check *check)
{
    (void)check;
    for (;;)
        pause();
}

static const struct mn_check_rule first_waits = {.id = "test.first",
                                                 .run = waits,
                                                 .flags = MN_CHECK_FIRST},
                                  gate = {.id = "test.gate",
                                          .run = fails,
                                          .flags = MN_CHECK_FIRST | MN_CHECK_GATE},
                                  good = {.id = "test.good", .run = passes},
                                  bad = {.id = "test.bad", .run = fails},
                                  slow = {.id = "test.slow", .run = waits, .flags = MN_CHECK_SLOW};

static void run(struct mn_check_plan *plan, struct mn_check_job *jobs, size_t n)
{
    struct mn_diag diag;

    plan->target = &target;
    assert_int_equal(mn_check_run_all(plan, jobs, n, &diag), MN_OK);
}

static void assert_left(const struct mn_check_job *job, enum mn_check_left left, const char *why)
{
    assert_int_equal(job->result.status, MN_CHECK_SKIP);
    assert_int_equal(job->result.left, left);
    assert_false(job->result.timed_out);
    assert_non_null(strstr(job->result.seen, why));
}

/* The gate runs first wherever it stands. */
static void test_nothing_runs_behind_a_closed_gate(void **state)
{
    struct mn_check_plan plan = {.parallel = 4};
    struct mn_check_job jobs[] = {{.rule = &good}, {.rule = &gate}, {.rule = &slow}};

    (void)state;
    run(&plan, jobs, COUNT(jobs));
    assert_int_equal(jobs[1].result.status, MN_CHECK_FAIL);
    assert_left(&jobs[0], MN_CHECK_LEFT_GATE, "test.gate");
    assert_left(&jobs[2], MN_CHECK_LEFT_GATE, "test.gate");
}

/* slow would wait for 20 s. */
static void test_who_waits_for_the_same_is_left(void **state)
{
    struct mn_check_plan plan = {.parallel = 1, .waiting = 4};
    struct mn_check_job jobs[] = {{.rule = &slow}, {.rule = &first_waits}, {.rule = &slow}};

    (void)state;
    run(&plan, jobs, COUNT(jobs));
    assert_int_equal(jobs[1].result.status, MN_CHECK_FAIL);
    assert_true(jobs[1].result.timed_out);
    assert_left(&jobs[0], MN_CHECK_LEFT_SAME, "as rule test.first did in vain");
    assert_left(&jobs[2], MN_CHECK_LEFT_SAME, "as rule test.first did in vain");
}

static void test_the_whole_run_is_bounded(void **state)
{
    struct mn_check_plan plan = {.parallel = 2, .total_ms = 1000};
    struct mn_check_job jobs[] = {{.rule = &slow}, {.rule = &slow}, {.rule = &good}};

    (void)state;
    run(&plan, jobs, COUNT(jobs));
    for (size_t i = 0; i < COUNT(jobs); i++)
        assert_left(&jobs[i], MN_CHECK_LEFT_TIME, "--total");
}

static int is_enough(void *ctx, const struct mn_check_job *job)
{
    (void)ctx;
    return job->result.status == MN_CHECK_FAIL;
}

static void test_enough_is_enough(void **state)
{
    struct mn_check_plan plan = {.parallel = 2, .enough = is_enough};
    struct mn_check_job jobs[] = {{.rule = &slow},
                                  {.rule = &bad},
                                  {.rule = &good},
                                  {.rule = &slow}};

    (void)state;
    run(&plan, jobs, COUNT(jobs));
    assert_int_equal(jobs[1].result.status, MN_CHECK_FAIL);
    assert_left(&jobs[0], MN_CHECK_LEFT_ENOUGH, "test.bad");
    assert_left(&jobs[3], MN_CHECK_LEFT_ENOUGH, "test.bad");
}

/* Two of a family show it for that family, and for the one kind of call. */
static void test_a_family_learns_from_two(void **state)
{
    struct mn_vain vain = {.limit_ms = 30000};
    const struct mn_check_job one = {.family = mn_check_families[3], .rule = &bad},
                              two = {.family = mn_check_families[3], .rule = &good},
                              other = {.family = mn_check_families[4], .rule = &good};
    char why[256] = "";

    (void)state;
    mn_vain_learn(&vain, &one, MN_RAW_CONNECT, 100); /* failed, but had come on */
    mn_vain_learn(&vain, &one, MN_RAW_CONNECT, 22000);
    assert_false(mn_vain_known(&vain, &two, MN_RAW_CONNECT, 20000, why, sizeof why));
    mn_vain_learn(&vain, &two, MN_RAW_CONNECT, 22000);
    assert_true(mn_vain_known(&vain, &two, MN_RAW_CONNECT, 1000, why, sizeof why));
    assert_non_null(strstr(why, "connect or accept, as rule test.bad"));
    assert_false(mn_vain_known(&vain, &two, MN_RAW_CONNECT, 999, why, sizeof why));
    assert_false(mn_vain_known(&vain, &two, MN_RAW_TRANSFER, 20000, why, sizeof why));
    assert_false(mn_vain_known(&vain, &other, MN_RAW_CONNECT, 20000, why, sizeof why));
    assert_false(mn_vain_hopeless(&vain));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_runs_behind_a_closed_gate),
        cmocka_unit_test(test_who_waits_for_the_same_is_left),
        cmocka_unit_test(test_the_whole_run_is_bounded),
        cmocka_unit_test(test_enough_is_enough),
        cmocka_unit_test(test_a_family_learns_from_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
