/* SPDX-License-Identifier: Apache-2.0
 *
 * The general kernel: every product that core allows, for every m, on every chip from sm_80. Plain
 * f32 (or exact i32) arithmetic on tiles in shared memory; the fast kernels of the other folders
 * leave to it what they do not know. tile.cuh fills the tiles, decode.cuh knows the codes,
 * finish.cuh what follows the sums; backends/cuda/variants/general.c has launch shapes.
 *
 * A block of 256 threads makes 64 rows of W x NIB_TILE_M rows of act, 64 columns of k at a time:
 *
 *     codes, scales --decode--> w[k][n]  \
 *                                         > x[4 n][R m] a thread, R = NIB_TILE_M / 16
 *     act ---------convert----> a[k][m]  /
 *
 * A sum takes its terms one by one in the order of k, whatever the tile: a row's bits do not depend
 * on m as long as K is not split. With split K, parts go to p.partial and nib_general_reduce adds
 * them in order.
 */
#include "nib_spec.h"

#include "kernels/general/finish.cuh"
#include "kernels/general/tile.cuh"

enum { R = NIB_TILE_M / 16, HALVES = NIB_GATED ? 2 : 1 };

/* Sums of one thread: rows 4 tn .. of the tile of W, rows R tm .. of act. */
struct sums {
    float x[4][R];
};

__device__ __forceinline__ int thread_n()
{
    return (threadIdx.x & 15) * 4;
}

__device__ __forceinline__ int thread_m()
{
    return (threadIdx.x >> 4) * R;
}

__device__ __forceinline__ float multiply_add(float a, float w, float x)
{
    return fma_rn(a, w, x);
}

/* Modulo 2^32. */
__device__ __forceinline__ int32_t multiply_add(int32_t a, int32_t w, int32_t x)
{
    return (int32_t)((uint32_t)a * (uint32_t)w + (uint32_t)x);
}

/* Adds columns [from, to) of the tiles. */
__device__ __forceinline__ void add_columns(const shared_tiles &tiles, int from, int to,
                                            element x[4][R])
{
#pragma unroll 8
    for (int kk = from; kk < to; kk++) {
        element w[4], a[R];
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = tiles.w[kk][thread_n() + i];
#pragma unroll
        for (int j = 0; j < R; j++)
            a[j] = tiles.a[kk][thread_m() + j];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < R; j++)
                x[i][j] = multiply_add(a[j], w[i], x[i][j]);
    }
}

#if !NIB_INTEGER

/* Rows row0.. of W times rows m0.. of act over columns [k_begin, k_end). */
__device__ __forceinline__ void sum_tile(const nib_cuda_params &p, shared_tiles &tiles,
                                         int64_t row0, int64_t m0, int64_t k_begin, int64_t k_end,
                                         sums &out)
{
    for (int64_t k0 = k_begin; k0 < k_end; k0 += TILE_K) {
        __syncthreads(); /* the last tile has been read */
        load_weights(p, tiles, row0, k0, k_end);
        load_act(p, tiles, m0, k0, k_end);
        __syncthreads(); /* this one is there */
        add_columns(tiles, 0, TILE_K, out.x);
    }
}

#else

/* Scales a group's sums, adds them and begins anew. Where out is i32 there is one group, whose
 * integer is the result. */
__device__ __forceinline__ void end_group(const nib_cuda_params &p, int64_t row0, int64_t group,
                                          int32_t x[4][R], sums &out)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t row = row0 + thread_n() + i;
        float s = row < p.n ? load_scale(p, row, group).s : 0;
#pragma unroll
        for (int j = 0; j < R; j++) {
            if (p.out_type == NIB_I32)
                out.x[i][j] = __int_as_float(x[i][j]);
            else
                out.x[i][j] = fma_rn((float)x[i][j], s, out.x[i][j]);
            x[i][j] = 0;
        }
    }
}

#if NIB_GROUPING != 3

