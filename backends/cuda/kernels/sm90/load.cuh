/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the gemm kernel on their way from global to shared memory. A ring of stages, each
 * with 128 k of the block's tile, is filled by the last warpgroup, the loaders, and read by the
 * others, a consumer each for 64 rows of W. Barriers of a stage:
 *
 *     weights   codes, scales and zeros are there   loaders -> consumers
 *     act       activations are there               loaders -> consumers
 *     sums      their sums are there (ACT_SUMS)     loaders -> consumers
 *     empty     all consumers have read it          consumers -> loaders
 *
 * Each loader warp has its own part, and one thread that starts its copies: at some hundred clocks
 * a stage one alone would be too slow for all.
 *
 *     warp 0   codes              1-D copies of whole blocks
 *     warp 1   activations        by their map, two boxes of 64 columns
 *     warp 2   scales and zeros   1-D copies of as many groups as a stage has
 *     warp 3   sums of activations that have come
 *
 * Only activations are waited for when the kernel before this one still runs. Where they have no
 * map, all loaders fetch them, beside their own part. variants/sm90_gemm.c computes the same sizes.
 */
#ifndef NIB_CUDA_SM90_LOAD_CUH
#define NIB_CUDA_SM90_LOAD_CUH

static constexpr int STAGES = NIB_SPEC_STAGES;
enum { LOADS_CODES, LOADS_ACT, LOADS_VALUES, LOADS_SUMS, LOADER_WARPS };

static constexpr int PLANE_BLOCK = 64 * STAGE_K / 8; /* bytes of a block of codes, for each bit */

/* Scales of a stage: CHUNKS groups of CHUNK_K columns (a longer group appears in each). */
static constexpr int CHUNK_K = NIB_SPEC_GROUP == 0 ? STAGE_K : NIB_SPEC_GROUP;
static constexpr int CHUNKS = STAGE_K / CHUNK_K;
static constexpr bool SCALED = NIB_SPEC_SCALE != NIB_TYPE_NONE;
static constexpr bool ZEROED = NIB_SPEC_ZERO != NIB_ZERO_NONE;
static constexpr int SCALE_BYTES = SCALED ? nib_element_bytes(NIB_SPEC_SCALE) : 0;
static constexpr int ZERO_BYTES = !ZEROED ? 0
                                  : NIB_SPEC_ZERO == NIB_ZERO_CODE
                                      ? 1
                                      : nib_element_bytes(NIB_SPEC_ZERO_TYPE);

/* Zeros that operands cannot hold, and offsets, are taken off with sums of activations. */
static constexpr bool FLOAT_ZERO =
    NIB_SPEC_ZERO == NIB_ZERO_FLOAT || NIB_SPEC_ZERO == NIB_ZERO_RESCALE;
static constexpr bool FOLD_ZERO = NIB_SPEC_ZERO == NIB_ZERO_CODE && NIB_FOLDS_ZERO;
static constexpr bool CODE_ZERO = NIB_SPEC_ZERO == NIB_ZERO_CODE && !FOLD_ZERO;
static constexpr bool ACT_SUMS = NIB_OFFSET != 0 || FLOAT_ZERO || CODE_ZERO;

/* ---- shared memory ------------------------------------------------------------------------ */

/* Sizes and places in bytes. Activations of a stage are two boxes of 64 columns, [token][128
 * bytes] swizzled, at multiples of 1024. The rest of a stage:
 *
 *     codes [plane][block]   scales, zeros [block][chunk][64]   sums [chunk][token] f32
 */
static constexpr int ACT_BOX = TILE_M * 128, ACT_STAGE = 2 * ACT_BOX;
static constexpr int SCALES_AT = BLOCKS * PLANE_BLOCK * NIB_CODE.bits;
static constexpr int ZEROS_AT = SCALES_AT + BLOCKS * CHUNKS * 64 * SCALE_BYTES;
static constexpr int SUMS_AT = ZEROS_AT + BLOCKS * CHUNKS * 64 * ZERO_BYTES;
static constexpr int WEIGHT_STAGE = SUMS_AT + (ACT_SUMS ? CHUNKS * TILE_M * 4 : 0);
static constexpr int VALUES_BYTES = SUMS_AT - SCALES_AT;
static_assert(WEIGHT_STAGE % 16 == 0, "bulk copies want multiples of 16");

/* Sums on their way out, [token][64 + 4] f32, in two halves where there is room, and the bias
 * behind them, for each consumer: see output.cuh. */
