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

/* A quad: four columns of out of one token, one number for each in `sum`; of pairs there are two.
 */
static constexpr int NIB_TILE_ROWS = NIB_SPEC_WARPS_N * NIB_ROWS;
static constexpr int NIB_TILE_COLUMNS = NIB_SPEC_PAIRED ? NIB_TILE_ROWS / 2 : NIB_TILE_ROWS;
static constexpr int NIB_TOKEN_QUADS = NIB_TILE_COLUMNS / 4;
static constexpr int NIB_QUAD_SUMS = NIB_SPEC_PAIRED ? 2 : 1;

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

/* Where the sums of a quad begin in the memory of the first warp that has them. */
NIB_DEVICE uint32_t nib_sums_place(uint32_t shared, int quad, int s)
{
    const int token = quad / NIB_TOKEN_QUADS;
    const int row = quad % NIB_TOKEN_QUADS * 4 + s * NIB_TILE_COLUMNS;
    return shared + NIB_RINGS_AT + row / NIB_ROWS * NIB_WARP_BYTES +
           (token * NIB_SUM_PITCH + row % NIB_ROWS) * 4;
}

static constexpr int NIB_NEXT_SUMS = NIB_SPEC_WARPS_N * NIB_WARP_BYTES; /* those of the next k */

/* The block's sums of a quad, warps in the order of K. */
NIB_DEVICE void nib_block_quad(uint32_t at, float (&sum)[4])
{
    nib_shared_floats(at, sum);
#pragma unroll
    for (int w = 1; w < NIB_WARPS_K; w++) {
        float more[4];
        nib_shared_floats(at + w * NIB_NEXT_SUMS, more);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] += more[i];
    }
}

/* One of its numbers. */
NIB_DEVICE float nib_block_number(uint32_t at)
{
    float sum = nib_float_from_bits(nib_shared_load(at));
#pragma unroll
    for (int w = 1; w < NIB_WARPS_K; w++)
        sum += nib_float_from_bits(nib_shared_load(at + w * NIB_NEXT_SUMS));
    return sum;
}

/* ---- clusters ----------------------------------------------------------------------------- */

/* Quads that a block of the cluster finishes: equal shares, the last ones less. */
typedef struct nib_share {
    int begin, end;
} nib_share;

NIB_DEVICE nib_share nib_share_of(const nib_cuda_params &p, int rank)
{
    const int quads = (int)p.m * NIB_TOKEN_QUADS;
    const int most = (quads + NIB_SPEC_CLUSTER - 1) / NIB_SPEC_CLUSTER;
    nib_share share;
    share.begin = nib_minimum(rank * most, quads);
    share.end = nib_minimum(share.begin + most, quads);
    return share;
}

/* Place of sum `s` of a share's quad `index` from the block that is `turn` blocks (1 ..
 * NIB_SPEC_CLUSTER - 1) before this one, in turn: [index][turn - 1][sum]. */
NIB_DEVICE uint32_t nib_received_place(uint32_t shared, int index, int turn, int s)
{
    return shared + NIB_RECEIVED_AT +
           ((index * (NIB_SPEC_CLUSTER - 1) + turn - 1) * NIB_QUAD_SUMS + s) * 16;
}

NIB_DEVICE uint32_t nib_received_barrier(uint32_t shared)
{
    return shared + NIB_BARRIER_AT;
}

/* What this block will receive; before its cluster may send. */
NIB_DEVICE void nib_expect_sums(const nib_cuda_params &p, uint32_t shared, int rank)
{
    const nib_share share = nib_share_of(p, rank);
    if (nib_thread() == 0)
        nib_barrier_expect(nib_received_barrier(shared),
                           (share.end - share.begin) * (NIB_SPEC_CLUSTER - 1) * NIB_QUAD_SUMS * 16);
}

/* Sends the other blocks' quads to them; each begins with the next block. */
NIB_DEVICE void nib_send_sums(const nib_cuda_params &p, uint32_t shared, int rank)
{
#pragma unroll 1
    for (int turn = 1; turn < NIB_SPEC_CLUSTER; turn++) {
        const int to = (rank + turn) % NIB_SPEC_CLUSTER;
        const nib_share share = nib_share_of(p, to);
        const uint32_t barrier = nib_cluster_address(nib_received_barrier(shared), to);
#pragma unroll 1
        for (int q = share.begin + nib_thread(); q < share.end; q += NIB_SPEC_WARPS * 32)
#pragma unroll
            for (int s = 0; s < NIB_QUAD_SUMS; s++) {
                float sum[4];
                nib_block_quad(nib_sums_place(shared, q, s), sum);
                const uint32_t bits[4] = {nib_bits_from_float(sum[0]), nib_bits_from_float(sum[1]),
                                          nib_bits_from_float(sum[2]), nib_bits_from_float(sum[3])};
                const uint32_t at = nib_received_place(shared, q - share.begin, turn, s);
                nib_cluster_send4(nib_cluster_address(at, to), bits, barrier);
            }
    }
}

