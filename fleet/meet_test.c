/* Where ranks look for rank 0, by the line it gives the launcher. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fleet/meet.h"

#define TOKEN "00112233445566778899aabbccddeeff"

static struct mn_addr parsed(const char *text)
{
    struct mn_addr addr;
    assert_int_equal(mn_addr_parse(text, &addr, NULL), MN_OK);
    return addr;
}

static void test_ranks_of_a_host_meet_at_loopback(void **state)
{
    struct mn_group_plan zero = {.rank = 0}, one = {.rank = 1};
    struct mn_addr own = parsed("127.0.0.2/8");
    char line[MN_MEET_LINE], host[MN_ADDR_TEXT];
    struct mn_ctl ctl;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_meet_open(&zero, &own, 1, line, &diag), MN_OK);
    assert_int_equal(zero.n_doors, 2);
    assert_int_equal(mn_meet_read(line, &own, 1, &one, host, &diag), MN_OK);
    assert_memory_equal(zero.token, one.token, sizeof one.token);
    assert_string_equal(one.host, "127.0.0.1");
    assert_int_equal(mn_ctl_connect(one.host, one.port, 1000, &ctl, &diag), MN_OK);
    mn_ctl_close(&ctl);
    for (int i = 0; i < zero.n_doors; i++)
        close(zero.doors[i]);
}

static void test_the_shared_cable_is_taken(void **state)
{
    static const struct {
        const char *own, *host;
        int port;
    } cases[] = {
        {"10.1.2.2/30", "10.1.2.1", 3},
        {"10.1.1.2/30", "10.1.1.1", 2},
        {"fd00:5::2/64", "fd00:5::1", 4},
        {"192.0.2.1/24", "10.1.1.1", 2}, /* by a route */
    };
    const char *line = "meshnet 1 " TOKEN " elsewhere:1 1@127.0.0.1/8 2@10.1.1.1/30 3@10.1.2.1/30 "
                       "4@fd00:5::1/64";

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mn_group_plan plan = {.rank = 1};
        struct mn_addr own = parsed(cases[i].own);
        char host[MN_ADDR_TEXT];
        assert_int_equal(mn_meet_read(line, &own, 1, &plan, host, NULL), MN_OK);
        assert_string_equal(plan.host, cases[i].host);
        assert_int_equal(plan.port, cases[i].port);
    }
}

static void test_nonsense(void **state)
{
    static const char *const lines[] = {
        "",
        "meshnet",
        "meshnet 2 " TOKEN " elsewhere:1 2@10.1.1.1/30",
        "meshnet 1 0011 elsewhere:1 2@10.1.1.1/30",
        "meshnet 1 " TOKEN " elsewhere:1 0@10.1.1.1/30",
        "meshnet 1 " TOKEN " elsewhere:1 65536@10.1.1.1/30",
        "meshnet 1 " TOKEN " elsewhere:1 2@10.1.1",
        "meshnet 1 " TOKEN " elsewhere:1 2@10.1.1.1/30 x",
        "meshnet 1 " TOKEN " elsewhere:1 2@10.1.1.1/30 ",
        "meshnet 1 " TOKEN " elsewhere:1",
        "meshnet 1 " TOKEN " elsewhere:1 2@127.0.0.1/8",
    };
    struct mn_addr own = parsed("10.1.1.2/30");

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct mn_group_plan plan = {.rank = 1};
        struct mn_diag diag = {.text = ""};
        char host[MN_ADDR_TEXT];
        if (!mn_meet_read(lines[i], &own, 1, &plan, host, &diag) || !diag.text[0])
            fail_msg("taken: %s", lines[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_a_host_meet_at_loopback),
        cmocka_unit_test(test_the_shared_cable_is_taken),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
