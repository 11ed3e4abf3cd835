/* NCCL 2.20 to 2.23. Counts in int, parts in 32 bits. */
#include "plugin/abi/coll_common.h"

extern MN_EXPORT const ncclCollNet_v8_t ncclCollNetPlugin_v8;

static ncclResult_t properties(int dev, ncclNetProperties_v8_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result == ncclSuccess)
        *props = (ncclNetProperties_v8_t){MN_PROPS_V8(p)};
    return result;
}

static ncclResult_t iallreduce(void *coll_comm, void *send, void *recv, int count,
                               ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                               void *recv_mhandle, void **request)
{
    *request = NULL;
    if (count < 0)
        return ncclInvalidArgument;
    return mn_abi_coll_iallreduce(coll_comm, send, recv, (size_t)count, type, op, send_mhandle,
                                  recv_mhandle, request);
}

static ncclNetSGE_v9_t wide(const ncclNetSGE_v8_t *part)
{
    return (ncclNetSGE_v9_t){part->mhandle, part->address, part->size};
}

static ncclResult_t iallgather(void *coll_comm, void *send, int n, ncclNetSGE_v8_t *parts,
                               size_t bytes_per_rank, size_t offset, size_t bytes,
                               void *send_mhandle, void **request)
{
    ncclNetSGE_v9_t part = n == 1 ? wide(parts) : (ncclNetSGE_v9_t){0};
    return mn_abi_coll_iallgather(coll_comm, send, n, &part, bytes_per_rank, offset, bytes,
                                  send_mhandle, request);
}

static ncclResult_t ireducescatter(void *coll_comm, int n, ncclNetSGE_v8_t *parts, void *recv,
                                   size_t bytes_per_rank, size_t offset, size_t bytes,
                                   ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle,
                                   void **request)
{
    ncclNetSGE_v9_t part = n == 1 ? wide(parts) : (ncclNetSGE_v9_t){0};
    return mn_abi_coll_ireducescatter(coll_comm, n, &part, recv, bytes_per_rank, offset, bytes,
                                      type, op, recv_mhandle, request);
}

const ncclCollNet_v8_t ncclCollNetPlugin_v8 = {
    .name = "meshnet",
    .init = mn_abi_init,
    .devices = mn_abi_devices,
    .getProperties = properties,
    .listen = mn_abi_coll_listen,
    .connect = mn_abi_coll_connect,
    .reduceSupport = mn_abi_coll_reduce_support,
    .regMr = mn_abi_coll_reg_mr,
    .deregMr = mn_abi_coll_dereg_mr,
    .iallreduce = iallreduce,
    .iallgather = iallgather,
    .ireducescatter = ireducescatter,
    .iflush = mn_abi_coll_iflush,
    .test = mn_abi_coll_test,
    .closeColl = mn_abi_coll_close,
    .closeListen = mn_abi_coll_close_listen,
};
