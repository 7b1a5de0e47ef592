/* SPDX-License-Identifier: Apache-2.0
 *
 * The direct path against i8 activations. Masking a word leaves four codes of consecutive k in its
 * bytes, which is what vpdpbusd multiplies with four activations and adds up: for 4-bit codes, five
 * instructions do 128 weights. Codes are unsigned there; a type's offset is taken out through the
 * sums of the activations (`counts`), which are the accumulators' start:
 *
 *     sum (u - offset) q = sum u q - offset * sum q
 */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/load.h"

enum {
    AHEAD_BYTES = 1024,
    MOST_TILES = NIB_CPU_AVX512_DIRECT_TILES,
    MOST_ROWS = NIB_CPU_AVX512_DIRECT_ROWS
};

/* 2 * value + 12 of each e2m1 code: a small unsigned integer. */
static const int8_t e2m1_bytes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* What a decoder reads: fields of 1, 2, 4 or 8 bits, a flipped byte, or a looked-up nibble. */
enum { CODE_FLIP = 9, CODE_E2M1 = 10 };

NIB_CPU_INLINE int code_bits(const int code)
{
    return code == CODE_FLIP ? 8 : code == CODE_E2M1 ? 4 : code;
}

/* Four codes of each lane: k = 4 * index .. 4 * index + 3 of the unit, one a byte. */
NIB_CPU_INLINE __m512i decode(__m512i word, __m512i table, const int code, const int index)
{
    const int bits = code_bits(code);
    if (code == CODE_FLIP)
        return _mm512_xor_si512(word, _mm512_set1_epi8((char)0x80));
    if (bits == 8)
        return word;
    __m512i field =
        _mm512_and_si512(word_right(word, bits * index), _mm512_set1_epi8((char)((1 << bits) - 1)));
    return code == CODE_E2M1 ? _mm512_shuffle_epi8(table, field) : field;
}

typedef struct dot_state {
    const unsigned char *codes[MOST_TILES];
    const int8_t *quant;
    const int32_t *counts;
    const float *steps;
    __m512i table;
    int32_t offset;
} dot_state;

NIB_CPU_INLINE __m512i four_bytes(const int8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* Exact sums over units unit .. end - 1, which are segment `segment`. */
NIB_CPU_INLINE void sum_units(const dot_state *state, const int code, const int tiles,
                              const int rows, int64_t unit, int64_t end, int64_t segment,
                              __m512i sums[MOST_TILES][MOST_ROWS])
{
    const int bits = code_bits(code), fields = 8 / bits;
    /* One row leaves room for a second chain, which hides the instruction's latency. */
    const int chains = rows * tiles < 8 && fields > 1 ? 2 : 1;
    __m512i second[MOST_TILES][MOST_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        __m512i start = _mm512_set1_epi32(
            (int32_t)((uint32_t)-state->offset * (uint32_t)state->counts[segment * rows + r]));
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++) {
            sums[t][r] = start;
            second[t][r] = _mm512_setzero_si512();
        }
    }
    for (int64_t u = unit; u < end; u++) {
        __m512i words[MOST_TILES];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++) {
            const unsigned char *at = state->codes[t] + u * NIB_CPU_TILE_BYTES;
            words[t] = _mm512_loadu_si512(at);
            _mm_prefetch((const char *)at + AHEAD_BYTES, _MM_HINT_T0);
        }
        const int8_t *quant = state->quant + u * (32 / bits * rows);
#pragma GCC unroll 8
        for (int f = 0; f < fields; f++) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; t++) {
                __m512i c = decode(words[t], state->table, code, f);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) {
                    __m512i q = four_bytes(quant + 4 * (f * rows + r));
                    if (chains == 2 && (f & 1))
                        second[t][r] = _mm512_dpbusd_epi32(second[t][r], c, q);
                    else
                        sums[t][r] = _mm512_dpbusd_epi32(sums[t][r], c, q);
                }
            }
        }
    }
    if (chains == 2)
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sums[t][r] = _mm512_add_epi32(sums[t][r], second[t][r]);
}

/* One group: its segments' sums times their steps, into part. `segment` moves on. */
NIB_CPU_INLINE void sum_group(const dot_state *state, const int code, const int tiles,
                              const int rows, int64_t units, int64_t segment, int64_t segments,
                              int64_t last_unit, __m512 part[MOST_TILES][MOST_ROWS])
{
    __m512i sums[MOST_TILES][MOST_ROWS];
#pragma GCC unroll 4
    for (int t = 0; t < tiles; t++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            part[t][r] = _mm512_setzero_ps();
    for (int64_t s = segment; s < segment + segments; s++) {
        int64_t end = nib_cpu_min((s + 1) * units, last_unit);
        /* A constant number of units, 32 k, lets the compiler lay the usual loop out flat. */
        const int usual = code_bits(code);
        if (units == usual && end == (s + 1) * units)
            sum_units(state, code, tiles, rows, s * usual, s * usual + usual, s, sums);
        else
            sum_units(state, code, tiles, rows, s * units, end, s, sums);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                part[t][r] =
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][r]),
                                    _mm512_set1_ps(state->steps[s * rows + r]), part[t][r]);
    }
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

