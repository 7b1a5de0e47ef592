/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes to f32. A code of at most 4 bits is looked up by one vpermps, which reads only the low 4
 * bits of each 32-bit index: no mask is needed, and for narrower codes the table repeats. Wider
 * integers are converted, wider floats gathered from their table.
 *
 * A weight type is one function, made by one line below, and one row of the table at the end.
 */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/load.h"

typedef enum decode_kind {
    DECODE_TABLE,
    DECODE_UNSIGNED,
    DECODE_OFFSET,
    DECODE_SIGNED
} decode_kind;

NIB_CPU_INLINE __m512 apply(const nib_cpu_rule rule, __m512 c, __m512 s, __m512 z)
{
    switch (rule) {
    case NIB_CPU_SCALE:
        return _mm512_mul_ps(c, s);
    case NIB_CPU_SHIFT:
        return _mm512_mul_ps(_mm512_sub_ps(c, z), s);
    case NIB_CPU_RESCALE:
        return _mm512_fmsub_ps(c, s, z);
    default:
        return c;
    }
}

/* Code k of a unit, in 32-bit lanes, from the words of up to three planes. */
NIB_CPU_INLINE __m512i code_at(const __m512i words[NIB_MAX_PLANES], const int bits, const int k)
{
    __m512i code = _mm512_setzero_si512();
    int at = 0, p = 0;
    for (int width = 8; width; width /= 2) {
        if (!(bits & width))
            continue;
        __m512i field = word_right(words[p++], nib_cpu_field(k, width));
        if (bits != width || bits == 8) /* a lone plane of 4 bits or less: vpermps masks */
            field = _mm512_and_si512(field, _mm512_set1_epi32((1 << width) - 1));
        code = at ? _mm512_or_si512(code, _mm512_slli_epi32(field, at)) : field;
        at += width;
    }
    return code;
}

NIB_CPU_INLINE __m512 value_of(__m512i code, __m512 table, const float *values, const int bits,
                               const decode_kind kind)
{
    if (bits <= 4)
        return _mm512_permutexvar_ps(code, table);
    switch (kind) {
    case DECODE_UNSIGNED:
        return _mm512_cvtepi32_ps(code);
    case DECODE_OFFSET:
        return _mm512_cvtepi32_ps(_mm512_sub_epi32(code, _mm512_set1_epi32(1 << (bits - 1))));
    case DECODE_SIGNED:
        return _mm512_cvtepi32_ps(word_signed_byte(code, 0));
    default:
        return _mm512_i32gather_ps(code, values, 4);
    }
}

NIB_CPU_INLINE void decode_units(const nib_cpu_codes *codes, int64_t unit, int64_t units,
                                 float *out, const int bits, const decode_kind kind,
                                 const nib_cpu_rule rule, __m512 table)
{
    const int widest = bits & 8 ? 8 : bits & 4 ? 4 : bits & 2 ? 2 : 1;
    const int unit_k = 32 / widest;
    __m512 s = _mm512_loadu_ps(codes->scale), z = _mm512_loadu_ps(codes->zero);
    for (int64_t u = unit; u < unit + units; u++, out += unit_k * NIB_CPU_LANES) {
        __m512i words[NIB_MAX_PLANES];
        int p = 0;
        for (int width = widest; width; width /= 2) {
            if (!(bits & width))
                continue;
            words[p] = _mm512_loadu_si512(codes->plane[p] + nib_cpu_unit_bytes(u, unit_k, width));
            if (p)
                words[p] = _mm512_srl_epi32(
                    words[p], _mm_cvtsi32_si128(nib_cpu_unit_shift(u, unit_k, width)));
            p++;
        }
#pragma GCC unroll 32
        for (int k = 0; k < unit_k; k++) {
            __m512 c = value_of(code_at(words, bits, k), table, codes->values, bits, kind);
            _mm512_storeu_ps(out + k * NIB_CPU_LANES, apply(rule, c, s, z));
        }
    }
}

NIB_CPU_INLINE void decode(const nib_cpu_codes *codes, int64_t unit, int64_t units, float *out,
                           const int bits, const decode_kind kind)
{
    __m512 table = _mm512_setzero_ps();
    if (bits == 4) {
        table = _mm512_loadu_ps(codes->values);
    } else if (bits < 4) {
        float repeated[NIB_CPU_LANES];
        for (int i = 0; i < NIB_CPU_LANES; i++)
            repeated[i] = codes->values[i & ((1 << bits) - 1)];
        table = _mm512_loadu_ps(repeated);
    }
    switch (codes->rule) {
    case NIB_CPU_SCALE:
        decode_units(codes, unit, units, out, bits, kind, NIB_CPU_SCALE, table);
        break;
    case NIB_CPU_SHIFT:
        decode_units(codes, unit, units, out, bits, kind, NIB_CPU_SHIFT, table);
        break;
    case NIB_CPU_RESCALE:
        decode_units(codes, unit, units, out, bits, kind, NIB_CPU_RESCALE, table);
        break;
    default:
        decode_units(codes, unit, units, out, bits, kind, NIB_CPU_RAW, table);
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

nib_cpu_dequant_fn nib_cpu_avx512_dequant(nib_type type)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].type == type)
            return rows[i].dequant;
    return NULL;
}
