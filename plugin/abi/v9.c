/* NCCL 2.24 and 2.25. Transfers count in size_t. makeVDevice is NULL here and later: the plugin
 * joins links itself, and 2.24 to 2.26 go wrong with one that refuses. */
#include "plugin/abi/common.h"

extern MN_EXPORT ncclNet_v9_t ncclNetPlugin_v9;

static ncclResult_t isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void **request)
{
    return (ncclResult_t)mn_net_isend(comm, data, size, tag, mhandle, request);
}

static ncclResult_t irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
                          void **request)
{
    return (ncclResult_t)mn_net_irecv(comm, n, data, sizes, tags, mhandles, request);
}

ncclNet_v9_t ncclNetPlugin_v9 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = mn_abi_properties_v9,
    .listen = mn_abi_listen,
    .connect = mn_abi_connect,
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

MN_ABI_DMABUF(ncclNetPlugin_v9)
