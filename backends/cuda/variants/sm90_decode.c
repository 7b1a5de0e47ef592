/* SPDX-License-Identifier: Apache-2.0
 *
 * Hopper's decode family: kernels/sm90/decode.cu, for up to 8 rows of act of 16 bits, on 9.0 only.
 * A row is how many rows of W and parts of K a block's warps take. The sizes of shared memory are
 * those of kernels/sm90/decode.cuh. K is split over the blocks of a cluster as the model below
 * finds fastest for the row's full tile; it never depends on m.
 */
#include <nibblas/backend.h>

#include "variants/rules.h"
#include "variants/variants.h"

#include <math.h>
#include <stddef.h>

enum { UNIT_N = 16, ALIGN_BYTES = 128 };

/* ---- what a description means here ---- */

static int side_bytes(const nib_weight_desc *w)
{
    return nib_cuda_element_bytes(w->scale_type) +
           (w->zero == NIB_ZERO_CODE ? 1 : nib_cuda_element_bytes(w->zero_type));
}

static int warps(const nib_cuda_row *row)
{
    return row->warps_n * row->warps_k;
}

static int warp_rows(const nib_cuda_row *row)
{
    return row->tile_n / row->warps_n;
}

/* What a row's option holds. */
#define OPTION(slots, held, cluster) ((slots) | (held) << 8 | (cluster) << 16)

static int slots(const nib_cuda_row *row)
{
    return row->option & 0xff;
}

/* Blocks that a multiprocessor holds, by their registers. Where tiles are fewer than
 * multiprocessors, two mean this launch's and the next one's, which then begins while this ends. */
static int resident(const nib_cuda_row *row)
{
    return row->option >> 8 & 0xff;
}

/* Blocks of a cluster. */
static int cluster(const nib_cuda_row *row)
{
    return row->option >> 16;
}

/* Whether halves of gated pairs are rows of two warps of a block; otherwise they meet in the
 * reduction, so the grid then splits K. */
static bool paired(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    return nib_cuda_gated(desc) && row->warps_n % 2 == 0 &&
           desc->weight.n % (2 * warp_rows(row)) == 0;
}

/* Stages of a warp's ring: the row says those of 4-bit codes; shorter codes get more, so that as
 * many bytes are on their way. */
static int stages(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    int count = row->stages * 4 / nib_cuda_type_bits(desc->weight.type);
    return count < 2 ? 2 : count > 2 * row->stages ? 2 * row->stages : count;
}

/* ---- shared memory ---- */

static int64_t round_up(int64_t bytes, int64_t to)
{
    return nib_cuda_ceil_div(bytes, to) * to;
}

static int64_t warp_bytes(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int group = nib_cuda_group_class(w), groups = group ? NIB_CUDA_STAGE_K / group : 0;
    int64_t codes = warp_rows(row) * NIB_CUDA_STAGE_K / 8 * nib_cuda_type_bits(w->type);
    int64_t stage = round_up(codes + groups * warp_rows(row) * side_bytes(w), ALIGN_BYTES);
    int64_t ring = stages(row, desc) * stage, sums = row->tile_m * (warp_rows(row) + 4) * 4;
    return round_up(ring > sums ? ring : sums, ALIGN_BYTES) +
           round_up(stages(row, desc) * 8, ALIGN_BYTES);
}

static int64_t shared_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip,
                            const nib_gemm_desc *desc)
{
    int64_t slot = row->tile_m * (NIB_CUDA_STAGE_K * 2 + 16) + 2 * 8; /* and its barriers */
    int64_t act = round_up(row->warps_k * round_up(slots(row) * slot, 16), ALIGN_BYTES);
    int64_t table =
        nib_cuda_is_table(desc->weight.type) ? 16 * 32 * (nib_cuda_limbs(desc) == 3 ? 8 : 4) : 0;
    /* each block's share of the sums, from all others */
    int64_t quads = nib_cuda_ceil_div(row->tile_m * row->tile_n / 4, cluster(row));
    int64_t received = quads * (cluster(row) - 1) * 16;
    int64_t bytes = act + warps(row) * warp_bytes(row, desc) + table + 16 + received;
    /* No more blocks than `resident` may share a multiprocessor: of three launches at a time one
     * would have two blocks on some, and take twice as long there. */
    int64_t least = chip->shared_unit / (resident(row) + 1) / ALIGN_BYTES * ALIGN_BYTES;
    return bytes > least ? bytes : least;
}

/* ---- rules ---- */

