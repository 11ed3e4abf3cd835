#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "plugin/handle.h"

static const uint8_t *const no_key = NULL;
static const uint8_t zero_key[MN_KEY_SIZE];
static const uint8_t some_key[MN_KEY_SIZE] = "0123456789abcde";

static struct mn_local local(const char *text, uint8_t nic, long speed)
{
    struct mn_local l = {.nic = nic, .speed_mbps = speed};
    assert_int_equal(mn_addr_parse(text, &l.addr, NULL), MN_OK);
    return l;
}

static struct mn_handle example(void)
{
    struct mn_handle h = {.node_id = 0x1122334455667788, .instance = 77, .port = 4791};

    memset(h.nonce, 0xa5, sizeof h.nonce);
    h.locals[0] = local("10.0.1.1/31", 0, 200000);
    h.locals[1] = local("fd00::1/64", 0, 200000);
    h.locals[2] = local("10.0.2.1/24", 1, 100000);
    h.locals[0].gid_index = 3;
    h.locals[1].gid_index = 126;
    h.locals[2].gid_index = -1;
    h.n_locals = 3;
    h.far[0] = local("192.0.2.1/24", 0, 0);
    h.n_far = 1;
    return h;
}

static void test_round_trip(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t area[MN_HANDLE_SIZE + 3];

    (void)state;
    memset(area, 0xee, sizeof area);
    mn_handle_write(&h, no_key, area + 1);
    assert_int_equal(area[0], 0xee);
    assert_int_equal(area[MN_HANDLE_SIZE + 1], 0xee);
    mn_handle_set_scratch(area + 1, 42);
    assert_int_equal(mn_handle_read(area + 1, no_key, &back, NULL), MN_OK);
    assert_memory_equal(back.nonce, h.nonce, sizeof h.nonce);
    assert_int_equal(back.node_id, h.node_id);
    assert_int_equal(back.instance, 77);
    assert_int_equal(back.port, 4791);
    assert_int_equal(back.scratch, 42);
    assert_int_equal(back.truncated, 0);
    assert_int_equal(back.n_far, 1);
    assert_true(mn_addr_equal(&back.far[0].addr, &h.far[0].addr));
    assert_int_equal(back.n_locals, 3);
    /* Each cable's own before the other family's. */
    const int order[] = {0, 2, 1};
    for (int i = 0; i < 3; i++) {
        const struct mn_local *was = &h.locals[order[i]];
        assert_true(mn_addr_equal(&back.locals[i].addr, &was->addr));
        assert_int_equal(back.locals[i].addr.prefix, was->addr.prefix);
        assert_int_equal(back.locals[i].nic, was->nic);
        assert_int_equal(back.locals[i].gid_index, was->gid_index);
        assert_in_range(back.locals[i].speed_mbps, was->speed_mbps * 9 / 10,
                        was->speed_mbps * 11 / 10);
    }
}

