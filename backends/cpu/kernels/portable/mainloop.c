/* SPDX-License-Identifier: Apache-2.0
 *
 * The micro-kernel in plain C: 16 rows of W against 4 of act, eight lanes at a time so that the
 * sums stay in the sixteen registers every x86-64 and AArch64 has.
 */
#include "kernels/portable/portable.h"

enum { HALF = 8, ROWS = NIB_CPU_PORTABLE_ROWS };

void nib_cpu_portable_micro(const float *w, int64_t w_stride, const float *a, int64_t k, int rows,
                            float *c, int64_t ldc)
{
    (void)w_stride;
    for (int half = 0; half < NIB_CPU_LANES; half += HALF) {
        float sums[ROWS][HALF] = {0};
        for (int r = 0; r < rows; r++)
            for (int lane = 0; lane < HALF; lane++)
                sums[r][lane] = c[r * ldc + half + lane];
        for (int64_t i = 0; i < k; i++)
            for (int r = 0; r < ROWS; r++)
                for (int lane = 0; lane < HALF; lane++)
                    sums[r][lane] += a[i * ROWS + r] * w[i * NIB_CPU_LANES + half + lane];
        for (int r = 0; r < rows; r++)
            for (int lane = 0; lane < HALF; lane++)
                c[r * ldc + half + lane] = sums[r][lane];
    }
}
