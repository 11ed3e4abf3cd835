/* What is used of NCCL's interface, which RCCL has too, declared here so that neither is needed to
 * build: NVIDIA, NCCL documentation, NCCL API. bench/engine/headers_test.c compares it with nccl.h
 * where that is installed. */
#ifndef MN_ENGINE_NCCL_H
#define MN_ENGINE_NCCL_H

#include <stddef.h>

#ifndef MN_NCCL_HEADER /* else nccl.h was included before this one */
#include "plugin/abi/nccl_abi.h"
typedef int ncclDataType_t, ncclRedOp_t; /* enum mn_type and enum mn_redop have NCCL's numbers */
typedef struct ncclComm *ncclComm_t;
typedef struct CUstream_st *cudaStream_t; /* RCCL: hipStream_t, a pointer too */
typedef struct {
    char internal[128];
} ncclUniqueId;
#endif

#define MN_NCCL_REDUCING                                                                           \
    (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,                 \
     ncclComm_t comm, cudaStream_t stream)

/* X(member, symbol, parameters) */
#define MN_NCCL_FUNCTIONS(X)                                                                       \
    X(version, ncclGetVersion, (int *version))                                                     \
    X(unique_id, ncclGetUniqueId, (ncclUniqueId * id))                                             \
    X(init, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank))          \
    X(destroy, ncclCommDestroy, (ncclComm_t comm))                                                 \
    X(async_error, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                 \
    X(group_start, ncclGroupStart, (void))                                                         \
    X(group_end, ncclGroupEnd, (void))                                                             \
    X(all_reduce, ncclAllReduce, MN_NCCL_REDUCING)                                                 \
    X(reduce_scatter, ncclReduceScatter, MN_NCCL_REDUCING)                                         \
    X(all_gather, ncclAllGather,                                                                   \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,              \
       cudaStream_t stream))                                                                       \
    X(broadcast, ncclBroadcast,                                                                    \
      (const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,    \
       cudaStream_t stream))                                                                       \
    X(reduce, ncclReduce,                                                                          \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,     \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(send, ncclSend,                                                                              \
      (const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,             \
       cudaStream_t stream))                                                                       \
    X(recv, ncclRecv,                                                                              \
      (void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                   \
       cudaStream_t stream))

struct mn_nccl {
#define X(member, symbol, parameters) ncclResult_t(*member) parameters;
    MN_NCCL_FUNCTIONS(X)
#undef X
    const char *(*error_string)(ncclResult_t result); /* ncclGetErrorString */
};

#endif
