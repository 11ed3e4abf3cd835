/* NCCL 2.24 and 2.25. Counts in size_t. */
#include "plugin/abi/coll_common.h"

extern MN_EXPORT const ncclCollNet_v9_t ncclCollNetPlugin_v9;

const ncclCollNet_v9_t ncclCollNetPlugin_v9 = {
    .name = "meshnet",
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = mn_abi_properties_v9,
    .listen = mn_abi_coll_listen,
    .connect = mn_abi_coll_connect,
    .reduceSupport = mn_abi_coll_reduce_support,
    .regMr = mn_abi_coll_reg_mr,
    .deregMr = mn_abi_coll_dereg_mr,
    .iallreduce = mn_abi_coll_iallreduce,
    .iallgather = mn_abi_coll_iallgather,
    .ireducescatter = mn_abi_coll_ireducescatter,
    .iflush = mn_abi_coll_iflush,
    .test = mn_abi_coll_test,
    .closeColl = mn_abi_coll_close,
    .closeListen = mn_abi_coll_close_listen,
};
