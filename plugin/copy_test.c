#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "plugin/copy.h"

static void copies_what_memcpy_would(void **state)
{
    static _Alignas(128) uint8_t to[1024], from[1024];

    (void)state;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t start = 0; start < 260; start++)
        for (size_t n = 0; n < 420; n += n < 20 ? 1 : 13) {
            for (size_t i = 0; i < sizeof to; i++)
                to[i] = 0;
            mn_copy_visible(to + start, from + start % 9, n);
            for (size_t i = 0; i < sizeof to; i++)
                assert_int_equal(to[i],
                                 i >= start && i < start + n ? from[i - start + start % 9] : 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_what_memcpy_would)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
