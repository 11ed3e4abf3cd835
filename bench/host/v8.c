#include "bench/host/host_impl.h"

MN_HOST_COMMON(ncclNet_v8_t)

static int init(const void *t, ncclDebugLogger_t logger)
{
    return ((const ncclNet_v8_t *)t)->init(logger);
}

static int properties(const void *t, int dev, struct mn_net_props *props)
{
    ncclNetProperties_v8_t p = {0};
    int result = ((const ncclNet_v8_t *)t)->getProperties(dev, &p);

    MN_HOST_PROPERTIES(props, p);
    props->max_p2p_bytes = MN_HOST_INT_BYTES;
    props->max_coll_bytes = (size_t)512 << 20;
    return result;
}

static int connect_(const void *t, int dev, void *handle, void **comm)
{
    ncclNetDeviceHandle_v8_t *device = NULL;
    return ((const ncclNet_v8_t *)t)->connect(dev, handle, comm, &device);
}

static int isend(const void *t, void *comm, void *data, size_t size, int tag, void *mh,
                 void **request)
{
    if (size > MN_HOST_INT_BYTES)
        return ncclInvalidArgument;
    return ((const ncclNet_v8_t *)t)->isend(comm, data, (int)size, tag, mh, request);
}

static int irecv(const void *t, void *comm, int n, void **data, size_t *sizes, int *tags,
                 void **mhs, void **request)
{
    int narrow[MN_HOST_MAX_RECVS];

    for (int i = 0; i < n; i++) {
        if (sizes[i] > MN_HOST_INT_BYTES)
            return ncclInvalidArgument;
        narrow[i] = (int)sizes[i];
    }
    return ((const ncclNet_v8_t *)t)->irecv(comm, n, data, narrow, tags, mhs, request);
}

MN_HOST_ROW(8);
