/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring of gemm8.cu: stages of 128 k of the block's tile, codes and scales of W and activations
 * of 8 bits, on their way from global to shared memory. One thread starts the copies: codes and
 * scales lie in pieces of a stage's size (bulk copies), activations come by their map (a tensor
 * copy, 128 bytes of each row) or, where they have none, element by element from all makers.
 * expand8.cuh says when.
 *
 * Constants of the family: NIB_SPEC_BYTES, NIB_SPEC_TILE_N (64 for each consumer) and
 * NIB_SPEC_TILE_M rows of W and act of a tile, NIB_SPEC_STAGES, NIB_SPEC_BUFFERS (stages of
 * operands; 0: they are in registers, or EXPANDED), NIB_SPEC_EXPANDED, NIB_SPEC_MAKERS (warps: 4,
 * or 8), NIB_SPEC_RESIDENT (blocks that share a multiprocessor), NIB_SPEC_GATED (tiles hold both
 * halves of gated pairs). variants/sm90_gemm8.c computes the same sizes.
 */
#ifndef NIB_CUDA_SM90_LOAD8_CUH
#define NIB_CUDA_SM90_LOAD8_CUH

static constexpr int STAGES = NIB_SPEC_STAGES, BUFFERS = NIB_SPEC_BUFFERS;
/* All operands are made by a kernel before this one, blocks of them one after the other. */
static constexpr bool EXPANDED = NIB_SPEC_EXPANDED;
/* What consumers give back: buffers and with them stages, or stages. */
static constexpr int RELEASES = BUFFERS > 0 ? BUFFERS : STAGES;
static constexpr int MAKER_WARPS = NIB_SPEC_MAKERS, MAKER_THREADS = 32 * MAKER_WARPS;

static constexpr int CODE_BLOCK = 64 * STAGE_K / 8 * NIB_CODE.bits; /* bytes of a block of codes */

/* Scales of a stage: CHUNKS groups of CHUNK_K columns (a longer group appears in each). */
static constexpr int CHUNK_K = NIB_SPEC_GROUP == 0 ? STAGE_K : NIB_SPEC_GROUP;
static constexpr int CHUNKS = STAGE_K / CHUNK_K;
static constexpr bool SCALED = NIB_SPEC_SCALE != NIB_TYPE_NONE;
static constexpr int SCALE_BYTES = SCALED ? nib_element_bytes(NIB_SPEC_SCALE) : 0;
static_assert(NIB_SPEC_ZERO == NIB_ZERO_NONE, "variants/sm90_gemm8.c refuses zeros");

/* ---- shared memory ------------------------------------------------------------------------ */

/* Sizes and places in bytes. A stage's activations, [token][128 bytes] swizzled, begin at multiples
 * of 1024, and so do operands, [buffer][row of W][128 bytes] swizzled. The rest of a stage:
 *
 *     codes [block]   scales [block][chunk][64]
 */
static constexpr int ACT_STAGE = TILE_M * 128;
static constexpr int OPERAND_BLOCK = 64 * 128, OPERANDS = BLOCKS * OPERAND_BLOCK;
static constexpr int OPERAND_STAGES = EXPANDED ? STAGES : BUFFERS;
static constexpr int SCALES_AT = EXPANDED ? 0 : BLOCKS * CODE_BLOCK;
static constexpr int WEIGHT_STAGE = SCALES_AT + BLOCKS * CHUNKS * 64 * SCALE_BYTES;
static_assert(ACT_STAGE % 1024 == 0 && WEIGHT_STAGE % 16 == 0, "copies want such places");

/* Two halves of sums on their way out, [token][64 + 4] f32, and the bias, for each consumer: see
 * output.cuh. */
static constexpr int OUT_TOKENS = TILE_M % 16 == 0 ? 16 : 8, OUT_HALVES = 2;
static constexpr int OUT_PITCH = 68, OUT_BYTES = (OUT_HALVES * OUT_TOKENS + 1) * OUT_PITCH * 4;

static constexpr int OPERANDS_AT = STAGES * ACT_STAGE;
static constexpr int WEIGHTS_AT = OPERANDS_AT + OPERAND_STAGES * OPERANDS;
static constexpr int OUT_AT = WEIGHTS_AT + STAGES * WEIGHT_STAGE;
static constexpr int BARRIERS_AT = OUT_AT + BLOCKS * OUT_BYTES;

/* A stage of the ring, or a buffer of operands, as the one who fills or reads it counts them. */
typedef struct nib_slot {
    int index;
    uint32_t parity; /* of the phase in which it is filled */
} nib_slot;

template <int COUNT> NIB_DEVICE void nib_slot_next(nib_slot &slot)
{
    slot.index++;
    if (slot.index == COUNT) {
        slot.index = 0;
        slot.parity ^= 1;
    }
}

NIB_DEVICE uint32_t act_of(uint32_t shared, const nib_slot &stage)
{
    return shared + stage.index * ACT_STAGE;
}

NIB_DEVICE uint32_t weights_of(uint32_t shared, const nib_slot &stage)
{
    return shared + WEIGHTS_AT + stage.index * WEIGHT_STAGE;
}

NIB_DEVICE uint32_t operands_of(uint32_t shared, const nib_slot &buffer)
{
    return shared + OPERANDS_AT + buffer.index * OPERANDS;
}

/* Barriers; expand8.cuh says what they mean. */
NIB_DEVICE uint32_t full_of(uint32_t shared, const nib_slot &stage)
{
    return shared + BARRIERS_AT + stage.index * 8;
}

