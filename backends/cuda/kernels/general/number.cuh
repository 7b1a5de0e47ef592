/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in device code of the general kernel: types, their conversions to f32 and back. All
 * conversions are exact or rounded once to nearest even; nothing flushes subnormals.
 */
#ifndef NIB_CUDA_GENERAL_NUMBER_CUH
#define NIB_CUDA_GENERAL_NUMBER_CUH

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

/* As in nibblas.h. */
enum {
    NIB_F32 = 1,
    NIB_F16 = 2,
    NIB_BF16 = 3,
    NIB_E4M3 = 4,
    NIB_E5M2 = 5,
    NIB_E8M0 = 6,
    NIB_I32 = 7,
    NIB_U1 = 16,
    NIB_U8 = 23,
    NIB_I1 = 32,
    NIB_I8 = 39,
    NIB_NF4 = 48,
    NIB_E2M1 = 49,
    NIB_E3M2 = 50,
    NIB_E2M3 = 51,
    NIB_LUT4 = 52
};
enum { NIB_ZERO_NONE, NIB_ZERO_FLOAT, NIB_ZERO_RESCALE, NIB_ZERO_CODE };
enum { NIB_ACT_SCALE_NONE, NIB_ACT_SCALE_TENSOR, NIB_ACT_SCALE_ROW, NIB_ACT_SCALE_MX };
enum {
    NIB_EPILOGUE_NONE,
    NIB_EPILOGUE_RELU,
    NIB_EPILOGUE_GELU,
    NIB_EPILOGUE_SILU,
    NIB_EPILOGUE_SILU_GATED
};

__device__ __forceinline__ float bits_f32(uint32_t bits)
{
    return __uint_as_float(bits);
}

/* Never contracted nor split, so that all tiles compute alike. */
__device__ __forceinline__ float fma_rn(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

__device__ __forceinline__ float from_f16(uint16_t code)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
    return value;
}

__device__ __forceinline__ uint16_t to_f16(float value)
{
    uint16_t code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
    return code;
}

__device__ __forceinline__ uint16_t to_bf16(float value)
{
    uint16_t code;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(value));
    return code;
}

/* 1 + E + M bits. The magnitude lands in f32's fields with a bias of 127; the product puts the
 * exponent right and normalises subnormals, exactly. */
template <int E, int M, int BIAS> __device__ __forceinline__ float small_float(uint32_t code)
{
    uint32_t magnitude = code & ((1u << (E + M)) - 1);
    float value = bits_f32(magnitude << (23 - M)) * bits_f32((uint32_t)(254 - BIAS) << 23);
    return bits_f32(__float_as_uint(value) | (code >> (E + M) & 1) << 31);
}

__device__ __forceinline__ float from_e4m3(uint32_t code)
{
    return (code & 0x7f) == 0x7f ? bits_f32(0x7fc00000) : small_float<4, 3, 7>(code);
}

/* The upper half of an f16. */
__device__ __forceinline__ float from_e5m2(uint32_t code)
{
    return from_f16((uint16_t)(code << 8));
}

__device__ __forceinline__ float from_e8m0(uint32_t code)
{
    return bits_f32(code == 255 ? 0x7fc00000 : code == 0 ? 0x00400000 : code << 23);
}

/* -2^22 .. 2^22, without the slow conversion: the integer becomes the low mantissa of 2^23 + 2^22.
 */
__device__ __forceinline__ float small_integer(int32_t value)
{
    return bits_f32(0x4b400000u + (uint32_t)value) - 12582912.0f;
}

/* Element `at` of an array of TYPE. */
template <int TYPE> __device__ __forceinline__ float load_float(const void *array, int64_t at)
{
    switch (TYPE) {
    case NIB_F32:
        return ((const float *)array)[at];
    case NIB_F16:
        return from_f16(((const uint16_t *)array)[at]);
    case NIB_BF16:
        return bits_f32((uint32_t)((const uint16_t *)array)[at] << 16);
    case NIB_E4M3:
        return from_e4m3(((const uint8_t *)array)[at]);
    case NIB_E5M2:
        return from_e5m2(((const uint8_t *)array)[at]);
    case NIB_E8M0:
        return from_e8m0(((const uint8_t *)array)[at]);
    case NIB_I8:
        return small_integer(((const int8_t *)array)[at]);
    default:
        return 0;
    }
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
