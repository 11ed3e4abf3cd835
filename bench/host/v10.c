#include "bench/host/host_impl.h"

MN_HOST_COMMON(ncclNet_v10_t)

/* Plugins store the callback; one that counts on it being callable gets a polite no-op. */
static ncclResult_t profiler(void **event, int type, void *phandle, int64_t plugin, void *data)
{
    (void)event;
    (void)type;
    (void)phandle;
    (void)plugin;
    (void)data;
    return ncclSuccess;
}

static int init(const void *t, ncclDebugLogger_t logger)
{
    return ((const ncclNet_v10_t *)t)->init(logger, profiler);
}

static int properties(const void *t, int dev, struct mn_net_props *props)
{
    ncclNetProperties_v10_t p = {0};
    int result = ((const ncclNet_v10_t *)t)->getProperties(dev, &p);

    MN_HOST_PROPERTIES(props, p);
    props->force_flush = p.forceFlush;
    props->max_p2p_bytes = p.maxP2pBytes;
    props->max_coll_bytes = p.maxCollBytes;
    return result;
}

/* Some plugins follow the config pointer without a look: it is never NULL. */
static int connect_(const void *t, int dev, void *handle, void **comm)
{
    ncclNetDeviceHandle_v10_t *device = NULL;
    ncclNetCommConfig_v10_t config = {NCCL_NET_TRAFFIC_CLASS_UNDEF};
    return ((const ncclNet_v10_t *)t)->connect(dev, &config, handle, comm, &device);
}

static int isend(const void *t, void *comm, void *data, size_t size, int tag, void *mh,
                 void **request)
{
    return ((const ncclNet_v10_t *)t)->isend(comm, data, size, tag, mh, NULL, request);
}

static int irecv(const void *t, void *comm, int n, void **data, size_t *sizes, int *tags,
                 void **mhs, void **request)
{
    void *phandles[MN_HOST_MAX_RECVS] = {NULL};
    return ((const ncclNet_v10_t *)t)->irecv(comm, n, data, sizes, tags, mhs, phandles, request);
}

MN_HOST_ROW(10);
