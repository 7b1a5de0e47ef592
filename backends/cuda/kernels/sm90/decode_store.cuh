/* SPDX-License-Identifier: Apache-2.0
 *
 * From the warps' sums to out: added up over the warps that split K, then over the blocks of the
 * cluster, then through the epilogue, four neighbouring columns of a token at a time. decode.cu
 * calls it in the end.
 *
 * Blocks of a cluster share a tile. Each finishes a part of its quads and is sent the others' sums
 * of these; they are added in the order of the blocks, which is that of K.
 */
#ifndef NIB_CUDA_SM90_DECODE_STORE_CUH
#define NIB_CUDA_SM90_DECODE_STORE_CUH

/* A quad: four columns of out of one token; of pairs it takes two sums. */
static constexpr int NIB_TILE_ROWS = NIB_SPEC_WARPS_N * NIB_ROWS;
static constexpr int NIB_TILE_COLUMNS = NIB_SPEC_PAIRED ? NIB_TILE_ROWS / 2 : NIB_TILE_ROWS;
static constexpr int NIB_TOKEN_QUADS = NIB_TILE_COLUMNS / 4;
static constexpr int NIB_QUAD_SUMS = NIB_SPEC_PAIRED ? 2 : 1;

typedef float nib_quad[NIB_QUAD_SUMS][4];

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

NIB_DEVICE void nib_shared_floats(uint32_t at, float (&out)[4])
{
    uint32_t bits[4];
    nib_shared_load4(bits, at);
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[i] = nib_float_from_bits(bits[i]);
}

/* The block's sums of a quad, warps in the order of K. */
NIB_DEVICE void nib_quad_of(uint32_t shared, int index, nib_quad &quad)
{
    const int token = index / NIB_TOKEN_QUADS, column = index % NIB_TOKEN_QUADS * 4;
#pragma unroll
    for (int s = 0; s < NIB_QUAD_SUMS; s++) {
        const int row = column + s * NIB_TILE_COLUMNS;
        const uint32_t at = shared + NIB_RINGS_AT + row / NIB_ROWS * NIB_WARP_BYTES +
                            (token * NIB_SUM_PITCH + row % NIB_ROWS) * 4;
        nib_shared_floats(at, quad[s]);
#pragma unroll
        for (int w = 1; w < NIB_WARPS_K; w++) {
            float more[4];
            nib_shared_floats(at + w * NIB_SPEC_WARPS_N * NIB_WARP_BYTES, more);
#pragma unroll
            for (int i = 0; i < 4; i++)
                quad[s][i] += more[i];
        }
    }
}

/* ---- stores ------------------------------------------------------------------------------- */

/* Four floats at `to`, at most `columns` of them; `wide`: at once. */
NIB_DEVICE void nib_store_partial(float *to, const float (&sum)[4], int64_t columns, bool wide)
{
    if (wide) {
        const uint32_t bits[4] = {nib_bits_from_float(sum[0]), nib_bits_from_float(sum[1]),
                                  nib_bits_from_float(sum[2]), nib_bits_from_float(sum[3])};
        nib_global_store4(to, bits);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < columns)
            to[i] = sum[i];
}

NIB_DEVICE void nib_store_outputs(const nib_cuda_params &p, int64_t at, const float (&y)[4],
                                  int64_t columns)
{
    const int bytes = p.out_type == NIB_F32 ? 16 : 8;
    const bool wide = columns >= 4 && p.ldo % 4 == 0 && (uint64_t)p.out % bytes == 0;
    if (!wide) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < columns)
                nib_store_float(p.out, at + i, p.out_type, y[i]);
        return;
    }
    if (p.out_type == NIB_F32) {
        nib_store_partial((float *)p.out + at, y, 4, true);
        return;
    }
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = p.out_type == NIB_F16 ? nib_f16_from_float(y[i]) : nib_bf16_from_float(y[i]);
    bits[0] |= bits[1] << 16;
    bits[1] = bits[2] | bits[3] << 16;
    nib_global_store2((uint16_t *)p.out + at, bits);
}

/* A quad of the tile's complete sums: outputs, or partial sums where the grid splits K. */
NIB_DEVICE void nib_store_quad(const nib_cuda_params &p, int tile, int part, int index,
                               const nib_quad &quad)
{
    const int64_t token = index / NIB_TOKEN_QUADS, all = NIB_SPEC_PAIRED ? p.n / 2 : p.n;
    const int64_t n = (int64_t)tile * NIB_TILE_COLUMNS + index % NIB_TOKEN_QUADS * 4;
    const int64_t columns = all - n;
    if (columns <= 0)
        return;
    if (p.split > 1) {
        float *to = p.partial + (part * p.m + token) * p.n + n;
#pragma unroll
        for (int s = 0; s < NIB_QUAD_SUMS; s++)
            nib_store_partial(to + s * all, quad[s], columns, columns >= 4 && p.n % 4 == 0);
        return;
    }
    const float factor = nib_act_factor(p, token);
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        y[i] = 0.0f;
        if (i >= columns)
            continue;
        if constexpr (NIB_SPEC_PAIRED)
            y[i] = nib_activation(nib_affine(p, factor, nib_bias(p, n + i), quad[0][i]),
                                  NIB_EPILOGUE_SILU) *
                   nib_affine(p, factor, nib_bias(p, n + i + all), quad[NIB_QUAD_SUMS - 1][i]);
        else
            y[i] = nib_epilogue_value(p, factor, nib_bias(p, n + i), quad[0][i]);
    }
    nib_store_outputs(p, token * p.ldo + n, y, columns);
}

