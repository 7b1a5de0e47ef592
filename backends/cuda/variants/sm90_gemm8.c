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

enum { BLOCK_N = 64, LEAST_PART = 2, ALIGN_BYTES = 1024, GROUP_THREADS = 128 };

/* ---- sizes ---- */

/* Whether a kernel before expands all of W in the workspace: then every stage holds operands. */
static bool expands(const nib_cuda_row *row)
{
    return row->option != 0;
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

/* Besides the ring: sums on their way out. */
static int64_t fixed_bytes(const nib_cuda_row *row)
{
    int out = row->tile_n / BLOCK_N * (2 * (row->tile_m % 16 ? 8 : 16) + 1) * (BLOCK_N + 4) * 4;
    return out;
}

/* Of a stage, with its two barriers. */
static int64_t slot_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    return stage_bytes(row, desc) + 2 * 8;
}

/* The row's stages, or as many as fit: wider codes have fewer. */
static int32_t stages(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc)
{
    int64_t room = chip->shared_unit - ALIGN_BYTES;
    if (room > chip->shared_block)
        room = chip->shared_block;
    int64_t fit = (room - fixed_bytes(row)) / slot_bytes(row, desc);
    return fit < row->stages ? (int32_t)fit : row->stages;
}

static uint32_t shared_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip,
                             const nib_gemm_desc *desc)
{
    return (uint32_t)(stages(row, chip, desc) * slot_bytes(row, desc) + fixed_bytes(row));
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
    if (stages(row, chip, desc) < 3)
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
    nib_cuda_spec_add(text, "NIB_SPEC_EXPANDED", expands(row));
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

/* Clocks of a stage, fitted on an H200. Operands in registers: their arithmetic, products and
 * totals one after the other. Expanded: what the second-level cache delivers, 27 bytes a clock and
 * multiprocessor. */
static double stage_clocks(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int chunk = nib_cuda_group_class(w), consumers = row->tile_n / BLOCK_N;
    double units = chunk ? NIB_CUDA_STAGE_K / (double)chunk : 1;
    double products = 2.0 * row->tile_m * consumers;
    double added = (desc->act_type == NIB_I8 ? 2.9 : 2) * row->tile_m * units + 80 * (units - 1);
    if (expands(row))
        return fmax((double)stage_bytes(row, desc) / 27, products + added / 2);
    return (nib_cuda_type_bits(w->type) == 8 ? 650 : 555) + 1.2 * products + added;
}

/* Microseconds of the busiest block, of memory, and of what comes before and after. */
static double time_of(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const sharing *s, const char **bound)
{
    const nib_weight_desc *w = &desc->weight;
    double k_blocks = (double)nib_cuda_ceil_div(w->k, NIB_CUDA_STAGE_K);
    double tiles = (double)nib_cuda_tiles(row, desc, m), slots = (double)chip->units;
    double stage = stage_clocks(row, desc) / (chip->ghz * 1e3), rounds = ceil(tiles / slots);
    double rest = 3.2 + 0.004 * row->tile_m * fmax(rounds, 1);
    double runs = s->stream ? tiles / slots : rounds;
    if (s->stream)
        rest += 1.2 + 0.008 * row->tile_m;
    double bytes = (double)w->n * (double)w->k * nib_cuda_type_bits(w->type) / 8 +
                   (double)m * (double)w->k + 2 * (double)m * (double)w->n;
    double busy = fmin(1, (double)s->blocks / chip->units);
    double memory = bytes / (chip->read_gb_per_s * 1.2e3 * busy);
    double work = runs * k_blocks * stage;
    if (expands(row)) /* memory takes them at half the rate of reading */
        rest += 3 + (double)expanded_bytes(desc) / (chip->read_gb_per_s * 0.5e3);
    if (bound)
        *bound = memory > work ? "memory" : "math";
    return fmax(work, memory) + rest;
}

/* The faster way for m rows. The order of the sums must not depend on m if that is asked: then
 * tiles are whole. */
static sharing share(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                     int64_t m)
{
    int64_t tiles = nib_cuda_tiles(row, desc, m), slots = chip->units;
    int64_t k_blocks = nib_cuda_ceil_div(desc->weight.k, NIB_CUDA_STAGE_K);
    sharing whole = {false, tiles < slots ? tiles : slots, 0}, stream = {true, slots, 0};
    whole.us = time_of(row, chip, desc, m, &whole, NULL);
    if (expands(row) || desc->flags & NIB_GEMM_BATCH_INVARIANT ||
        tiles >= NIB_CUDA_MOST_STREAM_WAVES * slots || tiles % slots == 0 ||
        tiles * k_blocks < slots * LEAST_PART)
        return whole;
    stream.us = time_of(row, chip, desc, m, &stream, NULL);
    return stream.us < whole.us ? stream : whole;
}

static bool streams(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                    int64_t m)
{
    return share(row, chip, desc, m).stream;
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
    *out =
        (nib_cuda_shape){.grid = {(uint32_t)s.blocks, 1, 1},
                         .block = (uint32_t)row->variant.threads,
                         .shared_bytes = shared_bytes(row, chip, desc),
                         .split = s.stream ? 2 : 1,
                         .map_rows = row->tile_m,
                         .workspace_bytes = nib_cuda_stream_bytes(row, chip, desc, rows, streams)};
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

/* Rows of act and W, stages; whether all of W is expanded before. The same number of
 * batch_invariant: with whole tiles the order of a sum is that of k in all. */
#define ROW_OF(kind, what, m, n, s, all)                                                    \
    {                                                                                       \
        .variant = {.size = sizeof(nib_variant),                                            \
                    .id = what "-sm90-m" #m "n" #n "s" #s,                                  \
                    .isa = "sm_90a",                                                        \
                    .source = "kernels/sm90/gemm8.cu",                                      \
                    .m_min = 1,                                                             \
                    .m_tile = m,                                                            \
                    .n_tile = n,                                                            \
                    .k_tile = NIB_CUDA_STAGE_K,                                             \
                    .stages = s,                                                            \
                    .threads = 2 * n + GROUP_THREADS,                                       \
                    .decode_per_ns = 50,                                                    \
                    .decode_m = m,                                                          \
                    .efficiency = 0.5,                                                      \
                    .math_type = NIB_I8,                                                    \
                    .batch_invariant = 98},                                                 \
        .family = &kind, .cc_min = 90, .cc_max = 90, .tile_n = n, .tile_m = m, .stages = s, \
        .option = all                                                                       \
    }

#define ROW(m, n, s)       ROW_OF(family, "gemm8", m, n, s, 0)
#define EXPANDING(m, n, s) ROW_OF(expanding, "gemm8x", m, n, s, 1)

const nib_cuda_row nib_cuda_sm90_gemm8_rows[] = {
    ROW(16, 128, 12),          ROW(32, 128, 12),       ROW(48, 128, 10),
    ROW(64, 128, 10),          ROW(96, 128, 8),        ROW(128, 128, 8),
    EXPANDING(128, 128, 6),    EXPANDING(144, 128, 5), EXPANDING(176, 128, 5),
    {.variant = {.id = NULL}},
};
