/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm kernel: any number of rows of act, every weight type, groups of multiples of 16. A block
 * computes a tile of TILE_N rows of W by TILE_M rows of act over its part of K: load.cuh,
 * mainloop.cuh. Here: which tile, the sum over the warps that share it, and the way out through
 * shared memory, so that stores follow the rows of out. variants/sm80_gemm.c launches it:
 *
 *     grid.x   tiles      grid.y   parts of K      shared   the ring of stages, or the tile of sums
 */
#include "nib_spec.h"

#include "kernels/common/types.cuh"

#include "kernels/common/params.h"

#include "kernels/sm80/mma.cuh"

#include "kernels/sm80/dequant.cuh"

#include "kernels/sm80/epilogue.cuh"

#include "kernels/sm80/load.cuh"

#include "kernels/sm80/mainloop.cuh"

#include "kernels/sm80/reduce.cuh"

/* Tiles of act that go along N together: what they read of act stays in L2 while each tile of W is
 * read once for all of them. */
static constexpr int RASTER_M = 8;

/* Sums of a tile in shared memory, [token][TILE_N + 4] f32: the 4 lets lanes of eight rows and four
 * pairs of tokens meet 32 banks. */
static constexpr int SUM_PITCH = TILE_N + 4;

typedef struct tile_place {
    int n_block;
    int64_t m0;
} tile_place;

NIB_DEVICE tile_place tile_of(const nib_cuda_params &p)
{
    const uint32_t tiles_n = (uint32_t)(p.n_blocks + BLOCKS - 1) / BLOCKS;
    const uint32_t tiles_m = (uint32_t)((p.m + TILE_M - 1) / TILE_M);
    const uint32_t strip = blockIdx.x / (RASTER_M * tiles_n);
    const uint32_t within = blockIdx.x - strip * (RASTER_M * tiles_n);
    const uint32_t left = tiles_m - strip * RASTER_M;
    const uint32_t height = left < RASTER_M ? left : RASTER_M;
    tile_place tile;
    tile.n_block = (int)(within / height) * BLOCKS;
    tile.m0 = (int64_t)(strip * RASTER_M + within % height) * TILE_M;
    return tile;
}

/* Adds the sums of the warps that share rows and tokens in the order of their slices of K. */
NIB_DEVICE void gather(const warp_place &place, const state &s, float *sums)
{
    const int lane = nib_thread() % 32;
    float *own = sums + (place.token + lane % 4 * 2) * SUM_PITCH + place.unit * 16 + lane / 4;
#pragma unroll 1
    for (int slice = 0; slice < NIB_SPEC_WARPS_K; slice++) {
        if (place.slice == slice)
#pragma unroll
            for (int u = 0; u < UNITS; u++)
#pragma unroll
                for (int t = 0; t < TOKENS; t++)
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        float *at = own + (t * 8 + (j & 1)) * SUM_PITCH + u * 16 + (j >> 1) * 8;
                        const float sum = final_sum(s, u, t, j);
                        *at = slice ? nib_sum_add(*at, sum) : sum;
                    }
        /* One slice's sums are whole before the next adds to them, the last's before they leave. */
        __syncthreads();
    }
}

/* Partial sums of this part of K. */
NIB_DEVICE void store_partial(const nib_cuda_params &p, const tile_place &tile, const float *sums)
{
    float *to = p.partial + ((int64_t)blockIdx.y * p.m + tile.m0) * p.n + tile.n_block * 64;
    const int64_t rows = p.m - tile.m0, columns = p.n - (int64_t)tile.n_block * 64;
    for (int i = nib_thread(); i < TILE_M * TILE_N; i += THREADS) {
        const int token = i / TILE_N, n = i % TILE_N;
        if (token < rows && n < columns)
            to[token * p.n + n] = sums[token * SUM_PITCH + n];
    }
}

NIB_DEVICE void store_out(const nib_cuda_params &p, const tile_place &tile, const float *sums)
{
    const int64_t rows = p.m - tile.m0, columns = p.n - (int64_t)tile.n_block * 64;
    for (int i = nib_thread(); i < TILE_M * TILE_N; i += THREADS) {
        const int token = i / TILE_N, n = i % TILE_N;
        if (token < rows && n < columns)
            nib_epilogue_store(p, tile.m0 + token, (int64_t)tile.n_block * 64 + n,
                               sums[token * SUM_PITCH + n]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, NIB_SPEC_RESIDENT)
    nib_gemm(const __grid_constant__ nib_cuda_params p)
{
    extern __shared__ __align__(256) uint8_t shared[];
    const uint32_t ring = nib_shared_address(shared);
    const uint32_t table = ring + NIB_SPEC_STAGES * STAGE_BYTES;
    const tile_place tile = tile_of(p);
    const warp_place place = warp_place_of(nib_thread());
    const int parts = (int)gridDim.y, part = (int)blockIdx.y;
    const int k_begin = (int)((int64_t)p.k_blocks * part / parts);
    const int k_end = (int)((int64_t)p.k_blocks * (part + 1) / parts);
    state s;
    begin(p, place, table, s);
    if constexpr (NIB_CODE.kind == NIB_KIND_TABLE) {
        nib_table_fill(table, p.table, nib_table_lift(p.table), nib_thread(), THREADS);
        __syncthreads(); /* the table is whole before the first look-up */
    }
    mainloop_run(p, place, tile.n_block, tile.m0, k_begin, k_end, ring, s);
    nib_copy_wait<0>();
    __syncthreads(); /* all have read the last stage: the ring becomes the tile of sums */
    gather(place, s, (float *)shared);
    if (parts > 1)
        store_partial(p, tile, (const float *)shared);
    else
        store_out(p, tile, (const float *)shared);
}
