/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode family: kernels/sm80/decode.cu, for up to 16 rows of act, on every chip from sm_80 on.
 * A row is how many units of 16 rows of W a warp takes and how many warps share K. The sizes of a
 * stage are those of kernels/sm80/decode.cuh. The split of K over the grid is the one that the
 * model below finds fastest; it never depends on m.
 */
#include <nibblas/backend.h>

#include "variants/rules.h"
#include "variants/variants.h"

#include <math.h>
#include <stddef.h>

enum { UNIT_N = 16, MOST_PARTS = 8 };

/* ---- what a description means here ---- */

static int side_bytes(const nib_weight_desc *w)
{
    return nib_cuda_element_bytes(w->scale_type) +
           (w->zero == NIB_ZERO_CODE ? 1 : nib_cuda_element_bytes(w->zero_type));
}

/* A row's units of 16 rows of W. */
static int units(const nib_cuda_row *row)
{
    return row->tile_n / UNIT_N;
}

/* ---- shared memory ---- */

static int warp_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int group = nib_cuda_group_class(w), groups = group ? NIB_CUDA_STAGE_K / group : 0;
    int codes = row->tile_n * NIB_CUDA_STAGE_K / 8 * nib_cuda_type_bits(w->type);
    int act = row->tile_m * (NIB_CUDA_STAGE_K * nib_cuda_element_bytes(desc->act_type) + 16);
    int ring = row->stages * (codes + act + groups * row->tile_n * side_bytes(w));
    int sums = row->tile_m * (row->tile_n + 4) * 4;
    return ((ring > sums ? ring : sums) + 127) / 128 * 128;
}

static uint32_t shared_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    int table =
        nib_cuda_is_table(desc->weight.type) ? 16 * 32 * (nib_cuda_limbs(desc) == 3 ? 8 : 4) : 0;
    return (uint32_t)(row->warps_k * warp_bytes(row, desc) + table);
}

/* ---- rules ---- */

static const char *refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    const char *why = nib_cuda_sm80_refusal(desc);
    if (why)
        return why;
    if (w->group > 0 && w->group % 32 && nib_cuda_multiplies_integers(desc))
        return "bytes are multiplied 32 columns at a time: groups must be multiples of that";
    if (desc->acc_type == NIB_I32 && w->group > 0 && w->group != nib_cuda_group_class(w))
        return "exact sums over groups of other than 32, 64 or 128 columns would be cut";
    if (shared_bytes(row, desc) > (uint32_t)chip->shared_block)
        return "its stages do not fit the chip's shared memory";
    return NULL;
}

static void spec(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *text)
{
    (void)chip;
    nib_cuda_sm80_spec(desc, text);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_M", row->tile_m);
    nib_cuda_spec_add(text, "NIB_SPEC_UNITS", units(row));
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS", row->warps_k);
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS_N", 1);
    nib_cuda_spec_add(text, "NIB_SPEC_STAGES", row->stages);
    nib_cuda_spec_add(text, "NIB_SPEC_RESIDENT", row->option);
}

/* ---- the model ---- */

typedef struct cost {
    double memory, decode, rest; /* us */
} cost;

/* Copies and products of a warp's few stages overlap for the most part. */
static double total(const cost *c)
{
    return fmax(c->memory, c->decode) + 0.17 * fmin(c->memory, c->decode) + c->rest;
}

/* Whether a warp's two halves of units can be rows n and n + N/2: they begin at a multiple of their
 * size and do not cross a block of 64 rows. */
static bool pairs(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    return row->tile_n > UNIT_N && desc->weight.n / 2 % (row->tile_n / 2) == 0;
}

static int64_t tiles(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    return nib_cuda_ceil_div(desc->weight.n, row->tile_n);
}

/* Issue slots of a scheduler that 16 rows x 16 columns of codes take on their way to an operand, by
 * the number of planes and the way of the type. */
static double decode_slots(const nib_gemm_desc *desc)
{
    static const double by_bits[9] = {0, 6.5, 5.6, 13, 5.6, 13, 13, 20, 5.6};
    const nib_weight_desc *w = &desc->weight;
    if (nib_cuda_is_table(w->type))
        return nib_cuda_limbs(desc) == 3 ? 56 : 41;
    if (w->type == NIB_E5M2 && desc->act_type != NIB_BF16)
        return 5.6;
    if (!nib_cuda_is_integer(w->type))
        return nib_cuda_type_bits(w->type) == 6 ? 24 : 18;
    return by_bits[nib_cuda_type_bits(w->type)] + (desc->act_type == NIB_BF16 ? 5.6 : 0);
}

