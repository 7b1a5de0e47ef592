/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape of the decode kernel and its shared memory, and how operands get there. decode.cu has the
 * schedule, decode_sums.cuh the arithmetic.
 *
 * nib_spec.h adds:
 *     NIB_SPEC_TILE_M    rows of act: 1, 8 or 16
 *     NIB_SPEC_UNITS     units of 16 rows of W a warp: 1, 2, 4 or 8
 *     NIB_SPEC_WARPS     of a block
 *     NIB_SPEC_WARPS_N   of them side by side along n; the others split K
 *     NIB_SPEC_STAGES    blocks of 128 k in a warp's ring
 *     NIB_SPEC_RESIDENT  blocks a multiprocessor should hold
 *
 * A block owns NIB_SPEC_WARPS_N * NIB_SPEC_UNITS units. Each warp has a ring of its own in shared
 * memory and fills it by cp.async, so no barrier of the block stands between the first load and the
 * last sum.
 * A stage of the ring:
 *
 *     weights   each lane's pieces of 16 bytes (8 of 1-bit planes), read by the same lane
 *     act       [NIB_SPEC_TILE_M] rows of 128 k, 16 bytes of padding between rows
 *     scales    [groups of a block of 128 k][NIB_SPEC_UNITS][16]
 *     zeros     likewise
 */
#ifndef NIB_CUDA_SM80_DECODE_CUH
#define NIB_CUDA_SM80_DECODE_CUH

/* ---- shape -------------------------------------------------------------------------------- */

static constexpr int NIB_TOKEN_TILES = (NIB_SPEC_TILE_M + 7) / 8;
static constexpr int NIB_WARPS_K = NIB_SPEC_WARPS / NIB_SPEC_WARPS_N;
static constexpr int NIB_ROWS = NIB_SPEC_UNITS * 16; /* of a warp */
static_assert(NIB_SPEC_WARPS % NIB_SPEC_WARPS_N == 0, "warps form a rectangle");

/* A warp's units come in two halves with addresses of their own: neighbours, or for a gated pair
 * rows n and n + N/2. */
static constexpr int NIB_HALVES = NIB_SPEC_UNITS > 1 ? 2 : 1;
static constexpr int NIB_HALF_UNITS = NIB_SPEC_UNITS / NIB_HALVES;

/* One group along k: sums go on to the end, and scales are read there. */
static constexpr bool NIB_ONE_GROUP = NIB_SPEC_GROUP == 0;
static constexpr int NIB_BLOCK_GROUPS = NIB_ONE_GROUP ? 1 : 128 / NIB_SPEC_GROUP;

static constexpr int NIB_SCALE_BYTES =
    NIB_SPEC_SCALE == NIB_TYPE_NONE ? 0 : nib_element_bytes(NIB_SPEC_SCALE);
static constexpr int NIB_ZERO_BYTES = NIB_SPEC_ZERO == NIB_ZERO_NONE ? 0
                                      : NIB_SPEC_ZERO == NIB_ZERO_CODE
                                          ? 1
                                          : nib_element_bytes(NIB_SPEC_ZERO_TYPE);

/* Groups of a block of 128 k that straight code has registers for. */
static constexpr int NIB_STRAIGHT_GROUPS = 2;

/* ---- shared memory ------------------------------------------------------------------------ */

static constexpr int NIB_ACT_BYTES = nib_element_bytes(NIB_SPEC_ACT);
static constexpr int NIB_ACT_ROW = 128 * NIB_ACT_BYTES;
static constexpr int NIB_ACT_PITCH = NIB_ACT_ROW + 16; /* rows of a fragment in different banks */

static constexpr int NIB_STAGE_ACT = NIB_SPEC_UNITS * 256 * NIB_CODE.bits;
static constexpr int NIB_STAGE_SCALES = NIB_STAGE_ACT + NIB_SPEC_TILE_M * NIB_ACT_PITCH;
static constexpr int NIB_STAGE_ZEROS =
    NIB_STAGE_SCALES + (NIB_ONE_GROUP ? 0 : NIB_BLOCK_GROUPS * NIB_ROWS * NIB_SCALE_BYTES);
static constexpr int NIB_STAGE_BYTES =
    NIB_STAGE_ZEROS + (NIB_ONE_GROUP ? 0 : NIB_BLOCK_GROUPS * NIB_ROWS * NIB_ZERO_BYTES);

/* A warp's sums in the end, [token][row]: 4 words of padding put tokens in different banks. */
static constexpr int NIB_SUM_PITCH = NIB_ROWS + 4;
static constexpr int NIB_SUM_BYTES = NIB_SPEC_TILE_M * NIB_SUM_PITCH * 4;
static constexpr int NIB_RING_BYTES = NIB_SPEC_STAGES * NIB_STAGE_BYTES;
static constexpr int NIB_WARP_BYTES =
    ((NIB_RING_BYTES > NIB_SUM_BYTES ? NIB_RING_BYTES : NIB_SUM_BYTES) + 127) / 128 * 128;

