#include "bench/check/raw.h"

#include <dlfcn.h>
#include <string.h>

#include "bench/check/remote.h"

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

static void read_slots(struct mn_raw *raw)
{
    for (const struct mn_host_version *const *v = mn_host_versions; *v; v++)
        if ((*v)->version == raw->version->version)
            (*v)->read(raw->vtable, &raw->slots);
}

int mn_raw_find(struct mn_raw *raw, int wanted)
{
    raw->vtable = NULL;
    for (const struct mn_raw_version *v = mn_raw_versions; v->version && !raw->vtable; v++) {
        if (wanted && wanted != v->version)
            continue;
        raw->version = v;
        raw->vtable = dlsym(raw->lib, v->symbol);
    }
    if (!raw->vtable)
        return 0;
    read_slots(raw);
    return 1;
}

/* Every version begins with the name. */
const char *mn_raw_name(const struct mn_raw *raw)
{
    return *(const char *const *)raw->vtable;
}

int mn_raw_has_dmabuf(const struct mn_raw *raw)
{
    return raw->slots.reg_dmabuf != NULL;
}

int mn_raw_has_v9(const struct mn_raw *raw)
{
    return raw->version->version >= 9;
}

int mn_raw_init_as(struct mn_raw *raw, uint64_t comm_id, int traffic_class, mn_raw_log log)
{
    ncclDebugLogger_t logger = (ncclDebugLogger_t)(void (*)(void))log;
    ncclNetCommConfig_v11_t config = {.trafficClass = traffic_class};
    const struct mn_host_slots *s = &raw->slots;
    int result;

    if (s->init_v11)
        result = (int)s->init_v11(&raw->ctx, comm_id, &config, logger, NULL);
    else
        result = (int)(s->init_v10 ? s->init_v10(logger, NULL) : s->init_v4(logger));
    /* The caller's config is gone once init has returned. */
    *(volatile int *)&config.trafficClass = 0x7fffffff;
    read_slots(raw);
    return result;
}

int mn_raw_init(struct mn_raw *raw, mn_raw_log log)
{
    raw->ctx = NULL;
    return mn_raw_init_as(raw, 1, NCCL_NET_TRAFFIC_CLASS_UNDEF, log);
}

int mn_raw_finalize(const struct mn_raw *raw)
{
    return (int)raw->slots.finalize(raw->ctx);
}

int mn_raw_devices(const struct mn_raw *raw, int *ndev)
{
    return (int)raw->slots.devices(ndev);
}