/* Groups lie side by side: the tiles are summed up to the end of each. */
__device__ __forceinline__ void sum_tile(const nib_cuda_params &p, shared_tiles &tiles,
                                         int64_t row0, int64_t m0, int64_t k_begin, int64_t k_end,
                                         sums &out)
{
    int32_t x[4][R] = {};
    int64_t group = 0, left = p.group;
    for (int64_t k0 = k_begin; k0 < k_end; k0 += TILE_K) {
        __syncthreads(); /* the last tile has been read */
        load_weights(p, tiles, row0, k0, k_end);
        load_act(p, tiles, m0, k0, k_end);
        __syncthreads(); /* this one is there */
        int end = k_end - k0 < TILE_K ? (int)(k_end - k0) : TILE_K;
        for (int kk = 0; kk < end;) {
            int run = left < end - kk ? (int)left : end - kk;
            add_columns(tiles, kk, kk + run, x);
            kk += run;
            left -= run;
            if (left == 0 || k0 + kk == k_end) {
                end_group(p, row0, group++, x, out);
                left = p.group;
            }
        }
    }
}

#else

/* Columns [first, first + count) of the list, count at most 64. */
__device__ __forceinline__ void gather_tiles(const nib_cuda_params &p, shared_tiles &tiles,
                                             int64_t row0, int64_t m0, int first, int count)
{
#pragma unroll 2
    for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {
        int kk = i / TILE_N;
        int64_t row = row0 + i % TILE_N, k = kk < count ? tiles.column[first + kk] : 0;
        int step = (int)(k >> 4) & 7, lane = (int)((row & 7) * 4 + (k >> 1 & 3));
        int32_t value = 0;
        if (kk < count && row < p.n) {
            fragment f = load_fragment(p, row >> 4, k >> 7, lane, step);
            value = code_integer(
                fragment_code(f, step, (int)((row >> 3 & 1) + 2 * (k >> 3 & 1)), (int)(k & 1)));
        }
        tiles.w[kk][i % TILE_N] = value;
    }
#pragma unroll 2
    for (int i = threadIdx.x; i < TILE_K * NIB_TILE_M; i += THREADS) {
        int kk = i / NIB_TILE_M, mm = i % NIB_TILE_M;
        bool inside = kk < count && m0 + mm < p.m;
        tiles.a[kk][mm] = inside ? act_element(p, m0 + mm, tiles.column[first + kk]) : 0;
    }
}

/* Groups lie anywhere, and each must be summed whole before it is scaled: its columns are looked up
 * in g_idx, as many as there are threads at a time. Integers have one sum in any order. */
__device__ __forceinline__ void sum_tile(const nib_cuda_params &p, shared_tiles &tiles,
                                         int64_t row0, int64_t m0, int64_t k_begin, int64_t k_end,
                                         sums &out)
{
    int32_t x[4][R] = {};
    for (int64_t group = 0; group < p.groups; group++) {
        int waiting = 0;
        for (int64_t k0 = k_begin; k0 < k_end; k0 += THREADS) {
            int64_t k = k0 + threadIdx.x;
            __syncthreads(); /* the last tile and list have been read */
            if (threadIdx.x == 0)
                tiles.waiting = waiting;
            __syncthreads(); /* the count is there */
            if (k < k_end && p.g_idx[k] == group)
                tiles.column[atomicAdd(&tiles.waiting, 1)] = k;
            __syncthreads(); /* the list is whole */
            waiting = tiles.waiting;
            bool last = k0 + THREADS >= k_end;
            while (waiting >= TILE_K || (last && waiting > 0)) {
                int count = waiting < TILE_K ? waiting : TILE_K;
                waiting -= count;
                __syncthreads(); /* the tile before has been read */
                gather_tiles(p, tiles, row0, m0, waiting, count);
                __syncthreads(); /* this one is there */
                add_columns(tiles, 0, TILE_K, x);
            }
        }
        end_group(p, row0, group, x, out);
    }
}

#endif
#endif

/* One tile of out, or its share of K. */
struct work {
    int64_t m0, col0, part;
};

