/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to f32, and f32 to i8 with one scale a block.
 */
#include "kernels/avx2/load.h"

#include "kernels/avx2/avx2.h"
#include "kernels/common/convert.h"

void nib_cpu_avx2_lanes(nib_type type, const void *array, int64_t index, float *to)
{
    _mm256_storeu_ps(to, lanes_load(type, array, index));
    _mm256_storeu_ps(to + HALF_LANES, lanes_load(type, array, index + HALF_LANES));
}

void nib_cpu_avx2_load(nib_type type, const void *from, int64_t count, float *to)
{
    int64_t i = 0;
    if (type == NIB_F32) {
        memcpy(to, from, sizeof(float) * (size_t)count);
        return;
    }
    for (; i + HALF_LANES <= count; i += HALF_LANES)
        _mm256_storeu_ps(to + i, lanes_load(type, from, i));
    for (; i < count; i++)
        to[i] = type == NIB_F16 ? nib_cpu_from_f16(nib_cpu_u16_at(from, i))
                                : nib_cpu_from_bf16(nib_cpu_u16_at(from, i));
}

float nib_cpu_avx2_round(const float *from, int64_t count, int8_t *to)
{
    enum { PARTS = NIB_CPU_QUANT_K / HALF_LANES };
    float line[NIB_CPU_QUANT_K] = {0}, lanes[HALF_LANES], largest = 0;
    memcpy(line, from, sizeof(float) * (size_t)count);
    __m256 most = _mm256_setzero_ps(), zero = most, probe = most;
    for (int i = 0; i < PARTS; i++) {
        __m256 x = _mm256_loadu_ps(line + HALF_LANES * i);
        most = _mm256_max_ps(most, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x));
        probe = _mm256_fmadd_ps(x, zero, probe); /* NaN once an element is not finite */
    }
    _mm256_storeu_ps(lanes, most);
    for (int i = 0; i < HALF_LANES; i++)
        largest = lanes[i] > largest ? lanes[i] : largest;
    float inverse = largest > 0 ? 127 / largest : 0;
    bool finite = _mm256_movemask_ps(_mm256_cmp_ps(probe, zero, _CMP_NEQ_UQ)) == 0;
    if (!finite || inverse > 3.4028234e38f) /* magnitudes below 2^-121 count as zero */
        inverse = 0;
    for (int i = 0; i < NIB_CPU_QUANT_K; i++)
        to[i] = finite ? (int8_t)_mm_cvtss_si32(_mm_set_ss(line[i] * inverse)) : 0;
    return !finite ? __builtin_nanf("") : inverse == 0 ? 0 : largest / 127;
}
