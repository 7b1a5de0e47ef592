/* SPDX-License-Identifier: Apache-2.0
 *
 * Floats of 16 bits and f32, element by element and at any address. Each ISA's load and epilogue
 * include it; the vector forms are theirs, these serve tails and the portable kernels.
 */
#ifndef NIB_CPU_CONVERT_H
#define NIB_CPU_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float nib_cpu_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t nib_cpu_bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline uint16_t nib_cpu_u16_at(const void *array, int64_t index)
{
    uint16_t value;
    memcpy(&value, (const unsigned char *)array + 2 * index, sizeof(value));
    return value;
}

static inline float nib_cpu_f32_at(const void *array, int64_t index)
{
    float value;
    memcpy(&value, (const unsigned char *)array + 4 * index, sizeof(value));
    return value;
}

static inline float nib_cpu_from_bf16(uint16_t half)
{
    return nib_cpu_f32_from_bits((uint32_t)half << 16);
}

/* Exact. A subnormal's mantissa is read as an integer in units of 2^-24. */
static inline float nib_cpu_from_f16(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rebias = magnitude >= 0x7c00u ? (255u - 31u) << 23 : (127u - 15u) << 23;
    uint32_t normal = (magnitude << 13) + rebias;
    uint32_t subnormal = nib_cpu_bits_of_f32((float)(int32_t)magnitude * 0x1p-24f);
    return nib_cpu_f32_from_bits(sign | (magnitude < 0x400u ? subnormal : normal));
}

/* Nearest, ties to even; NaN stays NaN. */
static inline uint16_t nib_cpu_to_bf16(float value)
{
    uint32_t bits = nib_cpu_bits_of_f32(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* Nearest, ties to even. Below 2^-14 the sum with 1/2 rounds at 2^-24, the subnormals' unit. */
static inline uint16_t nib_cpu_to_f16(float value)
{
    uint32_t bits = nib_cpu_bits_of_f32(value);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    uint32_t subnormal = nib_cpu_bits_of_f32(nib_cpu_f32_from_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half; /* 65520 and more round to infinity */
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return (uint16_t)(sign | half);
}

#endif
