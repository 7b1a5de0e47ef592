/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-512 kernels (F, BW, VL, DQ, VNNI), for variants/avx512.c, and what they share: one vector
 * is one n tile. kernel.h says what each function does.
 */
#ifndef NIB_CPU_AVX512_H
#define NIB_CPU_AVX512_H

#include "kernels/kernel.h"

enum {
    NIB_CPU_AVX512_ROWS = 12, /* 12 x 2 sums, 2 weights, 1 activation: 27 of 32 registers */
    NIB_CPU_AVX512_TILES = 2,
    NIB_CPU_AVX512_DIRECT_ROWS = 4, /* x 2 tiles: more rows measured slower, sums spill */
    NIB_CPU_AVX512_DIRECT_TILES = 4
};

nib_cpu_dequant_fn nib_cpu_avx512_dequant(nib_type type);
void nib_cpu_avx512_micro(const float *w, int64_t w_stride, const float *a, int64_t k, int rows,
                          float *c, int64_t ldc);
void nib_cpu_avx512_lanes(nib_type type, const void *array, int64_t index, float *to);
void nib_cpu_avx512_load(nib_type type, const void *from, int64_t count, float *to);
float nib_cpu_avx512_round(const float *from, int64_t count, int8_t *to);
void nib_cpu_avx512_store(const nib_cpu_store *store, const float *x, const float *x2, int64_t n0,
                          int64_t count);
void nib_cpu_avx512_direct(const nib_cpu_direct *slice);
void nib_cpu_avx512_dot(const nib_cpu_direct *slice);

#endif
