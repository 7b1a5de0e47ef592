/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands into registers: words of codes, their values, and the sixteen scales and zeros of a
 * group. A tile is two vectors of eight lanes, its halves.
 */
#ifndef NIB_CPU_AVX2_LOAD_H
#define NIB_CPU_AVX2_LOAD_H

#include "kernels/common/shape.h"

#include <immintrin.h>

#define NIB_CPU_INLINE static inline __attribute__((always_inline))

enum { HALF_LANES = 8 };

typedef uint32_t nib_cpu_half_words __attribute__((vector_size(32)));

/* Shifts by a constant become the instruction with an immediate. */
NIB_CPU_INLINE __m256i word_right(__m256i word, int shift)
{
    return (__m256i)((nib_cpu_half_words)word >> (uint32_t)shift);
}

NIB_CPU_INLINE __m256i word_left(__m256i word, int shift)
{
    return (__m256i)((nib_cpu_half_words)word << (uint32_t)shift);
}

NIB_CPU_INLINE __m256i word_load(const unsigned char *tile, int half)
{
    return _mm256_loadu_si256((const __m256i *)(tile + 32 * half));
}

/* Byte `index` of each word, sign-extended. */
NIB_CPU_INLINE __m256i word_signed_byte(__m256i word, int index)
{
    return _mm256_srai_epi32(word_left(word, 24 - 8 * index), 24);
}

/* A table of sixteen floats: vpermps reads three bits of an index, so it takes two halves. */
typedef struct value_table {
    __m256 low, high;
} value_table;

/* The table of a type of at most 4 bits, repeated to sixteen entries. */
NIB_CPU_INLINE value_table table_of(const float *values, int bits)
{
    float repeated[16];
    for (int i = 0; i < 16; i++)
        repeated[i] = values[i & ((1 << bits) - 1)];
    return (value_table){_mm256_loadu_ps(repeated), _mm256_loadu_ps(repeated + 8)};
}

/* Values of the codes of at most `bits` <= 4 bits that begin at bit `shift` of each word. The
 * index's higher bits are ignored; bit 3, moved to the sign, chooses the half. */
NIB_CPU_INLINE __m256 look_up(const value_table *table, __m256i word, int shift, int bits)
{
    __m256i index = word_right(word, shift);
    __m256 low = _mm256_permutevar8x32_ps(table->low, index);
    if (bits < 4)
        return low;
    __m256 high = _mm256_permutevar8x32_ps(table->high, index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(word_left(word, 28 - shift)));
}

/* e8m0: the byte is an f32's exponent, but 0 is 2^-127, a subnormal, and 255 is NaN. */
NIB_CPU_INLINE __m256 lanes_e8m0(__m256i wide)
{
    __m256i bits = _mm256_slli_epi32(wide, 23);
    __m256i least = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
    __m256i nan = _mm256_cmpeq_epi32(wide, _mm256_set1_epi32(255));
    bits = _mm256_or_si256(bits, _mm256_and_si256(least, _mm256_set1_epi32(0x00400000)));
    bits = _mm256_or_si256(bits, _mm256_and_si256(nan, _mm256_set1_epi32(0x00400000)));
    return _mm256_castsi256_ps(bits);
}

/* e4m3 as f16 with the same mantissa: biases 7 and 15 differ by 8, so 2^8 is missing. */
NIB_CPU_INLINE __m256 lanes_e4m3(__m128i bytes)
{
    __m128i wide = _mm_cvtepu8_epi16(bytes);
    __m128i low = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
    __m128i sign = _mm_slli_epi16(_mm_andnot_si128(_mm_set1_epi16(0x7f), wide), 8);
    __m128i nan = _mm_cmpeq_epi16(low, _mm_set1_epi16(0x7f));
    __m128i half = _mm_or_si128(_mm_slli_epi16(low, 7), sign);
    half = _mm_or_si128(half, _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256));
}

/* Eight elements from `index` on; zero codes come as NIB_U8. */
NIB_CPU_INLINE __m256 lanes_load(nib_type type, const void *array, int64_t index)
{
    const unsigned char *at = array;
    switch (type) {
    case NIB_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(at + 2 * index)));
    case NIB_F32:
        return _mm256_loadu_ps((const float *)(const void *)(at + 4 * index));
    case NIB_BF16:
        return _mm256_castsi256_ps(_mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(at + 2 * index))), 16));
    case NIB_E8M0:
        return lanes_e8m0(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(at + index))));
    case NIB_E4M3:
        return lanes_e4m3(_mm_loadl_epi64((const __m128i *)(at + index)));
    default:
        return _mm256_cvtepi32_ps(
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(at + index))));
    }
}

/* Where a run's scales and zeros are, for inner loops. */
typedef struct group_source {
    const void *scales, *zeros; /* of one n tile */
    nib_type scale_type, zero_type;
    float scale[NIB_CPU_LANES], zero[NIB_CPU_LANES]; /* of a product without groups to load */
} group_source;

NIB_CPU_INLINE void groups_of(const nib_cpu_run *run, int64_t n_tile, group_source *source)
{
    const nib_cpu_shape *shape = run->shape;
    const nib_weight_desc *w = &shape->desc.weight;
    int64_t first = n_tile * shape->groups * NIB_CPU_LANES;
    source->scale_type = source->zero_type = NIB_TYPE_NONE;
    memset(source->zero, 0, sizeof(source->zero));
    if (shape->per_tensor) {
        nib_cpu_codes codes;
        nib_cpu_group_load(run, n_tile, 0, &codes);
        memcpy(source->scale, codes.scale, sizeof(source->scale));
        if (w->zero)
            memcpy(source->zero, codes.zero, sizeof(source->zero));
        return;
    }
    source->scale_type = w->scale_type;
    source->scales = (const unsigned char *)run->weights->scales + first * shape->scale_bytes;
    if (w->zero) {
        source->zero_type = w->zero == NIB_ZERO_CODE ? NIB_U8 : w->zero_type;
        source->zeros = (const unsigned char *)run->weights->zeros + first * shape->zero_bytes;
    }
}

NIB_CPU_INLINE __m256 group_scale(const group_source *source, int64_t group, int half)
{
    int64_t index = group * NIB_CPU_LANES + HALF_LANES * half;
    return source->scale_type ? lanes_load(source->scale_type, source->scales, index)
                              : _mm256_loadu_ps(source->scale + HALF_LANES * half);
}

NIB_CPU_INLINE __m256 group_zero(const group_source *source, int64_t group, int half)
{
    int64_t index = group * NIB_CPU_LANES + HALF_LANES * half;
    return source->zero_type ? lanes_load(source->zero_type, source->zeros, index)
                             : _mm256_loadu_ps(source->zero + HALF_LANES * half);
}

/* total + s * (part - z sum), or as the rule says; `sum` is act's over the group. */
NIB_CPU_INLINE __m256 add_group(nib_cpu_rule rule, __m256 total, __m256 part, __m256 s, __m256 z,
                                float sum)
{
    if (rule == NIB_CPU_SHIFT)
        part = _mm256_fnmadd_ps(z, _mm256_set1_ps(sum), part);
    total = _mm256_fmadd_ps(part, s, total);
    if (rule == NIB_CPU_RESCALE)
        total = _mm256_fnmadd_ps(z, _mm256_set1_ps(sum), total);
    return total;
}

#endif
