/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the gemm kernel on their way from global to shared memory: one stage holds 128 k of
 * the block's tile. A function an operand; mainloop.cuh says when. Everything about a stage's size
 * follows from nib_spec.h, and variants/sm80_gemm.c computes the same numbers.
 *
 * Constants of the family: NIB_SPEC_TILE_N (64 times a power of two) and NIB_SPEC_TILE_M rows of W
 * and act of a block, NIB_SPEC_WARPS_N, _M, _K, NIB_SPEC_STAGES, NIB_SPEC_RESIDENT (blocks that
 * share a multiprocessor), NIB_SPEC_GATED (tiles hold both halves of gated pairs), NIB_SPEC_ACC
 * (nib_type of the accumulator).
 */
#ifndef NIB_CUDA_SM80_LOAD_CUH
#define NIB_CUDA_SM80_LOAD_CUH

static constexpr int STAGE_K = 128;
static constexpr int THREADS = 32 * NIB_SPEC_WARPS_N * NIB_SPEC_WARPS_M * NIB_SPEC_WARPS_K;
static constexpr int TILE_N = NIB_SPEC_TILE_N, TILE_M = NIB_SPEC_TILE_M;
static constexpr int BLOCKS = TILE_N / 64; /* of the layout */

/* Products of integers: i8 activations stay bytes, in an order within 16 k (act_order_bytes). All
 * other activations are 16 bits wide in shared memory. */
static constexpr bool INTEGERS = NIB_COMPUTE == NIB_COMPUTE_S8;
static constexpr bool ACT_COPIED = NIB_SPEC_ACT == NIB_F16 || NIB_SPEC_ACT == NIB_BF16;
static constexpr int ACT_BYTES = INTEGERS ? 1 : 2;
static constexpr int ACT_PITCH = STAGE_K * ACT_BYTES; /* of a row in shared memory */
static constexpr int ACT_PIECES = ACT_PITCH / 16;     /* of a row */
static constexpr int ACT_PIECE_K = 16 / ACT_BYTES;    /* k of a piece */
static constexpr int ACT_ROWS = THREADS / ACT_PIECES; /* rows that all threads fetch at a time */
static constexpr bool ACT_SPARE = ACT_ROWS > TILE_M;  /* threads without a row */
static constexpr int ACT_PASSES = ACT_SPARE ? 1 : TILE_M / ACT_ROWS;
static_assert(ACT_SPARE || TILE_M % ACT_ROWS == 0, "threads with a row fetch as many pieces");

static constexpr int PLANE_BLOCK = 64 * STAGE_K / 8; /* bytes of a block of codes, for each bit */

/* Scales of a stage: CHUNKS groups of CHUNK_K columns (a longer group appears in each). */
static constexpr int CHUNK_K = NIB_SPEC_GROUP == 0 ? STAGE_K : NIB_SPEC_GROUP;
static constexpr int CHUNKS = STAGE_K / CHUNK_K;
static constexpr bool SCALED = NIB_SPEC_SCALE != NIB_TYPE_NONE;
static constexpr bool ZEROED = NIB_SPEC_ZERO != NIB_ZERO_NONE;
static constexpr int SCALE_BYTES = SCALED ? nib_element_bytes(NIB_SPEC_SCALE) : 0;
static constexpr int ZERO_BYTES = !ZEROED ? 0
                                  : NIB_SPEC_ZERO == NIB_ZERO_CODE
                                      ? 1
                                      : nib_element_bytes(NIB_SPEC_ZERO_TYPE);

/* Places in a stage, in bytes; act_place needs stages at multiples of 256. */
static constexpr int CODES_AT = TILE_M * ACT_PITCH;
static constexpr int SCALES_AT = CODES_AT + BLOCKS * PLANE_BLOCK * NIB_CODE.bits;
static constexpr int ZEROS_AT = SCALES_AT + BLOCKS * CHUNKS * 64 * SCALE_BYTES;
static constexpr int STAGE_BYTES = (ZEROS_AT + BLOCKS * CHUNKS * 64 * ZERO_BYTES + 255) / 256 * 256;

