#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plugin/relay/frame.h"

static const struct mn_relay_flow flow = {"flow 0123456789"};

static struct mn_line_attach attach(enum mn_relay_role role)
{
    struct mn_line_attach f = {.flow = flow,
                               .way = 3,
                               .role = (uint8_t)role,
                               .at = 2,
                               .instance = 0x01020304,
                               .mesh = 0x1122334455667788,
                               .nodes = {4, {7, 3, 65535, 0}}};

    if (role == MN_RELAY_RECEIVER)
        memset(f.handles, 0x5a, sizeof f.handles);
    return f;
}

/* One row a frame: an example written, and whether what is read is that again. */
static size_t put_sender(uint8_t out[MN_LINE_MAX])
{
    struct mn_line_attach f = attach(MN_RELAY_SENDER);
    return mn_line_attach_put(&f, out);
}

static size_t put_receiver(uint8_t out[MN_LINE_MAX])
{
    struct mn_line_attach f = attach(MN_RELAY_RECEIVER);
    return mn_line_attach_put(&f, out);
}

static int get_attach(const uint8_t *in, size_t len)
{
    struct mn_line_attach f, want;

    if (!mn_line_attach_get(in, len, &f))
        return 0;
    want = attach((enum mn_relay_role)f.role);
    assert_memory_equal(&f.flow, &want.flow, sizeof f.flow);
    assert_int_equal(f.way, want.way);
    assert_int_equal(f.at, want.at);
    assert_int_equal(f.instance, want.instance);
    assert_int_equal(f.mesh, want.mesh);
    assert_int_equal(f.nodes.n, want.nodes.n);
    assert_memory_equal(f.nodes.nodes, want.nodes.nodes, sizeof f.nodes.nodes);
    assert_memory_equal(f.handles, want.handles, sizeof f.handles);
    return 1;
}

static size_t put_attached(uint8_t out[MN_LINE_MAX])
{
    struct mn_line_attached f = {.flow = flow, .way = 1, .instance = 9};

    memset(f.handles[0], 1, MN_HANDLE_SIZE);
    memset(f.handles[1], 2, MN_HANDLE_SIZE);
    return mn_line_attached_put(&f, out);
}

static int get_attached(const uint8_t *in, size_t len)
{
    struct mn_line_attached f;

    if (!mn_line_attached_get(in, len, &f))
        return 0;
    assert_int_equal(f.way, 1);
    assert_int_equal(f.instance, 9);
    assert_int_equal(f.handles[0][MN_HANDLE_SIZE - 1], 1);
    assert_int_equal(f.handles[1][MN_HANDLE_SIZE - 1], 2);
    return 1;
}

static size_t put_opened(uint8_t out[MN_LINE_MAX])
{
    return mn_line_opened_put(&(struct mn_line_opened){flow, 2, 0x01020304, 0xfffffffe}, out);
}

static int get_opened(const uint8_t *in, size_t len)
{
    struct mn_line_opened f;

    if (!mn_line_opened_get(in, len, &f))
        return 0;
    assert_int_equal(f.way, 2);
    assert_int_equal(f.instance, 0x01020304);
    assert_int_equal(f.pair, 0xfffffffe);
    return 1;
}

static size_t put_drained(uint8_t out[MN_LINE_MAX])
{
    return mn_line_drained_put(&(struct mn_line_drained){flow, 0, MN_RELAY_SMALL_ONES, 6, 77, 300},
                               out);
}

static int get_drained(const uint8_t *in, size_t len)
{
    struct mn_line_drained f;

    if (!mn_line_drained_get(in, len, &f))
        return 0;
    assert_int_equal(f.way, 0);
    assert_int_equal(f.kind, MN_RELAY_SMALL_ONES);
    assert_int_equal(f.class, 6);
    assert_int_equal(f.pair, 77);
    assert_int_equal(f.count, 300);
    return 1;
}

static size_t put_trunk(uint8_t out[MN_LINE_MAX])
{
    struct mn_line_trunk f = {MN_RELAY_CLASSES - 1, MN_RELAY_BULK, {0}};

    memset(f.handle, 3, sizeof f.handle);
    return mn_line_trunk_put(&f, out);
}

