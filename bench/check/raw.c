#include "bench/check/raw.h"

#include <string.h>

#include "plugin/abi/nccl_abi.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MEMBER(type, member)                                                                       \
    {                                                                                              \
#member, offsetof(type, member), sizeof(((type *)0)->member)                               \
    }

#define FIELDS_V8(type)                                                                            \
    MEMBER(type, name), MEMBER(type, pciPath), MEMBER(type, guid), MEMBER(type, ptrSupport),       \
        MEMBER(type, regIsGlobal), MEMBER(type, speed), MEMBER(type, port), MEMBER(type, latency), \
        MEMBER(type, maxComms), MEMBER(type, maxRecvs), MEMBER(type, netDeviceType),               \
        MEMBER(type, netDeviceVersion)
#define FIELDS_V9(type)                                                                            \
    FIELDS_V8(type), MEMBER(type, forceFlush), MEMBER(type, vProps.ndevs),                         \
        MEMBER(type, vProps.devs[0]), MEMBER(type, maxP2pBytes), MEMBER(type, maxCollBytes)

static const struct mn_raw_field fields_v8[] = {FIELDS_V8(ncclNetProperties_v8_t)};
static const struct mn_raw_field fields_v9[] = {FIELDS_V9(ncclNetProperties_v9_t)};
static const struct mn_raw_field fields_v10[] = {FIELDS_V9(ncclNetProperties_v10_t)};

#define SLOTS(type)                                                                                \
    MEMBER(type, init), MEMBER(type, devices), MEMBER(type, getProperties), MEMBER(type, listen),  \
        MEMBER(type, connect), MEMBER(type, accept), MEMBER(type, regMr), MEMBER(type, deregMr),   \
        MEMBER(type, isend), MEMBER(type, irecv), MEMBER(type, iflush), MEMBER(type, test),        \
        MEMBER(type, closeSend), MEMBER(type, closeRecv), MEMBER(type, closeListen)

static const struct mn_raw_field slots_v8[] = {SLOTS(ncclNet_v8_t)};
static const struct mn_raw_field slots_v9[] = {SLOTS(ncclNet_v9_t)};
static const struct mn_raw_field slots_v10[] = {SLOTS(ncclNet_v10_t)};

