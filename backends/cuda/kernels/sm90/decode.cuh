/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape of Hopper's decode kernel and its shared memory, and how operands get there. decode.cu has
 * the schedule, decode_store.cuh the way out, kernels/sm80/decode_sums.cuh the arithmetic.
 *
 * nib_spec.h adds, and variants/sm90_decode.c computes the same sizes:
 *     NIB_SPEC_TILE_M     rows of act: 8
 *     NIB_SPEC_UNITS      units of 16 rows of W a warp: 2 or 4
 *     NIB_SPEC_WARPS      of a block
 *     NIB_SPEC_WARPS_N    of them side by side along n; the others split K
 *     NIB_SPEC_STAGES     blocks of 128 k in a warp's ring of weights
 *     NIB_SPEC_ACT_SLOTS  blocks of 128 k of act in the ring that warps side by side share
 *     NIB_SPEC_RESIDENT   blocks a multiprocessor should hold
 *     NIB_SPEC_CLUSTER    blocks of a cluster, which split K: 1 or 2
 *     NIB_SPEC_PAIRED     warps of the upper half take rows n + N/2 of gated pairs
 *
 * Shared memory of a block:
 *
 *     act       a part of K: slots of rows of 128 k and 16 bytes of padding; barriers
 *     rings     a warp: stages of weights, scales and zeros, in the end its sums; barriers
 *     table     of value tables
 *     barrier   of the sums received
 *     received  sums of the cluster's other blocks, of launches with clusters
 */
#ifndef NIB_CUDA_SM90_DECODE_CUH
#define NIB_CUDA_SM90_DECODE_CUH

/* ---- shape -------------------------------------------------------------------------------- */

static constexpr int NIB_TOKEN_TILES = (NIB_SPEC_TILE_M + 7) / 8;
static constexpr int NIB_WARPS_K = NIB_SPEC_WARPS / NIB_SPEC_WARPS_N;
static constexpr int NIB_ROWS = NIB_SPEC_UNITS * 16; /* of a warp */
static_assert(NIB_SPEC_WARPS % NIB_SPEC_WARPS_N == 0, "warps form a rectangle");
static_assert(!NIB_SPEC_PAIRED || NIB_SPEC_WARPS_N % 2 == 0, "pairs take two warps");

/* A warp's units are neighbours in one block of 64 rows. */
static constexpr int NIB_HALVES = 1;
static constexpr int NIB_HALF_UNITS = NIB_SPEC_UNITS;

/* One group along k: sums go on to the end, and scales are read there. */
static constexpr bool NIB_ONE_GROUP = NIB_SPEC_GROUP == 0;
static constexpr int NIB_BLOCK_GROUPS = NIB_ONE_GROUP ? 1 : 128 / NIB_SPEC_GROUP;

static constexpr int NIB_SCALE_BYTES =
    NIB_SPEC_SCALE == NIB_TYPE_NONE ? 0 : nib_element_bytes(NIB_SPEC_SCALE);
static constexpr int NIB_ZERO_BYTES = NIB_SPEC_ZERO == NIB_ZERO_NONE ? 0
                                      : NIB_SPEC_ZERO == NIB_ZERO_CODE
                                          ? 1
                                          : nib_element_bytes(NIB_SPEC_ZERO_TYPE);

/* Groups of a block of 128 k that straight code has registers for: 64 a thread, or 128. */
static constexpr int NIB_STRAIGHT_GROUPS = NIB_SPEC_WARPS * NIB_SPEC_RESIDENT > 16 ? 1 : 2;

/* ---- shared memory ------------------------------------------------------------------------ */

static constexpr int NIB_ACT_BYTES = nib_element_bytes(NIB_SPEC_ACT);
static_assert(NIB_ACT_BYTES == 2, "activations have 16 bits here");

static constexpr int NIB_ACT_PITCH = 256 + 16; /* rows of a fragment in different banks */
static constexpr int NIB_SLOT_BYTES = NIB_SPEC_TILE_M * NIB_ACT_PITCH;
/* Slots of a part of K, behind them their barriers: of full ones, then of free ones. */
static constexpr int NIB_ACT_FULL_AT = NIB_SPEC_ACT_SLOTS * NIB_SLOT_BYTES;
static constexpr int NIB_ACT_FREE_AT = NIB_ACT_FULL_AT + NIB_SPEC_ACT_SLOTS * 8;
static constexpr int NIB_PART_BYTES = (NIB_ACT_FREE_AT + NIB_SPEC_ACT_SLOTS * 8 + 15) / 16 * 16;