static void point(const nib_cpu_direct *slice, int tiles, int tile, dot_state *state,
                  group_source *source)
{
    const nib_cpu_shape *shape = slice->run->shape;
    for (int t = 0; t < tiles; t++) {
        int64_t n_tile = slice->n_tile + tile + t;
        state->codes[t] = (const unsigned char *)slice->run->weights->codes[0] +
                          (uint64_t)n_tile * shape->tile_bytes[0];
        source[t] = groups_of(slice->run, n_tile);
    }
    state->quant = slice->quant;
    state->counts = slice->counts;
    state->steps = slice->steps;
    state->offset = shape->operand_offset;
    state->table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)e2m1_bytes));
}

/* i32 results: the one segment's sums themselves. */
NIB_CPU_INLINE void integers_of(const nib_cpu_direct *slice, const int code, const int tiles,
                                const int rows, int tile)
{
    dot_state state;
    group_source source[MOST_TILES];
    __m512i sums[MOST_TILES][MOST_ROWS];
    point(slice, tiles, tile, &state, source);
    sum_units(&state, code, tiles, rows, 0, slice->run->shape->units, 0, sums);
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            _mm512_storeu_si512(slice->acc + r * slice->ld_acc + (tile + t) * NIB_CPU_LANES,
                                sums[t][r]);
}

/* n tiles tile .. tile + tiles - 1 of the slice. */
NIB_CPU_INLINE void slice_of(const nib_cpu_direct *slice, const int code, const int tiles,
                             const int rows, int tile)
{
    const nib_cpu_shape *shape = slice->run->shape;
    const int unit_k = 32 / code_bits(code);
    bool lone = slice->segments == 1;
    int64_t units = lone ? shape->units : slice->segment / unit_k;
    int64_t per_group =
        lone || shape->groups == 1 ? slice->segments : shape->group / slice->segment;
    __m512 unit = _mm512_set1_ps(shape->operand_unit);
    dot_state state;
    group_source source[MOST_TILES];
    __m512 total[MOST_TILES][MOST_ROWS], part[MOST_TILES][MOST_ROWS];
    point(slice, tiles, tile, &state, source);
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            total[t][r] = _mm512_setzero_ps();
    for (int64_t g = 0; g < shape->groups; g++) {
        int64_t segment = g * per_group;
        sum_group(&state, code, tiles, rows, units, segment,
                  nib_cpu_min(per_group, slice->segments - segment), shape->units, part);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++) {
            __m512 s = group_scale(&source[t], g), z = group_zero(&source[t], g);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                float sum = shape->rule == NIB_CPU_SCALE ? 0 : slice->sums[g * rows + r];
                if (code == CODE_E2M1)
                    part[t][r] = _mm512_mul_ps(part[t][r], unit);
                total[t][r] = add_group(shape->rule, total[t][r], part[t][r], s, z, sum);
            }
        }
    }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            _mm512_storeu_ps(slice->acc + r * slice->ld_acc + (tile + t) * NIB_CPU_LANES,
                             total[t][r]);
}

NIB_CPU_INLINE void run_tiles(const nib_cpu_direct *slice, const int code, const int tiles,
                              const int rows)
{
    int tile = 0;
    if (slice->integers) {
        for (; tile < slice->tiles; tile++)
            integers_of(slice, code, 1, rows, tile);
        return;
    }
    for (; tile + tiles <= slice->tiles; tile += tiles)
        slice_of(slice, code, tiles, rows, tile);
    for (; tile < slice->tiles; tile++)
        slice_of(slice, code, 1, rows, tile);
}

NIB_CPU_INLINE void run_code(const nib_cpu_direct *slice, const int code)
{
    switch (slice->rows) {
    case 4:
        run_tiles(slice, code, 2, 4);
        return;
    case 2:
        run_tiles(slice, code, 2, 2);
        return;
    default:
        run_tiles(slice, code, 4, 1);
        return;
    }
}

void nib_cpu_avx512_dot(const nib_cpu_direct *slice)
{
    const nib_cpu_shape *shape = slice->run->shape;
    if (shape->operand == NIB_CPU_OPERAND_TABLE)
        run_code(slice, CODE_E2M1);
    else if (shape->operand == NIB_CPU_OPERAND_FLIP)
        run_code(slice, CODE_FLIP);
    else if (shape->bits == 8)
        run_code(slice, 8);
    else if (shape->bits == 4)
        run_code(slice, 4);
    else if (shape->bits == 2)
        run_code(slice, 2);
    else
        run_code(slice, 1);
}
