/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm family of Hopper: kernels/sm90/gemm.cu, for any number of rows of act of 16 bits. A row
 * is a tile and the depth of its ring. The sizes are those of kernels/sm90/load.cuh and output.cuh.
 * How K is shared among blocks is what the model below finds fastest; kernels/sm90/work.cuh says
 * how. host/ asks through variants.h.
 */
#include <nibblas/backend.h>

#include "variants/rules.h"
#include "variants/variants.h"

#include <math.h>
#include <stddef.h>

/* Tokens of a product at most; threads of a warpgroup; largest cluster; k blocks of a part. */
enum { BLOCK_N = 64, MOST_UNIT_M = 64, GROUP_THREADS = 128, MOST_CLUSTER = 4, LEAST_PART = 2 };
enum { BARRIER_BYTES = 4 * 8 }; /* of a stage */

/* ---- sizes ---- */

/* A row's option: how it multiplies by scales. Exactly, in f32, what a group's products sum up to
 * (kernels/sm90/mainloop.cuh), or weights, which are rounded (rolling.cuh). */
enum { EXACT, ROUNDING };

static bool rounds(const nib_cuda_row *row)
{
    return row->option == ROUNDING;
}

static int32_t unit_m(const nib_cuda_row *row)
{
    return row->tile_m > MOST_UNIT_M && !rounds(row) ? row->tile_m / 2 : row->tile_m;
}

/* Whether sums of activations are needed. */
static bool sums_act(const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    if (w->zero == NIB_ZERO_FLOAT || w->zero == NIB_ZERO_RESCALE)
        return true;
    if (desc->act_type != NIB_BF16)
        return false;
    /* An addend of bf16 counts to 255: 128, the offset and the zero. */
    bool wide = w->type == NIB_U8 || w->type == NIB_I8 || w->type == NIB_I7;
    return w->type == NIB_U8 || (w->zero == NIB_ZERO_CODE && wide);
}

static uint32_t stage_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int chunk = nib_cuda_group_class(w), blocks = row->tile_n / BLOCK_N;
    int chunks = chunk ? NIB_CUDA_STAGE_K / chunk : 1;
    int zero_bytes = w->zero == NIB_ZERO_CODE   ? 1
                     : w->zero == NIB_ZERO_NONE ? 0
                                                : nib_cuda_element_bytes(w->zero_type);
    int act = row->tile_m * NIB_CUDA_STAGE_K * nib_cuda_element_bytes(desc->act_type);
    int codes = row->tile_n * NIB_CUDA_STAGE_K / 8 * nib_cuda_type_bits(w->type);
    int groups = blocks * chunks * BLOCK_N * (nib_cuda_element_bytes(w->scale_type) + zero_bytes);
    int sums = sums_act(desc) ? chunks * row->tile_m * 4 : 0;
    return (uint32_t)(act + codes + groups + sums);
}

/* Besides the ring: sums and bias on their way out, a table of each lane, barriers of each stage.
 */
static uint32_t fixed_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    int table =
        nib_cuda_is_table(desc->weight.type) ? 16 * 32 * (nib_cuda_limbs(desc) == 3 ? 8 : 4) : 0;
    int tokens = row->tile_m % 16 ? 8 : 16, halves = row->tile_m < 256 ? 2 : 1;
    int out = row->tile_n / BLOCK_N * (halves * tokens + 1) * (BLOCK_N + 4) * 4;
    return (uint32_t)(out + table);
}

/* The row's stages, or as many as fit: wider codes have fewer. */
static int32_t stages(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc)
{
    int64_t room = chip->shared_block - (int64_t)fixed_bytes(row, desc);
    int64_t fit = room / (stage_bytes(row, desc) + BARRIER_BYTES);
    return fit < row->stages ? (int32_t)fit : row->stages;
}

static uint32_t shared_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip,
                             const nib_gemm_desc *desc)
{
    return (uint32_t)stages(row, chip, desc) * (stage_bytes(row, desc) + BARRIER_BYTES) +
           fixed_bytes(row, desc);
}

/* Sets of sums of a consumer beside the totals, as kernels/sm90/mainloop.cuh has them. */
static int32_t sets(const nib_cuda_row *row)
{
    return rounds(row) ? 0 : row->tile_n / BLOCK_N >= 4 ? 1 : 2;
}

