/* SPDX-License-Identifier: Apache-2.0
 *
 * The last warpgroup of the gemm kernel for bytes (gemm8.cu), the makers: their first thread starts
 * the copies of stages, and all four warps turn each stage's codes into operands in shared memory,
 * laid out like activations, for products with both operands there. Barriers:
 *
 *     full [stage]    the copies' bytes are there       makers -> makers and consumers
 *     ready [buffer]  operands are there                makers -> consumers
 *     empty [buffer]  products have read the operands,  consumers -> makers
 *                     and activations of their stage
 *
 * A stage uses buffer after buffer in turn, and a buffer that is free says that its stage of then
 * is free as well. So makers, who wait for buffers only, start the copies of the stage that is LEAD
 * ahead when they begin one, and never wait for room in the ring.
 */
#ifndef NIB_CUDA_SM90_EXPAND8_CUH
#define NIB_CUDA_SM90_EXPAND8_CUH

static constexpr int BUFFERS = NIB_SPEC_BUFFERS, LEAD = STAGES - BUFFERS;
static_assert(LEAD >= 1 && BUFFERS <= STAGES, "barriers of buffers take the places of stages'");

/* Operands: [buffer][row of W][128 bytes of columns], swizzled, at multiples of 1024. */
static constexpr int BLOCK_BYTES = 64 * 128, BUFFER_BYTES = BLOCKS * BLOCK_BYTES;
static constexpr int BUFFERS_AT = (BARRIERS_AT + BARRIERS * STAGES * 8 + 1023) / 1024 * 1024;

enum { BARRIER_READY = BARRIER_SUMS }; /* load.cuh's place for sums, which bytes have not */

/* A buffer as the one who fills or reads it counts them. */
typedef struct nib_buffer {
    uint32_t shared;
    int index;
    uint32_t parity; /* of the phase in which it is filled */
} nib_buffer;

NIB_DEVICE void nib_buffer_next(nib_buffer &b)
{
    b.index++;
    if (b.index == BUFFERS) {
        b.index = 0;
        b.parity ^= 1;
    }
}

NIB_DEVICE uint32_t nib_buffer_address(const nib_buffer &b)
{
    return b.shared + BUFFERS_AT + b.index * BUFFER_BYTES;
}

NIB_DEVICE uint32_t nib_buffer_barrier(const nib_buffer &b, int which)
{
    return b.shared + BARRIERS_AT + (which * STAGES + b.index) * 8;
}

/* One thread, before all others go on. Without a map every maker warp arrives for its part of act.
 */
NIB_DEVICE void nib_bytes_barriers_begin(uint32_t shared, bool mapped)
{
    const nib_slot first = {shared, 0, 0};
    for (int i = 0; i < STAGES; i++)
        nib_barrier_init(nib_slot_barrier(first, BARRIER_FULL) + i * 8,
                         mapped ? 1 : 1 + LOADER_WARPS);
    for (int i = 0; i < BUFFERS; i++) {
        nib_barrier_init(nib_slot_barrier(first, BARRIER_READY) + i * 8, LOADER_WARPS);
        nib_barrier_init(nib_slot_barrier(first, BARRIER_EMPTY) + i * 8, CONSUMER_THREADS / 32);
    }
    nib_barrier_init_fence();
}

/* ---- copies ------------------------------------------------------------------------------- */