static void test_too_many_addresses(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t bytes[MN_HANDLE_SIZE];

    (void)state;
    for (int i = 0; i < MN_MAX_LOCALS; i++)
        h.locals[i] = local("fd00::1/64", (uint8_t)i, 0);
    h.n_locals = MN_MAX_LOCALS;
    mn_handle_write(&h, no_key, bytes);
    assert_int_equal(mn_handle_read(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 2); /* three cells each */
    assert_int_equal(back.truncated, 1);

    /* Three cables with an address of each family: all three, the far one, and what fits. */
    h = example();
    for (int i = 0; i < 6; i++)
        h.locals[i] = local(i % 2 ? "fd00::1/64" : "10.0.0.1/24", (uint8_t)(i / 2), 0);
    h.n_locals = 6;
    mn_handle_write(&h, no_key, bytes);
    assert_int_equal(mn_handle_read(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(back.locals[i].addr.family, AF_INET);
        assert_int_equal(back.locals[i].nic, i);
    }
    assert_int_equal(back.n_far, 1);
    assert_int_equal(back.truncated, 1);
}

/* Eight cables, the second four to the same nodes: one of those gives way to the far address. */
static void test_a_spare_cable_leaves_room_for_a_far_address(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t bytes[MN_HANDLE_SIZE];

    (void)state;
    h.n_locals = MN_MAX_LOCALS;
    for (int i = 0; i < MN_MAX_LOCALS; i++) {
        h.locals[i] = local("10.0.1.1/31", (uint8_t)i, 0);
        h.locals[i].spare = i >= 4;
    }
    mn_handle_write(&h, no_key, bytes);
    assert_int_equal(mn_handle_read(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 7);
    assert_int_equal(back.n_far, 1);
    assert_int_equal(back.truncated, 1);
    mn_handle_write_short(&h, no_key, bytes);
    assert_int_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 5);
    assert_int_equal(back.n_far, 1);
    assert_int_equal(back.truncated, 1);
}

/* Not of IPv4, or no room: others exist. */
static void test_a_short_handle_says_that_a_far_address_is_left_out(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t bytes[MN_SHORT_HANDLE_SIZE];

    (void)state;
    h.n_locals = 1;
    h.far[0] = local("fd00::9/64", 0, 0);
    mn_handle_write_short(&h, no_key, bytes);
    assert_int_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_far, 0);
    assert_int_equal(back.truncated, 1);
    h = example();
    h.n_locals = 6;
    for (int i = 0; i < 6; i++)
        h.locals[i] = local("10.0.1.1/31", (uint8_t)i, 0);
    mn_handle_write_short(&h, no_key, bytes);
    assert_int_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 6);
    assert_int_equal(back.n_far, 0);
    assert_int_equal(back.truncated, 1);
}

static void test_every_damaged_byte_is_seen(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t bytes[MN_HANDLE_SIZE];

    (void)state;
    for (int i = 0; i < MN_HANDLE_SIZE; i++) {
        mn_handle_write(&h, no_key, bytes);
        bytes[i] ^= 0x10;
        enum mn_err err = mn_handle_read(bytes, no_key, &back, NULL);
        if (i >= 104 && i < 112) /* the connecting side's scratch */
            assert_int_equal(err, MN_OK);
        else
            assert_int_equal(err, MN_ERR_PROTO);
    }
}

static void test_cluster_key_is_needed(void **state)
{
    struct mn_handle h = example(), back;
    struct mn_diag diag;
    uint8_t bytes[MN_HANDLE_SIZE];

    (void)state;
    mn_handle_write(&h, some_key, bytes);
    assert_int_equal(mn_handle_read(bytes, some_key, &back, NULL), MN_OK);
    assert_int_equal(mn_handle_read(bytes, no_key, &back, &diag), MN_ERR_PROTO);
    assert_non_null(strstr(diag.text, "cluster key"));
    /* A key of zeros is one too. */
    mn_handle_write(&h, zero_key, bytes);
    assert_int_equal(mn_handle_read(bytes, zero_key, &back, NULL), MN_OK);
    assert_int_equal(mn_handle_read(bytes, no_key, &back, &diag), MN_ERR_PROTO);
    mn_handle_write(&h, no_key, bytes);
    assert_int_equal(mn_handle_read(bytes, zero_key, &back, &diag), MN_ERR_PROTO);
}

static void test_selector(void **state)
{
    (void)state;
    assert_true(mn_selector_match("eth", "eth0", -1));
    assert_true(mn_selector_match("ib,eth", "eth0", -1));
    assert_false(mn_selector_match("=eth", "eth0", -1));
    assert_true(mn_selector_match("=eth0,eth1", "eth1", -1));
    assert_false(mn_selector_match("^eth", "eth0", -1));
    assert_true(mn_selector_match("^docker,lo", "eth0", -1));
    assert_false(mn_selector_match("^=eth0", "eth0", -1));
    assert_true(mn_selector_match("^=eth0", "eth01", -1));
    assert_true(mn_selector_match("mlx5_0:1", "mlx5_0", 1));
    assert_false(mn_selector_match("mlx5_0:2", "mlx5_0", 1));
    assert_false(mn_selector_match("", "eth0", -1));
    assert_false(mn_selector_match(",", "eth0", -1));
}

