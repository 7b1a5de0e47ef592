/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX2 ISA (with FMA and F16C: Haswell and Zen, and all after them). Compiled for the baseline,
 * since it runs before the processor is known. Rates are estimates.
 */
#include "kernels/avx2/avx2.h"

#include <cpuid.h>
#include <stdbool.h>

static const char *present(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    /* CPUID.1:ECX.F16C, which not every compiler's __builtin_cpu_supports knows. */
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : NULL;
}

#define ROW(name, file, code_bits, plan, rows_of_tile, decode, share, peak, class) \
    {                                                                              \
        .variant = {.size = sizeof(nib_variant),                                   \
                    .id = name,                                                    \
                    .isa = "avx2",                                                 \
                    .source = "kernels/avx2/" file,                                \
                    .m_min = 1,                                                    \
                    .m_tile = 1,                                                   \
                    .n_tile = NIB_CPU_LANES,                                       \
                    .k_tile = NIB_CPU_QUANT_K,                                     \
                    .decode_per_ns = decode,                                       \
                    .decode_m = rows_of_tile,                                      \
                    .efficiency = share,                                           \
                    .math_type = peak,                                             \
                    .batch_invariant = class},                                     \
        .schedule = plan, .isa = &nib_cpu_avx2, .bits = code_bits                  \
    }

/* clang-format off */
/*       id                   file         bits schedule      decode_m weights/ns share peak class */
static const nib_cpu_row rows[] = {
    ROW("any-avx2-panel",     "mainloop.c", 0, NIB_CPU_PANEL,  192,     4,    0.80, NIB_F32, 6),
    ROW("w1-avx2-direct",     "direct.c",   1, NIB_CPU_DIRECT,   4,    10,    0.50, NIB_F32, 7),
    ROW("w2-avx2-direct",     "direct.c",   2, NIB_CPU_DIRECT,   4,    10,    0.50, NIB_F32, 7),
    ROW("w4-avx2-direct",     "direct.c",   4, NIB_CPU_DIRECT,   4,    10,    0.50, NIB_F32, 7),
    ROW("w8-avx2-direct",     "direct.c",   8, NIB_CPU_DIRECT,   4,    10,    0.50, NIB_F32, 7),
    ROW("w1-avx2-dot",        "dot.c",      1, NIB_CPU_DOT,      4,    50,    0.50, NIB_I8,  8),
    ROW("w2-avx2-dot",        "dot.c",      2, NIB_CPU_DOT,      4,    50,    0.50, NIB_I8,  8),
    ROW("w4-avx2-dot",        "dot.c",      4, NIB_CPU_DOT,      4,    50,    0.50, NIB_I8,  8),
    ROW("w8-avx2-dot",        "dot.c",      8, NIB_CPU_DOT,      4,    25,    0.30, NIB_I8,  8),
};
/* clang-format on */

const nib_cpu_isa nib_cpu_avx2 = {
    .name = "avx2",
    .present = present,
    .panel_rows = NIB_CPU_AVX2_ROWS,
    .panel_tiles = NIB_CPU_AVX2_TILES,
    .dequant = nib_cpu_avx2_dequant,
    .micro = nib_cpu_avx2_micro,
    .lanes = nib_cpu_avx2_lanes,
    .load = nib_cpu_avx2_load,
    .store = nib_cpu_avx2_store,
    .round = nib_cpu_avx2_round,
    .direct_tiles = NIB_CPU_AVX2_DIRECT_TILES,
    .direct_rows = NIB_CPU_AVX2_DIRECT_ROWS,
    .direct = nib_cpu_avx2_direct,
    .dot = nib_cpu_avx2_dot,
    .i8_per_f32 = 1.5,
    .f32_per_cycle = 32,
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
};
