/* SPDX-License-Identifier: Apache-2.0
 *
 * The direct path against f32 activations. For each word of codes: shift, look up, multiply-add;
 * three instructions for sixteen weights and one row of act. Scales and zeros enter once a group:
 *
 *     total += s * (sum a c - z * sum a)
 *
 * Every element has two chains of additions per group, for even and odd k, so that its bits do not
 * depend on how many tiles and rows share a slice.
 */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/load.h"

enum {
    AHEAD_BYTES = 1024, /* of prefetching: about 100 ns at the rate one tile's codes are read */
    MOST_TILES = NIB_CPU_AVX512_DIRECT_TILES,
    MOST_ROWS = NIB_CPU_AVX512_DIRECT_ROWS
};

/* Which code a decoder reads: 1, 2, 4 are bits looked up in a table, then the bytes. */
enum { CODE_U8 = 8, CODE_I8 = 9 };

typedef struct direct_state {
    const unsigned char *codes[MOST_TILES];
    const float *act;
    __m512 table;
} direct_state;

NIB_CPU_INLINE __m512 decode(__m512i word, __m512 table, const int code, const int k)
{
    if (code == CODE_I8)
        return _mm512_cvtepi32_ps(word_signed_byte(word, k));
    if (code == CODE_U8)
        return _mm512_cvtepi32_ps(
            _mm512_and_si512(word_right(word, 8 * k), _mm512_set1_epi32(255)));
    return _mm512_permutexvar_ps(word_right(word, nib_cpu_field(k, code)), table);
}

/* Sums over units unit .. end - 1 into part[tile][row]. */
NIB_CPU_INLINE void sum_units(const direct_state *state, const int code, const int tiles,
                              const int rows, int64_t unit, int64_t end,
                              __m512 part[MOST_TILES][MOST_ROWS])
{
    const int unit_k = code >= CODE_U8 ? 4 : 32 / code;
    __m512 chains[MOST_TILES][MOST_ROWS][2];
#pragma GCC unroll 4
    for (int t = 0; t < tiles; t++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            chains[t][r][0] = chains[t][r][1] = _mm512_setzero_ps();
    for (int64_t u = unit; u < end; u++) {
        __m512i words[MOST_TILES];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++) {
            const unsigned char *at = state->codes[t] + u * NIB_CPU_TILE_BYTES;
            words[t] = _mm512_loadu_si512(at);
            _mm_prefetch((const char *)at + AHEAD_BYTES, _MM_HINT_T0);
        }
        const float *act = state->act + u * (unit_k * rows);
#pragma GCC unroll 32
        for (int k = 0; k < unit_k; k++) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; t++) {
                __m512 c = decode(words[t], state->table, code, k);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    chains[t][r][k & 1] =
                        _mm512_fmadd_ps(c, _mm512_set1_ps(act[k * rows + r]), chains[t][r][k & 1]);
            }
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < tiles; t++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            part[t][r] = _mm512_add_ps(chains[t][r][0], chains[t][r][1]);
}

NIB_CPU_INLINE __m512 add_group(nib_cpu_rule rule, __m512 total, __m512 part, __m512 s, __m512 z,
                                float sum)
{
    if (rule == NIB_CPU_SHIFT)
        part = _mm512_fnmadd_ps(z, _mm512_set1_ps(sum), part);
    total = _mm512_fmadd_ps(part, s, total);
    if (rule == NIB_CPU_RESCALE)
        total = _mm512_fnmadd_ps(z, _mm512_set1_ps(sum), total);
    return total;
}

/* n tiles tile .. tile + tiles - 1 of the slice. */
NIB_CPU_INLINE void slice_of(const nib_cpu_direct *slice, __m512 table, const int code,
                             const int tiles, const int rows, int tile)
{
    const nib_cpu_shape *shape = slice->run->shape;
    const int unit_k = code >= CODE_U8 ? 4 : 32 / code;
    int64_t group_units = shape->groups > 1 ? shape->group / unit_k : shape->units;
    direct_state state = {.table = table};
    group_source source[MOST_TILES];
    __m512 total[MOST_TILES][MOST_ROWS], part[MOST_TILES][MOST_ROWS];
    for (int t = 0; t < tiles; t++) {
        int64_t n_tile = slice->n_tile + tile + t;
        state.codes[t] = (const unsigned char *)slice->run->weights->codes[0] +
                         (uint64_t)n_tile * shape->tile_bytes[0];
        source[t] = groups_of(slice->run, n_tile);
        for (int r = 0; r < rows; r++)
            total[t][r] = _mm512_setzero_ps();
    }
    state.act = slice->act;
    for (int64_t g = 0; g < shape->groups; g++) {
        int64_t unit = g * group_units;
        sum_units(&state, code, tiles, rows, unit, nib_cpu_min(unit + group_units, shape->units),
                  part);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++) {
            __m512 s = group_scale(&source[t], g), z = group_zero(&source[t], g);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                float sum = shape->rule == NIB_CPU_SCALE ? 0 : slice->sums[g * rows + r];
                total[t][r] = add_group(shape->rule, total[t][r], part[t][r], s, z, sum);
            }
        }
    }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            _mm512_storeu_ps(slice->acc + r * slice->ld_acc + (tile + t) * NIB_CPU_LANES,
                             total[t][r]);
}

NIB_CPU_INLINE void run_tiles(const nib_cpu_direct *slice, __m512 table, const int code,
                              const int tiles, const int rows)
{
    int tile = 0;
    for (; tile + tiles <= slice->tiles; tile += tiles)
        slice_of(slice, table, code, tiles, rows, tile);
    for (; tile < slice->tiles; tile++)
        slice_of(slice, table, code, 1, rows, tile);
}

/* Eight or more chains keep both FMA ports busy: few rows take more tiles. */
NIB_CPU_INLINE void run_code(const nib_cpu_direct *slice, __m512 table, const int code)
{
    switch (slice->rows) {
    case 4:
        run_tiles(slice, table, code, 2, 4);
        return;
    case 2:
        run_tiles(slice, table, code, 2, 2);
        return;
    default:
        run_tiles(slice, table, code, 4, 1);
        return;
    }
}

void nib_cpu_avx512_direct(const nib_cpu_direct *slice)
{
    const nib_cpu_shape *shape = slice->run->shape;
    float repeated[NIB_CPU_LANES] = {0};
    for (int i = 0; i < NIB_CPU_LANES && shape->bits <= 4; i++)
        repeated[i] = slice->run->values[i & ((1 << shape->bits) - 1)];
    __m512 table = _mm512_loadu_ps(repeated);
    if (shape->bits == 1)
        run_code(slice, table, 1);
    else if (shape->bits == 2)
        run_code(slice, table, 2);
    else if (shape->bits == 4)
        run_code(slice, table, 4);
    else if (shape->desc.weight.type == NIB_I8)
        run_code(slice, table, CODE_I8);
    else
        run_code(slice, table, CODE_U8);
}
