/* Ranks as processes: how they end, and what is said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fleet/launch.h"

struct heard {
    char text[1024]; /* of the launcher */
    int first;       /* the rank that fails */
    int crash;
};

/* One rank fails, the others wait for ever. */
static int body(void *ctx, int rank)
{
    const struct heard *heard = ctx;

    if (rank == heard->first && heard->crash)
        raise(SIGKILL);
    if (rank == heard->first)
        return 1;
    for (;;)
        pause();
}

static void hear(void *ctx, int rank, const char *text)
{
    struct heard *heard = ctx;
    size_t used = strlen(heard->text);

    if (rank < 0)
        snprintf(heard->text + used, sizeof heard->text - used, "%s\n", text);
}

static void launch(struct heard *heard)
{
    struct mn_launch launch = {.nranks = 3,
                               .body = body,
                               .line = hear,
                               .ctx = heard,
                               .grace_s = 0.3};
    struct mn_diag diag;
    int code = 0;

    assert_int_equal(mn_launch_local(&launch, &code, &diag), MN_OK);
    assert_int_equal(code, 1);
}

/* Nobody but the first to fail is to blame, least of all a signal of the launcher's own. */
static void who_is_killed_is_told_with_who_failed(void **state)
{
    struct heard heard = {.first = 0}, third = {.first = 2};

    (void)state;
    launch(&heard);
    assert_non_null(strstr(heard.text, "rank 0 failed; rank 1 (pid "));
    assert_non_null(strstr(heard.text, "rank 0 failed; rank 2 (pid "));
    assert_non_null(strstr(heard.text, "did not end within 0.3 s and was killed"));
    assert_null(strstr(heard.text, "signal"));
    launch(&third);
    assert_non_null(strstr(third.text, "rank 2 failed; ending the others"));
    assert_non_null(strstr(third.text, "rank 2 failed; rank 1 (pid "));
    assert_null(strstr(third.text, "signal 9"));
}

static void a_signal_of_somebody_else_is_told(void **state)
{
    struct heard heard = {.first = 1, .crash = 1};

    (void)state;
    launch(&heard);
    assert_non_null(strstr(heard.text, "rank 1 (pid "));
    assert_non_null(strstr(heard.text, "was ended by signal 9 (Killed)"));
    assert_non_null(strstr(heard.text, "rank 1 failed; rank 2 (pid "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_killed_is_told_with_who_failed),
        cmocka_unit_test(a_signal_of_somebody_else_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
