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
    const uint32_t tiles_n = (uint32_t)(p.n_blocks + BLOCKS - 1) / BLOCKS; /* gated: the same */
    const uint32_t tiles_m = (uint32_t)((p.m + TILE_M - 1) / TILE_M);
    const uint32_t strip = blockIdx.x / (RASTER_M * tiles_n);
    const uint32_t within = blockIdx.x - strip * (RASTER_M * tiles_n);
    const uint32_t left = tiles_m - strip * RASTER_M;
    const uint32_t height = left < RASTER_M ? left : RASTER_M;
    tile_place tile;
    tile.n_block = (int)(within / height) * (GATED ? BLOCKS / 2 : BLOCKS);
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

/* Four columns side by side, and every STORE_ROWS-th token, are a thread's to store. */
static constexpr int QUADS = (GATED ? TILE_N / 2 : TILE_N) / 4, STORE_ROWS = THREADS / QUADS;

/* Partial sums of this part of K; `local` and `n` are the quad's place in the tile and in W. */
NIB_DEVICE void store_partial(const nib_cuda_params &p, int64_t m0, const float *sums, int local,
                              int64_t n)
{
    const int64_t columns = p.n - n;
    float *to = p.partial + ((int64_t)blockIdx.y * p.m + m0) * p.n + n;
    const bool wide = columns >= 4 && p.n % 4 == 0;
    for (int token = nib_thread() / QUADS; token < TILE_M; token += STORE_ROWS) {
        if (m0 + token >= p.m)
            return;
        const float *from = sums + token * SUM_PITCH + local;
        const uint32_t bits[4] = {nib_bits_from_float(from[0]), nib_bits_from_float(from[1]),
                                  nib_bits_from_float(from[2]), nib_bits_from_float(from[3])};
        if (wide)
            nib_global_store4(to + token * p.n, bits);
        else
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < columns)
                    to[token * p.n + i] = from[i];
    }
}

/* What the outputs of a thread's columns share. */
struct column {
    float bias, scale;
};

NIB_DEVICE column column_of(const nib_cuda_params &p, int64_t n)
{
    column c = {0.0f, 1.0f};
    if (n < p.n) {
        c.bias = nib_bias(p, n);
        if constexpr (NIB_LATE_SCALE)
            c.scale = nib_row_scale(p, n);
    }
    return c;
}

NIB_DEVICE float column_sum(const column &c, float sum)
{
    if constexpr (NIB_LATE_SCALE)
        return (float)(int32_t)nib_bits_from_float(sum) * c.scale;
    return sum;
}

/* Stores four outputs of a row, at most `columns` of them; `wide`: at once. */
NIB_DEVICE void store_quad(const nib_cuda_params &p, int64_t at, bool wide, int64_t columns,
                           const float (&y)[4])
{
    if (!wide) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < columns)
                nib_store_float(p.out, at + i, p.out_type, y[i]);
        return;
    }
    uint32_t bits[4];
    if (p.out_type == NIB_F32) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            bits[i] = nib_bits_from_float(y[i]);
        nib_global_store4((float *)p.out + at, bits);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = p.out_type == NIB_F16 ? nib_f16_from_float(y[i]) : nib_bf16_from_float(y[i]);
    bits[0] |= bits[1] << 16;
    bits[1] = bits[2] | bits[3] << 16;
    nib_global_store2((uint16_t *)p.out + at, bits);
}

/* Outputs of columns n .. n + 3; gated ones from the sums `local` and `local` + TILE_N / 2. */
NIB_DEVICE void store_out(const nib_cuda_params &p, int64_t m0, const float *sums, int local,
                          int64_t n)
{
    const int64_t columns = (GATED ? p.n / 2 : p.n) - n;
    const int bytes = p.out_type == NIB_F32 ? 16 : 8;
    const bool wide = columns >= 4 && p.ldo % 4 == 0 && (uint64_t)p.out % bytes == 0;
    column c[4], other[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        c[i] = column_of(p, n + i);
        if constexpr (GATED)
            other[i] = column_of(p, n + i + p.n / 2);
    }
    for (int token = nib_thread() / QUADS; token < TILE_M; token += STORE_ROWS) {
        const int64_t m = m0 + token;
        if (m >= p.m)
            return;
        const float *from = sums + token * SUM_PITCH + local;
        if (NIB_LATE_SCALE && p.out_type == NIB_I32) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < columns)
                    nib_epilogue_store(p, m, n + i, from[i]);
            continue;
        }
        const float factor = nib_act_factor(p, m);
        float y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float sum = column_sum(c[i], from[i]);
            if constexpr (GATED) {
                const float up = column_sum(other[i], from[TILE_N / 2 + i]);
                y[i] = nib_activation(nib_affine(p, factor, c[i].bias, sum), NIB_EPILOGUE_SILU) *
                       nib_affine(p, factor, other[i].bias, up);
            } else {
                y[i] = nib_epilogue_value(p, factor, c[i].bias, sum);
            }
        }
        store_quad(p, m * p.ldo + n, wide, columns, y);
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
    nib_allow_dependents();
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
    const int local = nib_thread() % QUADS * 4;
    const int64_t n = (int64_t)tile.n_block * 64 + local;
    if (n >= (GATED ? p.n / 2 : p.n))
        return;
    if (parts == 1) {
        store_out(p, tile.m0, (const float *)shared, local, n);
        return;
    }
    store_partial(p, tile.m0, (const float *)shared, local, n);
    if constexpr (GATED)
        store_partial(p, tile.m0, (const float *)shared, local + TILE_N / 2, n + p.n / 2);
}