NIB_DEVICE uint32_t ready_of(uint32_t shared, const nib_slot &buffer)
{
    return shared + BARRIERS_AT + (STAGES + buffer.index) * 8;
}

NIB_DEVICE uint32_t empty_of(uint32_t shared, const nib_slot &release)
{
    return shared + BARRIERS_AT + (STAGES + BUFFERS + release.index) * 8;
}

/* One thread, before all others go on. Without a map every maker warp arrives for its part of act.
 */
NIB_DEVICE void barriers_begin(uint32_t shared, bool mapped)
{
    nib_slot slot = {0, 0};
    for (; slot.index < STAGES; slot.index++)
        nib_barrier_init(full_of(shared, slot), 1 + SCALED + (mapped ? 1 : MAKER_WARPS));
    for (slot.index = 0; slot.index < BUFFERS; slot.index++)
        nib_barrier_init(ready_of(shared, slot), MAKER_WARPS);
    for (slot.index = 0; slot.index < RELEASES; slot.index++)
        nib_barrier_init(empty_of(shared, slot), CONSUMER_THREADS / 32);
    nib_barrier_init_fence();
}

/* ---- copies ------------------------------------------------------------------------------- */

/* Scales of a block of the layout in stage k. The last stage may reach beyond the last group, which
 * then is repeated: activations there are zero, but what lay there before need not be a number. */
NIB_DEVICE void copy_block_scales(const nib_cuda_params &p, int n_block, int k, uint32_t to,
                                  uint32_t full)
{
    const int first = k * CHUNKS;
    const uint8_t *block = (const uint8_t *)p.scales;
    if (!p.one_scale)
        block += n_block * p.groups * (64 * SCALE_BYTES);
    if (p.group == CHUNK_K && first + CHUNKS <= p.groups) {
        nib_bulk_copy(to, block + (int64_t)first * (64 * SCALE_BYTES), CHUNKS * 64 * SCALE_BYTES,
                      full);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < CHUNKS; i++) {
        const int group = NIB_SPEC_GROUP == 0 ? 0 : (first + i) * CHUNK_K / (int)p.group;
        nib_bulk_copy(to + i * (64 * SCALE_BYTES),
                      block + (int64_t)nib_minimum(group, (int)p.groups - 1) * (64 * SCALE_BYTES),
                      64 * SCALE_BYTES, full);
    }
}

/* The following are of one thread each, which announces its bytes: at some hundred clocks for a
 * stage, one alone would be too slow for all. */
NIB_DEVICE void copy_codes(const nib_cuda_params &p, uint32_t shared, const nib_slot &stage,
                           int n_block, int k)
{
    constexpr int bytes = EXPANDED ? OPERAND_BLOCK : CODE_BLOCK;
    const uint32_t to = EXPANDED ? operands_of(shared, stage) : weights_of(shared, stage);
    const uint8_t *from = (const uint8_t *)(EXPANDED ? p.partial : p.codes[0]);
    const uint32_t full = full_of(shared, stage);
    nib_barrier_expect(full, BLOCKS * bytes);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const int64_t block = (int64_t)nib_block_of(p, n_block, i) * p.k_blocks + k;
        nib_bulk_copy(to + i * bytes, from + block * bytes, bytes, full);
    }
}

NIB_DEVICE void copy_scales(const nib_cuda_params &p, uint32_t shared, const nib_slot &stage,
                            int n_block, int k)
{
    const uint32_t to = weights_of(shared, stage) + SCALES_AT, full = full_of(shared, stage);
    nib_barrier_expect(full, BLOCKS * CHUNKS * 64 * SCALE_BYTES);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        copy_block_scales(p, nib_block_of(p, n_block, i), k, to + i * (CHUNKS * 64 * SCALE_BYTES),
                          full);
}

NIB_DEVICE void copy_act(const nib_cuda_mapped_params &x, uint32_t shared, const nib_slot &stage,
                         int m0, int k)
{
    const uint32_t full = full_of(shared, stage);
    nib_barrier_expect(full, ACT_STAGE);
    nib_tensor_copy(act_of(shared, stage), &x.act_map, k * STAGE_K, m0, full);
}

/* All makers, from any address: a 16-byte piece of a row at a time, to where the tensor copy would
 * have put it. */
NIB_DEVICE void fill_act(const nib_cuda_params &p, uint32_t shared, const nib_slot &stage, int m0,
                         int k)
{
    const int thread = nib_thread() - CONSUMER_THREADS, piece = thread % 8;
    const int64_t column = (int64_t)k * STAGE_K + piece * 16;
    const int columns = (int)(p.k - column);
#pragma unroll 1
    for (int row = thread / 8; row < TILE_M; row += MAKER_THREADS / 8) {
        uint32_t words[4] = {0, 0, 0, 0};
        if (m0 + row < p.m) {
            const uint8_t *from = (const uint8_t *)p.act + (m0 + row) * p.lda + column;
#pragma unroll
            for (int i = 0; i < 16; i++)
                if (i < columns)
                    words[i / 4] |= (uint32_t)from[i] << (8 * (i % 4));
        }
        nib_shared_store4(act_of(shared, stage) + row * 128 + (((piece ^ row) & 7) << 4), words);
    }
    nib_fence_async(); /* the products read these stores */
    __syncwarp();
    if (thread % 32 == 0)
        nib_barrier_arrive(full_of(shared, stage));
}

#endif
