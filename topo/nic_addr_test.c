/* Addresses: text, subnets under both real netmasks, socket addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "topo/nic.h"

static struct mn_addr parsed(const char *text)
{
    struct mn_addr addr;
    struct mn_diag diag;
    assert_int_equal(mn_addr_parse(text, &addr, &diag), MN_OK);
    return addr;
}

static void text_round_trip(void **state)
{
    (void)state;
    static const char *const rows[] = {"10.0.1.1/24",    "10.0.1.1",   "0.0.0.0/0", "10.0.0.0/31",
                                       "192.0.2.255/32", "fe80::1/64", "::1",       "fd00::/128"};
    char buf[MN_ADDR_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_addr addr = parsed(rows[i]);
        assert_string_equal(mn_addr_format(&addr, buf, sizeof buf), rows[i]);
    }
    assert_int_equal(parsed("10.0.1.1").prefix, -1);
    struct mn_addr none = {0};
    assert_string_equal(mn_addr_format(&none, buf, sizeof buf), "-");
}

static void bad_text_is_quoted(void **state)
{
    (void)state;
    static const char *const rows[] =
        {"",
         "10.0.1",
         "10.0.1.256",
         "10.0.1.1/",
         "10.0.1.1/33",
         "10.0.1.1/-1",
         "10.0.1.1/+8",
         "10.0.1.1/ 8",
         "10.0.1.1/2x4",
         "10.0.1.1 ",
         "fe80::1/129",
         "fe80::1%eth0",
         "/24",
         "host",
         "1.1.1.1/024x",
         "::1/64/64",
         "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_addr addr;
        struct mn_diag diag;
        assert_int_equal(mn_addr_parse(rows[i], &addr, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, rows[i]));
        assert_non_null(strstr(diag.text, "expected"));
    }
}

static void subnets_under_both_netmasks(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int shared;
    } rows[] = {
        {"10.0.1.1/24", "10.0.1.2/24", 1},
        {"10.0.1.1/24", "10.0.2.1/24", 0},
        {"10.0.1.0/31", "10.0.1.1/31", 1},
        {"10.0.1.1/31", "10.0.1.2/31", 0},
        {"10.0.1.1/30", "10.0.1.2/24", 1},
        {"10.0.1.1/30", "10.0.1.5/24", 0}, /* inside the /24, outside the /30 */
        {"10.0.1.5/24", "10.0.1.1/30", 0},
        {"10.0.1.1/16", "10.0.2.1/24", 0},
        {"10.0.1.1/0", "192.0.2.1/0", 1},
        {"10.0.1.1/32", "10.0.1.1/24", 1},
        {"10.0.1.1/32", "10.0.1.2/24", 0},
        {"10.0.1.1", "10.0.1.2/24", 0},
        {"10.128.0.1/9", "10.255.0.1/9", 1},
        {"10.127.0.1/9", "10.128.0.1/9", 0},
        {"fe80::1/64", "fe80::2/64", 1},
        {"fe80::1/64", "fe80:0:0:1::2/64", 0},
        {"fd00::1/127", "fd00::/127", 1},
        {"fd00::1/127", "fd00::2/64", 0},
        {"10.0.1.1/24", "fe80::1/64", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_addr a = parsed(rows[i].a), b = parsed(rows[i].b);
        assert_int_equal(mn_addr_share_subnet(&a, &b), rows[i].shared);
        assert_int_equal(mn_addr_share_subnet(&b, &a), rows[i].shared);
    }
    struct mn_addr none = {0};
    assert_false(mn_addr_share_subnet(&none, &none));
}

static void network_masks_host_bits(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"10.0.1.7/24", "10.0.1.0/24"},
                                          {"10.0.1.7/31", "10.0.1.6/31"},
                                          {"10.0.1.7/32", "10.0.1.7/32"},
                                          {"10.0.1.7/0", "0.0.0.0/0"},
                                          {"10.0.1.7", "10.0.1.7"},
                                          {"fd00::ffff/121", "fd00::ff80/121"}};
    char buf[MN_ADDR_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_addr addr = parsed(rows[i][0]), net = mn_addr_network(&addr);
        assert_string_equal(mn_addr_format(&net, buf, sizeof buf), rows[i][1]);
    }
}

