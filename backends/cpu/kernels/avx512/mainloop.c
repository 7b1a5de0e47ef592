/* SPDX-License-Identifier: Apache-2.0
 *
 * The micro-kernel of the panel schedule: 2 n tiles x up to 12 rows of act. Per k it loads two
 * vectors of weights and broadcasts one activation a row: 24 multiply-adds for 14 loads, so that
 * the two FMA ports are the limit.
 */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/load.h"

NIB_CPU_INLINE void block(const int rows, const float *w0, const float *w1, const float *a,
                          int64_t k, float *c, int64_t ldc)
{
    __m512 sums[NIB_CPU_AVX512_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        sums[r][0] = _mm512_loadu_ps(c + r * ldc);
        sums[r][1] = _mm512_loadu_ps(c + r * ldc + NIB_CPU_LANES);
    }
    for (int64_t i = 0; i < k; i++) {
        __m512 x0 = _mm512_loadu_ps(w0 + i * NIB_CPU_LANES);
        __m512 x1 = _mm512_loadu_ps(w1 + i * NIB_CPU_LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            __m512 y = _mm512_set1_ps(a[i * NIB_CPU_AVX512_ROWS + r]);
            sums[r][0] = _mm512_fmadd_ps(y, x0, sums[r][0]);
            sums[r][1] = _mm512_fmadd_ps(y, x1, sums[r][1]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(c + r * ldc, sums[r][0]);
        _mm512_storeu_ps(c + r * ldc + NIB_CPU_LANES, sums[r][1]);
    }
}

void nib_cpu_avx512_micro(const float *w, int64_t w_stride, const float *a, int64_t k, int rows,
                          float *c, int64_t ldc)
{
    const float *w1 = w + w_stride;
    switch (rows) {
    case 12:
        block(12, w, w1, a, k, c, ldc);
        return;
    case 11:
        block(11, w, w1, a, k, c, ldc);
        return;
    case 10:
        block(10, w, w1, a, k, c, ldc);
        return;
    case 9:
        block(9, w, w1, a, k, c, ldc);
        return;
    case 8:
        block(8, w, w1, a, k, c, ldc);
        return;
    case 7:
        block(7, w, w1, a, k, c, ldc);
        return;
    case 6:
        block(6, w, w1, a, k, c, ldc);
        return;
    case 5:
        block(5, w, w1, a, k, c, ldc);
        return;
    case 4:
        block(4, w, w1, a, k, c, ldc);
        return;
    case 3:
        block(3, w, w1, a, k, c, ldc);
        return;
    case 2:
        block(2, w, w1, a, k, c, ldc);
        return;
    default:
        block(1, w, w1, a, k, c, ldc);
        return;
    }
}
