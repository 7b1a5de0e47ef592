/* SPDX-License-Identifier: Apache-2.0
 *
 * The portable kernels, for variants/portable.c. kernel.h says what each does.
 */
#ifndef NIB_CPU_PORTABLE_H
#define NIB_CPU_PORTABLE_H

#include "kernels/kernel.h"

enum { NIB_CPU_PORTABLE_ROWS = 4, NIB_CPU_PORTABLE_TILES = 1 };

nib_cpu_dequant_fn nib_cpu_portable_dequant(nib_type type);
void nib_cpu_portable_micro(const float *w, int64_t w_stride, const float *a, int64_t k, int rows,
                            float *c, int64_t ldc);
void nib_cpu_portable_load(nib_type type, const void *from, int64_t count, float *to);
void nib_cpu_portable_store(const nib_cpu_store *store, const float *x, const float *x2, int64_t n0,
                            int64_t count);
float nib_cpu_portable_round(const float *from, int64_t count, int8_t *to);

#endif