/* A stage: planes of codes as the layout has them, [piece][unit][lane]; then scales and zeros,
 * [groups of a block of 128 k][NIB_SPEC_UNITS][16]. */
static constexpr int NIB_STAGE_SCALES = NIB_SPEC_UNITS * 256 * NIB_CODE.bits;
static constexpr int NIB_STAGE_ZEROS =
    NIB_STAGE_SCALES + (NIB_ONE_GROUP ? 0 : NIB_BLOCK_GROUPS * NIB_ROWS * NIB_SCALE_BYTES);
static constexpr int NIB_STAGE_COPIED =
    NIB_STAGE_ZEROS + (NIB_ONE_GROUP ? 0 : NIB_BLOCK_GROUPS * NIB_ROWS * NIB_ZERO_BYTES);
static constexpr int NIB_STAGE_BYTES = (NIB_STAGE_COPIED + 127) / 128 * 128;

/* A warp's sums in the end, [token][row]: 4 words of padding put tokens in different banks. */
static constexpr int NIB_SUM_PITCH = NIB_ROWS + 4;
static constexpr int NIB_SUM_BYTES = NIB_SPEC_TILE_M * NIB_SUM_PITCH * 4;
static constexpr int NIB_RING_BYTES = NIB_SPEC_STAGES * NIB_STAGE_BYTES;
/* Behind either are the barriers of the stages, 8 bytes each. */
static constexpr int NIB_FULL_AT =
    ((NIB_RING_BYTES > NIB_SUM_BYTES ? NIB_RING_BYTES : NIB_SUM_BYTES) + 127) / 128 * 128;
static constexpr int NIB_WARP_BYTES = NIB_FULL_AT + (NIB_SPEC_STAGES * 8 + 127) / 128 * 128;

static constexpr int NIB_RINGS_AT = (NIB_WARPS_K * NIB_PART_BYTES + 127) / 128 * 128;
static constexpr int NIB_TABLE_AT = NIB_RINGS_AT + NIB_SPEC_WARPS * NIB_WARP_BYTES;
static constexpr int NIB_BARRIER_AT = NIB_TABLE_AT + NIB_TABLE_BYTES; /* of the sums received */
static constexpr int NIB_RECEIVED_AT = NIB_BARRIER_AT + 16;

/* ---- a warp's place ----------------------------------------------------------------------- */

typedef struct nib_warp {
    uint32_t ring; /* shared addresses: stages */
    uint32_t act;  /* slots of the warp's part of K */
    int lane, along_n, along_k;
    int unit_block[NIB_HALVES]; /* block of 64 rows */
    int unit[NIB_HALVES];       /* first unit in it */
    bool active;                /* its rows are rows of W */
    /* What the warp reads of W at k = 0. In registers: constants of the launch would be loaded, and
     * waited for, each time. */
    const uint8_t *codes[NIB_PLANES], *scales, *zeros;
    const uint8_t *act_piece; /* the lane's piece of row lane / 16 of act at k = 0 */
    int sharers;              /* active warps side by side */
    uint32_t supplies;        /* bit i: the warp fetches act in turns i, i + NIB_SPEC_WARPS_N, .. */
} nib_warp;

/* Warps side by side of a tile that are active: the first ones of each half of pairs; none, or
 * fewer, behind the last tile. */
NIB_DEVICE int nib_active_warps(const nib_cuda_params &p, int tile)
{
    constexpr int side = NIB_SPEC_PAIRED ? NIB_SPEC_WARPS_N / 2 : NIB_SPEC_WARPS_N;
    const int64_t rows = (NIB_SPEC_PAIRED ? p.n / 2 : p.n) - (int64_t)tile * side * NIB_ROWS;
    const int most = rows < side * NIB_ROWS ? (int)(rows + NIB_ROWS - 1) / NIB_ROWS : side;
    return NIB_SPEC_PAIRED ? 2 * most : most;
}

