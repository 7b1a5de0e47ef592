/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm family: kernels/sm80/gemm.cu, for any number of rows of act, on every chip from sm_80
 * on. A row is a tile and how warps share it. The sizes of a stage are those of
 * kernels/sm80/load.cuh. The split of K is the one that the model below finds fastest; host/ asks
 * through variants.h.
 */
#include <nibblas/backend.h>

#include "variants/rules.h"
#include "variants/variants.h"

#include <math.h>
#include <stddef.h>

enum { BLOCK_N = 64, MOST_PARTS = 16 };

/* ---- what a description means here ---- */

/* Whether a tile holds both halves of gated pairs: whole blocks of each. Otherwise they meet in the
 * reduction, so K then has two parts at least. */
static bool gates_in_tile(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    /* Rows with equal bits must agree on the parts of K, whatever their tiles. */
    bool any_row = desc->flags & NIB_GEMM_BATCH_INVARIANT;
    return nib_cuda_gated(desc) && !any_row && row->tile_n >= 2 * BLOCK_N &&
           desc->weight.n % (2 * BLOCK_N) == 0;
}

static int64_t least_parts(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    return nib_cuda_gated(desc) && !gates_in_tile(row, desc) ? 2 : 1;
}

/* Whether the sums of activations are needed, by one more product a step. */
static bool sums_act(const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    if (w->zero == NIB_ZERO_FLOAT || w->zero == NIB_ZERO_RESCALE)
        return true;
    if (nib_cuda_multiplies_integers(desc))
        return w->zero == NIB_ZERO_CODE || (w->type >= NIB_I1 && w->type < NIB_I8);
    return desc->act_type == NIB_BF16 && w->type == NIB_U8;
}

static uint32_t stage_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int chunk = nib_cuda_group_class(w), blocks = row->tile_n / BLOCK_N;
    int chunks = chunk ? NIB_CUDA_STAGE_K / chunk : 1;
    int zero_bytes = w->zero == NIB_ZERO_CODE ? 1 : nib_cuda_element_bytes(w->zero_type);
    int act = row->tile_m * NIB_CUDA_STAGE_K * (nib_cuda_multiplies_integers(desc) ? 1 : 2);
    int codes = row->tile_n * NIB_CUDA_STAGE_K / 8 * nib_cuda_type_bits(w->type);
    int groups = blocks * chunks * BLOCK_N * (nib_cuda_element_bytes(w->scale_type) + zero_bytes);
    return (uint32_t)(act + codes + groups + 255) / 256 * 256;
}

static uint32_t shared_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    uint32_t table =
        nib_cuda_is_table(desc->weight.type) ? 16 * 32 * (nib_cuda_limbs(desc) == 3 ? 8 : 4) : 0;
    uint32_t ring = (uint32_t)row->stages * stage_bytes(row, desc) + table;
    uint32_t sums = (uint32_t)(row->tile_m * (row->tile_n + 4)) * 4;
    return ring > sums ? ring : sums;
}

static int32_t threads(const nib_cuda_row *row)
{
    return 32 * row->warps_n * row->warps_m * row->warps_k;
}

/* Blocks that are to share a multiprocessor, and so how many registers a thread may have: the row's
 * number counts for integers of one plane without sums of activations; the rest takes more. */
static int32_t held_blocks(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int bits = nib_cuda_type_bits(w->type);
    bool simple = nib_cuda_is_integer(w->type) && (bits & (bits - 1)) == 0 && !sums_act(desc) &&
                  (desc->act_type == NIB_F16 || desc->act_type == NIB_BF16);
    return simple || row->option == 1 ? row->option : row->option - 1;
}

/* Warps whose tile is 16 products have no registers left for sums of activations, operands of three
 * limbs, or activations on their way through registers. */
static bool fits_registers(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    int products = row->tile_n / 16 / row->warps_n * (row->tile_m / 8 / row->warps_m);
    bool copied = desc->act_type == NIB_F16 || desc->act_type == NIB_BF16;
    if (products < 16)
        return true;
    if (nib_cuda_multiplies_integers(desc))
        return row->tile_m * NIB_CUDA_STAGE_K / (32 * row->warps_n * row->warps_m * row->warps_k) <
               128;
    return copied && !sums_act(desc) && nib_cuda_limbs(desc) < 3;
}

/* ---- rules ---- */

static const char *refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    const char *why = nib_cuda_sm80_refusal(desc);
    if (why)
        return why;
    if (desc->acc_type == NIB_I32 && w->group > 0 && row->warps_k > 1)
        return "exact sums over groups cannot be shared by warps";
    if (!fits_registers(row, desc))
        return "its warps' tiles leave too few registers for these types";
    if (shared_bytes(row, desc) > (uint32_t)chip->shared_block)
        return "its stages do not fit the chip's shared memory";
    return NULL;
}

