/* What libibverbs adds to the inventory, answered by a double of its symbol table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/ibv.h"
#include "topo/nic_read.h"

/* rocep24s0f0 answers, rocep24s0f1 cannot be opened, mlx9 is not in sysfs. */
static struct ibv_device devices[] = {{.name = "mlx9"},
                                      {.name = "rocep24s0f1"},
                                      {.name = "rocep24s0f0"}};
static struct ibv_device *list[] = {&devices[0], &devices[1], &devices[2], NULL};
static struct ibv_context context;
static int opened, freed;
static ssize_t gid_answer;

static struct ibv_device **get_list(int *count)
{
    *count = 3;
    return list;
}

static void free_list(struct ibv_device **devs)
{
    assert_ptr_equal(devs, list);
    freed++;
}

static const char *get_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    if (device == &devices[1]) {
        errno = EACCES;
        return NULL;
    }
    opened++;
    context.device = device;
    return &context;
}

static int close_device(struct ibv_context *ctx)
{
    assert_ptr_equal(ctx, &context);
    opened--;
    return 0;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    (void)ctx;
    snprintf(attr->fw_ver, sizeof attr->fw_ver, "9.9");
    attr->node_guid = htobe64(0x0102030405060708);
    attr->vendor_id = 0x8086;
    attr->max_qp = 65533;
    attr->max_mr_size = UINT64_MAX;
    attr->atomic_cap = IBV_ATOMIC_HCA;
    attr->phys_port_cnt = 1;
    return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *compat)
{
    (void)ctx;
    assert_int_equal(port, 1);
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;
    attr->active_mtu = IBV_MTU_1024;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_width = 2;
    attr->gid_tbl_len = 32;
    attr->lid = 1;
    attr->max_msg_sz = 1u << 31;
    return 0;
}

static ssize_t query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
                               uint32_t flags, size_t entry_size)
{
    (void)ctx;
    assert_int_equal(flags, 0);
    assert_int_equal(entry_size, sizeof *entries);
    assert_int_equal(max, 32);
    static const struct ibv_gid_entry answer[] = {
        {.gid_index = 3,
         .port_num = 1,
         .gid_type = IBV_GID_TYPE_ROCE_V1,
         .ndev_ifindex = 2,
         .gid.raw = {[10] = 0xff, 0xff, 10, 20, 0, 0}},
        {.gid_index = 4,
         .port_num = 2,
         .gid_type = IBV_GID_TYPE_ROCE_V2,
         .ndev_ifindex = 2,
         .gid.raw = {[10] = 0xff, 0xff, 10, 20, 0, 0}},
        {.gid_index = 17,
         .port_num = 1,
         .gid_type = IBV_GID_TYPE_ROCE_V2,
         .ndev_ifindex = 2,
         .gid.raw = {[10] = 0xff, 0xff, 10, 20, 0, 0}},
        {.gid_index = 20,
         .port_num = 1,
         .gid_type = IBV_GID_TYPE_ROCE_V2,
         .ndev_ifindex = 99,
         .gid.raw = {0xfe, 0x80, [15] = 1}},
    };
    if (gid_answer < 0)
        return gid_answer;
    memcpy(entries, answer, sizeof answer);
    return sizeof answer / sizeof *answer;
}

static const struct mn_ibv library = {
    .version = "1.14",
    .get_device_list = get_list,
    .free_device_list = free_list,
    .get_device_name = get_name,
    .open_device = open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port_compat = query_port,
    .query_gid_table = query_gid_table,
};

static struct mn_host ask(ssize_t gids)
{
    const struct mn_host_source src = {SOURCE_DIR "/tests/fixtures/irdma/sys",
                                       SOURCE_DIR "/tests/fixtures/irdma/netlink.json"};
    struct mn_host host;
    struct mn_diag diag;
    gid_answer = gids;
    opened = freed = 0;
    assert_int_equal(mn_host_read(&src, &host, &diag), MN_OK);
    assert_int_equal(mn_host_ask_verbs(&library, &host, &diag), MN_OK);
    assert_int_equal(opened, 0);
    assert_int_equal(freed, 1);
    return host;
}

static void attributes_are_laid_over_sysfs(void **state)
{
    (void)state;
    struct mn_host host = ask(0);
    const struct mn_rdma_port *port = &host.rdma[0];
    assert_int_equal(port->from_verbs, 1);
    assert_string_equal(port->fw_ver, "9.9");
    assert_int_equal(port->node_guid, 0x0102030405060708);
    assert_int_equal(port->vendor_id, 0x8086);
    assert_int_equal(port->max_qp, 65533);
    assert_int_equal(port->max_mr_size, UINT64_MAX);
    assert_string_equal(port->atomic_cap, "HCA");
    assert_int_equal(port->active_mtu, 1024);
    assert_int_equal(port->max_mtu, 4096);
    assert_int_equal(port->active_width, 4);
    assert_int_equal(port->gid_tbl_len, 32);
    assert_int_equal(port->max_msg_sz, 1u << 31);
    assert_string_equal(port->state, "ACTIVE"); /* kept from sysfs */
    assert_int_equal(port->rate_mbps, 100000);
    mn_host_free(&host);
}

static void gid_table_replaces_the_one_of_sysfs(void **state)
{
    (void)state;
    struct mn_host host = ask(0);
    const struct mn_rdma_port *port = &host.rdma[0];
    struct mn_addr addr;
    assert_int_equal(port->n_gids, 3); /* the other port's entry is left out */
    assert_int_equal(mn_addr_parse("10.20.0.0", &addr, NULL), MN_OK);
    const struct mn_gid *gid = mn_rdma_gid_for(port, &addr);
    assert_non_null(gid);
    assert_int_equal(gid->index, 17);
    assert_string_equal(gid->netdev, "ens2f0");
    assert_string_equal(port->gids[2].netdev, ""); /* a netdev of another namespace */
    assert_int_equal(port->gids[2].addr.family, AF_INET6);
    mn_host_free(&host);
}

static void an_old_library_leaves_sysfs_gids(void **state)
{
    (void)state;
    struct mn_host host = ask(-EOPNOTSUPP);
    assert_int_equal(host.rdma[0].from_verbs, 1);
    assert_int_equal(host.rdma[0].n_gids, 3);
    assert_int_equal(host.rdma[0].gids[1].index, 1);
    mn_host_free(&host);
}

static void a_device_that_cannot_be_opened_is_named(void **state)
{
    (void)state;
    struct mn_host host = ask(0);
    assert_int_equal(host.rdma[1].from_verbs, 0);
    assert_int_equal(host.rdma[1].n_gids, 3);
    assert_non_null(strstr(host.verbs, "cannot open rocep24s0f1: Permission denied"));
    mn_host_free(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_laid_over_sysfs),
        cmocka_unit_test(gid_table_replaces_the_one_of_sysfs),
        cmocka_unit_test(an_old_library_leaves_sysfs_gids),
        cmocka_unit_test(a_device_that_cannot_be_opened_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
