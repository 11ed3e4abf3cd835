#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topo/base/mac.h"

static uint8_t key[MN_KEY_SIZE], input[64];

static int fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (uint8_t)i;
    return 0;
}

/* The example of the SipHash paper; OpenSSL's SIPHASH gives the same two 128-bit values. */
static void test_reference(void **state)
{
    static const uint8_t empty[] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                    0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    static const uint8_t fifteen[] = {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11,
                                      0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9};
    uint8_t mac[MN_MAC_SIZE];

    (void)state;
    assert_true(mn_mac64(key, input, 15) == 0xa129ca6149be45e5);
    mn_mac128(key, NULL, 0, mac);
    assert_memory_equal(mac, empty, sizeof mac);
    mn_mac128(key, input, 15, mac);
    assert_memory_equal(mac, fifteen, sizeof mac);
}

/* Every length around the 8-byte words, and every bit of key and input, changes the result. */
static void test_every_bit_counts(void **state)
{
    uint8_t seen[sizeof input + 1][MN_MAC_SIZE], mac[MN_MAC_SIZE];

    (void)state;
    for (size_t len = 0; len <= sizeof input; len++) {
        mn_mac128(key, input, len, seen[len]);
        for (size_t i = 0; i < len; i++)
            assert_memory_not_equal(seen[i], seen[len], MN_MAC_SIZE);
    }
    for (size_t bit = 0; bit < 8 * sizeof input; bit++) {
        input[bit / 8] ^= (uint8_t)(1u << bit % 8);
        mn_mac128(key, input, sizeof input, mac);
        assert_memory_not_equal(mac, seen[sizeof input], sizeof mac);
        input[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof key; bit++) {
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
        mn_mac128(key, input, sizeof input, mac);
        assert_memory_not_equal(mac, seen[sizeof input], sizeof mac);
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_equal(void **state)
{
    uint8_t a[MN_MAC_SIZE] = {1}, b[MN_MAC_SIZE] = {1};

    (void)state;
    assert_true(mn_mac_equal(a, b, sizeof a));
    assert_true(mn_mac_equal(a, b, 0));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(mn_mac_equal(a, b, sizeof a));
        b[i] ^= 0x80;
    }
}

static void test_key_parse(void **state)
{
    static const char *const wrong[] = {
        "",
        "  ",
        "00112233445566778899aabbccddeef",
        "00112233445566778899aabbccddeeff0",
        "00112233445566778899aabbccddeefg",
        "0011223344556677 8899aabbccddeeff",
        "0x112233445566778899aabbccddeeff00",
        "00112233445566778899aabbccddeeff x",
    };
    static const uint8_t want[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    uint8_t got[MN_KEY_SIZE];
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_key_parse(" \n00112233445566778899aAbBcCdDeEfF\n", got, &diag), MN_OK);
    assert_memory_equal(got, want, sizeof want);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(mn_key_parse(wrong[i], got, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "32 hexadecimal digits"));
        /* A key never shows in a message. */
        assert_null(strstr(diag.text, "5566"));
    }
    assert_int_equal(mn_key_read("/nonexistent/key", got, &diag), MN_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "/nonexistent/key"));
    assert_int_equal(mn_key_read("/dev/null", got, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "/dev/null"));
}

static void test_random(void **state)
{
    uint8_t a[32] = {0}, b[32] = {0};

    (void)state;
    assert_int_equal(mn_random(a, sizeof a, NULL), MN_OK);
    assert_int_equal(mn_random(b, sizeof b, NULL), MN_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_equal),     cmocka_unit_test(test_key_parse),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
