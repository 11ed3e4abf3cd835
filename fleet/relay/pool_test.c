#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fleet/relay/pool.h"

static void buffers_are_cut_until_there_are_none_and_come_back(void **state)
{
    struct mn_pool pool;
    struct mn_pool_run runs[64];
    int n = 0;

    (void)state;
    assert_int_equal(mn_pool_open(8u << 20, &pool, NULL), MN_OK);
    assert_true(pool.size <= 8u << 20);
    while (mn_pool_take(&pool, MN_RELAY_BULK, 2, 0, &runs[n])) {
        for (uint32_t i = 0; i < 2; i++) {
            memset(mn_pool_data(&pool, &runs[n], i), n, MN_RELAY_PIECE);
            memset(mn_pool_head(&pool, &runs[n], i), n, MN_HEAD_SIZE);
        }
        n++;
    }
    assert_int_equal(n, 15);
    for (int k = 0; k < n; k++)
        for (uint32_t i = 0; i < 2; i++) {
            const uint8_t *data = mn_pool_data(&pool, &runs[k], i);
            assert_int_equal(data[0], k);
            assert_memory_equal(data, data + 1, MN_RELAY_PIECE - 1);
            assert_int_equal(mn_pool_head(&pool, &runs[k], i)[MN_HEAD_SIZE - 1], k);
        }
    for (int k = 0; k < n; k++)
        mn_pool_give(&pool, &runs[k]);
    assert_int_equal(pool.used, 0);
    assert_true(mn_pool_take(&pool, MN_RELAY_BULK, 30, 0, &runs[0]));
    mn_pool_close(&pool);
}

static void edges_leave_half_for_trunks(void **state)
{
    struct mn_pool pool;
    struct mn_pool_run run;
    int edges = 0, trunks = 0;

    (void)state;
    assert_int_equal(mn_pool_open(8u << 20, &pool, NULL), MN_OK);
    while (mn_pool_take(&pool, MN_RELAY_SMALL_ONES, 1, 1, &run))
        assert_int_equal(mn_pool_edge_bytes(&pool),
                         (size_t)(pool.units / 2 - (uint32_t)++edges) * MN_POOL_UNIT);
    while (mn_pool_take(&pool, MN_RELAY_SMALL_ONES, 1, 0, &run))
        trunks++;
    assert_int_equal(edges, pool.units / 2);
    assert_int_equal(mn_pool_edge_bytes(&pool), 0);
    assert_int_equal(edges + trunks, pool.units);
    mn_pool_close(&pool);
}

/* Edges of all sizes come and go for long, trunks now and then: those two that a class needs can
 * always be had while there is no other. */
static void edges_that_come_and_go_leave_a_trunk_room_in_one_piece(void **state)
{
    struct mn_pool pool;
    struct mn_pool_run edges[64] = {{.count = 0}}, trunks[2];
    uint32_t lot = 1;

    (void)state;
    assert_int_equal(mn_pool_open(8u << 20, &pool, NULL), MN_OK);
    for (int i = 0; i < 5000; i++) {
        lot = lot * 1664525 + 1013904223;
        struct mn_pool_run *edge = &edges[lot >> 26];
        int trunk = lot >> 8 & 1;
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
            if (trunk)
                assert_true(mn_pool_take(&pool, kind, MN_RELAY_BUFFERS, 0, &trunks[kind]));
        if (edge->count)
            mn_pool_give(&pool, edge);
        else
            (void)mn_pool_take(&pool, lot >> 9 & 1, lot >> 10 & 1 ? 2 : 4, 1, edge);
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
            if (trunk)
                mn_pool_give(&pool, &trunks[kind]);
    }
    mn_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_cut_until_there_are_none_and_come_back),
        cmocka_unit_test(edges_leave_half_for_trunks),
        cmocka_unit_test(edges_that_come_and_go_leave_a_trunk_room_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