#define VERSION(n, releases)                                                                       \
    {                                                                                              \
        .version = n, .symbol = "ncclNetPlugin_v" #n, .serves = releases,                          \
        .vtable_size = sizeof(ncclNet_v##n##_t), .props_size = sizeof(ncclNetProperties_v##n##_t), \
        .fields = fields_v##n, .slots = slots_v##n, .n_fields = COUNT(fields_v##n),                \
        .n_slots = COUNT(slots_v##n)                                                               \
    }

const struct mn_raw_version mn_raw_versions[] = {
    VERSION(10, "2.26 and newer"),
    VERSION(9, "2.24 and newer"),
    VERSION(8, "2.20 and newer"),
    {.version = 0},
};

static const char *const serves[] = {
    [2] = "2.4-2.5",         [3] = "2.6-2.7",         [4] = "2.8-2.18",
    [5] = "2.12-2.25",       [6] = "2.13 and newer",  [7] = "2.19 and newer",
    [8] = "2.20 and newer",  [9] = "2.24 and newer",  [10] = "2.26 and newer",
    [11] = "2.28 and newer", [12] = "2.30 and newer",
};

const char *mn_raw_serves(int version)
{
    return version >= 0 && (size_t)version < COUNT(serves) ? serves[version] : NULL;
}

/* Members up to irecvConsumed lie at the same offsets in v8, v9 and v10; those called through V8()
 * have the same type too. */
#define V8(raw)  ((const ncclNet_v8_t *)(raw)->vtable)
#define V9(raw)  ((const ncclNet_v9_t *)(raw)->vtable)
#define V10(raw) ((const ncclNet_v10_t *)(raw)->vtable)

const char *mn_raw_name(const struct mn_raw *raw)
{
    return V8(raw)->name;
}

int mn_raw_has_dmabuf(const struct mn_raw *raw)
{
    return V8(raw)->regMrDmaBuf != NULL;
}

int mn_raw_has_v9(const struct mn_raw *raw)
{
    return raw->version->version >= 9;
}

int mn_raw_init(const struct mn_raw *raw,
                void (*logger)(int, unsigned long, const char *, int, const char *, ...))
{
    ncclDebugLogger_t log = (ncclDebugLogger_t)(void (*)(void))logger;

    return raw->version->version >= 10 ? (int)V10(raw)->init(log, NULL) : (int)V8(raw)->init(log);
}

int mn_raw_devices(const struct mn_raw *raw, int *ndev)
{
    return (int)V8(raw)->devices(ndev);
}

int mn_raw_properties(const struct mn_raw *raw, int dev, void *props)
{
    switch (raw->version->version) {
    case 8:
        return (int)V8(raw)->getProperties(dev, props);
    case 9:
        return (int)V9(raw)->getProperties(dev, props);
    default:
        return (int)V10(raw)->getProperties(dev, props);
    }
}

#define READ_V8(p)                                                                                 \
    .name = (p)->name, .pci_path = (p)->pciPath, .guid = (p)->guid,                                \
    .ptr_support = (p)->ptrSupport, .speed = (p)->speed, .port = (p)->port,                        \
    .max_comms = (p)->maxComms, .max_recvs = (p)->maxRecvs,                                        \
    .device_type = (int)(p)->netDeviceType, .device_version = (p)->netDeviceVersion
#define READ_V9(p)                                                                                 \
    READ_V8(p), .has_v9 = 1, .n_devs = (p)->vProps.ndevs, .devs0 = (p)->vProps.devs[0],            \
                .max_p2p_bytes = (p)->maxP2pBytes, .max_coll_bytes = (p)->maxCollBytes

void mn_raw_read_props(const struct mn_raw *raw, const void *props, struct mn_raw_props *out)
{
    const ncclNetProperties_v8_t *p8 = props;
    const ncclNetProperties_v9_t *p9 = props;
    const ncclNetProperties_v10_t *p10 = props;

    switch (raw->version->version) {
    case 8:
        *out = (struct mn_raw_props){READ_V8(p8), .n_devs = 1, .max_p2p_bytes = 1u << 30};
        break;
    case 9:
        *out = (struct mn_raw_props){READ_V9(p9)};
        break;
    default:
        *out = (struct mn_raw_props){READ_V9(p10)};
    }
}

int mn_raw_listen(const struct mn_raw *raw, int dev, void *handle, void **comm)
{
    return (int)V8(raw)->listen(dev, handle, comm);
}

int mn_raw_connect(const struct mn_raw *raw, int dev, void *handle, void **comm,
                   void **device_handle)
{
    ncclNetCommConfig_v10_t config = {.trafficClass = -1};

    if (raw->version->version >= 10)
        return (int)V10(raw)->connect(dev, &config, handle, comm, (void *)device_handle);
    return (int)V8(raw)->connect(dev, handle, comm, (void *)device_handle);
}

int mn_raw_accept(const struct mn_raw *raw, void *listen, void **comm, void **device_handle)
{
    return (int)V8(raw)->accept(listen, comm, (void *)device_handle);
}

int mn_raw_reg(const struct mn_raw *raw, void *comm, void *data, size_t size, void **mhandle)
{
    return (int)V8(raw)->regMr(comm, data, size, NCCL_PTR_HOST, mhandle);
}

int mn_raw_dereg(const struct mn_raw *raw, void *comm, void *mhandle)
{
    return (int)V8(raw)->deregMr(comm, mhandle);
}

int mn_raw_isend(const struct mn_raw *raw, void *comm, void *data, size_t size, int tag,
                 void *mhandle, void **request)
{
    switch (raw->version->version) {
    case 8:
        return (int)V8(raw)->isend(comm, data, (int)size, tag, mhandle, request);
    case 9:
        return (int)V9(raw)->isend(comm, data, size, tag, mhandle, request);
    default:
        return (int)V10(raw)->isend(comm, data, size, tag, mhandle, NULL, request);
    }
}

int mn_raw_irecv(const struct mn_raw *raw, void *comm, int n, void **data, const size_t *sizes,
                 int *tags, void **mhandles, void **request)
{
    size_t wide[MN_RAW_MAX_RECVS];
    int narrow[MN_RAW_MAX_RECVS];
    void *phandles[MN_RAW_MAX_RECVS] = {NULL};

    for (int i = 0; i < n; i++) {
        wide[i] = sizes[i];
        narrow[i] = (int)sizes[i];
    }
    switch (raw->version->version) {
    case 8:
        return (int)V8(raw)->irecv(comm, n, data, narrow, tags, mhandles, request);
    case 9:
        return (int)V9(raw)->irecv(comm, n, data, wide, tags, mhandles, request);
    default:
        return (int)V10(raw)->irecv(comm, n, data, wide, tags, mhandles, phandles, request);
    }
}

int mn_raw_test(const struct mn_raw *raw, void *request, int *done, int *sizes)
{
    return (int)V8(raw)->test(request, done, sizes);
}

int mn_raw_close_send(const struct mn_raw *raw, void *comm)
{
    return (int)V8(raw)->closeSend(comm);
}

int mn_raw_close_recv(const struct mn_raw *raw, void *comm)
{
    return (int)V8(raw)->closeRecv(comm);
}

int mn_raw_close_listen(const struct mn_raw *raw, void *comm)
{
    return (int)V8(raw)->closeListen(comm);
}
