/* What each version of the interface looks like: its slots, and the fields of its properties. */
#include "bench/check/raw.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* clang-format off */
#define MEMBER(type, member) {#member, offsetof(type, member), sizeof(((type *)0)->member)}
/* clang-format on */

#define FIELDS_V4(type)                                                                            \
    MEMBER(type, name), MEMBER(type, pciPath), MEMBER(type, guid), MEMBER(type, ptrSupport),       \
        MEMBER(type, speed), MEMBER(type, port), MEMBER(type, maxComms)
#define FIELDS_V5(type) FIELDS_V4(type), MEMBER(type, latency), MEMBER(type, maxRecvs)
#define FIELDS_V7(type) FIELDS_V5(type), MEMBER(type, netDeviceType), MEMBER(type, netDeviceVersion)
#define FIELDS_V8(type) FIELDS_V7(type), MEMBER(type, regIsGlobal)
#define FIELDS_V9(type)                                                                            \
    FIELDS_V8(type), MEMBER(type, forceFlush), MEMBER(type, vProps.ndevs),                         \
        MEMBER(type, vProps.devs[0]), MEMBER(type, maxP2pBytes), MEMBER(type, maxCollBytes)
#define FIELDS_V11(type) FIELDS_V9(type), MEMBER(type, maxMultiRequestSize)
#define FIELDS_V12(type) FIELDS_V11(type), MEMBER(type, railId), MEMBER(type, planeId)

static const struct mn_raw_field fields_v4[] = {FIELDS_V4(ncclNetProperties_v4_t)};
static const struct mn_raw_field fields_v5[] = {FIELDS_V5(ncclNetProperties_v5_t)};
static const struct mn_raw_field fields_v6[] = {FIELDS_V5(ncclNetProperties_v6_t)};
static const struct mn_raw_field fields_v7[] = {FIELDS_V7(ncclNetProperties_v7_t)};
static const struct mn_raw_field fields_v8[] = {FIELDS_V8(ncclNetProperties_v8_t)};
static const struct mn_raw_field fields_v9[] = {FIELDS_V9(ncclNetProperties_v9_t)};
static const struct mn_raw_field fields_v10[] = {FIELDS_V9(ncclNetProperties_v10_t)};
static const struct mn_raw_field fields_v11[] = {FIELDS_V11(ncclNetProperties_v11_t)};
static const struct mn_raw_field fields_v12[] = {FIELDS_V12(ncclNetProperties_v12_t)};

#define SLOTS(type)                                                                                \
    MEMBER(type, init), MEMBER(type, devices), MEMBER(type, getProperties), MEMBER(type, listen),  \
        MEMBER(type, connect), MEMBER(type, accept), MEMBER(type, regMr), MEMBER(type, deregMr),   \
        MEMBER(type, isend), MEMBER(type, irecv), MEMBER(type, iflush), MEMBER(type, test),        \
        MEMBER(type, closeSend), MEMBER(type, closeRecv), MEMBER(type, closeListen)

static const struct mn_raw_field slots_v4[] = {SLOTS(ncclNet_v4_t)};
static const struct mn_raw_field slots_v5[] = {SLOTS(ncclNet_v5_t)};
static const struct mn_raw_field slots_v6[] = {SLOTS(ncclNet_v6_t)};
static const struct mn_raw_field slots_v7[] = {SLOTS(ncclNet_v7_t)};
static const struct mn_raw_field slots_v8[] = {SLOTS(ncclNet_v8_t)};
static const struct mn_raw_field slots_v9[] = {SLOTS(ncclNet_v9_t)};
static const struct mn_raw_field slots_v10[] = {SLOTS(ncclNet_v10_t)};
static const struct mn_raw_field slots_v11[] = {SLOTS(ncclNet_v11_t),
                                                MEMBER(ncclNet_v11_t, finalize)};
static const struct mn_raw_field slots_v12[] = {SLOTS(ncclNet_v12_t),
                                                MEMBER(ncclNet_v12_t, finalize)};

