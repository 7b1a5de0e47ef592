/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX2 kernels (AVX2, FMA, F16C), for variants/avx2.c. Two vectors
 * are one n tile. kernel.h says what each function does.
 */
#ifndef NIB_CPU_AVX2_H
#define NIB_CPU_AVX2_H

#include "kernels/kernel.h"

enum {
    NIB_CPU_AVX2_ROWS = 6, /* 6 x 2 sums, 2 weights, 1 activation: 15 of 16 registers */
    NIB_CPU_AVX2_TILES = 1,
    NIB_CPU_AVX2_DIRECT_ROWS = 4,
    NIB_CPU_AVX2_DIRECT_TILES = 4
};

nib_cpu_dequant_fn nib_cpu_avx2_dequant(nib_type type);
void nib_cpu_avx2_micro(const float *w, int64_t w_stride, const float *a, int64_t k, int rows,
                        float *c, int64_t ldc);
void nib_cpu_avx2_lanes(nib_type type, const void *array, int64_t index, float *to);
void nib_cpu_avx2_load(nib_type type, const void *from, int64_t count, float *to);
float nib_cpu_avx2_round(const float *from, int64_t count, int8_t *to);
void nib_cpu_avx2_store(const nib_cpu_store *store, const float *x, const float *x2, int64_t n0,
                        int64_t count);
void nib_cpu_avx2_direct(const nib_cpu_direct *slice);
void nib_cpu_avx2_dot(const nib_cpu_direct *slice);

#endif
