/* SPDX-License-Identifier: Apache-2.0
 *
 * What a description means to the kernels: see rules.h.
 */
#include "variants/rules.h"

#include <stddef.h>

int64_t nib_cuda_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

bool nib_cuda_is_integer(nib_type type)
{
    return (type >= NIB_U1 && type <= NIB_U8) || (type >= NIB_I1 && type <= NIB_I8);
}

bool nib_cuda_is_table(nib_type type)
{
    return type == NIB_NF4 || type == NIB_LUT4;
}

int nib_cuda_type_bits(nib_type type)
{
    if (nib_cuda_is_integer(type))
        return type - (type >= NIB_I1 ? NIB_I1 : NIB_U1) + 1;
    switch (type) {
    case NIB_TYPE_NONE:
        return 0;
    case NIB_F32:
    case NIB_I32:
        return 32;
    case NIB_F16:
    case NIB_BF16:
        return 16;
    case NIB_NF4:
    case NIB_E2M1:
    case NIB_LUT4:
        return 4;
    case NIB_E3M2:
    case NIB_E2M3:
        return 6;
    default:
        return 8;
    }
}

int nib_cuda_element_bytes(nib_type type)
{
    return (nib_cuda_type_bits(type) + 7) / 8;
}

int nib_cuda_group_class(const nib_weight_desc *weight)
{
    if (weight->group <= 0)
        return 0;
    for (int multiple = 128; multiple > 16; multiple /= 2)
        if (weight->group % multiple == 0)
            return multiple;
    return 16;
}

bool nib_cuda_multiplies_integers(const nib_gemm_desc *desc)
{
    return desc->act_type == NIB_I8 && nib_cuda_is_integer(desc->weight.type);
}

int nib_cuda_limbs(const nib_gemm_desc *desc)
{
    return !nib_cuda_is_table(desc->weight.type) ? 1 : desc->act_type == NIB_BF16 ? 3 : 2;
}

bool nib_cuda_gated(const nib_gemm_desc *desc)
{
    return desc->epilogue == NIB_EPILOGUE_SILU_GATED;
}

/* Rows of W of a block of the packed layout. */
enum { BLOCK_N = 64 };

int64_t nib_cuda_tiles(const nib_cuda_row *row, const nib_gemm_desc *desc, int64_t m)
{
    int64_t blocks_n = nib_cuda_ceil_div(desc->weight.n, BLOCK_N);
    return nib_cuda_ceil_div(blocks_n, row->tile_n / BLOCK_N) * nib_cuda_ceil_div(m, row->tile_m);
}

uint64_t nib_cuda_stream_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip,
                               const nib_gemm_desc *desc, int64_t m,
                               bool (*streams)(const nib_cuda_row *row, const nib_cuda_chip *chip,
                                               const nib_gemm_desc *desc, int64_t m))
{
    uint64_t blocks = (uint64_t)chip->units;
    uint64_t flags = (blocks * (uint64_t)(row->tile_n / BLOCK_N) + 1) / 2 * 16;
    uint64_t sums = blocks * (uint64_t)row->tile_n * (uint64_t)row->tile_m * sizeof(float);
    for (int64_t rows = row->tile_m; rows <= m; rows += row->tile_m) {
        if (streams(row, chip, desc, rows))
            return flags + sums;
        if (nib_cuda_tiles(row, desc, rows) >= NIB_CUDA_MOST_STREAM_WAVES * (int64_t)chip->units)
            break;
    }
    return 0;
}

const char *nib_cuda_sm80_refusal(const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    if (desc->act_type == NIB_F32)
        return "tensor cores take no f32 activations";
    if (w->flags & NIB_WEIGHT_G_IDX)
        return "it takes groups of neighbouring columns only, not g_idx";
    if (desc->act_scale == NIB_ACT_SCALE_MX)
        return "it takes one scale of activations a row or a tensor, not one for 32 columns";
    if (w->group > 0 && w->group % 16)
        return "groups must be multiples of 16 columns";
    /* Columns and groups are counted in 32 bits. */
    if (w->k > (int64_t)1 << 30)
        return "it counts columns in 32 bits: k may be at most 2^30";
    return NULL;
}

void nib_cuda_sm80_spec(const nib_gemm_desc *desc, nib_cuda_spec *text)
{
    const nib_weight_desc *w = &desc->weight;
    nib_cuda_spec_add(text, "NIB_SPEC_WEIGHT", w->type);
    nib_cuda_spec_add(text, "NIB_SPEC_ACT", desc->act_type);
    nib_cuda_spec_add(text, "NIB_SPEC_SCALE", w->scale_type);
    nib_cuda_spec_add(text, "NIB_SPEC_ZERO", w->zero);
    nib_cuda_spec_add(text, "NIB_SPEC_ZERO_TYPE", w->zero_type);
    nib_cuda_spec_add(text, "NIB_SPEC_GROUP", nib_cuda_group_class(w));
}
