#include "plugin/abi/common.h"

#include <string.h>

static void *opaque(ncclDebugLogger_t logger)
{
    void *data;

    _Static_assert(sizeof data == sizeof logger, "function pointers fit data pointers");
    memcpy(&data, &logger, sizeof data);
    return data;
}

ncclResult_t mn_abi_init(ncclDebugLogger_t logger)
{
    ncclResult_t result = (ncclResult_t)mn_net_init(opaque(logger));

    mn_abi_dmabuf_set();
    return result;
}

ncclResult_t mn_abi_init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                             ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    struct mn_net *net;
    int traffic_class = config ? config->trafficClass : NCCL_NET_TRAFFIC_CLASS_UNDEF;
    ncclResult_t result = (ncclResult_t)mn_net_open(opaque(logger), traffic_class, &net);

    (void)comm_id;
    (void)profiler;
    *ctx = net;
    mn_abi_dmabuf_set();
    return result;
}

#define MAX_SLOTS 8

static mn_abi_dmabuf_fn **dmabuf_slots[MAX_SLOTS];
static int n_dmabuf_slots;

static ncclResult_t reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset,
                               int fd, void **mhandle)
{
    return (ncclResult_t)mn_net_reg_dmabuf(comm, data, size, type, offset, fd, mhandle);
}

void mn_abi_dmabuf_slot(mn_abi_dmabuf_fn **slot)
{
    if (n_dmabuf_slots < MAX_SLOTS)
        dmabuf_slots[n_dmabuf_slots++] = slot;
}

/* NCCL calls init under a lock of its own. What is right already is not written: somebody may be
 * reading it. */
void mn_abi_dmabuf_set(void)
{
    mn_abi_dmabuf_fn *fn = mn_net_takes_dmabuf() ? reg_dmabuf : NULL;

    for (int i = 0; i < n_dmabuf_slots; i++)
        if (*dmabuf_slots[i] != fn)
            *dmabuf_slots[i] = fn;
}

ncclResult_t mn_abi_finalize(void *ctx)
{
    return (ncclResult_t)mn_net_finalize(ctx);
}

/* A hint how many peers and flows to expect; nothing here is sized by it. */
ncclResult_t mn_abi_set_net_attr(void *ctx, ncclNetAttr_v11_t *attr)
{
    (void)ctx;
    (void)attr;
    return ncclSuccess;
}

ncclResult_t mn_abi_devices(int *ndev)
{
    return (ncclResult_t)mn_net_devices(ndev);
}

ncclResult_t mn_abi_dereg_mr(void *comm, void *mhandle)
{
    return (ncclResult_t)mn_net_dereg_mr(comm, mhandle);
}

ncclResult_t mn_abi_test(void *request, int *done, int *sizes)
{
    return (ncclResult_t)mn_net_test(request, done, sizes);
}

ncclResult_t mn_abi_close_send(void *send_comm)
{
    return (ncclResult_t)mn_net_close_send(send_comm);
}

ncclResult_t mn_abi_close_recv(void *recv_comm)
{
    return (ncclResult_t)mn_net_close_recv(recv_comm);
}

ncclResult_t mn_abi_close_listen(void *listen_comm)
{
    return (ncclResult_t)mn_net_close_listen(listen_comm);
}

ncclResult_t mn_abi_listen(int dev, void *handle, void **listen_comm)
{
    return (ncclResult_t)mn_net_listen(NULL, dev, handle, listen_comm);
}

ncclResult_t mn_abi_listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
    return (ncclResult_t)mn_net_listen(ctx, dev, handle, listen_comm);
}

ncclResult_t mn_abi_connect_v5(int dev, void *handle, void **send_comm)
{
    return (ncclResult_t)mn_net_connect(NULL, dev, NCCL_NET_TRAFFIC_CLASS_UNDEF, handle, send_comm);
}

ncclResult_t mn_abi_connect(int dev, void *handle, void **send_comm,
                            ncclNetDeviceHandle_v7_t **send_dev_comm)
{
    (void)send_dev_comm;
    return mn_abi_connect_v5(dev, handle, send_comm);
}

ncclResult_t mn_abi_connect_v11(void *ctx, int dev, void *handle, void **send_comm,
                                ncclNetDeviceHandle_v11_t **send_dev_comm)
{
    (void)send_dev_comm;
    return (ncclResult_t)mn_net_connect(ctx, dev, NCCL_NET_TRAFFIC_CLASS_UNDEF, handle, send_comm);
}

ncclResult_t mn_abi_accept_v5(void *listen_comm, void **recv_comm)
{
    return (ncclResult_t)mn_net_accept(listen_comm, recv_comm);
}

ncclResult_t mn_abi_accept(void *listen_comm, void **recv_comm,
                           ncclNetDeviceHandle_v7_t **recv_dev_comm)
{
    (void)recv_dev_comm;
    return mn_abi_accept_v5(listen_comm, recv_comm);
}

ncclResult_t mn_abi_reg_mr_v4(void *comm, void *data, int size, int type, void **mhandle)
{
    *mhandle = NULL;
    if (size < 0)
        return ncclInvalidArgument;
    return (ncclResult_t)mn_net_reg_mr(comm, data, (size_t)size, type, mhandle);
}

ncclResult_t mn_abi_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return (ncclResult_t)mn_net_reg_mr(comm, data, size, type, mhandle);
}

ncclResult_t mn_abi_isend_v5(void *comm, void *data, int size, int tag, void *mhandle,
                             void **request)
{
    *request = NULL;
    if (size < 0)
        return ncclInvalidArgument;
    return (ncclResult_t)mn_net_isend(comm, data, (size_t)size, tag, mhandle, request);
}

ncclResult_t mn_abi_irecv_v5(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                             void **request)
{
    size_t wide[MN_MAX_RECVS];

    *request = NULL;
    if (n < 1 || n > MN_MAX_RECVS)
        return ncclInvalidArgument;
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return ncclInvalidArgument;
        wide[i] = (size_t)sizes[i];
    }
    return (ncclResult_t)mn_net_irecv(comm, n, data, wide, tags, mhandles, request);
}

ncclResult_t mn_abi_isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                              void *phandle, void **request)
{
    (void)phandle;
    return (ncclResult_t)mn_net_isend(comm, data, size, tag, mhandle, request);
}

ncclResult_t mn_abi_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
                              void **mhandles, void **phandles, void **request)
{
    (void)phandles;
    return (ncclResult_t)mn_net_irecv(comm, n, data, sizes, tags, mhandles, request);
}

ncclResult_t mn_abi_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
                           void **request)
{
    return (ncclResult_t)mn_net_iflush(recv_comm, n, data, sizes, mhandles, request);
}

ncclResult_t mn_abi_properties_v5(int dev, ncclNetProperties_v5_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess)
        *props = (ncclNetProperties_v5_t){MN_PROPS_V5(p)};
    return result;
}

ncclResult_t mn_abi_properties_v9(int dev, ncclNetProperties_v9_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess)
        *props = (ncclNetProperties_v9_t){MN_PROPS_V9(p, dev)};
    return result;
}