/* Registers of a consumer's thread, as kernels/sm90/gemm.cu shares them out. */
static int32_t consumer_registers(const nib_cuda_row *row, const nib_cuda_chip *chip)
{
    int threads = row->variant.threads, begin = chip->registers_unit / threads;
    begin = begin / 8 * 8;
    int loaders = (begin < 128 ? 32 : 40) * GROUP_THREADS;
    int most = (begin * threads - loaders) / (threads - GROUP_THREADS) / 8 * 8;
    return most < 240 ? most : 240;
}

/* Whether codes, operands and sums leave a thread enough for the rest. */
static bool fits_registers(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    enum { REST = 24, STEPS = 8 };
    int limbs = nib_cuda_limbs(desc), chunk = nib_cuda_group_class(&desc->weight);
    bool alternates = sets(row) == 2 && (chunk == 0 || chunk == NIB_CUDA_STAGE_K);
    int steps = !alternates ? STEPS : limbs > 1 ? STEPS + 2 : 2 * STEPS;
    int sums = row->tile_m / 2 + unit_m(row) / 2 * sets(row);
    int codes = 2 * nib_cuda_type_bits(desc->weight.type);
    return limbs * 4 * steps + sums + codes + REST <= consumer_registers(row, chip);
}

/* Whether a scale is a number of the activations' type. */
static bool scale_fits_act(const nib_gemm_desc *desc)
{
    nib_type scale = desc->weight.scale_type;
    if (scale == NIB_E8M0)
        return desc->act_type == NIB_BF16;
    return scale == desc->act_type || scale == NIB_TYPE_NONE || scale == NIB_E4M3 ||
           scale == NIB_E5M2;
}

/* Why weights may not be rounded, or are not rounded once only. */
static const char *rounding_refusal(const nib_gemm_desc *desc)
{
    if (desc->flags & NIB_GEMM_EXACT_WEIGHTS)
        return "it rounds weights to the type of the activations";
    if (nib_cuda_is_table(desc->weight.type))
        return "it rounds weights once, but entries of tables twice";
    if (!scale_fits_act(desc))
        return "it rounds weights once: scales must be numbers of the activations' type";
    if (sums_act(desc))
        return "it rounds weights once: zeros must be codes that operands can hold";
    return NULL;
}

/* ---- rules ---- */

static const char *refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    const char *why = nib_cuda_sm80_refusal(desc);
    if (why)
        return why;
    if (desc->act_type != NIB_F16 && desc->act_type != NIB_BF16)
        return "it multiplies f16 and bf16 activations only";
    if (nib_cuda_gated(desc) && w->n % (2 * BLOCK_N))
        return "its tiles hold both rows of a gated pair if N is a multiple of 128 only";
    why = rounds(row) ? rounding_refusal(desc) : NULL;
    if (why)
        return why;
    if (!fits_registers(row, chip, desc))
        return "its tile leaves too few registers for this weight type";
    if (stages(row, chip, desc) < 3)
        return "its stages do not fit the chip's shared memory";
    return NULL;
}

static void spec(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *text)
{
    nib_cuda_sm80_spec(desc, text);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_N", row->tile_n);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_M", row->tile_m);
    nib_cuda_spec_add(text, "NIB_SPEC_UNIT_M", unit_m(row));
    nib_cuda_spec_add(text, "NIB_SPEC_STAGES", stages(row, chip, desc));
    nib_cuda_spec_add(text, "NIB_SPEC_GATED", nib_cuda_gated(desc));
    nib_cuda_spec_add(text, "NIB_SPEC_ROUND", rounds(row));
}

/* ---- how K is shared ---- */

enum { WHOLE_TILES, CLUSTER, STREAM };

typedef struct sharing {
    int kind, cluster; /* cluster: blocks of one, else 1 */
    int64_t blocks;
    double us;
} sharing;

/* Clocks of a stage of int4 x f16 with groups of 128. Those of tiles of 128 rows of W, and the
 * microseconds below, are fitted to 334 launches on an H200, all rows in all ways to share K: 5 %
 * off (root mean square), and the fastest predicted takes 0.6 % longer than the fastest. Loops of
 * exact rows and the way out have become shorter since; all rows alike are not measured again.
 * Tiles of 256 rows are not measured yet: twice the clocks of 128 and a tenth more, so that none is
 * chosen. */
