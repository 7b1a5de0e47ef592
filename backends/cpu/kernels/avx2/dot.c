/* SPDX-License-Identifier: Apache-2.0
 *
 * The direct path against i8 activations. Masking a word leaves four codes of consecutive k in its
 * bytes. vpmaddubsw multiplies them with four activations and adds pairs into 16 bits, vpmaddwd
 * adds the pairs into 32. Pairs of codes below 32 stay below 2 * 31 * 128 = 7936; bytes would
 * saturate, so 8-bit codes are widened first. Offsets are taken out through the sums of the
 * activations:
 *
 *     sum (u - offset) q = sum u q - offset * sum q
 */
#include "kernels/avx2/avx2.h"
#include "kernels/avx2/load.h"

enum { AHEAD_BYTES = 1024, MOST_ROWS = NIB_CPU_AVX2_DIRECT_ROWS };

/* 2 * value + 12 of each e2m1 code: a small unsigned integer. */
static const int8_t e2m1_bytes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* What a decoder reads: fields of 1, 2, 4 or 8 bits, a flipped byte, or a looked-up nibble. */
enum { CODE_FLIP = 9, CODE_E2M1 = 10 };

NIB_CPU_INLINE int code_bits(const int code)
{
    return code == CODE_FLIP ? 8 : code == CODE_E2M1 ? 4 : code;
}

NIB_CPU_INLINE __m256i decode(__m256i word, __m256i table, const int code, const int index)
{
    const int bits = code_bits(code);
    if (code == CODE_FLIP)
        return _mm256_xor_si256(word, _mm256_set1_epi8((char)0x80));
    if (bits == 8)
        return word;
    __m256i field =
        _mm256_and_si256(word_right(word, bits * index), _mm256_set1_epi8((char)((1 << bits) - 1)));
    return code == CODE_E2M1 ? _mm256_shuffle_epi8(table, field) : field;
}

/* sum + the products of four unsigned bytes with four signed ones, lane by lane. */
NIB_CPU_INLINE __m256i dot4(__m256i sum, __m256i u, __m256i q, const int bits)
{
    if (bits < 8)
        return _mm256_add_epi32(
            sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, q), _mm256_set1_epi16(1)));
    __m256i even = _mm256_and_si256(u, _mm256_set1_epi16(0xff)), odd = _mm256_srli_epi16(u, 8);
    __m256i q_even = _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8), q_odd = _mm256_srai_epi16(q, 8);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even, q_even));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(odd, q_odd));
}

typedef struct dot_state {
    const unsigned char *codes;
    const int8_t *quant;
    const int32_t *counts;
    const float *steps;
    __m256i table;
    int32_t offset;
} dot_state;

NIB_CPU_INLINE __m256i four_bytes(const int8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof(four));
    return _mm256_set1_epi32(four);
}

/* Exact sums over units unit .. end - 1, which are segment `segment`. */
NIB_CPU_INLINE void sum_units(const dot_state *state, const int code, const int rows, int64_t unit,
                              int64_t end, int64_t segment, __m256i sums[MOST_ROWS][2])
{
    const int bits = code_bits(code);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_set1_epi32(
            (int32_t)((uint32_t)-state->offset * (uint32_t)state->counts[segment * rows + r]));
    for (int64_t u = unit; u < end; u++) {
        const unsigned char *at = state->codes + u * NIB_CPU_TILE_BYTES;
        __m256i words[2] = {word_load(at, 0), word_load(at, 1)};
        _mm_prefetch((const char *)at + AHEAD_BYTES, _MM_HINT_T0);
        const int8_t *quant = state->quant + u * (32 / bits * rows);
#pragma GCC unroll 8
        for (int f = 0; f < 8 / bits; f++) {
            __m256i c0 = decode(words[0], state->table, code, f);
            __m256i c1 = decode(words[1], state->table, code, f);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                __m256i q = four_bytes(quant + 4 * (f * rows + r));
                sums[r][0] = dot4(sums[r][0], c0, q, bits);
                sums[r][1] = dot4(sums[r][1], c1, q, bits);
            }
        }
    }
}

