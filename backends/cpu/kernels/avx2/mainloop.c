/* SPDX-License-Identifier: Apache-2.0
 *
 * The micro-kernel of the panel schedule: one n tile, two vectors, x up to 6 rows of act. Per k
 * twelve multiply-adds for eight loads.
 */
#include "kernels/avx2/avx2.h"
#include "kernels/avx2/load.h"

NIB_CPU_INLINE void block(const int rows, const float *w, const float *a, int64_t k, float *c,
                          int64_t ldc)
{
    __m256 sums[NIB_CPU_AVX2_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        sums[r][0] = _mm256_loadu_ps(c + r * ldc);
        sums[r][1] = _mm256_loadu_ps(c + r * ldc + HALF_LANES);
    }
    for (int64_t i = 0; i < k; i++) {
        __m256 x0 = _mm256_loadu_ps(w + i * NIB_CPU_LANES);
        __m256 x1 = _mm256_loadu_ps(w + i * NIB_CPU_LANES + HALF_LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 y = _mm256_broadcast_ss(a + i * NIB_CPU_AVX2_ROWS + r);
            sums[r][0] = _mm256_fmadd_ps(y, x0, sums[r][0]);
            sums[r][1] = _mm256_fmadd_ps(y, x1, sums[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(c + r * ldc, sums[r][0]);
        _mm256_storeu_ps(c + r * ldc + HALF_LANES, sums[r][1]);
    }
}

void nib_cpu_avx2_micro(const float *w, int64_t w_stride, const float *a, int64_t k, int rows,
                        float *c, int64_t ldc)
{
    (void)w_stride;
    switch (rows) {
    case 6:
        block(6, w, a, k, c, ldc);
        return;
    case 5:
        block(5, w, a, k, c, ldc);
        return;
    case 4:
        block(4, w, a, k, c, ldc);
        return;
    case 3:
        block(3, w, a, k, c, ldc);
        return;
    case 2:
        block(2, w, a, k, c, ldc);
        return;
    default:
        block(1, w, a, k, c, ldc);
        return;
    }
}
