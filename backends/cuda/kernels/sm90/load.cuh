/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the gemm kernel on their way from global to shared memory. A ring of stages, each
 * with 128 k of the block's tile, is filled by the last warpgroup, the loaders, and read by the
 * others, a consumer each for 64 rows of W. Barriers of a stage:
 *
 *     full    the copies' bytes are there     loaders -> consumers
 *     sums    sums of activations are there   loaders -> consumers (ACT_SUMS)
 *     empty   all consumers have read it      consumers -> loaders
 *
 * One thread starts all copies: codes, scales and zeros lie in pieces of a stage's size (bulk
 * copies), activations come by the map of act (tensor copies, boxes of 128 bytes of columns).
 * Weights of the whole ring are on their way before the kernel waits for the one before it.
 * variants/sm90_gemm.c computes the same sizes.
 */
#ifndef NIB_CUDA_SM90_LOAD_CUH
#define NIB_CUDA_SM90_LOAD_CUH

static constexpr int STAGES = NIB_SPEC_STAGES;
static constexpr int LOADER_WARPS = 4;

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

/* Sizes and places in bytes. Activations of a stage are two boxes of 64 columns, or one of 128
 * of 8 bits, [token][128 bytes] swizzled, at multiples of 1024. The rest of a stage:
 *
 *     codes [plane][block]   scales, zeros [block][chunk][64]   sums [chunk][token] f32
 */
static constexpr int ACT_BYTES = NIB_BYTES ? 1 : 2, ACT_BOXES = STAGE_K * ACT_BYTES / 128;
static constexpr int ACT_BOX = TILE_M * 128, ACT_STAGE = ACT_BOXES * ACT_BOX;
static constexpr int SCALES_AT = BLOCKS * PLANE_BLOCK * NIB_CODE.bits;
static constexpr int ZEROS_AT = SCALES_AT + BLOCKS * CHUNKS * 64 * SCALE_BYTES;
static constexpr int SUMS_AT = ZEROS_AT + BLOCKS * CHUNKS * 64 * ZERO_BYTES;
static constexpr int WEIGHT_STAGE = SUMS_AT + (ACT_SUMS ? CHUNKS * TILE_M * 4 : 0);
static constexpr int COPIED_BYTES = SUMS_AT; /* what bulk copies bring of a stage */
static_assert(WEIGHT_STAGE % 16 == 0, "bulk copies want multiples of 16");

/* Sums on their way out, [token][64 + 4] f32 for each consumer: see output.cuh. */
static constexpr int OUT_TOKENS = TILE_M % 16 == 0 ? 16 : 8;
static constexpr int OUT_PITCH = 68, OUT_BYTES = OUT_TOKENS * OUT_PITCH * 4;

static constexpr int WEIGHTS_AT = STAGES * ACT_STAGE;
static constexpr int OUT_AT = WEIGHTS_AT + STAGES * WEIGHT_STAGE;
static constexpr int TABLE_AT = OUT_AT + BLOCKS * OUT_BYTES;
static constexpr int BARRIERS_AT = TABLE_AT + NIB_TABLE_BYTES;

enum { BARRIER_FULL, BARRIER_EMPTY, BARRIER_SUMS, BARRIERS };

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
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_FULL), mapped ? 1 : 1 + LOADER_WARPS);
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_EMPTY), CONSUMER_THREADS / 32);
        nib_barrier_init(nib_slot_barrier(slot, BARRIER_SUMS), LOADER_WARPS - 1);
        slot.index++;
    }
    nib_barrier_init_fence();
}

/* ---- weights ------------------------------------------------------------------------------ */

/* Planes follow each other in a stage. */
template <int PLANE> NIB_CONSTEXPR int codes_place(void)
{
    return BLOCKS * PLANE_BLOCK * nib_plane_shift(PLANE);
}

/* `block`: of the layout, that of the stage. */
template <int PLANE>
NIB_DEVICE void copy_plane(const nib_cuda_params &p, int64_t block, int index, uint32_t stage,
                           uint32_t full)
{
    constexpr int bytes = PLANE_BLOCK * nib_plane_bits(PLANE);
    nib_bulk_copy(stage + codes_place<PLANE>() + index * bytes,
                  (const uint8_t *)p.codes[PLANE] + block * bytes, bytes, full);
}