static void point(const nib_cpu_direct *slice, int tile, dot_state *state, group_source *source)
{
    const nib_cpu_shape *shape = slice->run->shape;
    int64_t n_tile = slice->n_tile + tile;
    state->codes = (const unsigned char *)slice->run->weights->codes[0] +
                   (uint64_t)n_tile * shape->tile_bytes[0];
    groups_of(slice->run, n_tile, source);
    state->quant = slice->quant;
    state->counts = slice->counts;
    state->steps = slice->steps;
    state->offset = shape->operand_offset;
    state->table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)e2m1_bytes));
}

static float *acc_of(const nib_cpu_direct *slice, int tile, int row, int half)
{
    return slice->acc + row * slice->ld_acc + tile * NIB_CPU_LANES + half * HALF_LANES;
}

/* i32 results: the one segment's sums themselves. */
NIB_CPU_INLINE void integers_of(const nib_cpu_direct *slice, const int code, const int rows,
                                int tile)
{
    dot_state state;
    group_source source;
    __m256i sums[MOST_ROWS][2];
    point(slice, tile, &state, &source);
    sum_units(&state, code, rows, 0, slice->run->shape->units, 0, sums);
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            _mm256_storeu_si256((__m256i *)(void *)acc_of(slice, tile, r, half), sums[r][half]);
}

/* One n tile of the slice. */
NIB_CPU_INLINE void slice_of(const nib_cpu_direct *slice, const int code, const int rows, int tile)
{
    const nib_cpu_shape *shape = slice->run->shape;
    bool lone = slice->segments == 1;
    int64_t units = lone ? shape->units : slice->segment / (32 / code_bits(code));
    int64_t per_group =
        lone || shape->groups == 1 ? slice->segments : shape->group / slice->segment;
    dot_state state;
    group_source source;
    __m256 total[MOST_ROWS][2] = {{_mm256_setzero_ps()}}, part[MOST_ROWS][2];
    point(slice, tile, &state, &source);
    for (int64_t g = 0; g < shape->groups; g++) {
        int64_t end = nib_cpu_min((g + 1) * per_group, slice->segments);
        memset(part, 0, sizeof(part));
        for (int64_t s = g * per_group; s < end; s++) {
            __m256i sums[MOST_ROWS][2];
            sum_units(&state, code, rows, s * units, nib_cpu_min((s + 1) * units, shape->units), s,
                      sums);
            for (int r = 0; r < rows; r++)
                for (int half = 0; half < 2; half++)
                    part[r][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r][half]),
                                                    _mm256_broadcast_ss(state.steps + s * rows + r),
                                                    part[r][half]);
        }
        for (int half = 0; half < 2; half++) {
            __m256 s = group_scale(&source, g, half), z = group_zero(&source, g, half);
            for (int r = 0; r < rows; r++) {
                float sum = shape->rule == NIB_CPU_SCALE ? 0 : slice->sums[g * rows + r];
                if (code == CODE_E2M1)
                    part[r][half] =
                        _mm256_mul_ps(part[r][half], _mm256_set1_ps(shape->operand_unit));
                total[r][half] = add_group(shape->rule, total[r][half], part[r][half], s, z, sum);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            _mm256_storeu_ps(acc_of(slice, tile, r, half), total[r][half]);
}

NIB_CPU_INLINE void run_rows(const nib_cpu_direct *slice, const int code, const int rows)
{
    for (int t = 0; t < slice->tiles; t++)
        if (slice->integers)
            integers_of(slice, code, rows, t);
        else
            slice_of(slice, code, rows, t);
}

NIB_CPU_INLINE void run_code(const nib_cpu_direct *slice, const int code)
{
    if (slice->rows == 4)
        run_rows(slice, code, 4);
    else if (slice->rows == 2)
        run_rows(slice, code, 2);
    else
        run_rows(slice, code, 1);
}

void nib_cpu_avx2_dot(const nib_cpu_direct *slice)
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
