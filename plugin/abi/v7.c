/* NCCL 2.19. Device handles, which belong to the caller. */
#include "plugin/abi/common.h"

extern MN_EXPORT ncclNet_v7_t ncclNetPlugin_v7;

static ncclResult_t properties(int dev, ncclNetProperties_v7_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess)
        *props = (ncclNetProperties_v7_t){MN_PROPS_V7(p)};
    return result;
}

ncclNet_v7_t ncclNetPlugin_v7 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = properties,
    .listen = mn_abi_listen,
    .connect = mn_abi_connect,
    .accept = mn_abi_accept,
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

MN_ABI_DMABUF(ncclNetPlugin_v7)
