/* What each version declares, in terms of the parts. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/broken/second/shapes.h"

#define BLOCK_STEPS 600000 /* of 100 microseconds: v4 gives up then */

ncclResult_t alt_init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    (void)profiler;
    return alt_init(logger);
}

ncclResult_t alt_init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                          ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    (void)config;
    (void)profiler;
    return alt_context_new(ctx, comm_id, logger);
}

#define COMMON(p, all)                                                                             \
    ((p)->name = (all).name, (p)->pciPath = (all).pciPath, (p)->guid = (all).guid,                 \
     (p)->ptrSupport = (all).ptrSupport, (p)->speed = (all).speed, (p)->port = (all).port,         \
     (p)->maxComms = (all).maxComms)
#define SINCE_V5(p, all) ((p)->latency = (all).latency, (p)->maxRecvs = (all).maxRecvs)
#define SINCE_V7(p, all)                                                                           \
    ((p)->netDeviceType = (all).netDeviceType, (p)->netDeviceVersion = (all).netDeviceVersion)
#define SINCE_V9(p, all)                                                                           \
    ((p)->regIsGlobal = 0, (p)->forceFlush = 0, (p)->maxP2pBytes = (all).maxP2pBytes,              \
     (p)->maxCollBytes = (all).maxCollBytes)

ncclResult_t alt_properties_v4(int dev, ncclNetProperties_v4_t *p)
{
    ncclNetProperties_v12_t all;
    ncclNetProperties_v5_t wide = {.maxRecvs = ALT_RECVS};
    ncclResult_t result = alt_properties(dev, &all);

    if (result == ncclSuccess) {
        COMMON(p, all);
        COMMON(&wide, all);
        if (WRONG(V4_PROPS_WIDE))
            memcpy((void *)p, &wide, sizeof wide);
    }
    return result;
}

ncclResult_t alt_properties_v5(int dev, ncclNetProperties_v5_t *p)
{
    ncclNetProperties_v12_t all;
    ncclResult_t result = alt_properties(dev, &all);
    float latency = p->latency;

    if (result == ncclSuccess) {
        COMMON(p, all);
        SINCE_V5(p, all);
        if (WRONG(PROPS_LATENCY_UNSET))
            p->latency = latency;
    }
    return result;
}

ncclResult_t alt_properties_v7(int dev, ncclNetProperties_v7_t *p)
{
    ncclNetProperties_v12_t all;
    ncclResult_t result = alt_properties(dev, &all);

    if (result == ncclSuccess) {
        COMMON(p, all);
        SINCE_V5(p, all);
        SINCE_V7(p, all);
    }
    return result;
}

ncclResult_t alt_properties_v8(int dev, ncclNetProperties_v8_t *p)
{
    ncclNetProperties_v12_t all;
    ncclResult_t result = alt_properties(dev, &all);

    if (result == ncclSuccess) {
        COMMON(p, all);
        SINCE_V5(p, all);
        SINCE_V7(p, all);
        p->regIsGlobal = 0;
    }
    return result;
}

static void vdevice_v9(ncclNetVDeviceProps_v9_t *v, const ncclNetVDeviceProps_v12_t *all)
{
    memset(v, 0, sizeof *v);
    v->ndevs = all->ndevs;
    v->devs[0] = all->devs[0];
}

ncclResult_t alt_properties_v9(int dev, ncclNetProperties_v9_t *p)
{
    ncclNetProperties_v12_t all;
    ncclResult_t result = alt_properties(dev, &all);

    if (result == ncclSuccess) {
        COMMON(p, all);
        SINCE_V5(p, all);
        SINCE_V7(p, all);
        SINCE_V9(p, all);
        vdevice_v9(&p->vProps, &all.vProps);
    }
    return result;
}

ncclResult_t alt_properties_v11(int dev, ncclNetProperties_v11_t *p)
{
    ncclNetProperties_v12_t all;
    ncclResult_t result = alt_properties(dev, &all);

    if (result == ncclSuccess) {
        COMMON(p, all);
        SINCE_V5(p, all);
        SINCE_V7(p, all);
        SINCE_V9(p, all);
        vdevice_v9(&p->vProps, &all.vProps);
        p->maxMultiRequestSize = all.maxMultiRequestSize;
        if (WRONG(V11_PROPS_WIDE))
            memcpy((void *)p, &all, sizeof all);
    }
    return result;
}

ncclResult_t alt_properties_v12(int dev, ncclNetProperties_v12_t *p)
{
    ncclNetProperties_v12_t all;
    ncclResult_t result = alt_properties(dev, &all);

    if (result == ncclSuccess)
        memcpy(p, &all,
               WRONG(PROPS_RAIL_UNSET) ? offsetof(ncclNetProperties_v12_t, railId) : sizeof all);
    return result;
}

ncclResult_t alt_listen_v4(int dev, void *handle, void **comm)
{
    return alt_listen(alt_context_of(NULL), dev, handle, comm);
}

ncclResult_t alt_listen_v11(void *ctx, int dev, void *handle, void **comm)
{
    return alt_listen(alt_context_of(ctx), dev, handle, comm);
}

