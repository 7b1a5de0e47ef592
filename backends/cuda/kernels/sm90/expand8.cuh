/* SPDX-License-Identifier: Apache-2.0
 *
 * The last warpgroup of gemm8.cu, the makers: their first thread starts the copies of stages, and
 * all four warps turn each stage's codes into operands in shared memory, laid out like activations,
 * for products with both operands there. Barriers:
 *
 *     full [stage]    the copies' bytes are there       makers -> makers and consumers
 *     ready [buffer]  operands are there                makers -> consumers
 *     empty [buffer]  products have read the operands   consumers -> makers
 *                     and activations of their stage
 *
 * Stages use one buffer after the other, and a buffer that is free says that its stage of then is
 * free as well. So makers, who wait for buffers only, start the copies of the stage that is LEAD
 * ahead when they begin one, and never wait for room in the ring.
 *
 * Where operands are in registers (mainloop8.cuh) makers only copy, and `empty` is of stages.
 */
#ifndef NIB_CUDA_SM90_EXPAND8_CUH
#define NIB_CUDA_SM90_EXPAND8_CUH

static constexpr int LEAD = STAGES - BUFFERS;
static_assert(LEAD >= 1, "copies are started ahead");

/* ---- copies ------------------------------------------------------------------------------- */

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
    nib_slot_next<STAGES>(f.stage);
    f.k++;
    if (f.k == f.piece.k_end)
        feed_piece(p, f);
}

/* Warps that start copies: of codes, of scales and of activations. */
enum { COPIES_CODES, COPIES_ACT, COPIES_SCALES };

NIB_DEVICE void feed_weights(const nib_cuda_mapped_params &x, uint32_t shared, const nib_feed &f,
                             int warp)
{
    if (warp == COPIES_CODES && nib_elect())
        copy_codes(x.p, shared, f.stage, f.place.n_block, f.k);
    if (SCALED && warp == COPIES_SCALES && nib_elect())
        copy_scales(x.p, shared, f.stage, f.place.n_block, f.k);
    __syncwarp();
}

NIB_DEVICE void feed_act(const nib_cuda_mapped_params &x, uint32_t shared, const nib_feed &f,
                         int warp)
{
    if (!x.mapped)
        fill_act(x.p, shared, f.stage, f.place.m0, f.k);
    else if (warp == COPIES_ACT && nib_elect())
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
    for (int i = 0; i < LEAD && f.more; i++) {
        feed_weights(x, shared, f, warp);
        feed_next(x.p, f);
    }
    nib_wait_for_primary();
#pragma unroll 1
    for (int i = 0; i < LEAD && ahead.more; i++) {
        feed_act(x, shared, ahead, warp);
        feed_next(x.p, ahead);
    }
}

/* ---- operands ----------------------------------------------------------------------------- */

/* Rows g and g + 8 of step `step`; `to`: of the lane in its unit. Pieces of 16 columns are swapped
 * by the row's number, g. */
NIB_DEVICE void store_step(uint32_t to, int step, uint32_t g, uint32_t g8)
{
    const uint32_t at = to ^ (uint32_t)step << 4;
    nib_shared_store(at, g);
    nib_shared_store(at + 8 * 128, g8);
}

/* Units of 16 rows that a warp makes: of all blocks of a stage, or of one block. */
static constexpr int UNITS = EXPANDED ? 1 : 4 * BLOCKS / MAKER_WARPS, WORDS = UNITS * NIB_WORDS;

/* A lane's words become operands, all exchanged, then all stored: one after the other each would
 * wait for itself. `to`: of the lane in its unit. */
