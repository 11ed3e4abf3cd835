/* Elementwise reductions of arrays in host memory, for every data type of NCCL that has one.
 *
 * Types and operations have NCCL's numbers (nccl.h, ncclDataType_t and ncclRedOp_t), so that an
 * argument of the collective network interface is an index here. Types narrower than 32 bits are
 * computed in float and rounded to nearest, ties to even; results out of range become infinity, or
 * in e4m3, which has none, the largest number. */
#ifndef MN_REDUCE_H
#define MN_REDUCE_H

#include <stddef.h>

enum mn_type {
    MN_TYPE_INT8,
    MN_TYPE_UINT8,
    MN_TYPE_INT32,
    MN_TYPE_UINT32,
    MN_TYPE_INT64,
    MN_TYPE_UINT64,
    MN_TYPE_FLOAT16,
    MN_TYPE_FLOAT32,
    MN_TYPE_FLOAT64,
    MN_TYPE_BFLOAT16,
    MN_TYPE_FLOAT8E4M3,
    MN_TYPE_FLOAT8E5M2,
    MN_TYPES
};

enum mn_redop { MN_REDOP_SUM, MN_REDOP_PROD, MN_REDOP_MAX, MN_REDOP_MIN, MN_REDOPS };

/* inout[i] = inout[i] op in[i]; the arrays do not overlap and may be unaligned to anything but the
 * type's own size. Integers wrap. Maximum and minimum ignore a NaN beside a number. */
typedef void mn_reduce_fn(void *inout, const void *in, size_t count);

/* NULL for a type or operation without one. */
mn_reduce_fn *mn_reduce_kernel(int type, int op);
/* Bytes of one element, 0 for an unknown type. */
size_t mn_type_size(int type);
/* "float16"; NULL for an unknown type. */
const char *mn_type_name(int type);
/* "sum"; NULL for an unknown operation. */
const char *mn_redop_name(int op);

/* One element to and from the widest number of its kind, for checks and printing. Integers beyond
 * 2^53 lose digits. */
double mn_type_get(int type, const void *element);
void mn_type_set(int type, void *element, double value);

#endif
