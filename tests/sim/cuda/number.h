/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats bit by bit: halves, bfloats and the small floats of tensor cores, with the
 * rounding modes PTX has. The ops_*.c files use it. Inline where a loop over lanes is to become
 * vectors.
 */
#ifndef SIM_CUDA_NUMBER_H
#define SIM_CUDA_NUMBER_H

#include <math.h>
#include <string.h>

#include "ptx.h"

static inline float sim_f32(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static inline uint32_t sim_bits32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double sim_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t sim_bits64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* NVIDIA's arithmetic answers one NaN. */
static inline uint32_t sim_result32(float value)
{
    return value != value ? 0x7fffffffu : sim_bits32(value);
}

static inline float sim_flush(float value)
{
    const uint32_t bits = sim_bits32(value);
    return (bits & 0x7f800000u) == 0 ? sim_f32(bits & 0x80000000u) : value;
}

/* Exact. Multiplying by 2^112 moves the exponent's bias and normalises subnormals. */
static inline float sim_from_f16(uint32_t half)
{
    const uint32_t body = (half & 0x7fffu) << 13;
    const uint32_t scaled = sim_bits32(sim_f32(body) * 0x1p112f);
    const uint32_t bits = body >= 0x0f800000u ? body | 0x7f800000u : scaled;
    return sim_f32(bits | (half & 0x8000u) << 16);
}

/* Round to nearest, ties to even; NaN becomes 0x7fff. Subnormals: adding 0.5 leaves their code in
 * the low bits of the sum, rounded by the addition. */
static inline uint32_t sim_to_f16(float value)
{
    const uint32_t bits = sim_bits32(value), sign = bits >> 16 & 0x8000u, body = bits & 0x7fffffffu;
    const uint32_t small = sim_bits32(sim_f32(body) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (body - 0x38000000u + 0xfffu + (body >> 13 & 1)) >> 13;
    uint32_t code = body < 0x38800000u ? small : normal;
    code = body >= 0x477ff000u ? 0x7c00u : code;
    return body > 0x7f800000u ? 0x7fffu : code | sign;
}

static inline float sim_from_bf16(uint32_t code)
{
    return sim_f32((uint64_t)(code & 0xffffu) << 16);
}

static inline uint32_t sim_to_bf16(float value)
{
    const uint32_t bits = sim_bits32(value);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* A binary format of at most 32 bits. */
typedef struct sim_format {
    uint8_t exponent, mantissa; /* bits */
    int16_t bias;
    uint8_t special; /* 0: all codes are numbers, 1: all ones is NaN, 2: as IEEE */
    bool unsign;     /* no sign bit */
} sim_format;

/* The format of one element of a type; NULL when it is not a float. */
const sim_format *sim_format_of(enum sim_type type);
double sim_format_decode(const sim_format *format, uint32_t code);
/* Rounds once. saturate: overflow and infinities become the largest finite number. */
uint32_t sim_format_encode(const sim_format *format, double value, enum sim_round round,
                           bool saturate);

/* a + b rounded to odd, so that a second rounding to fewer bits is exact. */
double sim_add_odd(double a, double b);
/* Rounds to f32, to odd. */
static inline float sim_odd_f32(double value)
{
    const float nearest = (float)value;
    uint32_t bits = sim_bits32(nearest);
    if ((double)nearest != value && value == value) {
        bits -= fabs((double)nearest) > fabs(value);
        bits |= 1;
    }
    return sim_f32(bits);
}

/* Rounds to f32 in any direction. */
float sim_round_f32(double value, enum sim_round round);
/* Rounds to an integer value: SIM_RN to even, RZ, RM, RP. */
double sim_round_integer(double value, enum sim_round round);

#endif