static void spec(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *text)
{
    (void)chip;
    nib_cuda_sm80_spec(desc, text);
    nib_cuda_spec_add(text, "NIB_SPEC_ACC", desc->acc_type);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_N", row->tile_n);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_M", row->tile_m);
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS_N", row->warps_n);
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS_M", row->warps_m);
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS_K", row->warps_k);
    nib_cuda_spec_add(text, "NIB_SPEC_STAGES", row->stages);
    nib_cuda_spec_add(text, "NIB_SPEC_RESIDENT", held_blocks(row, desc));
    nib_cuda_spec_add(text, "NIB_SPEC_GATED", gates_in_tile(row, desc));
}

/* ---- the model ---- */

/* us; a launch is bound by the slower of memory and the multiprocessors' work. */
typedef struct cost {
    double memory, work, rest;
    double math_share; /* of work; the rest makes operands */
} cost;

static double total(const cost *c)
{
    return fmax(c->memory, c->work) + c->rest;
}

/* Blocks that a multiprocessor holds. */
static int64_t resident(const nib_cuda_row *row, const nib_cuda_chip *chip,
                        const nib_gemm_desc *desc)
{
    int64_t by_shared = chip->shared_unit / ((int64_t)shared_bytes(row, desc) + 1024);
    int64_t by_row = held_blocks(row, desc);
    return by_shared < 1 ? 1 : by_shared < by_row ? by_shared : by_row;
}

/* Issue slots that 16 rows x 16 columns of codes take on their way to an operand, by the number of
 * planes and the way of the type. */
static double decode_slots(const nib_gemm_desc *desc)
{
    static const double by_bits[9] = {0, 10, 9, 17, 9, 17, 17, 25, 9};
    const nib_weight_desc *w = &desc->weight;
    if (nib_cuda_is_table(w->type))
        return 60;
    if (w->type == NIB_E4M3 || w->type == NIB_E5M2)
        return 22;
    if (!nib_cuda_is_integer(w->type))
        return 20;
    return by_bits[nib_cuda_type_bits(w->type)] + (desc->act_type == NIB_BF16 ? 3 : 0);
}

/* Clocks of a stage: of a multiprocessor that always has warps to issue, and of a block alone,
 * whose warps wait for each product and at each barrier. */
typedef struct stage_clocks {
    double math, other, alone;
} stage_clocks;

/* The constants are fitted to launches of int4 x f16 on an H200; of 279 of this table's rows 4 %
 * off (root mean square), 19 % at most. Other types and chips are scaled from them, not measured.
 */
static stage_clocks clocks_of_stage(const nib_cuda_row *row, const nib_cuda_chip *chip,
                                    const nib_gemm_desc *desc, int64_t m)
{
    double steps = NIB_CUDA_STAGE_K / 16.0, units = row->tile_n / 16.0, tiles = row->tile_m / 8.0;
    bool integers = nib_cuda_multiplies_integers(desc);
    double peak = integers ? chip->i8_top_per_s : chip->f16_tflop_per_s;
    /* The part of the peak that mma.sync reaches: the data centre's newer chips have it for other
     * instructions. A product is 16 x 8 x 16. */
    double share = chip->cc >= 100 && chip->cc < 120 ? 0.3 : chip->cc == 90 ? 0.65 : 0.95;
    double product = 4096 * chip->units * chip->ghz / (peak * 1e3 * share);
    double products = steps * units * tiles * nib_cuda_limbs(desc);
    double sums = sums_act(desc) ? steps * tiles * row->warps_n : 0;
    double slots = 1.15 * steps * units * decode_slots(desc) * row->warps_m;
    /* Activations' way to their operands, and the sums of groups: each slice of K has its own. */
    int chunk = nib_cuda_group_class(&desc->weight);
    double groups = chunk ? fmax(row->warps_k, NIB_CUDA_STAGE_K / chunk) : 0.3 * row->warps_k;
    double other = 0.6 * steps * tiles * row->warps_n + 2.3 * units * tiles * groups;
    /* Copies of the codes and of rows of act that exist; the shorter the ring, the longer they are
     * waited for. */
    double rows = (double)(m < row->tile_m ? m : row->tile_m);
    double copied = rows * nib_cuda_element_bytes(desc->act_type) +
                    row->tile_n * nib_cuda_type_bits(desc->weight.type) / 8.0;
    double copies = 3.5 * NIB_CUDA_STAGE_K / 1024 * copied + 70.0 / row->stages;
    /* A warp's product takes 4 clocks more than its quarter of the pipe. Its operands are made
     * behind the products of the step before, if those last. */
    int warps = row->warps_n * row->warps_m * row->warps_k;
    double chain = fmax((products + sums) * (4 * product + 4), slots);
    return (stage_clocks){.math = (products + sums) * product,
                          .other = slots / 4 + other + copies,
                          .alone = 260 + (chain + other) / warps};
}

