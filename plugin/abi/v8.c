/* NCCL 2.20 to 2.23. Transfers still count in int. */
#include "plugin/abi/common.h"

extern MN_EXPORT const ncclNet_v8_t ncclNetPlugin_v8;

static ncclResult_t isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    *request = NULL;
    if (size < 0)
        return ncclInvalidArgument;
    return (ncclResult_t)mn_net_isend(comm, data, (size_t)size, tag, mhandle, request);
}

static ncclResult_t irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
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

const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "meshnet",
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = mn_abi_properties_v8,
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
