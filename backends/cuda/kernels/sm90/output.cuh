/* SPDX-License-Identifier: Apache-2.0
 *
 * From a consumer's sums to elements of out: sums of other blocks that share the tile, through
 * global memory (stream) or the memory of a cluster; then the epilogue. gemm.cu calls it; what an
 * output is made of is in kernels/sm80/epilogue.cuh.
 *
 * Outputs leave through shared memory, OUT_TOKENS tokens at a time, in two halves by turns: a
 * lane's sums belong to two rows of W, but rows of out want neighbouring ones. A thread then has
 * eight of them.
 */
#ifndef NIB_CUDA_SM90_OUTPUT_CUH
#define NIB_CUDA_SM90_OUTPUT_CUH

/* What sums are too small by; rounded weights have it in them. */
static constexpr float SUM_FACTOR = NIB_SPEC_ROUND && SCALED ? 1.0f : NIB_FACTOR;

/* Barriers of parts of a block: each consumer's own from PART_FIRST on. */
enum { PART_CONSUMERS = 1, PART_FIRST = 2 };

/* A lane's sums of eight tokens, and how many such columns a tile has. */
static constexpr int COLUMNS = TILE_M / 8, UNIT_COLUMNS = UNIT_M / 8;

NIB_DEVICE void consumer_sync(int consumer)
{
    nib_group_sync(PART_FIRST + consumer, 128);
}

/* The four sums of column c. */
NIB_DEVICE float *column(state &s, int c)
{
    return &s.tot[c / UNIT_COLUMNS][c % UNIT_COLUMNS * 4];
}

/* ---- stream: parts of other blocks -------------------------------------------------------- */

/* The workspace: a flag of each consumer of each block, then the blocks' sums, [column][thread][4].
 * A block leaves at most one part: all of its pieces but the one at its run's end, which it has
 * first, reach to the end of their tile. A flag is set by the launch's nonce: what earlier launches
 * left there is not that. After its use it is cleared for the next run of a graph, whose nonce is
 * the same. */
static constexpr int PART_FLOATS = COLUMNS * CONSUMER_THREADS * 4;

NIB_DEVICE uint64_t *part_flag(const nib_cuda_params &p, int block, int consumer)
{
    return (uint64_t *)p.partial + (int64_t)block * BLOCKS + consumer;
}

NIB_DEVICE float *part_sums(const nib_cuda_params &p, int block, int thread)
{
    const int64_t flags = ((int64_t)gridDim.x * BLOCKS + 1) & ~(int64_t)1; /* 16-byte pieces */
    float *first = (float *)((uint64_t *)p.partial + flags);
    return first + (int64_t)block * PART_FLOATS + thread * 4;
}

NIB_DEVICE void leave_part(const nib_cuda_params &p, int thread, state &s)
{
    const int block = (int)blockIdx.x, consumer = thread / 128;
    float *to = part_sums(p, block, thread);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const float *sums = column(s, c);
        const uint32_t bits[4] = {nib_bits_from_float(sums[0]), nib_bits_from_float(sums[1]),
                                  nib_bits_from_float(sums[2]), nib_bits_from_float(sums[3])};
        nib_global_store4(to + c * (CONSUMER_THREADS * 4), bits);
    }
    nib_fence_gpu();         /* this thread's sums come before the flag, */
    consumer_sync(consumer); /* and so do all threads' */
    if (thread % 128 == 0)
        nib_flag_set(part_flag(p, block, consumer), p.nonce);
}

NIB_DEVICE void take_part(const nib_cuda_params &p, int block, int thread, state &s)
{
    const int consumer = thread / 128;
    if (thread % 128 == 0) {
        uint64_t *flag = part_flag(p, block, consumer);
        while (nib_flag_read(flag) != p.nonce) {
        }
        *flag = 0;
    }
    consumer_sync(consumer); /* all threads see the block's sums */
    const float *from = part_sums(p, block, thread);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        uint32_t bits[4];
        nib_global_load4(bits, from + c * (CONSUMER_THREADS * 4));
#pragma unroll
        for (int j = 0; j < 4; j++)
            column(s, c)[j] += nib_float_from_bits(bits[j]);
    }
}

/* Adds what blocks before this one have summed of the tile that it ends, in the order of k. */
NIB_DEVICE void take_parts(const nib_cuda_params &p, const nib_work &w, const nib_piece &piece,
                           int thread, state &s)
{
    const uint32_t all = (uint32_t)nib_stream_tiles(nib_tiles(p)) * (uint32_t)p.k_blocks;
    const uint32_t begin = (uint32_t)(piece.tile - w.whole_tiles) * (uint32_t)p.k_blocks;
    int block = (int)blockIdx.x - 1;
    while (nib_run_begin(all, block) > begin)
        block--;
#pragma unroll 1
    for (; block < (int)blockIdx.x; block++)
        take_part(p, block, thread, s);
}

