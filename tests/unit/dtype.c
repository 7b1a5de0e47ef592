/* SPDX-License-Identifier: Apache-2.0
 *
 * Every element type, over all its codes: values against formulas written out again here, encoding
 * against decoding, ties, saturation, NaN, infinities and subnormals.
 */
#include "config/dtype.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* f16 through integers: exponent and fraction by shifts, value by a chain of halvings. */
static double f16_value(uint32_t code)
{
    double magnitude = code & 1023;
    uint32_t exponent = code >> 10 & 31;
    if (exponent == 31)
        magnitude = magnitude ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude /= 16777216; /* 2^24 */
    else
        magnitude = (magnitude + 1024) * pow(2, (double)exponent - 25);
    return code & 0x8000 ? -magnitude : magnitude;
}

/* bf16 is the upper half of a float. */
static double bf16_value(uint32_t code)
{
    uint32_t bits = code << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* e5m2 is the upper half of an f16. */
static double e5m2_value(uint32_t code)
{
    return f16_value(code << 8);
}

static double e4m3_value(uint32_t code)
{
    uint32_t magnitude = code & 127;
    double value;
    if (magnitude == 127)
        value = NAN;
    else if (magnitude < 8)
        value = magnitude / 512.0;
    else
        value = (8 + magnitude % 8) * pow(2, (double)(magnitude / 8) - 10);
    return code & 128 ? -value : value;
}

static double e8m0_value(uint32_t code)
{
    return code == 255 ? NAN : pow(2, (double)code - 127);
}

static double e2m1_value(uint32_t code)
{
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

/* OCP MX: e3m2 counts sixteenths up to 28, e2m3 eighths up to 7.5. */
static double e3m2_value(uint32_t code)
{
    static const double binade[] = {0.0625, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4};
    uint32_t e = code >> 2 & 7, f = code & 3;
    double value = (e ? 4 + f : f) * binade[e];
    return code & 32 ? -value : value;
}

static double e2m3_value(uint32_t code)
{
    static const double binade[] = {0.125, 0.125, 0.25, 0.5};
    uint32_t e = code >> 3 & 3, f = code & 7;
    double value = (e ? 8 + f : f) * binade[e];
    return code & 32 ? -value : value;
}

typedef struct format {
    nib_type type;
    uint32_t codes;
    double (*value)(uint32_t code);
} format;

static const format formats[] = {
    {NIB_F16, 65536, f16_value}, {NIB_BF16, 65536, bf16_value}, {NIB_E5M2, 256, e5m2_value},
    {NIB_E4M3, 256, e4m3_value}, {NIB_E8M0, 256, e8m0_value},   {NIB_E2M1, 16, e2m1_value},
    {NIB_E3M2, 64, e3m2_value},  {NIB_E2M3, 64, e2m3_value},
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

Test(dtype, floats_decode_as_their_formats_say)
{
    for (int f = 0; f < FORMATS; f++)
        for (uint32_t code = 0; code < formats[f].codes; code++)
            cr_expect(same(nib_dtype_decode(formats[f].type, code), formats[f].value(code)),
                      "%s code %#x", nib_type_name(formats[f].type), code);
}

Test(dtype, known_values)
{
    cr_expect_eq(nib_dtype_decode(NIB_E4M3, 0x7e), 448);
    cr_expect_eq(nib_dtype_decode(NIB_E4M3, 0x01), 0x1p-9);
    cr_expect_eq(nib_dtype_decode(NIB_E5M2, 0x7b), 57344);
    cr_expect(isinf(nib_dtype_decode(NIB_E5M2, 0xfc)));
    cr_expect_eq(nib_dtype_decode(NIB_E3M2, 0x1f), 28);
    cr_expect_eq(nib_dtype_decode(NIB_E2M3, 0x1f), 7.5);
    cr_expect_eq(nib_dtype_decode(NIB_F16, 0x7bff), 65504);
    cr_expect_eq(nib_dtype_decode(NIB_F16, 0x3c00), 1);
    cr_expect_eq(nib_dtype_decode(NIB_E8M0, 0), 0x1p-127);
    cr_expect_eq(nib_dtype_decode(NIB_I8, 0x80), -128);
    cr_expect_eq(nib_dtype_decode(NIB_NF4, 0), -1);
    cr_expect_eq(nib_dtype_decode(NIB_NF4, 7), 0);
}

Test(dtype, integers_decode_by_formula)
{
    for (int32_t bits = 1; bits <= 8; bits++)
        for (uint32_t code = 0; code < 1u << bits; code++) {
            double offset = (double)code - (double)(1u << (bits - 1));
            double twos = code < 128 ? (double)code : (double)code - 256;
            double expected = bits == 1 ? (code ? 1 : -1) : bits == 8 ? twos : offset;
            cr_expect_eq(nib_dtype_decode(NIB_U1 + bits - 1, code), code);
            cr_expect_eq(nib_dtype_decode(NIB_I1 + bits - 1, code), expected);
        }
    cr_expect_eq(nib_dtype_decode(NIB_I32, 0xffffffffu), -1);
}

Test(dtype, nf4_holds_quantiles_of_the_normal_distribution)
{
    /* The paper's own construction, to the accuracy of a table in float: 8 levels above zero and 7
     * below, at normal quantiles between 1/2 and offset, scaled to 1. Inverse of erfc by bisection.
     */
    const double offset = 0.9677083;
    for (int i = 0; i <= 8; i++) {
        double p = 0.5 + (offset - 0.5) * i / 8, low = 0, high = 4;
        for (int step = 0; step < 80; step++) {
            double middle = (low + high) / 2;
            *(1 - erfc(middle / sqrt(2)) / 2 < p ? &low : &high) = middle;
        }
        double top_low = 0, top_high = 4;
        for (int step = 0; step < 80; step++) {
            double middle = (top_low + top_high) / 2;
            *(1 - erfc(middle / sqrt(2)) / 2 < offset ? &top_low : &top_high) = middle;
        }
        cr_expect_float_eq(nib_dtype_decode(NIB_NF4, (uint32_t)(7 + i)), low / top_low, 2e-6,
                           "entry %d", 7 + i);
    }
    for (uint32_t code = 1; code < 16; code++)
        cr_expect_gt(nib_dtype_decode(NIB_NF4, code), nib_dtype_decode(NIB_NF4, code - 1));
}

Test(dtype, every_value_encodes_back_to_its_code)
{
    for (uint32_t index = 0; nib_dtype_row(index); index++) {
        const nib_dtype *row = nib_dtype_row(index);
        if (row->bits > 16 || row->type == NIB_LUT4)
            continue;
        for (uint32_t code = 0; code < 1u << row->bits; code++) {
            double value = nib_dtype_decode(row->type, code);
            uint32_t back = nib_dtype_encode(row->type, value);
            if (isnan(value))
                cr_expect(isnan(nib_dtype_decode(row->type, back)), "%s NaN %#x -> %#x", row->name,
                          code, back);
            else
                cr_expect_eq(back, code, "%s code %#x -> %#x", row->name, code, back);
        }
    }
}

Test(dtype, zero_encodes_as_zero_of_its_sign)
{
    for (int f = 0; f < FORMATS; f++)
        if (formats[f].type != NIB_E8M0) {
            cr_expect_eq(nib_dtype_encode(formats[f].type, 0.0), 0);
            cr_expect(same(
                nib_dtype_decode(formats[f].type, nib_dtype_encode(formats[f].type, -0.0)), -0.0));
        }
}

/* Between each pair of neighbours: the middle goes to the even code, a little more or less to the
 * nearer one. Codes of positive finite values are consecutive. */
static void check_ties(nib_type type, uint32_t last)
{
    for (uint32_t code = 0; code < last; code++) {
        double low = nib_dtype_decode(type, code), high = nib_dtype_decode(type, code + 1);
        double middle = (low + high) / 2; /* exact in double */
        uint32_t even = code & 1 ? code + 1 : code, sign = nib_dtype_encode(type, -0.0);
        cr_expect_eq(nib_dtype_encode(type, middle), even, "%s %#x", nib_type_name(type), code);
        cr_expect_eq(nib_dtype_encode(type, -middle), sign | even);
        cr_expect_eq(nib_dtype_encode(type, nextafter(middle, 0)), code);
        cr_expect_eq(nib_dtype_encode(type, nextafter(middle, INFINITY)), code + 1);
    }
}

Test(dtype, ties_go_to_even_subnormals_included)
{
    check_ties(NIB_F16, 0x7bff);
    check_ties(NIB_BF16, 0x7f7f);
    check_ties(NIB_E5M2, 0x7b);
    check_ties(NIB_E4M3, 0x7e);
    check_ties(NIB_E2M1, 7);
    check_ties(NIB_E3M2, 31);
    check_ties(NIB_E2M3, 31);
}

Test(dtype, overflow_goes_to_infinity_or_saturates)
{
    cr_expect_eq(nib_dtype_encode(NIB_F16, 65519), 0x7bff);
    cr_expect_eq(nib_dtype_encode(NIB_F16, 65520), 0x7c00, "the tie rounds to even, infinity");
    cr_expect_eq(nib_dtype_encode(NIB_F16, -1e300), 0xfc00);
    cr_expect_eq(nib_dtype_encode(NIB_BF16, 1e39), 0x7f80);
    cr_expect_eq(nib_dtype_encode(NIB_E5M2, 61440), 0x7c);
    cr_expect_eq(nib_dtype_encode(NIB_E4M3, 1e9), 0x7e);
    cr_expect_eq(nib_dtype_encode(NIB_E4M3, -INFINITY), 0xfe);
    cr_expect_eq(nib_dtype_encode(NIB_E2M1, 100), 7);
    cr_expect_eq(nib_dtype_encode(NIB_E2M1, -INFINITY), 15);
    cr_expect_eq(nib_dtype_encode(NIB_E2M1, NAN), 0);
    cr_expect_eq(nib_dtype_encode(NIB_U4, 99), 15);
    cr_expect_eq(nib_dtype_encode(NIB_U4, -3), 0);
    cr_expect_eq(nib_dtype_encode(NIB_I4, 8), 15);
    cr_expect_eq(nib_dtype_encode(NIB_I4, -9), 0);
    cr_expect_eq(nib_dtype_encode(NIB_I4, NAN), 8, "NaN is value 0");
    cr_expect_eq(nib_dtype_encode(NIB_I8, -1000), 0x80);
    cr_expect_eq(nib_dtype_encode(NIB_I32, 1e12), 0x7fffffff);
    cr_expect_eq(nib_dtype_encode(NIB_E8M0, 0), 255);
    cr_expect_eq(nib_dtype_encode(NIB_E8M0, -1), 255);
    cr_expect_eq(nib_dtype_encode(NIB_E8M0, 1e300), 254);
    cr_expect_eq(nib_dtype_encode(NIB_LUT4, 1), 0);
}

Test(dtype, a_float_converts_as_the_processor_does)
{
    uint64_t state = 12345;
    for (int i = 0; i < 200000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double x;
        memcpy(&x, &state, sizeof(x));
        if (i % 2)
            x = ldexp((double)(int64_t)state, (int)(state >> 40) % 300 - 200);
        float expected = (float)x, got;
        uint32_t code = nib_dtype_encode(NIB_F32, x);
        memcpy(&got, &code, sizeof(got));
        cr_assert(same(expected, got), "%a: %a, not %a", x, got, expected);
        cr_assert(same(nib_dtype_decode(NIB_F32, code), got));
    }
}

Test(dtype, arrays_load_what_was_stored)
{
    static const nib_type types[] = {NIB_F32,  NIB_F16, NIB_BF16, NIB_I32,
                                     NIB_E4M3, NIB_I8,  NIB_E8M0, NIB_E5M2};
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        unsigned char array[17];
        memset(array, 0xa5, sizeof(array));
        nib_dtype_store(types[t], array + 1, 1, 2); /* not aligned */
        cr_expect_eq(nib_dtype_load(types[t], array + 1, 1), 2);
        int32_t bytes = nib_type_bits(types[t]) / 8;
        cr_expect(array[bytes] == 0xa5 && array[1 + 2 * bytes] == 0xa5, "stored beside itself");
    }
}

Test(dtype, tables_hold_what_codes_decode_to)
{
    for (uint32_t index = 0; nib_dtype_row(index); index++) {
        const nib_dtype *row = nib_dtype_row(index);
        const float *table = nib_dtype_table(row->type);
        cr_expect_eq(table == NULL, row->bits > 8 || row->type == NIB_LUT4, "%s", row->name);
        for (uint32_t code = 0; table && code < 1u << row->bits; code++) {
            cr_expect(same(table[code], nib_dtype_decode(row->type, code)));
            cr_expect(same(nib_type_decode(row->type, code | 1u << row->bits % 32), table[code]),
                      "%s: the code is masked", row->name);
        }
    }
    cr_expect(isnan(nib_type_decode(NIB_LUT4, 3)));
    cr_expect(isnan(nib_type_decode(NIB_F16, 3)));
}

Test(dtype, names_parse_back)
{
    for (uint32_t index = 0; nib_dtype_row(index); index++) {
        const nib_dtype *row = nib_dtype_row(index);
        nib_type type = -1;
        cr_expect_eq(nib_type_parse(row->name, &type), NIB_OK);
        cr_expect_eq(type, row->type);
        cr_expect_eq(nib_dtype_of(type), row);
        cr_expect_str_eq(nib_type_name(type), row->name);
        cr_expect_eq(nib_type_bits(type), row->bits);
    }
    nib_type type = 77;
    cr_expect_eq(nib_type_parse("q4", &type), NIB_INVALID);
    cr_expect_eq(type, 77);
    cr_expect(strstr(nib_last_message(), "'q4' is no type"));
    cr_expect_eq(nib_type_parse(NULL, &type), NIB_INVALID);
    cr_expect_eq(nib_type_parse("none", &type), NIB_OK);
    cr_expect_eq(type, NIB_TYPE_NONE);
    cr_expect_str_eq(nib_type_name(12345), "?");
    cr_expect_eq(nib_type_bits(12345), 0);
    cr_expect_eq(nib_type_bits(NIB_TYPE_NONE), 0);
}

Test(dtype, integers_are_told_from_other_types)
{
    for (uint32_t index = 0; nib_dtype_row(index); index++) {
        const nib_dtype *row = nib_dtype_row(index);
        bool named = (row->name[0] == 'u' || row->name[0] == 'i') && strcmp(row->name, "i32");
        cr_expect_eq(nib_dtype_is_integer(row->type), named, "%s", row->name);
    }
}
