/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floats for the KV cache, for 16-bit activations and for the synthetic model.
 */
#ifndef LLAMA_HALF_H
#define LLAMA_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t llama_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float llama_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exact, without branches: the exponent is corrected by a multiplication, which also normalises
 * subnormals; infinities and NaN get the largest exponent. */
static inline float llama_half_to_float(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0;
    uint32_t bits = llama_bits_of(llama_float_of(magnitude) * 0x1p112f);
    return llama_float_of(bits | special | sign);
}

/* Rounds to nearest, ties to even; too large becomes infinity. */
static inline uint16_t llama_half_from_float(float value)
{
    uint32_t bits = llama_bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000u) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000u) /* below 2^-14: one unit in the last place of 0.5 is 2^-24 */
        return (uint16_t)(sign |
                          (llama_bits_of(llama_float_of(magnitude) + 0.5f) - llama_bits_of(0.5f)));
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

/* Rounds to nearest, ties to even. */
static inline uint16_t llama_bf16_from_float(float value)
{
    uint32_t bits = llama_bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
