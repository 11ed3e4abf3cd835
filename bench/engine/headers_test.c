/* Our declarations against NCCL's, where its header is installed (CMake defines MN_NCCL_HEADER): a
 * prototype or a constant that differs does not compile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#ifdef MN_NCCL_HEADER
#include <nccl.h>
#endif

#include "bench/engine/nccl.h"
#include "plugin/reduce.h"

#define X(member, symbol, parameters) ncclResult_t symbol parameters;
MN_NCCL_FUNCTIONS(X)
#undef X
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                   sizeof(ncclRedOp_t) == sizeof(int),
               "enumerations are passed as int");
_Static_assert(sizeof(ncclUniqueId) == 128, "layout");
_Static_assert(ncclSuccess == 0 && ncclRemoteError == 6 && ncclInProgress == 7, "results");
#ifdef MN_NCCL_HEADER
_Static_assert((int)ncclInt8 == MN_TYPE_INT8 && (int)ncclUint8 == MN_TYPE_UINT8 &&
                   (int)ncclInt32 == MN_TYPE_INT32 && (int)ncclUint32 == MN_TYPE_UINT32 &&
                   (int)ncclInt64 == MN_TYPE_INT64 && (int)ncclUint64 == MN_TYPE_UINT64 &&
                   (int)ncclFloat16 == MN_TYPE_FLOAT16 && (int)ncclFloat32 == MN_TYPE_FLOAT32 &&
                   (int)ncclFloat64 == MN_TYPE_FLOAT64 && (int)ncclBfloat16 == MN_TYPE_BFLOAT16,
               "types");
_Static_assert((int)ncclSum == MN_REDOP_SUM && (int)ncclProd == MN_REDOP_PROD &&
                   (int)ncclMax == MN_REDOP_MAX && (int)ncclMin == MN_REDOP_MIN,
               "operations");
#endif

static void compared(void **state)
{
    (void)state;
#ifdef MN_NCCL_HEADER
    print_message("with NCCL %d\n", NCCL_VERSION_CODE);
#else
    skip(); /* no header here */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compared)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