/* Where a row's 16-byte piece lies: XOR with the row spreads the eight rows of an 8 x 8 matrix over
 * all banks, so ldmatrix and the copies have no conflicts. */
NIB_DEVICE uint32_t act_place(int row, int piece)
{
    return (uint32_t)(row * ACT_PITCH + ((piece ^ (row & 7)) << 4));
}

/* ---- activations -------------------------------------------------------------------------- */

/* A thread fetches the same piece of rows `row`, row + ACT_ROWS, ... of each stage. */
struct act_source {
    const uint8_t *at; /* of this thread's first piece in the stage to come */
    int64_t pass;      /* bytes from pass to pass */
    uint32_t inside;   /* bit i: the row of pass i is one of act's */
    int k_left;        /* columns from this thread's piece on, negative behind the last */
    int row, piece;
};
static_assert(ACT_PASSES <= 32, "a bit a pass");

NIB_DEVICE act_source act_begin(const nib_cuda_params &p, int64_t m0, int k0)
{
    const int bytes = nib_element_bytes(NIB_SPEC_ACT);
    act_source a;
    a.row = nib_thread() / ACT_PIECES;
    a.piece = nib_thread() % ACT_PIECES;
    a.at = (const uint8_t *)p.act + ((m0 + a.row) * p.lda + k0 + a.piece * ACT_PIECE_K) * bytes;
    a.pass = ACT_ROWS * p.lda * bytes;
    a.k_left = (int)p.k - k0 - a.piece * ACT_PIECE_K;
    a.inside = 0;
#pragma unroll
    for (int i = 0; i < ACT_PASSES; i++)
        a.inside |= (uint32_t)(m0 + a.row + i * ACT_ROWS < p.m) << i;
    return a;
}

NIB_DEVICE void act_advance(act_source &a)
{
    a.at += STAGE_K * nib_element_bytes(NIB_SPEC_ACT);
    a.k_left -= STAGE_K;
}

/* 16-bit activations at aligned addresses: k is a multiple of a piece, so pieces are whole. Nothing
 * is read where nothing is inside, whatever the address. */
NIB_DEVICE void act_copy(const act_source &a, uint32_t stage)
{
    if (ACT_SPARE && a.row >= TILE_M)
        return;
    const uint32_t inside = a.k_left > 0 ? a.inside : 0;
    const uint8_t *from = a.at;
#pragma unroll
    for (int i = 0; i < ACT_PASSES; i++) {
        nib_copy16_part(stage + act_place(a.row + i * ACT_ROWS, a.piece), from,
                        (inside >> i & 1) * 16);
        from += a.pass;
    }
}

/* The elements of a piece as they are in memory, 16-bit ones two a word, bytes four; zeros beyond
 * act. */
