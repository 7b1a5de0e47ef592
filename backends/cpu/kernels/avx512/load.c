/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to f32, and f32 to i8 with one scale a block.
 */
#include "kernels/avx512/load.h"

#include "kernels/avx512/avx512.h"

static __mmask16 first_lanes(int64_t count)
{
    return count >= NIB_CPU_LANES ? 0xffff : (__mmask16)((1u << count) - 1);
}

void nib_cpu_avx512_lanes(nib_type type, const void *array, int64_t index, float *to)
{
    _mm512_storeu_ps(to, lanes_load(type, array, index));
}

void nib_cpu_avx512_load(nib_type type, const void *from, int64_t count, float *to)
{
    const unsigned char *at = from;
    for (int64_t i = 0; i < count; i += NIB_CPU_LANES) {
        __mmask16 mask = first_lanes(count - i);
        __m512 x;
        if (type == NIB_F32)
            x = _mm512_maskz_loadu_ps(mask, at + 4 * i);
        else if (type == NIB_F16)
            x = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at + 2 * i));
        else
            x = _mm512_castsi512_ps(_mm512_slli_epi32(
                _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at + 2 * i)), 16));
        _mm512_mask_storeu_ps(to + i, mask, x);
    }
}

float nib_cpu_avx512_round(const float *from, int64_t count, int8_t *to)
{
    __m512 x0 = _mm512_maskz_loadu_ps(first_lanes(count), from);
    __m512 x1 = count > NIB_CPU_LANES ? _mm512_maskz_loadu_ps(first_lanes(count - NIB_CPU_LANES),
                                                              from + NIB_CPU_LANES)
                                      : _mm512_setzero_ps();
    __m512 a0 = _mm512_abs_ps(x0), a1 = _mm512_abs_ps(x1);
    /* Zero times an element is zero unless the element is not finite. */
    __m512 zero = _mm512_setzero_ps();
    __m512 probe = _mm512_fmadd_ps(a0, zero, _mm512_mul_ps(a1, zero));
    float largest = _mm512_reduce_max_ps(_mm512_max_ps(a0, a1));
    float inverse = largest > 0 ? 127 / largest : 0;
    bool finite = _mm512_cmp_ps_mask(probe, zero, _CMP_NEQ_UQ) == 0;
    if (!finite || inverse > 3.4028234e38f) /* magnitudes below 2^-121 count as zero */
        inverse = 0;
    __m512 y = _mm512_set1_ps(inverse);
    __m128i q0 = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x0, y)));
    __m128i q1 = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x1, y)));
    _mm_storeu_si128((__m128i *)to, q0);
    _mm_storeu_si128((__m128i *)(to + NIB_CPU_LANES), q1);
    return !finite ? __builtin_nanf("") : inverse == 0 ? 0 : largest / 127;
}