/* Clocks of a scheduler for a product of 16 x 8 x 16. mma.sync reaches this part of the peak: the
 * data centre's newer chips have it for other instructions. */
static double product_clocks(const nib_cuda_chip *chip, const nib_gemm_desc *desc)
{
    double share = chip->cc >= 100 && chip->cc < 120 ? 0.3 : chip->cc == 90 ? 0.65 : 0.95;
    double peak = nib_cuda_multiplies_integers(desc) ? chip->i8_top_per_s : chip->f16_tflop_per_s;
    return 4 * 4096 * chip->units * chip->ghz / (peak * 1e3 * share);
}

/* Clocks of a scheduler that a warp's stage keeps busy: issue slots, or the products' pipe. The
 * constants are fitted to launches of int4 x f16 on an H200; of 103 of this table's rows 8 % off
 * (root mean square), 25 % at most. Other types and chips are scaled from them, not measured. */
static double stage_clocks(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    double steps = NIB_CUDA_STAGE_K / 16.0, columns = row->tile_m > 8 ? 2 : 1;
    double products = steps * columns * nib_cuda_limbs(desc);
    int group = nib_cuda_group_class(w);
    double groups = group ? (double)(NIB_CUDA_STAGE_K / group) : 0.2;
    double act = columns * (nib_cuda_element_bytes(desc->act_type) == 1 ? 140 : 110);
    double unit = steps * decode_slots(desc) + 3 * products + groups * 27 * columns;
    return fmax(act + units(row) * unit, units(row) * products * product_clocks(chip, desc));
}

/* A dependent launch, as fitted to launches on an H200: weights are on their way when the kernel
 * before it ends. But its blocks then are where that one left room: two on multiprocessors that
 * were idle, which take longer than all others. */
static void start_early(const nib_cuda_row *row, const nib_cuda_chip *chip, int64_t m,
                        int64_t blocks, int64_t held, cost *c)
{
    bool half = 2 * blocks <= chip->units; /* then launches are beside each other */
    if (half || 10 * blocks >= 9 * chip->units)
        c->rest -= row->tile_m > 8 ? 1.4 : 0.9;
    c->memory *= 0.94;
    if (held * row->warps_k <= 8) /* too few warps to hide what more rows of act take */
        c->rest += 0.5 * (double)m;
    if (held < 2 || half || blocks > held * chip->units)
        return;
    c->decode *= blocks < chip->units ? 1.6 : 1.4;
    c->memory *= blocks < chip->units ? 1.6 : 1;
}

static cost model(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, int64_t split)
{
    const nib_weight_desc *w = &desc->weight;
    int group = nib_cuda_group_class(w);
    double side = group ? (double)side_bytes(w) / group : 0,
           k = (double)nib_cuda_ceil_div(w->k, split);
    double bytes = row->tile_n * k * (nib_cuda_type_bits(w->type) / 8.0 + side); /* a block's */
    int64_t by_shared = chip->shared_unit / ((int64_t)shared_bytes(row, desc) + 1024);
    int64_t held = by_shared < row->option ? by_shared : row->option;
    int64_t slots = (held < 1 ? 1 : held) * chip->units, blocks = tiles(row, desc) * split;
    int64_t waves = blocks / slots, left = blocks % slots;
    /* Blocks that the busiest multiprocessor runs. It reads at most twice its part of the peak, and
     * activations, which all blocks read again, from the cache: 40 bytes a clock. */
    double busiest = (double)nib_cuda_ceil_div(blocks, chip->units);
    double peak = chip->read_gb_per_s * 1e3;
    double memory = fmax((double)blocks, busiest * chip->units / 2.2) * bytes / peak;
    double act =
        busiest * (double)m * k * nib_cuda_element_bytes(desc->act_type) / (40e3 * chip->ghz);
    /* Stages of a warp, one after the other, and all warps of a multiprocessor on 4 schedulers: a
     * warp alone waits for its copies, each row of act and each product. */
    double stages =
        (double)nib_cuda_ceil_div(nib_cuda_ceil_div(w->k, NIB_CUDA_STAGE_K), split * row->warps_k);
    double clocks = stage_clocks(row, chip, desc), busy = clocks * row->warps_k / 4;
    double alone = 295 + 37 * (double)m + 1.28 * clocks;
    double decode = (double)waves * fmax((double)held * busy, alone);
    if (left > 0)
        decode += fmax((double)nib_cuda_ceil_div(left, chip->units) * busy, alone);
    cost c = {.memory = memory,
              .decode = decode * stages / (chip->ghz * 1e3),
              .rest = 3 + (double)(nib_cuda_ceil_div(blocks, slots) - 1) + act};
    if (chip->cc == 90 && split == 1)
        start_early(row, chip, m, blocks, held, &c);
    /* Few launches measured had parts: the reduction's cost is set high, so that only what gains
     * clearly is split. */
    if (split > 1)
        c.rest += 2 + (double)m * (double)w->n * 8 * (double)split / (chip->read_gb_per_s * 0.9e3);
    return c;
}

