#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plugin/reduce.h"

/* Formats narrower than float, by their definition. */
static const struct narrow {
    int type, exponent, mantissa, has_infinity;
} narrows[] = {
    {MN_TYPE_FLOAT16, 5, 10, 1},
    {MN_TYPE_BFLOAT16, 8, 7, 1},
    {MN_TYPE_FLOAT8E4M3, 4, 3, 0},
    {MN_TYPE_FLOAT8E5M2, 5, 2, 1},
};

static double defined_value(const struct narrow *n, uint32_t bits)
{
    int bias = (1 << (n->exponent - 1)) - 1, all = (1 << n->exponent) - 1;
    int e = (int)(bits >> n->mantissa) & all;
    double m = bits & ((1u << n->mantissa) - 1), one = 1 << n->mantissa;
    double sign = bits >> (n->exponent + n->mantissa) & 1 ? -1 : 1;

    if (e == all && n->has_infinity)
        return m != 0 ? NAN : sign * INFINITY;
    if (e == all && m == one - 1)
        return NAN;
    return sign * (e ? ldexp(1 + m / one, e - bias) : ldexp(m / one, 1 - bias));
}

static uint32_t set_bits(const struct narrow *n, double value)
{
    uint16_t bits = 0;

    mn_type_set(n->type, &bits, value);
    return bits;
}

static void every_pattern_has_its_value_and_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof narrows / sizeof *narrows; i++) {
        const struct narrow *n = &narrows[i];
        for (uint32_t bits = 0; bits < 1u << (1 + n->exponent + n->mantissa); bits++) {
            uint16_t pattern = (uint16_t)bits;
            double is = mn_type_get(n->type, &pattern), should = defined_value(n, bits);
            if (isnan(should)) {
                assert_true(isnan(is));
                assert_true(isnan(defined_value(n, set_bits(n, NAN))));
            } else {
                assert_true(is == should && signbit(is) == signbit(should));
                if (isfinite(should) || n->has_infinity)
                    assert_int_equal(set_bits(n, should), bits);
            }
        }
    }
}

/* Between two neighbours: the middle goes to the even one, either side of it to the nearer. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof narrows / sizeof *narrows; i++) {
        const struct narrow *n = &narrows[i];
        uint32_t bits = 0;
        for (; isfinite(defined_value(n, bits + 1)); bits++) {
            float low = (float)defined_value(n, bits), high = (float)defined_value(n, bits + 1);
            float middle = low + (high - low) / 2;
            assert_int_equal(set_bits(n, (double)middle), bits + (bits & 1));
            assert_int_equal(set_bits(n, (double)nextafterf(middle, 0)), bits);
            assert_int_equal(set_bits(n, (double)nextafterf(middle, INFINITY)), bits + 1);
        }
        uint32_t most = n->has_infinity ? bits + 1 : bits;
        assert_int_equal(set_bits(n, 3.4e38), most);
        assert_int_equal(set_bits(n, INFINITY), most);
    }
}

static double reference(int op, double a, double b)
{
    switch (op) {
    case MN_REDOP_SUM:
        return a + b;
    case MN_REDOP_PROD:
        return a * b;
    case MN_REDOP_MAX:
        return fmax(a, b);
    default:
        return fmin(a, b);
    }
}

/* Values that every type holds and whose products it holds, negative ones where it has them. */
static double some_value(int type, int i)
{
    int is_unsigned = type == MN_TYPE_UINT8 || type == MN_TYPE_UINT32 || type == MN_TYPE_UINT64;
    int value = i * 7 % 15 - 7;

    return is_unsigned ? value + 7 : value;
}

static void kernels_agree_with_arithmetic(void **state)
{
    enum { MOST = 300 };
    uint8_t a[MOST * 8 + 8], b[MOST * 8 + 8], was[MOST * 8 + 8];

    (void)state;
    for (int type = 0; type < MN_TYPES; type++)
        for (int op = 0; op < MN_REDOPS; op++)
            for (size_t count = 0; count < MOST; count += count < 70 ? 1 : 229) {
                size_t size = mn_type_size(type);
                uint8_t *to = a + size, *from = b + 8 - size;
                memset(a, 0x5a, sizeof a);
                for (size_t i = 0; i < count; i++) {
                    mn_type_set(type, to + i * size, some_value(type, (int)i));
                    mn_type_set(type, from + i * size, some_value(type, (int)(i * 3 + 1)));
                }
                memcpy(was, a, sizeof a);
                mn_reduce_kernel(type, op)(to, from, count);
                for (size_t i = 0; i < count; i++) {
                    uint8_t should[8];
                    mn_type_set(type, should,
                                reference(op, mn_type_get(type, was + (i + 1) * size),
                                          mn_type_get(type, from + i * size)));
                    assert_memory_equal(to + i * size, should, size);
                }
                assert_memory_equal(a + (count + 1) * size, was + (count + 1) * size,
                                    sizeof a - (count + 1) * size);
            }
}

static void integers_wrap(void **state)
{
    int8_t a = 127, one = 1;
    int64_t big = INT64_MAX, also = 2;

    (void)state;
    mn_reduce_kernel(MN_TYPE_INT8, MN_REDOP_SUM)(&a, &one, 1);
    assert_int_equal(a, -128);
    mn_reduce_kernel(MN_TYPE_INT64, MN_REDOP_PROD)(&big, &also, 1);
    assert_true(big == -2);
    int64_t low = INT64_MIN, high = 5;
    mn_reduce_kernel(MN_TYPE_INT64, MN_REDOP_MAX)(&low, &high, 1);
    assert_true(low == 5);
}

static void maximum_ignores_nan(void **state)
{
    float a[] = {NAN, 1, NAN}, b[] = {2, NAN, NAN};

    (void)state;
    mn_reduce_kernel(MN_TYPE_FLOAT32, MN_REDOP_MAX)(a, b, 3);
    assert_true(a[0] == 2 && a[1] == 1 && isnan(a[2]));
}

static void unknown_types_and_operations_have_none(void **state)
{
    (void)state;
    assert_null(mn_reduce_kernel(-1, 0));
    assert_null(mn_reduce_kernel(MN_TYPES, 0));
    assert_null(mn_reduce_kernel(0, MN_REDOPS));
    assert_int_equal(mn_type_size(99), 0);
    assert_null(mn_type_name(-1));
    assert_null(mn_redop_name(7));
    assert_string_equal(mn_type_name(MN_TYPE_BFLOAT16), "bfloat16");
    assert_string_equal(mn_redop_name(MN_REDOP_MIN), "min");
    assert_true(isnan(mn_type_get(99, "")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_has_its_value_and_comes_back),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(kernels_agree_with_arithmetic),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(maximum_ignores_nan),
        cmocka_unit_test(unknown_types_and_operations_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