/* Time with K in `split` parts: blocks are dealt out in waves; on a multiprocessor its resident
 * blocks share the products' pipe and the issue slots, and hide each other's latencies. */
static cost model(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, int64_t split)
{
    const nib_weight_desc *w = &desc->weight;
    int64_t tiles_n = nib_cuda_ceil_div(nib_cuda_ceil_div(w->n, BLOCK_N), row->tile_n / BLOCK_N);
    int64_t blocks = tiles_n * nib_cuda_ceil_div(m, row->tile_m) * split;
    double stages = (double)nib_cuda_ceil_div(nib_cuda_ceil_div(w->k, NIB_CUDA_STAGE_K), split);
    int64_t held = resident(row, chip, desc), slots = held * chip->units;
    int64_t waves = blocks / slots, left = blocks % slots;
    stage_clocks clocks = clocks_of_stage(row, chip, desc, m);
    double busy = clocks.math + clocks.other;
    double work = (double)waves * fmax((double)held * busy, clocks.alone);
    if (left > 0)
        work += fmax((double)nib_cuda_ceil_div(left, chip->units) * busy, clocks.alone);
    double mn = (double)m * (double)w->n;
    double bytes = (double)w->n * (double)w->k * nib_cuda_type_bits(w->type) / 8 +
                   (double)m * (double)w->k * nib_cuda_element_bytes(desc->act_type) + 2 * mn;
    /* Every block fetches its stages through the second-level cache: 25 bytes a clock and
     * multiprocessor. */
    double cache = (double)blocks * stages * stage_bytes(row, desc) /
                   (25e3 * (double)(blocks < chip->units ? blocks : chip->units) * chip->ghz);
    /* Memory is kept busy by what is in flight: codes of all stages but one. An H200 wants 31 KB a
     * multiprocessor, others as much a GB/s. */
    double beside = fmin((double)held, fmax(1, (double)blocks / chip->units));
    double flight = beside * (row->stages - 1) * row->tile_n * NIB_CUDA_STAGE_K *
                    nib_cuda_type_bits(w->type) / 8;
    double wanted = 31e3 * (chip->read_gb_per_s / chip->units) / (4800.0 / 132);
    cost c = {
        .memory = fmax(bytes / (chip->read_gb_per_s * 0.765e3 * fmin(1, flight / wanted)), cache),
        .work = work * stages / (chip->ghz * 1e3),
        /* The first stages' way into the ring and the last sums' way out. */
        .rest = 4.4 + 0.4 * (double)(nib_cuda_ceil_div(blocks, slots) - 1),
        .math_share = clocks.math / busy,
    };
    /* The reduction starts beside the last blocks from sm_90 on, and then costs little of its own;
     * its parts come from the cache. Set: the measured launches do not tell it from c.rest. */
    if (split > 1)
        c.rest +=
            (chip->cc >= 90 ? 0.2 : 1) + mn * 8 * (double)split / (chip->read_gb_per_s * 0.8e3);
    return c;
}

/* Sums of i32 over groups and bits that do not depend on m want as few parts as possible. */
static int64_t parts(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                     int64_t m)
{
    int64_t least = least_parts(row, desc), best = least;
    int64_t most = nib_cuda_ceil_div(desc->weight.k, 2 * NIB_CUDA_STAGE_K);
    if (desc->flags & NIB_GEMM_BATCH_INVARIANT)
        return least;
    if (desc->acc_type == NIB_I32 && desc->weight.group > 0)
        return least;
    if (most > MOST_PARTS)
        most = MOST_PARTS;
    double best_us = 0;
    for (int64_t split = least; split <= most || split == least; split++) {
        cost c = model(row, chip, desc, m, split);
        double us = total(&c);
        if (split == least || us < best_us)
            best = split, best_us = us;
    }
    return best;
}