static double measured_clocks(const nib_cuda_row *row)
{
    static const struct {
        int tile_m, option;
        double clocks;
    } rows[] = {
        {16, EXACT, 804},    {32, EXACT, 857},      {48, EXACT, 927},
        {64, EXACT, 984},    {128, EXACT, 1624},    {48, ROUNDING, 927},
        {64, ROUNDING, 984}, {128, ROUNDING, 1401}, {256, ROUNDING, 2617},
    };
    double tiles = row->tile_n == 128 ? 1 : 1.1 * row->tile_n / 128;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].tile_m == row->tile_m && rows[i].option == row->option)
            return tiles * rows[i].clocks;
    return tiles * 10 * row->tile_m;
}

/* Issue slots that 16 rows x 16 columns of codes take on their way to an operand. */
static double decode_slots(const nib_gemm_desc *desc)
{
    static const double by_bits[9] = {0, 10, 9, 17, 9, 17, 17, 25, 9};
    const nib_weight_desc *w = &desc->weight;
    if (nib_cuda_is_table(w->type))
        return 60;
    if (!nib_cuda_is_integer(w->type))
        return 22;
    return by_bits[nib_cuda_type_bits(w->type)] + (desc->act_type == NIB_BF16 ? 3 : 0);
}

/* Clocks of a stage. What other types and groups add to the measured ones is counted, not
 * measured: their issue slots, products, and waits for the sums of groups. */
static double stage_clocks(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    int chunk = nib_cuda_group_class(&desc->weight), limbs = nib_cuda_limbs(desc);
    double consumers = row->tile_n / (double)BLOCK_N, steps = NIB_CUDA_STAGE_K / 16;
    double groups = chunk ? NIB_CUDA_STAGE_K / (double)chunk : 1, half = row->tile_m / 2.0;
    double sums = rounds(row) ? 20 * consumers : 120 + half * consumers / 2;
    double clocks = measured_clocks(row) + sums * (groups - 1);
    clocks += consumers * steps * (decode_slots(desc) - 9);
    clocks += consumers * steps * half * (limbs - 1);
    if (sums_act(desc))
        clocks += 100 + consumers * half * groups;
    return clocks;
}

/* Microseconds: of the busiest multiprocessor, of memory, and of what comes before and after. */
static double time_of(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const sharing *s, const char **bound)
{
    const nib_weight_desc *w = &desc->weight;
    double k_blocks = (double)nib_cuda_ceil_div(w->k, NIB_CUDA_STAGE_K);
    double parts = (double)(nib_cuda_tiles(row, desc, m) * s->cluster), units = chip->units;
    double stage = stage_clocks(row, desc) / (chip->ghz * 1e3);
    double rounds_of_tiles = ceil(parts / units), share = fmin(1, parts / units), work;
    /* A tile's way out. Of the launch that the host adds, 3 us, a dependent one takes 0.3: the
     * kernel before runs meanwhile. */
    double rest = rounds_of_tiles * 0.0483 * row->tile_m * row->tile_n / 128 - 2.7;
    if (s->kind == STREAM) {
        work = parts * k_blocks / units * stage;
        rest += 2.14 + 0.0385 * row->tile_m;
        share = 1;
    } else {
        work = rounds_of_tiles * ceil(k_blocks / s->cluster) * stage;
        rest += s->kind == CLUSTER ? 1.16 : 0;
    }
    double bytes = (double)w->n * (double)w->k * nib_cuda_type_bits(w->type) / 8 +
                   (double)m * (double)w->k * 2 + 2 * (double)m * (double)w->n;
    double memory = bytes / (chip->read_gb_per_s * 0.85e3 * share);
    if (bound)
        *bound = memory > work ? "memory" : "math";
    return fmax(work, memory) + rest;
}

/* The fastest way for m rows. The order of the sums must not depend on m if that is asked: then
 * tiles are whole. */
