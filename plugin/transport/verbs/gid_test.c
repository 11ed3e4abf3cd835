/* Which GID a local address gets, over tables that are written here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plugin/transport/verbs/device_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

enum { V1 = MN_GID_ROCE_V1, V2 = MN_GID_ROCE_V2, IB = MN_GID_IB };

static struct verbs_device devices[] = {{.name = "roce0"}, {.name = "roce1"}, {.name = "ib0"}};
static struct verbs_port ports[4];
static struct verbs_gid gids[64];
static struct verbs_map map;
static char warned[4096];
static int n_warned;

static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    if (level > MN_LOG_WARN)
        return;
    size_t used = strlen(warned);
    snprintf(warned + used, sizeof warned - used, "%s\n", msg);
    n_warned++;
}

static union ibv_gid gid_of(const char *text)
{
    struct mn_addr addr;
    union ibv_gid gid = {{0}};
    assert_int_equal(mn_addr_parse(text, &addr, NULL), MN_OK);
    if (addr.family == AF_INET) {
        gid.raw[10] = gid.raw[11] = 0xff;
        memcpy(gid.raw + 12, addr.bytes, 4);
    } else {
        memcpy(gid.raw, addr.bytes, 16);
    }
    return gid;
}

static void add(int port, int index, const char *addr, int type, uint32_t ifindex)
{
    struct verbs_gid *gid = &gids[map.n_gids++];
    *gid = (struct verbs_gid){.port = &ports[port],
                              .index = (uint16_t)index,
                              .type = (enum mn_gid_type)type,
                              .ifindex = ifindex,
                              .gid = gid_of(addr)};
}

/* roce0 with one port, roce1 with two, ib0 with one; no GIDs. */
static int reset(void **state)
{
    (void)state;
    static const int device_of[] = {0, 1, 1, 2}, number_of[] = {1, 1, 2, 1};
    memset(gids, 0, sizeof gids);
    for (int i = 0; i < 4; i++)
        ports[i] = (struct verbs_port){.device = &devices[device_of[i]],
                                       .number = (uint8_t)number_of[i],
                                       .attr = {.state = IBV_PORT_ACTIVE,
                                                .active_mtu = IBV_MTU_4096,
                                                .max_msg_sz = 1u << 30,
                                                .lid = (uint16_t)(i == 3 ? 17 : 0),
                                                .link_layer = i == 3 ? IBV_LINK_LAYER_INFINIBAND
                                                                     : IBV_LINK_LAYER_ETHERNET}};
    map = (struct verbs_map){ports, 4, gids, 0};
    warned[0] = '\0';
    n_warned = 0;
    mn_log_set_sink(keep);
    return 0;
}

static struct mn_local local(const char *addr, uint32_t ifindex, const char *device, int port,
                             int gid_index)
{
    struct mn_local l = {.ifindex = ifindex, .rdma_port = port, .gid_index = gid_index};
    assert_int_equal(mn_addr_parse(addr, &l.addr, NULL), MN_OK);
    snprintf(l.netdev, sizeof l.netdev, "eth%u", ifindex);
    mn_strlcpy(l.rdma_device, device, sizeof l.rdma_device);
    return l;
}

/* The index chosen on the port given, which must be found. */
static void expect(struct mn_local l, int port, int index)
{
    struct verbs_place place;
    struct mn_diag diag = {0};
    assert_int_equal(verbs_place_on(&map, &l, &place, &diag), MN_OK);
    assert_ptr_equal(place.device, ports[port].device);
    assert_int_equal(place.port, ports[port].number);
    assert_int_equal(place.gid_index, index);
}

static void expect_error(struct mn_local l, enum mn_err err, const char *text)
{
    struct verbs_place place;
    struct mn_diag diag = {0};
    assert_int_equal(verbs_place_on(&map, &l, &place, &diag), err);
    if (!strstr(diag.text, text))
        fail_msg("\"%s\" does not say \"%s\"", diag.text, text);
}

static void the_place_is_told_whole(void **state)
{
    (void)state;
    add(0, 9, "10.0.1.1", V2, 2);
    struct mn_local l = local("10.0.1.1/24", 2, "roce0", 1, -1);
    struct verbs_place place;
    struct mn_diag diag;
    assert_int_equal(verbs_place_on(&map, &l, &place, &diag), MN_OK);
    union ibv_gid want = {{[10] = 0xff, 0xff, 10, 0, 1, 1}};
    assert_memory_equal(&place.gid, &want, sizeof want);
    assert_ptr_equal(place.device, &devices[0]);
    assert_int_equal(place.infiniband, 0);
    assert_int_equal(place.mtu, IBV_MTU_4096);
    assert_int_equal(place.gid_type, MN_GID_ROCE_V2);
    assert_int_equal(place.max_message, 1u << 30);
    assert_int_equal(n_warned, 0);
}