/* The split for every m of as many tiles is the same. */
static int64_t parts_of_tiles(const nib_cuda_row *row, const nib_cuda_chip *chip,
                              const nib_gemm_desc *desc, int64_t tiles_m)
{
    int64_t tiles_n = nib_cuda_ceil_div(desc->weight.n, row->tile_n);
    /* From two full waves on parts only cost. */
    if (tiles_m >= 4 * (int64_t)chip->units || tiles_m * tiles_n >= 4 * (int64_t)chip->units)
        return least_parts(row, desc);
    return parts(row, chip, desc, tiles_m * row->tile_m);
}

/* The most that any smaller m takes: fewer tiles are split into more parts. */
static uint64_t workspace(const nib_cuda_row *row, const nib_cuda_chip *chip,
                          const nib_gemm_desc *desc, int64_t m)
{
    int64_t tiles_m = nib_cuda_ceil_div(m, row->tile_m),
            tiles_n = nib_cuda_ceil_div(desc->weight.n, row->tile_n);
    int64_t most = least_parts(row, desc) > 1 ? 2 * m : 0;
    for (int64_t t = 1; t <= tiles_m && t * tiles_n < 4 * (int64_t)chip->units; t++) {
        int64_t split = parts_of_tiles(row, chip, desc, t);
        int64_t rows = t < tiles_m ? t * row->tile_m : m;
        if (split > 1 && split * rows > most)
            most = split * rows;
    }
    return (uint64_t)most * (uint64_t)desc->weight.n * sizeof(float);
}

static void shape(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out)
{
    int64_t tiles_m = nib_cuda_ceil_div(m, row->tile_m),
            tiles_n = nib_cuda_ceil_div(desc->weight.n, row->tile_n);
    int64_t split = parts_of_tiles(row, chip, desc, tiles_m);
    *out = (nib_cuda_shape){.grid = {(uint32_t)(tiles_m * tiles_n), (uint32_t)split, 1},
                            .block = (uint32_t)threads(row),
                            .shared_bytes = shared_bytes(row, desc),
                            .split = (int32_t)split,
                            .workspace_bytes = workspace(row, chip, desc, m)};
}

static double predict(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    int64_t split = parts_of_tiles(row, chip, desc, nib_cuda_ceil_div(m, row->tile_m));
    cost c = model(row, chip, desc, m, split);
    if (bound)
        *bound = c.memory >= c.work ? "memory" : c.math_share >= 0.5 ? "math" : "decode";
    return total(&c);
}

static const nib_cuda_family family = {
    .name = "gemm",
    .source = "kernels/sm80/gemm.cu",
    .entry = "nib_gemm",
    .reduce = "nib_reduce",
    .waits = true,
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

/* ---- the table ---- */

/* Rows of act and W, stages, warps along n, m and k, blocks a multiprocessor. The same number of
 * batch_invariant: the order of the sum depends on the warps along k alone. */
#define ROW(m, n, s, wn, wm, wk, held)                                                \
    {                                                                                 \
        .variant = {.size = sizeof(nib_variant),                                      \
                    .id = "gemm-sm80-m" #m "n" #n "k128s" #s "w" #wn "x" #wm "x" #wk, \
                    .isa = "sm_80",                                                   \
                    .source = "kernels/sm80/gemm.cu",                                 \
                    .m_min = 1,                                                       \
                    .m_tile = m,                                                      \
                    .n_tile = n,                                                      \
                    .k_tile = NIB_CUDA_STAGE_K,                                       \
                    .stages = s,                                                      \
                    .threads = 32 * wn * wm * wk,                                     \
                    .decode_per_ns = 50,                                              \
                    .decode_m = m,                                                    \
                    .efficiency = 0.4,                                                \
                    .math_type = NIB_F16,                                             \
                    .batch_invariant = 80 + wk},                                      \
        .family = &family, .cc_min = 80, .portable = true, .tile_n = n, .tile_m = m,  \
        .warps_n = wn, .warps_m = wm, .warps_k = wk, .stages = s, .option = held      \
    }

const nib_cuda_row nib_cuda_sm80_gemm_rows[] = {
    ROW(16, 64, 6, 4, 1, 1, 2),   ROW(16, 128, 4, 4, 1, 1, 4),  ROW(16, 128, 4, 4, 1, 2, 2),
    ROW(32, 128, 6, 4, 1, 2, 1),  ROW(32, 128, 4, 4, 1, 1, 3),  ROW(32, 256, 4, 8, 1, 1, 2),
    ROW(64, 128, 4, 4, 1, 2, 1),  ROW(64, 128, 4, 4, 1, 1, 2),  ROW(64, 256, 4, 8, 1, 1, 1),
    ROW(128, 128, 4, 4, 2, 1, 1), ROW(128, 128, 2, 4, 2, 1, 1), {.variant = {.id = NULL}},
};
