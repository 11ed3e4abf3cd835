/* NCCL 2.26 and 2.27. Traffic class at connect (config may be NULL there), profiler handles, which
 * are not used. */
#include "plugin/abi/common.h"

extern MN_EXPORT ncclNet_v10_t ncclNetPlugin_v10;

static ncclResult_t init(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler)
{
    (void)profiler;
    return mn_abi_init(logger);
}

static ncclResult_t connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle,
                                void **send_comm, ncclNetDeviceHandle_v10_t **send_dev_comm)
{
    int traffic_class = config ? config->trafficClass : NCCL_NET_TRAFFIC_CLASS_UNDEF;

    (void)send_dev_comm;
    return (ncclResult_t)mn_net_connect(NULL, dev, traffic_class, handle, send_comm);
}

ncclNet_v10_t ncclNetPlugin_v10 = {
    .name = MN_PLUGIN_NAME,
    .init = init,
    .devices = mn_abi_devices,
    .getProperties = mn_abi_properties_v9,
    .listen = mn_abi_listen,
    .connect = connect_v10,
    .accept = mn_abi_accept,
    .regMr = mn_abi_reg_mr,
    .deregMr = mn_abi_dereg_mr,
    .isend = mn_abi_isend_v10,
    .irecv = mn_abi_irecv_v10,
    .iflush = mn_abi_iflush,
    .test = mn_abi_test,
    .closeSend = mn_abi_close_send,
    .closeRecv = mn_abi_close_recv,
    .closeListen = mn_abi_close_listen,
};

MN_ABI_DMABUF(ncclNetPlugin_v10)
