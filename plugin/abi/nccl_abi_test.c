/* The layouts of nccl_abi.h and nccl_coll_abi.h against a table of facts taken from the ABI's own
 * headers: every struct and member, nothing left over on either side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "plugin/abi/nccl_coll_abi.h"
#include "topo/base/alloc.h"

struct row {
    const char *type, *member; /* no member: the size of the type */
    size_t offset, size;
};

/* clang-format off */
#define SIZE(T) {#T, NULL, 0, sizeof(T)}
#define AT(T, member) {#T, #member, offsetof(T, member), sizeof(((T *)NULL)->member)}

#define PROPS_HEAD(T) SIZE(T), AT(T, name), AT(T, pciPath), AT(T, guid), AT(T, ptrSupport)
#define PROPS_V4(T) PROPS_HEAD(T), AT(T, speed), AT(T, port), AT(T, maxComms)
#define PROPS_V5(T) PROPS_V4(T), AT(T, latency), AT(T, maxRecvs)
#define PROPS_V7(T) PROPS_V5(T), AT(T, netDeviceType), AT(T, netDeviceVersion)
#define PROPS_V8(T) PROPS_V7(T), AT(T, regIsGlobal)
#define PROPS_V9(T) \
    PROPS_V8(T), AT(T, forceFlush), AT(T, vProps), AT(T, maxP2pBytes), AT(T, maxCollBytes)
#define PROPS_V11(T) PROPS_V9(T), AT(T, maxMultiRequestSize)
#define PROPS_V12(T) PROPS_V11(T), AT(T, railId), AT(T, planeId)

#define NET_V4(T) \
    SIZE(T), AT(T, name), AT(T, init), AT(T, devices), AT(T, getProperties), AT(T, listen), \
    AT(T, connect), AT(T, accept), AT(T, regMr), AT(T, deregMr), AT(T, isend), AT(T, irecv), \
    AT(T, iflush), AT(T, test), AT(T, closeSend), AT(T, closeRecv), AT(T, closeListen)
#define NET_V6(T) NET_V4(T), AT(T, regMrDmaBuf)
#define NET_V7(T) NET_V6(T), AT(T, getDeviceMr), AT(T, irecvConsumed)
#define NET_V9(T) NET_V7(T), AT(T, makeVDevice)
#define NET_V11(T) NET_V9(T), AT(T, finalize), AT(T, setNetAttr)

#define COLL_V8(T) \
    SIZE(T), AT(T, name), AT(T, init), AT(T, devices), AT(T, getProperties), AT(T, listen), \
    AT(T, connect), AT(T, reduceSupport), AT(T, regMr), AT(T, regMrDmaBuf), AT(T, deregMr), \
    AT(T, iallreduce), AT(T, iallgather), AT(T, ireducescatter), AT(T, iflush), AT(T, test), \
    AT(T, closeColl), AT(T, closeListen)
#define COLL_V9(T) COLL_V8(T), AT(T, makeVDevice)
#define COLL_V11(T) COLL_V9(T), AT(T, finalize)

#define CONFIG(T) SIZE(T), AT(T, trafficClass)
#define VDEVICE(T) SIZE(T), AT(T, ndevs), AT(T, devs)
#define SGE(T) SIZE(T), AT(T, mhandle), AT(T, address), AT(T, size)
#define ATTR(T) \
    SIZE(T), AT(T, sendCommAttr), AT(T, recvCommAttr), AT(T, op), AT(T, algo), AT(T, proto)
#define COMM_ATTR(T) \
    SIZE(T), AT(T, maxConcurrentPeers), AT(T, minConcurrentPeers), AT(T, maxFlowsPerPeer), \
    AT(T, minFlowsPerPeer)
#define DEVICE_HANDLE(T) \
    SIZE(T), AT(T, netDeviceType), AT(T, netDeviceVersion), AT(T, handle), AT(T, size), \
    AT(T, needsProxyProgress)