/* The stages of a block one after the other, whatever tile they are of. */
typedef struct nib_feed {
    nib_work work;
    nib_piece piece;
    nib_place place;
    nib_slot slot;
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

NIB_DEVICE nib_feed feed_begin(const nib_cuda_params &p, uint32_t shared, int cluster)
{
    nib_feed f;
    f.work = nib_work_begin(p, cluster);
    f.slot = nib_slot{shared, 0, 0};
    feed_piece(p, f);
    return f;
}

NIB_DEVICE void feed_next(const nib_cuda_params &p, nib_feed &f)
{
    nib_slot_next(f.slot);
    f.k++;
    if (f.k == f.piece.k_end)
        feed_piece(p, f);
}

NIB_DEVICE void feed_weights(const nib_cuda_mapped_params &x, const nib_feed &f, int warp)
{
    if (warp == 0 && nib_elect())
        copy_weights(x.p, f.slot, f.place.n_block, f.k, x.mapped);
    __syncwarp();
}

NIB_DEVICE void feed_act(const nib_cuda_mapped_params &x, const nib_feed &f, int warp)
{
    if (!x.mapped)
        fill_act(x.p, f.slot, f.place.m0, f.k);
    else if (warp == 0 && nib_elect())
        copy_act(x, f.slot, f.place.m0, f.k);
    __syncwarp();
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

/* 16 bytes of a lane's codes, from step `step` on: four steps of 4 bits, two of 8. */
NIB_DEVICE void expand_words(const nib_operands &x, uint32_t from, uint32_t to, int step)
{
    uint32_t q[4];
    nib_shared_load4(q, from);
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        if constexpr (NIB_CODE.bits == 8) {
            nib_exchange_bytes(x, q[i], q[i + 1]);
            store_step(to, step + i / 2, q[i], q[i + 1]);
        } else {
            uint32_t g, g8;
            nib_exchange_nibbles(x, q[i], q[i + 1]);
            nib_expand_nibbles(q[i], g, g8);
            store_step(to, step + i, g, g8);
            nib_expand_nibbles(q[i + 1], g, g8);
            store_step(to, step + i + 1, g, g8);
        }
    }
}

/* All of a stage; warp w makes unit w, 16 rows, of each block. */
NIB_DEVICE void expand_stage(const nib_operands &x, const nib_slot &slot, const nib_buffer &b,
                             int warp)
{
    constexpr int words = NIB_CODE.bits / 2, steps = 8 / words; /* 16 bytes each; steps of one */
    const int lane = nib_thread() % 32, row = warp * 16 + lane / 4;
    const uint32_t from = nib_slot_weights(slot) + warp * 512 + lane * 16;
    const uint32_t to = nib_buffer_address(b) + row * 128 + (lane / 4 << 4) + lane % 4 * 4;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < words; i++)
            expand_words(x, from + block * (PLANE_BLOCK * NIB_CODE.bits) + i * 2048,
                         to + block * BLOCK_BYTES, i * steps);
}

/* ---- the makers --------------------------------------------------------------------------- */

/* The first stages: weights at once, and activations when the kernel before has written them. */
NIB_DEVICE void feed_first(const nib_cuda_mapped_params &x, nib_feed &ahead, int warp)
{
    nib_feed f = ahead;
#pragma unroll 1
    for (int i = 0; i < LEAD && f.more; i++) {
        feed_weights(x, f, warp);
        feed_next(x.p, f);
    }
    nib_wait_for_primary();
#pragma unroll 1
    for (int i = 0; i < LEAD && ahead.more; i++) {
        feed_act(x, ahead, warp);
        feed_next(x.p, ahead);
    }
}

/* The work of the makers' warps, 0..3. */
NIB_DEVICE void nib_make(const nib_cuda_mapped_params &x, uint32_t shared, int cluster, int warp)
{
    const nib_operands operands = nib_operands_begin();
    nib_feed ahead = feed_begin(x.p, shared, cluster);
    nib_slot slot = {shared, 0, 0};
    nib_buffer buffer = {shared, 0, 0};
    nib_work w = nib_work_begin(x.p, cluster);
    nib_piece piece;
    feed_first(x, ahead, warp);
    while (nib_work_next(x.p, w, piece)) {
#pragma unroll 1
        for (int k = piece.k_begin; k < piece.k_end; k++) {
            nib_barrier_wait(nib_buffer_barrier(buffer, BARRIER_EMPTY), buffer.parity ^ 1);
            if (ahead.more) {
                feed_weights(x, ahead, warp);
                feed_act(x, ahead, warp);
                feed_next(x.p, ahead);
            }
            nib_barrier_wait(nib_slot_barrier(slot, BARRIER_FULL), slot.parity);
            expand_stage(operands, slot, buffer, warp);
            nib_fence_async(); /* products read these stores */
            __syncwarp();
            if (nib_thread() % 32 == 0)
                nib_barrier_arrive(nib_buffer_barrier(buffer, BARRIER_READY));
            nib_slot_next(slot);
            nib_buffer_next(buffer);
        }
    }
}

#endif