NIB_DEVICE nib_warp nib_warp_of(const nib_cuda_params &p, uint32_t shared, int thread, int tile)
{
    constexpr int side = NIB_SPEC_PAIRED ? NIB_SPEC_WARPS_N / 2 : NIB_SPEC_WARPS_N;
    nib_warp warp;
    const int index = thread >> 5;
    warp.lane = thread & 31;
    warp.along_n = index % NIB_SPEC_WARPS_N;
    warp.along_k = index / NIB_SPEC_WARPS_N;
    warp.ring = shared + NIB_RINGS_AT + index * NIB_WARP_BYTES;
    warp.act = shared + warp.along_k * NIB_PART_BYTES;
    const int row = tile * side + warp.along_n % side; /* in rows of a warp */
    int unit = row * NIB_SPEC_UNITS;
    warp.active = (int64_t)row * NIB_ROWS < (NIB_SPEC_PAIRED ? p.n / 2 : p.n);
    warp.sharers = nib_active_warps(p, tile);
    int share = warp.along_n;
    if (NIB_SPEC_PAIRED && warp.along_n >= side) {
        unit += (int)(p.n >> 5);
        share += warp.sharers / 2 - side;
    }
    /* They fetch in turn, for who does has to wait for all others; the first for those that are not
     * active. */
    warp.supplies = 1u << share;
    if (share == 0)
        warp.supplies |= ~0u << warp.sharers;
    warp.unit_block[0] = unit >> 2;
    warp.unit[0] = NIB_SPEC_UNITS == 4 ? 0 : unit & 3;
    return warp;
}

/* ---- weights ------------------------------------------------------------------------------ */

NIB_CONSTEXPR int nib_plane_pieces(int bits)
{
    return bits < 2 ? 1 : bits / 2;
}

NIB_CONSTEXPR int nib_unit_bytes(int bits) /* of a piece */
{
    return bits == 1 ? 256 : 512;
}

static constexpr int NIB_PLANE_STAGE = NIB_SPEC_UNITS * 256; /* bytes of a stage for each bit */

template <int PLANE> NIB_DEVICE void nib_place_plane(const nib_cuda_params &p, nib_warp &warp)
{
    constexpr int bits = nib_plane_bits(PLANE);
    warp.codes[PLANE] = (const uint8_t *)p.codes[PLANE] +
                        (int64_t)warp.unit_block[0] * p.k_blocks * (1024 * bits) +
                        warp.unit[0] * nib_unit_bytes(bits);
}

NIB_DEVICE void nib_place_sources(const nib_cuda_params &p, nib_warp &warp)
{
    nib_place_plane<0>(p, warp);
    if constexpr (NIB_PLANES > 1)
        nib_place_plane<1>(p, warp);
    if constexpr (NIB_PLANES > 2)
        nib_place_plane<2>(p, warp);
    const int64_t lines = warp.unit_block[0] * p.groups * 4 + warp.unit[0]; /* of 16 rows */
    warp.scales = (const uint8_t *)p.scales + lines * (16 * NIB_SCALE_BYTES);
    warp.zeros = (const uint8_t *)p.zeros + lines * (16 * NIB_ZERO_BYTES);
    warp.act_piece = (const uint8_t *)p.act + (warp.lane >> 4) * p.lda * 2 + warp.lane % 16 * 16;
}

/* A plane of a block, all of its 64 rows at once or piece by piece. One thread. */
template <int PLANE>
NIB_DEVICE void nib_copy_plane(const nib_warp &warp, int k_block, uint32_t stage, uint32_t barrier)
{
    constexpr int bits = nib_plane_bits(PLANE), unit = nib_unit_bytes(bits);
    const uint8_t *from = warp.codes[PLANE] + (int64_t)k_block * (1024 * bits);
    const uint32_t to = stage + NIB_PLANE_STAGE * nib_plane_shift(PLANE);
    if constexpr (NIB_SPEC_UNITS == 4) {
        nib_bulk_copy(to, from, 1024 * bits, barrier);
    } else {
#pragma unroll
        for (int i = 0; i < nib_plane_pieces(bits); i++)
            nib_bulk_copy(to + i * NIB_SPEC_UNITS * unit, from + i * 4 * unit,
                          NIB_SPEC_UNITS * unit, barrier);
    }
}