#define CALL_PROPERTIES(n)                                                                         \
    case n:                                                                                        \
        return (int)((const ncclNet_v##n##_t *)raw->vtable)->getProperties(dev, props)

int mn_raw_properties(const struct mn_raw *raw, int dev, void *props)
{
    switch (raw->version->version) {
        CALL_PROPERTIES(4);
        CALL_PROPERTIES(5);
        CALL_PROPERTIES(6);
        CALL_PROPERTIES(7);
        CALL_PROPERTIES(8);
        CALL_PROPERTIES(9);
        CALL_PROPERTIES(10);
        CALL_PROPERTIES(11);
    default:
        return (int)((const ncclNet_v12_t *)raw->vtable)->getProperties(dev, props);
    }
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

int mn_raw_listen(const struct mn_raw *raw, int dev, void *handle, void **comm)
{
    const struct mn_host_slots *s = &raw->slots;

    return (int)(s->listen_v11 ? s->listen_v11(raw->ctx, dev, handle, comm)
                               : s->listen_v4(dev, handle, comm));
}

int mn_raw_connect(const struct mn_raw *raw, int dev, void *handle, void **comm,
                   void **device_handle)
{
    ncclNetCommConfig_v10_t config = {.trafficClass = NCCL_NET_TRAFFIC_CLASS_UNDEF};
    const struct mn_host_slots *s = &raw->slots;
    void *device = device_handle;

    if (raw->remote)
        return mn_remote_connect(raw->remote, dev, handle, comm, device_handle);
    if (s->connect_v11)
        return (int)s->connect_v11(raw->ctx, dev, handle, comm, device);
    if (s->connect_v10)
        return (int)s->connect_v10(dev, &config, handle, comm, device);
    return (int)(s->connect_v7 ? s->connect_v7(dev, handle, comm, device)
                               : s->connect_v4(dev, handle, comm));
}

int mn_raw_accept(const struct mn_raw *raw, void *listen, void **comm, void **device_handle)
{
    const struct mn_host_slots *s = &raw->slots;

    return (int)(s->accept_v7 ? s->accept_v7(listen, comm, (void *)device_handle)
                              : s->accept_v4(listen, comm));
}

int mn_raw_reg(const struct mn_raw *raw, void *comm, void *data, size_t size, void **mhandle)
{
    const struct mn_host_slots *s = &raw->slots;

    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_reg(raw->remote, comm, data, size, mhandle);
    return (int)(s->reg_v8 ? s->reg_v8(comm, data, size, NCCL_PTR_HOST, mhandle)
                           : s->reg_v4(comm, data, (int)size, NCCL_PTR_HOST, mhandle));
}

int mn_raw_dereg(const struct mn_raw *raw, void *comm, void *mhandle)
{
    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_dereg(raw->remote, comm, mhandle);
    return (int)raw->slots.dereg(comm, mhandle);
}

int mn_raw_isend(const struct mn_raw *raw, void *comm, void *data, size_t size, int tag,
                 void *mhandle, void **request)
{
    const struct mn_host_slots *s = &raw->slots;

    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_isend(raw->remote, comm, data, size, tag, mhandle, request);
    if (s->isend_v10)
        return (int)s->isend_v10(comm, data, size, tag, mhandle, NULL, request);
    if (s->isend_v9)
        return (int)s->isend_v9(comm, data, size, tag, mhandle, request);
    return (int)(s->isend_v5 ? s->isend_v5(comm, data, (int)size, tag, mhandle, request)
                             : s->isend_v4(comm, data, (int)size, mhandle, request));
}

int mn_raw_irecv(const struct mn_raw *raw, void *comm, int n, void **data, const size_t *sizes,
                 int *tags, void **mhandles, void **request)
{
    const struct mn_host_slots *s = &raw->slots;
    size_t wide[MN_RAW_MAX_RECVS];
    int narrow[MN_RAW_MAX_RECVS];
    void *phandles[MN_RAW_MAX_RECVS] = {NULL};

    for (int i = 0; i < n; i++) {
        wide[i] = sizes[i];
        narrow[i] = (int)sizes[i];
    }
    if (s->irecv_v10)
        return (int)s->irecv_v10(comm, n, data, wide, tags, mhandles, phandles, request);
    if (s->irecv_v9)
        return (int)s->irecv_v9(comm, n, data, wide, tags, mhandles, request);
    if (s->irecv_v5)
        return (int)s->irecv_v5(comm, n, data, narrow, tags, mhandles, request);
    return n == 1 ? (int)s->irecv_v4(comm, data[0], narrow[0], mhandles[0], request)
                  : (int)ncclInvalidArgument;
}

int mn_raw_iflush(const struct mn_raw *raw, void *comm, int n, void **data, int *sizes,
                  void **mhandles, void **request)
{
    const struct mn_host_slots *s = &raw->slots;

    return (int)(s->iflush_v5 ? s->iflush_v5(comm, n, data, sizes, mhandles, request)
                              : s->iflush_v4(comm, data[0], sizes[0], mhandles[0], request));
}

int mn_raw_test(const struct mn_raw *raw, void *request, int *done, int *sizes)
{
    if (mn_remote_owns(raw->remote, request))
        return mn_remote_test(raw->remote, request, done, sizes);
    return (int)raw->slots.test(request, done, sizes);
}

int mn_raw_close_send(const struct mn_raw *raw, void *comm)
{
    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_close(raw->remote, comm);
    return (int)raw->slots.close_send(comm);
}

int mn_raw_close_recv(const struct mn_raw *raw, void *comm)
{
    return (int)raw->slots.close_recv(comm);
}

int mn_raw_close_listen(const struct mn_raw *raw, void *comm)
{
    return (int)raw->slots.close_listen(comm);
}

int mn_raw_make_vdevice(const struct mn_raw *raw, int n, const int *devs, int *dev, int *called)
{
    const struct mn_host_slots *s = &raw->slots;
    ncclNetVDeviceProps_v9_t v9 = {.ndevs = n};
    ncclNetVDeviceProps_v12_t v12 = {.ndevs = n};

    *called = (s->make_vdevice_v9 || s->make_vdevice_v12) && n <= raw->version->max_vdevs;
    if (!*called)
        return ncclSuccess;
    if (s->make_vdevice_v12) {
        memcpy(v12.devs, devs, (size_t)n * sizeof *devs);
        return (int)s->make_vdevice_v12(dev, &v12);
    }
    memcpy(v9.devs, devs, (size_t)n * sizeof *devs);
    return (int)s->make_vdevice_v9(dev, &v9);
}

int mn_raw_set_attr(const struct mn_raw *raw, ncclNetAttr_v11_t *attr, int *called)
{
    *called = raw->slots.set_attr != NULL;
    return *called ? (int)raw->slots.set_attr(raw->ctx, attr) : (int)ncclSuccess;
}
