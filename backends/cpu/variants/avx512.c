/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-512 ISA (F, BW, VL, DQ and VNNI: Ice Lake servers, Zen 4 and later). Compiled for the
 * baseline, since it runs before the processor is known. Rates of the panel and of 4-bit
 * direct and dot rows were fitted on one thread of a 2.8 GHz Ice Lake server; the others are
 * estimates.
 */
#include "kernels/avx512/avx512.h"

static const char *present(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma")
               ? "avx512-vnni"
               : NULL;
}

#define ROW(name, file, code_bits, plan, rows_of_tile, decode, share, peak, class) \
    {                                                                              \
        .variant = {.size = sizeof(nib_variant),                                   \
                    .id = name,                                                    \
                    .isa = "avx512-vnni",                                          \
                    .source = "kernels/avx512/" file,                              \
                    .m_min = 1,                                                    \
                    .m_tile = 1,                                                   \
                    .n_tile = NIB_CPU_LANES,                                       \
                    .k_tile = NIB_CPU_QUANT_K,                                     \
                    .decode_per_ns = decode,                                       \
                    .decode_m = rows_of_tile,                                      \
                    .efficiency = share,                                           \
                    .math_type = peak,                                             \
                    .batch_invariant = class},                                     \
        .schedule = plan, .isa = &nib_cpu_avx512, .bits = code_bits                \
    }

/* clang-format off */
/*       id                     file         bits schedule      decode_m weights/ns share peak class */
static const nib_cpu_row rows[] = {
    ROW("any-avx512-panel",     "mainloop.c", 0, NIB_CPU_PANEL,  192,     7,    0.70, NIB_F32, 3),
    ROW("w1-avx512-direct",     "direct.c",   1, NIB_CPU_DIRECT,   4,    54,    0.80, NIB_F32, 4),
    ROW("w2-avx512-direct",     "direct.c",   2, NIB_CPU_DIRECT,   4,    54,    0.80, NIB_F32, 4),
    ROW("w4-avx512-direct",     "direct.c",   4, NIB_CPU_DIRECT,   4,    54,    0.80, NIB_F32, 4),
    ROW("w8-avx512-direct",     "direct.c",   8, NIB_CPU_DIRECT,   4,    30,    0.50, NIB_F32, 4),
    ROW("w1-avx512-dot",        "dot.c",      1, NIB_CPU_DOT,      4,   130,    0.44, NIB_I8,  5),
    ROW("w2-avx512-dot",        "dot.c",      2, NIB_CPU_DOT,      4,   130,    0.44, NIB_I8,  5),
    ROW("w4-avx512-dot",        "dot.c",      4, NIB_CPU_DOT,      4,   130,    0.44, NIB_I8,  5),
    ROW("w8-avx512-dot",        "dot.c",      8, NIB_CPU_DOT,      4,    80,    0.44, NIB_I8,  5),
};
/* clang-format on */

const nib_cpu_isa nib_cpu_avx512 = {
    .name = "avx512",
    .present = present,
    .panel_rows = NIB_CPU_AVX512_ROWS,
    .panel_tiles = NIB_CPU_AVX512_TILES,
    .dequant = nib_cpu_avx512_dequant,
    .micro = nib_cpu_avx512_micro,
    .lanes = nib_cpu_avx512_lanes,
    .load = nib_cpu_avx512_load,
    .store = nib_cpu_avx512_store,
    .round = nib_cpu_avx512_round,
    .direct_tiles = NIB_CPU_AVX512_DIRECT_TILES,
    .direct_rows = NIB_CPU_AVX512_DIRECT_ROWS,
    .direct = nib_cpu_avx512_direct,
    .dot = nib_cpu_avx512_dot,
    .i8_per_f32 = 4,
    .f32_per_cycle = 64,
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
};