/* ---- cluster: parts of its blocks --------------------------------------------------------- */

/* Each block ends COLUMNS / CLUSTER columns, rounded up, of the tile; the last may have less, or
 * none. */
template <int CLUSTER> NIB_CONSTEXPR int columns_of_block(void)
{
    return (COLUMNS + CLUSTER - 1) / CLUSTER;
}

/* All blocks of the cluster, all their consumers. Sums go to the block that ends their column, into
 * the ring that nobody needs any more, [block][column][thread][4], and come back as its first
 * columns, added in the order of k. Returns how many those are. */
template <int CLUSTER>
NIB_DEVICE int exchange_parts(uint32_t shared, int rank, int thread, state &s)
{
    constexpr int own = columns_of_block<CLUSTER>();
    const int left = nib_minimum(own, COLUMNS - own * rank);
    const uint32_t at = shared + (rank * own * CONSUMER_THREADS + thread) * 16;
    nib_cluster_arrive();
    nib_cluster_wait(); /* all blocks have read their rings */
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const float *sums = column(s, c);
        const uint32_t bits[4] = {nib_bits_from_float(sums[0]), nib_bits_from_float(sums[1]),
                                  nib_bits_from_float(sums[2]), nib_bits_from_float(sums[3])};
        nib_cluster_store4(nib_cluster_address(at + c % own * (CONSUMER_THREADS * 16), c / own),
                           bits);
    }
    nib_cluster_arrive();
    nib_cluster_wait(); /* all sums are there; and no block leaves before */
#pragma unroll
    for (int c = 0; c < own; c++) {
        if (c >= left)
            break;
        float *sums = column(s, c);
        sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
#pragma unroll
        for (int from = 0; from < CLUSTER; from++) {
            uint32_t bits[4];
            nib_shared_load4(bits, shared + ((from * own + c) * CONSUMER_THREADS + thread) * 16);
#pragma unroll
            for (int j = 0; j < 4; j++)
                sums[j] += nib_float_from_bits(bits[j]);
        }
    }
    return left;
}

/* The loaders' part in the barriers of exchange_parts. */
NIB_DEVICE void exchange_nothing(void)
{
    nib_cluster_arrive();
    nib_cluster_wait();
    nib_cluster_arrive();
    nib_cluster_wait();
}

/* ---- outputs ------------------------------------------------------------------------------ */

/* Columns that leave together. */
static constexpr int OUT_COLUMNS = OUT_TOKENS / 8;

/* Where a thread stores: eight columns of out from n on, of one token. Gated pairs have two
 * consumers, or four, for half as many outputs. */
struct out_place {
    int64_t n;
    int columns; /* that exist from n on, at most 8 */
    int token;
    uint32_t sums; /* the first of token 0 in shared memory; of pairs, the gate's */
    bool wide;     /* eight may be stored at once */
};

NIB_DEVICE out_place out_place_of(const nib_cuda_params &p, uint32_t out, int n_block, int thread)
{
    const int consumer = thread / 128, bytes = nib_element_bytes(p.out_type);
    const int pair = GATED ? consumer % (BLOCKS / 2) : consumer;
    out_place o;
    o.n = (int64_t)(n_block + pair) * 64 + thread % 8 * 8;
    const int64_t left = (GATED ? p.n / 2 : p.n) - o.n;
    o.columns = (int)(left < 8 ? left : 8);
    o.token = thread % 128 / 8 + (GATED ? consumer / (BLOCKS / 2) * 16 : 0);
    o.sums = out + pair * OUT_BYTES + thread % 8 * 32;
    o.wide = o.columns == 8 && p.ldo * bytes % 16 == 0 && (uint64_t)p.out % 16 == 0;
    return o;
}

template <int N> NIB_DEVICE void load_floats(uint32_t from, float (&values)[N])
{
    uint32_t bits[N];
    if constexpr (N == 1)
        bits[0] = nib_shared_load(from);
    else
#pragma unroll
        for (int i = 0; i < N; i += 4)
            nib_shared_load4(bits + i, from + i * 4);
#pragma unroll
    for (int i = 0; i < N; i++)
        values[i] = nib_float_from_bits(bits[i]);
}

