/* NCCL 2.26 and 2.27. As v9. */
#include "plugin/abi/coll_common.h"

extern MN_EXPORT const ncclCollNet_v10_t ncclCollNetPlugin_v10;

const ncclCollNet_v10_t ncclCollNetPlugin_v10 = {
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
