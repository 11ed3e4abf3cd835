/* What is used of the HIP runtime API and of HSA, declared here so that no ROCm is needed to build:
 * AMD, HIP documentation, runtime API reference; ROCR-Runtime hsa_ext_amd.h.
 * plugin/gpu/headers_test.c compares it with ROCm's own headers where there are some. */
#ifndef MN_GPU_HIP_H
#define MN_GPU_HIP_H

#include <stddef.h>
#include <stdint.h>

#ifndef MN_HIP_HEADER /* else ROCm's header was included before this one */
typedef int hipError_t, hipDevice_t, hipMemcpyKind, hipPointer_attribute;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
#endif

/* X(member, symbol, optional, parameters) */
#define MN_HIP_FUNCTIONS(X)                                                                        \
    X(init, hipInit, 0, (unsigned int flags))                                                      \
    X(runtime_version, hipRuntimeGetVersion, 0, (int *version))                                    \
    X(device_count, hipGetDeviceCount, 0, (int *count))                                            \
    X(device_current, hipGetDevice, 0, (int *device))                                              \
    X(device_set, hipSetDevice, 0, (int device))                                                   \
    X(device_name, hipDeviceGetName, 0, (char *name, int size, hipDevice_t device))                \
    X(device_pci, hipDeviceGetPCIBusId, 0, (char *address, int size, int device))                  \
    X(device_sync, hipDeviceSynchronize, 0, (void))                                                \
    X(stream_create, hipStreamCreateWithFlags, 0, (hipStream_t * stream, unsigned int flags))      \
    X(stream_sync, hipStreamSynchronize, 0, (hipStream_t stream))                                  \
    X(stream_destroy, hipStreamDestroy, 0, (hipStream_t stream))                                   \
    X(alloc, hipMalloc, 0, (void **p, size_t size))                                                \
    X(alloc_managed, hipMallocManaged, 0, (void **p, size_t size, unsigned int flags))             \
    X(free, hipFree, 0, (void *p))                                                                 \
    X(copy, hipMemcpy, 0, (void *to, const void *from, size_t size, hipMemcpyKind kind))           \
    X(fill, hipMemset, 0, (void *p, int byte, size_t size))                                        \
    X(pointer_attribute, hipPointerGetAttribute, 0,                                                \
      (void *value, hipPointer_attribute attribute, hipDeviceptr_t p))                             \
    X(address_range, hipMemGetAddressRange, 0,                                                     \
      (hipDeviceptr_t * base, size_t * size, hipDeviceptr_t p))

/* Of HSA, in libhsa-runtime64.so.1, which the runtime above loads. ROCm 5.6. */
#define MN_HSA_FUNCTIONS(X)                                                                        \
    X(export_dmabuf, hsa_amd_portable_export_dmabuf, 0,                                            \
      (const void *p, size_t size, int *fd, uint64_t *offset))

struct mn_hip {
#define X(member, symbol, optional, parameters) hipError_t(*member) parameters;
    MN_HIP_FUNCTIONS(X)
#undef X
#define X(member, symbol, optional, parameters) int(*member) parameters;
    MN_HSA_FUNCTIONS(X)
#undef X
    const char *(*error_name)(hipError_t error);
};

#define MN_HIP_CONSTANTS(X)                                                                        \
    X(hipSuccess, 0)                                                                               \
    X(hipErrorInvalidValue, 1)                                                                     \
    X(hipErrorOutOfMemory, 2)                                                                      \
    X(hipErrorInsufficientDriver, 35)                                                              \
    X(hipErrorNoDevice, 100)                                                                       \
    X(hipErrorNotSupported, 801)                                                                   \
    X(hipMemcpyDefault, 4)                                                                         \
    X(hipMemAttachGlobal, 1)                                                                       \
    X(hipStreamNonBlocking, 1)                                                                     \
    X(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                        \
    X(HIP_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                         \
    X(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)

#ifndef MN_HIP_HEADER
enum {
#define X(name, value) name = value,
    MN_HIP_CONSTANTS(X)
#undef X
};
#endif

/* hipMemoryType changed its values with HIP 6. */
enum {
    MN_HIP_6 = 60000000,
    MN_HIP5_HOST = 0,
    MN_HIP5_DEVICE = 1,
    MN_HIP6_HOST = 1,
    MN_HIP6_DEVICE = 2
};

#endif
