/* libhsa-runtime64.so.1 over the double of the HIP runtime, whose memory it exports. */
#include "plugin/gpu/hip.h"
#include "tests/fakegpu/fakegpu.h"

#define X(member, symbol, optional, parameters) int symbol parameters;
MN_HSA_FUNCTIONS(X)
#undef X

enum { HSA_STATUS_ERROR = 0x1000 };

int hsa_amd_portable_export_dmabuf(const void *p, size_t size, int *fd, uint64_t *offset)
{
    if (fakegpu()->export)
        return (int)fakegpu()->export;
    *fd = fakegpu_export(p, size, offset);
    return *fd < 0 ? HSA_STATUS_ERROR : 0;
}