/* Scales or zeros, BYTES each, of a block's chunks in stage k. The last stage may reach beyond the
 * last group, which then is repeated: activations there are zero, but what lay there before need
 * not be a number. */
template <int BYTES>
NIB_DEVICE void copy_groups(const nib_cuda_params &p, const void *array, int n_block, int k,
                            uint32_t to, uint32_t full)
{
    const int first = k * CHUNKS;
    const uint8_t *block = (const uint8_t *)array + n_block * p.groups * (64 * BYTES);
    if (p.group == CHUNK_K && first + CHUNKS <= p.groups) {
        nib_bulk_copy(to, block + (int64_t)first * (64 * BYTES), CHUNKS * 64 * BYTES, full);
        return;
    }
    if (p.one_scale)
        block = (const uint8_t *)array;
#pragma unroll 1
    for (int i = 0; i < CHUNKS; i++) {
        const int group = NIB_SPEC_GROUP == 0 ? 0 : (first + i) * CHUNK_K / (int)p.group;
        nib_bulk_copy(to + i * (64 * BYTES),
                      block + (int64_t)nib_minimum(group, (int)p.groups - 1) * (64 * BYTES),
                      64 * BYTES, full);
    }
}

/* One thread: announces all bytes of a stage and starts the copies of its weights. */
NIB_DEVICE void copy_weights(const nib_cuda_params &p, const nib_slot &slot, int n_block, int k,
                             bool mapped)
{
    const uint32_t stage = nib_slot_weights(slot), full = nib_slot_barrier(slot, BARRIER_FULL);
    nib_barrier_expect(full, COPIED_BYTES + (mapped ? ACT_STAGE : 0));
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const int n = nib_block_of(p, n_block, i);
        const int64_t block = (int64_t)n * p.k_blocks + k;
        copy_plane<0>(p, block, i, stage, full);
        if constexpr (NIB_PLANES > 1)
            copy_plane<1>(p, block, i, stage, full);
        if constexpr (NIB_PLANES > 2)
            copy_plane<2>(p, block, i, stage, full);
        if constexpr (SCALED)
            copy_groups<SCALE_BYTES>(p, p.scales, n, k,
                                     stage + SCALES_AT + i * (CHUNKS * 64 * SCALE_BYTES), full);
        if constexpr (ZEROED)
            copy_groups<ZERO_BYTES>(p, p.zeros, n, k,
                                    stage + ZEROS_AT + i * (CHUNKS * 64 * ZERO_BYTES), full);
    }
}

/* ---- activations -------------------------------------------------------------------------- */

/* One thread. */
NIB_DEVICE void copy_act(const nib_cuda_mapped_params &x, const nib_slot &slot, int m0, int k)
{
    const uint32_t act = nib_slot_act(slot), full = nib_slot_barrier(slot, BARRIER_FULL);
#pragma unroll
    for (int i = 0; i < ACT_BOXES; i++)
        nib_tensor_copy(act + i * ACT_BOX, &x.act_map, k * STAGE_K + i * (128 / ACT_BYTES), m0,
                        full);
}

/* All loaders, from any address: a 16-byte piece of a row at a time, to where the tensor copy would
 * have put it. */
