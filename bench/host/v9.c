#include "bench/host/host_impl.h"

MN_HOST_COMMON(ncclNet_v9_t)

static int init(const void *t, ncclDebugLogger_t logger)
{
    return ((const ncclNet_v9_t *)t)->init(logger);
}

static int properties(const void *t, int dev, struct mn_net_props *props)
{
    ncclNetProperties_v9_t p = {0};
    int result = ((const ncclNet_v9_t *)t)->getProperties(dev, &p);

    MN_HOST_PROPERTIES(props, p);
    props->force_flush = p.forceFlush;
    props->max_p2p_bytes = p.maxP2pBytes;
    props->max_coll_bytes = p.maxCollBytes;
    return result;
}

static int connect_(const void *t, int dev, void *handle, void **comm)
{
    ncclNetDeviceHandle_v9_t *device = NULL;
    return ((const ncclNet_v9_t *)t)->connect(dev, handle, comm, &device);
}

static int isend(const void *t, void *comm, void *data, size_t size, int tag, void *mh,
                 void **request)
{
    return ((const ncclNet_v9_t *)t)->isend(comm, data, size, tag, mh, request);
}

static int irecv(const void *t, void *comm, int n, void **data, size_t *sizes, int *tags,
                 void **mhs, void **request)
{
    return ((const ncclNet_v9_t *)t)->irecv(comm, n, data, sizes, tags, mhs, request);
}

MN_HOST_ROW(9);
