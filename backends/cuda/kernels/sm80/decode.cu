/* SPDX-License-Identifier: Apache-2.0
 *
 * Few tokens (M <= 16), sm_80 and newer: the time of reading the weights is all there is. Blocks of
 * threads own rows of W; their warps split K, block of 128 k by block, and the grid may split it
 * further. Started with grid (row tiles, parts of K) by variants/sm80_decode.c; after it nib_reduce
 * where there are parts.
 *
 *     warp 0   fetch 0 | fetch W | wait, products 0 | fetch 2W | wait, products W | ...   \
 *     warp 1   fetch 1 | fetch W + 1 | wait, products 1 | ...                              > sum
 *     ...                                                                                 /
 *
 * A warp waits for its own copies only: while one computes, the rings of all others fill, and the
 * rings of a multiprocessor are what is in flight (25 KB cover an H200's latency).
 */
/* Each needs those before it. */
/* clang-format off */
#include "nib_spec.h"

#include "kernels/common/types.cuh"
#include "kernels/common/params.h"
#include "kernels/sm80/mma.cuh"
#include "kernels/sm80/dequant.cuh"
#include "kernels/sm80/epilogue.cuh"
#include "kernels/sm80/decode.cuh"
#include "kernels/sm80/decode_sums.cuh"
#include "kernels/sm80/reduce.cuh"
/* clang-format on */

/* The first stages, a group of copies each; the first group has the weights of all of them. */
NIB_DEVICE void nib_fill_ring(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                              int k_end)
{
    /* Not unrolled: instructions are read from memory as well when a kernel begins. */
#pragma unroll 1
    for (int s = 0; s < NIB_SPEC_STAGES - 1; s++)
        if (k_block + s * NIB_WARPS_K < k_end)
            nib_fetch_constants(p, warp, k_block + s * NIB_WARPS_K,
                                warp.ring + s * NIB_STAGE_BYTES);
    nib_wait_for_primary(); /* act may be its output, out its input */
#pragma unroll 1
    for (int s = 0; s < NIB_SPEC_STAGES - 1; s++) {
        if (k_block + s * NIB_WARPS_K < k_end)
            nib_fetch_act(p, warp.lane, k_block + s * NIB_WARPS_K,
                          warp.ring + s * NIB_STAGE_BYTES + NIB_STAGE_ACT);
        nib_copy_commit();
    }
}

/* Block of 128 k of all parts that this warp takes: k_block, then every NIB_WARPS_K-th. */
NIB_DEVICE void nib_run_pipeline(const nib_cuda_params &p, const nib_warp &warp, int k_block,
                                 int k_end, uint32_t table, float lift, nib_sums &sums)
{
    nib_long_sums whole = {};
    nib_fill_ring(p, warp, k_block, k_end);
    if (NIB_SPEC_TILE_M > 1 && p.m < NIB_SPEC_TILE_M)
        nib_clear_act(p, warp);
    if constexpr (NIB_TABLE_BYTES > 0)
        __syncthreads(); /* the table is filled; the copies above are under way */
    uint32_t read = 0, write = (NIB_SPEC_STAGES - 1) * NIB_STAGE_BYTES;
#pragma unroll 1
    for (; k_block < k_end; k_block += NIB_WARPS_K) {
        /* The slot's last reader was the iteration before, behind the __syncwarp at its end. */
        const int next = k_block + (NIB_SPEC_STAGES - 1) * NIB_WARPS_K;
        if (next < k_end)
            nib_fetch_stage(p, warp, next, warp.ring + write);
        nib_copy_commit();
        nib_copy_wait<NIB_SPEC_STAGES - 1>();
        __syncwarp(); /* other lanes' copies of act and scales */
        nib_take_block(warp.ring + read, warp.ring + read + NIB_STAGE_ACT, warp.lane, table, lift,
                       whole, sums);
        __syncwarp(); /* all lanes have read the slot that is written next */
        write = read;
        read = read + NIB_STAGE_BYTES == NIB_RING_BYTES ? 0 : read + NIB_STAGE_BYTES;
    }
    if constexpr (NIB_ONE_GROUP)
        nib_scale_long(p, warp, lift, whole, sums);
}

