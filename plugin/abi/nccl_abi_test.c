/* The layouts of nccl_abi.h against a table of facts taken from the ABI's own headers: every struct
 * and member, nothing left over on either side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

struct row {
    const char *type, *member; /* no member: the size of the type */
    size_t value;
};
#define SIZE(type)                                                                                 \
    {                                                                                              \
#type, NULL, sizeof(type)                                                                  \
    }
#define AT(type, member)                                                                           \
    {                                                                                              \
#type, #member, offsetof(type, member)                                                     \
    }

static const struct row rows[] = {
    SIZE(ncclNetCommConfig_v10_t),
    AT(ncclNetCommConfig_v10_t, trafficClass),
    SIZE(ncclNetDeviceHandle_v7_t),
    AT(ncclNetDeviceHandle_v7_t, netDeviceType),
    AT(ncclNetDeviceHandle_v7_t, netDeviceVersion),
    AT(ncclNetDeviceHandle_v7_t, handle),
    AT(ncclNetDeviceHandle_v7_t, size),
    AT(ncclNetDeviceHandle_v7_t, needsProxyProgress),
    SIZE(ncclNetProperties_v10_t),
    AT(ncclNetProperties_v10_t, name),
    AT(ncclNetProperties_v10_t, pciPath),
    AT(ncclNetProperties_v10_t, guid),
    AT(ncclNetProperties_v10_t, ptrSupport),
    AT(ncclNetProperties_v10_t, regIsGlobal),
    AT(ncclNetProperties_v10_t, forceFlush),
    AT(ncclNetProperties_v10_t, speed),
    AT(ncclNetProperties_v10_t, port),
    AT(ncclNetProperties_v10_t, latency),
    AT(ncclNetProperties_v10_t, maxComms),
    AT(ncclNetProperties_v10_t, maxRecvs),
    AT(ncclNetProperties_v10_t, netDeviceType),
    AT(ncclNetProperties_v10_t, netDeviceVersion),
    AT(ncclNetProperties_v10_t, vProps),
    AT(ncclNetProperties_v10_t, maxP2pBytes),
    AT(ncclNetProperties_v10_t, maxCollBytes),
    SIZE(ncclNetProperties_v8_t),
    AT(ncclNetProperties_v8_t, name),
    AT(ncclNetProperties_v8_t, pciPath),
    AT(ncclNetProperties_v8_t, guid),
    AT(ncclNetProperties_v8_t, ptrSupport),
    AT(ncclNetProperties_v8_t, regIsGlobal),
    AT(ncclNetProperties_v8_t, speed),
    AT(ncclNetProperties_v8_t, port),
    AT(ncclNetProperties_v8_t, latency),
    AT(ncclNetProperties_v8_t, maxComms),
    AT(ncclNetProperties_v8_t, maxRecvs),
    AT(ncclNetProperties_v8_t, netDeviceType),
    AT(ncclNetProperties_v8_t, netDeviceVersion),
    SIZE(ncclNetProperties_v9_t),
    AT(ncclNetProperties_v9_t, name),
    AT(ncclNetProperties_v9_t, pciPath),
    AT(ncclNetProperties_v9_t, guid),
    AT(ncclNetProperties_v9_t, ptrSupport),
    AT(ncclNetProperties_v9_t, regIsGlobal),
    AT(ncclNetProperties_v9_t, forceFlush),
    AT(ncclNetProperties_v9_t, speed),
    AT(ncclNetProperties_v9_t, port),
    AT(ncclNetProperties_v9_t, latency),
    AT(ncclNetProperties_v9_t, maxComms),
    AT(ncclNetProperties_v9_t, maxRecvs),
    AT(ncclNetProperties_v9_t, netDeviceType),
    AT(ncclNetProperties_v9_t, netDeviceVersion),
    AT(ncclNetProperties_v9_t, vProps),
    AT(ncclNetProperties_v9_t, maxP2pBytes),
    AT(ncclNetProperties_v9_t, maxCollBytes),
    SIZE(ncclNetVDeviceProps_v10_t),
    AT(ncclNetVDeviceProps_v10_t, ndevs),
    AT(ncclNetVDeviceProps_v10_t, devs),
    SIZE(ncclNetVDeviceProps_v9_t),
    AT(ncclNetVDeviceProps_v9_t, ndevs),
    AT(ncclNetVDeviceProps_v9_t, devs),
    SIZE(ncclNet_v10_t),
    AT(ncclNet_v10_t, name),
    AT(ncclNet_v10_t, init),
    AT(ncclNet_v10_t, devices),
    AT(ncclNet_v10_t, getProperties),
    AT(ncclNet_v10_t, listen),
    AT(ncclNet_v10_t, connect),
    AT(ncclNet_v10_t, accept),
    AT(ncclNet_v10_t, regMr),
    AT(ncclNet_v10_t, regMrDmaBuf),
    AT(ncclNet_v10_t, deregMr),
    AT(ncclNet_v10_t, isend),
    AT(ncclNet_v10_t, irecv),
    AT(ncclNet_v10_t, iflush),
    AT(ncclNet_v10_t, test),
    AT(ncclNet_v10_t, closeSend),
    AT(ncclNet_v10_t, closeRecv),
    AT(ncclNet_v10_t, closeListen),
    AT(ncclNet_v10_t, getDeviceMr),
    AT(ncclNet_v10_t, irecvConsumed),
    AT(ncclNet_v10_t, makeVDevice),
    SIZE(ncclNet_v8_t),
    AT(ncclNet_v8_t, name),
    AT(ncclNet_v8_t, init),
    AT(ncclNet_v8_t, devices),
    AT(ncclNet_v8_t, getProperties),
    AT(ncclNet_v8_t, listen),
    AT(ncclNet_v8_t, connect),
    AT(ncclNet_v8_t, accept),
    AT(ncclNet_v8_t, regMr),
    AT(ncclNet_v8_t, regMrDmaBuf),
    AT(ncclNet_v8_t, deregMr),
    AT(ncclNet_v8_t, isend),
    AT(ncclNet_v8_t, irecv),
    AT(ncclNet_v8_t, iflush),
    AT(ncclNet_v8_t, test),
    AT(ncclNet_v8_t, closeSend),
    AT(ncclNet_v8_t, closeRecv),
    AT(ncclNet_v8_t, closeListen),
    AT(ncclNet_v8_t, getDeviceMr),
    AT(ncclNet_v8_t, irecvConsumed),
    SIZE(ncclNet_v9_t),
    AT(ncclNet_v9_t, name),
    AT(ncclNet_v9_t, init),
    AT(ncclNet_v9_t, devices),
    AT(ncclNet_v9_t, getProperties),
    AT(ncclNet_v9_t, listen),
    AT(ncclNet_v9_t, connect),
    AT(ncclNet_v9_t, accept),
    AT(ncclNet_v9_t, regMr),
    AT(ncclNet_v9_t, regMrDmaBuf),
    AT(ncclNet_v9_t, deregMr),
    AT(ncclNet_v9_t, isend),
    AT(ncclNet_v9_t, irecv),
    AT(ncclNet_v9_t, iflush),
    AT(ncclNet_v9_t, test),
    AT(ncclNet_v9_t, closeSend),
    AT(ncclNet_v9_t, closeRecv),
    AT(ncclNet_v9_t, closeListen),
    AT(ncclNet_v9_t, getDeviceMr),
    AT(ncclNet_v9_t, irecvConsumed),
    AT(ncclNet_v9_t, makeVDevice),
};
#define N_ROWS (sizeof rows / sizeof *rows)