static void test_short_round_trip(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t area[MN_SHORT_HANDLE_SIZE + 2];

    (void)state;
    h.n_far = 0;
    for (int keyed = 0; keyed < 2; keyed++) {
        memset(area, 0xee, sizeof area);
        mn_handle_write_short(&h, keyed ? some_key : no_key, area + 1);
        assert_int_equal(area[0], 0xee);
        assert_int_equal(area[MN_SHORT_HANDLE_SIZE + 1], 0xee);
        assert_int_equal(mn_handle_read_short(area + 1, keyed ? some_key : no_key, &back, NULL),
                         MN_OK);
        assert_memory_equal(back.nonce, h.nonce, sizeof h.nonce);
        assert_int_equal(back.node_id, h.node_id);
        assert_int_equal(back.port, 4791);
        assert_int_equal(back.truncated, 0);
        /* Each cable's own before the other family's. */
        const int order[] = {0, 2, 1};
        assert_int_equal(back.n_locals, 3);
        for (int i = 0; i < 3; i++) {
            assert_true(mn_addr_equal(&back.locals[i].addr, &h.locals[order[i]].addr));
            assert_int_equal(back.locals[i].addr.prefix, h.locals[order[i]].addr.prefix);
        }
        assert_int_not_equal(mn_handle_read_short(area + 1, keyed ? no_key : some_key, &back, NULL),
                             MN_OK);
    }
    /* A far address goes before what a cable has twice. */
    h.n_far = 1;
    mn_handle_write_short(&h, no_key, area);
    assert_int_equal(mn_handle_read_short(area, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 2);
    assert_int_equal(back.truncated, 1);
    assert_int_equal(back.n_far, 1);
    assert_true(mn_addr_equal(&back.far[0].addr, &h.far[0].addr));
}

static void test_short_takes_every_cable_first(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t bytes[MN_SHORT_HANDLE_SIZE];
    char text[32];

    (void)state;
    /* Two addresses on each of four cables: all cables, and two seconds. */
    for (int i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "10.0.%d.%d/30", i / 2, 1 + i % 2);
        h.locals[i] = local(text, (uint8_t)(i / 2), 100000);
    }
    h.n_locals = 8;
    h.n_far = 0;
    mn_handle_write_short(&h, no_key, bytes);
    assert_int_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 6);
    assert_int_equal(back.truncated, 1);
    for (int i = 0; i < 6; i++)
        assert_true(mn_addr_equal(&back.locals[i].addr, &h.locals[i < 4 ? 2 * i : 2 * i - 7].addr));

    /* IPv6 alone: the first, and what follows is told to exist. */
    h.locals[0] = local("fd00::1/128", 0, 0);
    h.locals[1] = local("fd01::1/0", 1, 0);
    h.n_locals = 2;
    mn_handle_write_short(&h, no_key, bytes);
    assert_int_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
    assert_int_equal(back.n_locals, 1);
    assert_int_equal(back.locals[0].addr.family, AF_INET6);
    assert_int_equal(back.locals[0].addr.prefix, 128);
    assert_int_equal(back.truncated, 1);
}

static void test_short_damage_is_found(void **state)
{
    struct mn_handle h = example(), back;
    uint8_t bytes[MN_SHORT_HANDLE_SIZE], whole[MN_HANDLE_SIZE];

    (void)state;
    mn_handle_write_short(&h, no_key, bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(mn_handle_read_short(bytes, no_key, &back, NULL), MN_OK);
    mn_handle_write(&h, no_key, whole);
    assert_int_not_equal(mn_handle_read_short(whole, no_key, &back, NULL), MN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_too_many_addresses),
        cmocka_unit_test(test_every_damaged_byte_is_seen),
        cmocka_unit_test(test_cluster_key_is_needed),
        cmocka_unit_test(test_selector),
        cmocka_unit_test(test_a_spare_cable_leaves_room_for_a_far_address),
        cmocka_unit_test(test_a_short_handle_says_that_a_far_address_is_left_out),
        cmocka_unit_test(test_short_round_trip),
        cmocka_unit_test(test_short_takes_every_cable_first),
        cmocka_unit_test(test_short_damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