/* ---- a warp's place ----------------------------------------------------------------------- */

typedef struct nib_warp {
    uint32_t ring; /* shared address */
    int lane;
    int unit_block[NIB_HALVES]; /* block of 64 rows */
    int unit[NIB_HALVES];       /* first unit in it */
} nib_warp;

/* Blocks of a unit beyond the last are read from the last one: their rows are not stored. */
NIB_DEVICE void nib_place_units(const nib_cuda_params &p, bool paired, int first, nib_warp *warp)
{
#pragma unroll
    for (int h = 0; h < NIB_HALVES; h++) {
        int at = paired ? first * NIB_HALF_UNITS + h * (int)(p.n >> 5)
                        : (first * NIB_HALVES + h) * NIB_HALF_UNITS;
        warp->unit_block[h] = nib_minimum(at >> 2, p.n_blocks - 1);
        warp->unit[h] = at & 3;
    }
}

/* ---- weights ------------------------------------------------------------------------------ */

/* Bytes of a plane of B bits: 1024 B a block, a lane's pieces [piece][unit][lane]. */
template <int PLANE>
NIB_DEVICE void nib_fetch_plane(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                                uint32_t to)
{
    constexpr int bits = nib_plane_bits(PLANE);
    constexpr int piece = bits == 1 ? 8 : 16, pieces = bits < 2 ? 1 : bits / 2;
#pragma unroll
    for (int h = 0; h < NIB_HALVES; h++) {
        const int64_t block = (int64_t)warp.unit_block[h] * p.k_blocks + k_block;
        const uint8_t *from = (const uint8_t *)p.codes[PLANE] + block * (1024 * bits) +
                              (warp.unit[h] * 32 + warp.lane) * piece;
#pragma unroll
        for (int u = 0; u < NIB_HALF_UNITS; u++)
#pragma unroll
            for (int i = 0; i < pieces; i++) {
                const int unit = h * NIB_HALF_UNITS + u;
                const uint32_t at =
                    to + (unit * pieces + i) * 32 * piece + (uint32_t)warp.lane * piece;
                if constexpr (piece == 16)
                    nib_copy16(at, from + i * 2048 + u * 512);
                else
                    nib_copy8(at, from + u * 256);
            }
    }
}

static constexpr int NIB_PLANE_STAGE = NIB_SPEC_UNITS * 256; /* bytes of a stage for each bit */

NIB_DEVICE void nib_fetch_weights(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                                  uint32_t stage)
{
    nib_fetch_plane<0>(p, warp, k_block, stage);
    if constexpr (NIB_PLANES > 1)
        nib_fetch_plane<1>(p, warp, k_block, stage + NIB_PLANE_STAGE * nib_plane_shift(1));
    if constexpr (NIB_PLANES > 2)
        nib_fetch_plane<2>(p, warp, k_block, stage + NIB_PLANE_STAGE * nib_plane_shift(2));
}

