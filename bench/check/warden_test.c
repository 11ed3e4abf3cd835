/* The judge without any plugin: rules of this file, run as those of the tables are. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/check/record.h"
#include "bench/check/rule.h"
#include "bench/check/warden.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What rules leave here for the test to look at. */
static struct board {
    pid_t daemon;
    atomic_int running, most, alone_met;
} * board;

static struct mn_check_target target = {.limit_ms = 20000, .seed = 7};

static struct mn_check_result run_rule(const struct mn_check_rule *rule)
{
    struct mn_check_result result;
    struct mn_diag diag;

    assert_int_equal(mn_check_run(rule, &target, &result, &diag), MN_OK);
    return result;
}

static void passes(struct mn_check *check)
{
    mn_check_step(check, "only step");
    mn_check_note(check, "all is %s", "well");
}

static void fails(struct mn_check *check)
{
    mn_check_fail(check, "it is %d", 42);
}

static void crashes(struct mn_check *check)
{
    mn_check_step(check, "abort");
    abort();
}

static void test_grade(void **state)
{
    static const enum mn_check_status wanted[] = {
        [MN_CHECK_MUST] = MN_CHECK_FAIL,
        [MN_CHECK_SHOULD] = MN_CHECK_WARN,
        [MN_CHECK_STYLE] = MN_CHECK_NOTE,
    };

    (void)state;
    for (int g = MN_CHECK_MUST; g <= MN_CHECK_STYLE; g++) {
        struct mn_check_rule rule = {.id = "test.grade",
                                     .run = fails,
                                     .grade = (enum mn_check_grade)g};
        struct mn_check_result result = run_rule(&rule);
        assert_int_equal(result.status, wanted[g]);
        assert_string_equal(result.seen, "it is 42");
        rule.run = passes;
        result = run_rule(&rule);
        assert_int_equal(result.status, MN_CHECK_PASS);
        assert_string_equal(result.seen, "all is well");
        assert_string_equal(result.step, "only step");
        rule.run = crashes;
        result = run_rule(&rule);
        assert_int_equal(result.status, wanted[g]);
        assert_int_equal(result.signal, SIGABRT);
    }
}

static void says_rubbish(struct mn_check *check)
{
    mn_check_step(check, "%s", "a\nb\x01\x7f caf\xe9 \xc3\xa9 \xe2\x80\xa6 \xed\xa0\x80 \xc0\xaf");
    mn_check_fail(check, "%s", "\xc2\x9b turned \xe2\x80\xae tail cut \xe2\x80");
}

static void test_texts_are_clean(void **state)
{
    const struct mn_check_rule rule = {.id = "test.rubbish", .run = says_rubbish};
    struct mn_check_result result = run_rule(&rule);

    (void)state;
    assert_string_equal(result.step, "a b?? caf? \xc3\xa9 \xe2\x80\xa6 ??? ??");
    assert_string_equal(result.seen, "? turned ? tail cut ??");
}

static void draws(struct mn_check *check)
{
    uint64_t a = mn_check_random(check), b = mn_check_below(check, 10);

    mn_check_note(check, "%llx %llu", (unsigned long long)a, (unsigned long long)b);
}

static void test_chance_replays(void **state)
{
    struct mn_check_rule rule = {.id = "test.draws", .run = draws};
    struct mn_check_result first = run_rule(&rule), again = run_rule(&rule), other;

    (void)state;
    assert_string_equal(first.seen, again.seen);
    assert_int_equal(first.seed, 7);
    target.seed = 8;
    other = run_rule(&rule);
    target.seed = 7;
    assert_string_not_equal(first.seen, other.seen);
    rule.id = "test.others";
    other = run_rule(&rule);
    assert_string_not_equal(first.seen, other.seen);
}

static void leaves_daemon(struct mn_check *check)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        signal(SIGTERM, SIG_IGN);
        board->daemon = getpid();
        assert_int_equal(write(ready[1], "", 1), 1);
        for (;;)
            pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        mn_check_skip(check, "no daemon");
}

