/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales and zeros as they are stored: rounding that never yields zero scales or infinities, and
 * the affine map that a stored pair stands for.
 */
#include "quantize/quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Least and largest scales in use. f32 and bf16 stop at the least normal number: below it 1 / s
 * would leave the range of floats. */
static double least_scale(nib_type type)
{
    switch (type) {
    case NIB_F16:
        return 0x1p-24;
    case NIB_E4M3:
        return 0x1p-9;
    case NIB_E8M0:
        return 0x1p-127;
    default:
        return 0x1p-126;
    }
}

static double largest(nib_type type)
{
    switch (type) {
    case NIB_F16:
        return 65504;
    case NIB_BF16:
        return 0x1.fep127;
    case NIB_E4M3:
        return 448;
    case NIB_E8M0:
        return 0x1p127;
    default:
        return FLT_MAX;
    }
}

/* f16 within its normal numbers, by far the most frequent, without the general encoder. */
static double nearest_f16(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    /* 42 of the 52 bits go: half less one, and one more when the last kept bit is odd. */
    bits += (UINT64_C(1) << 41) - 1 + (bits >> 42 & 1);
    bits &= ~((UINT64_C(1) << 42) - 1);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static double nearest(nib_type type, double x)
{
    if (type == NIB_F16 && fabs(x) >= 0x1p-14 && fabs(x) <= 65504)
        return nearest_f16(x);
    return type == NIB_F32 ? (double)(float)x : nib_dtype_decode(type, nib_dtype_encode(type, x));
}

double nib_scale_round(nib_type type, double x)
{
    double least = least_scale(type), most = largest(type);
    double magnitude = fabs(x);
    if (!(magnitude > least))
        magnitude = least;
    else if (magnitude >= most)
        magnitude = most;
    else
        magnitude = nearest(type, magnitude);
    return x < 0 && type != NIB_E8M0 ? -magnitude : magnitude;
}

double nib_scale_beside(nib_type type, double rounded, double x)
{
    double least = least_scale(type), most = largest(type), magnitude = fabs(rounded);
    if (type == NIB_F32 || magnitude == fabs(x))
        return rounded;
    uint32_t code = nib_dtype_encode(type, magnitude);
    double beside = nib_dtype_decode(type, magnitude < fabs(x) ? code + 1 : code - 1);
    if (!(beside >= least && beside <= most))
        return rounded;
    return rounded < 0 ? -beside : beside;
}

double nib_zero_round(const nib_weight_desc *desc, double x)
{
    if (desc->zero == NIB_ZERO_NONE)
        return 0;
    if (desc->zero == NIB_ZERO_CODE) {
        double most = ldexp(1, nib_type_bits(desc->type)) - 1;
        return fmin(fmax(nearbyint(x), 0), most);
    }
    double most = largest(desc->zero_type);
    return nearest(desc->zero_type, fmin(fmax(x, -most), most));
}

static float finite_float(double x)
{
    return (float)fmin(fmax(x, -FLT_MAX), FLT_MAX);
}

nib_affine nib_affine_of(const nib_weight_desc *desc, double alpha, double scale, double zero)
{
    nib_affine map = {.scale = scale, .zero = zero, .step = alpha * scale};
    map.offset = desc->zero == NIB_ZERO_RESCALE ? -zero * alpha : -zero * map.step;
    map.shift = finite_float(map.offset);
    map.mul = map.step != 0 ? finite_float(1 / map.step) : 0;
    return map;
}

nib_affine nib_affine_load(const nib_weight_desc *desc, double alpha, const void *scales,
                           const void *zeros, int64_t row, int64_t g)
{
    int64_t index = desc->group == NIB_GROUP_TENSOR ? 0 : row * nib_desc_groups(desc) + g;
    double scale = desc->scale_type ? nib_dtype_load(desc->scale_type, scales, index) : 1;
    double zero = 0;
    if (desc->zero == NIB_ZERO_CODE)
        zero = ((const unsigned char *)zeros)[index];
    else if (desc->zero)
        zero = nib_dtype_load(desc->zero_type, zeros, index);
    return nib_affine_of(desc, alpha, scale, zero);
}
