/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring of gemm8.cu: stages of 128 k of the block's tile, W and activations of 8 bits, on their
 * way from global to shared memory. The last warpgroup, the loaders, fills it: three of its warps
 * have a thread each that starts copies of codes (or operands, where expand8.cuh has made them
 * before), of scales, and of activations by their map. Where act has no map, all loaders fetch it
 * element by element. Barriers:
 *
 *     full [stage]    all bytes are there               loaders -> consumers
 *     empty [stage]   all consumers have read it        consumers -> loaders
 *
 * Constants of the family: NIB_SPEC_BYTES, NIB_SPEC_TILE_N (64 for each consumer) and
 * NIB_SPEC_TILE_M rows of W and act of a tile, NIB_SPEC_STAGES, NIB_SPEC_EXPANDED,
 * NIB_SPEC_GATED (tiles hold both halves of gated pairs). variants/sm90_gemm8.c computes the same
 * sizes.
 */
#ifndef NIB_CUDA_SM90_LOAD8_CUH
#define NIB_CUDA_SM90_LOAD8_CUH

static constexpr int STAGES = NIB_SPEC_STAGES;
/* W is operands, made by a kernel before this one, in the workspace. */
static constexpr bool EXPANDED = NIB_SPEC_EXPANDED;

/* Warps that start copies, and what of. */
enum { LOADS_CODES, LOADS_ACT, LOADS_SCALES, LOADER_WARPS = 4 };

static constexpr int CODE_BLOCK = 64 * STAGE_K / 8 * NIB_CODE.bits; /* bytes of a block of codes */

/* Scales of a stage: CHUNKS groups of CHUNK_K columns (a longer group appears in each). */
static constexpr int CHUNK_K = NIB_SPEC_GROUP == 0 ? STAGE_K : NIB_SPEC_GROUP;
static constexpr int CHUNKS = STAGE_K / CHUNK_K;
static constexpr bool SCALED = NIB_SPEC_SCALE != NIB_TYPE_NONE;
static constexpr int SCALE_BYTES = SCALED ? nib_element_bytes(NIB_SPEC_SCALE) : 0;
static_assert(NIB_SPEC_ZERO == NIB_ZERO_NONE, "variants/sm90_gemm8.c refuses zeros");

/* ---- shared memory ------------------------------------------------------------------------ */

/* Sizes and places in bytes. A stage's activations, [token][128 bytes] swizzled, begin at multiples
 * of 1024, and so do operands, [row of W][128 bytes] swizzled. The rest of a stage:
 *
 *     codes [block]   scales [block][chunk][64]
 */
static constexpr int ACT_STAGE = TILE_M * 128;
static constexpr int OPERAND_BLOCK = 64 * 128, OPERANDS = BLOCKS * OPERAND_BLOCK;
static constexpr int SCALES_AT = EXPANDED ? 0 : BLOCKS * CODE_BLOCK;
static constexpr int WEIGHT_STAGE = SCALES_AT + BLOCKS * CHUNKS * 64 * SCALE_BYTES;
static_assert(ACT_STAGE % 1024 == 0 && WEIGHT_STAGE % 16 == 0, "copies want such places");

/* Two halves of sums on their way out, [token][64 + 4] f32, and the bias, for each consumer: see
 * output.cuh. */
static constexpr int OUT_TOKENS = TILE_M % 16 == 0 ? 16 : 8, OUT_HALVES = 2;
static constexpr int OUT_PITCH = 68, OUT_BYTES = (OUT_HALVES * OUT_TOKENS + 1) * OUT_PITCH * 4;

static constexpr int OPERANDS_AT = STAGES * ACT_STAGE;
static constexpr int WEIGHTS_AT = OPERANDS_AT + (EXPANDED ? STAGES * OPERANDS : 0);
static constexpr int OUT_AT = WEIGHTS_AT + STAGES * WEIGHT_STAGE;
static constexpr int BARRIERS_AT = OUT_AT + BLOCKS * OUT_BYTES;

