/* Recorded netlink answers: every mistake in one is named with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/nic.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SYSFS        SOURCE_DIR "/tests/fixtures/irdma/sys"

static void wrong_recordings_are_explained(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "empty"},
        {"{\n\"links\": [,]}", ":2:11: not JSON"},
        {"[]", "\"links\""},
        {"{\"links\": [", "not JSON"},
        {"{\"links\": {}, \"addresses\": []}", "\"links\""},
        {"{\"memlock\": \"much\", \"links\": [], \"addresses\": []}", "\"memlock\""},
        {"{\"links\": []}", "\"addresses\""},
        {"{\"links\": [1], \"addresses\": []}", ":1:12: \"name\""},
        {"{\"links\": [{\"name\": \"a/b\", \"ifindex\": 1}], \"addresses\": []}", "\"name\""},
        {"{\"links\": [{\"name\": \"abcdefghijklmnop\", \"ifindex\": 1}], \"addresses\": []}",
         "\"name\""},
        {"{\"links\": [{\"name\": \"a\"}], \"addresses\": []}", "\"ifindex\""},
        {"{\"links\": [{\"name\": \"a\", \"ifindex\": 1.5}], \"addresses\": []}", "\"ifindex\""},
        {"{\"links\": [{\"name\": \"a\", \"ifindex\": 1, \"mtu\": -1}], \"addresses\": []}",
         "\"mtu\""},
        {"{\"links\": [{\"name\": \"a\", \"ifindex\": 1, \"mac\": \"02:00\"}], \"addresses\": []}",
         "\"mac\""},
        {"{\"links\": [{\"name\": \"a\", \"ifindex\": 1, \"type\": \"x\"}], \"addresses\": []}",
         "\"type\""},
        {"{\"links\": [], \"addresses\": [{\"ifindex\": 1, \"family\": \"inet\", \"address\": "
         "\"10.0.0.1\", \"prefix\": 24}]}",
         ":1:29: \"ifindex\""},
        {"{\"links\": [], \"addresses\": [{\"ifindex\": 1, \"family\": \"inet6\", \"address\": "
         "\"10.0.0.1\", \"prefix\": 24}]}",
         "\"family\""},
        {"{\"links\": [], \"addresses\": [{\"ifindex\": 1, \"family\": \"inet\", \"address\": "
         "\"10.0.0.1\", \"prefix\": 33}]}",
         "\"prefix\""},
        {"{\"links\": [], \"addresses\": [{\"ifindex\": 1, \"family\": \"inet\", \"address\": "
         "\"10.0.0.1/24\", \"prefix\": 24}]}",
         "\"address\""},
        {"{\"links\": [], \"addresses\": [], \"routes\": {}}", "\"routes\""},
        {"{\"links\": [], \"addresses\": [], \"routes\": [{\"to\": \"default\"}]}", "\"ifindex\""},
        {"{\"links\": [], \"addresses\": [], \"routes\": [{\"ifindex\": 1, \"to\": \"x\"}]}",
         "\"to\""},
        {"{\"links\": [], \"addresses\": [], \"routes\": [{\"ifindex\": 1, \"to\": \"default\", "
         "\"via\": \"10.0.0.1/8\"}]}",
         "\"via\""},
        {"{\"links\": [], \"addresses\": [], \"neighbours\": [{\"ifindex\": 1, \"address\": "
         "\"10.0.0.1/8\"}]}",
         "\"address\""},
        {"{\"links\": [], \"addresses\": [], \"neighbours\": [{\"ifindex\": 1, \"address\": "
         "\"10.0.0.1\", \"mac\": \"02\"}]}",
         "\"mac\""},
    };
    char path[] = "/tmp/meshnet-nic-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const struct mn_host_source src = {.sysfs = SYSFS, .netlink = path};
    for (size_t i = 0; i < COUNT(rows); i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(rows[i][0], file);
        fclose(file);
        struct mn_host host;
        struct mn_diag diag;
        assert_int_equal(mn_host_read(&src, &host, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, path));
        assert_non_null(strstr(diag.text, rows[i][1]));
        mn_host_free(&host);
    }
    unlink(path);
}

static void half_a_recording_is_refused(void **state)
{
    (void)state;
    static const struct mn_host_source rows[] = {{.sysfs = SYSFS}, {.netlink = "netlink.json"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mn_host host;
        struct mn_diag diag;
        assert_int_equal(mn_host_read(&rows[i], &host, &diag), MN_ERR_USAGE);
        mn_host_free(&host);
    }
}

/* Gateways, leases and neighbours, each host of a subnet once, whatever its addresses. */
static void what_surrounds_a_nic_is_read(void **state)
{
    (void)state;
    const struct mn_host_source src = {.sysfs = SOURCE_DIR "/tests/fixtures/spark-lan-a/sys",
                                       .netlink =
                                           SOURCE_DIR "/tests/fixtures/spark-lan-a/netlink.json"};
    struct mn_host host;
    struct mn_diag diag;
    char text[MN_ADDR_TEXT];
    assert_int_equal(mn_host_read(&src, &host, &diag), MN_OK);
    const struct mn_nic *lan = mn_host_nic(&host, "enP7s7");
    const struct mn_nic *cable = mn_host_nic(&host, "enp1s0f0np0");
    const struct mn_nic *wireless = mn_host_nic(&host, "wlP9s9");
    assert_true(lan->default_route && lan->leased && lan->hosts == 3 && !lan->wireless);
    assert_string_equal(mn_addr_format(&lan->gateway, text, sizeof text), "192.0.2.1");
    assert_int_equal(lan->gateway_prefix, 0);
    assert_true(!cable->default_route && !cable->leased && cable->hosts == 1);
    assert_int_equal(cable->gateway.family, 0);
    assert_true(wireless->wireless && wireless->default_route);
    mn_host_free(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_recordings_are_explained),
        cmocka_unit_test(half_a_recording_is_refused),
        cmocka_unit_test(what_surrounds_a_nic_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