static int get_trunk(const uint8_t *in, size_t len)
{
    struct mn_line_trunk f;

    if (!mn_line_trunk_get(in, len, &f))
        return 0;
    assert_int_equal(f.class, MN_RELAY_CLASSES - 1);
    assert_int_equal(f.kind, MN_RELAY_BULK);
    assert_int_equal(f.handle[MN_HANDLE_SIZE - 1], 3);
    return 1;
}

/* bad: offsets at which 0xee is no value of the field. */
static const struct row {
    const char *name;
    size_t (*put)(uint8_t out[MN_LINE_MAX]);
    int (*get)(const uint8_t *in, size_t len);
    int bad[8];
} rows[] = {
    {"attach of a sender", put_sender, get_attach, {16, 17, 18, 31}},
    {"attach of a receiver", put_receiver, get_attach, {16, 17, 18, 31}},
    {"attached", put_attached, get_attached, {16}},
    {"opened", put_opened, get_opened, {16}},
    {"drained", put_drained, get_drained, {16, 17, 18}},
    {"trunk", put_trunk, get_trunk, {1}},
};

static void what_is_put_is_got_and_nothing_shorter_or_longer(void **state)
{
    uint8_t bytes[MN_LINE_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = rows[i].put(bytes);
        if (!len || !rows[i].get(bytes, len))
            fail_msg("%s: not got", rows[i].name);
        bytes[len] = 0;
        for (size_t n = 0; n <= len + 1; n++)
            if (n != len && rows[i].get(bytes, n))
                fail_msg("%s: %zu of %zu bytes were taken", rows[i].name, n, len);
    }
}

static void fields_out_of_range_are_refused(void **state)
{
    uint8_t bytes[MN_LINE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < 8 && (!k || rows[i].bad[k]); k++) {
            size_t len = rows[i].put(bytes);
            bytes[rows[i].bad[k]] = 0xee;
            if (rows[i].bad[k] && rows[i].get(bytes, len))
                fail_msg("%s: 0xee at %d was taken", rows[i].name, rows[i].bad[k]);
        }
}

static void a_way_that_is_none_is_refused(void **state)
{
    static const struct mn_relay_way ways[] = {{2, {0, 1}},
                                               {3, {0, 1, 0}},
                                               {4, {4, 5, 5, 6}},
                                               {11, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}};
    struct mn_line_attach f = attach(MN_RELAY_SENDER), back;
    uint8_t bytes[MN_LINE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        f.nodes = ways[i];
        size_t len = mn_line_attach_put(&f, bytes);
        if (len && mn_line_attach_get(bytes, len, &back))
            fail_msg("way %zu was taken", i);
    }
    for (int at = 0; at < 6; at++) { /* who is spoken to is a relay, not an end */
        f = attach(MN_RELAY_SENDER);
        f.at = (uint8_t)at;
        size_t len = mn_line_attach_put(&f, bytes);
        assert_int_equal(mn_line_attach_get(bytes, len, &back), at == 1 || at == 2);
    }
}

static void the_longest_way_has_room(void **state)
{
    struct mn_line_attach f = attach(MN_RELAY_RECEIVER), back;
    uint8_t bytes[MN_LINE_MAX];

    (void)state;
    f.nodes.n = MN_RELAY_NODES;
    for (int i = 0; i < MN_RELAY_NODES; i++)
        f.nodes.nodes[i] = (uint16_t)(i * 6000);
    size_t len = mn_line_attach_put(&f, bytes);
    assert_true(len && mn_line_attach_get(bytes, len, &back));
    assert_memory_equal(&back.nodes, &f.nodes, sizeof f.nodes);
}