static constexpr int OUT_TOKENS = TILE_M % 16 == 0 ? 16 : 8, OUT_HALVES = TILE_M < 256 ? 2 : 1;
static constexpr int OUT_PITCH = 68, OUT_BYTES = (OUT_HALVES * OUT_TOKENS + 1) * OUT_PITCH * 4;

static constexpr int WEIGHTS_AT = STAGES * ACT_STAGE;
static constexpr int OUT_AT = WEIGHTS_AT + STAGES * WEIGHT_STAGE;
static constexpr int TABLE_AT = OUT_AT + BLOCKS * OUT_BYTES;
static constexpr int BARRIERS_AT = TABLE_AT + NIB_TABLE_BYTES;

enum { BARRIER_WEIGHTS, BARRIER_ACT, BARRIER_SUMS, BARRIER_EMPTY };

/* A stage of the ring, as the one who fills or reads it counts them. */
typedef struct nib_slot {
    uint32_t shared; /* where the ring begins */
    int index;
    uint32_t parity; /* of the phase in which it is filled */
} nib_slot;

NIB_DEVICE void nib_slot_next(nib_slot &slot)
{
    slot.index++;
    if (slot.index == STAGES) {
        slot.index = 0;
        slot.parity ^= 1;
    }
}

NIB_DEVICE uint32_t nib_slot_act(const nib_slot &slot)
{
    return slot.shared + slot.index * ACT_STAGE;
}

NIB_DEVICE uint32_t nib_slot_weights(const nib_slot &slot)
{
    return slot.shared + WEIGHTS_AT + slot.index * WEIGHT_STAGE;
}

NIB_DEVICE uint32_t nib_slot_barrier(const nib_slot &slot, int which)
{
    return slot.shared + BARRIERS_AT + (which * STAGES + slot.index) * 8;
}

/* One thread, before all others go on: arrivals of each barrier. Without a map every loader warp
 * arrives for its part of act. */
NIB_DEVICE void nib_barriers_begin(uint32_t shared, bool mapped)
{
    nib_slot slot = {shared, 0, 0};
    for (int i = 0; i < STAGES; i++) {
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_WEIGHTS), VALUES_BYTES > 0 ? 2 : 1);
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_ACT), mapped ? 1 : LOADER_WARPS);
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_EMPTY), CONSUMER_THREADS / 32);
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_SUMS), 1);
        slot.index++;
    }
    nib_barrier_init_fence();
}

/* ---- weights ------------------------------------------------------------------------------ */

/* The blocks of the layout that a tile has. */
struct tile_blocks {
    int n[BLOCKS];
};

NIB_DEVICE tile_blocks blocks_of(const nib_cuda_params &p, int n_block)
{
    tile_blocks blocks;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        blocks.n[i] = nib_block_of(p, n_block, i);
    return blocks;
}

/* Planes follow each other in a stage. */
template <int PLANE> NIB_CONSTEXPR int codes_place(void)
{
    return BLOCKS * PLANE_BLOCK * nib_plane_shift(PLANE);
}

template <int PLANE>
NIB_DEVICE void copy_plane(const nib_cuda_params &p, const tile_blocks &blocks, int k,
                           uint32_t stage, uint32_t barrier)
{
    constexpr int bytes = PLANE_BLOCK * nib_plane_bits(PLANE);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        nib_bulk_copy(stage + codes_place<PLANE>() + i * bytes,
                      (const uint8_t *)p.codes[PLANE] +
                          ((int64_t)blocks.n[i] * p.k_blocks + k) * bytes,
                      bytes, barrier);
}

/* One thread. */
NIB_DEVICE void copy_codes(const nib_cuda_params &p, const nib_slot &slot,
                           const tile_blocks &blocks, int k)
{
    const uint32_t stage = nib_slot_weights(slot);
    const uint32_t barrier = nib_slot_barrier(slot, BARRIER_WEIGHTS);
    nib_barrier_expect(barrier, SCALES_AT);
    copy_plane<0>(p, blocks, k, stage, barrier);
    if constexpr (NIB_PLANES > 1)
        copy_plane<1>(p, blocks, k, stage, barrier);
    if constexpr (NIB_PLANES > 2)
        copy_plane<2>(p, blocks, k, stage, barrier);
}

/* Scales or zeros, BYTES each, of a block's chunks in stage k. The last stage may reach beyond the
 * last group, which then is repeated: activations there are zero, but what lay there before need
 * not be a number. */
