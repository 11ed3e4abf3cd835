/* What is chosen when nobody chooses. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "bench/coll/algorithm.h"

static const char *choice(enum mn_collective c, int nranks, size_t count, const int *hosts)
{
    struct mn_coll_job job = {.nranks = nranks,
                              .count = count,
                              .element = 4,
                              .chunk = 4096,
                              .hosts = hosts};

    return mn_algorithm_auto(c, &job)->name;
}

static void choices(void **state)
{
    static const int pairs[] = {0, 0, 1, 1}, others[] = {3, 2, 1, 0}, one[] = {5, 5, 5, 5};

    (void)state;
    assert_string_equal(choice(MN_ALLREDUCE, 4, 2, NULL), "one-shot");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 2, one), "star");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 2, others), "one-shot");
    assert_string_equal(choice(MN_ALLREDUCE, 5, 2, NULL), "doubling");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 8 << 10, NULL), "doubling");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 64 << 10, NULL), "halving-doubling");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 64 << 10, pairs), "hierarchical");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 4 << 20, others), "ring");
    assert_string_equal(choice(MN_ALLREDUCE, 4, 4 << 20, one), "ring");
    assert_string_equal(choice(MN_ALLGATHER, 9, 16, NULL), "bruck");
    assert_string_equal(choice(MN_BROADCAST, 9, 1 << 20, NULL), "ring");
    for (int c = 0; c < MN_COLLECTIVES; c++)
        for (int n = 1; n <= 16; n++)
            for (size_t count = 0; count < 64 << 20; count = 4 * count + 1) {
                struct mn_coll_job job = {.nranks = n, .count = count, .element = 4};
                const struct mn_algorithm *a = mn_algorithm_auto((enum mn_collective)c, &job);
                assert_non_null(a);
                assert_ptr_equal(a, mn_algorithm_find((enum mn_collective)c, a->name));
            }
    assert_null(mn_algorithm_find(MN_ALLREDUCE, "bruck"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