/* A stage of the ring, as the one who fills or reads it counts them. */
typedef struct nib_slot {
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

NIB_DEVICE uint32_t act_of(uint32_t shared, const nib_slot &stage)
{
    return shared + stage.index * ACT_STAGE;
}

NIB_DEVICE uint32_t weights_of(uint32_t shared, const nib_slot &stage)
{
    return shared + WEIGHTS_AT + stage.index * WEIGHT_STAGE;
}

NIB_DEVICE uint32_t operands_of(uint32_t shared, const nib_slot &stage)
{
    return shared + OPERANDS_AT + stage.index * OPERANDS;
}

NIB_DEVICE uint32_t full_of(uint32_t shared, const nib_slot &stage)
{
    return shared + BARRIERS_AT + stage.index * 8;
}

NIB_DEVICE uint32_t empty_of(uint32_t shared, const nib_slot &stage)
{
    return shared + BARRIERS_AT + (STAGES + stage.index) * 8;
}

/* One thread, before all others go on. Without a map every loader warp arrives for its part of act.
 */
NIB_DEVICE void barriers_begin(uint32_t shared, bool mapped)
{
    for (nib_slot slot = {0, 0}; slot.index < STAGES; slot.index++) {
        nib_barrier_init(full_of(shared, slot), 1 + SCALED + (mapped ? 1 : LOADER_WARPS));
        nib_barrier_init(empty_of(shared, slot), CONSUMER_THREADS / 32);
    }
    nib_barrier_init_fence();
}

/* ---- copies ------------------------------------------------------------------------------- */

/* Scales of a block of the layout in stage k. The last stage may reach beyond the last group, which
 * then is repeated: activations there are zero, but what lay there before need not be a number. */
NIB_DEVICE void copy_block_scales(const nib_cuda_params &p, int n_block, int k, uint32_t to,
                                  uint32_t full)
{
    const int first = k * CHUNKS;
    const uint8_t *block = (const uint8_t *)p.scales;
    if (!p.one_scale)
        block += n_block * p.groups * (64 * SCALE_BYTES);
    if (p.group == CHUNK_K && first + CHUNKS <= p.groups) {
        nib_bulk_copy(to, block + (int64_t)first * (64 * SCALE_BYTES), CHUNKS * 64 * SCALE_BYTES,
                      full);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < CHUNKS; i++) {
        const int group = NIB_SPEC_GROUP == 0 ? 0 : (first + i) * CHUNK_K / (int)p.group;
        nib_bulk_copy(to + i * (64 * SCALE_BYTES),
                      block + (int64_t)nib_minimum(group, (int)p.groups - 1) * (64 * SCALE_BYTES),
                      64 * SCALE_BYTES, full);
    }
}

/* The following are of one thread each, which announces its bytes: at some hundred clocks for a
 * stage, one alone would be too slow for all. */
NIB_DEVICE void copy_codes(const nib_cuda_params &p, uint32_t shared, const nib_slot &stage,
                           int n_block, int k)
{
    constexpr int bytes = EXPANDED ? OPERAND_BLOCK : CODE_BLOCK;
    const uint32_t to = EXPANDED ? operands_of(shared, stage) : weights_of(shared, stage);
    const uint8_t *from = (const uint8_t *)(EXPANDED ? p.partial : p.codes[0]);
    const uint32_t full = full_of(shared, stage);
    nib_barrier_expect(full, BLOCKS * bytes);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const int64_t block = (int64_t)nib_block_of(p, n_block, i) * p.k_blocks + k;
        nib_bulk_copy(to + i * bytes, from + block * bytes, bytes, full);
    }
}

NIB_DEVICE void copy_scales(const nib_cuda_params &p, uint32_t shared, const nib_slot &stage,
                            int n_block, int k)
{
    const uint32_t to = weights_of(shared, stage) + SCALES_AT, full = full_of(shared, stage);
    nib_barrier_expect(full, BLOCKS * CHUNKS * 64 * SCALE_BYTES);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        copy_block_scales(p, nib_block_of(p, n_block, i), k, to + i * (CHUNKS * 64 * SCALE_BYTES),
                          full);
}

NIB_DEVICE void copy_act(const nib_cuda_mapped_params &x, uint32_t shared, const nib_slot &stage,
                         int m0, int k)
{
    const uint32_t full = full_of(shared, stage);
    nib_barrier_expect(full, ACT_STAGE);
    nib_tensor_copy(act_of(shared, stage), &x.act_map, k * STAGE_K, m0, full);
}

/* All loaders, from any address: a 16-byte piece of a row at a time, to where the tensor copy would
 * have put it. */
