/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm family of Hopper for activations of 8 bits: kernels/sm90/gemm8.cu, any number of rows of
 * act. A row is a tile, the depth of its ring, and where operands are made and kept. The sizes are
 * those of kernels/sm90/load8.cuh and output.cuh. K is shared among blocks as in sm90_gemm.c,
 * but for clusters. host/ asks through variants.h.
 */
#include <nibblas/backend.h>

#include "variants/rules.h"
#include "variants/variants.h"

#include <math.h>
#include <stddef.h>

enum { BLOCK_N = 64, LEAST_PART = 2, ALIGN_BYTES = 1024 };

/* ---- sizes ---- */

/* Blocks that share a multiprocessor. */
static int32_t resident(const nib_cuda_row *row)
{
    return row->option;
}

/* Stages whose operands are kept in shared memory; 0: consumers have them in registers. */
static int32_t buffers(const nib_cuda_row *row)
{
    return row->warps_k;
}

/* Whether a kernel before expands all of W in the workspace: then every stage holds operands. */
static bool expands(const nib_cuda_row *row)
{
    return row->warps_n != 0;
}

/* Warps that make them, or only copy. */
static int32_t makers(const nib_cuda_row *row)
{
    return row->warps_m;
}

static int64_t stage_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int chunk = nib_cuda_group_class(w), chunks = chunk ? NIB_CUDA_STAGE_K / chunk : 1;
    int bits = expands(row) ? 8 : nib_cuda_type_bits(w->type);
    int codes = row->tile_n * NIB_CUDA_STAGE_K / 8 * bits;
    int scales = row->tile_n * chunks * nib_cuda_element_bytes(w->scale_type);
    return row->tile_m * NIB_CUDA_STAGE_K + codes + scales;
}

/* Besides the ring: operands, and sums on their way out. */
static int64_t fixed_bytes(const nib_cuda_row *row)
{
    int out = row->tile_n / BLOCK_N * (2 * (row->tile_m % 16 ? 8 : 16) + 1) * (BLOCK_N + 4) * 4;
    return buffers(row) * row->tile_n * NIB_CUDA_STAGE_K + out;
}

/* The row's stages, or as many as fit: wider codes have fewer. */
static int32_t stages(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc)
{
    enum { BARRIERS = 3 * 8 }; /* bytes of a stage's barriers at most */
    int64_t room = chip->shared_unit / resident(row) - ALIGN_BYTES;
    if (room > chip->shared_block)
        room = chip->shared_block;
    int64_t fit = (room - fixed_bytes(row)) / (stage_bytes(row, desc) + BARRIERS);
    return fit < row->stages ? (int32_t)fit : row->stages;
}

static uint32_t shared_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip,
                             const nib_gemm_desc *desc)
{
    int32_t count = stages(row, chip, desc);
    return (uint32_t)(count * (stage_bytes(row, desc) + 2 * 8) + buffers(row) * 2 * 8 +
                      fixed_bytes(row));
}

/* ---- rules ---- */

/* Whether codes are numbers of one byte that tensor cores multiply with such activations. */
static bool has_bytes(const nib_gemm_desc *desc)
{
    nib_type type = desc->weight.type;
    if (type == NIB_U4 || type == NIB_I4)
        return true;
    if (desc->act_type == NIB_I8)
        return type == NIB_U8 || type == NIB_I8;
    return type == NIB_E2M1 || type == NIB_E4M3 || type == NIB_E5M2;
}

static const char *refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    const char *why = nib_cuda_sm80_refusal(desc);
    if (why)
        return why;
    if (nib_cuda_element_bytes(desc->act_type) != 1)
        return "it multiplies activations of 8 bits only";
    if (!has_bytes(desc))
        return "its operands are bytes: codes of 4 bits that are integers or e2m1, or of 8 that "
               "are "
               "of the kind of the activations";
    if (w->zero)
        return "it takes weights without zeros";
    if (desc->acc_type == NIB_I32)
        return "it brings sums to f32 every 128 columns, which acc_type i32 does not allow";
    if (nib_cuda_group_class(w) == 16)
        return "groups must be multiples of 32 columns";
    if (nib_cuda_gated(desc) && w->n % (2 * BLOCK_N))
        return "its tiles hold both rows of a gated pair if N is a multiple of 128 only";
    if (stages(row, chip, desc) < 3 || stages(row, chip, desc) <= buffers(row))
        return "its stages do not fit the chip's shared memory";
    return NULL;
}

static void spec(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *text)
{
    nib_cuda_sm80_spec(desc, text);
    nib_cuda_spec_add(text, "NIB_SPEC_BYTES", 1);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_N", row->tile_n);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_M", row->tile_m);
    nib_cuda_spec_add(text, "NIB_SPEC_STAGES", stages(row, chip, desc));
    nib_cuda_spec_add(text, "NIB_SPEC_BUFFERS", buffers(row));
    nib_cuda_spec_add(text, "NIB_SPEC_MAKERS", makers(row));
    nib_cuda_spec_add(text, "NIB_SPEC_EXPANDED", expands(row));
    nib_cuda_spec_add(text, "NIB_SPEC_RESIDENT", resident(row));
    nib_cuda_spec_add(text, "NIB_SPEC_GATED", nib_cuda_gated(desc));
    nib_cuda_spec_add(text, "NIB_SPEC_ROUND", 0); /* no weight is rounded */
}

