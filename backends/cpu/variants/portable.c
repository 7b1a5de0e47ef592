/* SPDX-License-Identifier: Apache-2.0
 *
 * The portable ISA: one row that runs every f32 product, one that runs every i32 product. They
 * stand behind every other table. Rates are estimates.
 */
#include "kernels/portable/portable.h"

static const char *present(void)
{
    return "portable";
}

static const nib_cpu_row rows[] = {
    {.variant = {.size = sizeof(nib_variant),
                 .id = "any-portable-panel",
                 .isa = "portable",
                 .source = "kernels/portable/mainloop.c",
                 .m_min = 1,
                 .m_tile = NIB_CPU_PORTABLE_ROWS,
                 .n_tile = NIB_CPU_LANES,
                 .k_tile = NIB_CPU_BLOCK_K,
                 .decode_per_ns = 0.5,
                 .decode_m = 192,
                 .efficiency = 0.6,
                 .math_type = NIB_F32,
                 .batch_invariant = 1},
     .schedule = NIB_CPU_PANEL,
     .isa = &nib_cpu_portable},
    {.variant = {.size = sizeof(nib_variant),
                 .id = "int-portable-integer",
                 .isa = "portable",
                 .source = "kernels/common/integer.c",
                 .m_min = 1,
                 .m_tile = 1,
                 .n_tile = NIB_CPU_LANES,
                 .k_tile = NIB_CPU_BLOCK_K,
                 .decode_per_ns = 0.3,
                 .decode_m = 32,
                 .efficiency = 0.15,
                 .math_type = NIB_F32,
                 .batch_invariant = 2},
     .schedule = NIB_CPU_INTEGER,
     .isa = &nib_cpu_portable},
};

const nib_cpu_isa nib_cpu_portable = {
    .name = "portable",
    .present = present,
    .panel_rows = NIB_CPU_PORTABLE_ROWS,
    .panel_tiles = NIB_CPU_PORTABLE_TILES,
    .dequant = nib_cpu_portable_dequant,
    .micro = nib_cpu_portable_micro,
    .load = nib_cpu_portable_load,
    .store = nib_cpu_portable_store,
    .round = nib_cpu_portable_round,
    .i8_per_f32 = 1,
    .f32_per_cycle = 8,
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
};
