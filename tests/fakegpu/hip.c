/* libamdhip64.so.6 over the double. */
#include "plugin/gpu/hip.h"

#include <stdio.h>
#include <string.h>

#include "tests/fakegpu/fakegpu.h"

#define X(member, symbol, optional, parameters) int symbol parameters;
MN_HIP_FUNCTIONS(X)
#undef X
const char *hipGetErrorName(int error);

int hipInit(unsigned int flags)
{
    (void)flags;
    return fakegpu()->init ? (int)fakegpu()->init : hipSuccess;
}

int hipRuntimeGetVersion(int *version)
{
    *version = (int)fakegpu()->hip;
    return hipSuccess;
}

int hipGetDeviceCount(int *count)
{
    *count = (int)fakegpu()->devices;
    return *count ? hipSuccess : hipErrorNoDevice;
}

int hipGetDevice(int *device)
{
    *device = fakegpu_thread()->current;
    return hipSuccess;
}

int hipSetDevice(int device)
{
    if (fakegpu()->open)
        return (int)fakegpu()->open;
    fakegpu_thread()->current = device;
    return hipSuccess;
}

int hipDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Double %d", device);
    return hipSuccess;
}

int hipDeviceGetPCIBusId(char *address, int size, int device)
{
    snprintf(address, (size_t)size, "0000:%02X:00.0", 0xc1 + device);
    return hipSuccess;
}

int hipDeviceSynchronize(void)
{
    return hipSuccess;
}

/* What a stream is given here is done when it is given. */
int hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags)
{
    *stream = (hipStream_t)&hipMalloc;
    return flags == hipStreamNonBlocking ? hipSuccess : hipErrorInvalidValue;
}

int hipStreamSynchronize(hipStream_t stream)
{
    return stream == (hipStream_t)&hipMalloc ? hipSuccess : hipErrorInvalidValue;
}

int hipStreamDestroy(hipStream_t stream)
{
    return hipStreamSynchronize(stream);
}

int hipMalloc(void **p, size_t size)
{
    *p = fakegpu_alloc(fakegpu_thread()->current, FAKEGPU_DEVICE, size);
    return *p ? hipSuccess : hipErrorOutOfMemory;
}

int hipMallocManaged(void **p, size_t size, unsigned int flags)
{
    *p = flags == hipMemAttachGlobal
             ? fakegpu_alloc(fakegpu_thread()->current, FAKEGPU_MANAGED, size)
             : NULL;
    return *p ? hipSuccess : hipErrorOutOfMemory;
}

int hipFree(void *p)
{
    return fakegpu_free(p) ? hipErrorInvalidValue : hipSuccess;
}

int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
    return kind != hipMemcpyDefault || fakegpu_copy(to, from, size) ? hipErrorInvalidValue
                                                                    : hipSuccess;
}

int hipMemset(void *p, int byte, size_t size)
{
    return fakegpu_fill(p, byte, size) ? hipErrorInvalidValue : hipSuccess;
}

int hipPointerGetAttribute(void *value, int attribute, void *p)
{
    int device, six = fakegpu()->hip >= MN_HIP_6;
    enum fakegpu_kind kind = fakegpu_where(p, &device, NULL, NULL);

    if (kind == FAKEGPU_NONE && (!six || attribute != HIP_POINTER_ATTRIBUTE_MEMORY_TYPE))
        return hipErrorInvalidValue;
    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(int *)value = kind == FAKEGPU_NONE ? 0 : six ? MN_HIP6_DEVICE : MN_HIP5_DEVICE;
        break;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)value = kind == FAKEGPU_MANAGED;
        break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = device;
        break;
    default:
        return hipErrorInvalidValue;
    }
    return hipSuccess;
}

int hipMemGetAddressRange(void **base, size_t *size, void *p)
{
    int device;

    return fakegpu_where(p, &device, base, size) == FAKEGPU_NONE ? hipErrorInvalidValue
                                                                 : hipSuccess;
}

const char *hipGetErrorName(int error)
{
#define X(constant, value)                                                                         \
    if ((strncmp(#constant, "hipError", 8) == 0 || !(value)) && error == (value))                  \
        return #constant;
    MN_HIP_CONSTANTS(X)
#undef X
    return "hipErrorUnknown";
}
