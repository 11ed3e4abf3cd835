/* What is used of the CUDA driver API, declared here so that no toolkit is needed to build:
 * NVIDIA, CUDA Driver API reference. plugin/gpu/headers_test.c compares it with the toolkit's own
 * header where there is one. */
#ifndef MN_GPU_CUDA_H
#define MN_GPU_CUDA_H

#include <stddef.h>

#ifndef MN_CUDA_HEADER /* else the toolkit's header was included before this one */
typedef int CUresult, CUdevice, CUdevice_attribute, CUpointer_attribute, CUmemRangeHandleType;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
#endif

/* X(member, symbol, optional, parameters) */
#define MN_CUDA_FUNCTIONS(X)                                                                       \
    X(init, cuInit, 0, (unsigned int flags))                                                       \
    X(error_name, cuGetErrorName, 0, (CUresult error, const char **name))                          \
    X(device_count, cuDeviceGetCount, 0, (int *count))                                             \
    X(device_get, cuDeviceGet, 0, (CUdevice * device, int ordinal))                                \
    X(device_name, cuDeviceGetName, 0, (char *name, int size, CUdevice device))                    \
    X(device_attribute, cuDeviceGetAttribute, 0,                                                   \
      (int *value, CUdevice_attribute attribute, CUdevice device))                                 \
    X(device_pci, cuDeviceGetPCIBusId, 0, (char *address, int size, CUdevice device))              \
    X(context_retain, cuDevicePrimaryCtxRetain, 0, (CUcontext * context, CUdevice device))         \
    X(context_push, cuCtxPushCurrent_v2, 0, (CUcontext context))                                   \
    X(context_pop, cuCtxPopCurrent_v2, 0, (CUcontext * context))                                   \
    X(context_set, cuCtxSetCurrent, 0, (CUcontext context))                                        \
    X(context_sync, cuCtxSynchronize, 0, (void))                                                   \
    X(stream_create, cuStreamCreate, 0, (CUstream * stream, unsigned int flags))                   \
    X(stream_sync, cuStreamSynchronize, 0, (CUstream stream))                                      \
    X(stream_destroy, cuStreamDestroy_v2, 0, (CUstream stream))                                    \
    X(alloc, cuMemAlloc_v2, 0, (CUdeviceptr * p, size_t size))                                     \
    X(alloc_managed, cuMemAllocManaged, 0, (CUdeviceptr * p, size_t size, unsigned int flags))     \
    X(free, cuMemFree_v2, 0, (CUdeviceptr p))                                                      \
    X(copy, cuMemcpy, 0, (CUdeviceptr to, CUdeviceptr from, size_t size))                          \
    X(fill, cuMemsetD8_v2, 0, (CUdeviceptr p, unsigned char byte, size_t size))                    \
    X(pointer_attribute, cuPointerGetAttribute, 0,                                                 \
      (void *value, CUpointer_attribute attribute, CUdeviceptr p))                                 \
    X(address_range, cuMemGetAddressRange_v2, 0,                                                   \
      (CUdeviceptr * base, size_t * size, CUdeviceptr p))                                          \
    X(range_handle, cuMemGetHandleForAddressRange, 1, /* 11.7 */                                   \
      (void *handle, CUdeviceptr p, size_t size, CUmemRangeHandleType type,                        \
       unsigned long long flags))

struct mn_cuda {
#define X(member, symbol, optional, parameters) CUresult(*member) parameters;
    MN_CUDA_FUNCTIONS(X)
#undef X
};

/* X(name, value): CU_DEVICE_ATTRIBUTE_, CU_POINTER_ATTRIBUTE_ and others as the header has them. */
#define MN_CUDA_CONSTANTS(X)                                                                       \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                           \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                                                               \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                               \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                            \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                                      \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                                              \
    X(CUDA_ERROR_UNKNOWN, 999)                                                                     \
    X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                                          \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                                        \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                            \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)                                          \
    X(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)                                                  \
    X(CU_COMPUTEMODE_PROHIBITED, 2)                                                                \
    X(CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                                                         \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                           \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                          \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEM_ATTACH_GLOBAL, 1)                                                                     \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                   \
    X(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)

#ifndef MN_CUDA_HEADER
enum {
#define X(name, value) name = value,
    MN_CUDA_CONSTANTS(X)
#undef X
};
#endif

#endif
