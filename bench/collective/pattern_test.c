/* The check of results finds every wrong element, and accepts right ones. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/collective/pattern.h"

#define RANKS 3
#define COUNT 10000 /* more than the inputs' period */

/* The input of a rank, as long as the collective has it. */
static uint8_t *input(struct mn_pattern *p, struct mn_coll_job *job, int rank)
{
    uint8_t *in = calloc((size_t)COUNT * RANKS, job->element);

    assert_non_null(in);
    job->rank = rank;
    mn_pattern_fill(p, in);
    return in;
}

static void sums(void **state)
{
    (void)state;
    for (int type = 0; type < MN_TYPES; type++)
        for (int op = 0; op < MN_REDOPS; op++) {
            struct mn_coll_job job = {.nranks = RANKS,
                                      .count = COUNT,
                                      .element = mn_type_size(type),
                                      .chunk = 4096};
            struct mn_pattern p = {MN_ALLREDUCE, &job, type, op};
            mn_reduce_fn *reduce = mn_reduce_kernel(type, op);
            uint8_t *out = input(&p, &job, 2); /* in another order than ranks have */
            for (int r = 0; r < 2; r++) {
                uint8_t *in = input(&p, &job, r);
                assert_memory_not_equal(in, in + job.element, 100 * job.element);
                reduce(out, in, COUNT);
                free(in);
            }
            assert_int_equal(mn_pattern_wrong(&p, out), 0);
            for (size_t i = 0; i < COUNT; i += 4999) {
                out[i * job.element] ^= 1;
                assert_int_equal(mn_pattern_wrong(&p, out), 1);
                out[i * job.element] ^= 1;
            }
            memmove(out, out + job.element, (COUNT - 1) * job.element);
            assert_true(mn_pattern_wrong(&p, out) > COUNT / 20);
            free(out);
        }
}

static void moves(void **state)
{
    struct mn_coll_job job = {.nranks = RANKS, .count = COUNT, .element = 4, .chunk = 4096};
    struct mn_pattern p = {MN_ALLTOALL, &job, MN_TYPE_FLOAT32, MN_REDOP_SUM};
    uint8_t *out = calloc((size_t)COUNT * RANKS, 4);
    size_t block = (size_t)COUNT * 4;

    (void)state;
    assert_non_null(out);
    for (int r = 0; r < RANKS; r++) {
        uint8_t *in = input(&p, &job, r);
        memcpy(out + (size_t)r * block, in + block, block);
        free(in);
    }
    job.rank = 1;
    assert_int_equal(mn_pattern_wrong(&p, out), 0);
    job.rank = 2; /* what was meant for another rank */
    assert_true(mn_pattern_wrong(&p, out) > COUNT);
    job.rank = 1;
    memcpy(out, out + block, block); /* what another rank sent */
    assert_true(mn_pattern_wrong(&p, out) > COUNT / 2);
    free(out);
}

static void zero_blocks(void **state)
{
    uint8_t blocks[] = {0x05};
    struct mn_coll_job job = {.nranks = RANKS,
                              .count = 700,
                              .element = 4,
                              .chunk = 4096,
                              .blocks = blocks,
                              .block = 100};
    struct mn_pattern p = {MN_SPARSE_ALLREDUCE, &job, MN_TYPE_INT32, MN_REDOP_SUM};
    static const uint8_t zero[400];

    (void)state;
    uint8_t *out = input(&p, &job, 0);
    assert_memory_equal(out + 400, zero, 400);
    assert_memory_not_equal(out + 800, zero, 400);
    for (int r = 1; r < RANKS; r++) {
        uint8_t *in = input(&p, &job, r);
        mn_reduce_kernel(MN_TYPE_INT32, MN_REDOP_SUM)(out, in, 700);
        free(in);
    }
    assert_int_equal(mn_pattern_wrong(&p, out), 0);
    out[400] = 1;
    assert_int_equal(mn_pattern_wrong(&p, out), 1);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(moves),
        cmocka_unit_test(zero_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