static void version_2_goes_before_1_over_holes(void **state)
{
    (void)state;
    add(0, 0, "fe80::1", V1, 2);
    add(0, 1, "fe80::1", V2, 2);
    add(0, 4, "10.0.1.2", V1, 2);
    add(0, 7, "10.0.1.2", V2, 2);
    add(0, 9, "10.0.1.2", V2, 2);
    expect(local("10.0.1.2", 2, "roce0", 1, -1), 0, 7);
    expect(local("10.0.1.2", 2, "", 0, -1), 0, 7);
    expect(local("fe80::1", 2, "roce0", 1, -1), 0, 1);
    assert_int_equal(n_warned, 0);
}

static void version_1_alone_is_used_and_told_once(void **state)
{
    (void)state;
    add(0, 3, "10.0.1.3", V1, 2);
    for (int i = 0; i < 3; i++)
        expect(local("10.0.1.3", 2, "roce0", 1, -1), 0, 3);
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "RoCE v1"));
    assert_non_null(strstr(warned, "roce0"));
}

static void a_gid_index_that_holds_is_honoured(void **state)
{
    (void)state;
    add(0, 2, "10.0.1.4", V1, 2);
    add(0, 5, "10.0.1.4", V2, 2);
    add(0, 8, "10.0.1.4", V2, 2);
    expect(local("10.0.1.4", 2, "roce0", 1, 8), 0, 8);
    expect(local("10.0.1.4", 2, "", 0, 8), 0, 8);
    assert_int_equal(n_warned, 0);
    expect(local("10.0.1.4", 2, "roce0", 1, 2), 0, 2);
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "the mesh file wants it"));
}

static void a_gid_index_that_drifted_is_given_up_with_one_warning(void **state)
{
    (void)state;
    add(0, 3, "10.9.9.9", V2, 2);
    add(0, 5, "10.0.1.5", V2, 2);
    for (int i = 0; i < 3; i++)
        expect(local("10.0.1.5", 2, "roce0", 1, 3), 0, 5);
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "gid_index 3 of roce0 port 1 is not 10.0.1.5 any more"));
    assert_non_null(strstr(warned, "holds 10.9.9.9 RoCE v2"));
    assert_non_null(strstr(warned, "index 5 is used"));

    expect(local("10.0.1.5", 2, "roce0", 1, 4), 0, 5);
    assert_int_equal(n_warned, 2);
    assert_non_null(strstr(warned, "it is empty; index 5"));
    /* Back where it was: nothing to say. */
    gids[1].index = 4;
    expect(local("10.0.1.5", 2, "roce0", 1, 4), 0, 4);
    assert_int_equal(n_warned, 2);
}

static void equal_addresses_are_told_apart_by_netdev(void **state)
{
    (void)state;
    static const char *const addrs[] = {"fe80::5", "169.254.1.5", "fd00::5"};
    for (int i = 0; i < 3; i++) {
        add(0, 2 * i, addrs[i], V2, 2);
        add(1, 2 * i + 1, addrs[i], V2, 3);
        add(2, 2 * i + 1, addrs[i], V2, 4);
    }
    for (int i = 0; i < 3; i++) {
        expect(local(addrs[i], 2, "", 0, -1), 0, 2 * i);
        expect(local(addrs[i], 3, "", 0, -1), 1, 2 * i + 1);
        expect(local(addrs[i], 4, "", 0, -1), 2, 2 * i + 1);
        expect(local(addrs[i], 4, "roce1", 2, -1), 2, 2 * i + 1);
    }
    assert_int_equal(n_warned, 0);
}

static void an_unknown_netdev_leaves_the_address_alone_to_decide(void **state)
{
    (void)state;
    add(0, 1, "10.0.1.6", V2, 0);
    add(1, 1, "10.0.2.6", V2, 0);
    expect(local("10.0.2.6", 3, "", 0, -1), 1, 1);
    expect(local("10.0.1.6", 2, "roce0", 1, -1), 0, 1);
    /* What is known goes before. */
    add(1, 4, "10.0.1.6", V2, 7);
    expect(local("10.0.1.6", 7, "", 0, -1), 1, 4);
    assert_int_equal(n_warned, 0);
}

