/* Probes on the wire: what is written is read, what was changed on the way is a stranger's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fleet/probe_frame.h"
#include "topo/base/alloc.h"

static const uint8_t key[MN_KEY_SIZE] = {1, 2, 3};
static uint8_t buf[MN_PROBE_FRAME_MAX];

static struct mn_probe_frame sample(void)
{
    struct mn_probe_frame frame = {.way = MN_SURVEY_RAW,
                                   .run = 0x1122334455667788,
                                   .session = 0x99aabbccddeeff00,
                                   .sequence = 77,
                                   .begun = 5,
                                   .content = 1,
                                   .index = 2,
                                   .nic = 3,
                                   .kind = MN_NIC_THUNDERBOLT,
                                   .mac = {2, 0, 0, 0, 0, 9},
                                   .mtu = 65520,
                                   .speed_mbps = 200000,
                                   .n_heard = 2,
                                   .heard = {{42, 1, 9000}, {43, 2, 1500}}};

    mn_strlcpy(frame.node, "spark-a", sizeof frame.node);
    mn_strlcpy(frame.netdev, "enp1s0f1np1", sizeof frame.netdev);
    return frame;
}

static enum mn_probe_verdict read_back(size_t len, struct mn_probe_frame *frame)
{
    return mn_probe_frame_read(buf, len, MN_SURVEY_RAW, 0x1122334455667788, key, frame);
}

static void what_is_written_is_read(void **state)
{
    struct mn_probe_frame frame = sample(), got;

    (void)state;
    for (size_t size = 200; size < sizeof buf; size += 13067) {
        assert_int_equal(mn_probe_frame_write(&frame, key, buf, size), size);
        assert_int_equal(read_back(size, &got), MN_PROBE_GOOD);
        assert_memory_equal(&got, &frame, sizeof got);
    }
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 100), 0);
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, MN_PROBE_FRAME_MAX), 0);
}

static void as_many_as_can_be_heard_fit_into_the_smallest_probe(void **state)
{
    struct mn_probe_frame frame = sample(), got;

    (void)state;
    frame.n_heard = MN_PROBE_HEARD_MAX;
    memset(frame.node, 'n', sizeof frame.node - 1);
    memset(frame.netdev, 'd', sizeof frame.netdev - 1);
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 1280 - 48), 1280 - 48);
    assert_int_equal(read_back(1280 - 48, &got), MN_PROBE_GOOD);
    assert_int_equal(got.n_heard, MN_PROBE_HEARD_MAX);
}

static void what_was_changed_is_a_strangers(void **state)
{
    const struct mn_probe_frame frame = sample();
    struct mn_probe_frame got;
    size_t used = 84 + strlen(frame.node) + strlen(frame.netdev) + 12 * 2;

    (void)state;
    for (size_t at = 0; at < used; at++) {
        assert_int_equal(mn_probe_frame_write(&frame, key, buf, 300), 300);
        buf[at] ^= 0x40;
        if (read_back(300, &got) != (at < 5 ? MN_PROBE_NOISE : MN_PROBE_STRANGER))
            fail_msg("byte %zu", at);
    }
}

static void a_probe_of_another_size_key_run_or_way_is_a_strangers(void **state)
{
    static const uint8_t other[MN_KEY_SIZE] = {1, 2, 4};
    const struct mn_probe_frame frame = sample();
    struct mn_probe_frame got;

    (void)state;
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 300), 300);
    assert_int_equal(read_back(299, &got), MN_PROBE_STRANGER);
    assert_int_equal(read_back(301, &got), MN_PROBE_STRANGER);
    assert_int_equal(read_back(83, &got), MN_PROBE_NOISE);
    assert_int_equal(mn_probe_frame_read(buf, 300, MN_SURVEY_RAW, frame.run, other, &got),
                     MN_PROBE_STRANGER);
    assert_int_equal(mn_probe_frame_read(buf, 300, MN_SURVEY_RAW, 1, key, &got), MN_PROBE_STRANGER);
    assert_int_equal(mn_probe_frame_read(buf, 300, MN_SURVEY_IPV6, frame.run, key, &got),
                     MN_PROBE_STRANGER);
}

/* Whoever has the key may still be broken. */
static void names_that_cannot_be_are_refused(void **state)
{
    struct mn_probe_frame frame = sample(), got;

    (void)state;
    frame.node[2] = '/';
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 300), 300);
    assert_int_equal(read_back(300, &got), MN_PROBE_STRANGER);
    frame.node[0] = 0;
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 300), 300);
    assert_int_equal(read_back(300, &got), MN_PROBE_STRANGER);
    frame = sample();
    frame.netdev[1] = '\033';
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 300), 300);
    assert_int_equal(read_back(300, &got), MN_PROBE_GOOD);
    assert_int_equal(got.netdev[1], '?');
    frame = sample();
    frame.kind = (enum mn_nic_kind)(MN_NIC_OTHER + 1);
    assert_int_equal(mn_probe_frame_write(&frame, key, buf, 300), 300);
    assert_int_equal(read_back(300, &got), MN_PROBE_STRANGER);
}

static void a_runs_key_is_its_own(void **state)
{
    uint8_t one[MN_KEY_SIZE], two[MN_KEY_SIZE];

    (void)state;
    mn_probe_key(key, 1, one);
    mn_probe_key(key, 2, two);
    assert_memory_not_equal(one, two, sizeof one);
    assert_memory_not_equal(one, key, sizeof one);
    mn_probe_key(key, 1, two);
    assert_memory_equal(one, two, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(as_many_as_can_be_heard_fit_into_the_smallest_probe),
        cmocka_unit_test(what_was_changed_is_a_strangers),
        cmocka_unit_test(a_probe_of_another_size_key_run_or_way_is_a_strangers),
        cmocka_unit_test(names_that_cannot_be_are_refused),
        cmocka_unit_test(a_runs_key_is_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