static void test_daemons_are_gone(void **state)
{
    const struct mn_check_rule rule = {.id = "test.daemon", .run = leaves_daemon};

    (void)state;
    assert_int_equal(run_rule(&rule).status, MN_CHECK_PASS);
    assert_true(board->daemon > 0);
    assert_int_equal(kill(board->daemon, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void stray_copy_fails(struct mn_check *check)
{
    pid_t copy = fork(); /* as a plugin may, behind the rule's back */
    int status;

    if (copy == 0)
        mn_check_fail(check, "the copy speaks");
    if (waitpid(copy, &status, 0) != copy || status != 0)
        mn_check_skip(check, "the copy did not end quietly");
}

static void second_process_fails(struct mn_check *check)
{
    if (mn_check_fork(check) == 0)
        mn_check_fail(check, "the second process speaks");
    for (;;)
        pause();
}

static void test_who_may_speak(void **state)
{
    struct mn_check_rule rule = {.id = "test.copy", .run = stray_copy_fails};
    struct mn_check_result result = run_rule(&rule);

    (void)state;
    assert_int_equal(result.status, MN_CHECK_PASS);
    target.limit_ms = 1000; /* the first process waits for ever */
    rule.run = second_process_fails;
    result = run_rule(&rule);
    target.limit_ms = 20000;
    assert_int_equal(result.status, MN_CHECK_FAIL);
    assert_string_equal(result.seen, "the second process speaks");
}

static void meets(struct mn_check *check)
{
    int now = atomic_fetch_add(&board->running, 1) + 1, most = atomic_load(&board->most);

    while (now > most && !atomic_compare_exchange_weak(&board->most, &most, now))
        ;
    if ((check->rule->flags & MN_CHECK_ALONE) && now > 1)
        atomic_store(&board->alone_met, 1);
    while (!(check->rule->flags & MN_CHECK_ALONE) && atomic_load(&board->most) < 2 &&
           !mn_check_expired(check))
        usleep(1000);
    atomic_fetch_sub(&board->running, 1);
}

struct order {
    const struct mn_check_job *jobs;
    size_t done;
};

static void in_order(void *ctx, const struct mn_check_job *job)
{
    struct order *order = ctx;

    assert_ptr_equal(job, &order->jobs[order->done]);
    order->done++;
}

static void test_side_by_side(void **state)
{
    static const struct mn_check_rule with = {.id = "test.with", .run = meets};
    static const struct mn_check_rule alone = {.id = "test.alone",
                                               .run = meets,
                                               .flags = MN_CHECK_ALONE};
    struct mn_check_job jobs[12] = {{.rule = &with}};
    struct order order = {.jobs = jobs};
    struct mn_check_plan plan = {.target = &target, .parallel = 4, .done = in_order, .ctx = &order};
    struct mn_diag diag;

    (void)state;
    for (size_t i = 0; i < COUNT(jobs); i++)
        jobs[i].rule = i % 3 == 2 ? &alone : &with;
    assert_int_equal(mn_check_run_all(&plan, jobs, COUNT(jobs), &diag), MN_OK);
    assert_int_equal(order.done, COUNT(jobs));
    assert_true(atomic_load(&board->most) >= 2 && atomic_load(&board->most) <= 4);
    assert_false(atomic_load(&board->alone_met));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void fails_with_ten(struct mn_check *check)
{
    if (check->target->seed == 10)
        mn_check_fail(check, "ten");
}

static void test_stress_stops_at_the_seed(void **state)
{
    static const struct mn_check_rule rule = {.id = "test.ten", .run = fails_with_ten};
    struct mn_check_job job = {.rule = &rule};
    struct mn_check_plan plan = {.target = &target, .parallel = 1, .stress_ms = 20000};
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_check_run_all(&plan, &job, 1, &diag), MN_OK);
    assert_int_equal(job.result.status, MN_CHECK_FAIL);
    assert_int_equal(job.result.seed, 10);
    assert_int_equal(job.result.runs, 4);
}

static void finds_clean_descriptors(struct mn_check *check)
{
    for (int fd = 3; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            mn_check_fail(check, "descriptor %d is open", fd);
    if (read(0, (char[1]){0}, 1) != 0)
        mn_check_fail(check, "standard input is not empty");
}

static void test_descriptors_stay_out(void **state)
{
    static const struct mn_check_rule rule = {.id = "test.fds", .run = finds_clean_descriptors};
    int fds[2];
    struct mn_check_result result;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    result = run_rule(&rule);
    close(fds[0]);
    close(fds[1]);
    assert_string_equal(result.seen, "");
    assert_int_equal(result.status, MN_CHECK_PASS);
}

static int setup(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED;
}

static void waits(struct mn_check *check)
{
    (void)check;
    for (;;)
        pause();
}

/* As when another rule has failed and no more is wanted. */
static void test_ended_while_it_begins(void **state)
{
    static const struct mn_check_rule rule = {.id = "test.waits", .run = waits};

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct mn_check_result result;
        struct mn_warden warden;
        assert_int_equal(mn_warden_start(&target, &rule, &warden, NULL), MN_OK);
        mn_warden_end(&warden);
        while (!mn_warden_ended(&warden))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        mn_warden_collect(&warden, &rule, &result, NULL, NULL);
        assert_true(result.timed_out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grade),
        cmocka_unit_test(test_texts_are_clean),
        cmocka_unit_test(test_chance_replays),
        cmocka_unit_test(test_daemons_are_gone),
        cmocka_unit_test(test_who_may_speak),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_stress_stops_at_the_seed),
        cmocka_unit_test(test_descriptors_stay_out),
        cmocka_unit_test(test_ended_while_it_begins),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
