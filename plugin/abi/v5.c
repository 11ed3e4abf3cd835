/* NCCL 2.12. Grouped receives with tags; nothing blocks from here on. */
#include "plugin/abi/common.h"

extern MN_EXPORT const ncclNet_v5_t ncclNetPlugin_v5;

/* NCCL_PTR_DMABUF came with v6. */
static ncclResult_t properties(int dev, ncclNetProperties_v5_t *props)
{
    ncclResult_t result = mn_abi_properties_v5(dev, props);

    if (result == ncclSuccess)
        props->ptrSupport &= ~NCCL_PTR_DMABUF;
    return result;
}

const ncclNet_v5_t ncclNetPlugin_v5 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = properties,
    .listen = mn_abi_listen,
    .connect = mn_abi_connect_v5,
    .accept = mn_abi_accept_v5,
    .regMr = mn_abi_reg_mr_v4,
    .deregMr = mn_abi_dereg_mr,
    .isend = mn_abi_isend_v5,
    .irecv = mn_abi_irecv_v5,
    .iflush = mn_abi_iflush,
    .test = mn_abi_test,
    .closeSend = mn_abi_close_send,
    .closeRecv = mn_abi_close_recv,
    .closeListen = mn_abi_close_listen,
};
