#include "plugin/abi/coll_common.h"
#include "plugin/coll.h"
#include "plugin/reduce.h"

_Static_assert((int)ncclFloat8e5m2 == MN_TYPE_FLOAT8E5M2 && (int)ncclBfloat16 == MN_TYPE_BFLOAT16,
               "types have NCCL's numbers");
_Static_assert((int)ncclMax == MN_REDOP_MAX && (int)ncclMin == MN_REDOP_MIN,
               "operations have NCCL's numbers");

ncclResult_t mn_abi_coll_listen(int dev, void *handle, void **listen_comm)
{
    return (ncclResult_t)mn_coll_listen(NULL, dev, handle, listen_comm);
}

ncclResult_t mn_abi_coll_init_v11(void **ctx, uint64_t comm_id, ncclDebugLogger_t logger)
{
    return mn_abi_init_v11(ctx, comm_id, NULL, logger, NULL);
}

ncclResult_t mn_abi_coll_listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
    return (ncclResult_t)mn_coll_listen(ctx, dev, handle, listen_comm);
}

ncclResult_t mn_abi_coll_connect(void **handles, int nranks, int rank, void *listen_comm,
                                 void **coll_comm)
{
    return (ncclResult_t)mn_coll_connect(handles, nranks, rank, listen_comm, coll_comm);
}

ncclResult_t mn_abi_coll_reduce_support(ncclDataType_t type, ncclRedOp_t op, int *supported)
{
    return (ncclResult_t)mn_coll_reduce_support((int)type, (int)op, supported);
}

ncclResult_t mn_abi_coll_reg_mr(void *coll_comm, void *data, size_t size, int type, void **mhandle)
{
    return (ncclResult_t)mn_coll_reg_mr(coll_comm, data, size, type, mhandle);
}

ncclResult_t mn_abi_coll_dereg_mr(void *coll_comm, void *mhandle)
{
    return (ncclResult_t)mn_coll_dereg_mr(coll_comm, mhandle);
}

/* Host memory needs none. */
ncclResult_t mn_abi_coll_iflush(void *coll_comm, void *data, int size, void *mhandle,
                                void **request)
{
    (void)coll_comm;
    (void)data;
    (void)size;
    (void)mhandle;
    *request = NULL;
    return ncclSuccess;
}

ncclResult_t mn_abi_coll_test(void *request, int *done, int *size)
{
    return (ncclResult_t)mn_coll_test(request, done, size);
}

ncclResult_t mn_abi_coll_close(void *coll_comm)
{
    return (ncclResult_t)mn_coll_close(coll_comm);
}

ncclResult_t mn_abi_coll_close_listen(void *listen_comm)
{
    return (ncclResult_t)mn_coll_close_listen(listen_comm);
}

ncclResult_t mn_abi_coll_iallreduce(void *coll_comm, void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                                    void *recv_mhandle, void **request)
{
    size_t element = mn_type_size((int)type);

    *request = NULL;
    if (!element || count > MN_COLL_MAX_BYTES / element)
        return ncclInvalidArgument;
    size_t bytes = count * element;
    return (ncclResult_t)mn_coll_allreduce(coll_comm,
                                           (struct mn_coll_part){send, bytes, send_mhandle},
                                           (struct mn_coll_part){recv, bytes, recv_mhandle},
                                           (int)type, (int)op, request);
}

/* NCCL has always passed one part. The other side's size is known from the window. */
ncclResult_t mn_abi_coll_iallgather(void *coll_comm, void *send, int n, ncclNetSGE_v9_t *parts,
                                    size_t bytes_per_rank, size_t offset, size_t bytes,
                                    void *send_mhandle, void **request)
{
    *request = NULL;
    if (n != 1)
        return ncclInvalidArgument;
    return (ncclResult_t)
        mn_coll_allgather(coll_comm, (struct mn_coll_part){send, bytes_per_rank, send_mhandle},
                          (struct mn_coll_part){parts->address, parts->size, parts->mhandle},
                          bytes_per_rank, offset, bytes, request);
}

ncclResult_t mn_abi_coll_ireducescatter(void *coll_comm, int n, ncclNetSGE_v9_t *parts, void *recv,
                                        size_t bytes_per_rank, size_t offset, size_t bytes,
                                        ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle,
                                        void **request)
{
    *request = NULL;
    if (n != 1)
        return ncclInvalidArgument;
    return (ncclResult_t)
        mn_coll_reducescatter(coll_comm,
                              (struct mn_coll_part){parts->address, parts->size, parts->mhandle},
                              (struct mn_coll_part){recv, bytes_per_rank, recv_mhandle},
                              bytes_per_rank, offset, bytes, (int)type, (int)op, request);
}
