#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "plugin/reduce.h"

/* --- narrow floating point, without branches so that loops over it become vectors --------------
 */

static inline float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* A number with so many exponent and mantissa bits as float. Its bits, moved to where float has
 * them, are that number times two to the difference of the biases, subnormals included. */
static inline float widen(uint32_t narrow, int exponent, int mantissa)
{
    uint32_t sign = narrow >> (exponent + mantissa) << 31;
    uint32_t rest = (narrow & ((1u << (exponent + mantissa)) - 1)) << (23 - mantissa);
    float scale = from_bits((uint32_t)(127 + 127 - ((1 << (exponent - 1)) - 1)) << 23);
    uint32_t wide = to_bits(from_bits(rest) * scale);
    uint32_t special = ((1u << exponent) - 1) << 23;

    wide = rest >= special ? rest | 0x7f800000 : wide;
    return from_bits(sign | wide);
}

/* Back, to nearest, ties to even. Adding the magic number leaves a subnormal's bits at the bottom,
 * rounded by the adder; for others the carry of the rounding may walk into the exponent. */
static inline uint32_t narrow(float f, int exponent, int mantissa)
{
    int bias = (1 << (exponent - 1)) - 1, shift = 23 - mantissa;
    uint32_t bits = to_bits(f), sign = bits >> 31 << (exponent + mantissa);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t infinity = ((1u << exponent) - 1) << mantissa;
    uint32_t least = (uint32_t)(127 - bias + 1) << 23; /* the smallest normal */
    uint32_t magic = (uint32_t)(127 - bias + 1 + 23 - mantissa) << 23;
    uint32_t small = to_bits(from_bits(magnitude) + from_bits(magic)) - magic;
    uint32_t odd = magnitude >> shift & 1;
    uint32_t normal =
        (magnitude - ((uint32_t)(127 - bias) << 23) + ((1u << (shift - 1)) - 1) + odd) >> shift;
    uint32_t out = magnitude < least ? small : normal;

    out = out > infinity ? infinity : out;
    out = magnitude >= (uint32_t)(127 + bias + 1) << 23 ? infinity : out;
    out = magnitude > 0x7f800000 ? infinity | 1u << (mantissa - 1) : out;
    return sign | out;
}

static inline float f16_get(uint16_t x)
{
    return widen(x, 5, 10);
}
static inline uint16_t f16_set(float f)
{
    return (uint16_t)narrow(f, 5, 10);
}
static inline float bf16_get(uint16_t x)
{
    return from_bits((uint32_t)x << 16);
}
static inline uint16_t bf16_set(float f)
{
    uint32_t bits = to_bits(f), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40) : rounded);
}
static inline float e5m2_get(uint8_t x)
{
    return widen(x, 5, 2);
}
static inline uint8_t e5m2_set(float f)
{
    return (uint8_t)narrow(f, 5, 2);
}

/* e4m3 has no infinity: the exponent of all ones holds numbers up to 448, and NaN only with a
 * mantissa of all ones. With one exponent bit more it is an ordinary format. */
static inline float e4m3_get(uint8_t x)
{
    uint32_t sign = (uint32_t)(x >> 7) << 31, rest = (uint32_t)(x & 0x7f) << 20;
    uint32_t wide = to_bits(from_bits(rest) * 0x1p120f);

    wide = (x & 0x7f) == 0x7f ? 0x7fc00000 : wide;
    return from_bits(sign | wide);
}
static inline uint8_t e4m3_set(float f)
{
    uint32_t bits = to_bits(f), sign = bits >> 31 << 7, magnitude = bits & 0x7fffffff;
    uint32_t magic = (uint32_t)(127 - 7 + 1 + 20) << 23;
    uint32_t small = to_bits(from_bits(magnitude) + from_bits(magic)) - magic;
    uint32_t normal = (magnitude - (120u << 23) + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    uint32_t out = magnitude < 121u << 23 ? small : normal;

    out = magnitude >= to_bits(448.0f) ? 0x7e : out;
    out = magnitude > 0x7f800000 ? 0x7f : out;
    return (uint8_t)(sign | out);
}

/* --- kernels ---------------------------------------------------------------------------------- */

#define SAME(x)    (x)
#define SUM(a, b)  ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define IMAX(a, b) ((a) > (b) ? (a) : (b))
#define IMIN(a, b) ((a) < (b) ? (a) : (b))
/* A NaN compares false with everything, so the second test picks the number beside it. */
#define FMAX(a, b) ((a) > (b) || (b) != (b) ? (a) : (b))
#define FMIN(a, b) ((a) < (b) || (b) != (b) ? (a) : (b))

#define KERNEL(name, type, wide, get, set, op)                                                     \
    static void name(void *inout, const void *in, size_t count)                                    \
    {                                                                                              \
        type *restrict to = inout;                                                                 \
        const type *restrict from = in;                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            wide a = (wide)get(to[i]), b = (wide)get(from[i]);                                     \
            to[i] = (type)set(op(a, b));                                                           \
        }                                                                                          \
    }
