/* NCCL 2.13 to 2.18. regMrDmaBuf stays NULL while there is no GPU memory to register: RCCL calls it
 * whenever it is not. */
#include "plugin/abi/common.h"

extern MN_EXPORT ncclNet_v6_t ncclNetPlugin_v6;

ncclNet_v6_t ncclNetPlugin_v6 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = mn_abi_properties_v5,
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

MN_ABI_DMABUF(ncclNetPlugin_v6)