static void another_device_of_the_netdev_is_used_with_one_warning(void **state)
{
    (void)state;
    add(0, 1, "fe80::7", V2, 2);
    add(2, 1, "10.0.1.7", V2, 3);
    for (int i = 0; i < 2; i++)
        expect(local("10.0.1.7", 3, "roce0", 1, 1), 2, 1);
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "not on roce0 port 1 as expected, but on roce1 port 2"));
    /* Another port of the named device goes before other devices. */
    add(0, 4, "10.0.9.7", V2, 9);
    add(2, 4, "10.0.9.7", V2, 9);
    expect(local("10.0.9.7", 9, "roce1", 1, -1), 2, 4);
    n_warned = 1;
    /* A device that is not there at all. */
    expect(local("10.0.1.7", 3, "renamed0", 1, -1), 2, 1);
    assert_int_equal(n_warned, 2);
}

static void a_bond_uses_the_port_that_is_active(void **state)
{
    (void)state;
    add(1, 3, "10.0.1.8", V2, 9);
    add(2, 3, "10.0.1.8", V2, 9);
    expect(local("10.0.1.8", 9, "", 0, -1), 1, 3);
    ports[1].attr.state = IBV_PORT_DOWN;
    expect(local("10.0.1.8", 9, "", 0, -1), 2, 3);
    expect(local("10.0.1.8", 9, "roce1", 0, -1), 2, 3);
    expect_error(local("10.0.1.8", 9, "roce1", 1, -1), MN_ERR_LINK_DEAD,
                 "roce1 port 1 (eth9) is DOWN: check the cable");
}

static void no_device_of_the_nic_is_unsupported(void **state)
{
    (void)state;
    add(0, 0, "fe80::9", V2, 2);
    add(0, 1, "10.0.1.9", V2, 2);
    expect_error(local("10.0.3.9", 3, "", 0, -1), MN_ERR_UNSUPPORTED, "eth3");
    expect_error(local("10.0.3.9", 3, "gone0", 1, -1), MN_ERR_UNSUPPORTED, "eth3");
    /* The same link-local address on another netdev is another's. */
    expect_error(local("fe80::9", 3, "", 0, -1), MN_ERR_UNSUPPORTED, "eth3");
    map.n_ports = map.n_gids = 0;
    expect_error(local("10.0.1.9", 2, "roce0", 1, -1), MN_ERR_UNSUPPORTED, "eth2");
}

static void no_gid_shows_the_table(void **state)
{
    (void)state;
    add(0, 0, "fe80::a", V2, 2);
    add(0, 3, "10.0.2.10", V1, 2);
    add(1, 0, "10.7.7.7", V2, 3);
    static const char *const table =
        "roce0 port 1 (eth2, ACTIVE) has no GID for 10.0.1.10; its table:\n"
        "  roce0 port 1 gid 0  fe80::a RoCE v2  ";
    expect_error(local("10.0.1.10/24", 2, "roce0", 1, -1), MN_ERR_CONFIG, table);
    expect_error(local("10.0.1.10/24", 2, "", 0, -1), MN_ERR_CONFIG, table);
    expect_error(local("10.0.1.10", 2, "roce0", 1, -1), MN_ERR_CONFIG,
                 "  roce0 port 1 gid 3  10.0.2.10 RoCE v1  ");
    expect_error(local("10.0.1.10", 4, "roce1", 2, -1), MN_ERR_CONFIG, "(empty)");
    expect_error(local("10.0.1.10", 4, "roce1", 7, -1), MN_ERR_CONFIG, "roce1 port 2");
    /* The address is there, but on another netdev. */
    expect_error(local("10.7.7.7", 8, "", 0, -1), MN_ERR_CONFIG, "roce1 port 1 (eth8");
    /* A long table leaves the message whole. */
    for (int i = 0; i < 40; i++)
        add(2, i, "fd00:1111:2222:3333:4444:5555:6666:7777", V2, 4);
    struct mn_local l = local("10.0.1.10", 4, "roce1", 2, -1);
    struct verbs_place place;
    struct mn_diag diag;
    assert_int_equal(verbs_place_on(&map, &l, &place, &diag), MN_ERR_CONFIG);
    assert_true(strlen(diag.text) < 600);
    assert_int_equal(diag.text[strlen(diag.text) - 1], '\n');
}