template <int BYTES>
NIB_DEVICE void copy_groups(const nib_cuda_params &p, const void *array, int n_block, int k,
                            uint32_t to, uint32_t barrier)
{
    const int first = k * CHUNKS, groups = (int)p.groups;
    const uint8_t *block = (const uint8_t *)array;
    if (!p.one_scale)
        block += (int64_t)n_block * groups * (64 * BYTES);
    if ((int)p.group == CHUNK_K && first + CHUNKS <= groups) {
        nib_bulk_copy(to, block + (int64_t)first * (64 * BYTES), CHUNKS * 64 * BYTES, barrier);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < CHUNKS; i++) {
        const int group = NIB_SPEC_GROUP == 0 ? 0 : (first + i) * CHUNK_K / (int)p.group;
        nib_bulk_copy(to + i * (64 * BYTES),
                      block + (int64_t)nib_minimum(group, groups - 1) * (64 * BYTES), 64 * BYTES,
                      barrier);
    }
}

/* One thread. */
NIB_DEVICE void copy_values(const nib_cuda_params &p, const nib_slot &slot,
                            const tile_blocks &blocks, int k)
{
    const uint32_t stage = nib_slot_weights(slot);
    const uint32_t barrier = nib_slot_barrier(slot, BARRIER_WEIGHTS);
    nib_barrier_expect(barrier, VALUES_BYTES);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        if constexpr (SCALED)
            copy_groups<SCALE_BYTES>(p, p.scales, blocks.n[i], k,
                                     stage + SCALES_AT + i * (CHUNKS * 64 * SCALE_BYTES), barrier);
        if constexpr (ZEROED)
            copy_groups<ZERO_BYTES>(p, p.zeros, blocks.n[i], k,
                                    stage + ZEROS_AT + i * (CHUNKS * 64 * ZERO_BYTES), barrier);
    }
}

/* ---- activations -------------------------------------------------------------------------- */

/* One thread. */
NIB_DEVICE void copy_act(const nib_cuda_mapped_params &x, const nib_slot &slot, int m0, int k)
{
    const uint32_t act = nib_slot_act(slot), full = nib_slot_barrier(slot, BARRIER_ACT);
    nib_barrier_expect(full, ACT_STAGE);
    nib_tensor_copy(act, &x.act_map, k * STAGE_K, m0, full);
    nib_tensor_copy(act + ACT_BOX, &x.act_map, k * STAGE_K + 64, m0, full);
}

/* All loaders, from any address: a 16-byte piece of a row at a time, to where the tensor copy would
 * have put it. */
NIB_DEVICE void fill_act(const nib_cuda_params &p, const nib_slot &slot, int m0, int k)
{
    const uint32_t act = nib_slot_act(slot);
    const int thread = nib_thread() % 128, piece = thread & 15;
    const int64_t column = (int64_t)k * STAGE_K + piece * 8;
    const int columns = (int)(p.k - column);
#pragma unroll 1
    for (int row = thread >> 4; row < TILE_M; row += 8) {
        uint32_t words[4] = {0, 0, 0, 0};
        if (m0 + row < p.m) {
            const uint8_t *from = (const uint8_t *)p.act + ((m0 + row) * p.lda + column) * 2;
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (i < columns)
                    words[i / 2] |= nib_load_element<2>(from, i) << (16 * (i % 2));
        }
        nib_shared_store4(act + (piece >> 3) * ACT_BOX + row * 128 + (((piece ^ row) & 7) << 4),
                          words);
    }
    nib_fence_async(); /* the products read these stores */
    __syncwarp();
    if (thread % 32 == 0)
        nib_barrier_arrive(nib_slot_barrier(slot, BARRIER_ACT));
}

/* ---- sums of activations ------------------------------------------------------------------ */

/* Sums over each chunk's columns of 8 tokens, by products with ones: [chunk][token]. */
NIB_DEVICE void sum_tokens(uint32_t act, uint32_t sums, int first)
{
    static constexpr uint32_t ones[4] = {NIB_ONES, NIB_ONES, NIB_ONES, NIB_ONES};
    const int lane = nib_thread() % 32, row = first + (lane & 7);
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t b[4];
#pragma unroll
    for (int step = 0; step < STAGE_K / 16; step++) {
        if (step % 2 == 0) { /* two steps: four pieces of 8 columns */
            const int piece = step * 2 + (lane >> 3);
            nib_load_matrix4(b,
                             act + (piece >> 3) * ACT_BOX + row * 128 + (((piece ^ row) & 7) << 4));
        }
        const uint32_t now[2] = {b[step % 2 * 2], b[step % 2 * 2 + 1]};
        nib_mma_codes(d, ones, now);
        if ((step + 1) * 16 % CHUNK_K == 0) {
            if (lane < 4) { /* all rows of the product are equal: row 0, tokens 2t and 2t + 1 */
                const uint32_t pair[2] = {nib_bits_from_float(d[0]), nib_bits_from_float(d[1])};
                const int chunk = step * 16 / CHUNK_K;
                nib_shared_store2(sums + (chunk * TILE_M + first + 2 * lane) * 4, pair);
            }
            d[0] = d[1] = d[2] = d[3] = 0.0f;
        }
    }
}