static const struct row rows[] = {
    NET_V4(ncclNet_v4_t),
    NET_V4(ncclNet_v5_t),
    NET_V6(ncclNet_v6_t),
    NET_V7(ncclNet_v7_t),
    NET_V7(ncclNet_v8_t),
    NET_V9(ncclNet_v9_t),
    NET_V9(ncclNet_v10_t),
    NET_V11(ncclNet_v11_t),
    NET_V11(ncclNet_v12_t),
    COLL_V8(ncclCollNet_v8_t),
    COLL_V9(ncclCollNet_v9_t),
    COLL_V9(ncclCollNet_v10_t),
    COLL_V11(ncclCollNet_v11_t),
    COLL_V11(ncclCollNet_v12_t),
    PROPS_V4(ncclNetProperties_v4_t),
    PROPS_V5(ncclNetProperties_v5_t),
    PROPS_V5(ncclNetProperties_v6_t),
    PROPS_V7(ncclNetProperties_v7_t),
    PROPS_V8(ncclNetProperties_v8_t),
    PROPS_V9(ncclNetProperties_v9_t),
    PROPS_V9(ncclNetProperties_v10_t),
    PROPS_V11(ncclNetProperties_v11_t),
    PROPS_V12(ncclNetProperties_v12_t),
    DEVICE_HANDLE(ncclNetDeviceHandle_v7_t),
    VDEVICE(ncclNetVDeviceProps_v9_t),
    VDEVICE(ncclNetVDeviceProps_v10_t),
    VDEVICE(ncclNetVDeviceProps_v11_t),
    VDEVICE(ncclNetVDeviceProps_v12_t),
    CONFIG(ncclNetCommConfig_v10_t),
    CONFIG(ncclNetCommConfig_v11_t),
    CONFIG(ncclNetCommConfig_v12_t),
    ATTR(ncclNetAttr_v11_t),
    ATTR(ncclNetAttr_v12_t),
    COMM_ATTR(ncclNetCommAttr_v11_t),
    COMM_ATTR(ncclNetCommAttr_v12_t),
    SGE(ncclNetSGE_v8_t),
    SGE(ncclNetSGE_v9_t),
    SGE(ncclNetSGE_v10_t),
    SGE(ncclNetSGE_v11_t),
    SGE(ncclNetSGE_v12_t),
};
/* clang-format on */
#define N_ROWS (sizeof rows / sizeof *rows)

static void check(const cJSON *structs, const struct row *r)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(structs, r->type);
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(type, "sizeof");

    if (!cJSON_IsNumber(size))
        fail_msg("%s: not among the facts", r->type);
    if (!r->member) {
        if (size->valueint != (int)r->size)
            fail_msg("%s: %zu bytes here, %d in the facts", r->type, r->size, size->valueint);
        return;
    }
    const cJSON *members = cJSON_GetObjectItemCaseSensitive(type, "members");
    const cJSON *fact = cJSON_GetObjectItemCaseSensitive(members, r->member);
    if (cJSON_GetArraySize(fact) != 2)
        fail_msg("%s.%s: not among the facts", r->type, r->member);
    int offset = cJSON_GetArrayItem(fact, 0)->valueint,
        bytes = cJSON_GetArrayItem(fact, 1)->valueint;
    if (offset != (int)r->offset || bytes != (int)r->size)
        fail_msg("%s.%s: %zu bytes at %zu here, %d at %d in the facts", r->type, r->member, r->size,
                 r->offset, bytes, offset);
}

/* No row twice and as many rows as facts: nothing of either side is left out. */
static void test_layouts(void **state)
{
    size_t len = 0, facts = 0;
    char *text = NULL;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_file_read(SOURCE_DIR "/tests/fixtures/nccl-abi.json", 1 << 20, &text, &len,
                                  &diag),
                     MN_OK);
    cJSON *root = cJSON_ParseWithLength(text, len);
    const cJSON *structs = cJSON_GetObjectItemCaseSensitive(root, "structs"), *type;
    assert_non_null(structs);
    cJSON_ArrayForEach(type, structs) facts +=
        1 + (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(type, "members"));
    assert_int_equal(facts, N_ROWS);
    for (size_t i = 0; i < N_ROWS; i++) {
        check(structs, &rows[i]);
        for (size_t j = 0; j < i; j++)
            assert_false(strcmp(rows[i].type, rows[j].type) == 0 &&
                         strcmp(rows[i].member ? rows[i].member : "",
                                rows[j].member ? rows[j].member : "") == 0);
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
