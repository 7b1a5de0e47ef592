/* SPDX-License-Identifier: Apache-2.0
 *
 * Few tokens (M <= 8) on Hopper: the time of reading the weights is all there is. Blocks of
 * threads own rows of W; their warps split them and K, block of 128 k by block; a cluster of
 * blocks, and then the grid, may split K further. Started with grid (row tiles times blocks of a
 * cluster, parts of K) by variants/sm90_decode.c; after it nib_reduce where the grid has parts.
 *
 *     a warp               copy 0, copy 1 | wait 0, products, copy 2 | wait 1, products, copy 3 |
 *     warps side by side   have the same k: they share a ring of act, which they fill in turn
 *
 * A warp waits for its own copies and for act: no barrier of the block stands between the first
 * copy and the last sum. As a dependent of the kernel before it, it has its rings filled with
 * weights while that one ends; blocks that take half of a multiprocessor find room there.
 */
/* Each needs those before it. */
/* clang-format off */
#include "nib_spec.h"

#include "kernels/common/types.cuh"
#include "kernels/common/params.h"
#include "kernels/sm80/mma.cuh"
#include "kernels/sm90/copy.cuh"
#include "kernels/sm80/dequant.cuh"
#include "kernels/sm80/epilogue.cuh"
#include "kernels/sm90/decode.cuh"
#include "kernels/sm80/decode_sums.cuh"
#include "kernels/sm90/decode_store.cuh"
#include "kernels/sm80/reduce.cuh"
/* clang-format on */

/* Turn `turn` of a ring of COUNT: its place, and the parity of the phase that ends it. */
template <int COUNT> struct nib_turn {
    uint32_t index, parity;

    __device__ __forceinline__ nib_turn(uint32_t turn)
        : index(turn % COUNT), parity(turn / COUNT & 1)
    {
    }
};

/* Blocks of K that the warps of this block of threads take. */
typedef struct nib_range {
    int begin, end;
} nib_range;

NIB_DEVICE nib_range nib_range_of(const nib_cuda_params &p, int part, int parts)
{
    const int share = parts == 1 ? p.k_blocks : (int)((uint32_t)p.k_blocks / (uint32_t)parts);
    const int more = p.k_blocks - share * parts;
    nib_range range;
    range.begin = part * share + nib_minimum(part, more);
    range.end = range.begin + share + (part < more);
    return range;
}

/* Barriers of the warp; by the first of the warps side by side those of act; by the first of all
 * that of the cluster's sums. */
NIB_DEVICE void nib_init_barriers(const nib_warp &warp, uint32_t received)
{
    if (nib_elect()) {
#pragma unroll
        for (int s = 0; s < NIB_SPEC_STAGES; s++)
            nib_barrier_init(warp.ring + NIB_FULL_AT + s * 8, 1);
        if (warp.along_n == 0)
#pragma unroll
            for (int s = 0; s < NIB_SPEC_ACT_SLOTS; s++) {
                nib_barrier_init(warp.act + NIB_ACT_FULL_AT + s * 8, 32);
                nib_barrier_init(warp.act + NIB_ACT_FREE_AT + s * 8, warp.sharers);
            }
        if (NIB_SPEC_CLUSTER > 1 && warp.along_n == 0 && warp.along_k == 0)
            nib_barrier_init(received, 1);
        nib_barrier_init_fence();
    }
    __syncwarp();
}

/* The first stages of the ring. */
NIB_DEVICE void nib_fill_ring(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                              int k_end)
{
    if (!warp.active)
        return;
    if (nib_elect())
#pragma unroll 1
        for (int s = 0; s < NIB_SPEC_STAGES; s++)
            if (k_block + s * NIB_WARPS_K < k_end)
                nib_copy_stage(p, warp, k_block + s * NIB_WARPS_K, warp.ring + s * NIB_STAGE_BYTES,
                               warp.ring + NIB_FULL_AT + s * 8);
    __syncwarp();
}

NIB_DEVICE bool nib_supplies(const nib_warp &warp, int turn)
{
    return warp.supplies >> turn % NIB_SPEC_WARPS_N & 1;
}

/* The first slots of act. */
NIB_DEVICE void nib_fill_act(const nib_cuda_params &p, const nib_warp &warp, int k_block, int k_end)
{
    if (!warp.active)
        return;
#pragma unroll 1
    for (int s = 0; s < NIB_SPEC_ACT_SLOTS; s++)
        if (nib_supplies(warp, s) && k_block + s * NIB_WARPS_K < k_end)
            nib_supply_act(p, warp, k_block + s * NIB_WARPS_K, s);
}

/* Slots that warps share are refilled this many blocks after they were read, so that a warp rarely
 * waits for the others. */
static constexpr int NIB_ACT_LAG = NIB_SPEC_WARPS_N > 1 && NIB_SPEC_ACT_SLOTS > 2 ? 1 : 0;

