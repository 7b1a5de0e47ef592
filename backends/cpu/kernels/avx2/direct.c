/* SPDX-License-Identifier: Apache-2.0
 *
 * The direct path against f32 activations: decode a word's codes in registers, multiply-add, and
 * let scales and zeros enter once a group. Every element has two chains of additions per group, for
 * even and odd k, so that its bits do not depend on how many rows share a slice.
 */
#include "kernels/avx2/avx2.h"
#include "kernels/avx2/load.h"

enum { AHEAD_BYTES = 1024, MOST_ROWS = NIB_CPU_AVX2_DIRECT_ROWS };

/* What a decoder reads: 1, 2, 4 are bits looked up in a table; then integers, converted. */
enum { CODE_U8 = 8, CODE_I8 = 9, CODE_U4 = 10, CODE_I4 = 11 };

NIB_CPU_INLINE int unit_of(const int code)
{
    return code >= CODE_U4 ? 8 : code >= CODE_U8 ? 4 : 32 / code;
}

NIB_CPU_INLINE __m256 decode(__m256i word, const value_table *table, const int code, const int k)
{
    if (code == CODE_I8)
        return _mm256_cvtepi32_ps(word_signed_byte(word, k));
    if (code == CODE_U8)
        return _mm256_cvtepi32_ps(
            _mm256_and_si256(word_right(word, 8 * k), _mm256_set1_epi32(255)));
    if (code == CODE_U4 || code == CODE_I4) {
        __m256i field =
            _mm256_and_si256(word_right(word, nib_cpu_field(k, 4)), _mm256_set1_epi32(15));
        __m256 c = _mm256_cvtepi32_ps(field);
        return code == CODE_I4 ? _mm256_sub_ps(c, _mm256_set1_ps(8)) : c;
    }
    return look_up(table, word, nib_cpu_field(k, code), code);
}

typedef struct direct_state {
    const unsigned char *codes;
    const float *act;
    value_table table;
} direct_state;

/* Sums over units unit .. end - 1 into part[row][half]. */
NIB_CPU_INLINE void sum_units(const direct_state *state, const int code, const int rows,
                              int64_t unit, int64_t end, __m256 part[MOST_ROWS][2])
{
    const int unit_k = unit_of(code);
    for (int half = 0; half < 2; half++) {
        __m256 chains[MOST_ROWS][2];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            chains[r][0] = chains[r][1] = _mm256_setzero_ps();
        for (int64_t u = unit; u < end; u++) {
            const unsigned char *at = state->codes + u * NIB_CPU_TILE_BYTES;
            __m256i word = word_load(at, half);
            _mm_prefetch((const char *)at + AHEAD_BYTES, _MM_HINT_T0);
            const float *act = state->act + u * (unit_k * rows);
#pragma GCC unroll 32
            for (int k = 0; k < unit_k; k++) {
                __m256 c = decode(word, &state->table, code, k);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    chains[r][k & 1] = _mm256_fmadd_ps(c, _mm256_broadcast_ss(act + k * rows + r),
                                                       chains[r][k & 1]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            part[r][half] = _mm256_add_ps(chains[r][0], chains[r][1]);
    }
}

/* One n tile of the slice. */
NIB_CPU_INLINE void slice_of(const nib_cpu_direct *slice, const value_table *table, const int code,
                             const int rows, int tile)
{
    const nib_cpu_shape *shape = slice->run->shape;
    int64_t group_units = shape->groups > 1 ? shape->group / unit_of(code) : shape->units;
    int64_t n_tile = slice->n_tile + tile;
    direct_state state = {.table = *table, .act = slice->act};
    group_source source;
    __m256 total[MOST_ROWS][2], part[MOST_ROWS][2];
    state.codes = (const unsigned char *)slice->run->weights->codes[0] +
                  (uint64_t)n_tile * shape->tile_bytes[0];
    groups_of(slice->run, n_tile, &source);
    for (int r = 0; r < rows; r++)
        total[r][0] = total[r][1] = _mm256_setzero_ps();
    for (int64_t g = 0; g < shape->groups; g++) {
        int64_t unit = g * group_units;
        sum_units(&state, code, rows, unit, nib_cpu_min(unit + group_units, shape->units), part);
        for (int half = 0; half < 2; half++) {
            __m256 s = group_scale(&source, g, half), z = group_zero(&source, g, half);
            for (int r = 0; r < rows; r++) {
                float sum = shape->rule == NIB_CPU_SCALE ? 0 : slice->sums[g * rows + r];
                total[r][half] = add_group(shape->rule, total[r][half], part[r][half], s, z, sum);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            _mm256_storeu_ps(slice->acc + r * slice->ld_acc + tile * NIB_CPU_LANES +
                                 half * HALF_LANES,
                             total[r][half]);
}

NIB_CPU_INLINE void run_code(const nib_cpu_direct *slice, const value_table *table, const int code)
{
    for (int t = 0; t < slice->tiles; t++)
        if (slice->rows == 4)
            slice_of(slice, table, code, 4, t);
        else if (slice->rows == 2)
            slice_of(slice, table, code, 2, t);
        else
            slice_of(slice, table, code, 1, t);
}

void nib_cpu_avx2_direct(const nib_cpu_direct *slice)
{
    const nib_cpu_shape *shape = slice->run->shape;
    value_table table = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    nib_type type = shape->desc.weight.type;
    if (shape->bits <= 4)
        table = table_of(slice->run->values, shape->bits);
    if (type == NIB_U4)
        run_code(slice, &table, CODE_U4);
    else if (type == NIB_I4)
        run_code(slice, &table, CODE_I4);
    else if (shape->bits == 4)
        run_code(slice, &table, 4);
    else if (shape->bits == 2)
        run_code(slice, &table, 2);
    else if (shape->bits == 1)
        run_code(slice, &table, 1);
    else if (type == NIB_I8)
        run_code(slice, &table, CODE_I8);
    else
        run_code(slice, &table, CODE_U8);
}
