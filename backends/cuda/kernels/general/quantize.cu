/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits, a row a block: the largest magnitude, its scale, the row again in steps of
 * that. nibblas.h has the formulas, variants/quantize.c fills the parameters. What a thread read
 * for the first pass it keeps for the second, up to KEPT loads; beyond, rows come from the cache.
 *
 * Every operation is one of f32 rounded to nearest, as in the other backends, so that all give the
 * same bits: nothing here may be contracted.
 *
 * nib_spec.h: NIB_FROM and NIB_TO are nib_types, NIB_GIVEN 1 where the caller gives the scale.
 */
#include "nib_spec.h"

#include "kernels/common/types.cuh"

#include "kernels/general/quantize.h"

enum { KEPT = 4, WARP = 32, MOST_WARPS = 32 };

constexpr int ACT_BYTES = nib_element_bytes(NIB_FROM);
constexpr int PER_LOAD = NIB_CUDA_QUANTIZE_BYTES / ACT_BYTES;
constexpr uint32_t ABS = 0x7fffffffu, INFINITE = 0x7f800000u;

/* Mantissa bits and exponent bias of the target, where it is a float. */
constexpr int MANTISSA = NIB_TO == NIB_E4M3 ? 3 : 2, BIAS = NIB_TO == NIB_E4M3 ? 7 : 15;
constexpr uint32_t LARGEST_CODE = NIB_TO == NIB_E4M3 ? 0x7e : 0x7b, NAN_CODE = 0x7f;
constexpr float LARGEST = NIB_TO == NIB_I8 ? 127.0f : NIB_TO == NIB_E4M3 ? 448.0f : 57344.0f;

struct vector {
    uint32_t word[4];
};

/* ---- elements ---- */

/* Bits of the larger magnitude in a word's elements, at the top of f32 or, of halves, of a word. */
NIB_DEVICE uint32_t word_top(uint32_t word)
{
    if constexpr (ACT_BYTES == 4)
        return word & ABS;
    const uint32_t high = word & 0x7fff0000u, low = word << 16 & 0x7fff0000u;
    return high > low ? high : low;
}

/* Element `i` of a word. */
NIB_DEVICE float word_element(uint32_t word, int i)
{
    return nib_float_from<NIB_FROM>(i ? word >> 16 : word);
}

/* The nearest code of the target to a quotient, at most the largest. */
NIB_DEVICE uint32_t code_of_integer(float y)
{
    /* Added to 1.5 * 2^23, it leaves an integer in the low mantissa, rounded to even. */
    const float least = y < LARGEST ? y : LARGEST, clipped = least > -LARGEST ? least : -LARGEST;
    const uint32_t code = nib_bits_from_float(__fadd_rn(clipped, 12582912.0f)) & 0xffu;
    return y == y ? code : 0;
}

NIB_DEVICE uint32_t code_of_float(float y)
{
    constexpr int SHIFT = 23 - MANTISSA;
    constexpr float UNIT =
        (float)(1 << (24 - BIAS - MANTISSA)); /* its unit is that of subnormals */
    const uint32_t bits = nib_bits_from_float(y), size = bits & ABS;
    const uint32_t normal = ((size + (1u << (SHIFT - 1)) - 1 + (size >> SHIFT & 1)) >> SHIFT) -
                            ((127 - BIAS) << MANTISSA);
    const uint32_t subnormal =
        nib_bits_from_float(__fadd_rn(nib_float_from_bits(size), UNIT)) - nib_bits_from_float(UNIT);
    uint32_t code = size < (uint32_t)(128 - BIAS) << 23 ? subnormal : normal;
    code = size < INFINITE && code < LARGEST_CODE ? code : LARGEST_CODE;
    return size > INFINITE ? NAN_CODE : code | (bits >> 24 & 0x80u);
}

/* Codes of two quotients, in the low bytes. */
NIB_DEVICE uint32_t code_pair(float low, float high)
{
#if __CUDA_ARCH__ >= 890
    if constexpr (NIB_TO != NIB_I8) { /* the same by one instruction */
        uint16_t pair;
        if constexpr (NIB_TO == NIB_E4M3)
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
        else
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
        return pair;
    }
#endif
    if constexpr (NIB_TO == NIB_I8)
        return code_of_integer(low) | code_of_integer(high) << 8;
    else
        return code_of_float(low) | code_of_float(high) << 8;
}

/* Codes of the elements of four bytes of out, from as many words as hold them. */
NIB_DEVICE uint32_t to_codes(const uint32_t *word, float inverse)
{
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        y[i] = __fmul_rn(
            ACT_BYTES == 4 ? word_element(word[i], 0) : word_element(word[i / 2], i & 1), inverse);
    return code_pair(y[0], y[1]) | code_pair(y[2], y[3]) << 16;
}

/* ---- rows ---- */