static void words_are_text(void **state)
{
    struct mn_line_gone f = {.flow = flow, .way = 1, .instance = 7, .why = MN_GONE_FULL}, back;
    uint8_t bytes[MN_LINE_MAX];

    (void)state;
    strcpy(f.text, "node-b: no buffers, größer");
    size_t len = mn_line_gone_put(&f, bytes);
    assert_true(mn_line_gone_get(bytes, len, &back));
    assert_string_equal(back.text, f.text);
    assert_int_equal(back.instance, 7);
    assert_int_equal(back.why, MN_GONE_FULL);
    bytes[24] = 0; /* a NUL, a control, no UTF-8 */
    assert_false(mn_line_gone_get(bytes, len, &back));
    bytes[24] = 27;
    assert_false(mn_line_gone_get(bytes, len, &back));
    bytes[24] = 0xff;
    assert_false(mn_line_gone_get(bytes, len, &back));
    bytes[24] = 'x';
    assert_true(mn_line_gone_get(bytes, len, &back));
    for (int why = 0; why < 8; why++) {
        bytes[21] = (uint8_t)why;
        assert_int_equal(mn_line_gone_get(bytes, len, &back), why >= 1 && why <= 6);
    }
    strcpy(f.text, "a\nb"); /* what is sent is text whatever the caller has */
    len = mn_line_gone_put(&f, bytes);
    assert_true(mn_line_gone_get(bytes, len, &back));
    assert_string_equal(back.text, "a?b");
    memset(f.text, 'x', sizeof f.text);
    len = mn_line_gone_put(&f, bytes);
    assert_true(mn_line_gone_get(bytes, len, &back));
    assert_int_equal(strlen(back.text), MN_WORDS_MAX - 1);
    assert_false(mn_line_gone_get(bytes, len + 1, &back)); /* no room for its end */
    f.text[0] = 0;
    len = mn_line_gone_put(&f, bytes);
    assert_true(mn_line_gone_get(bytes, len, &back));
    assert_false(mn_line_gone_get(bytes, len - 1, &back));
}

static void talk_has_words_of_any_length_to_an_end(void **state)
{
    struct mn_line_talk f = {.flow = flow, .way = 2, .to = MN_RELAY_RECEIVER}, back;
    uint8_t bytes[MN_LINE_MAX + 1];
    size_t len = 0;

    (void)state;
    assert_int_equal(mn_line_talk_put(&f, bytes), 0);
    memset(f.words, 7, sizeof f.words);
    for (uint16_t n = 1; n <= MN_TALK_MAX; n++) {
        f.len = n;
        len = mn_line_talk_put(&f, bytes);
        assert_true(mn_line_talk_get(bytes, len, &back));
        assert_int_equal(back.len, n);
        assert_memory_equal(back.words, f.words, n);
    }
    assert_false(mn_line_talk_get(bytes, len + 1, &back));
    assert_false(mn_line_talk_get(bytes, 18, &back));
    for (int to = 0; to < 4; to++) {
        bytes[17] = (uint8_t)to;
        assert_int_equal(mn_line_talk_get(bytes, len, &back), to == 1 || to == 2);
    }
    f.len = MN_TALK_MAX + 1;
    assert_int_equal(mn_line_talk_put(&f, bytes), 0);
}

static void nothing_drained_is_no_frame(void **state)
{
    struct mn_line_drained f = {flow, 1, MN_RELAY_BULK, 0, 5, 0};
    uint8_t bytes[MN_LINE_MAX];
    size_t len = mn_line_drained_put(&f, bytes);

    (void)state;
    assert_false(mn_line_drained_get(bytes, len, &f));
}

#define P MN_RELAY_PIECE
#define S MN_RELAY_SMALL