NIB_DEVICE void store_words(const nib_operands &x, uint32_t (&q)[WORDS], uint32_t to)
{
    uint32_t g, g8;
#pragma unroll
    for (int i = 0; i < WORDS; i += 2) {
        if constexpr (NIB_CODE.bits == 8)
            nib_exchange_bytes(x, q[i], q[i + 1]);
        else
            nib_exchange_nibbles(x, q[i], q[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < WORDS; i += 2) {
        const uint32_t block = to + i / NIB_WORDS * OPERAND_BLOCK;
        if constexpr (NIB_CODE.bits == 8) {
            store_step(block, i % NIB_WORDS / 2, q[i], q[i + 1]);
        } else {
            nib_expand_nibbles(q[i], g, g8);
            store_step(block, i % NIB_WORDS, g, g8);
            nib_expand_nibbles(q[i + 1], g, g8);
            store_step(block, i % NIB_WORDS + 1, g, g8);
        }
    }
}

/* Place of a lane in the operands of unit `unit` of a block. */
NIB_DEVICE uint32_t lane_place(int unit)
{
    const int lane = nib_thread() % 32, row = unit * 16 + lane / 4;
    return row * 128 + (lane / 4 << 4) + lane % 4 * 4;
}

/* All of a stage; warp w makes unit w % 4, 16 rows, of one block or all. The layout is mma64x128.
 */
NIB_DEVICE void expand_stage(const nib_operands &x, uint32_t weights, uint32_t operands, int warp)
{
    const int unit = warp % 4, first = warp / 4;
    const uint32_t from = weights + first * CODE_BLOCK + unit * 512 + nib_thread() % 32 * 16;
    uint32_t q[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; i += 4)
        nib_shared_load4(q + i, from + i / NIB_WORDS * CODE_BLOCK + i % NIB_WORDS / 4 * 2048);
    store_words(x, q, operands + first * OPERAND_BLOCK + lane_place(unit));
}

/* EXPANDED: all blocks of W to the workspace, by blocks of 128 threads; `shared` has room for the
 * operands of one. */
NIB_DEVICE void expand_all(const nib_cuda_params &p, uint32_t shared)
{
    const nib_operands x = nib_operands_begin();
    const int thread = nib_thread(), warp = thread / 32;
    const int64_t blocks = (int64_t)p.n_blocks * p.k_blocks;
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const uint8_t *from = (const uint8_t *)p.codes[0] + block * CODE_BLOCK + thread * 16;
        uint8_t *to = (uint8_t *)p.partial + block * OPERAND_BLOCK + thread * 16;
        uint32_t q[WORDS], words[4];
#pragma unroll
        for (int i = 0; i < WORDS; i += 4)
            nib_global_load4(q + i, from + i / 4 * 2048);
        __syncthreads(); /* the block before has been read */
        store_words(x, q, shared + lane_place(warp));
        __syncthreads(); /* this one is there */
#pragma unroll
        for (int i = 0; i < OPERAND_BLOCK; i += 2048) {
            nib_shared_load4(words, shared + thread * 16 + i);
            nib_global_store4(to + i, words);
        }
    }
}

/* ---- the makers --------------------------------------------------------------------------- */

/* Copies alone, as soon as there is room. */
NIB_DEVICE void nib_copy_stages(const nib_cuda_mapped_params &x, uint32_t shared, nib_feed &ahead,
                                int warp)
{
    nib_slot stage = {0, 0};
    for (; ahead.more; feed_next(x.p, ahead)) {
        nib_barrier_wait(empty_of(shared, stage), stage.parity);
        feed_weights(x, shared, ahead, warp);
        feed_act(x, shared, ahead, warp);
        nib_slot_next<STAGES>(stage);
    }
}

/* Copies ahead, and operands of stage after stage. */
NIB_DEVICE void nib_make_stages(const nib_cuda_mapped_params &x, uint32_t shared, nib_feed &ahead,
                                int warp)
{
    const nib_operands operands = nib_operands_begin();
    nib_slot stage = {0, 0}, buffer = {0, 0};
    nib_work w = nib_work_begin(x.p, 1);
    nib_piece piece;
    while (nib_work_next(x.p, w, piece)) {
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            nib_barrier_wait(empty_of(shared, buffer), buffer.parity ^ 1);
            if (ahead.more) {
                feed_weights(x, shared, ahead, warp);
                feed_act(x, shared, ahead, warp);
                feed_next(x.p, ahead);
            }
            nib_barrier_wait(full_of(shared, stage), stage.parity);
            expand_stage(operands, weights_of(shared, stage), operands_of(shared, buffer), warp);
            nib_fence_async(); /* products read these stores */
            __syncwarp();
            if (nib_thread() % 32 == 0)
                nib_barrier_arrive(ready_of(shared, buffer));
            nib_slot_next<STAGES>(stage);
            nib_slot_next<RELEASES>(buffer);
        }
    }
}

/* The work of the makers' warps. */
NIB_DEVICE void nib_make(const nib_cuda_mapped_params &x, uint32_t shared, int warp)
{
    nib_feed ahead = feed_begin(x.p);
    feed_first(x, shared, ahead, warp);
    if constexpr (BUFFERS == 0)
        nib_copy_stages(x, shared, ahead, warp);
    else
        nib_make_stages(x, shared, ahead, warp);
}

#endif
