/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes to f32. A code of at most 4 bits is looked up by vpermps, which reads only the low 3 bits
 * of each 32-bit index, so that no mask is needed; the fourth bit blends two halves of the table.
 * Wider integers are converted, wider floats gathered from their table.
 *
 * A weight type is one function, made by one line below, and one row of the table at the end.
 */
#include "kernels/avx2/avx2.h"
#include "kernels/avx2/load.h"

typedef enum decode_kind {
    DECODE_TABLE,
    DECODE_UNSIGNED,
    DECODE_OFFSET,
    DECODE_SIGNED
} decode_kind;

NIB_CPU_INLINE __m256 apply(const nib_cpu_rule rule, __m256 c, __m256 s, __m256 z)
{
    switch (rule) {
    case NIB_CPU_SCALE:
        return _mm256_mul_ps(c, s);
    case NIB_CPU_SHIFT:
        return _mm256_mul_ps(_mm256_sub_ps(c, z), s);
    case NIB_CPU_RESCALE:
        return _mm256_fmsub_ps(c, s, z);
    default:
        return c;
    }
}

/* Code k of a unit, in 32-bit lanes, from the words of up to three planes. */
NIB_CPU_INLINE __m256i code_at(const __m256i words[NIB_MAX_PLANES], const int bits, const int k)
{
    __m256i code = _mm256_setzero_si256();
    int at = 0, p = 0;
    for (int width = 8; width; width /= 2) {
        if (!(bits & width))
            continue;
        __m256i field = word_right(words[p++], nib_cpu_field(k, width));
        if (bits != width || bits == 8) /* a lone plane of 4 bits or less: vpermps masks */
            field = _mm256_and_si256(field, _mm256_set1_epi32((1 << width) - 1));
        code = at ? _mm256_or_si256(code, _mm256_slli_epi32(field, at)) : field;
        at += width;
    }
    return code;
}

NIB_CPU_INLINE __m256 value_of(__m256i code, const value_table *table, const float *values,
                               const int bits, const decode_kind kind)
{
    if (bits <= 4)
        return look_up(table, code, 0, bits);
    switch (kind) {
    case DECODE_UNSIGNED:
        return _mm256_cvtepi32_ps(code);
    case DECODE_OFFSET:
        return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(1 << (bits - 1))));
    case DECODE_SIGNED:
        return _mm256_cvtepi32_ps(word_signed_byte(code, 0));
    default:
        return _mm256_i32gather_ps(values, code, 4);
    }
}

/* One half of a tile's lanes. */
NIB_CPU_INLINE void decode_units(const nib_cpu_codes *codes, int64_t unit, int64_t units,
                                 float *out, const int half, const int bits, const decode_kind kind,
                                 const nib_cpu_rule rule)
{
    const int widest = bits & 8 ? 8 : bits & 4 ? 4 : bits & 2 ? 2 : 1;
    const int unit_k = 32 / widest;
    value_table table = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    if (bits <= 4)
        table = table_of(codes->values, bits);
    __m256 s = _mm256_loadu_ps(codes->scale + HALF_LANES * half);
    __m256 z = _mm256_loadu_ps(codes->zero + HALF_LANES * half);
    out += HALF_LANES * half;
    for (int64_t u = unit; u < unit + units; u++, out += unit_k * NIB_CPU_LANES) {
        __m256i words[NIB_MAX_PLANES];
        int p = 0;
        for (int width = widest; width; width /= 2) {
            if (!(bits & width))
                continue;
            words[p] = word_load(codes->plane[p] + nib_cpu_unit_bytes(u, unit_k, width), half);
            if (p)
                words[p] = _mm256_srl_epi32(
                    words[p], _mm_cvtsi32_si128(nib_cpu_unit_shift(u, unit_k, width)));
            p++;
        }
#pragma GCC unroll 32
        for (int k = 0; k < unit_k; k++) {
            __m256 c = value_of(code_at(words, bits, k), &table, codes->values, bits, kind);
            _mm256_storeu_ps(out + k * NIB_CPU_LANES, apply(rule, c, s, z));
        }
    }
}

NIB_CPU_INLINE void decode(const nib_cpu_codes *codes, int64_t unit, int64_t units, float *out,
                           const int bits, const decode_kind kind)
{
    for (int half = 0; half < 2; half++)
        switch (codes->rule) {
        case NIB_CPU_SCALE:
            decode_units(codes, unit, units, out, half, bits, kind, NIB_CPU_SCALE);
            break;
        case NIB_CPU_SHIFT:
            decode_units(codes, unit, units, out, half, bits, kind, NIB_CPU_SHIFT);
            break;
        case NIB_CPU_RESCALE:
            decode_units(codes, unit, units, out, half, bits, kind, NIB_CPU_RESCALE);
            break;
        default:
            decode_units(codes, unit, units, out, half, bits, kind, NIB_CPU_RAW);
            break;
        }
}

/* A macro because C has no other way to write twelve functions that differ in two constants. */
#define DEQUANT(name, bits, kind)                                                         \
    static void name(const nib_cpu_codes *codes, int64_t unit, int64_t units, float *out) \
    {                                                                                     \
        decode(codes, unit, units, out, bits, kind);                                      \
    }

DEQUANT(dequant_1, 1, DECODE_TABLE)
DEQUANT(dequant_2, 2, DECODE_TABLE)
DEQUANT(dequant_3, 3, DECODE_TABLE)
DEQUANT(dequant_4, 4, DECODE_TABLE)
DEQUANT(dequant_u5, 5, DECODE_UNSIGNED)
DEQUANT(dequant_i5, 5, DECODE_OFFSET)
DEQUANT(dequant_u6, 6, DECODE_UNSIGNED)
DEQUANT(dequant_i6, 6, DECODE_OFFSET)
DEQUANT(dequant_f6, 6, DECODE_TABLE)
DEQUANT(dequant_u7, 7, DECODE_UNSIGNED)
DEQUANT(dequant_i7, 7, DECODE_OFFSET)
DEQUANT(dequant_u8, 8, DECODE_UNSIGNED)
DEQUANT(dequant_i8, 8, DECODE_SIGNED)
DEQUANT(dequant_f8, 8, DECODE_TABLE)

/* clang-format off */
static const nib_cpu_dequant_row rows[] = {
    {NIB_U1, dequant_1},  {NIB_U2, dequant_2},  {NIB_U3, dequant_3},  {NIB_U4, dequant_4},
    {NIB_U5, dequant_u5}, {NIB_U6, dequant_u6}, {NIB_U7, dequant_u7}, {NIB_U8, dequant_u8},
    {NIB_I1, dequant_1},  {NIB_I2, dequant_2},  {NIB_I3, dequant_3},  {NIB_I4, dequant_4},
    {NIB_I5, dequant_i5}, {NIB_I6, dequant_i6}, {NIB_I7, dequant_i7}, {NIB_I8, dequant_i8},
    {NIB_NF4, dequant_4}, {NIB_E2M1, dequant_4}, {NIB_LUT4, dequant_4},
    {NIB_E4M3, dequant_f8}, {NIB_E5M2, dequant_f8}, {NIB_E3M2, dequant_f6}, {NIB_E2M3, dequant_f6},
};
/* clang-format on */

nib_cpu_dequant_fn nib_cpu_avx2_dequant(nib_type type)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].type == type)
            return rows[i].dequant;
    return NULL;
}