/* One warp, of a stage that may be on its way still. */
NIB_DEVICE void sum_act(const nib_slot &slot)
{
    const uint32_t sums = nib_slot_weights(slot) + SUMS_AT;
    nib_barrier_wait(nib_slot_barrier(slot, BARRIER_ACT), slot.parity);
#pragma unroll 1
    for (int first = 0; first < TILE_M; first += 8)
        sum_tokens(nib_slot_act(slot), sums, first);
    __syncwarp(); /* all lanes' sums are there */
    if (nib_thread() % 32 == 0)
        nib_barrier_arrive(nib_slot_barrier(slot, BARRIER_SUMS));
}

/* ---- the loaders -------------------------------------------------------------------------- */

/* Part PART of a stage: sums by a whole warp, the others by one thread. */
template <int PART>
NIB_DEVICE void load_part(const nib_cuda_mapped_params &x, const nib_slot &slot,
                          const tile_blocks &blocks, int m0, int k)
{
    if constexpr (PART == LOADS_CODES)
        copy_codes(x.p, slot, blocks, k);
    else if constexpr (PART == LOADS_ACT)
        copy_act(x, slot, m0, k);
    else if constexpr (PART == LOADS_VALUES)
        copy_values(x.p, slot, blocks, k);
    else
        sum_act(slot);
}

/* All stages' part PART. */
template <int PART>
NIB_DEVICE void load_parts(const nib_cuda_mapped_params &x, nib_slot slot, nib_work w)
{
    nib_piece piece;
    while (nib_work_next(x.p, w, piece)) {
        const nib_place place = nib_place_of(x.p, piece.tile);
        const tile_blocks blocks = blocks_of(x.p, place.n_block);
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            if constexpr (PART != LOADS_SUMS) /* whose stages are filled by others */
                nib_barrier_wait(nib_slot_barrier(slot, BARRIER_EMPTY), slot.parity ^ 1);
            load_part<PART>(x, slot, blocks, place.m0, k);
            nib_slot_next(slot);
        }
    }
}

/* The same of all parts, with activations from any address. */
NIB_DEVICE void load_unmapped(const nib_cuda_mapped_params &x, nib_slot slot, nib_work w, int warp)
{
    nib_piece piece;
    while (nib_work_next(x.p, w, piece)) {
        const nib_place place = nib_place_of(x.p, piece.tile);
        const tile_blocks blocks = blocks_of(x.p, place.n_block);
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            nib_barrier_wait(nib_slot_barrier(slot, BARRIER_EMPTY), slot.parity ^ 1);
            if (warp == LOADS_CODES && nib_elect())
                copy_codes(x.p, slot, blocks, k);
            if (VALUES_BYTES > 0 && warp == LOADS_VALUES && nib_elect())
                copy_values(x.p, slot, blocks, k);
            __syncwarp();
            fill_act(x.p, slot, place.m0, k);
            if (ACT_SUMS && warp == LOADS_SUMS)
                sum_act(slot);
            nib_slot_next(slot);
        }
    }
}

/* The work of the loaders' warps. */
NIB_DEVICE void nib_load(const nib_cuda_mapped_params &x, uint32_t shared, int cluster, int warp)
{
    const nib_slot slot = {shared, 0, 0};
    const nib_work w = nib_work_begin(x.p, cluster);
    if (!x.mapped) {
        nib_wait_for_primary(); /* act may be its output */
        load_unmapped(x, slot, w, warp);
    } else if (warp == LOADS_CODES) {
        if (nib_elect())
            load_parts<LOADS_CODES>(x, slot, w);
    } else if (warp == LOADS_ACT) {
        if (nib_elect()) {
            nib_map_prefetch(&x.act_map);
            nib_wait_for_primary();
            load_parts<LOADS_ACT>(x, slot, w);
        }
    } else if (VALUES_BYTES > 0 && warp == LOADS_VALUES) {
        if (nib_elect())
            load_parts<LOADS_VALUES>(x, slot, w);
    } else if (ACT_SUMS && warp == LOADS_SUMS) {
        load_parts<LOADS_SUMS>(x, slot, w);
    }
    __syncwarp();
}

#endif
