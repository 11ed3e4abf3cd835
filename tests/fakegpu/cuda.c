/* libcuda.so.1 over the double. Like the driver, it wants a context where the driver wants one. */
#include "plugin/gpu/cuda.h"

#include <stdio.h>
#include <string.h>

#include "tests/fakegpu/fakegpu.h"

enum { INVALID_CONTEXT = 201 };

#define X(member, symbol, optional, parameters) int symbol parameters;
MN_CUDA_FUNCTIONS(X)
#undef X

static int contexts[64];

int cuInit(unsigned int flags)
{
    (void)flags;
    return fakegpu()->init      ? (int)fakegpu()->init
           : fakegpu()->devices ? CUDA_SUCCESS
                                : CUDA_ERROR_NO_DEVICE;
}

int cuGetErrorName(int error, const char **name)
{
#define X(constant, value)                                                                         \
    if (strncmp(#constant, "CUDA_", 5) == 0 && error == (value)) {                                 \
        *name = #constant;                                                                         \
        return CUDA_SUCCESS;                                                                       \
    }
    MN_CUDA_CONSTANTS(X)
#undef X
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

int cuDeviceGetCount(int *count)
{
    *count = (int)fakegpu()->devices;
    return CUDA_SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal < fakegpu()->devices ? CUDA_SUCCESS : 101;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Double %d", device);
    return CUDA_SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = (int)fakegpu()->integrated;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = (int)fakegpu()->major;
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        *value = (int)fakegpu()->direct;
        break;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        *value = (int)fakegpu()->dmabuf;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

int cuDeviceGetPCIBusId(char *address, int size, int device)
{
    snprintf(address, (size_t)size, "0000:%02X:00.0", 0x1a + device);
    return CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRetain(CUcontext *context, int device)
{
    if (fakegpu()->open)
        return (int)fakegpu()->open;
    contexts[device] = device;
    *context = (CUcontext)&contexts[device];
    return CUDA_SUCCESS;
}

int cuCtxPushCurrent_v2(CUcontext context)
{
    struct fakegpu_thread *t = fakegpu_thread();

    t->stack[t->depth++] = (int)((int *)context - contexts);
    return CUDA_SUCCESS;
}

int cuCtxPopCurrent_v2(CUcontext *context)
{
    struct fakegpu_thread *t = fakegpu_thread();

    if (!t->depth)
        return INVALID_CONTEXT;
    *context = (CUcontext)&contexts[t->stack[--t->depth]];
    return CUDA_SUCCESS;
}

int cuCtxSetCurrent(CUcontext context)
{
    struct fakegpu_thread *t = fakegpu_thread();

    if (!t->depth)
        t->depth = 1;
    t->stack[t->depth - 1] = (int)((int *)context - contexts);
    return CUDA_SUCCESS;
}

/* What a stream is given here is done when it is given. */
int cuStreamCreate(CUstream *stream, unsigned int flags)
{
    *stream = (CUstream)&contexts;
    return flags == CU_STREAM_NON_BLOCKING ? cuCtxSynchronize() : CUDA_ERROR_INVALID_VALUE;
}

int cuStreamSynchronize(CUstream stream)
{
    return stream == (CUstream)&contexts ? cuCtxSynchronize() : CUDA_ERROR_INVALID_VALUE;
}

int cuStreamDestroy_v2(CUstream stream)
{
    return cuStreamSynchronize(stream);
}

int cuCtxSynchronize(void)
{
    return fakegpu_thread()->depth ? CUDA_SUCCESS : INVALID_CONTEXT;
}

static int alloc(unsigned long long *p, size_t size, enum fakegpu_kind kind)
{
    const struct fakegpu_thread *t = fakegpu_thread();

    if (!t->depth)
        return INVALID_CONTEXT;
    *p = (uintptr_t)fakegpu_alloc(t->stack[t->depth - 1], kind, size);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int cuMemAlloc_v2(unsigned long long *p, size_t size)
{
    return alloc(p, size, FAKEGPU_DEVICE);
}

int cuMemAllocManaged(unsigned long long *p, size_t size, unsigned int flags)
{
    return flags == CU_MEM_ATTACH_GLOBAL ? alloc(p, size, FAKEGPU_MANAGED)
                                         : CUDA_ERROR_INVALID_VALUE;
}

int cuMemFree_v2(unsigned long long p)
{
    return fakegpu_free((void *)(uintptr_t)p) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int cuMemcpy(unsigned long long to, unsigned long long from, size_t size)
{
    if (!fakegpu_thread()->depth)
        return INVALID_CONTEXT;
    return fakegpu_copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

int cuMemsetD8_v2(unsigned long long p, unsigned char byte, size_t size)
{
    if (!fakegpu_thread()->depth)
        return INVALID_CONTEXT;
    return fakegpu_fill((void *)(uintptr_t)p, byte, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int cuPointerGetAttribute(void *value, int attribute, unsigned long long p)
{
    int device;
    enum fakegpu_kind kind = fakegpu_where((void *)(uintptr_t)p, &device, NULL, NULL);

    if (kind == FAKEGPU_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = CU_MEMORYTYPE_HOST + 1; /* device, managed memory too */
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = fakegpu_id((void *)(uintptr_t)p);
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)value = kind == FAKEGPU_MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = device;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

int cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long p)
{
    int device;
    void *start = NULL;

    if (fakegpu_where((void *)(uintptr_t)p, &device, &start, size) == FAKEGPU_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    *base = (uintptr_t)start;
    return CUDA_SUCCESS;
}

int cuMemGetHandleForAddressRange(void *handle, unsigned long long p, size_t size, int type,
                                  unsigned long long flags)
{
    uint64_t offset;

    (void)flags;
    if (fakegpu()->export)
        return (int)fakegpu()->export;
    if (!fakegpu_thread()->depth)
        return INVALID_CONTEXT;
    if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || p % 4096 || size % 4096)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = (fakegpu()->anew ? fakegpu_export_anew : fakegpu_export)((void *)(uintptr_t)p, size,
                                                                      &offset);
    if (fd < 0 || offset)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)handle = fd;
    return CUDA_SUCCESS;
}
