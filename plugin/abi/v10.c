/* NCCL 2.26 and 2.27. Traffic class at connect (config may be NULL there), profiler handles, which
 * are not used. */
#include "plugin/abi/common.h"

extern MN_EXPORT const ncclNet_v10_t ncclNetPlugin_v10;

static ncclResult_t init(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    (void)profiler;
    return mn_abi_init(logger);
}

static ncclResult_t connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle,
                                void **send_comm, ncclNetDeviceHandle_v10_t **send_dev_comm)
{
    (void)send_dev_comm;
    return (ncclResult_t)mn_net_connect(NULL, dev,
                                        config ? config->trafficClass
                                               : NCCL_NET_TRAFFIC_CLASS_UNDEF,
                                        handle, send_comm);
}

static ncclResult_t isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void *phandle, void **request)
{
    (void)phandle;
    return (ncclResult_t)mn_net_isend(comm, data, size, tag, mhandle, request);
}

static ncclResult_t irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
                          void **phandles, void **request)
{
    (void)phandles;
    return (ncclResult_t)mn_net_irecv(comm, n, data, sizes, tags, mhandles, request);
}

const ncclNet_v10_t ncclNetPlugin_v10 = {
    .name = "meshnet",
    .init = init,
    .devices = mn_abi_devices,
    .getProperties = mn_abi_properties_v9,
    .listen = mn_abi_listen,
    .connect = connect_v10,
    .accept = mn_abi_accept,
    .regMr = mn_abi_reg_mr,
    .deregMr = mn_abi_dereg_mr,
    .isend = isend,
    .irecv = irecv,
    .iflush = mn_abi_iflush,
    .test = mn_abi_test,
    .closeSend = mn_abi_close_send,
    .closeRecv = mn_abi_close_recv,
    .closeListen = mn_abi_close_listen,
};
