/* The threads for what can sleep: jobs are run, and no thread is left over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <unistd.h>

#include <cmocka.h>

#include "plugin/tasks_kit.h"
#include "plugin/transport/verbs/work.h"

static _Atomic int ran;

static void run(struct verbs_job *job)
{
    (void)job;
    ran++;
}

static void test_settles(void **state)
{
    struct verbs_job jobs[16];

    (void)state;
    ran = 0;
    for (int i = 0; i < 16; i++) {
        jobs[i] = (struct verbs_job){.run = run, .owner = jobs};
        assert_int_equal(verbs_work(&jobs[i]), 0);
    }
    verbs_work_settle(jobs);
    assert_int_equal(ran, 16);
    verbs_work_end();
    verbs_work_end();
}

static _Atomic int may_end;

static void wait_to_end(struct verbs_job *job)
{
    (void)job;
    while (!may_end)
        usleep(1000);
}

/* One owner's end does not wait for what another's neighbours do not answer. */
static void test_settles_one_owner(void **state)
{
    int slow = 0, quick = 0;
    struct verbs_job jobs[] = {{.run = wait_to_end, .owner = &slow}, {.run = run, .owner = &quick}};

    (void)state;
    ran = may_end = 0;
    assert_int_equal(verbs_work(&jobs[0]), 0);
    assert_int_equal(verbs_work(&jobs[1]), 0);
    alarm(60);
    verbs_work_settle(&quick);
    alarm(0);
    assert_int_equal(ran, 1);
    assert_true(verbs_work_has(&slow));
    assert_false(verbs_work_has(&quick));
    may_end = 1;
    verbs_work_settle(&slow);
    assert_false(verbs_work_has(&slow));
    verbs_work_end();
}

/* A communicator of net v10 is never finalized: the process ends while a thread that found no work
 * has gone. ThreadSanitizer calls one that nobody joined a leak, at exit. */
static void test_idle_thread_goes(void **state)
{
    struct verbs_job job = {.run = run};

    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(verbs_work(&job), 0);
        verbs_work_settle(NULL);
        assert_int_equal(mn_tasks_left("mn-verbs-work"), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_settles_one_owner),
        cmocka_unit_test(test_idle_thread_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