NIB_DEVICE void act_fetch(const nib_cuda_params &p, const act_source &a, int pass,
                          uint32_t (&words)[4])
{
    constexpr int bytes = nib_element_bytes(NIB_SPEC_ACT), in_word = 4 / bytes;
    const uint8_t *from = a.at + pass * a.pass;
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = 0;
    if (!(a.inside >> pass & 1))
        return;
    if (p.aligned && bytes == 1) { /* k is a multiple of 16 */
        if (a.k_left > 0) {
            const uint32_t *in = (const uint32_t *)from;
#pragma unroll
            for (int i = 0; i < ACT_PIECE_K / 4; i++)
                words[i] = in[i];
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < ACT_PIECE_K; i++)
        if (i < a.k_left)
            words[i / in_word] |= nib_load_element<bytes>(from, i) << (8 * bytes * (i % in_word));
}

/* Bytes of 16 k as nib_dequant_bytes orders the codes of a lane: lane t's word holds k = 2t, 2t +
 * 8, 2t + 1, 2t + 9. */
NIB_DEVICE void act_order_bytes(uint32_t (&words)[4])
{
    const uint32_t w0 = nib_permute(words[0], words[2], 0x5140);
    const uint32_t w1 = nib_permute(words[0], words[2], 0x7362);
    const uint32_t w2 = nib_permute(words[1], words[3], 0x5140);
    const uint32_t w3 = nib_permute(words[1], words[3], 0x7362);
    words[0] = w0, words[1] = w1, words[2] = w2, words[3] = w3;
}

/* Two bytes, in the low ends of a word's halves, as f16: exact. The factor of e4m3 stays. */
NIB_DEVICE uint32_t act_pair(uint32_t bytes)
{
    if constexpr (NIB_SPEC_ACT == NIB_I8)
        /* The byte with its sign bit flipped is the value + 128; behind 0x64 that is 1024 + 128 +
         * the value. */
        return nib_fma_f16x2((bytes ^ 0x00800080u) | 0x64006400u, 0x3c003c00u, 0xe480e480u);
    else if constexpr (NIB_SPEC_ACT == NIB_E4M3)
        return nib_f16_pair_from_e4m3(bytes);
    else
        return bytes << 8;
}

static constexpr float ACT_FACTOR = NIB_SPEC_ACT == NIB_E4M3 ? NIB_E4M3_FACTOR : 1.0f;

/* A piece through registers: converted or reordered, and from any address. */
NIB_DEVICE void act_store(const act_source &a, int pass, uint32_t (&words)[4], uint32_t stage)
{
    if (ACT_SPARE && a.row >= TILE_M)
        return;
    if constexpr (INTEGERS) {
        act_order_bytes(words);
    } else if constexpr (!ACT_COPIED) { /* eight bytes */
        const uint32_t low = words[0], high = words[1];
        words[0] = act_pair(nib_permute(low, 0, 0x4140));
        words[1] = act_pair(nib_permute(low, 0, 0x4342));
        words[2] = act_pair(nib_permute(high, 0, 0x4140));
        words[3] = act_pair(nib_permute(high, 0, 0x4342));
    }
    nib_shared_store4(stage + act_place(a.row + pass * ACT_ROWS, a.piece), words);
}

/* ---- weights ------------------------------------------------------------------------------ */

/* The layout's block that is block `index` of a tile which begins at n_block. A tile of gated pairs
 * has as many blocks of the lower half of W's rows as of the upper. Past the last block it is
 * repeated: what comes of it is not stored. */
static constexpr bool GATED = NIB_SPEC_GATED;

NIB_DEVICE int block_of(const nib_cuda_params &p, int n_block, int index)
{
    if constexpr (GATED) {
        const int half = p.n_blocks / 2, upper = index / (BLOCKS / 2);
        return nib_minimum(n_block + index % (BLOCKS / 2), half - 1) + upper * half;
    }
    return nib_minimum(n_block + index, p.n_blocks - 1);
}

/* Planes follow each other in a stage. */
template <int PLANE> NIB_CONSTEXPR int codes_place(void)
{
    return CODES_AT + BLOCKS * PLANE_BLOCK * nib_plane_shift(PLANE);
}

/* A thread's pieces of a plane: every THREADS-th of the tile's, block after block. Pieces of one
 * block share a pointer. */
template <int PLANE> struct plane_source {
    static constexpr int bytes = PLANE_BLOCK * nib_plane_bits(PLANE); /* of a block */
    static constexpr int per_block = bytes / 16, count = BLOCKS * per_block;
    static constexpr int passes = (count + THREADS - 1) / THREADS;
    static constexpr int shared = per_block > THREADS ? per_block / THREADS : 1;
    const uint8_t *at[passes / shared > 0 ? passes / shared : 1];
};

template <int PLANE>
NIB_DEVICE void plane_begin(const nib_cuda_params &p, int n_block, int k_block,
                            plane_source<PLANE> &x)
{
    typedef plane_source<PLANE> source;
#pragma unroll
    for (int i = 0; i < source::passes / source::shared; i++) {
        const int piece = i * source::shared * THREADS + nib_thread();
        const int64_t block =
            (int64_t)block_of(p, n_block, piece / source::per_block) * p.k_blocks + k_block;
        x.at[i] = (const uint8_t *)p.codes[PLANE] + block * source::bytes +
                  piece % source::per_block * 16;
    }
}

/* Copies one stage and goes on to the next. */
template <int PLANE> NIB_DEVICE void plane_copy(plane_source<PLANE> &x, uint32_t stage)
{
    typedef plane_source<PLANE> source;
    const uint32_t to = stage + codes_place<PLANE>() + nib_thread() * 16;
#pragma unroll
    for (int i = 0; i < source::passes; i++)
        if (source::count % THREADS == 0 || i * THREADS + nib_thread() < source::count)
            nib_copy16(to + i * THREADS * 16,
                       x.at[i / source::shared] + i % source::shared * THREADS * 16);
#pragma unroll
    for (int i = 0; i < source::passes / source::shared; i++)
        x.at[i] += source::bytes;
}

struct codes_source {
    plane_source<0> first;
    plane_source<1> second; /* of NIB_PLANES > 1 */
    plane_source<2> third;  /* of NIB_PLANES > 2 */
};

NIB_DEVICE void codes_begin(const nib_cuda_params &p, int n_block, int k_block, codes_source &x)
{
    plane_begin(p, n_block, k_block, x.first);
    if constexpr (NIB_PLANES > 1)
        plane_begin(p, n_block, k_block, x.second);
    if constexpr (NIB_PLANES > 2)
        plane_begin(p, n_block, k_block, x.third);
}

NIB_DEVICE void codes_copy(codes_source &x, uint32_t stage)
{
    plane_copy(x.first, stage);
    if constexpr (NIB_PLANES > 1)
        plane_copy(x.second, stage);
    if constexpr (NIB_PLANES > 2)
        plane_copy(x.third, stage);
}

/* Scales or zeros, BYTES each, of the stage's groups: [block][chunk][64]. */
template <int BYTES>
NIB_DEVICE void groups_copy(const nib_cuda_params &p, const void *array, int n_block, int k_block,
                            uint32_t to)
{
    constexpr int per_chunk = 64 * BYTES / 16, count = BLOCKS * CHUNKS * per_chunk;
#pragma unroll
    for (int i = 0; i < count; i += THREADS) {
        const int piece = i + nib_thread();
        if (piece < count) {
            int block = block_of(p, n_block, piece / (CHUNKS * per_chunk));
            int group = 0;
            if (NIB_SPEC_GROUP != 0) { /* the last stage may reach beyond the last group */
                const int k = k_block * STAGE_K + piece / per_chunk % CHUNKS * CHUNK_K;
                group = p.group == CHUNK_K ? k / CHUNK_K : k / (int)p.group;
                group = nib_minimum(group, (int)p.groups - 1);
            }
            if (p.one_scale)
                block = group = 0;
            const int64_t row = (int64_t)block * p.groups + group;
            nib_copy16(to + piece * 16,
                       (const uint8_t *)array + row * 64 * BYTES + piece % per_chunk * 16);
        }
    }
}

/* Scales and zeros of a stage. */
NIB_DEVICE void groups_copy(const nib_cuda_params &p, int n_block, int k_block, uint32_t stage)
{
    if constexpr (SCALED)
        groups_copy<SCALE_BYTES>(p, p.scales, n_block, k_block, stage + SCALES_AT);
    if constexpr (ZEROED)
        groups_copy<ZERO_BYTES>(p, p.zeros, n_block, k_block, stage + ZEROS_AT);
}

#endif