NIB_DEVICE void fill_act(const nib_cuda_params &p, uint32_t shared, const nib_slot &stage, int m0,
                         int k)
{
    const int thread = nib_thread() - CONSUMER_THREADS, piece = thread % 8;
    const int64_t column = (int64_t)k * STAGE_K + piece * 16;
    const int columns = (int)(p.k - column);
#pragma unroll 1
    for (int row = thread / 8; row < TILE_M; row += 16) {
        uint32_t words[4] = {0, 0, 0, 0};
        if (m0 + row < p.m) {
            const uint8_t *from = (const uint8_t *)p.act + (m0 + row) * p.lda + column;
#pragma unroll
            for (int i = 0; i < 16; i++)
                if (i < columns)
                    words[i / 4] |= (uint32_t)from[i] << (8 * (i % 4));
        }
        nib_shared_store4(act_of(shared, stage) + row * 128 + (((piece ^ row) & 7) << 4), words);
    }
    nib_fence_async(); /* the products read these stores */
    __syncwarp();
    if (thread % 32 == 0)
        nib_barrier_arrive(full_of(shared, stage));
}

/* ---- the loaders -------------------------------------------------------------------------- */

/* The stages of a block one after the other, whatever tile they are of. */
typedef struct nib_feed {
    nib_work work;
    nib_piece piece;
    nib_place place;
    nib_slot stage;
    int k;
    bool more;
} nib_feed;

NIB_DEVICE void feed_piece(const nib_cuda_params &p, nib_feed &f)
{
    f.more = nib_work_next(p, f.work, f.piece);
    if (f.more) {
        f.place = nib_place_of(p, f.piece.tile);
        f.k = f.piece.k_begin;
    }
}

NIB_DEVICE nib_feed feed_begin(const nib_cuda_params &p)
{
    nib_feed f;
    f.work = nib_work_begin(p, 1);
    f.stage = nib_slot{0, 0};
    feed_piece(p, f);
    return f;
}

NIB_DEVICE void feed_next(const nib_cuda_params &p, nib_feed &f)
{
    nib_slot_next(f.stage);
    f.k++;
    if (f.k == f.piece.k_end)
        feed_piece(p, f);
}

NIB_DEVICE void feed_weights(const nib_cuda_mapped_params &x, uint32_t shared, const nib_feed &f,
                             int warp)
{
    if (warp == LOADS_CODES && nib_elect())
        copy_codes(x.p, shared, f.stage, f.place.n_block, f.k);
    if (SCALED && warp == LOADS_SCALES && nib_elect())
        copy_scales(x.p, shared, f.stage, f.place.n_block, f.k);
    __syncwarp();
}

NIB_DEVICE void feed_act(const nib_cuda_mapped_params &x, uint32_t shared, const nib_feed &f,
                         int warp)
{
    if (!x.mapped)
        fill_act(x.p, shared, f.stage, f.place.m0, f.k);
    else if (warp == LOADS_ACT && nib_elect())
        copy_act(x, shared, f.stage, f.place.m0, f.k);
    __syncwarp();
}

/* The first stages: weights at once, and activations when the kernel before has written them. */
NIB_DEVICE void feed_first(const nib_cuda_mapped_params &x, uint32_t shared, nib_feed &ahead,
                           int warp)
{
    nib_feed f = ahead;
    if constexpr (EXPANDED)
        nib_wait_for_primary(); /* it made the operands */
#pragma unroll 1
    for (int i = 0; i < STAGES && f.more; i++) {
        feed_weights(x, shared, f, warp);
        feed_next(x.p, f);
    }
    nib_wait_for_primary();
#pragma unroll 1
    for (int i = 0; i < STAGES && ahead.more; i++) {
        feed_act(x, shared, ahead, warp);
        feed_next(x.p, ahead);
    }
}

/* The work of the loaders' warps. */
NIB_DEVICE void nib_load(const nib_cuda_mapped_params &x, uint32_t shared, int warp)
{
    nib_feed ahead = feed_begin(x.p);
    nib_slot stage = {0, 0};
    feed_first(x, shared, ahead, warp);
    for (; ahead.more; feed_next(x.p, ahead)) {
        nib_barrier_wait(empty_of(shared, stage), stage.parity);
        feed_weights(x, shared, ahead, warp);
        feed_act(x, shared, ahead, warp);
        nib_slot_next(stage);
    }
}

#endif
