/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed codes, scales and zeros to numbers, for the general kernel: one place for every weight
 * type. The layout is mma64x128 (docs/layouts.md); NIB_WEIGHT, NIB_SCALE, NIB_ZERO and
 * NIB_ZERO_TYPE come from nib_spec.h, so that all of it folds to a few instructions.
 */
#ifndef NIB_CUDA_GENERAL_DECODE_CUH
#define NIB_CUDA_GENERAL_DECODE_CUH

#include "kernels/general/number.cuh"

#include "kernels/common/params.h"

__device__ constexpr bool is_unsigned(int type)
{
    return type >= NIB_U1 && type <= NIB_U8;
}

__device__ constexpr bool is_signed(int type)
{
    return type >= NIB_I1 && type <= NIB_I8;
}

__device__ constexpr int code_bits(int type)
{
    return is_unsigned(type)                      ? type - NIB_U1 + 1
           : is_signed(type)                      ? type - NIB_I1 + 1
           : type == NIB_E3M2 || type == NIB_E2M3 ? 6
           : type == NIB_E4M3 || type == NIB_E5M2 ? 8
                                                  : 4;
}

constexpr int BITS = code_bits(NIB_WEIGHT);

/* Bits of plane p of codes of BITS bits: 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2, 7 = 4 + 2 + 1. */
__device__ constexpr int plane_bits(int plane)
{
    constexpr int first = BITS == 8 ? 8 : BITS >= 4 ? 4 : BITS >= 2 ? 2 : 1;
    constexpr int second = BITS - first >= 2 ? 2 : BITS - first;
    return plane == 0 ? first : plane == 1 ? second : BITS - first - second;
}

/* Codes that one lane holds of one step of 16 k: rows g + 8 (i & 1), k = 2t + 8 (i >> 1) + e for
 * register i < 4 and half e < 2; lane = 4g + t. One word a plane, two of 8-bit codes. */
struct fragment {
    uint32_t word[3];
};

/* unit counts rows by 16, block_k columns by 128, step (below 8) by 16 within those. */
__device__ __forceinline__ fragment load_fragment(const nib_cuda_params &p, int64_t unit,
                                                  int64_t block_k, int lane, int step)
{
    fragment f = {};
    int u = (int)(unit & 3);
    int64_t block = (unit >> 2) * p.k_blocks + block_k;
#pragma unroll
    for (int plane = 0; plane < 3; plane++) {
        const uint32_t *words = (const uint32_t *)p.codes[plane];
        if (plane_bits(plane) == 8) {
            const uint32_t *at =
                words + block * 2048 + ((step >> 1) * 4 + u) * 128 + lane * 4 + (step & 1) * 2;
            f.word[0] = at[0];
            f.word[1] = at[1];
            break;
        }
        if (plane_bits(plane) == 4)
            f.word[plane] =
                words[block * 1024 + ((step >> 2) * 4 + u) * 128 + lane * 4 + (step & 3)];
        if (plane_bits(plane) == 2)
            f.word[plane] = words[block * 512 + (u * 32 + lane) * 4 + (step >> 1)];
        if (plane_bits(plane) == 1)
            f.word[plane] = words[block * 256 + (u * 32 + lane) * 2 + (step >> 2)];
    }
    return f;
}

__device__ __forceinline__ uint32_t fragment_code(const fragment &f, int step, int i, int e)
{
    uint32_t code = 0;
    int shift = 0;
    for (int plane = 0; plane < 3; plane++) {
        int bits = plane_bits(plane);
        if (bits == 8)
            code = (i >> 1 ? f.word[1] : f.word[0]) >> 8 * ((i & 1) + 2 * e) & 0xff;
        if (bits == 0 || bits == 8)
            break;
        int steps = 4 / bits; /* steps of 16 k that share a word */
        int field = i + 4 * (step & (steps - 1)) + 4 * steps * e;
        code |= (f.word[plane] >> bits * field & ((1u << bits) - 1)) << shift;
        shift += bits;
    }
    return code;
}

/* The value of an integer code. */
__device__ __forceinline__ int32_t code_integer(uint32_t code)
{
    if (NIB_WEIGHT == NIB_I1)
        return (int32_t)(2 * code) - 1;
    if (NIB_WEIGHT == NIB_I8)
        return (int8_t)code;
    return is_signed(NIB_WEIGHT) ? (int32_t)code - (1 << (BITS - 1)) : (int32_t)code;
}

/* The value of any code, exact in f32; `table` is of 16 entries, for nf4 and lut4. */
__device__ __forceinline__ float code_value(uint32_t code, const float *table)
{
    switch (NIB_WEIGHT) {
    case NIB_NF4:
    case NIB_LUT4:
        return table[code];
    case NIB_E2M1:
        return small_float<2, 1, 1>(code);
    case NIB_E3M2:
        return small_float<3, 2, 3>(code);
    case NIB_E2M3:
        return small_float<2, 3, 1>(code);
    case NIB_E4M3:
        return nib_float_from_e4m3(code);
    case NIB_E5M2:
        return nib_float_from_f16(nib_f16_from_e5m2(code));
    default:
        return small_integer(code_integer(code));
    }
}

/* Where row `row` stands among the 64 of a block of scales: n3, n0, n1, n2, n4, n5. */
__device__ __forceinline__ int64_t scale_index(const nib_cuda_params &p, int64_t row, int64_t group)
{
    int r = (int)(row & 63);
    int place = (r >> 3 & 1) | (r & 7) << 1 | (r & 48);
    return p.one_scale ? 0 : ((row >> 6) * p.groups + group) * 64 + place;
}

struct scale_zero {
    float s, z;
};

__device__ __forceinline__ scale_zero load_scale(const nib_cuda_params &p, int64_t row,
                                                 int64_t group)
{
    int64_t at = scale_index(p, row, group);
    scale_zero out = {1, 0};
    if (NIB_SCALE)
        out.s = load_float<NIB_SCALE>(p.scales, at);
    if (NIB_ZERO == NIB_ZERO_CODE)
        out.z = small_integer(((const uint8_t *)p.zeros)[at]);
    else if (NIB_ZERO)
        out.z = load_float<NIB_ZERO_TYPE>(p.zeros, at);
    return out;
}

/* The weight itself, rounded to f32. */
__device__ __forceinline__ float weight_value(float c, scale_zero sz)
{
    if (NIB_ZERO == NIB_ZERO_RESCALE)
        return fma_rn(c, sz.s, -sz.z);
    if (NIB_ZERO)
        c -= sz.z;
    return NIB_SCALE ? c * sz.s : c;
}

#endif
