/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding elements and ggml's blocks to f32. Blocks have 32 elements: first the scale d (f16), for
 * the _1 types the minimum m (f16), then the codes. Nibbles are in halves: byte j holds element j
 * in its low and element j + 16 in its high nibble.
 */
#include "formats/element.h"

#include "config/dtype.h"
#include "formats/reader.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* f16 to f32 without branches, so that loops vectorise. Subnormals go through an integer
 * conversion: they come out right even where the processor flushes subnormal floats. */
static float half_of(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h & 0x7c00;
    /* The exponent's bias goes from 15 to 127, or from 31 to 255 for infinities and NaN. */
    uint32_t rebias = exponent == 0x7c00 ? 224u << 23 : 112u << 23;
    float normal = float_of(((uint32_t)(h & 0x7fff) << 13) + rebias);
    float subnormal = (float)(h & 0x3ff) * 0x1p-24f;
    float magnitude = exponent ? normal : subnormal;
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof(bits));
    return float_of(bits | sign);
}

static float half_at(const unsigned char *at)
{
    return half_of(nib_load_u16(at));
}

void nib_element_f32(const unsigned char *from, int64_t count, float *to)
{
    memcpy(to, from, (size_t)count * sizeof(*to));
}

void nib_element_f16(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = half_at(from + 2 * i);
}

void nib_element_bf16(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = float_of((uint32_t)nib_load_u16(from + 2 * i) << 16);
}

void nib_element_f64(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, from + 8 * i, sizeof(value));
        to[i] = (float)value;
    }
}

void nib_element_i8(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (int8_t)from[i];
}

void nib_element_i16(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (int16_t)nib_load_u16(from + 2 * i);
}

void nib_element_i32(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)(int32_t)nib_load_u32(from + 4 * i);
}

void nib_element_i64(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)(int64_t)nib_load_u64(from + 8 * i);
}

void nib_element_u8(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i];
}

void nib_element_u16(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = nib_load_u16(from + 2 * i);
}

void nib_element_u32(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)nib_load_u32(from + 4 * i);
}

void nib_element_u64(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)nib_load_u64(from + 8 * i);
}

static void through_table(nib_type type, const unsigned char *from, int64_t count, float *to)
{
    const float *table = nib_dtype_table(type);
    for (int64_t i = 0; i < count; i++)
        to[i] = table[from[i]];
}

void nib_element_e4m3(const unsigned char *from, int64_t count, float *to)
{
    through_table(NIB_E4M3, from, count, to);
}

void nib_element_e5m2(const unsigned char *from, int64_t count, float *to)
{
    through_table(NIB_E5M2, from, count, to);
}

void nib_element_e8m0(const unsigned char *from, int64_t count, float *to)
{
    through_table(NIB_E8M0, from, count, to);
}

void nib_element_q4_0(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i += BLOCK, from += 18, to += BLOCK) {
        float d = half_at(from);
        for (int j = 0; j < HALF; j++) {
            to[j] = (float)((from[2 + j] & 15) - 8) * d;
            to[j + HALF] = (float)((from[2 + j] >> 4) - 8) * d;
        }
    }
}

/* code * d is exact in f32 (4 + 11 bits), so there is one rounding: that of the sum. */
void nib_element_q4_1(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i += BLOCK, from += 20, to += BLOCK) {
        float d = half_at(from), m = half_at(from + 2);
        for (int j = 0; j < HALF; j++) {
            to[j] = (float)(from[4 + j] & 15) * d + m;
            to[j + HALF] = (float)(from[4 + j] >> 4) * d + m;
        }
    }
}

/* The fifth bits of the 32 codes are a word of their own before the nibbles. */
void nib_element_q5_0(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i += BLOCK, from += 22, to += BLOCK) {
        float d = half_at(from);
        uint32_t high = nib_load_u32(from + 2);
        for (int j = 0; j < HALF; j++) {
            uint32_t low = from[6 + j];
            to[j] = (float)((int32_t)((low & 15) | (high >> j & 1) << 4) - 16) * d;
            to[j + HALF] = (float)((int32_t)(low >> 4 | (high >> (j + HALF) & 1) << 4) - 16) * d;
        }
    }
}

void nib_element_q5_1(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i += BLOCK, from += 24, to += BLOCK) {
        float d = half_at(from), m = half_at(from + 2);
        uint32_t high = nib_load_u32(from + 4);
        for (int j = 0; j < HALF; j++) {
            uint32_t low = from[8 + j];
            to[j] = (float)((low & 15) | (high >> j & 1) << 4) * d + m;
            to[j + HALF] = (float)(low >> 4 | (high >> (j + HALF) & 1) << 4) * d + m;
        }
    }
}

void nib_element_q8_0(const unsigned char *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i += BLOCK, from += 34, to += BLOCK) {
        float d = half_at(from);
        for (int j = 0; j < BLOCK; j++)
            to[j] = (float)(int8_t)from[2 + j] * d;
    }
}

void nib_element_mxfp4(const unsigned char *from, int64_t count, float *to)
{
    const float *scale = nib_dtype_table(NIB_E8M0), *value = nib_dtype_table(NIB_E2M1);
    for (int64_t i = 0; i < count; i += BLOCK, from += 17, to += BLOCK) {
        float d = scale[from[0]];
        for (int j = 0; j < HALF; j++) {
            to[j] = value[from[1 + j] & 15] * d;
            to[j + HALF] = value[from[1 + j] >> 4] * d;
        }
    }
}