static void a_header_is_as_long_as_its_message_has_bytes_there(void **state)
{
    static const struct {
        uint8_t kind, empty;
        uint32_t piece, length;
        uint64_t total;
        int good;
    } heads[] = {
        {MN_RELAY_BULK, 0, 0, P, P, 1},
        {MN_RELAY_BULK, 0, 0, P, 5 * (uint64_t)P + 1, 1},
        {MN_RELAY_BULK, 0, 5, 1, 5 * (uint64_t)P + 1, 1},
        {MN_RELAY_BULK, 0, 4, P, 5 * (uint64_t)P + 1, 1},
        {MN_RELAY_BULK, 0, 4, P - 1, 5 * (uint64_t)P + 1, 0},
        {MN_RELAY_BULK, 0, 5, 2, 5 * (uint64_t)P + 1, 0},
        {MN_RELAY_BULK, 0, 6, 0, 5 * (uint64_t)P + 1, 0},
        {MN_RELAY_BULK, 1, 6, 0, 5 * (uint64_t)P + 1, 1},
        {MN_RELAY_BULK, 1, 5, 0, 5 * (uint64_t)P + 1, 0},
        {MN_RELAY_BULK, 1, 6, 1, 5 * (uint64_t)P + 1, 0},
        {MN_RELAY_BULK, 2, 6, 0, 5 * (uint64_t)P + 1, 0},
        {MN_RELAY_BULK, 2, 6, 0, 0, 1},
        {MN_RELAY_BULK, 2, 6, 1, 0, 0},
        {MN_RELAY_BULK, 3, 6, 0, 0, 0},
        {MN_RELAY_BULK, 0, 0, 0, 0, 1},
        {MN_RELAY_BULK, 0, 1, 0, 0, 0},
        {MN_RELAY_BULK, 1, 1, 0, 0, 1},
        {MN_RELAY_BULK, 0, 0, P + 1, P + 1, 0},
        {MN_RELAY_BULK, 0, UINT32_MAX, P, UINT64_MAX, 1},
        {MN_RELAY_SMALL_ONES, 0, 0, S, S, 1},
        {MN_RELAY_SMALL_ONES, 0, 0, 0, 0, 1},
        {MN_RELAY_SMALL_ONES, 0, 0, S, S + 1, 1}, /* too long for its receive: who has it says so */
        {MN_RELAY_SMALL_ONES, 0, 0, S + 1, S + 1, 0},
        {MN_RELAY_SMALL_ONES, 0, 0, S - 1, S, 0},
        {MN_RELAY_SMALL_ONES, 0, 1, 1, P + 1, 0},
        {MN_RELAY_KINDS, 0, 0, 1, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct mn_relay_head h = {.flow = flow,
                                  .pair = 77,
                                  .way = 3,
                                  .kind = heads[i].kind,
                                  .slot = 7,
                                  .empty = heads[i].empty,
                                  .group = 0x01020304,
                                  .piece = heads[i].piece,
                                  .length = heads[i].length,
                                  .total = heads[i].total},
                             back;
        uint8_t bytes[MN_HEAD_SIZE];
        mn_relay_head_put(&h, bytes);
        int good = mn_relay_head_get(bytes, &back);
        if (good != heads[i].good)
            fail_msg("header %zu: %s", i, good ? "was taken" : "was refused");
        assert_int_equal(back.pair, 77);
        assert_int_equal(back.group, 0x01020304);
        assert_int_equal(back.piece, h.piece);
        assert_int_equal(back.total, h.total);
        assert_memory_equal(&back.flow, &flow, sizeof flow);
    }
}

static void a_header_has_a_way_a_slot_and_zeroes(void **state)
{
    struct mn_relay_head h = {.flow = flow, .length = 1, .total = 1}, back;
    uint8_t good[MN_HEAD_SIZE], bytes[MN_HEAD_SIZE];

    (void)state;
    mn_relay_head_put(&h, good);
    assert_true(mn_relay_head_get(good, &back));
    for (size_t at = 20; at < MN_HEAD_SIZE; at++) {
        memcpy(bytes, good, sizeof bytes);
        bytes[at] = 0xee;
        int any = at >= 24 && at < 28; /* the group */
        if (mn_relay_head_get(bytes, &back) != any)
            fail_msg("0xee at %zu was %s", at, any ? "refused" : "taken");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_got_and_nothing_shorter_or_longer),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(a_way_that_is_none_is_refused),
        cmocka_unit_test(the_longest_way_has_room),
        cmocka_unit_test(words_are_text),
        cmocka_unit_test(talk_has_words_of_any_length_to_an_end),
        cmocka_unit_test(nothing_drained_is_no_frame),
        cmocka_unit_test(a_header_is_as_long_as_its_message_has_bytes_there),
        cmocka_unit_test(a_header_has_a_way_a_slot_and_zeroes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
