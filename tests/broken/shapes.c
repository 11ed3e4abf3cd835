/* The functions as the versions declare them. */
#include "tests/broken/ref.h"

ncclResult_t ref_init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    (void)profiler;
    return ref_init(logger);
}

ncclResult_t ref_connect_v8(int dev, void *handle, void **comm, ncclNetDeviceHandle_v8_t **dh)
{
    (void)dev;
    return ref_connect(handle, comm, (void **)dh);
}

ncclResult_t ref_connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                             ncclNetDeviceHandle_v10_t **dh)
{
    (void)dev;
    (void)config;
    return ref_connect(handle, comm, (void **)dh);
}

ncclResult_t ref_accept_v8(void *listen, void **comm, ncclNetDeviceHandle_v8_t **dh)
{
    return ref_accept(listen, comm, (void **)dh);
}

ncclResult_t ref_isend_v8(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    return ref_isend(comm, data, (size_t)size, tag, mhandle, request);
}

ncclResult_t ref_isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void **request)
{
    return ref_isend(comm, data, size, tag, mhandle, request);
}

ncclResult_t ref_isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void *phandle, void **request)
{
    (void)phandle;
    return ref_isend(comm, data, size, tag, mhandle, request);
}

ncclResult_t ref_irecv_v8(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                          void **request)
{
    size_t wide[MAX_RECVS];

    for (int i = 0; i < n && i < MAX_RECVS; i++)
        wide[i] = (size_t)sizes[i];
    return ref_irecv(comm, n, data, wide, tags, mhandles, request);
}

ncclResult_t ref_irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
                          void **request)
{
    return ref_irecv(comm, n, data, sizes, tags, mhandles, request);
}

ncclResult_t ref_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
                           void **mhandles, void **phandles, void **request)
{
    (void)phandles;
    return ref_irecv(comm, n, data, sizes, tags, mhandles, request);
}

ncclResult_t ref_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
    (void)comm;
    (void)n;
    (void)data;
    (void)sizes;
    (void)mhandles;
    *request = NULL;
    return ncclSuccess;
}