/* After turn `turn`: what comes next in act's ring. */
NIB_DEVICE void nib_refill_act(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                               int k_end, int turn)
{
    const int next = k_block + (NIB_SPEC_ACT_SLOTS - NIB_ACT_LAG) * NIB_WARPS_K;
    if (next >= k_end || turn < NIB_ACT_LAG || !nib_supplies(warp, turn - NIB_ACT_LAG))
        return;
    const nib_turn<NIB_SPEC_ACT_SLOTS> slot(turn - NIB_ACT_LAG);
    if constexpr (NIB_SPEC_WARPS_N > 1)
        nib_barrier_wait(warp.act + NIB_ACT_FREE_AT + slot.index * 8, slot.parity);
    nib_supply_act(p, warp, next, slot.index);
}

/* Block of 128 k of all that this warp takes: k_block, then every NIB_WARPS_K-th. */
NIB_DEVICE void nib_run_pipeline(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                                 int k_end, uint32_t table, float lift, nib_sums &sums)
{
    nib_long_sums whole = {};
#pragma unroll 1
    for (int turn = 0; k_block < k_end; turn++, k_block += NIB_WARPS_K) {
        const nib_turn<NIB_SPEC_STAGES> stage(turn);
        const nib_turn<NIB_SPEC_ACT_SLOTS> slot(turn);
        const uint32_t weights = warp.ring + stage.index * NIB_STAGE_BYTES;
        nib_barrier_wait(warp.ring + NIB_FULL_AT + stage.index * 8, stage.parity);
        nib_barrier_wait(warp.act + NIB_ACT_FULL_AT + slot.index * 8, slot.parity);
        nib_take_block(weights, warp.act + slot.index * NIB_SLOT_BYTES, warp.lane, table, lift,
                       whole, sums);
        __syncwarp(); /* all lanes have read the stage and the slot */
        const int next = k_block + NIB_SPEC_STAGES * NIB_WARPS_K;
        if (nib_elect()) {
            if (next < k_end)
                nib_copy_stage(p, warp, next, weights, warp.ring + NIB_FULL_AT + stage.index * 8);
            if constexpr (NIB_SPEC_WARPS_N > 1)
                nib_barrier_arrive(warp.act + NIB_ACT_FREE_AT + slot.index * 8);
        }
        nib_refill_act(p, warp, k_block, k_end, turn);
    }
    if constexpr (NIB_ONE_GROUP)
        nib_scale_long(p, warp, lift, whole, sums);
}

extern "C" __global__ void __launch_bounds__(NIB_SPEC_WARPS * 32, NIB_SPEC_RESIDENT)
    nib_decode(const __grid_constant__ nib_cuda_params p)
{
    extern __shared__ __align__(1024) uint8_t nib_shared[];
    const uint32_t shared = nib_shared_address(nib_shared);
    constexpr int blocks = NIB_SPEC_CLUSTER;
    const int rank = blocks > 1 ? (int)nib_cluster_rank() : 0;
    const int tile = (int)blockIdx.x / blocks, part = (int)blockIdx.y;
    nib_warp warp = nib_warp_of(p, shared, nib_thread(), tile);
    const nib_range range = nib_range_of(p, part * blocks + rank, p.split * blocks);
    const int k_block = range.begin + warp.along_k;
    nib_allow_dependents();
    if (warp.sharers <= 0) { /* of a grid that fills the chip: see variants/sm90_decode.c */
        nib_wait_for_primary();
        return;
    }
    nib_place_sources(p, warp);
    nib_init_barriers(warp, nib_received_barrier(shared));
    nib_fill_ring(p, warp, k_block, range.end);
    if constexpr (blocks > 1) {
        nib_expect_sums(p, shared, rank);
        nib_cluster_arrive_relaxed(); /* this block may be sent sums from now on */
    }
    float lift = 1.0f;
    if constexpr (NIB_TABLE_BYTES > 0) {
        lift = nib_table_lift(p.table);
        nib_table_fill(shared + NIB_TABLE_AT, p.table, lift, nib_thread(), NIB_SPEC_WARPS * 32);
        lift = nib_reciprocal(lift); /* a power of two: exact */
    }
    if (p.m < NIB_SPEC_TILE_M)
        nib_clear_act(p, shared);
    __syncthreads();        /* barriers, zeros and the table are there for all warps */
    nib_wait_for_primary(); /* act may be its output, out its input */
    nib_fill_act(p, warp, k_block, range.end);
    nib_sums sums = {};
    if (warp.active)
        nib_run_pipeline(p, warp, k_block, range.end,
                         shared + NIB_TABLE_AT + warp.lane * NIB_TABLE_ENTRY, lift, sums);
    /* All copies into the warp's ring were waited for: sums may overwrite it. */
    nib_put_sums(warp, sums);
    __syncthreads(); /* all warps' sums are there */
    nib_store_tile(p, shared, tile, part, rank);
}
