/* Processes that answer, late, too much, or not at all. */
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
#include <unistd.h>

#include <cmocka.h>

#include "fleet/errand.h"

#define LONG_MS 60000

static int write_all(const char *text, size_t left)
{
    while (left) {
        ssize_t n = write(STDOUT_FILENO, text, left);
        if (n <= 0)
            return 1;
        text += n;
        left -= (size_t)n;
    }
    return 0;
}

/* Says on standard output what it hears. */
static int echo(void *ctx)
{
    char text[4096];
    ssize_t n;

    (void)ctx;
    while ((n = read(STDIN_FILENO, text, sizeof text)) > 0)
        if (write_all(text, (size_t)n))
            return 1;
    return 0;
}

static int wait_for_ever(void *ctx)
{
    (void)ctx;
    for (;;)
        pause();
    return 0;
}

static int wait_stubbornly(void *ctx)
{
    signal(SIGTERM, SIG_IGN);
    return wait_for_ever(ctx);
}

static int write_for_ever(void *ctx)
{
    static const char text[65536] = "x";

    (void)ctx;
    while (!write_all(text, sizeof text))
        ;
    return 0;
}

static int give_up(void *ctx)
{
    (void)ctx;
    fputs("first\nlast", stderr);
    return 7;
}

static int die(void *ctx)
{
    (void)ctx;
    return raise(SIGKILL);
}

/* Says that it is there, and where it was when its input ended. */
static int speak(void *ctx)
{
    int *flag = ctx;

    if (write_all("noise first\nready\n", 18) || read(STDIN_FILENO, &(char){0}, 1) != 1 ||
        read(STDIN_FILENO, &(char){0}, 1) != 0)
        return 1;
    *flag = 1;
    return 3;
}

static int is_ready(const void *ctx, const char *out)
{
    (void)ctx;
    return strstr(out, "ready\n") != NULL;
}

static int mark_later(void *ctx)
{
    int *flag = ctx;

    for (int i = 0; i < 600 && *flag == 0; i++)
        usleep(100000);
    *flag = 2;
    return 0;
}

static void *shared(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(page, MAP_FAILED);
    return page;
}

static void test_many_at_once(void **state)
{
    enum { N = 20, SIZE = 300000 };
    struct mn_errand errands[N] = {{.body = NULL}};
    char *text = malloc(SIZE + 1);

    (void)state;
    for (int i = 0; i < SIZE; i++)
        text[i] = (char)('a' + i % 26);
    text[SIZE] = 0;
    for (size_t i = 0; i < N; i++)
        errands[i] = (struct mn_errand){.body = i == 3 ? NULL : echo,
                                        .text = text,
                                        .size = SIZE - i,
                                        .ms = LONG_MS};
    mn_errands_run(errands, N, NULL);
    for (size_t i = 0; i < N; i++) {
        if (i != 3) {
            assert_int_equal(errands[i].end, MN_ERRAND_RAN);
            assert_int_equal(errands[i].status, 0);
            assert_int_equal(errands[i].used, SIZE - i);
            assert_memory_equal(errands[i].out, text, SIZE - i);
        }
        mn_errand_free(&errands[i]);
    }
    free(text);
}

static char heard[4][64];
static int n_heard;

static void hear(void *ctx, const char *text)
{
    assert_null(ctx);
    assert_true(n_heard < 4);
    snprintf(heard[n_heard++], sizeof heard[0], "%s", text);
}

static void test_how_it_ended(void **state)
{
    struct mn_errand errands[] = {{.body = give_up, .line = hear, .ms = LONG_MS},
                                  {.body = die, .ms = LONG_MS},
                                  /* What nobody reads is no error of the writer. */
                                  {.body = give_up, .text = "{}", .size = 2, .ms = LONG_MS}};

    (void)state;
    mn_errands_run(errands, 3, NULL);
    assert_int_equal(errands[0].end, MN_ERRAND_RAN);
    assert_int_equal(errands[0].status, 7);
    assert_string_equal(errands[0].last, "last");
    assert_int_equal(n_heard, 2);
    assert_string_equal(heard[0], "first");
    assert_string_equal(heard[1], "last");
    assert_int_equal(errands[1].end, MN_ERRAND_RAN);
    assert_int_equal(errands[1].status, 128 + SIGKILL);
    assert_int_equal(errands[2].status, 7);
    for (int i = 0; i < 3; i++)
        mn_errand_free(&errands[i]);
}