static const char *refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    const char *why = nib_cuda_sm80_refusal(desc);
    if (why)
        return why;
    if (nib_cuda_element_bytes(desc->act_type) != 2)
        return "it takes activations of 16 bits: others need another operand";
    if (desc->acc_type == NIB_I32)
        return "it sums in f32";
    if (shared_bytes(row, chip, desc) > chip->shared_block)
        return "its stages do not fit the chip's shared memory";
    return NULL;
}

static void spec(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *text)
{
    (void)chip;
    nib_cuda_sm80_spec(desc, text);
    nib_cuda_spec_add(text, "NIB_SPEC_TILE_M", row->tile_m);
    nib_cuda_spec_add(text, "NIB_SPEC_UNITS", warp_rows(row) / UNIT_N);
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS", warps(row));
    nib_cuda_spec_add(text, "NIB_SPEC_WARPS_N", row->warps_n);
    nib_cuda_spec_add(text, "NIB_SPEC_STAGES", stages(row, desc));
    nib_cuda_spec_add(text, "NIB_SPEC_ACT_SLOTS", slots(row));
    nib_cuda_spec_add(text, "NIB_SPEC_RESIDENT", resident(row));
    nib_cuda_spec_add(text, "NIB_SPEC_CLUSTER", cluster(row));
    nib_cuda_spec_add(text, "NIB_SPEC_PAIRED", paired(row, desc));
}

/* ---- the model ---- */

typedef struct cost {
    double memory, decode, rest; /* us */
} cost;

/* Copies and products overlap but for their ends. */
static double total(const cost *c)
{
    return fmax(c->memory, c->decode) + 0.05 * fmin(c->memory, c->decode) + c->rest;
}

static int64_t tiles(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    int64_t rows = paired(row, desc) ? desc->weight.n / 2 : desc->weight.n;
    return nib_cuda_ceil_div(rows, paired(row, desc) ? row->tile_n / 2 : row->tile_n);
}

/* Issue slots of a scheduler that 16 rows x 16 columns of codes take on their way to an operand. */
static double decode_slots(const nib_gemm_desc *desc)
{
    static const double by_bits[9] = {0, 10, 9.5, 17, 9.5, 17, 17, 24, 9.5};
    const nib_weight_desc *w = &desc->weight;
    if (nib_cuda_is_table(w->type))
        return nib_cuda_limbs(desc) == 3 ? 60 : 45;
    if (w->type == NIB_E5M2 && desc->act_type != NIB_BF16)
        return 9.5;
    if (!nib_cuda_is_integer(w->type))
        return nib_cuda_type_bits(w->type) == 6 ? 28 : 22;
    return by_bits[nib_cuda_type_bits(w->type)] + (desc->act_type == NIB_BF16 ? 2 : 0);
}

/* Issue slots of a warp's stage. This and the constants below are fitted to launches of int4 x f16
 * on an H200, in a graph of dependent ones; other types are scaled from them, not measured. */
static double stage_slots(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    double steps = NIB_CUDA_STAGE_K / 16.0, columns = ceil(row->tile_m / 8.0);
    int group = nib_cuda_group_class(w);
    double groups = group ? (double)(NIB_CUDA_STAGE_K / group) : 0.2;
    double unit =
        steps * (decode_slots(desc) + columns * nib_cuda_limbs(desc)) + groups * (4 + 5 * columns);
    return 110 + 8 * columns + warp_rows(row) / UNIT_N * unit;
}

/* Parts of the grid along K: two where gated pairs cannot meet in a block. */
static int64_t parts(const nib_cuda_row *row, const nib_gemm_desc *desc)
{
    return nib_cuda_gated(desc) && !paired(row, desc) ? 2 : 1;
}