/* How many blocks block `b` is before this one, in turn. */
NIB_DEVICE int nib_turn_of(int rank, int b)
{
    return (rank - b + NIB_SPEC_CLUSTER) % NIB_SPEC_CLUSTER;
}

/* ---- stores ------------------------------------------------------------------------------- */

/* Whether outputs are sums and no more, four of them 8 bytes at an aligned address. All else goes
 * number by number, in little code: instructions are read from memory when a kernel begins. */
NIB_DEVICE bool nib_stores_quads(const nib_cuda_params &p)
{
    return !NIB_SPEC_PAIRED && p.split == 1 && !p.bias_type && p.epilogue == NIB_EPILOGUE_NONE &&
           p.act_scale_mode == NIB_ACT_SCALE_NONE && p.out_type != NIB_F32 &&
           ((p.n | p.ldo) & 3) == 0 && ((uint64_t)p.out & 7) == 0;
}

NIB_DEVICE void nib_store_quad(const nib_cuda_params &p, uint32_t shared, int tile, int rank,
                               int quad, int index)
{
    const int64_t n = (int64_t)tile * NIB_TILE_COLUMNS + quad % NIB_TOKEN_QUADS * 4;
    if (n >= p.n)
        return;
    float sum[4], own[4];
    nib_block_quad(nib_sums_place(shared, quad, 0), own);
#pragma unroll
    for (int b = 0; b < NIB_SPEC_CLUSTER; b++) {
        float part[4] = {own[0], own[1], own[2], own[3]};
        if (b != rank)
            nib_shared_floats(nib_received_place(shared, index, nib_turn_of(rank, b), 0), part);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] = b == 0 ? part[i] : sum[i] + part[i];
    }
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = p.out_type == NIB_F16 ? nib_f16_from_float(sum[i] * p.alpha)
                                        : nib_bf16_from_float(sum[i] * p.alpha);
    bits[0] |= bits[1] << 16;
    bits[1] = bits[2] | bits[3] << 16;
    nib_global_store2((uint16_t *)p.out + quad / NIB_TOKEN_QUADS * p.ldo + n, bits);
}

/* A number's sum over all blocks. */
NIB_DEVICE float nib_cluster_number(uint32_t shared, int rank, int number, int index, int s)
{
    const float own = nib_block_number(nib_sums_place(shared, number >> 2, s) + number % 4 * 4);
    float sum = 0.0f;
#pragma unroll 1
    for (int b = 0; b < NIB_SPEC_CLUSTER; b++) {
        float part = own;
        if (b != rank)
            part = nib_float_from_bits(nib_shared_load(
                nib_received_place(shared, index, nib_turn_of(rank, b), s) + number % 4 * 4));
        sum = b == 0 ? part : sum + part;
    }
    return sum;
}

/* Output `number` of the tile, [token][column], or its partial sums where the grid splits K. */
NIB_DEVICE void nib_store_number(const nib_cuda_params &p, uint32_t shared, int tile, int part,
                                 int rank, int number, int index)
{
    const int64_t token = number / NIB_TILE_COLUMNS, all = NIB_SPEC_PAIRED ? p.n / 2 : p.n;
    const int64_t n = (int64_t)tile * NIB_TILE_COLUMNS + number % NIB_TILE_COLUMNS;
    if (n >= all)
        return;
    const float sum = nib_cluster_number(shared, rank, number, index, 0);
    float up = 0.0f;
    if constexpr (NIB_SPEC_PAIRED)
        up = nib_cluster_number(shared, rank, number, index, 1);
    if (p.split == 1) {
        nib_epilogue_put(p, token, n, sum, up, NIB_SPEC_PAIRED);
        return;
    }
    float *to = p.partial + (part * p.m + token) * p.n + n;
    to[0] = sum;
    if constexpr (NIB_SPEC_PAIRED)
        to[all] = up;
}

/* All sums of the block are in shared memory. */
NIB_DEVICE void nib_store_tile(const nib_cuda_params &p, uint32_t shared, int tile, int part,
                               int rank)
{
    if constexpr (NIB_SPEC_CLUSTER > 1) {
        nib_cluster_wait(); /* all blocks run, and expect their sums */
        nib_send_sums(p, shared, rank);
        nib_barrier_wait(nib_received_barrier(shared), 0);
    }
    const nib_share share = nib_share_of(p, rank);
    if (nib_stores_quads(p)) {
#pragma unroll 1
        for (int q = share.begin + nib_thread(); q < share.end; q += NIB_SPEC_WARPS * 32)
            nib_store_quad(p, shared, tile, rank, q, q - share.begin);
        return;
    }
#pragma unroll 1
    for (int o = share.begin * 4 + nib_thread(); o < share.end * 4; o += NIB_SPEC_WARPS * 32)
        nib_store_number(p, shared, tile, part, rank, o, o / 4 - share.begin);
}

#endif
