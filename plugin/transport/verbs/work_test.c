/* The threads for what can sleep: jobs are run, and no thread is left over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dirent.h>
#include <unistd.h>

#include <cmocka.h>

#include "plugin/transport/verbs/work.h"

static _Atomic int ran;

static void run(struct verbs_job *job)
{
    (void)job;
    ran++;
}

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void test_settles(void **state)
{
    struct verbs_job jobs[16];

    (void)state;
    ran = 0;
    for (int i = 0; i < 16; i++) {
        jobs[i].run = run;
        assert_int_equal(verbs_work(&jobs[i]), 0);
    }
    verbs_work_settle();
    assert_int_equal(ran, 16);
    verbs_work_end();
    verbs_work_end();
}

/* A communicator of net v10 is never finalized: the process ends while a thread that found no work
 * has gone. ThreadSanitizer calls one that nobody joined a leak, at exit. */
static void test_idle_thread_goes(void **state)
{
    struct verbs_job job = {.run = run};
    int before = threads(), left = 300;

    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(verbs_work(&job), 0);
        verbs_work_settle();
        while (threads() > before && left--)
            usleep(100000);
        assert_int_equal(threads(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_idle_thread_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