/* The warp's sums to its own memory, [token][row]. */
NIB_DEVICE void nib_put_sums(const nib_warp &warp, const nib_sums &sums)
{
    const int g = warp.lane >> 2, t = warp.lane & 3;
#pragma unroll
    for (int u = 0; u < NIB_SPEC_UNITS; u++)
#pragma unroll
        for (int m = 0; m < NIB_TOKEN_TILES; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int token = m * 8 + 2 * t + (e & 1), row = u * 16 + g + 8 * (e >> 1);
                if (token < NIB_SPEC_TILE_M)
                    nib_shared_store(warp.ring + (token * NIB_SUM_PITCH + row) * 4,
                                     nib_bits_from_float(sums.sum[u][m][e]));
            }
}

/* The block's sum of row `row` (of NIB_SPEC_WARPS_N * NIB_ROWS) and a token, warps in order. */
NIB_DEVICE float nib_block_sum(uint32_t rings, int token, int row)
{
    const uint32_t at =
        rings + row / NIB_ROWS * NIB_WARP_BYTES + (token * NIB_SUM_PITCH + row % NIB_ROWS) * 4;
    float sum = nib_float_from_bits(nib_shared_load(at));
#pragma unroll
    for (int w = 1; w < NIB_WARPS_K; w++)
        sum = nib_sum_add(
            sum, nib_float_from_bits(nib_shared_load(at + w * NIB_SPEC_WARPS_N * NIB_WARP_BYTES)));
    return sum;
}

/* Sums of the block on their way out: outputs, or partial sums where K has parts. `paired`: gated,
 * without parts; the halves of every warp's units are rows n and n + N/2. */
NIB_DEVICE void nib_store_block(const nib_cuda_params &p, uint32_t rings, int tile, int part,
                                bool paired)
{
    const int half = paired ? NIB_ROWS / 2 : NIB_ROWS, rows = NIB_SPEC_WARPS_N * half;
    const int64_t columns = paired ? p.n / 2 : p.n;
#pragma unroll 1
    for (int o = nib_thread(); o < rows * (int)p.m; o += NIB_SPEC_WARPS * 32) {
        const int token =
            paired ? o / (NIB_SPEC_WARPS_N * NIB_ROWS / 2) : o / (NIB_SPEC_WARPS_N * NIB_ROWS);
        const int row = o - token * rows;
        const int64_t n = (int64_t)tile * rows + row;
        if (n >= columns)
            continue;
        const int at = paired ? row / (NIB_ROWS / 2) * NIB_ROWS + row % (NIB_ROWS / 2) : row;
        const float sum = nib_block_sum(rings, token, at);
        if (p.split > 1)
            p.partial[((int64_t)part * p.m + token) * p.n + n] = sum;
        else
            nib_epilogue_put(p, token, n, sum,
                             paired ? nib_block_sum(rings, token, at + half) : 0.0f, paired);
    }
}

extern "C" __global__ void __launch_bounds__(NIB_SPEC_WARPS * 32, NIB_SPEC_RESIDENT)
    nib_decode(const nib_cuda_params p)
{
    extern __shared__ __align__(128) uint8_t nib_shared[];
    const uint32_t shared = nib_shared_address(nib_shared), rings = shared + NIB_TABLE_BYTES;
    const int index = nib_thread() >> 5, tile = (int)blockIdx.x, part = (int)blockIdx.y;
    const bool paired = p.epilogue == NIB_EPILOGUE_SILU_GATED && p.split == 1;
    nib_warp warp;
    warp.lane = nib_thread() & 31;
    warp.ring = rings + index * NIB_WARP_BYTES;
    nib_place_units(p, paired, tile * NIB_SPEC_WARPS_N + index % NIB_SPEC_WARPS_N, &warp);
    int k_begin = 0, k_end = p.k_blocks;
    nib_allow_dependents();
    if (p.split > 1) {
        const int share = p.k_blocks / p.split, more = p.k_blocks % p.split;
        k_begin = part * share + nib_minimum(part, more);
        k_end = k_begin + share + (part < more);
    }

    float lift = 1.0f;
    if constexpr (NIB_TABLE_BYTES > 0) {
        lift = nib_table_lift(p.table);
        nib_table_fill(shared, p.table, lift, nib_thread(), NIB_SPEC_WARPS * 32);
        lift = nib_reciprocal(lift); /* a power of two: exact */
    }
    nib_sums sums = {};
    nib_run_pipeline(p, warp, k_begin + index / NIB_SPEC_WARPS_N, k_end,
                     shared + warp.lane * NIB_TABLE_ENTRY, lift, sums);
    nib_copy_wait<0>();
    __syncwarp(); /* the ring is drained: sums may overwrite it */
    nib_put_sums(warp, sums);
    __syncthreads(); /* all warps' sums are there */
    nib_store_block(p, rings, tile, part, paired && NIB_HALVES > 1);
}