/* All operands, by blocks of 64 rows of W and 128 columns. */
static int64_t expanded_bytes(const nib_gemm_desc *desc)
{
    return nib_cuda_ceil_div(desc->weight.n, BLOCK_N) *
           nib_cuda_ceil_div(desc->weight.k, NIB_CUDA_STAGE_K) * BLOCK_N * NIB_CUDA_STAGE_K;
}

/* ---- how K is shared ---- */

typedef struct sharing {
    bool stream; /* else whole tiles */
    int64_t blocks;
    double us;
} sharing;

static int64_t tiles_of(const nib_cuda_row *row, const nib_gemm_desc *desc, int64_t m)
{
    int64_t blocks_n = nib_cuda_ceil_div(desc->weight.n, BLOCK_N);
    return nib_cuda_ceil_div(blocks_n, row->tile_n / BLOCK_N) * nib_cuda_ceil_div(m, row->tile_m);
}

/* Clocks of a stage of a block that has its multiprocessor for itself, fitted on an H200: of those
 * who make operands and, where consumers do it, of their products and totals, which do not overlap
 * with that as they should. */
static double stage_clocks(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int chunk = nib_cuda_group_class(w), consumers = row->tile_n / BLOCK_N;
    double units = chunk ? NIB_CUDA_STAGE_K / (double)chunk : 1;
    double products = 2.0 * row->tile_m * consumers;
    double makes = nib_cuda_type_bits(w->type) == 8 ? 1.2 : 1;
    double added = units * (80 + 0.9 * row->tile_m);
    if (desc->act_type == NIB_I8) /* sums are converted as well */
        added *= 1.3;
    if (expands(row))
        return fmax(1.3 * products, products / consumers + 60 + added);
    if (buffers(row))
        return fmax(1.3 * products, fmax(1900 * makes, products / consumers + added));
    return 420 * makes + 1.6 * products + 2 * (added - 80);
}

/* Microseconds of the busiest block, of memory, and of what comes before and after. */
static double time_of(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const sharing *s, const char **bound)
{
    const nib_weight_desc *w = &desc->weight;
    double k_blocks = (double)nib_cuda_ceil_div(w->k, NIB_CUDA_STAGE_K);
    double tiles = (double)tiles_of(row, desc, m), slots = (double)(chip->units * resident(row));
    double stage = stage_clocks(row, desc) / (chip->ghz * 1e3), rounds = ceil(tiles / slots);
    double rest = 3.2 + 0.004 * row->tile_m * fmax(rounds, 1);
    double runs = s->stream ? tiles / slots : rounds;
    /* Blocks that share a multiprocessor share what it has. */
    stage *= 1 + (fmin((double)resident(row), ceil((double)s->blocks / chip->units)) - 1) * 0.7;
    if (s->stream)
        rest += 1.2 + 0.008 * row->tile_m;
    double bytes = (double)w->n * (double)w->k * nib_cuda_type_bits(w->type) / 8 +
                   (double)m * (double)w->k + 2 * (double)m * (double)w->n;
    double busy = fmin(1, (double)s->blocks / chip->units);
    double memory = bytes / (chip->read_gb_per_s * 1.2e3 * busy);
    /* Everything passes the second-level cache: 25 bytes a clock and multiprocessor. */
    double cache =
        tiles * k_blocks * (double)stage_bytes(row, desc) / (25e3 * chip->units * busy * chip->ghz);
    double work = runs * k_blocks * stage;
    if (expands(row)) /* as fast as memory takes the bytes, and read again */
        rest += 3 + (double)expanded_bytes(desc) / (chip->read_gb_per_s * 0.7e3);
    memory = fmax(memory, cache);
    if (bound)
        *bound = memory > work ? "memory" : "math";
    return fmax(work, memory) + rest;
}

/* The faster way for m rows. The order of the sums must not depend on m if that is asked: then
 * tiles are whole. */
static sharing share(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                     int64_t m)
{
    int64_t tiles = tiles_of(row, desc, m), slots = (int64_t)chip->units * resident(row);
    int64_t k_blocks = nib_cuda_ceil_div(desc->weight.k, NIB_CUDA_STAGE_K);
    sharing whole = {false, tiles < slots ? tiles : slots, 0}, stream = {true, slots, 0};
    whole.us = time_of(row, chip, desc, m, &whole, NULL);
    if (expands(row) || desc->flags & NIB_GEMM_BATCH_INVARIANT || tiles >= 8 * slots ||
        tiles % slots == 0 || tiles * k_blocks < slots * LEAST_PART)
        return whole;
    stream.us = time_of(row, chip, desc, m, &stream, NULL);
    return stream.us < whole.us ? stream : whole;
}