static void test_layouts(void **state)
{
    const char *path = SOURCE_DIR "/tests/fixtures/nccl-abi.json";
    size_t len = 0, facts = 0;
    char *text = NULL;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_file_read(path, 1 << 20, &text, &len, &diag), MN_OK);
    cJSON *root = cJSON_ParseWithLength(text, len);
    const cJSON *structs = cJSON_GetObjectItemCaseSensitive(root, "structs"), *type;
    assert_non_null(structs);
    cJSON_ArrayForEach(type, structs) facts +=
        1 + (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(type, "members"));
    assert_int_equal(facts, N_ROWS);
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *r = &rows[i];
        type = cJSON_GetObjectItemCaseSensitive(structs, r->type);
        const cJSON *fact =
            r->member
                ? cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(type,
                                                                                    "members"),
                                                   r->member)
                : cJSON_GetObjectItemCaseSensitive(type, "sizeof");
        if (!cJSON_IsNumber(fact))
            fail_msg("%s.%s: not in %s", r->type, r->member ? r->member : "sizeof", path);
        if (fact->valueint != (int)r->value)
            fail_msg("%s.%s: %zu here, %d in %s", r->type, r->member ? r->member : "sizeof",
                     r->value, fact->valueint, path);
    }
    cJSON_Delete(root);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
