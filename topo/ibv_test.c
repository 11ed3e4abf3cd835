/* libibverbs through the run-time table; the library may be absent, devices may be absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "topo/ibv.h"

static void opens_once_or_says_why(void **state)
{
    (void)state;
    struct mn_diag diag = {0};
    const struct mn_ibv *ibv = mn_ibv_open(&diag);
    assert_ptr_equal(mn_ibv_open(NULL), ibv);
    if (!ibv) {
        assert_int_equal(diag.code, MN_ERR_UNSUPPORTED);
        assert_non_null(strstr(diag.text, "libibverbs.so.1"));
        skip();
    }
    assert_true(ibv->version[0] >= '1' && ibv->version[0] <= '9');
    int count = -1;
    struct ibv_device **list = ibv->get_device_list(&count);
    if (list) {
        assert_true(count >= 0);
        for (int i = 0; i < count; i++)
            assert_true(ibv->get_device_name(list[i])[0] != '\0');
        ibv->free_device_list(list);
    } else {
        assert_int_equal(errno, ENOSYS); /* a kernel without RDMA */
    }
}

static int query_extended(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                          size_t size)
{
    (void)context;
    assert_int_equal(size, sizeof *attr);
    attr->lid = (uint16_t)(100 + port);
    return 0;
}

static int query_compat(struct ibv_context *context, uint8_t port,
                        struct _compat_ibv_port_attr *attr)
{
    (void)context;
    ((struct ibv_port_attr *)attr)->lid = (uint16_t)(200 + port);
    return 0;
}

static void port_query_takes_the_newest_entry(void **state)
{
    (void)state;
    static struct verbs_context extended = {.sz = sizeof extended, .query_port = query_extended};
    static struct ibv_context plain;
    const struct mn_ibv ibv = {.query_port_compat = query_compat};
    struct ibv_port_attr attr;
    extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    memset(&attr, 0xff, sizeof attr);
    assert_int_equal(mn_ibv_query_port(&ibv, &extended.context, 1, &attr), 0);
    assert_int_equal(attr.lid, 101);
    assert_int_equal(attr.port_cap_flags2, 0);
    memset(&attr, 0xff, sizeof attr);
    assert_int_equal(mn_ibv_query_port(&ibv, &plain, 1, &attr), 0);
    assert_int_equal(attr.lid, 201);
    assert_int_equal(attr.port_cap_flags2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_once_or_says_why),
        cmocka_unit_test(port_query_takes_the_newest_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