static cost model(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m)
{
    const nib_weight_desc *w = &desc->weight;
    int64_t split = parts(row, desc), k_parts = split * cluster(row);
    int group = nib_cuda_group_class(w);
    double side = group ? (double)side_bytes(w) / group : 0;
    double k = (double)nib_cuda_ceil_div(w->k, k_parts);
    double weights = row->tile_n * k * (nib_cuda_type_bits(w->type) / 8.0 + side); /* a block's */
    double act = (double)m * k * 2;
    int64_t held = chip->shared_unit / (shared_bytes(row, chip, desc) + 1024);
    int64_t blocks = tiles(row, desc) * k_parts;
    /* Clusters of more than two do not fill the chip's parts where each takes a multiprocessor. */
    double units = cluster(row) > 2 && held < 2 ? 0.9 * chip->units : chip->units;
    double busiest = ceil((double)blocks / units), places = units * (double)(held < 1 ? 1 : held);
    /* From memory 0.9 of the peak at most; a multiprocessor reads 20 bytes a clock, all of them no
     * more than 25 each, act from the cache among them. */
    double memory = (double)blocks * weights / (chip->read_gb_per_s * 0.9e3);
    double cached = (double)blocks * (weights + act) / (chip->units * 25e3 * chip->ghz);
    double alone = busiest * weights / (20e3 * chip->ghz);
    double waves = ceil((double)blocks / places);
    double turns = (double)nib_cuda_ceil_div(nib_cuda_ceil_div(w->k, NIB_CUDA_STAGE_K),
                                             k_parts * row->warps_k);
    /* All warps of a multiprocessor on 4 schedulers, or a warp alone: its copies, waits, products.
     */
    double clocks = stage_slots(row, desc) + 7 * (double)m, busy = clocks * warps(row) / 4 * 1.6;
    double lone = clocks + 1600 + 130 * fmin((double)m, 4);
    double decode = fmax(busiest * busy, waves * lone) * turns;
    cost c = {.memory = fmax(memory, fmax(cached, alone)),
              .decode = decode / (chip->ghz * 1e3),
              .rest = 1.2 + 0.06 * (double)m + 2.8 * (waves - 1)};
    if (cluster(row) > 1)
        c.rest += resident(row) > 1 ? 0.6 : 0.9;
    if (split > 1)
        c.rest += 4 + (double)m * (double)w->n * 8 * (double)split / (chip->read_gb_per_s * 0.9e3);
    return c;
}

/* A launch that does not fill the chip gets blocks without work for the rest: where multiprocessors
 * have nothing to do, the next launch would begin with two blocks, and take twice as long there. */
static int64_t grid_blocks(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc)
{
    int64_t blocks = tiles(row, desc) * cluster(row);
    int64_t full = chip->units / cluster(row) * cluster(row);
    return blocks < full && 2 * blocks > full && parts(row, desc) == 1 ? full : blocks;
}

static void shape(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out)
{
    int64_t split = parts(row, desc);
    uint64_t sums = (uint64_t)split * (uint64_t)m * (uint64_t)desc->weight.n;
    *out = (nib_cuda_shape){.grid = {(uint32_t)grid_blocks(row, chip, desc), (uint32_t)split, 1},
                            .block = 32 * (uint32_t)warps(row),
                            .shared_bytes = (uint32_t)shared_bytes(row, chip, desc),
                            .split = (int32_t)split,
                            .cluster = cluster(row),
                            .workspace_bytes = split > 1 ? sums * sizeof(float) : 0};
}

static double predict(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    cost c = model(row, chip, desc, m);
    if (bound)
        *bound = c.decode > c.memory ? "decode" : "memory";
    return total(&c);
}

static const nib_cuda_family family = {
    .name = "decode",
    .source = "kernels/sm90/decode.cu",
    .entry = "nib_decode",
    .reduce = "nib_reduce",
    .waits = true,
    .refusal = refusal,
    .spec = spec,
    .shape = shape,
    .predict = predict,
};

/* ---- the table ---- */

/* Rows of act at most; rows of W a block; warps along n and along K; stages of 4-bit codes; slots
 * of act; blocks a multiprocessor; blocks of a cluster. Bits depend on the split of K, so no row is
 * batch invariant beyond itself. */
#define ROW(m, n, w, k, s, slots, held, c)                                                     \
    {                                                                                          \
        .variant = {.size = sizeof(nib_variant),                                               \
                    .id = "dec-sm90-m" #m "n" #n "w" #w "x" #k "s" #s "b" #held "c" #c,        \
                    .isa = "sm_90a",                                                           \
                    .source = "kernels/sm90/decode.cu",                                        \
                    .m_min = 1,                                                                \
                    .m_max = m,                                                                \
                    .m_tile = m,                                                               \
                    .n_tile = n,                                                               \
                    .k_tile = NIB_CUDA_STAGE_K,                                                \
                    .stages = s,                                                               \
                    .threads = 32 * w * k,                                                     \
                    .decode_per_ns = 100,                                                      \
                    .efficiency = 0.3,                                                         \
                    .math_type = NIB_F16},                                                     \
        .family = &family, .cc_min = 90, .cc_max = 90, .tile_n = n, .tile_m = m, .warps_n = w, \
        .warps_m = 1, .warps_k = k, .stages = s, .option = OPTION(slots, held, c)              \
    }

const nib_cuda_row nib_cuda_sm90_decode_rows[] = {
    ROW(8, 64, 2, 8, 2, 2, 2, 2),
    ROW(8, 128, 2, 4, 2, 3, 2, 1),
    ROW(8, 128, 2, 8, 2, 2, 1, 2),
    {.variant = {.id = NULL}},
};
