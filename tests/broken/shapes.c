/* What each version declares, in terms of the parts. */
#include <time.h>

#include "tests/broken/shapes.h"

#define BLOCK_S 60 /* v4's accept gives up then */

static ncclProfilerCallback_t profiler_call;

ncclResult_t ref_init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    profiler_call = profiler;
    return ref_init(logger);
}

ncclResult_t ref_init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                          ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    ncclResult_t result = ref_init_v10(logger, profiler);

    (void)comm_id;
    *ctx = NULL;
    return result == ncclSuccess ? ref_new_context(ctx, config) : result;
}

ncclResult_t ref_listen_v4(int dev, void *handle, void **comm)
{
    return ref_listen(NULL, dev, handle, comm);
}

ncclResult_t ref_listen_v11(void *ctx, int dev, void *handle, void **comm)
{
    if (!ref_is_context(ctx))
        return ref_refuse("listen for what is no context");
    return ref_listen(ctx, dev, handle, comm);
}

static time_t now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

ncclResult_t ref_connect_v4(int dev, void *handle, void **comm)
{
    time_t until = now_s() + BLOCK_S;
    ncclResult_t result;

    while ((result = ref_connect_v5(dev, handle, comm)) == ncclSuccess && !*comm &&
           !IS(V4_CONNECT_NULL)) {
        if (now_s() >= until)
            return ref_refuse("the peer's backlog stays full");
        ref_nap();
    }
    return result;
}

ncclResult_t ref_connect_v5(int dev, void *handle, void **comm)
{
    return ref_connect(NULL, dev, handle, comm, NULL);
}

ncclResult_t ref_connect_v7(int dev, void *handle, void **comm, ncclNetDeviceHandle_v7_t **dh)
{
    return ref_connect(NULL, dev, handle, comm, (void **)dh);
}

ncclResult_t ref_connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                             ncclNetDeviceHandle_v10_t **dh)
{
    if (IS(V10_CONFIG_READ) && *(volatile int *)&config->trafficClass < -1)
        return ncclInvalidArgument;
    return ref_connect_v7(dev, handle, comm, dh);
}

ncclResult_t ref_connect_v11(void *ctx, int dev, void *handle, void **comm,
                             ncclNetDeviceHandle_v11_t **dh)
{
    struct context *context = ctx;

    if (!ref_is_context(ctx))
        return ref_refuse("connect for what is no context");
    if (context->kept && *(const volatile int *)&context->kept->trafficClass < -1)
        return ncclInvalidArgument;
    return ref_connect(context, dev, handle, comm, (void **)dh);
}

ncclResult_t ref_accept_v4(void *listen, void **comm)
{
    time_t until = now_s() + BLOCK_S;
    ncclResult_t result;

    if (IS(V4_ACCEPT_NULL) && ((struct listener *)listen)->idle_calls++ == 0)
        return ncclSuccess;
    while ((result = ref_accept_v5(listen, comm)) == ncclSuccess && !*comm) {
        if (now_s() >= until)
            return ref_refuse("nobody connects");
        ref_nap();
    }
    return result;
}

ncclResult_t ref_accept_v5(void *listen, void **comm)
{
    if (IS(V5_ACCEPT_BLOCKS))
        while (!((struct listener *)listen)->waiting)
            ref_nap();
    return ref_accept(listen, comm, NULL);
}

ncclResult_t ref_accept_v7(void *listen, void **comm, ncclNetDeviceHandle_v7_t **dh)
{
    return ref_accept(listen, comm, (void **)dh);
}

ncclResult_t ref_reg_v4(void *comm, void *data, int size, int type, void **mhandle)
{
    return size < 0 ? ncclInvalidArgument : ref_reg(comm, data, (size_t)size, type, mhandle);
}

ncclResult_t ref_isend_v4(void *comm, void *data, int size, void *mhandle, void **request)
{
    return ref_isend_v5(comm, data, size, 0, mhandle, request);
}

ncclResult_t ref_isend_v5(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    return size < 0 ? ncclInvalidArgument
                    : ref_isend(comm, data, (size_t)size, tag, mhandle, request);
}

ncclResult_t ref_isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void **request)
{
    return ref_isend(comm, data, size, tag, mhandle, request);
}

ncclResult_t ref_isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void *phandle, void **request)
{
    void *event = NULL;

    if (IS(V10_PROFILER_CALLED) && profiler_call)
        profiler_call(&event, 0, phandle, (int64_t)0x100 << 16 | 1, NULL);
    return ref_isend(comm, data, size, tag, mhandle, request);
}

ncclResult_t ref_irecv_v4(void *comm, void *data, int size, void *mhandle, void **request)
{
    return ref_irecv_v5(comm, 1, &data, &size, &(int){0}, &mhandle, request);
}

ncclResult_t ref_irecv_v5(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                          void **request)
{
    size_t wide[MAX_RECVS];

    if (IS(V5_GROUPS_REFUSED) && n > 1)
        return ncclInvalidArgument;
    for (int i = 0; i < n && i < MAX_RECVS; i++) {
        if (sizes[i] < 0)
            return ncclInvalidArgument;
        wide[i] = (size_t)sizes[i];
    }
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
    if (IS(V10_PHANDLES_READ) && *(void *volatile *)phandles == comm)
        return ncclInvalidArgument;
    return ref_irecv(comm, n, data, sizes, tags, mhandles, request);
}

ncclResult_t ref_iflush_v4(void *comm, void *data, int size, void *mhandle, void **request)
{
    return ref_iflush_v5(comm, 1, &data, &size, &mhandle, request);
}

ncclResult_t ref_iflush_v5(void *comm, int n, void **data, int *sizes, void **mhandles,
                           void **request)
{
    (void)comm;
    (void)n;
    (void)data;
    (void)sizes;
    (void)mhandles;
    if (!IS(FLUSH_KEPT))
        *request = NULL;
    return ncclSuccess;
}
