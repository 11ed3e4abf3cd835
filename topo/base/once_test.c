#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "topo/base/once.h"

static void a_thing_is_news_once(void **state)
{
    static struct mn_once once, other;

    (void)state;
    assert_true(mn_once(&once, "a", 1));
    assert_true(mn_once(&once, "b", 1));
    assert_false(mn_once(&once, "a", 1));
    assert_true(mn_once(&other, "a", 1));
}

static void a_full_table_is_quiet(void **state)
{
    static struct mn_once once;
    int news = 0;

    (void)state;
    for (int i = 0; i < 3 * MN_ONCE_MAX; i++)
        news += mn_once(&once, &i, sizeof i);
    assert_int_equal(news, MN_ONCE_MAX);
    for (int i = 0; i < 3 * MN_ONCE_MAX; i++)
        assert_false(mn_once(&once, &i, sizeof i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thing_is_news_once),
        cmocka_unit_test(a_full_table_is_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
