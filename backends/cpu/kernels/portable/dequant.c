/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes to f32 in plain C. One function decodes every type, by the table of its values: the planes'
 * fields are put together to a code and looked up. A weight type is one row of the table below.
 */
#include "kernels/common/shape.h"
#include "kernels/portable/portable.h"

static inline float apply(nib_cpu_rule rule, float c, float s, float z)
{
    switch (rule) {
    case NIB_CPU_SHIFT:
        return (c - z) * s;
    case NIB_CPU_RESCALE:
        return c * s - z;
    case NIB_CPU_SCALE:
        return c * s;
    default:
        return c;
    }
}

static inline void apply_all(nib_cpu_rule rule, const nib_cpu_codes *codes, int64_t k, float *out)
{
    for (int64_t i = 0; i < k; i++, out += NIB_CPU_LANES)
        for (int lane = 0; lane < NIB_CPU_LANES; lane++)
            out[lane] = apply(rule, out[lane], codes->scale[lane], codes->zero[lane]);
}

static inline uint32_t word_at(const unsigned char *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof(word));
    return word;
}

/* Values of one lane's codes of a unit. The widest plane holds the lowest bits of a code. */
static void decode_lane(const nib_cpu_codes *codes, const int *widths, int planes, int64_t unit,
                        int lane, float *out)
{
    int unit_k = 32 / widths[0];
    uint32_t words[NIB_MAX_PLANES];
    for (int p = 0; p < planes; p++)
        words[p] =
            word_at(codes->plane[p] + nib_cpu_unit_bytes(unit, unit_k, widths[p]) + 4 * lane) >>
            nib_cpu_unit_shift(unit, unit_k, widths[p]);
    for (int k = 0; k < unit_k; k++) {
        uint32_t code = 0;
        for (int p = 0, at = 0; p < planes; at += widths[p++])
            code |= (words[p] >> nib_cpu_field(k, widths[p]) & ((1u << widths[p]) - 1)) << at;
        out[k * NIB_CPU_LANES + lane] = codes->values[code];
    }
}

static void dequant(const nib_cpu_codes *codes, int64_t unit, int64_t units, float *out)
{
    int widths[NIB_MAX_PLANES], planes = 0;
    for (int width = 8; width; width /= 2)
        if (codes->bits & width)
            widths[planes++] = width;
    int64_t unit_k = 32 / widths[0];
    for (int64_t u = 0; u < units; u++)
        for (int lane = 0; lane < NIB_CPU_LANES; lane++)
            decode_lane(codes, widths, planes, unit + u, lane, out + u * unit_k * NIB_CPU_LANES);
    if (codes->rule == NIB_CPU_SCALE)
        apply_all(NIB_CPU_SCALE, codes, units * unit_k, out);
    else if (codes->rule == NIB_CPU_SHIFT)
        apply_all(NIB_CPU_SHIFT, codes, units * unit_k, out);
    else if (codes->rule == NIB_CPU_RESCALE)
        apply_all(NIB_CPU_RESCALE, codes, units * unit_k, out);
}

/* clang-format off */
static const nib_cpu_dequant_row rows[] = {
    {NIB_U1, dequant}, {NIB_U2, dequant}, {NIB_U3, dequant}, {NIB_U4, dequant},
    {NIB_U5, dequant}, {NIB_U6, dequant}, {NIB_U7, dequant}, {NIB_U8, dequant},
    {NIB_I1, dequant}, {NIB_I2, dequant}, {NIB_I3, dequant}, {NIB_I4, dequant},
    {NIB_I5, dequant}, {NIB_I6, dequant}, {NIB_I7, dequant}, {NIB_I8, dequant},
    {NIB_NF4, dequant}, {NIB_E2M1, dequant}, {NIB_E4M3, dequant}, {NIB_E5M2, dequant},
    {NIB_E3M2, dequant}, {NIB_E2M3, dequant}, {NIB_LUT4, dequant},
};
/* clang-format on */

nib_cpu_dequant_fn nib_cpu_portable_dequant(nib_type type)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].type == type)
            return rows[i].dequant;
    return NULL;
}
