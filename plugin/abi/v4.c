/* NCCL 2.8 to 2.11. connect and accept give a comm or an error, handles are of 64 bytes, a receive
 * is one buffer. */
#include "plugin/abi/common.h"

extern MN_EXPORT const ncclNet_v4_t ncclNetPlugin_v4;

static ncclResult_t properties(int dev, ncclNetProperties_v4_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess) {
        p.ptr_support =
            NCCL_PTR_HOST; /* all that a connection takes before its handshake is through */
        *props = (ncclNetProperties_v4_t){MN_PROPS_V4(p)};
    }
    return result;
}

static ncclResult_t listen_v4(int dev, void *handle, void **listen_comm)
{
    return (ncclResult_t)mn_net_listen_short(dev, handle, listen_comm);
}

static ncclResult_t connect_v4(int dev, void *handle, void **send_comm)
{
    return (ncclResult_t)mn_net_connect_early(dev, handle, send_comm);
}

static ncclResult_t accept_v4(void *listen_comm, void **recv_comm)
{
    return (ncclResult_t)mn_net_accept_wait(listen_comm, recv_comm);
}

static ncclResult_t isend(void *comm, void *data, int size, void *mhandle, void **request)
{
    return mn_abi_isend_v5(comm, data, size, 0, mhandle, request);
}

static ncclResult_t irecv(void *comm, void *data, int size, void *mhandle, void **request)
{
    int tag = 0;
    return mn_abi_irecv_v5(comm, 1, &data, &size, &tag, &mhandle, request);
}

static ncclResult_t iflush(void *comm, void *data, int size, void *mhandle, void **request)
{
    return mn_abi_iflush(comm, 1, &data, &size, &mhandle, request);
}

const ncclNet_v4_t ncclNetPlugin_v4 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = properties,
    .listen = listen_v4,
    .connect = connect_v4,
    .accept = accept_v4,
    .regMr = mn_abi_reg_mr_v4,
    .deregMr = mn_abi_dereg_mr,
    .isend = isend,
    .irecv = irecv,
    .iflush = iflush,
    .test = mn_abi_test,
    .closeSend = mn_abi_close_send,
    .closeRecv = mn_abi_close_recv,
    .closeListen = mn_abi_close_listen,
};