static sharing share(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                     int64_t m)
{
    int64_t tiles = nib_cuda_tiles(row, desc, m), slots = chip->units;
    int64_t k_blocks = nib_cuda_ceil_div(desc->weight.k, NIB_CUDA_STAGE_K);
    sharing best = {WHOLE_TILES, 1, tiles < slots ? tiles : slots, 0};
    best.us = time_of(row, chip, desc, m, &best, NULL);
    if (desc->flags & NIB_GEMM_BATCH_INVARIANT)
        return best;
    for (int cluster = 2; cluster <= MOST_CLUSTER && cluster * LEAST_PART <= k_blocks;
         cluster *= 2) {
        sharing other = {CLUSTER, cluster, tiles * cluster, 0};
        /* Clusters of four find room for 120 of 132 blocks at a time. */
        int64_t room = cluster > 2 ? slots * 10 / 11 : slots;
        if (tiles * cluster > room)
            break;
        other.us = time_of(row, chip, desc, m, &other, NULL);
        if (other.us < best.us)
            best = other;
    }
    /* Below half of a wave clusters are faster, and beyond some waves nothing is won. */
    if (2 * tiles > slots && tiles < NIB_CUDA_MOST_STREAM_WAVES * slots && tiles % slots) {
        sharing other = {STREAM, 1, slots, 0};
        other.us = time_of(row, chip, desc, m, &other, NULL);
        if (other.us < best.us)
            best = other;
    }
    return best;
}

static bool streams(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                    int64_t m)
{
    return share(row, chip, desc, m).kind == STREAM;
}

static void shape(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out)
{
    /* The same for every m of as many tiles. */
    int64_t whole = nib_cuda_ceil_div(m, row->tile_m) * row->tile_m;
    sharing s = share(row, chip, desc, whole);
    *out =
        (nib_cuda_shape){.grid = {(uint32_t)s.blocks, 1, 1},
                         .block = (uint32_t)row->variant.threads,
                         .shared_bytes = shared_bytes(row, chip, desc),
                         .split = s.kind == STREAM ? 2 : 1,
                         .cluster = s.cluster,
                         .map_rows = row->tile_m,
                         .workspace_bytes = nib_cuda_stream_bytes(row, chip, desc, whole, streams)};
}

static double predict(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    int64_t whole = nib_cuda_ceil_div(m, row->tile_m) * row->tile_m;
    sharing s = share(row, chip, desc, whole);
    return time_of(row, chip, desc, m, &s, bound);
}

static const nib_cuda_family family = {
    .name = "gemm",
    .source = "kernels/sm90/gemm.cu",
    .entry = "nib_gemm",
    .waits = true,
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

/* ---- the table ---- */

/* Rows of act and W, stages, and the option, whose letter ends the name. The same number of
 * batch_invariant: with whole tiles the order of a sum is that of k in all, but rounded sums have
 * no groups. */
#define ROW(m, n, s, letter, kind)                                                            \
    {                                                                                         \
        .variant = {.size = sizeof(nib_variant),                                              \
                    .id = "gemm-sm90-m" #m "n" #n "s" #s #letter,                             \
                    .isa = "sm_90a",                                                          \
                    .source = "kernels/sm90/gemm.cu",                                         \
                    .m_min = 1,                                                               \
                    .m_tile = m,                                                              \
                    .n_tile = n,                                                              \
                    .k_tile = NIB_CUDA_STAGE_K,                                               \
                    .stages = s,                                                              \
                    .threads = GROUP_THREADS * (n / BLOCK_N + 1),                             \
                    .decode_per_ns = 50,                                                      \
                    .decode_m = m,                                                            \
                    .efficiency = 0.8,                                                        \
                    .math_type = NIB_F16,                                                     \
                    .batch_invariant = (kind) == ROUNDING ? 91 : 90},                         \
        .family = &family, .cc_min = 90, .cc_max = 90, .tile_n = n, .tile_m = m, .stages = s, \
        .option = kind                                                                        \
    }

const nib_cuda_row nib_cuda_sm90_gemm_rows[] = {
    ROW(16, 128, 12, a, EXACT),    ROW(32, 128, 10, a, EXACT),   ROW(48, 128, 8, a, EXACT),
    ROW(64, 128, 8, a, EXACT),     ROW(128, 128, 4, a, EXACT),   ROW(128, 128, 5, r, ROUNDING),
    ROW(256, 128, 3, r, ROUNDING), ROW(16, 256, 9, a, EXACT),    ROW(32, 256, 7, a, EXACT),
    ROW(48, 256, 6, r, ROUNDING),  ROW(64, 256, 5, r, ROUNDING), {.variant = {.id = NULL}},
};
