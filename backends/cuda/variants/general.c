/* SPDX-License-Identifier: Apache-2.0
 *
 * The general family: kernels/general/gemm.cu, which runs every product on every chip. Its rows
 * stand behind all others. K is split where tiles alone would leave multiprocessors idle; with
 * NIB_GEMM_BATCH_INVARIANT never, and a row's bits then are the same in both rows of this table.
 */
#include <nibblas/backend.h>

#include "variants/rules.h"
#include "variants/variants.h"

#include <stddef.h>

enum { TILE_N = 64, TILE_K = 64, THREADS = 256 };
/* Least columns that a part of K has, and most parts: below and above, adding them up costs more.
 */
enum { PART_K = 256, MOST_PARTS = 32 };

/* Values of NIB_GROUPING in tile.cuh. */
enum { GROUPS_ONE = 0, GROUPS_BY_16 = 1, GROUPS_ANY = 2, GROUPS_INDEXED = 3 };

static const char *refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    (void)row, (void)chip, (void)desc;
    return NULL;
}

static int grouping(const nib_weight_desc *weight)
{
    if (weight->group <= 0)
        return GROUPS_ONE;
    if (weight->flags & NIB_WEIGHT_G_IDX)
        return GROUPS_INDEXED;
    return weight->group % 16 ? GROUPS_ANY : GROUPS_BY_16;
}

/* Sums of integers are exact up to the end of a group. Blocks of MX scales are too short to wrap,
 * so that products of f32 serve them as well. */
static bool sums_integers(const nib_gemm_desc *desc)
{
    return desc->acc_type == NIB_I32 && desc->act_scale != NIB_ACT_SCALE_MX;
}

static void spec(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *text)
{
    const nib_weight_desc *weight = &desc->weight;
    (void)chip;
    nib_cuda_spec_add(text, "NIB_WEIGHT", weight->type);
    nib_cuda_spec_add(text, "NIB_ACT", desc->act_type);
    nib_cuda_spec_add(text, "NIB_SCALE", weight->scale_type);
    nib_cuda_spec_add(text, "NIB_ZERO", weight->zero);
    nib_cuda_spec_add(text, "NIB_ZERO_TYPE", weight->zero_type);
    nib_cuda_spec_add(text, "NIB_GROUPING", grouping(weight));
    nib_cuda_spec_add(text, "NIB_INTEGER", sums_integers(desc));
    nib_cuda_spec_add(text, "NIB_TILE_M", row->tile_m);
    nib_cuda_spec_add(text, "NIB_GATED", nib_cuda_gated(desc));
}

static int64_t tiles_of_n(const nib_gemm_desc *desc)
{
    return nib_cuda_ceil_div(nib_cuda_gated(desc) ? desc->weight.n / 2 : desc->weight.n, TILE_N);
}

/* Parts of K that give each multiprocessor two blocks. */
static int64_t parts(const nib_cuda_chip *chip, const nib_gemm_desc *desc, int64_t tiles_m)
{
    int64_t tiles = tiles_of_n(desc), wanted = 2 * (int64_t)chip->units;
    int64_t most = desc->weight.k / PART_K;
    if (desc->flags & NIB_GEMM_BATCH_INVARIANT || sums_integers(desc) || tiles >= wanted ||
        tiles_m >= wanted)
        return 1;
    int64_t split = wanted / (tiles * tiles_m);
    if (split > most)
        split = most;
    if (split > MOST_PARTS)
        split = MOST_PARTS;
    return split > 1 ? split : 1;
}

/* The most that any smaller m takes, for fewer tiles are split into more parts. */
static uint64_t workspace(const nib_cuda_row *row, const nib_cuda_chip *chip,
                          const nib_gemm_desc *desc, int64_t m)
{
    int64_t tiles_m = nib_cuda_ceil_div(m, row->tile_m), most = 0;
    for (int64_t t = 1; t <= tiles_m; t++) {
        int64_t split = parts(chip, desc, t), rows = t < tiles_m ? t * row->tile_m : m;
        if (split == 1)
            break;
        if (split * rows > most)
            most = split * rows;
    }
    return (uint64_t)most * (uint64_t)desc->weight.n * sizeof(float);
}

static void shape(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out)
{
    int64_t tiles_m = nib_cuda_ceil_div(m, row->tile_m), split = parts(chip, desc, tiles_m);
    /* The kernel strides over its tiles, so that any grid will do: each block then has several. */
    int64_t most = (int64_t)chip->units * 64, tiles_n = tiles_of_n(desc) * split;
    int64_t blocks = tiles_m > most / tiles_n ? most : tiles_m * tiles_n;
    *out = (nib_cuda_shape){.grid = {(uint32_t)(blocks > 0 ? blocks : 1), 1, 1},
                            .block = THREADS,
                            .split = (int32_t)split,
                            .workspace_bytes = workspace(row, chip, desc, m)};
}

/* Decoding and products share the issue slots; memory is never what it waits for. */
static double predict(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    const nib_variant *v = &row->variant;
    int64_t tiles_m = nib_cuda_ceil_div(m, row->tile_m), split = parts(chip, desc, tiles_m);
    double k = (double)desc->weight.k, columns = (double)tiles_of_n(desc) * TILE_N;
    double codes = (nib_cuda_gated(desc) ? 2 : 1) * columns * k;
    double blocks = (double)tiles_m * (double)tiles_of_n(desc) * (double)split;
    double busy = blocks < chip->units ? blocks / chip->units : 1;
    double units = chip->units * busy;
    double decode = codes * (double)tiles_m / (v->decode_per_ns * units * 1e3);
    double math = 2 * codes * (double)(tiles_m * row->tile_m) /
                  (chip->f32_tflop_per_s * 1e6 * v->efficiency * busy);
    double partial = split > 1 ? (double)m * (double)desc->weight.n * (double)split * 8 /
                                         (chip->read_gb_per_s * 1e3) +
                                     2
                               : 0;
    if (sums_integers(desc))
        math *= 2; /* integer products issue at half the rate */
    if (desc->weight.flags & NIB_WEIGHT_G_IDX && sums_integers(desc))
        decode *= 4; /* one code at a time */
    if (bound)
        *bound = decode > math ? "decode" : "math";
    return decode + math + partial;
}

static const nib_cuda_family family = {
    .name = "general",
    .source = "kernels/general/gemm.cu",
    .entry = "nib_general",
    .reduce = "nib_general_reduce",
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

/* Rows of act, and the part of the peak that they reach: an estimate, as the rate of decoding is.
 */
#define ROW(m, part)                                                                      \
    {                                                                                     \
        .variant = {.size = sizeof(nib_variant),                                          \
                    .id = "any-general-m" #m,                                             \
                    .isa = "sm_80",                                                       \
                    .source = "kernels/general/gemm.cu",                                  \
                    .m_min = 1,                                                           \
                    .m_tile = m,                                                          \
                    .n_tile = TILE_N,                                                     \
                    .k_tile = TILE_K,                                                     \
                    .stages = 1,                                                          \
                    .threads = THREADS,                                                   \
                    .decode_per_ns = 4,                                                   \
                    .decode_m = m,                                                        \
                    .efficiency = part,                                                   \
                    .math_type = NIB_F32,                                                 \
                    .batch_invariant = 1},                                                \
        .family = &family, .cc_min = 80, .portable = true, .tile_n = TILE_N, .tile_m = m, \
        .warps_n = 1, .warps_m = 8, .warps_k = 1, .stages = 1                             \
    }

const nib_cuda_row nib_cuda_general_rows[] = {
    ROW(16, 0.25),
    ROW(64, 0.4),
    {.variant = {.id = NULL}},
};