static void infiniband_has_its_port_gid_and_lid(void **state)
{
    (void)state;
    add(3, 0, "fe80::2:c903:1:1", IB, 0);
    add(3, 1, "fd00::1", IB, 0);
    struct mn_local l = local("10.0.1.11", 5, "ib0", 1, -1);
    struct verbs_place place;
    struct mn_diag diag;
    assert_int_equal(verbs_place_on(&map, &l, &place, &diag), MN_OK);
    assert_int_equal(place.infiniband, 1);
    assert_int_equal(place.lid, 17);
    assert_int_equal(place.gid_index, 0);
    assert_int_equal(place.gid_type, MN_GID_IB);
    assert_memory_equal(&place.gid, &gids[0].gid, sizeof place.gid);
    expect_error(local("10.0.1.11", 5, "", 0, -1), MN_ERR_UNSUPPORTED, "eth5");
    gids[0].ifindex = 5;
    expect(local("10.0.1.11", 5, "", 0, -1), 3, 0);
    assert_int_equal(n_warned, 0);
    ports[3].attr.state = IBV_PORT_INIT;
    expect_error(l, MN_ERR_LINK_DEAD, "ib0 port 1 (eth5) is INIT: check that a subnet manager");
}

static void a_table_is_cut_at_a_line(void **state)
{
    (void)state;
    add(0, 0, "10.0.1.12", V2, 2);
    add(1, 1, "10.0.2.12", V1, 3);
    add(1, 2, "fe80::12", V1, 4);
    add(2, 2, "::", V2, 0);
    char whole[1024];
    assert_ptr_equal(verbs_map_table(&map, NULL, 0, whole, sizeof whole), whole);
    size_t full = strlen(whole);
    assert_non_null(strstr(whole, "  roce0 port 1 gid 0  10.0.1.12 RoCE v2  "));
    assert_non_null(strstr(whole, "  roce1 port 2 gid 2  :: RoCE v2  -\n"));
    for (size_t size = 1; size <= full + 1; size++) {
        char buf[1024];
        memset(buf, 'x', sizeof buf);
        verbs_map_table(&map, NULL, 0, buf, size);
        size_t len = strlen(buf);
        assert_true(len < size);
        assert_true(len == 0 || buf[len - 1] == '\n');
        assert_memory_equal(buf, whole, len);
        assert_int_equal(buf[size], 'x');
    }
    /* All of a port that has the netdev, and nothing of others. */
    verbs_map_table(&map, NULL, 4, whole, sizeof whole);
    assert_null(strstr(whole, "roce0"));
    assert_non_null(strstr(whole, "roce1 port 1 gid 1"));
    assert_non_null(strstr(whole, "roce1 port 1 gid 2"));
    assert_null(strstr(whole, "port 2"));
    assert_string_equal(verbs_map_table(&map, NULL, 99, whole, sizeof whole), "");
}

/* --- reading -----------------------------------------------------------------------------------
 */

static struct ibv_context contexts[2];
static ssize_t answer;

static int query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
    if (context == &contexts[1] && port == 2)
        return EIO;
    attr->state = IBV_PORT_ACTIVE;
    attr->gid_tbl_len = 4;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t max, uint32_t flags, size_t size)
{
    assert_int_equal(flags, 0);
    assert_int_equal(size, sizeof *entries);
    static const struct ibv_gid_entry table[] = {
        {.gid_index = 2, .port_num = 2, .gid_type = IBV_GID_TYPE_ROCE_V2, .ndev_ifindex = 8},
        {.gid_index = 3, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2, .ndev_ifindex = 7},
        {.gid_index = 1, .port_num = 1, .gid_type = IBV_GID_TYPE_IB, .ndev_ifindex = 7},
    };
    size_t n = sizeof table / sizeof *table;
    if (answer < 0)
        return answer;
    assert_true(max >= (context == &contexts[0] ? 8 : 4));
    memcpy(entries, table, sizeof table);
    return (ssize_t)n;
}

static const struct mn_ibv library = {.query_port_compat = query_port,
                                      .query_gid_table = query_gid_table};