ncclResult_t alt_connect_v4(int dev, void *handle, void **comm)
{
    ncclResult_t result;
    char ack;
    int steps = 0;

    while ((result = alt_connect_v5(dev, handle, comm)) == ncclSuccess && !*comm) {
        if (++steps > BLOCK_STEPS)
            return ncclSystemError;
        alt_nap(100);
    }
    if (WRONG(V4_CONNECT_ACK) && result == ncclSuccess) {
        poll(&(struct pollfd){.fd = alt_fd(*comm), .events = POLLIN}, 1, -1);
        (void)!recv(alt_fd(*comm), &ack, 1, 0);
    }
    return result;
}

ncclResult_t alt_connect_v5(int dev, void *handle, void **comm)
{
    return alt_connect(alt_context_of(NULL), dev, handle, comm);
}

ncclResult_t alt_connect_v7(int dev, void *handle, void **comm, ncclNetDeviceHandle_v7_t **dh)
{
    (void)dh;
    return alt_connect_v5(dev, handle, comm);
}

ncclResult_t alt_connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                             ncclNetDeviceHandle_v10_t **dh)
{
    (void)config;
    return alt_connect_v7(dev, handle, comm, dh);
}

ncclResult_t alt_connect_v11(void *ctx, int dev, void *handle, void **comm,
                             ncclNetDeviceHandle_v11_t **dh)
{
    (void)dh;
    return alt_connect(alt_context_of(ctx), dev, handle, comm);
}

ncclResult_t alt_accept_v4(void *listen, void **comm)
{
    ncclResult_t result;
    int steps = 0;

    while ((result = alt_accept(listen, comm)) == ncclSuccess && !*comm) {
        if (++steps > BLOCK_STEPS)
            return ncclSystemError;
        alt_nap(100);
    }
    return result;
}

ncclResult_t alt_accept_v5(void *listen, void **comm)
{
    return alt_accept(listen, comm);
}

ncclResult_t alt_accept_v7(void *listen, void **comm, ncclNetDeviceHandle_v7_t **dh)
{
    if (WRONG(ACCEPT_DEVICE_NULL))
        *dh = NULL;
    return alt_accept(listen, comm);
}

ncclResult_t alt_reg_v4(void *comm, void *data, int size, int type, void **mhandle)
{
    return size < 0 ? ncclInvalidArgument : alt_reg(comm, data, (size_t)size, type, mhandle);
}

ncclResult_t alt_isend_v4(void *comm, void *data, int size, void *mr, void **request)
{
    return alt_isend_v5(comm, data, size, 0, mr, request);
}

ncclResult_t alt_isend_v5(void *comm, void *data, int size, int tag, void *mr, void **request)
{
    return size < 0 ? ncclInvalidArgument : alt_isend(comm, data, (size_t)size, tag, mr, request);
}

ncclResult_t alt_isend_v9(void *comm, void *data, size_t size, int tag, void *mr, void **request)
{
    return alt_isend(comm, data, size, tag, mr, request);
}

ncclResult_t alt_isend_v10(void *comm, void *data, size_t size, int tag, void *mr, void *phandle,
                           void **request)
{
    (void)phandle;
    return alt_isend(comm, data, size, tag, mr, request);
}

ncclResult_t alt_irecv_v4(void *comm, void *data, int size, void *mr, void **request)
{
    return alt_irecv_v5(comm, 1, &data, &size, &(int){0}, &mr, request);
}

ncclResult_t alt_irecv_v5(void *comm, int n, void **data, int *sizes, int *tags, void **mrs,
                          void **request)
{
    size_t wide[ALT_RECVS];

    for (int i = 0; i < n && i < ALT_RECVS; i++) {
        if (sizes[i] < 0)
            return ncclInvalidArgument;
        wide[i] = (size_t)sizes[i];
    }
    return alt_irecv(comm, n, data, wide, tags, mrs, request);
}

ncclResult_t alt_irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
                          void **request)
{
    int narrow[ALT_RECVS];

    if (!WRONG(V9_SIZES_INT))
        return alt_irecv(comm, n, data, sizes, tags, mrs, request);
    memcpy(narrow, sizes, (size_t)(n > ALT_RECVS ? ALT_RECVS : n) * sizeof(int));
    return alt_irecv_v5(comm, n, data, narrow, tags, mrs, request);
}

ncclResult_t alt_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
                           void **phandles, void **request)
{
    (void)phandles;
    return alt_irecv(comm, n, data, sizes, tags, mrs, request);
}

ncclResult_t alt_flush_v4(void *comm, void *data, int size, void *mr, void **request)
{
    (void)data;
    (void)size;
    (void)mr;
    return alt_flush(comm, request);
}

ncclResult_t alt_flush_v5(void *comm, int n, void **data, int *sizes, void **mrs, void **request)
{
    (void)n;
    (void)data;
    (void)sizes;
    (void)mrs;
    return alt_flush(comm, request);
}

ncclResult_t alt_set_attr(void *ctx, ncclNetAttr_v11_t *attr)
{
    (void)ctx;
    (void)attr;
    return ncclSuccess;
}
