/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits, a row at a time and a strip of it in f32: see quantize.h. Every operation
 * is one of f32 rounded to nearest, as in the kernels of other backends, so that all give the same
 * bits. Products stand in statements of their own, where no compiler contracts them with a sum.
 */
#include "kernels/common/quantize.h"

#include "kernels/common/convert.h"
#include "kernels/common/shape.h"

enum { STRIP = 256, ABS = 0x7fffffff, INFINITE = 0x7f800000, QUIET_NAN = 0x7fc00000 };

/* Smallest scale: its inverse is finite, and so is the quotient of any f32 by a larger one. */
static const float least_scale = 0x1p-126f;

/* Added, it leaves an integer of at most 22 bits in the low mantissa, rounded to even. */
static const float integer_magic = 0x1.8p23f;

/* A float of 8 bits: its mantissa's bits, and what stands between its exponent and that of f32. */
typedef struct small_float {
    int mantissa, rebias;
    float subnormal_magic; /* added, it rounds at the unit of subnormals, the low mantissa's */
    float least_normal;
    uint32_t largest, nan;
} small_float;

static const small_float e4m3 = {3, 127 - 7, 0x1p14f, 0x1p-6f, 0x7e, 0x7f};
static const small_float e5m2 = {2, 127 - 15, 0x1p7f, 0x1p-14f, 0x7b, 0x7f};

static float largest_of(nib_type to)
{
    return to == NIB_I8 ? 127.0f : to == NIB_E4M3 ? 448.0f : 57344.0f;
}

/* Bits of magnitudes are ordered like integers: finite, infinite, NaN. */
static uint32_t strip_top(const float *x, int64_t count, uint32_t top)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t size = nib_cpu_bits_of_f32(x[i]) & ABS;
        top = size > top ? size : top;
    }
    return top;
}

static void strip_to_i8(const float *x, int64_t count, float inverse, uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        float y = x[i] * inverse, clipped = y < 127.0f ? y : 127.0f;
        clipped = clipped > -127.0f ? clipped : -127.0f;
        uint32_t code = nib_cpu_bits_of_f32(clipped + integer_magic);
        out[i] = (uint8_t)(y == y ? code : 0);
    }
}

static void strip_to_float(const small_float *type, const float *x, int64_t count, float inverse,
                           uint8_t *out)
{
    int shift = 23 - type->mantissa;
    uint32_t half = (1u << (shift - 1)) - 1, base = (uint32_t)type->rebias << type->mantissa;
    uint32_t magic = nib_cpu_bits_of_f32(type->subnormal_magic);
    for (int64_t i = 0; i < count; i++) {
        float y = x[i] * inverse;
        uint32_t bits = nib_cpu_bits_of_f32(y), size = bits & ABS;
        float magnitude = nib_cpu_f32_from_bits(size);
        uint32_t normal = ((size + half + (size >> shift & 1)) >> shift) - base;
        uint32_t subnormal = nib_cpu_bits_of_f32(magnitude + type->subnormal_magic) - magic;
        uint32_t code = magnitude < type->least_normal ? subnormal : normal;
        code = size < INFINITE && code < type->largest ? code : type->largest;
        code = size > INFINITE ? type->nan : code | (bits >> 24 & 0x80);
        out[i] = (uint8_t)code;
    }
}

static void strip_round(nib_type to, const float *x, int64_t count, float inverse, uint8_t *out)
{
    if (to == NIB_I8)
        strip_to_i8(x, count, inverse, out);
    else
        strip_to_float(to == NIB_E4M3 ? &e4m3 : &e5m2, x, count, inverse, out);
}

static const unsigned char *act_at(const nib_act_quantizer_desc *desc,
                                   const nib_act_quantize_args *args, int64_t row, int64_t k)
{
    return (const unsigned char *)args->act +
           (row * args->lda + k) * (desc->from == NIB_F32 ? 4 : 2);
}

/* The scale of a row from its largest magnitude. */
static float row_scale(const nib_act_quantizer_desc *desc, nib_cpu_load_fn load,
                       const nib_act_quantize_args *args, int64_t row)
{
    float strip[STRIP];
    uint32_t top = 0;
    for (int64_t k = 0; k < args->k; k += STRIP) {
        int64_t count = nib_cpu_min(args->k - k, STRIP);
        load(desc->from, act_at(desc, args, row, k), count, strip);
        top = strip_top(strip, count, top);
    }
    if (top > INFINITE)
        return nib_cpu_f32_from_bits(QUIET_NAN);
    float scale = nib_cpu_f32_from_bits(top) / largest_of(desc->to);
    return scale < least_scale ? least_scale : scale;
}

static void round_row(const nib_act_quantizer_desc *desc, nib_cpu_load_fn load,
                      const nib_act_quantize_args *args, int64_t row, float scale)
{
    float strip[STRIP], inverse = 1.0f / scale;
    uint8_t *out = (uint8_t *)args->out + row * args->ldo;
    for (int64_t k = 0; k < args->k; k += STRIP) {
        int64_t count = nib_cpu_min(args->k - k, STRIP);
        load(desc->from, act_at(desc, args, row, k), count, strip);
        strip_round(desc->to, strip, count, inverse, out + k);
    }
}

void nib_cpu_quantize_rows(const nib_act_quantizer_desc *desc, nib_cpu_load_fn load,
                           const nib_act_quantize_args *args, int64_t row, int64_t rows)
{
    for (int64_t m = row; m < row + rows; m++) {
        if (desc->scale == NIB_ACT_SCALE_TENSOR) {
            round_row(desc, load, args, m, args->scale[0]);
            continue;
        }
        float scale = row_scale(desc, load, args, m);
        args->scale[m] = scale;
        if ((nib_cpu_bits_of_f32(scale) & ABS) < INFINITE)
            round_row(desc, load, args, m, scale);
        else /* the scale says it all */
            memset((uint8_t *)args->out + m * args->ldo, 0, (size_t)args->k);
    }
}