/* ---- clusters ----------------------------------------------------------------------------- */

/* Quads that a block of the cluster finishes: equal shares, the last ones less. */
typedef struct nib_share {
    int begin, end;
} nib_share;

NIB_DEVICE nib_share nib_share_of(const nib_cuda_params &p, int rank, int blocks)
{
    const uint32_t quads = (uint32_t)p.m * NIB_TOKEN_QUADS;
    const uint32_t most = blocks == 1 ? quads : (quads + blocks - 1) / (uint32_t)blocks;
    nib_share share;
    share.begin = nib_minimum(rank * (int)most, (int)quads);
    share.end = nib_minimum(share.begin + (int)most, (int)quads);
    return share;
}

/* Place of sum `s` of a share's quad `index` from the block that is `turn` blocks (1 .. blocks - 1)
 * before this one, in turn: [index][turn - 1][sum]. */
NIB_DEVICE uint32_t nib_received_place(uint32_t shared, int index, int turn, int blocks, int s)
{
    return shared + NIB_RECEIVED_AT + ((index * (blocks - 1) + turn - 1) * NIB_QUAD_SUMS + s) * 16;
}

NIB_DEVICE uint32_t nib_received_barrier(uint32_t shared)
{
    return shared + NIB_BARRIERS_AT + (NIB_BARRIERS - 1) * 8;
}

/* What this block will receive; before its cluster may send. One thread does it. */
NIB_DEVICE void nib_expect_sums(const nib_cuda_params &p, uint32_t shared, int thread, int rank,
                                int blocks)
{
    const nib_share share = nib_share_of(p, rank, blocks);
    if (thread == 0)
        nib_barrier_expect(nib_received_barrier(shared),
                           (share.end - share.begin) * (blocks - 1) * NIB_QUAD_SUMS * 16);
}

/* Sends the other blocks' quads to them; each begins with the next block. */
NIB_DEVICE void nib_send_sums(const nib_cuda_params &p, uint32_t shared, int rank, int blocks)
{
#pragma unroll 1
    for (int i = 1; i < blocks; i++) {
        const int to = rank + i < blocks ? rank + i : rank + i - blocks;
        const nib_share share = nib_share_of(p, to, blocks);
        const uint32_t barrier = nib_cluster_address(nib_received_barrier(shared), to);
#pragma unroll 1
        for (int q = share.begin + nib_thread(); q < share.end; q += NIB_SPEC_WARPS * 32) {
            nib_quad quad;
            nib_quad_of(shared, q, quad);
#pragma unroll
            for (int s = 0; s < NIB_QUAD_SUMS; s++) {
                const uint32_t bits[4] = {
                    nib_bits_from_float(quad[s][0]), nib_bits_from_float(quad[s][1]),
                    nib_bits_from_float(quad[s][2]), nib_bits_from_float(quad[s][3])};
                const uint32_t at = nib_received_place(shared, q - share.begin, i, blocks, s);
                nib_cluster_send4(nib_cluster_address(at, to), bits, barrier);
            }
        }
    }
}

/* Adds all blocks' sums of a quad of this block's share. */
NIB_DEVICE void nib_cluster_quad(uint32_t shared, int index, int local, int rank, int blocks,
                                 nib_quad &quad)
{
    nib_quad own;
    nib_quad_of(shared, index, own);
#pragma unroll
    for (int s = 0; s < NIB_QUAD_SUMS; s++)
#pragma unroll 1
        for (int b = 0; b < blocks; b++) {
            const int turn = b < rank ? rank - b : rank - b + blocks;
            float part[4] = {own[s][0], own[s][1], own[s][2], own[s][3]};
            if (b != rank)
                nib_shared_floats(nib_received_place(shared, local, turn, blocks, s), part);
#pragma unroll
            for (int i = 0; i < 4; i++)
                quad[s][i] = b == 0 ? part[i] : quad[s][i] + part[i];
        }
}

/* All sums of the block are in shared memory. */
NIB_DEVICE void nib_store_tile(const nib_cuda_params &p, uint32_t shared, int tile, int part,
                               int rank, int blocks)
{
    nib_quad quad;
    if (blocks > 1) {
        nib_cluster_wait(); /* all blocks run, and expect their sums */
        nib_send_sums(p, shared, rank, blocks);
        nib_barrier_wait(nib_received_barrier(shared), 0);
    }
    const nib_share share = nib_share_of(p, rank, blocks);
#pragma unroll 1
    for (int q = share.begin + nib_thread(); q < share.end; q += NIB_SPEC_WARPS * 32) {
        if (blocks > 1)
            nib_cluster_quad(shared, q, q - share.begin, rank, blocks, quad);
        else
            nib_quad_of(shared, q, quad);
        nib_store_quad(p, tile, part, q, quad);
    }
}

#endif