/* N (1 or 8) outputs from sums and the bias of their rows. */
template <int N>
NIB_DEVICE void output_values(const nib_cuda_params &p, float factor, uint32_t sums, uint32_t bias,
                              float (&y)[N])
{
    constexpr int up = BLOCKS / 2 * OUT_BYTES;
    float sum[N], add[N];
    load_floats(sums, sum);
    load_floats(bias, add);
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = nib_affine(p, factor, add[i], sum[i]);
    if constexpr (GATED) {
        load_floats(sums + up, sum);
        load_floats(bias + up, add);
#pragma unroll
        for (int i = 0; i < N; i++)
            y[i] = nib_silu(y[i]) * nib_affine(p, factor, add[i], sum[i]);
    } else if (p.epilogue != NIB_EPILOGUE_NONE) { /* asked once: eight times take microseconds */
#pragma unroll
        for (int i = 0; i < N; i++)
            y[i] = nib_curve(p, y[i]);
    }
}

NIB_DEVICE void store_eight(const nib_cuda_params &p, int64_t at, const float (&y)[8])
{
    const bool f16 = p.out_type == NIB_F16;
    uint32_t bits[8];
    if (p.out_type == NIB_F32) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            bits[i] = nib_bits_from_float(y[i]);
        nib_global_store4((float *)p.out + at, bits);
        nib_global_store4((float *)p.out + at + 4, bits + 4);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i += 2)
        bits[i / 2] = f16 ? nib_f16_pair(y[i], y[i + 1]) : nib_bf16_pair(y[i], y[i + 1]);
    nib_global_store4((uint16_t *)p.out + at, bits);
}

/* The thread's outputs of row m of out, whose sums are those of `token`. */
NIB_DEVICE void store_token(const nib_cuda_params &p, const out_place &o, int64_t m, int token)
{
    const uint32_t sums = o.sums + token * (OUT_PITCH * 4);
    const uint32_t bias = o.sums + OUT_HALVES * OUT_TOKENS * (OUT_PITCH * 4);
    const float factor = nib_act_factor(p, m) * SUM_FACTOR;
    const int64_t at = m * p.ldo + o.n;
    if (o.wide) {
        float y[8];
        output_values(p, factor, sums, bias, y);
        store_eight(p, at, y);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < o.columns; i++) {
        float y[1];
        output_values(p, factor, sums + i * 4, bias + i * 4, y);
        nib_store_float(p.out, at + i, p.out_type, y[0]);
    }
}

/* The bias of a consumer's rows, or zeros. */
NIB_DEVICE void stage_bias(const nib_cuda_params &p, uint32_t out, int n_block, int thread)
{
    const int consumer = thread / 128, row = thread % 128;
    const int64_t n = (int64_t)nib_block_of(p, n_block, consumer) * 64 + row;
    if (row < 64)
        nib_shared_store(out + consumer * OUT_BYTES +
                             (OUT_HALVES * OUT_TOKENS * OUT_PITCH + row) * 4,
                         nib_bits_from_float(n < p.n ? nib_bias(p, n) : 0.0f));
}

/* The sums of OUT_TOKENS tokens from `first` on to shared memory: [token][row]. */
NIB_DEVICE void stage_sums(uint32_t out, int thread, int first, state &s)
{
    const int lane = thread % 32, row = thread / 32 % 4 * 16 + lane / 4;
    const uint32_t to = out + thread / 128 * OUT_BYTES + (lane % 4 * 2 * OUT_PITCH + row) * 4;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        if (c / OUT_COLUMNS * OUT_TOKENS == first)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int token = c % OUT_COLUMNS * 8 + (j & 1);
                nib_shared_store(to + (token * OUT_PITCH + (j >> 1) * 8) * 4,
                                 nib_bits_from_float(column(s, c)[j]));
            }
}

NIB_DEVICE void out_sync(int consumer)
{
    if constexpr (GATED)
        nib_group_sync(PART_CONSUMERS, CONSUMER_THREADS);
    else
        consumer_sync(consumer);
}

/* Outputs of `tokens` tokens from m0 on, whose sums are the first columns. */
NIB_DEVICE void store_tile(const nib_cuda_params &p, uint32_t shared, int n_block, int64_t m0,
                           int tokens, int thread, state &s)
{
    const uint32_t out = shared + OUT_AT;
    const out_place o = out_place_of(p, out, n_block, thread);
    const int rows = (int)(p.m - m0 < tokens ? p.m - m0 : tokens);
    out_sync(thread / 128); /* the tile before has left */
    stage_bias(p, out, n_block, thread);
#pragma unroll 1 /* rarely run, it is better short */
    for (int first = 0; first < rows; first += OUT_TOKENS) {
        const int half = first / OUT_TOKENS % OUT_HALVES * OUT_TOKENS;
        if (OUT_HALVES == 1)
            out_sync(thread / 128); /* the sums before have been read */
        stage_sums(out + half * (OUT_PITCH * 4), thread, first, s);
        out_sync(thread / 128); /* these sums are there, those before in the other half are read */
        if (o.token < OUT_TOKENS && first + o.token < rows && o.columns > 0)
            store_token(p, o, m0 + first + o.token, half + o.token);
    }
}

#endif
