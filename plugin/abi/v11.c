/* NCCL 2.28 and 2.29. A context for each communicator, which ends with finalize. */
#include "plugin/abi/common.h"

extern MN_EXPORT ncclNet_v11_t ncclNetPlugin_v11;

static ncclResult_t properties(int dev, ncclNetProperties_v11_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess)
        *props = (ncclNetProperties_v11_t){MN_PROPS_V11(p, dev)};
    return result;
}

ncclNet_v11_t ncclNetPlugin_v11 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_init_v11,
    .devices = mn_abi_devices,
    .getProperties = properties,
    .listen = mn_abi_listen_v11,
    .connect = mn_abi_connect_v11,
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
    .finalize = mn_abi_finalize,
    .setNetAttr = mn_abi_set_net_attr,
};

MN_ABI_DMABUF(ncclNetPlugin_v11)
