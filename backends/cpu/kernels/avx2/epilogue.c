/* SPDX-License-Identifier: Apache-2.0
 *
 * The epilogue: see common/epilogue.h. Casts round to nearest, ties to even, whatever MXCSR says.
 */
#include "kernels/common/epilogue.h"

#include "kernels/avx2/avx2.h"

#include <immintrin.h>

static void cast(nib_type type, const float *from, int64_t count, void *to)
{
    enum { LANES = 8 };
    uint16_t halves[NIB_CPU_STORE_COLUMNS];
    int64_t i = 0;
    if (type == NIB_F16)
        for (; i + LANES <= count; i += LANES)
            _mm_storeu_si128((__m128i *)(halves + i),
                             _mm256_cvtps_ph(_mm256_loadu_ps(from + i),
                                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (; i < count; i++)
        halves[i] = type == NIB_F16 ? nib_cpu_to_f16(from[i]) : nib_cpu_to_bf16(from[i]);
    memcpy(to, halves, sizeof(*halves) * (size_t)count);
}

void nib_cpu_avx2_store(const nib_cpu_store *store, const float *x, const float *x2, int64_t n0,
                        int64_t count)
{
    nib_cpu_store_columns(store, x, x2, n0, count, cast);
}