/* Sums of one tile of each block, behind flags of each of its consumers. */
static uint64_t stream_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip)
{
    uint64_t blocks = (uint64_t)chip->units * (uint64_t)resident(row);
    uint64_t flags = (blocks * (uint64_t)(row->tile_n / BLOCK_N) + 1) / 2 * 16;
    return flags + blocks * (uint64_t)row->tile_n * (uint64_t)row->tile_m * sizeof(float);
}

/* The workspace must not shrink as m grows. */
static bool streams_up_to(const nib_cuda_row *row, const nib_cuda_chip *chip,
                          const nib_gemm_desc *desc, int64_t m)
{
    int64_t slots = (int64_t)chip->units * resident(row);
    for (int64_t rows = row->tile_m;; rows += row->tile_m) {
        int64_t least = rows < m ? rows : m;
        if (share(row, chip, desc, least).stream)
            return true;
        if (least == m || tiles_of(row, desc, least) >= 8 * slots)
            return false;
    }
}

/* m up to a whole number of tiles: what is chosen is the same for all that have as many. */
static int64_t whole_rows(const nib_cuda_row *row, int64_t m)
{
    return nib_cuda_ceil_div(m, row->tile_m) * row->tile_m;
}

static void shape(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out)
{
    int64_t rows = whole_rows(row, m);
    sharing s = share(row, chip, desc, rows);
    bool streams = streams_up_to(row, chip, desc, rows);
    *out = (nib_cuda_shape){.grid = {(uint32_t)s.blocks, 1, 1},
                            .block = (uint32_t)row->variant.threads,
                            .shared_bytes = shared_bytes(row, chip, desc),
                            .split = s.stream ? 2 : 1,
                            .map_rows = row->tile_m,
                            .workspace_bytes = streams ? stream_bytes(row, chip) : 0};
    if (expands(row)) {
        out->before = (uint32_t)chip->units * 16; /* as many as the chip holds */
        out->workspace_bytes = (uint64_t)expanded_bytes(desc);
    }
}

static double predict(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    int64_t rows = whole_rows(row, m);
    sharing s = share(row, chip, desc, rows);
    return time_of(row, chip, desc, rows, &s, bound);
}

static const nib_cuda_family family = {
    .name = "gemm8",
    .source = "kernels/sm90/gemm8.cu",
    .entry = "nib_gemm",
    .waits = true,
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

static const nib_cuda_family expanding = {
    .name = "gemm8x",
    .source = "kernels/sm90/gemm8.cu",
    .entry = "nib_gemm",
    .before = "nib_expand",
    .waits = true,
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

/* ---- the table ---- */

/* Rows of act and W, stages, those whose operands are kept, making warps, whether all of W
 * is expanded before. The same number of batch_invariant: with whole tiles the order of a sum is
 * that of k in all. */
#define ROW_OF(kind, what, m, n, s, kept, makes, all)                                       \
    {                                                                                       \
        .variant = {.size = sizeof(nib_variant),                                            \
                    .id = what "-sm90-m" #m "n" #n "s" #s "k" #kept "w" #makes,             \
                    .isa = "sm_90a",                                                        \
                    .source = "kernels/sm90/gemm8.cu",                                      \
                    .m_min = 1,                                                             \
                    .m_tile = m,                                                            \
                    .n_tile = n,                                                            \
                    .k_tile = NIB_CUDA_STAGE_K,                                             \
                    .stages = s,                                                            \
                    .threads = 2 * n + 32 * makes,                                          \
                    .decode_per_ns = 50,                                                    \
                    .decode_m = m,                                                          \
                    .efficiency = 0.6,                                                      \
                    .math_type = NIB_I8,                                                    \
                    .batch_invariant = 98},                                                 \
        .family = &kind, .cc_min = 90, .cc_max = 90, .tile_n = n, .tile_m = m, .stages = s, \
        .warps_k = kept, .warps_m = makes, .warps_n = all, .option = 1                      \
    }

#define ROW(m, n, s, kept, makes) ROW_OF(family, "gemm8", m, n, s, kept, makes, 0)
#define EXPANDING(m, n, s)        ROW_OF(expanding, "gemm8x", m, n, s, 0, 4, 1)

const nib_cuda_row nib_cuda_sm90_gemm8_rows[] = {
    ROW(16, 128, 12, 0, 4),    ROW(32, 128, 12, 0, 4), ROW(48, 128, 10, 0, 4),
    ROW(64, 128, 10, 0, 4),    ROW(96, 128, 8, 0, 4),  ROW(128, 128, 8, 0, 4),
    ROW(128, 128, 6, 3, 8),    EXPANDING(128, 128, 6), EXPANDING(176, 128, 5),
    {.variant = {.id = NULL}},
};
