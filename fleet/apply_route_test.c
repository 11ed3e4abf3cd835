/* A route is read from its text as it was written; setting them is tested in tests/topo-apply.bats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <netlink/route/route.h>

#include "fleet/apply_kernel.h"

static void what_is_read_is_written_again(void **state)
{
    static const char *const good[] = {
        "10.0.3.0/31 via 10.0.1.1 metric 100 src 10.0.1.0 proto static table 101 onlink 1 mtu 1400",
        "10.0.3.0/31 proto boot scope link",
        "10.0.3.0/31 via 10.0.1.1 proto boot table 7 tos 16 mtu 1400",
        "fd61::/64 via fd55::7 metric 1024 proto boot",
        "0.0.0.0/0 metric 9 proto static nexthop via 10.5.0.7 dev lo weight 3 nexthop dev lo "
        "weight 256 onlink 1",
        "10.0.3.0/31 via 10.0.1.1 proto boot lock 4 mtu 1400 advmss 1300 initcwnd 20",
    };
    char text[MN_ROUTE_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rtnl_route *route = rtnl_route_alloc();
        assert_true(mn_route_parse(good[i], 1, route));
        assert_true(mn_route_text(route, text));
        assert_string_equal(text, good[i]);
        rtnl_route_put(route);
    }
}

static void what_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "nonsense via 10.0.1.1",
        "10.0.3.0/31 via",
        "10.0.3.0/31 via fd00::1",
        "10.0.3.0/31 colour blue",
        "10.0.3.0/31 nexthop via 10.0.1.1 dev nowhere99 weight 1",
        "10.0.3.0/31 nexthop via 10.0.1.1 dev lo weight 0",
        "10.0.3.0/31 nexthop via 10.0.1.1 dev lo weight 257",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rtnl_route *route = rtnl_route_alloc();
        if (mn_route_parse(bad[i], 1, route))
            fail_msg("\"%s\" was read", bad[i]);
        rtnl_route_put(route);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written_again),
        cmocka_unit_test(what_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
