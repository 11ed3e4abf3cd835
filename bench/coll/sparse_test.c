/* Which blocks are marked as not zero, and how much of the data they are. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "bench/coll/algorithm.h"

#define COUNT 1000
#define BLOCK 300 /* 1200 bytes; the last block has 100 elements */

/* One element anywhere marks its block and no other. */
static void one_element(void **state)
{
    static const size_t places[] = {0, 1, 255, 256, 299, 300, 599, 899, 900, 999};
    const struct mn_coll_job job = {.count = COUNT, .element = 4, .block = BLOCK};

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int byte = 0; byte < 4; byte++) {
            uint8_t data[COUNT * 4] = {0}, blocks[2] = {0};
            data[places[i] * 4 + (size_t)byte] = 1;
            mn_coll_mark(data, &job, blocks);
            assert_int_equal(blocks[0], 1 << places[i] / BLOCK);
            assert_int_equal(blocks[1], 0);
        }
}

/* Marks add up, and the last block counts as long as it is. */
static void present(void **state)
{
    struct mn_coll_job job = {.count = COUNT, .element = 4, .block = BLOCK};
    uint8_t data[COUNT * 4] = {0}, blocks[1] = {0};

    (void)state;
    assert_int_equal(mn_coll_present_elements(&job), COUNT);
    assert_true(mn_coll_present(&job, 3));
    mn_coll_mark(data, &job, blocks);
    job.blocks = blocks;
    assert_int_equal(mn_coll_present_elements(&job), 0);
    data[4 * 950] = 1;
    mn_coll_mark(data, &job, blocks);
    memset(data, 0, sizeof data);
    data[4 * 300] = 1;
    mn_coll_mark(data, &job, blocks);
    assert_int_equal(blocks[0], 1 << 1 | 1 << 3);
    assert_int_equal(mn_coll_present_elements(&job), 300 + 100);
    assert_int_equal(mn_collective_bytes(MN_SPARSE_ALLREDUCE, &job), 4 * 400);
    assert_false(mn_coll_present(&job, 0));
}

/* Of all-to-all-v counts what the busiest rank exchanges with others. */
static void busiest(void **state)
{
    const size_t counts[] = {90, 1, 2, 3, 90, 4, 5, 7, 90};
    struct mn_coll_job job = {.rank = 1, .nranks = 3, .element = 2, .counts = counts};

    (void)state;
    assert_int_equal(mn_collective_in(MN_ALLTOALLV, &job), 97);
    assert_int_equal(mn_collective_out(MN_ALLTOALLV, &job), 98);
    assert_int_equal(mn_collective_bytes(MN_ALLTOALLV, &job), 2 * 12);
    assert_true(mn_collective_bus_factor(MN_ALLTOALLV, 3) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_element),
        cmocka_unit_test(present),
        cmocka_unit_test(busiest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
