/* LLDP of strangers: what a switch says, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fleet/lldp.h"

#define TLV(type, len) (uint8_t)((type) << 1), (len)
#define BEGIN          TLV(1, 7), 4, 0xaa, 0xbb, 0xcc, 0, 0, 1, TLV(2, 4), 5, 'e', '1', '7', TLV(3, 2)

static void what_a_nic_says_is_read(void **state)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 0xfe};
    uint8_t buf[MN_LLDP_MAX];
    char longest[300];
    struct mn_lldp lldp;
    struct mn_diag diag;
    size_t len = mn_lldp_write(mac, "enp1s0f0np0", "spark-a", 120, buf);

    (void)state;
    assert_int_equal(mn_lldp_parse(buf, len, &lldp, &diag), MN_OK);
    assert_string_equal(lldp.chassis, "02:00:00:00:00:fe");
    assert_string_equal(lldp.port, "enp1s0f0np0");
    assert_string_equal(lldp.system, "spark-a");
    assert_string_equal(lldp.described, "");
    assert_int_equal(lldp.ttl, 120);
    for (size_t cut = 0; cut < len - 2; cut++)
        if (!mn_lldp_parse(buf, cut, &lldp, &diag) && !lldp.ttl)
            fail_msg("cut at %zu", cut);
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_true(mn_lldp_write(mac, longest, longest, 9, buf) <= sizeof buf);
}

static void what_a_switch_says_is_read(void **state)
{
    static const uint8_t said[] = {BEGIN, 0,         120,       TLV(4, 5),   'p', 'o',  '\033',
                                   't',   '1',       TLV(5, 3), 't',         'o', 'r',  TLV(8, 3),
                                   1,     2,         3,         TLV(127, 4), 0,   0x80, 0xc2,
                                   1,     TLV(0, 0), 'p',       'a',         'd'};
    static const uint8_t v4[] = {TLV(1, 6), 5, 1, 10, 0, 0, 7, TLV(2, 2), 7, '9', TLV(3, 2), 0, 60};
    struct mn_lldp lldp;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_lldp_parse(said, sizeof said, &lldp, &diag), MN_OK);
    assert_string_equal(lldp.chassis, "aa:bb:cc:00:00:01");
    assert_string_equal(lldp.port, "e17");
    assert_string_equal(lldp.described, "po?t1");
    assert_string_equal(lldp.system, "tor");
    assert_int_equal(mn_lldp_parse(v4, sizeof v4, &lldp, &diag), MN_OK);
    assert_string_equal(lldp.chassis, "10.0.0.7");
    assert_string_equal(lldp.port, "9");
}

static void whether_it_passes_on_is_what_is_in_use(void **state)
{
    static const struct {
        uint8_t has, in_use;
        enum mn_survey_bridges bridges;
    } rows[] = {
        {0x14, 0x14, MN_BRIDGES_YES}, /* bridge and router */
        {0x14, 0x04, MN_BRIDGES_YES}, {0x14, 0x10, MN_BRIDGES_YES},
        {0x84, 0x80, MN_BRIDGES_NO}, /* could be a bridge, is a station */
        {0x80, 0x80, MN_BRIDGES_NO},  {0, 0, MN_BRIDGES_NO},
    };
    struct mn_lldp lldp;
    struct mn_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t said[] = {BEGIN,          0,        60, TLV(7, 4), 0, rows[i].has, 0,
                                rows[i].in_use, TLV(0, 0)};
        assert_int_equal(mn_lldp_parse(said, sizeof said, &lldp, &diag), MN_OK);
        assert_int_equal(lldp.bridges, rows[i].bridges);
    }
    const uint8_t none[] = {BEGIN, 0, 60, TLV(0, 0)}, odd[] = {BEGIN, 0, 60, TLV(7, 1), 4};
    assert_int_equal(mn_lldp_parse(none, sizeof none, &lldp, &diag), MN_OK);
    assert_int_equal(lldp.bridges, MN_BRIDGES_UNKNOWN);
    assert_int_equal(mn_lldp_parse(odd, sizeof odd, &lldp, &diag), MN_OK);
    assert_int_equal(lldp.bridges, MN_BRIDGES_UNKNOWN);
}

static void what_is_none_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } wrong[] = {
#define ROW(text) {text, sizeof text - 1}
        ROW(""),
        ROW("\0\0"),
        ROW("\x02"),
        ROW("\x02\x07\x04\1\2\3\4\5\6\x06\2\0\1"),                    /* no port */
        ROW("\x02\x07\x04\1\2\3\4\5\6\x04\2\7x\x06\1\1"),             /* a byte of time to live */
        ROW("\x02\x08\x04\1\2\3\4\5\6\7\x04\2\7x\x06\2\0\1"),         /* a MAC of seven bytes */
        ROW("\x02\x01\x04\x04\2\7x\x06\2\0\1"),                       /* an identifier of none */
        ROW("\x02\x07\x04\1\2\3\4\5\6\x04\2\7x\x06\2\0\1\x0a\xff"),   /* longer than the rest */
        ROW("\x02\x07\x04\1\2\3\4\5\6\x04\2\7x\x06\2\0\1\x06\2\0\1"), /* twice */
#undef ROW
    };
    struct mn_lldp lldp;
    struct mn_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (mn_lldp_parse((const uint8_t *)wrong[i].bytes, wrong[i].len, &lldp, &diag) !=
            MN_ERR_PROTO)
            fail_msg("row %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_nic_says_is_read),
        cmocka_unit_test(what_a_switch_says_is_read),
        cmocka_unit_test(whether_it_passes_on_is_what_is_in_use),
        cmocka_unit_test(what_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
