/* SPDX-License-Identifier: Apache-2.0
 *
 * What the general kernel needs of numbers beyond kernels/common/types.cuh: small floats of any
 * format, and loads of elements as f32. Exact; nothing flushes subnormals.
 */
#ifndef NIB_CUDA_GENERAL_NUMBER_CUH
#define NIB_CUDA_GENERAL_NUMBER_CUH

#include "kernels/common/types.cuh"

/* Never contracted nor split, so that all tiles compute alike. */
__device__ __forceinline__ float fma_rn(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

/* 1 + E + M bits. The magnitude lands in f32's fields with a bias of 127; the product puts the
 * exponent right and normalises subnormals, exactly. */
template <int E, int M, int BIAS> __device__ __forceinline__ float small_float(uint32_t code)
{
    uint32_t magnitude = code & ((1u << (E + M)) - 1), sign = (code >> (E + M) & 1) << 31;
    float value = nib_float_from_bits(magnitude << (23 - M)) *
                  nib_float_from_bits((uint32_t)(254 - BIAS) << 23);
    return nib_float_from_bits(nib_bits_from_float(value) | sign);
}

/* -2^22 .. 2^22, without the slow conversion: the integer becomes the low mantissa of
 * 2^23 + 2^22. */
__device__ __forceinline__ float small_integer(int32_t value)
{
    return nib_float_from_bits(0x4b400000u + (uint32_t)value) - 12582912.0f;
}

/* Element `at` of an array of TYPE at its natural alignment: of packed weights. */
template <int TYPE> __device__ __forceinline__ float load_float(const void *array, int64_t at)
{
    if (TYPE == NIB_I8)
        return small_integer(((const int8_t *)array)[at]);
    if (nib_element_bytes(TYPE) == 4)
        return ((const float *)array)[at];
    uint32_t bits =
        nib_element_bytes(TYPE) == 2 ? ((const uint16_t *)array)[at] : ((const uint8_t *)array)[at];
    return nib_float_from<TYPE>(bits);
}

/* The same of an array of the caller's, which may lie at any address. */
template <int TYPE> __device__ __forceinline__ float load_given(const void *array, int64_t at)
{
    if (nib_element_bytes(TYPE) == 1)
        return load_float<TYPE>(array, at);
    return nib_float_from<TYPE>(nib_load_element<nib_element_bytes(TYPE)>(array, at));
}

/* QLoRA, Dettmers et al. 2023, appendix E. */
__device__ const float nf4_values[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

#endif
