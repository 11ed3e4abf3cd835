#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topo/base/index.h"

/* All values under hash, each as a bit. */
static unsigned all_of(const struct mn_index *index, uint64_t hash)
{
    unsigned found = 0;
    int value;

    for (size_t at = 0; (value = mn_index_next(index, hash, &at)) >= 0;) {
        assert_false(found >> value & 1);
        found |= 1u << value;
    }
    return found;
}

static void what_was_put_is_found(void **state)
{
    struct mn_index index = {.slots = NULL};

    (void)state;
    assert_int_equal(all_of(&index, 5), 0);
    /* The same slot for all, whatever the room, and twenty values under one hash. */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mn_index_put(&index, 5, i, NULL), MN_OK);
        assert_int_equal(mn_index_put(&index, 5 + ((uint64_t)(i + 1) << 40), i, NULL), MN_OK);
    }
    assert_int_equal(all_of(&index, 5), (1u << 20) - 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(all_of(&index, 5 + ((uint64_t)(i + 1) << 40)), 1u << i);
    assert_int_equal(all_of(&index, 6), 0);
    mn_index_free(&index);
    assert_int_equal(index.room, 0);
}

static void many_are_told_apart(void **state)
{
    enum { MANY = 100000 };
    struct mn_index index = {.slots = NULL};

    (void)state;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(mn_index_put(&index, mn_hash(&i, sizeof i), i, NULL), MN_OK);
    for (int i = 0; i < MANY; i++) {
        size_t at = 0;
        assert_int_equal(mn_index_next(&index, mn_hash(&i, sizeof i), &at), i);
        assert_int_equal(mn_index_next(&index, mn_hash(&i, sizeof i), &at), -1);
    }
    mn_index_free(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found),
        cmocka_unit_test(many_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