/* Parts of K, by the time of a full tile. Pairs that cannot meet in a block meet in the
 * reduction. */
static int64_t parts(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc)
{
    int64_t least = nib_cuda_gated(desc) && !pairs(row, desc) ? 2 : 1, best = least;
    int64_t most = nib_cuda_ceil_div(desc->weight.k, 2 * NIB_CUDA_STAGE_K);
    double best_us = 0;
    if (desc->acc_type == NIB_I32 && desc->weight.group > 0)
        return least;
    if (most > MOST_PARTS)
        most = MOST_PARTS;
    for (int64_t split = least; split <= most || split == least; split++) {
        cost c = model(row, chip, desc, row->tile_m, split);
        double us = total(&c);
        if (split == least || us < best_us)
            best = split, best_us = us;
        /* More parts than multiprocessors only cost. */
        if (tiles(row, desc) * split >= chip->units)
            break;
    }
    return best;
}

static void shape(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out)
{
    int64_t split = parts(row, chip, desc);
    uint64_t sums = (uint64_t)split * (uint64_t)m * (uint64_t)desc->weight.n;
    *out = (nib_cuda_shape){.grid = {(uint32_t)tiles(row, desc), (uint32_t)split, 1},
                            .block = 32 * (uint32_t)row->warps_k,
                            .shared_bytes = shared_bytes(row, desc),
                            .split = (int32_t)split,
                            .workspace_bytes = split > 1 ? sums * sizeof(float) : 0};
}

static double predict(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    cost c = model(row, chip, desc, m, parts(row, chip, desc));
    if (bound)
        *bound = c.decode > c.memory ? "decode" : "memory";
    return total(&c);
}

static const nib_cuda_family family = {
    .name = "decode",
    .source = "kernels/sm80/decode.cu",
    .entry = "nib_decode",
    .reduce = "nib_reduce",
    .waits = true,
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

/* ---- the table ---- */

/* Rows of act at most, rows of W, warps, stages, blocks a multiprocessor. The bits of a row depend
 * on the split of K, so none of them is batch invariant beyond itself. */
#define ROW(m, n, w, s, held)                                                                      \
    {                                                                                              \
        .variant = {.size = sizeof(nib_variant),                                                   \
                    .id = "dec-sm80-m" #m "n" #n "w" #w "s" #s,                                    \
                    .isa = "sm_80",                                                                \
                    .source = "kernels/sm80/decode.cu",                                            \
                    .m_min = 1,                                                                    \
                    .m_max = m,                                                                    \
                    .m_tile = m,                                                                   \
                    .n_tile = n,                                                                   \
                    .k_tile = NIB_CUDA_STAGE_K,                                                    \
                    .stages = s,                                                                   \
                    .threads = 32 * w,                                                             \
                    .decode_per_ns = 50,                                                           \
                    .efficiency = 0.3,                                                             \
                    .math_type = NIB_F16},                                                         \
        .family = &family, .cc_min = 80, .portable = true, .tile_n = n, .tile_m = m, .warps_n = 1, \
        .warps_m = 1, .warps_k = w, .stages = s, .option = held                                    \
    }

const nib_cuda_row nib_cuda_sm80_decode_rows[] = {
    ROW(8, 16, 16, 2, 1), ROW(8, 32, 8, 2, 2),  ROW(8, 64, 16, 2, 1),  ROW(8, 64, 8, 2, 2),
    ROW(8, 128, 4, 2, 2), ROW(16, 32, 8, 2, 2), ROW(16, 64, 12, 2, 1), {.variant = {.id = NULL}},
};