NIB_DEVICE vector load_vector(const unsigned char *row, int64_t index)
{
    vector v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
                 : "l"(row + index * NIB_CUDA_QUANTIZE_BYTES));
    return v;
}

NIB_DEVICE void store_vector(unsigned char *row, int64_t index, const vector &v, float inverse)
{
    uint32_t *at = (uint32_t *)(row + index * PER_LOAD);
    if constexpr (ACT_BYTES == 4)
        at[0] = to_codes(v.word, inverse);
    else
        *(uint64_t *)at = to_codes(v.word, inverse) | (uint64_t)to_codes(v.word + 2, inverse) << 32;
}

/* One element's bits, in f32 at the top of a word. */
NIB_DEVICE uint32_t load_one(const unsigned char *row, int64_t k)
{
    return nib_load_element<ACT_BYTES>(row, k);
}

NIB_DEVICE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The block's largest value of `top`, in every thread. Blocks are whole warps. */
NIB_DEVICE uint32_t block_top(uint32_t top, uint32_t *partial)
{
    const int warp = nib_thread() / WARP, lane = nib_thread() % WARP;
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        top = larger(top, __shfl_xor_sync(0xffffffffu, top, step));
    if (lane == 0)
        partial[warp] = top;
    __syncthreads(); /* every warp's top is there */
    top = lane < (int)blockDim.x / WARP ? partial[lane] : 0;
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        top = larger(top, __shfl_xor_sync(0xffffffffu, top, step));
    __syncthreads(); /* all have read, before the next row's are written */
    return top;
}

NIB_DEVICE uint32_t vector_top(const vector &v)
{
    return larger(larger(word_top(v.word[0]), word_top(v.word[1])),
                  larger(word_top(v.word[2]), word_top(v.word[3])));
}

/* The scale of the largest magnitude, which stands as word_top leaves it. */
NIB_DEVICE float scale_of(uint32_t top)
{
    const float largest = nib_float_from<NIB_FROM>(ACT_BYTES == 4 ? top : top >> 16);
    const float scale = __fdiv_rn(largest, LARGEST), least = nib_float_from_bits(0x00800000u);
    if (nib_bits_from_float(largest) > INFINITE)
        return nib_float_from_bits(0x7fc00000u); /* one NaN on all devices */
    return scale < least ? least : scale;
}

NIB_DEVICE void quantize_row(const nib_cuda_quantize_params &p, int64_t m, uint32_t *partial)
{
    const unsigned char *act = (const unsigned char *)p.act + m * p.lda * ACT_BYTES;
    unsigned char *out = (unsigned char *)p.out + m * p.ldo;
    const int thread = nib_thread(), threads = (int)blockDim.x;
    const int64_t first = p.vectors * PER_LOAD; /* of the elements that are no vectors */
    vector kept[KEPT];
    uint32_t top = 0;
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (thread + i * threads < p.vectors) {
            kept[i] = load_vector(act, thread + i * threads);
            top = larger(top, vector_top(kept[i]));
        }
    float scale = NIB_GIVEN ? p.scale[0] : 0;
    if (!NIB_GIVEN) {
        for (int64_t i = thread + KEPT * threads; i < p.vectors; i += threads)
            top = larger(top, vector_top(load_vector(act, i)));
        for (int64_t k = first + thread; k < p.k; k += threads)
            top = larger(top, word_top(load_one(act, k)));
        scale = scale_of(block_top(top, partial));
        if (thread == 0)
            p.scale[m] = scale;
    }
    /* Of a row that is not finite the scale says it all: its codes are zeros. */
    const bool dead = !NIB_GIVEN && (nib_bits_from_float(scale) & ABS) >= INFINITE;
    const float inverse = __frcp_rn(scale);
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (thread + i * threads < p.vectors)
            store_vector(out, thread + i * threads, dead ? vector{} : kept[i], dead ? 0 : inverse);
    for (int64_t i = thread + KEPT * threads; i < p.vectors; i += threads)
        store_vector(out, i, dead ? vector{} : load_vector(act, i), dead ? 0 : inverse);
    for (int64_t k = first + thread; k < p.k; k += threads)
        out[k] =
            dead ? 0 : (uint8_t)code_pair(__fmul_rn(word_element(load_one(act, k), 0), inverse), 0);
}

extern "C" __global__ void __launch_bounds__(MOST_WARPS *WARP, 1)
    nib_quantize(const __grid_constant__ nib_cuda_quantize_params p)
{
    __shared__ uint32_t partial[MOST_WARPS];
#if __CUDA_ARCH__ >= 900
    /* The next kernel waits for this one before it reads what is written here; this one waits for
     * those before it, of which one writes act or still reads out. */
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    for (int64_t m = blockIdx.x; m < p.m; m += gridDim.x)
        quantize_row(p, m, partial);
}