template <int PLANE>
NIB_DEVICE void nib_read_plane(uint32_t stage, int lane, int unit, uint32_t (&q)[NIB_WORDS])
{
    constexpr int bits = nib_plane_bits(PLANE), shift = nib_plane_shift(PLANE);
    const uint32_t from = stage + NIB_PLANE_STAGE * shift;
    if constexpr (bits == 1) {
        nib_shared_load2(q + 2 * shift, from + (unit * 32 + lane) * 8);
    } else {
#pragma unroll
        for (int i = 0; i < nib_plane_pieces(bits); i++)
            nib_shared_load4(q + 2 * shift + 4 * i,
                             from + ((i * NIB_SPEC_UNITS + unit) * 32 + lane) * 16);
    }
}

/* The lane's words of a unit: what dequant.cuh calls q. */
NIB_DEVICE void nib_read_weights(uint32_t stage, int lane, int unit, uint32_t (&q)[NIB_WORDS])
{
    nib_read_plane<0>(stage, lane, unit, q);
    if constexpr (NIB_PLANES > 1)
        nib_read_plane<1>(stage, lane, unit, q);
    if constexpr (NIB_PLANES > 2)
        nib_read_plane<2>(stage, lane, unit, q);
}

/* The words of steps 2 * pair and 2 * pair + 1, as those of steps 0 and 1: the first of each plane.
 */
template <int PLANE>
NIB_DEVICE void nib_read_pair_plane(uint32_t stage, int lane, int unit, int pair,
                                    uint32_t (&q)[NIB_WORDS])
{
    constexpr int bits = nib_plane_bits(PLANE), shift = nib_plane_shift(PLANE);
    constexpr int piece = NIB_SPEC_UNITS * 512;
    const uint32_t at = stage + NIB_PLANE_STAGE * shift + (unit * 32 + lane) * (bits == 1 ? 8 : 16);
    if constexpr (bits == 8)
        nib_shared_load4(q + 2 * shift, at + pair * piece);
    else if constexpr (bits == 4)
        nib_shared_load2(q + 2 * shift, at + (pair >> 1) * piece + (pair & 1) * 8);
    else if constexpr (bits == 2)
        q[2 * shift] = nib_shared_load(at + pair * 4);
    else
        /* Steps 2 and 3 of a word are 8 bits above steps 0 and 1. */
        q[2 * shift] = nib_shared_load(at + (pair >> 1) * 4) >> ((pair & 1) * 8);
}

NIB_DEVICE void nib_read_pair_weights(uint32_t stage, int lane, int unit, int pair,
                                      uint32_t (&q)[NIB_WORDS])
{
    nib_read_pair_plane<0>(stage, lane, unit, pair, q);
    if constexpr (NIB_PLANES > 1)
        nib_read_pair_plane<1>(stage, lane, unit, pair, q);
    if constexpr (NIB_PLANES > 2)
        nib_read_pair_plane<2>(stage, lane, unit, pair, q);
}

/* ---- scales and zeros --------------------------------------------------------------------- */

/* The group of part `part` (of NIB_SPEC_GROUP columns) of K. Parts beyond K take the last group:
 * they meet zeros of act, and its scale belongs to the same row. */
NIB_DEVICE int nib_group_of(const nib_cuda_params &p, int part)
{
    const int parts = (int)(p.group / (NIB_ONE_GROUP ? 1 : NIB_SPEC_GROUP));
    const int group = parts == 1 ? part : (int)((uint32_t)part / (uint32_t)parts);
    return nib_minimum(group, (int)p.groups - 1);
}

/* Elements of BYTES bytes for the groups of a block of 128 k. One thread. */
template <int BYTES>
NIB_DEVICE void nib_copy_side(const nib_cuda_params &p, const uint8_t *from, int k_block,
                              uint32_t to, uint32_t barrier)
{
    constexpr int line = 64 * BYTES, share = NIB_ROWS * BYTES;
    const int first = k_block * NIB_BLOCK_GROUPS;
    if (p.group == NIB_SPEC_GROUP &&
        (NIB_BLOCK_GROUPS == 1 || (share == line && first + NIB_BLOCK_GROUPS <= (int)p.groups))) {
        /* one line, or lines that follow each other */
        nib_bulk_copy(to, from + (int64_t)first * line, NIB_BLOCK_GROUPS * share, barrier);
        return;
    }
#pragma unroll 1
    for (int j = 0; j < NIB_BLOCK_GROUPS; j++)
        nib_bulk_copy(to + j * share, from + (int64_t)nib_group_of(p, first + j) * line, share,
                      barrier);
}

