/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a description that schedules and kernels share: where codes, scales and zeros of an
 * n tile lie, and elements of any type as f32 at any address.
 */
#ifndef NIB_CPU_SHAPE_H
#define NIB_CPU_SHAPE_H

#include "kernels/kernel.h"

#include <string.h>

/* Fills `shape` from a canonical description. */
void nib_cpu_shape_make(const nib_host_api *host, const nib_gemm_desc *desc, nib_cpu_shape *shape);

/* Points `codes` at an n tile; scales and zeros are left to nib_cpu_group_load. */
void nib_cpu_codes_at(const nib_cpu_run *run, int64_t n_tile, nib_cpu_codes *codes);

/* Scales and zeros of one group of an n tile, as f32. */
void nib_cpu_group_load(const nib_cpu_run *run, int64_t n_tile, int64_t group,
                        nib_cpu_codes *codes);

/* The first k after `k` that lies in another group, at most `end`; `group` receives k's group. */
int64_t nib_cpu_group_end(const nib_cpu_run *run, int64_t k, int64_t end, int64_t *group);

/* Elements k0 .. k0 + count - 1 of row `row` of act as f32, MX scales applied. */
void nib_cpu_act_load(const nib_cpu_run *run, nib_cpu_load_fn load, int64_t row, int64_t k0,
                      int64_t count, float *to);

/* The factor of a row of act: per-tensor and per-row scales, else 1. */
float nib_cpu_act_scale(const nib_cpu_run *run, int64_t row);

/* The store of one row of out. */
void nib_cpu_store_make(const nib_cpu_run *run, int64_t row, nib_cpu_store *store);

/* Columns n0 .. n0 + count - 1 of a row of i32 results. alpha, when it is not 1, multiplies in
 * double and rounds to nearest, saturating. */
void nib_cpu_store_integers(const nib_cpu_run *run, int64_t row, int64_t n0, const uint32_t *sums,
                            int64_t count);

static inline int64_t nib_cpu_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t nib_cpu_round_up(int64_t a, int64_t b)
{
    return nib_cpu_ceil_div(a, b) * b;
}

static inline int64_t nib_cpu_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t nib_cpu_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bit of a plane's word where code `k` of a unit begins; k / 4 counts fields of `bits`. */
static inline int nib_cpu_field(int k, int bits)
{
    return 8 * (k & 3) + bits * (k >> 2);
}

/* Narrow planes hold several units in a word: the shift that brings a unit's fields down. */
static inline int nib_cpu_unit_shift(int64_t unit, int unit_k, int bits)
{
    return bits * (int)(unit * (unit_k / 4) % (8 / bits));
}

/* Bytes from the n tile's first word to the word of a unit. */
static inline int64_t nib_cpu_unit_bytes(int64_t unit, int unit_k, int bits)
{
    return unit * unit_k / (32 / bits) * NIB_CPU_TILE_BYTES;
}

#endif
