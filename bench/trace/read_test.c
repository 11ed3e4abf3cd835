/* Traces of any addresses are read in a time that grows with their length: half a million records
 * of each kind, which a table that degenerates takes minutes for. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/trace/read.h"

#define RECORDS 500000

static uint64_t apart(uint64_t i, int bits)
{
    return (i + 1) << bits;
}

/* As the table was once told apart: all in one place of it. */
static uint64_t colliding(uint64_t i, int bits)
{
    uint64_t inverse = 1; /* of the odd factor, by Newton */

    for (int k = 0; k < 6; k++)
        inverse *= 2 - 0x9e3779b97f4a7c15u * inverse;
    return ((i + 1) << bits) * inverse;
}

/* Sends that are never found done: each keeps its address. */
static void test_any_addresses(void **state)
{
    static const struct {
        uint64_t (*address)(uint64_t i, int bits);
        int bits;
    } rows[] = {{apart, 0}, {apart, 6}, {apart, 24}, {apart, 44}, {colliding, 44}};
    struct mn_trace_record *records = calloc(RECORDS, sizeof *records);

    (void)state;
    assert_non_null(records);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct mn_trace trace = {.records = records, .n = RECORDS};
        struct mn_trace_stats stats;
        records[0] = (struct mn_trace_record){.op = MN_TRACE_CONNECT, .a = 1};
        for (uint64_t i = 1; i < RECORDS; i++)
            records[i] = (struct mn_trace_record){.op = MN_TRACE_ISEND,
                                                  .a = 1,
                                                  .c = rows[row].address(i, rows[row].bits),
                                                  .size = 8,
                                                  .took_ns = (uint32_t)i};
        mn_trace_stats(&trace, &stats);
        assert_int_equal(stats.calls[MN_TRACE_ISEND].calls, RECORDS - 1);
        assert_int_equal(stats.n_comms, 1);
        assert_int_equal(stats.comms[0].messages, RECORDS - 1);
        assert_int_equal(stats.comms[0].outstanding, RECORDS - 1);
        mn_trace_stats_free(&stats);
    }
    free(records);
}

static void numbers(void *ctx, const struct mn_trace_event *event)
{
    uint32_t **at = ctx;

    *(*at)++ = event->comm;
    *(*at)++ = event->request;
}

/* An address that was given back and is used again is another request. */
static void test_numbers(void **state)
{
    static const struct mn_trace_record records[] = {
        {.op = MN_TRACE_CONNECT, .a = 64},
        {.op = MN_TRACE_ACCEPT, .a = 128},
        {.op = MN_TRACE_ISEND, .a = 64, .c = 7},
        {.op = MN_TRACE_IRECV, .a = 128, .c = 8},
        {.op = MN_TRACE_DONE, .a = 7},
        {.op = MN_TRACE_ISEND, .a = 64, .c = 7},
        {.op = MN_TRACE_DONE, .a = 9},
        {.op = MN_TRACE_CLOSE_SEND, .a = 64},
        {.op = MN_TRACE_ISEND, .a = 64, .c = 10},
    };
    static const uint32_t expected[] = {1, 0, 2, 0, 1, 1, 2, 2, 0, 1, 1, 3, 0, 0, 1, 0, 0, 4};
    struct mn_trace trace = {.records = records, .n = sizeof records / sizeof *records};
    uint32_t got[sizeof expected / sizeof *expected], *at = got;

    (void)state;
    mn_trace_walk(&trace, numbers, &at);
    assert_int_equal(at - got, sizeof got / sizeof *got);
    assert_memory_equal(got, expected, sizeof got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_any_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
