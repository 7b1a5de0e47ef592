/* SPDX-License-Identifier: Apache-2.0
 *
 * All of W to operands of bytes in the workspace, for gemm8.cu with many rows of act: there a code
 * would be made an operand again for every tile of tokens. Blocks of 64 rows and 128 columns follow
 * each other as in the packed codes, each laid out as wgmma wants it in shared memory, so that the
 * product's kernel copies them as they are. Any grid of blocks of 128 threads.
 */
#ifndef NIB_CUDA_SM90_EXPAND8_CUH
#define NIB_CUDA_SM90_EXPAND8_CUH

/* Rows g and g + 8 of step `step`; `to`: of the lane in its unit. Pieces of 16 columns are swapped
 * by the row's number, g. */
NIB_DEVICE void store_step(uint32_t to, int step, uint32_t g, uint32_t g8)
{
    const uint32_t at = to ^ (uint32_t)step << 4;
    nib_shared_store(at, g);
    nib_shared_store(at + 8 * 128, g8);
}

/* A lane's words become operands, all exchanged, then all stored: one after the other each would
 * wait for itself. `to`: of the lane in its unit. */
NIB_DEVICE void store_words(const nib_operands &x, uint32_t (&q)[NIB_WORDS], uint32_t to)
{
    uint32_t g, g8;
#pragma unroll
    for (int i = 0; i < NIB_WORDS; i += 2) {
        if constexpr (NIB_CODE.bits == 8)
            nib_exchange_bytes(x, q[i], q[i + 1]);
        else
            nib_exchange_nibbles(x, q[i], q[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < NIB_WORDS; i += 2) {
        if constexpr (NIB_CODE.bits == 8) {
            store_step(to, i / 2, q[i], q[i + 1]);
        } else {
            nib_expand_nibbles(q[i], g, g8);
            store_step(to, i, g, g8);
            nib_expand_nibbles(q[i + 1], g, g8);
            store_step(to, i + 1, g, g8);
        }
    }
}

/* Place of a lane in the operands of unit `unit` of a block. */
NIB_DEVICE uint32_t lane_place(int unit)
{
    const int lane = nib_thread() % 32, row = unit * 16 + lane / 4;
    return row * 128 + (lane / 4 << 4) + lane % 4 * 4;
}

/* All blocks of W; `shared` has room for one. The layout is mma64x128: warp w has unit w of a
 * block. */
NIB_DEVICE void expand_all(const nib_cuda_params &p, uint32_t shared)
{
    const nib_operands x = nib_operands_begin();
    const int thread = nib_thread(), warp = thread / 32;
    const int64_t blocks = (int64_t)p.n_blocks * p.k_blocks;
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const uint8_t *from = (const uint8_t *)p.codes[0] + block * CODE_BLOCK + thread * 16;
        uint8_t *to = (uint8_t *)p.partial + block * OPERAND_BLOCK + thread * 16;
        uint32_t q[NIB_WORDS], words[4];
#pragma unroll
        for (int i = 0; i < NIB_WORDS; i += 4)
            nib_global_load4(q + i, from + i / 4 * 2048);
        __syncthreads(); /* the block before has been read */
        store_words(x, q, shared + lane_place(warp));
        __syncthreads(); /* this one is there */
#pragma unroll
        for (int i = 0; i < OPERAND_BLOCK; i += 2048) {
            nib_shared_load4(words, shared + thread * 16 + i);
            nib_global_store4(to + i, words);
        }
    }
}

#endif
