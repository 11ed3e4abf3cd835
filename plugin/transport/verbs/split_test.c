/* How messages are divided, and what the immediates and announcements say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plugin/transport/verbs/split.h"
#include "plugin/transport/verbs/wire.h"

#define MIB (1u << 20)

static void test_small_ones_stay_whole(void **state)
{
    struct verbs_way ways[2] = {{0, 100}, {0, 100}};
    struct verbs_part parts[VERBS_QPS];

    (void)state;
    assert_int_equal(verbs_split(ways, 2, 0, 0, 2, parts), 1);
    assert_int_equal(parts[0].length, 0);
    assert_int_equal(verbs_split(ways, 2, 1, 16384, 2, parts), 1);
    assert_int_equal(parts[0].way, 1); /* a tie goes to the first in turn */
    ways[1].outstanding = 1;
    assert_int_equal(verbs_split(ways, 2, 1, 16384, 2, parts), 1);
    assert_int_equal(parts[0].way, 0);
    ways[0].weight = 25; /* a slow way that is idle is still the later one */
    assert_int_equal(verbs_split(ways, 2, 0, 16384, 2, parts), 1);
    assert_int_equal(parts[0].way, 1);
}

static void test_by_speed_and_by_what_is_outstanding(void **state)
{
    struct verbs_way ways[3] = {{0, 200}, {0, 100}, {0, 100}};
    struct verbs_part parts[VERBS_QPS];

    (void)state;
    assert_int_equal(verbs_split(ways, 3, 0, 4 * MIB, 3, parts), 3);
    assert_int_equal(parts[0].length, 2 * MIB);
    assert_int_equal(parts[1].length, MIB);
    assert_int_equal(parts[2].length, MIB);
    ways[0].outstanding = 8 * MIB; /* busy for longer than the others need for all of it */
    assert_int_equal(verbs_split(ways, 3, 0, 4 * MIB, 3, parts), 2);
    assert_int_equal(parts[0].way + parts[1].way, 3);
    assert_int_equal(verbs_split(ways, 3, 0, 4 * MIB, 1, parts), 1);
    assert_int_equal(parts[0].length, 4 * MIB);
}

/* Whatever the state: no gap, no overlap, aligned, worth it, each way at most once. */
static void test_covers_exactly(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 200000; round++) {
        struct verbs_way ways[VERBS_QPS];
        struct verbs_part parts[VERBS_QPS];
        int n = 1 + rand() % VERBS_QPS, seen = 0;
        uint32_t size = (uint32_t)rand() >> rand() % 31, at = 0;
        size = size > 1u << 30 ? 1u << 30 : size;
        for (int i = 0; i < n; i++)
            ways[i] = (struct verbs_way){(uint64_t)rand() >> rand() % 31,
                                         1 + (uint32_t)(rand() % 400000)};
        int most = 1 + rand() % n;
        int count = verbs_split(ways, n, rand() % n, size, most, parts);
        assert_in_range(count, 1, most);
        for (int i = 0; i < count; i++) {
            assert_in_range(parts[i].way, 0, n - 1);
            assert_false(seen >> parts[i].way & 1);
            seen |= 1 << parts[i].way;
            assert_int_equal(parts[i].offset, at);
            if (count > 1)
                assert_true(parts[i].length >= VERBS_STRIPE_MIN - 128);
            if (i < count - 1)
                assert_int_equal(parts[i].length % 128, 0);
            at += parts[i].length;
        }
        assert_int_equal(at, size);
    }
}

static void test_immediate_names_every_segment(void **state)
{
    (void)state;
    for (uint32_t seq = 0; seq < 20000; seq += 7)
        for (uint32_t n = 1; n <= VERBS_SEGMENTS; n += 9)
            for (uint32_t k = 0; k < n; k++) {
                struct verbs_imm imm = verbs_imm_unpack(verbs_imm_pack(seq, k, n, 31));
                assert_int_equal(imm.entry, seq % VERBS_RING);
                assert_int_equal(imm.seq_high, seq / VERBS_RING % 16);
                assert_int_equal(imm.segment, k);
                assert_int_equal(imm.segments, n);
                assert_int_equal(imm.epoch, 31);
            }
}

/* An announcement is accepted whole only: any stretch of an older one in it is found. */
static void test_torn_announcements_are_refused(void **state)
{
    struct verbs_cts old = {.address = 0x7f0000001000, .size = 4096, .tag = 3, .seq = 600, .n = 1};
    struct verbs_cts new = {.address = 0x7f0000402000, .size = 8192, .tag = 4, .seq = 1112, .n = 1};
    struct verbs_cts zero = {0};

    (void)state;
    for (int i = 0; i < VERBS_LINKS; i++) {
        old.rkeys[i] = 0x1000u + (uint32_t)i;
        new.rkeys[i] = 0x2000u + (uint32_t)i;
    }
    verbs_cts_seal(&old);
    verbs_cts_seal(&new);
    assert_true(verbs_cts_valid(&new, 1112));
    assert_false(verbs_cts_valid(&new, 600));
    assert_false(verbs_cts_valid(&zero, 0));
    for (size_t from = 0; from < sizeof new; from += 4)
        for (size_t to = from + 4; to <= sizeof new; to += 4) {
            struct verbs_cts torn = new;
            memcpy((char *)&torn + from, (char *)&old + from, to - from);
            if (memcmp(&torn, &new, sizeof torn))
                assert_false(verbs_cts_valid(&torn, 1112));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_ones_stay_whole),
        cmocka_unit_test(test_by_speed_and_by_what_is_outstanding),
        cmocka_unit_test(test_covers_exactly),
        cmocka_unit_test(test_immediate_names_every_segment),
        cmocka_unit_test(test_torn_announcements_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
