/* Bodies that several versions of the ncclCollNet ABI share. */
#ifndef MN_ABI_COLL_COMMON_H
#define MN_ABI_COLL_COMMON_H

#include "plugin/abi/common.h"
#include "plugin/abi/nccl_coll_abi.h"

/* v8 to v12 */
ncclResult_t mn_abi_coll_connect(void **handles, int nranks, int rank, void *listen_comm,
                                 void **coll_comm);
ncclResult_t mn_abi_coll_reduce_support(ncclDataType_t type, ncclRedOp_t op, int *supported);
ncclResult_t mn_abi_coll_reg_mr(void *coll_comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t mn_abi_coll_dereg_mr(void *coll_comm, void *mhandle);
ncclResult_t mn_abi_coll_iflush(void *coll_comm, void *data, int size, void *mhandle,
                                void **request);
ncclResult_t mn_abi_coll_test(void *request, int *done, int *size);
ncclResult_t mn_abi_coll_close(void *coll_comm);
ncclResult_t mn_abi_coll_close_listen(void *listen_comm);
/* v8 to v10 */
ncclResult_t mn_abi_coll_listen(int dev, void *handle, void **listen_comm);
/* v11 to v12 */
ncclResult_t mn_abi_coll_init_v11(void **ctx, uint64_t comm_id, ncclDebugLogger_t logger);
ncclResult_t mn_abi_coll_listen_v11(void *ctx, int dev, void *handle, void **listen_comm);
/* v9 to v12 */
ncclResult_t mn_abi_coll_iallreduce(void *coll_comm, void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                                    void *recv_mhandle, void **request);
ncclResult_t mn_abi_coll_iallgather(void *coll_comm, void *send, int n, ncclNetSGE_v9_t *parts,
                                    size_t bytes_per_rank, size_t offset, size_t bytes,
                                    void *send_mhandle, void **request);
ncclResult_t mn_abi_coll_ireducescatter(void *coll_comm, int n, ncclNetSGE_v9_t *parts, void *recv,
                                        size_t bytes_per_rank, size_t offset, size_t bytes,
                                        ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle,
                                        void **request);

#endif