static void the_library_is_asked_for_all_ports(void **state)
{
    (void)state;
    struct verbs_device two[] =
        {{.ibv = &library, .context = &contexts[0], .name = "a", .attr.phys_port_cnt = 2},
         {.ibv = &library, .context = &contexts[1], .name = "b", .attr.phys_port_cnt = 2}};
    struct verbs_map read;
    struct mn_diag diag;
    answer = 0;
    assert_int_equal(verbs_map_read(two, 2, NULL, &read, &diag), MN_OK);
    /* b does not tell its second port, whose GIDs are left out. */
    assert_int_equal(read.n_ports, 3);
    assert_int_equal(read.n_gids, 5);
    static const struct {
        const char *device;
        int port, index, type;
        uint32_t ifindex;
    } rows[] = {{"a", 1, 1, V1, 7},
                {"a", 1, 3, V2, 7},
                {"a", 2, 2, V2, 8},
                {"b", 1, 1, V1, 7},
                {"b", 1, 3, V2, 7}};
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(read.gids[i].port->device->name, rows[i].device);
        assert_int_equal(read.gids[i].port->number, rows[i].port);
        assert_int_equal(read.gids[i].index, rows[i].index);
        assert_int_equal(read.gids[i].type, rows[i].type);
        assert_int_equal(read.gids[i].ifindex, rows[i].ifindex);
    }
    verbs_map_free(&read);
    assert_int_equal(verbs_map_read(two, 0, NULL, &read, &diag), MN_OK);
    assert_int_equal(read.n_ports + read.n_gids, 0);
    verbs_map_free(&read);
}

static void an_old_library_leaves_it_to_sysfs(void **state)
{
    (void)state;
    const struct mn_host_source src = {SOURCE_DIR "/tests/fixtures/irdma/sys",
                                       SOURCE_DIR "/tests/fixtures/irdma/netlink.json"};
    struct mn_host host;
    struct mn_diag diag;
    assert_int_equal(mn_host_read(&src, &host, &diag), MN_OK);
    const struct mn_rdma_port *port = NULL;
    for (size_t i = 0; i < host.n_rdma; i++)
        if (strcmp(host.rdma[i].device, "rocep24s0f0") == 0)
            port = &host.rdma[i];
    assert_non_null(port);
    assert_true(port->n_gids > 1);

    struct verbs_device device = {.ibv = &library,
                                  .context = &contexts[0],
                                  .name = "rocep24s0f0",
                                  .attr.phys_port_cnt = 1};
    struct verbs_map read;
    answer = -EOPNOTSUPP;
    assert_int_equal(verbs_map_read(&device, 1, &src, &read, &diag), MN_OK);
    assert_int_equal(read.n_gids, port->n_gids);
    for (size_t i = 0; i < read.n_gids; i++) {
        const struct mn_nic *nic = mn_host_nic(&host, port->gids[i].netdev);
        assert_int_equal(read.gids[i].index, port->gids[i].index);
        assert_int_equal(read.gids[i].type, port->gids[i].type);
        assert_memory_equal(read.gids[i].gid.raw, port->gids[i].raw, 16);
        assert_int_equal(read.gids[i].ifindex, nic ? nic->ifindex : 0);
    }
    verbs_map_free(&read);
    mn_host_free(&host);
}

static void a_host_without_devices_says_so(void **state)
{
    (void)state;
    struct verbs_device *real;
    if (verbs_devices(&real) > 0)
        skip();
    struct mn_local l = local("127.0.0.1", 1, "", 0, -1);
    struct verbs_place place;
    struct mn_diag diag = {0};
    char table[64] = "x";
    assert_int_equal(verbs_place_find(&l, &place, &diag), MN_ERR_UNSUPPORTED);
    assert_true(strlen(diag.text) > 0);
    assert_string_equal(verbs_gid_table(NULL, table, sizeof table), "");
    assert_string_equal(verbs_gid_table("no-such-netdev", table, sizeof table), "");
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_place_is_told_whole),
        TEST(version_2_goes_before_1_over_holes),
        TEST(version_1_alone_is_used_and_told_once),
        TEST(a_gid_index_that_holds_is_honoured),
        TEST(a_gid_index_that_drifted_is_given_up_with_one_warning),
        TEST(equal_addresses_are_told_apart_by_netdev),
        TEST(an_unknown_netdev_leaves_the_address_alone_to_decide),
        TEST(another_device_of_the_netdev_is_used_with_one_warning),
        TEST(a_bond_uses_the_port_that_is_active),
        TEST(no_device_of_the_nic_is_unsupported),
        TEST(no_gid_shows_the_table),
        TEST(infiniband_has_its_port_gid_and_lid),
        TEST(a_table_is_cut_at_a_line),
        TEST(the_library_is_asked_for_all_ports),
        TEST(an_old_library_leaves_it_to_sysfs),
        TEST(a_host_without_devices_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
