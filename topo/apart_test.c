#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/apart.h"

enum { DOUBLES, FAILS, SIGNALLED, HANGS, LEAVES };

static enum mn_err work(const void *arg, void *result, struct mn_diag *diag)
{
    static const struct rlimit no_core;

    switch (*(const int *)arg) {
    case DOUBLES:
        *(int *)result = 42 + *(int *)result;
        return MN_OK;
    case FAILS:
        return mn_fail(diag, MN_ERR_CONFIG, "not like this");
    case SIGNALLED:
        setrlimit(RLIMIT_CORE, &no_core);
        kill(getpid(), SIGKILL);
        return MN_OK;
    case HANGS:
        /* The limit, brought nearer. */
        if (alarm(1))
            for (;;)
                pause();
        return MN_OK;
    default:
        _exit(9);
    }
}

static enum mn_err apart(int what, int *result, struct mn_diag *diag)
{
    return mn_apart("the library", work, &what, result, sizeof *result, diag);
}

static void what_comes_back(void **state)
{
    struct mn_diag diag = {.text = ""};
    int result = -1;

    (void)state;
    assert_int_equal(apart(DOUBLES, &result, &diag), MN_OK);
    assert_int_equal(result, 42);
    assert_int_equal(apart(FAILS, &result, &diag), MN_ERR_CONFIG);
    assert_int_equal(diag.code, MN_ERR_CONFIG);
    assert_string_equal(diag.text, "not like this");
    assert_int_equal(apart(SIGNALLED, &result, &diag), MN_ERR_SYS);
    assert_non_null(strstr(diag.text, "the library ended its process by signal 9"));
    assert_int_equal(apart(LEAVES, &result, &diag), MN_ERR_SYS);
    assert_non_null(strstr(diag.text, "status 9"));
    assert_int_equal(result, 42);
    assert_int_equal(apart(FAILS, &result, NULL), MN_ERR_CONFIG);
}

/* Also where the caller wants no alarms. */
static void one_that_hangs_ends(void **state)
{
    struct mn_diag diag = {.text = ""};
    sigset_t alarms, before;
    int result = -1;

    (void)state;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &alarms, &before), 0);
    void (*handler)(int) = signal(SIGALRM, SIG_IGN);
    assert_int_equal(apart(HANGS, &result, &diag), MN_ERR_TIMEOUT);
    assert_string_equal(diag.text, "the library did not end within 30 s");
    assert_int_equal(result, -1);
    signal(SIGALRM, handler);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back),
        cmocka_unit_test(one_that_hangs_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