NIB_DEVICE void fill_act(const nib_cuda_params &p, const nib_slot &slot, int m0, int k)
{
    const uint32_t act = nib_slot_act(slot);
    constexpr int pieces = 8 * ACT_BOXES, piece_columns = 16 / ACT_BYTES;
    const int thread = nib_thread() % 128, piece = thread % pieces;
    const int64_t column = (int64_t)k * STAGE_K + piece * piece_columns;
    const int columns = (int)(p.k - column);
#pragma unroll 1
    for (int row = thread / pieces; row < TILE_M; row += 128 / pieces) {
        uint32_t words[4] = {0, 0, 0, 0};
        if (m0 + row < p.m) {
            const uint8_t *from =
                (const uint8_t *)p.act + ((m0 + row) * p.lda + column) * ACT_BYTES;
#pragma unroll
            for (int i = 0; i < piece_columns; i++)
                if (i < columns)
                    words[i * ACT_BYTES / 4] |= nib_load_element<ACT_BYTES>(from, i)
                                                << (8 * ACT_BYTES * i % 32);
        }
        nib_shared_store4(act + (piece >> 3) * ACT_BOX + row * 128 + (((piece ^ row) & 7) << 4),
                          words);
    }
    nib_fence_async(); /* the products read these stores */
    __syncwarp();
    if (thread % 32 == 0)
        nib_barrier_arrive(nib_slot_barrier(slot, BARRIER_FULL));
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

/* All loader warps but the first, of a stage that may be on its way still. */
NIB_DEVICE void sum_act(const nib_slot &slot, int warp)
{
    nib_barrier_wait(nib_slot_barrier(slot, BARRIER_FULL), slot.parity);
    const uint32_t sums = nib_slot_weights(slot) + SUMS_AT;
#pragma unroll 1
    for (int first = (warp - 1) * 8; first < TILE_M; first += (LOADER_WARPS - 1) * 8)
        sum_tokens(nib_slot_act(slot), sums, first);
    __syncwarp();
    if (nib_thread() % 32 == 0)
        nib_barrier_arrive(nib_slot_barrier(slot, BARRIER_SUMS));
}

/* ---- the loaders -------------------------------------------------------------------------- */

/* Weights of the first piece, as many stages as there are; nothing that an earlier kernel writes.
 * Returns how many. */
NIB_DEVICE int load_ahead(const nib_cuda_mapped_params &x, nib_slot slot, nib_work w)
{
    nib_piece piece;
    if (!nib_work_next(x.p, w, piece))
        return 0;
    const nib_place place = nib_place_of(x.p, piece.tile);
    const int count = nib_minimum(STAGES, piece.k_end - piece.k_begin);
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        copy_weights(x.p, slot, place.n_block, piece.k_begin + i, x.mapped);
        nib_slot_next(slot);
    }
    return count;
}

/* With a map: one thread of warp 0 starts all copies, the others sum. */
NIB_DEVICE void load_mapped(const nib_cuda_mapped_params &x, nib_slot slot, nib_work w)
{
    nib_piece piece;
    int ahead = load_ahead(x, slot, w);
    nib_wait_for_primary(); /* act may be its output */
    while (nib_work_next(x.p, w, piece)) {
        const nib_place place = nib_place_of(x.p, piece.tile);
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            if (ahead > 0) {
                ahead--;
            } else {
                nib_barrier_wait(nib_slot_barrier(slot, BARRIER_EMPTY), slot.parity ^ 1);
                copy_weights(x.p, slot, place.n_block, k, true);
            }
            copy_act(x, slot, place.m0, k);
            nib_slot_next(slot);
        }
    }
}

NIB_DEVICE void load_unmapped(const nib_cuda_mapped_params &x, nib_slot slot, nib_work w, int warp)
{
    nib_piece piece;
    nib_wait_for_primary(); /* act may be its output */
    while (nib_work_next(x.p, w, piece)) {
        const nib_place place = nib_place_of(x.p, piece.tile);
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            nib_barrier_wait(nib_slot_barrier(slot, BARRIER_EMPTY), slot.parity ^ 1);
            if (warp == 0 && nib_elect())
                copy_weights(x.p, slot, place.n_block, k, false);
            __syncwarp();
            fill_act(x.p, slot, place.m0, k);
            if (ACT_SUMS && warp > 0)
                sum_act(slot, warp);
            nib_slot_next(slot);
        }
    }
}

NIB_DEVICE void sum_mapped(const nib_cuda_mapped_params &x, nib_slot slot, nib_work w, int warp)
{
    nib_piece piece;
    while (nib_work_next(x.p, w, piece))
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            sum_act(slot, warp);
            nib_slot_next(slot);
        }
}

/* The work of the loaders' warps, 0..3. */
NIB_DEVICE void nib_load(const nib_cuda_mapped_params &x, uint32_t shared, int cluster, int warp)
{
    const nib_slot slot = {shared, 0, 0};
    const nib_work w = nib_work_begin(x.p, cluster);
    if (!x.mapped)
        load_unmapped(x, slot, w, warp);
    else if (warp > 0 && ACT_SUMS)
        sum_mapped(x, slot, w, warp);
    else if (warp == 0 && nib_elect())
        load_mapped(x, slot, w);
    __syncwarp();
}

#endif