#define VERSION(n, releases)                                                                       \
    {                                                                                              \
        .version = n, .symbol = "ncclNetPlugin_v" #n, .serves = releases,                          \
        .vtable_size = sizeof(ncclNet_v##n##_t), .props_size = sizeof(ncclNetProperties_v##n##_t), \
        .fields = fields_v##n, .slots = slots_v##n, .n_fields = COUNT(fields_v##n),                \
        .n_slots = COUNT(slots_v##n),                                                              \
        .handle_size = (n) < 5 ? NCCL_NET_HANDLE_MAXSIZE_V4 : NCCL_NET_HANDLE_MAXSIZE,             \
        .has_ctx = (n) >= 11,                                                                      \
        .max_vdevs = (n) < 9    ? 0                                                                \
                     : (n) < 12 ? NCCL_NET_MAX_DEVS_PER_NIC_V11                                    \
                                : NCCL_NET_MAX_DEVS_PER_NIC_V12                                    \
    }

const struct mn_raw_version mn_raw_versions[] = {
    VERSION(12, "2.30 and newer"), VERSION(11, "2.28 and newer"),
    VERSION(10, "2.26 and newer"), VERSION(9, "2.24 and newer"),
    VERSION(8, "2.20 and newer"),  VERSION(7, "2.19 and newer"),
    VERSION(6, "2.13 and newer"),  VERSION(5, "2.12-2.25"),
    VERSION(4, "2.8-2.18"),        {.version = 0},
};

const char *mn_raw_serves(int version)
{
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++)
        if (v->version == version)
            return v->serves;
    return version == 3 ? "2.6-2.7" : version == 2 ? "2.4-2.5" : NULL;
}

#define READ_V4(p)                                                                                 \
    .name = (p)->name, .pci_path = (p)->pciPath, .guid = (p)->guid,                                \
    .ptr_support = (p)->ptrSupport, .speed = (p)->speed, .port = (p)->port,                        \
    .max_comms = (p)->maxComms
#define READ_V5(p) READ_V4(p), .max_recvs = (p)->maxRecvs
#define READ_V7(p)                                                                                 \
    READ_V5(p), .device_type = (int)(p)->netDeviceType, .device_version = (p)->netDeviceVersion
#define READ_V9(p)                                                                                 \
    READ_V7(p), .has_v9 = 1, .n_devs = (p)->vProps.ndevs, .devs0 = (p)->vProps.devs[0],            \
                .max_p2p_bytes = (p)->maxP2pBytes, .max_coll_bytes = (p)->maxCollBytes
#define OLD .n_devs = 1, .max_p2p_bytes = NCCL_MAX_NET_SIZE, .max_coll_bytes = NCCL_MAX_COLLNET_SIZE

void mn_raw_read_props(const struct mn_raw *raw, const void *props, struct mn_raw_props *out)
{
    const ncclNetProperties_v4_t *p4 = props;
    const ncclNetProperties_v5_t *p5 = props;
    const ncclNetProperties_v7_t *p7 = props;
    const ncclNetProperties_v8_t *p8 = props;
    const ncclNetProperties_v9_t *p9 = props;
    const ncclNetProperties_v11_t *p11 = props;
    const ncclNetProperties_v12_t *p12 = props;

    switch (raw->version->version) {
    case 4:
        *out = (struct mn_raw_props){READ_V4(p4), OLD, .max_recvs = 1};
        break;
    case 5:
    case 6:
        *out = (struct mn_raw_props){READ_V5(p5), OLD};
        break;
    case 7:
        *out = (struct mn_raw_props){READ_V7(p7), OLD};
        break;
    case 8:
        *out = (struct mn_raw_props){READ_V7(p8), OLD};
        break;
    case 9:
    case 10:
        *out = (struct mn_raw_props){READ_V9(p9)};
        break;
    case 11:
        *out = (struct mn_raw_props){READ_V9(p11)};
        break;
    default:
        *out = (struct mn_raw_props){READ_V9(p12)};
    }
}