/* Starts the copies of a block's weights, scales and zeros. One thread. */
NIB_DEVICE void nib_copy_stage(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                               uint32_t stage, uint32_t barrier)
{
    nib_barrier_expect(barrier, NIB_STAGE_COPIED);
    nib_copy_plane<0>(warp, k_block, stage, barrier);
    if constexpr (NIB_PLANES > 1)
        nib_copy_plane<1>(warp, k_block, stage, barrier);
    if constexpr (NIB_PLANES > 2)
        nib_copy_plane<2>(warp, k_block, stage, barrier);
    if constexpr (!NIB_ONE_GROUP && NIB_SCALE_BYTES > 0)
        nib_copy_side<NIB_SCALE_BYTES>(p, warp.scales, k_block, stage + NIB_STAGE_SCALES, barrier);
    if constexpr (!NIB_ONE_GROUP && NIB_ZERO_BYTES > 0)
        nib_copy_side<NIB_ZERO_BYTES>(p, warp.zeros, k_block, stage + NIB_STAGE_ZEROS, barrier);
}

/* ---- activations -------------------------------------------------------------------------- */

/* Where byte `byte` of row `row` of a slot is. */
NIB_DEVICE uint32_t nib_act_place(uint32_t act, int row, int byte)
{
    return act + row * NIB_ACT_PITCH + byte;
}

/* A block of 128 k: rows of act that exist, zeros beyond K. Tensor copies of so small boxes would
 * take longer. */
NIB_DEVICE void nib_copy_act(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                             uint32_t slot)
{
    const int row = warp.lane >> 4, at = warp.lane % 16 * 16;
    const int64_t left = (p.k - (int64_t)k_block * 128) * 2 - at;
    const uint32_t bytes = left >= 16 ? 16 : left > 0 ? (uint32_t)left : 0;
    const uint8_t *from = warp.act_piece + (bytes ? (int64_t)k_block * 256 : 0);
#pragma unroll
    for (int i = 0; i < NIB_SPEC_TILE_M; i += 2)
        if (row + i < (int)p.m)
            nib_copy16_part(nib_act_place(slot, row + i, at), from + i * p.lda * 2, bytes);
}

/* The same from any address and with any stride. */
NIB_DEVICE void nib_load_act(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                             uint32_t slot)
{
#pragma unroll 1
    for (int row = 0; row < (int)p.m; row++)
#pragma unroll 1
        for (int c = warp.lane; c < 128; c += 32) {
            const int64_t k = (int64_t)k_block * 128 + c;
            nib_shared_store16(nib_act_place(slot, row, c * 2),
                               k < p.k ? nib_load_element<2>(p.act, row * p.lda + k) : 0);
        }
}

/* Fills slot `index`; all lanes arrive at its barrier. */
NIB_DEVICE void nib_supply_act(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                               uint32_t index)
{
    const uint32_t slot = warp.act + index * NIB_SLOT_BYTES,
                   barrier = warp.act + NIB_ACT_FULL_AT + index * 8;
    if (p.aligned) {
        nib_copy_act(p, warp, k_block, slot);
        nib_barrier_arrive_copies(barrier);
    } else {
        nib_load_act(p, warp, k_block, slot);
        nib_barrier_arrive(barrier);
    }
}

/* Rows of act that do not exist, in all slots of all parts of K; all threads of the block. */
NIB_DEVICE void nib_clear_act(const nib_cuda_params &p, uint32_t shared)
{
    const uint32_t zero[4] = {0, 0, 0, 0};
    const int pieces = (NIB_SPEC_TILE_M - (int)p.m) * (NIB_ACT_PITCH / 16);
#pragma unroll 1
    for (int i = nib_thread(); i < NIB_WARPS_K * NIB_SPEC_ACT_SLOTS * pieces;
         i += NIB_SPEC_WARPS * 32) {
        const int slot = i / pieces, part = slot / NIB_SPEC_ACT_SLOTS;
        nib_shared_store4(shared + part * NIB_PART_BYTES +
                              slot % NIB_SPEC_ACT_SLOTS * NIB_SLOT_BYTES +
                              (int)p.m * NIB_ACT_PITCH + i % pieces * 16,
                          zero);
    }
}

#endif