#define KERNELS(name, type, wide, get, set, max, min)                                              \
    KERNEL(name##_sum, type, wide, get, set, SUM)                                                  \
    KERNEL(name##_prod, type, wide, get, set, PROD)                                                \
    KERNEL(name##_max, type, wide, get, set, max)                                                  \
    KERNEL(name##_min, type, wide, get, set, min)

/* Sums and products of signed integers are those of the unsigned: they wrap. */
KERNEL(int8_max, int8_t, int8_t, SAME, SAME, IMAX)
KERNEL(int8_min, int8_t, int8_t, SAME, SAME, IMIN)
KERNELS(uint8, uint8_t, uint32_t, SAME, SAME, IMAX, IMIN)
KERNEL(int32_max, int32_t, int32_t, SAME, SAME, IMAX)
KERNEL(int32_min, int32_t, int32_t, SAME, SAME, IMIN)
KERNELS(uint32, uint32_t, uint32_t, SAME, SAME, IMAX, IMIN)
KERNEL(int64_max, int64_t, int64_t, SAME, SAME, IMAX)
KERNEL(int64_min, int64_t, int64_t, SAME, SAME, IMIN)
KERNELS(uint64, uint64_t, uint64_t, SAME, SAME, IMAX, IMIN)
KERNELS(float16, uint16_t, float, f16_get, f16_set, FMAX, FMIN)
KERNELS(float32, float, float, SAME, SAME, FMAX, FMIN)
KERNELS(float64, double, double, SAME, SAME, FMAX, FMIN)
KERNELS(bfloat16, uint16_t, float, bf16_get, bf16_set, FMAX, FMIN)
KERNELS(e4m3, uint8_t, float, e4m3_get, e4m3_set, FMAX, FMIN)
KERNELS(e5m2, uint8_t, float, e5m2_get, e5m2_set, FMAX, FMIN)

#define OWN(name)           name##_sum, name##_prod, name##_max, name##_min
#define OTHERS(name, usual) usual##_sum, usual##_prod, name##_max, name##_min

static const struct {
    const char *name;
    size_t size;
    mn_reduce_fn *kernels[MN_REDOPS];
} types[MN_TYPES] = {
    [MN_TYPE_INT8] = {"int8", 1, {OTHERS(int8, uint8)}},
    [MN_TYPE_UINT8] = {"uint8", 1, {OWN(uint8)}},
    [MN_TYPE_INT32] = {"int32", 4, {OTHERS(int32, uint32)}},
    [MN_TYPE_UINT32] = {"uint32", 4, {OWN(uint32)}},
    [MN_TYPE_INT64] = {"int64", 8, {OTHERS(int64, uint64)}},
    [MN_TYPE_UINT64] = {"uint64", 8, {OWN(uint64)}},
    [MN_TYPE_FLOAT16] = {"float16", 2, {OWN(float16)}},
    [MN_TYPE_FLOAT32] = {"float32", 4, {OWN(float32)}},
    [MN_TYPE_FLOAT64] = {"float64", 8, {OWN(float64)}},
    [MN_TYPE_BFLOAT16] = {"bfloat16", 2, {OWN(bfloat16)}},
    [MN_TYPE_FLOAT8E4M3] = {"float8e4m3", 1, {OWN(e4m3)}},
    [MN_TYPE_FLOAT8E5M2] = {"float8e5m2", 1, {OWN(e5m2)}},
};

static int known(int type)
{
    return type >= 0 && type < MN_TYPES;
}

mn_reduce_fn *mn_reduce_kernel(int type, int op)
{
    return known(type) && op >= 0 && op < MN_REDOPS ? types[type].kernels[op] : NULL;
}

size_t mn_type_size(int type)
{
    return known(type) ? types[type].size : 0;
}

const char *mn_type_name(int type)
{
    return known(type) ? types[type].name : NULL;
}

const char *mn_redop_name(int op)
{
    static const char *const names[] = {"sum", "prod", "max", "min"};

    return op >= 0 && op < MN_REDOPS ? names[op] : NULL;
}

/* --- one element ------------------------------------------------------------------------------ */

#define LOAD(type)                                                                                 \
    type x;                                                                                        \
    memcpy(&x, element, sizeof x)
#define GET(name, type, get)                                                                       \
    case MN_TYPE_##name: {                                                                         \
        LOAD(type);                                                                                \
        return (double)get(x);                                                                     \
    }
#define SET(name, type, set)                                                                       \
    case MN_TYPE_##name: {                                                                         \
        type x = (type)set(value);                                                                 \
        memcpy(element, &x, sizeof x);                                                             \
        break;                                                                                     \
    }
#define NARROW(set) set((float)value)

double mn_type_get(int type, const void *element)
{
    switch (type) {
        GET(INT8, int8_t, SAME)
        GET(UINT8, uint8_t, SAME)
        GET(INT32, int32_t, SAME)
        GET(UINT32, uint32_t, SAME)
        GET(INT64, int64_t, SAME)
        GET(UINT64, uint64_t, SAME)
        GET(FLOAT16, uint16_t, f16_get)
        GET(FLOAT32, float, SAME)
        GET(FLOAT64, double, SAME)
        GET(BFLOAT16, uint16_t, bf16_get)
        GET(FLOAT8E4M3, uint8_t, e4m3_get)
        GET(FLOAT8E5M2, uint8_t, e5m2_get)
    default:
        return NAN;
    }
}

void mn_type_set(int type, void *element, double value)
{
    switch (type) {
        SET(INT8, int8_t, SAME)
        SET(UINT8, uint8_t, SAME)
        SET(INT32, int32_t, SAME)
        SET(UINT32, uint32_t, SAME)
        SET(INT64, int64_t, SAME)
        SET(UINT64, uint64_t, SAME)
        SET(FLOAT16, uint16_t, f16_set)
        SET(FLOAT32, float, SAME)
        SET(FLOAT64, double, SAME)
        SET(BFLOAT16, uint16_t, bf16_set)
        SET(FLOAT8E4M3, uint8_t, e4m3_set)
        SET(FLOAT8E5M2, uint8_t, e5m2_set)
    default:
        break;
    }
}
