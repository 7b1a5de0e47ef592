/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of weights and activations in shared memory, for the general kernel: decoded once, in f32,
 * or in i32 where sums are exact integers. Each is k-major, so that a thread reads its rows of one
 * k as one vector; four words behind each row keep the stores free of bank conflicts.
 *
 *     w[k][n]: lane (g, t) of a fragment stores row g (+ 8) at k = 2t (+ 1, 8, 9): bank 8t + g
 *     a[k][m]: lane stores row l % 8 at k = 2 (l / 8) (+ 1):                      bank 8 (l/8) + l
 * % 8
 */
#ifndef NIB_CUDA_GENERAL_TILE_CUH
#define NIB_CUDA_GENERAL_TILE_CUH

#include "kernels/general/decode.cuh"

enum { THREADS = 256, TILE_N = 64, TILE_K = 64, PAD = 4 };
enum { GROUPS_ONE = 0, GROUPS_BY_16 = 1, GROUPS_ANY = 2, GROUPS_INDEXED = 3 }; /* NIB_GROUPING */

#if NIB_INTEGER
typedef int32_t element;
#else
typedef float element;
#endif

struct shared_tiles {
    alignas(16) element w[TILE_K][TILE_N + PAD];
    alignas(16) element a[TILE_K][NIB_TILE_M + PAD];
    float table[16];
#if NIB_INTEGER && NIB_GROUPING == 3
    int64_t column[TILE_K + THREADS]; /* columns of one group that wait to be summed */
    int32_t waiting;
#endif
};

__device__ __forceinline__ element act_element(const nib_cuda_params &p, int64_t m, int64_t k)
{
    int64_t at = m * p.lda + k;
#if NIB_INTEGER
    return ((const int8_t *)p.act)[at];
#else
    float value = load_given<NIB_ACT>(p.act, at);
    if (p.act_scale_mode == NIB_ACT_SCALE_MX)
        value *= load_float<NIB_E8M0>(p.act_scale, m * ((p.k + 31) >> 5) + (k >> 5));
    return value;
#endif
}

/* Rows m0.. of act at columns k0.. below k_end; zeros beyond. */
__device__ __forceinline__ void load_act(const nib_cuda_params &p, shared_tiles &tiles, int64_t m0,
                                         int64_t k0, int64_t k_end)
{
    int lane = threadIdx.x & 31, kk = (threadIdx.x >> 5) * 8 + (lane >> 3) * 2;
#pragma unroll
    for (int mm = lane & 7; mm < NIB_TILE_M; mm += 8)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            bool inside = m0 + mm < p.m && k0 + kk + e < k_end;
            tiles.a[kk + e][mm] = inside ? act_element(p, m0 + mm, k0 + kk + e) : element(0);
        }
}

/* The group of columns k0 + kk of a tile, from that of k0 and its place there. */
struct group_at {
    int64_t first; /* of k0 */
    int32_t place; /* of k0 in it, and a group's size; sizes beyond a tile's reach are cut down */
    int32_t size;
};

__device__ __forceinline__ group_at find_group(const nib_cuda_params &p, int64_t k0)
{
    constexpr int64_t far = 1 << 30;
    group_at out = {};
    if (NIB_GROUPING == GROUPS_BY_16 || NIB_GROUPING == GROUPS_ANY) {
        out.first = k0 / p.group;
        int64_t left = (out.first + 1) * p.group - k0;
        out.size = (int32_t)(p.group < far ? p.group : far);
        out.place = out.size - (int32_t)(left < out.size ? left : out.size);
    }
    return out;
}

__device__ __forceinline__ int64_t group_of(const nib_cuda_params &p, const group_at &at,
                                            int64_t k0, int kk)
{
    if (NIB_GROUPING == GROUPS_ONE)
        return 0;
    if (NIB_GROUPING == GROUPS_INDEXED)
        return p.g_idx[k0 + kk];
    return at.first + (uint32_t)(at.place + kk) / (uint32_t)at.size;
}

/* One fragment into w. Rows outside the tile are dropped; columns from k_end on become zero. */
__device__ __forceinline__ void store_fragment(const nib_cuda_params &p, shared_tiles &tiles,
                                               const group_at &groups, int64_t row0, int64_t unit,
                                               int64_t k0, int64_t k_end, int lane, int step)
{
    int block_step = (int)((k0 >> 4) & 7) + step, kk0 = 16 * step + 2 * (lane & 3);
    int64_t row = unit * 16 + (lane >> 2);
    fragment f = load_fragment(p, unit, k0 >> 7, lane, block_step);
#pragma unroll
    for (int high = 0; high < 2; high++, row += 8) {
        if (row < row0 || row >= row0 + TILE_N)
            continue;
        bool exists = row < p.n;
#if !NIB_INTEGER
        scale_zero sz = {1, 0};
        if (NIB_GROUPING <= GROUPS_BY_16 && exists && k0 + 16 * step < k_end)
            sz = load_scale(p, row, group_of(p, groups, k0, 16 * step));
#endif
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int kk = kk0 + 8 * (j >> 1) + (j & 1);
            uint32_t code = fragment_code(f, block_step, high + 2 * (j >> 1), j & 1);
            bool inside = exists && k0 + kk < k_end;
            element value = 0;
#if NIB_INTEGER
            if (inside)
                value = code_integer(code);
#else
            if (NIB_GROUPING > GROUPS_BY_16 && inside)
                sz = load_scale(p, row, group_of(p, groups, k0, kk));
            if (inside)
                value = weight_value(code_value(code, tiles.table), sz);
#endif
            tiles.w[kk][row - row0] = value;
        }
    }
}

/* Rows row0.. of W, 64 of them from any row on, at columns k0.. below k_end; k0 is a multiple of
 * 64. Rows past n become zero. */
__device__ __forceinline__ void load_weights(const nib_cuda_params &p, shared_tiles &tiles,
                                             int64_t row0, int64_t k0, int64_t k_end)
{
    int64_t unit0 = row0 >> 4, units_there = (int64_t)p.n_blocks * 4;
    int units = row0 & 15 ? 5 : 4;
    group_at groups = find_group(p, k0);
    for (int i = threadIdx.x >> 5; i < units * 4; i += THREADS / 32) {
        int64_t unit = unit0 + (i >> 2);
        /* Past the last block nothing is stored: such outputs do not exist. */
        if (unit < units_there)
            store_fragment(p, tiles, groups, row0, unit, k0, k_end, threadIdx.x & 31, i & 3);
    }
}

#endif
