/* Our declarations against those of the CUDA toolkit and of ROCm, where their headers are installed
 * (CMake defines MN_CUDA_HEADER and MN_HIP_HEADER): a prototype or a constant that differs does not
 * compile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#ifdef MN_CUDA_HEADER
#include <cuda.h>
#endif
#ifdef MN_HIP_HEADER
#include <hip/hip_runtime_api.h>
#endif

#include "plugin/gpu/cuda.h"
#include "plugin/gpu/hip.h"

/* Once more, so that the compiler compares. */
#define X(member, symbol, optional, parameters) CUresult symbol parameters;
MN_CUDA_FUNCTIONS(X)
#undef X
#define X(member, symbol, optional, parameters) hipError_t symbol parameters;
MN_HIP_FUNCTIONS(X)
#undef X
#define X(name, value) _Static_assert((int)(name) == (value), #name);
MN_CUDA_CONSTANTS(X)
MN_HIP_CONSTANTS(X)
#undef X
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice_attribute) == sizeof(int) &&
                   sizeof(CUpointer_attribute) == sizeof(int),
               "enumerations are passed as int");
_Static_assert(sizeof(CUdeviceptr) == sizeof(void *) && sizeof(CUdevice) == sizeof(int), "layout");
_Static_assert(sizeof(hipError_t) == sizeof(int) && sizeof(hipPointer_attribute) == sizeof(int),
               "enumerations are passed as int");

static void compared(void **state)
{
    (void)state;
#if defined(MN_CUDA_HEADER) && defined(MN_HIP_HEADER)
    print_message("with CUDA %d and HIP %d\n", CUDA_VERSION, HIP_VERSION_MAJOR);
#elif defined(MN_CUDA_HEADER)
    print_message("with CUDA %d; no HIP header here\n", CUDA_VERSION);
#elif defined(MN_HIP_HEADER)
    print_message("with HIP %d; no CUDA header here\n", HIP_VERSION_MAJOR);
#else
    skip(); /* neither header is here */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compared)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
