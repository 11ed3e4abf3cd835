/* What is said of a peer that is not reached: by what connect() came to, and by what the kernel
 * knows of the way. tests/ports.bats has links, neighbours and filters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "plugin/reach.h"

static void every_outcome_is_told_apart(void **state)
{
    static const struct {
        int error;
        const char *said;
    } rows[] = {
        {EHOSTUNREACH, "nobody answers (No route to host)"},
        {ETIMEDOUT, "nobody answers (Connection timed out)"},
        {ENETUNREACH, "this host has no route there (Network is unreachable)"},
        {EACCES, "this host forbids it (Permission denied)"},
        {EPERM, "this host forbids it (Operation not permitted)"},
        {EINVAL, "this host drops it (Invalid argument)"},
        {ENOBUFS, "connecting: No buffer space available"},
    };
    char text[160];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(mn_reach_error(rows[i].error, text, sizeof text), rows[i].said,
                    strlen(rows[i].said)) != 0)
            fail_msg("%s", text);
}

static void of_an_unknown_way_all_is_to_be_looked_at(void **state)
{
    static const char *const netdevs[] = {NULL, "lo", "no-such-netdev"};
    struct mn_addr addr;
    char text[256];

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(mn_addr_parse(i % 2 ? "2001:db8::9" : "192.0.2.9", &addr, NULL), MN_OK);
        mn_reach_why(netdevs[i / 2], &addr, 4711, text, sizeof text);
        if (!strstr(text, "check that the peer still has this address, the cable, and whether a "
                          "firewall drops port 4711"))
            fail_msg("%s", text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_is_told_apart),
        cmocka_unit_test(of_an_unknown_way_all_is_to_be_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
