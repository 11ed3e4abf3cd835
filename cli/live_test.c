/* Progress where standard error is no terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/live.h"
#include "topo/base/clock.h"

static void a_line_now_and_then(void **state)
{
    struct mn_live live = {.print = NULL}, off = {.off = 1};
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    char text[256] = "";

    (void)state;
    fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    mn_live_show(&live, 1, 9, "not yet");
    live.said = mn_seconds() - 60;
    mn_live_show(&live, 2, 9, "now");
    mn_live_show(&live, 3, 9, "just said");
    off.said = mn_seconds() - 60;
    mn_live_show(&off, 4, 9, "never");
    mn_live_clear(&live);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    assert_string_equal(text, "meshnet bench: 2 of 9: now\n");
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_line_now_and_then)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
