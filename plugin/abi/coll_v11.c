/* NCCL 2.28 and 2.29. A context for each communicator, as in the net's v11. */
#include "plugin/abi/coll_common.h"

extern MN_EXPORT const ncclCollNet_v11_t ncclCollNetPlugin_v11;

static ncclResult_t properties(int dev, ncclNetProperties_v11_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess)
        *props = (ncclNetProperties_v11_t){MN_PROPS_V11(p, dev)};
    return result;
}

const ncclCollNet_v11_t ncclCollNetPlugin_v11 = {
    .name = "meshnet",
    .init = mn_abi_coll_init_v11,
    .devices = mn_abi_devices,
    .getProperties = properties,
    .listen = mn_abi_coll_listen_v11,
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
    .finalize = mn_abi_finalize,
};