static void kinds_of_address(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int loopback, link_local;
    } rows[] = {{"127.0.0.1/8", 1, 0}, {"127.9.9.9", 1, 0},
                {"128.0.0.1", 0, 0},   {"::1", 1, 0},
                {"::2", 0, 0},         {"fe80::1", 0, 1},
                {"febf::1", 0, 1},     {"fec0::1", 0, 0},
                {"169.254.1.1", 0, 0}, {"::ffff:127.0.0.1", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_addr addr = parsed(rows[i].text);
        assert_int_equal(mn_addr_is_loopback(&addr), rows[i].loopback);
        assert_int_equal(mn_addr_is_link_local(&addr), rows[i].link_local);
    }
    struct mn_addr a = parsed("10.0.1.1/24"), b = parsed("10.0.1.1/16"), c = parsed("10.0.1.2/24");
    struct mn_addr v6 = parsed("::1"), none = {0};
    assert_true(mn_addr_equal(&a, &b));
    assert_false(mn_addr_equal(&a, &c));
    assert_false(mn_addr_equal(&a, &v6));
    assert_false(mn_addr_equal(&none, &none));
}

static void socket_addresses(void **state)
{
    (void)state;
    struct sockaddr_storage ss;
    struct mn_addr v4 = parsed("10.0.1.1/24"), ll = parsed("fe80::1/64"), v6 = parsed("fd00::1");
    assert_int_equal(mn_addr_sockaddr(&v4, 4711, 3, &ss), sizeof(struct sockaddr_in));
    const struct sockaddr_in *in = (const struct sockaddr_in *)&ss;
    assert_int_equal(in->sin_family, AF_INET);
    assert_int_equal(ntohs(in->sin_port), 4711);
    assert_int_equal(ntohl(in->sin_addr.s_addr), 0x0a000101);
    assert_int_equal(mn_addr_sockaddr(&ll, 1, 3, &ss), sizeof(struct sockaddr_in6));
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&ss;
    assert_int_equal(in6->sin6_family, AF_INET6);
    assert_int_equal(in6->sin6_scope_id, 3);
    assert_memory_equal(&in6->sin6_addr, ll.bytes, 16);
    mn_addr_sockaddr(&v6, 1, 3, &ss);
    assert_int_equal(in6->sin6_scope_id, 0);
}

static void socket_addresses_back(void **state)
{
    (void)state;
    struct sockaddr_storage ss;
    struct mn_addr v4 = parsed("10.0.1.1"), v6 = parsed("fd00::1"), got;
    mn_addr_sockaddr(&v4, 4711, 0, &ss);
    assert_int_equal(mn_addr_from_sockaddr((struct sockaddr *)&ss, &got), 4711);
    assert_true(mn_addr_equal(&got, &v4) && got.prefix == -1);
    mn_addr_sockaddr(&v6, 80, 0, &ss);
    assert_int_equal(mn_addr_from_sockaddr((struct sockaddr *)&ss, &got), 80);
    assert_true(mn_addr_equal(&got, &v6));
    struct mn_addr mapped = parsed("::ffff:10.0.1.1");
    mn_addr_sockaddr(&mapped, 1, 0, &ss);
    assert_int_equal(mn_addr_from_sockaddr((struct sockaddr *)&ss, &got), 1);
    assert_true(mn_addr_equal(&got, &v4));
    ss.ss_family = AF_UNIX;
    assert_int_equal(mn_addr_from_sockaddr((struct sockaddr *)&ss, &got), -1);
    assert_int_equal(got.family, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(bad_text_is_quoted),
        cmocka_unit_test(subnets_under_both_netmasks),
        cmocka_unit_test(network_masks_host_bits),
        cmocka_unit_test(kinds_of_address),
        cmocka_unit_test(socket_addresses),
        cmocka_unit_test(socket_addresses_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
