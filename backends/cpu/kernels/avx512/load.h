/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands into registers: words of codes, and the sixteen scales and zeros of a group.
 */
#ifndef NIB_CPU_AVX512_LOAD_H
#define NIB_CPU_AVX512_LOAD_H

#include "kernels/common/shape.h"

#include <immintrin.h>

#define NIB_CPU_INLINE static inline __attribute__((always_inline))

typedef uint32_t nib_cpu_words __attribute__((vector_size(64)));

/* Shifts by a constant become the instruction with an immediate. */
NIB_CPU_INLINE __m512i word_right(__m512i word, int shift)
{
    return (__m512i)((nib_cpu_words)word >> (uint32_t)shift);
}

/* Byte `index` of each word, sign-extended. */
NIB_CPU_INLINE __m512i word_signed_byte(__m512i word, int index)
{
    typedef int32_t words __attribute__((vector_size(64)));
    return (__m512i)((words)((nib_cpu_words)word << (uint32_t)(24 - 8 * index)) >> 24);
}

/* e8m0: the byte is an f32's exponent, but 0 is 2^-127, a subnormal, and 255 is NaN. */
NIB_CPU_INLINE __m512 lanes_e8m0(__m128i bytes)
{
    __m512i wide = _mm512_cvtepu8_epi32(bytes);
    __m512i bits = _mm512_slli_epi32(wide, 23);
    __mmask16 least = _mm512_cmpeq_epi32_mask(wide, _mm512_setzero_si512());
    __mmask16 nan = _mm512_cmpeq_epi32_mask(wide, _mm512_set1_epi32(255));
    bits = _mm512_mask_mov_epi32(bits, least, _mm512_set1_epi32(0x00400000));
    bits = _mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000));
    return _mm512_castsi512_ps(bits);
}

/* e4m3 as f16 with the same mantissa: biases 7 and 15 differ by 8, so 2^8 is missing. */
NIB_CPU_INLINE __m512 lanes_e4m3(__m128i bytes)
{
    __m256i wide = _mm256_cvtepu8_epi16(bytes);
    __m256i low = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_slli_epi16(_mm256_andnot_si256(_mm256_set1_epi16(0x7f), wide), 8);
    __m512 value = _mm512_cvtph_ps(_mm256_or_si256(_mm256_slli_epi16(low, 7), sign));
    __mmask16 nan = _mm256_cmpeq_epi16_mask(low, _mm256_set1_epi16(0x7f));
    value = _mm512_mul_ps(value, _mm512_set1_ps(256));
    return _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(__builtin_nanf("")));
}

/* Sixteen elements from `index` on; zero codes come as NIB_U8. */
NIB_CPU_INLINE __m512 lanes_load(nib_type type, const void *array, int64_t index)
{
    const unsigned char *at = array;
    switch (type) {
    case NIB_F16:
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(at + 2 * index)));
    case NIB_F32:
        return _mm512_loadu_ps(at + 4 * index);
    case NIB_BF16:
        return _mm512_castsi512_ps(_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(at + 2 * index))), 16));
    case NIB_E8M0:
        return lanes_e8m0(_mm_loadu_si128((const __m128i *)(at + index)));
    case NIB_E4M3:
        return lanes_e4m3(_mm_loadu_si128((const __m128i *)(at + index)));
    default:
        return _mm512_cvtepi32_ps(
            _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(at + index))));
    }
}

/* Where a run's scales and zeros are, for inner loops. */
typedef struct group_source {
    const void *scales, *zeros; /* of one n tile */
    nib_type scale_type, zero_type;
    __m512 scale, zero; /* of a product without groups to load */
} group_source;

NIB_CPU_INLINE group_source groups_of(const nib_cpu_run *run, int64_t n_tile)
{
    const nib_cpu_shape *shape = run->shape;
    const nib_weight_desc *w = &shape->desc.weight;
    group_source source = {.scale = _mm512_set1_ps(1), .zero = _mm512_setzero_ps()};
    if (shape->per_tensor) {
        nib_cpu_codes codes;
        nib_cpu_group_load(run, n_tile, 0, &codes);
        source.scale = _mm512_loadu_ps(codes.scale);
        if (w->zero)
            source.zero = _mm512_loadu_ps(codes.zero);
        return source;
    }
    int64_t first = n_tile * shape->groups * NIB_CPU_LANES;
    source.scale_type = w->scale_type;
    source.scales = (const unsigned char *)run->weights->scales + first * shape->scale_bytes;
    if (w->zero) {
        source.zero_type = w->zero == NIB_ZERO_CODE ? NIB_U8 : w->zero_type;
        source.zeros = (const unsigned char *)run->weights->zeros + first * shape->zero_bytes;
    }
    return source;
}

NIB_CPU_INLINE __m512 group_scale(const group_source *source, int64_t group)
{
    return source->scale_type
               ? lanes_load(source->scale_type, source->scales, group * NIB_CPU_LANES)
               : source->scale;
}

NIB_CPU_INLINE __m512 group_zero(const group_source *source, int64_t group)
{
    return source->zero_type ? lanes_load(source->zero_type, source->zeros, group * NIB_CPU_LANES)
                             : source->zero;
}

#endif