/* One element of the tile: the result, or a part of it. */
__device__ __forceinline__ void store_element(const nib_cuda_params &p, const work &w, float x1,
                                              float x2, int64_t m, int64_t col)
{
    if (p.split == 1) {
        finish(p, x1, x2, m, col);
        return;
    }
    float *partial = p.partial + (w.part * p.m + m) * p.n;
    partial[col] = x1;
    if (NIB_GATED)
        partial[p.n / 2 + col] = x2;
}

/* Through shared memory, so that rows of out are written side by side and the epilogue stands in
 * the code once: sums of the first half in place of w, of the second in place of a, each [n][m]. */
__device__ __forceinline__ void store_tile(const nib_cuda_params &p, shared_tiles &tiles,
                                           const work &w, const sums out[HALVES])
{
    int64_t cols = NIB_GATED ? p.n / 2 : p.n;
    float(*first)[TILE_N + PAD] = (float(*)[TILE_N + PAD]) tiles.w;
    float(*second)[NIB_TILE_M + PAD] = (float(*)[NIB_TILE_M + PAD]) tiles.a;
    static_assert(NIB_TILE_M <= TILE_N && TILE_N <= TILE_K, "tiles of sums fit those of operands");
    __syncthreads(); /* the last tile has been read */
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < R; j++) {
            first[thread_n() + i][thread_m() + j] = out[0].x[i][j];
            if (NIB_GATED)
                second[thread_n() + i][thread_m() + j] = out[HALVES - 1].x[i][j];
        }
    __syncthreads(); /* the sums are there */
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_N * NIB_TILE_M; i += THREADS) {
        int nn = i % TILE_N, mm = i / TILE_N;
        int64_t m = w.m0 + mm, col = w.col0 + nn;
        if (m < p.m && col < cols)
            store_element(p, w, first[nn][mm], NIB_GATED ? second[nn][mm] : 0, m, col);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    nib_general(const __grid_constant__ nib_cuda_params p)
{
    __shared__ shared_tiles tiles;
    if (threadIdx.x < 16 && (NIB_WEIGHT == NIB_NF4 || NIB_WEIGHT == NIB_LUT4))
        tiles.table[threadIdx.x] =
            NIB_WEIGHT == NIB_NF4 ? nf4_values[threadIdx.x] : p.table[threadIdx.x];
    int64_t cols = NIB_GATED ? p.n / 2 : p.n;
    int64_t tiles_m = (p.m + NIB_TILE_M - 1) / NIB_TILE_M, tiles_n = (cols + TILE_N - 1) / TILE_N;
    int64_t tiles_k = (p.k + TILE_K - 1) / TILE_K;
    for (int64_t i = blockIdx.x; i < tiles_m * tiles_n * p.split; i += gridDim.x) {
        int64_t column = i / tiles_m, part = column / tiles_n;
        work w = {(i - column * tiles_m) * NIB_TILE_M, (column - part * tiles_n) * TILE_N, part};
        int64_t k_begin = tiles_k * part / p.split * TILE_K;
        int64_t k_end = tiles_k * (part + 1) / p.split * TILE_K;
        sums out[HALVES] = {};
#pragma unroll
        for (int half = 0; half < HALVES; half++)
            sum_tile(p, tiles, w.col0 + half * (p.n / 2), w.m0, k_begin, k_end < p.k ? k_end : p.k,
                     out[half]);
        store_tile(p, tiles, w, out);
    }
}

/* After split K: adds the parts of each element in order. Any grid and block will do. */
extern "C" __global__ void nib_general_reduce(const __grid_constant__ nib_cuda_params p)
{
    int64_t cols = NIB_GATED ? p.n / 2 : p.n;
    int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < p.m * cols; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t m = i / cols, col = i - m * cols;
        float x1 = 0, x2 = 0;
        for (int32_t part = 0; part < p.split; part++) {
            const float *partial = p.partial + (part * p.m + m) * p.n;
            x1 += partial[col];
            if (NIB_GATED)
                x2 += partial[cols + col];
        }
        finish(p, x1, x2, m, col);
    }
}