static void test_late(void **state)
{
    struct mn_errand errands[] = {{.body = wait_for_ever, .ms = 1},
                                  {.body = wait_stubbornly, .ms = 1},
                                  {.body = echo, .text = "x", .size = 1, .ms = LONG_MS}};

    (void)state;
    mn_errands_run(errands, 3, NULL);
    assert_int_equal(errands[0].end, MN_ERRAND_LATE);
    assert_int_equal(errands[1].end, MN_ERRAND_LATE);
    assert_int_equal(errands[0].pid, 0);
    assert_int_equal(errands[1].pid, 0);
    assert_int_equal(errands[2].end, MN_ERRAND_RAN);
    for (int i = 0; i < 3; i++)
        mn_errand_free(&errands[i]);
}

static void test_too_much(void **state)
{
    struct mn_errand errand = {.body = write_for_ever, .ms = LONG_MS};

    (void)state;
    mn_errands_run(&errand, 1, NULL);
    assert_int_equal(errand.end, MN_ERRAND_LONG);
    assert_in_range(errand.used, MN_ERRAND_OUT, MN_ERRAND_OUT + 65536);
    mn_errand_free(&errand);
}

static void test_stop(void **state)
{
    volatile sig_atomic_t stop = 0;
    struct mn_errand errands[] = {{.body = wait_for_ever, .ms = LONG_MS},
                                  {.body = wait_for_ever, .ms = LONG_MS}};
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    errands[0].until_fd = errands[1].until_fd = fds[0];
    close(fds[1]);
    mn_errands_run(errands, 2, &stop);
    assert_int_equal(errands[0].end, MN_ERRAND_STOPPED);
    assert_int_equal(errands[1].end, MN_ERRAND_STOPPED);
    close(fds[0]);
    stop = 1;
    mn_errand_free(&errands[0]);
    errands[0] = (struct mn_errand){.body = give_up, .ms = LONG_MS};
    mn_errands_run(errands, 1, &stop);
    assert_int_equal(errands[0].end, MN_ERRAND_STOPPED);
    assert_string_equal(errands[0].last, "");
    mn_errand_free(&errands[0]);
    mn_errand_free(&errands[1]);
}

static void test_one_that_goes_on(void **state)
{
    int *flag = shared();
    struct mn_errand errand =
        {.body = speak, .ctx = flag, .text = "x", .size = 1, .enough = is_ready, .ms = LONG_MS};

    (void)state;
    mn_errands_run(&errand, 1, NULL);
    assert_int_equal(errand.end, MN_ERRAND_SPOKE);
    assert_true(strstr(errand.out, "noise first\n") == errand.out);
    assert_int_equal(*flag, 0);
    assert_true(mn_errand_goes_on(&errand));
    mn_errands_end(&errand, 1, LONG_MS);
    assert_int_equal(errand.end, MN_ERRAND_RAN);
    assert_int_equal(errand.status, 3);
    assert_int_equal(*flag, 1);
    assert_false(mn_errand_goes_on(&errand));
    mn_errand_free(&errand);
    munmap(flag, 4096);
}

static void test_one_that_stays(void **state)
{
    volatile int *flag = shared();
    struct mn_errand errand = {.body = mark_later,
                               .ctx = (void *)(uintptr_t)flag,
                               .stays = 1,
                               .ms = 1};

    (void)state;
    mn_errands_run(&errand, 1, NULL);
    assert_int_equal(errand.end, MN_ERRAND_LATE);
    mn_errand_free(&errand);
    assert_int_equal(*flag, 0);
    *flag = 1;
    for (int i = 0; i < 600 && *flag != 2; i++)
        usleep(100000);
    assert_int_equal(*flag, 2);
    munmap((void *)(uintptr_t)flag, 4096);
}

static void test_one_never_run(void **state)
{
    struct mn_errand errand = {.body = give_up, .ms = LONG_MS};

    (void)state;
    mn_errands_end(&errand, 1, 1);
    mn_errand_free(&errand);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD) >= 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_at_once),   cmocka_unit_test(test_how_it_ended),
        cmocka_unit_test(test_late),           cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_stop),           cmocka_unit_test(test_one_that_goes_on),
        cmocka_unit_test(test_one_that_stays), cmocka_unit_test(test_one_never_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