template <int PLANE>
NIB_DEVICE void nib_read_plane(uint32_t stage, int lane, int unit, uint32_t (&q)[NIB_WORDS])
{
    constexpr int bits = nib_plane_bits(PLANE), shift = nib_plane_shift(PLANE);
    constexpr int pieces = bits < 2 ? 1 : bits / 2;
    const uint32_t from = stage + NIB_PLANE_STAGE * shift;
    if constexpr (bits == 1) {
        nib_shared_load2(q + 2 * shift, from + (unit * 32 + lane) * 8);
    } else {
#pragma unroll
        for (int i = 0; i < pieces; i++)
            nib_shared_load4(q + 2 * shift + 4 * i, from + ((unit * pieces + i) * 32 + lane) * 16);
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
    constexpr int pieces = bits < 2 ? 1 : bits / 2;
    const uint32_t from = stage + NIB_PLANE_STAGE * shift;
    const uint32_t at = from + (unit * pieces * 32 + lane) * (bits == 1 ? 8 : 16);
    if constexpr (bits == 8)
        nib_shared_load4(q + 2 * shift, at + pair * 512);
    else if constexpr (bits == 4)
        nib_shared_load2(q + 2 * shift, at + (pair >> 1) * 512 + (pair & 1) * 8);
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

/* [groups of the block][NIB_SPEC_UNITS][16] elements of BYTES bytes; 16 bytes a lane and round. */
template <int BYTES>
NIB_DEVICE void nib_fetch_side(const nib_cuda_params &p, const nib_warp &warp, const void *array,
                               int k_block, uint32_t to)
{
    constexpr int half_chunks = NIB_HALF_UNITS * BYTES; /* of 16 bytes */
    constexpr int group_chunks = NIB_HALVES * half_chunks;
    constexpr int chunks = NIB_BLOCK_GROUPS * group_chunks;
#pragma unroll
    for (int c = warp.lane; c < (chunks + 31) / 32 * 32; c += 32) {
        if (chunks % 32 && c >= chunks)
            break;
        const int part = k_block * NIB_BLOCK_GROUPS + c / group_chunks;
        const int half = NIB_HALVES > 1 ? c / half_chunks & 1 : 0;
        const int block = half ? warp.unit_block[NIB_HALVES - 1] : warp.unit_block[0];
        const int unit = half ? warp.unit[NIB_HALVES - 1] : warp.unit[0];
        const int64_t line = (int64_t)block * p.groups + nib_group_of(p, part);
        nib_copy16(to + c * 16, (const uint8_t *)array + line * (64 * BYTES) + unit * (16 * BYTES) +
                                    c % half_chunks * 16);
    }
}

/* ---- activations -------------------------------------------------------------------------- */

/* Any address and stride: one element at a time. */
NIB_DEVICE void nib_fetch_act_slow(const nib_cuda_params &p, int lane, int k_block, uint32_t to)
{
    for (int row = 0; row < (int)p.m; row++)
#pragma unroll 1
        for (int c = lane; c < 128; c += 32) {
            const int64_t k = (int64_t)k_block * 128 + c;
            const uint32_t bits =
                k < p.k ? nib_load_element<NIB_ACT_BYTES>(p.act, row * p.lda + k) : 0;
            const uint32_t at = to + row * NIB_ACT_PITCH + c * NIB_ACT_BYTES;
            if constexpr (NIB_ACT_BYTES == 2)
                nib_shared_store16(at, bits);
            else
                nib_shared_store8(at, bits);
        }
}

/* 128 k of the rows of act, zeros beyond K. Rows beyond m were zeroed once and are left alone. */
NIB_DEVICE void nib_fetch_act(const nib_cuda_params &p, int lane, int k_block, uint32_t to)
{
    if (!p.aligned) {
        nib_fetch_act_slow(p, lane, k_block, to);
        return;
    }
    constexpr int row_chunks = NIB_ACT_ROW / 16;
    constexpr int chunks = NIB_SPEC_TILE_M * row_chunks, rounds = (chunks + 31) / 32;
    const int64_t at = (int64_t)k_block * NIB_ACT_ROW + lane % row_chunks * 16;
    const int64_t left = p.k * NIB_ACT_BYTES - at;
    const uint32_t bytes = left >= 16 ? 16 : left > 0 ? (uint32_t)left : 0;
#pragma unroll
    for (int i = 0; i < rounds; i++) {
        const int row = lane / row_chunks + i * (32 / row_chunks);
        if (row >= (int)p.m)
            break;
        const uint8_t *from = (const uint8_t *)p.act + row * p.lda * NIB_ACT_BYTES;
        nib_copy16_part(to + row * NIB_ACT_PITCH + lane % row_chunks * 16, bytes ? from + at : from,
                        bytes);
    }
}

/* Rows of act that do not exist, in all stages. */
NIB_DEVICE void nib_clear_act(const nib_cuda_params &p, const nib_warp &warp)
{
    const uint32_t zero[4] = {0, 0, 0, 0};
    for (int s = 0; s < NIB_SPEC_STAGES; s++)
        for (int c = (int)p.m * NIB_ACT_PITCH / 16 + warp.lane;
             c < NIB_SPEC_TILE_M * NIB_ACT_PITCH / 16; c += 32)
            nib_shared_store4(warp.ring + s * NIB_STAGE_BYTES + NIB_STAGE_ACT + c * 16, zero);
}

/* Where byte `byte` of row `row` of a stage's act is. */
NIB_DEVICE uint32_t nib_act_place(uint32_t act, int row, int byte)
{
    return act + row * NIB_ACT_PITCH + byte;
}

/* ---- a stage ------------------------------------------------------------------------------ */

/* Starts the copies of a block of 128 k that no kernel before this one writes. */
NIB_DEVICE void nib_fetch_constants(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                                    uint32_t stage)
{
    nib_fetch_weights(p, warp, k_block, stage);
    if constexpr (!NIB_ONE_GROUP && NIB_SCALE_BYTES > 0)
        nib_fetch_side<NIB_SCALE_BYTES>(p, warp, p.scales, k_block, stage + NIB_STAGE_SCALES);
    if constexpr (!NIB_ONE_GROUP && NIB_ZERO_BYTES > 0)
        nib_fetch_side<NIB_ZERO_BYTES>(p, warp, p.zeros, k_block, stage + NIB_STAGE_ZEROS);
}

/* Starts all copies of a block of 128 k. */
NIB_DEVICE void nib_fetch_stage(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                                uint32_t stage)
{
    nib_fetch_constants(p, warp, k_block, stage);
    nib_fetch_act(p, warp.lane, k_block, stage + NIB_STAGE_ACT);
}

#endif
