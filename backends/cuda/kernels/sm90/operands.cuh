/* SPDX-License-Identifier: Apache-2.0
 *
 * What a consumer's lane reads of a stage's weights: its words of codes, and scales and zeros of
 * its two rows. Both schedules, mainloop.cuh and rolling.cuh, make operands of them by
 * kernels/sm80/dequant.cuh.
 */
#ifndef NIB_CUDA_SM90_OPERANDS_CUH
#define NIB_CUDA_SM90_OPERANDS_CUH

/* Steps of 16 columns: of a stage, and of a group's part of it. */
static constexpr int STEPS = STAGE_K / 16, CHUNK_STEPS = CHUNK_K / 16;

/* Codes of the present stage and, of integers, what is added to them; places of the lane within a
 * stage's weights. */
struct operand_source {
    uint32_t q[NIB_WORDS], addend[2];
    uint32_t codes[NIB_PLANES], scales, zeros;
    uint32_t table;
    int one_scale;
};

/* ---- a stage's words ---------------------------------------------------------------------- */

NIB_CONSTEXPR int code_unit_bytes(int bits)
{
    return bits == 1 ? 256 : 512;
}

template <int PLANE>
NIB_DEVICE void begin_plane(int consumer, int unit, int lane, operand_source &x)
{
    constexpr int bits = nib_plane_bits(PLANE);
    x.codes[PLANE] = codes_place<PLANE>() + consumer * (PLANE_BLOCK * bits) +
                     unit * code_unit_bytes(bits) + lane * (bits == 1 ? 8 : 16);
}

NIB_DEVICE void source_begin(const nib_cuda_params &p, uint32_t shared, int thread,
                             operand_source &x)
{
    const int consumer = thread / 128, unit = thread / 32 % 4, lane = thread % 32;
    begin_plane<0>(consumer, unit, lane, x);
    if constexpr (NIB_PLANES > 1)
        begin_plane<1>(consumer, unit, lane, x);
    if constexpr (NIB_PLANES > 2)
        begin_plane<2>(consumer, unit, lane, x);
    /* A pair, rows g and g + 8 of each unit of 16 rows; [block][chunk][64]. */
    const int pair = consumer * (CHUNKS * 64) + (p.one_scale ? 0 : unit * 16 + lane / 4 * 2);
    x.scales = SCALES_AT + pair * SCALE_BYTES;
    x.zeros = ZEROS_AT + pair * ZERO_BYTES;
    x.one_scale = p.one_scale;
    x.table = shared + TABLE_AT + lane * NIB_TABLE_ENTRY;
    x.addend[0] = nib_fold_addend(0);
    x.addend[1] = nib_fold_addend(1);
}

/* All codes of a lane in a stage, the layout mma64x128: 16 bytes hold 2 steps of 8-bit codes, 4 of
 * 4, all 8 of 2; 8 bytes all of 1. */
template <int PLANE> NIB_DEVICE void fetch_plane(uint32_t weights, operand_source &x)
{
    constexpr int bits = nib_plane_bits(PLANE);
    uint32_t *q = x.q + 2 * nib_plane_shift(PLANE);
    if constexpr (bits == 1)
        nib_shared_load2(q, weights + x.codes[PLANE]);
    else
#pragma unroll
        for (int i = 0; i < bits / 2; i++)
            nib_shared_load4(q + 4 * i, weights + x.codes[PLANE] + i * 2048);
}

NIB_DEVICE void fetch_codes(uint32_t weights, operand_source &x)
{
    fetch_plane<0>(weights, x);
    if constexpr (NIB_PLANES > 1)
        fetch_plane<1>(weights, x);
    if constexpr (NIB_PLANES > 2)
        fetch_plane<2>(weights, x);
}

/* Bits of the scales or zeros of rows g and g + 8, BYTES each; a matrix with one scale has it in
 * the first place. */
template <int BYTES> NIB_DEVICE void fetch_pair(uint32_t at, int one_scale, uint32_t (&pair)[2])
{
    if constexpr (BYTES == 4) {
        nib_shared_load2(pair, at);
    } else {
        const uint32_t both = BYTES == 2 ? nib_shared_load(at) : nib_shared_load16(at);
        pair[0] = both & (BYTES == 2 ? 0xffffu : 0xffu);
        pair[1] = both >> (8 * BYTES);
    }
    if (NIB_SPEC_GROUP == 0 && one_scale)
        pair[1] = pair[0];
}

/* Bits of the scales and zeros of chunk CHUNK; zeros that operands hold go into their addends. */
template <int CHUNK>
NIB_DEVICE void fetch_values(uint32_t weights, operand_source &x, uint32_t (&scale)[2],
                             uint32_t (&zero)[2])
{
    if constexpr (SCALED)
        fetch_pair<SCALE_BYTES>(weights + x.scales + CHUNK * 64 * SCALE_BYTES, x.one_scale, scale);
    if constexpr (ZEROED)
        fetch_pair<ZERO_BYTES>(weights + x.zeros + CHUNK * 64 * ZERO_BYTES, x.one_scale, zero);
    if constexpr (FOLD_ZERO) {
        x.addend[0] = nib_fold_addend_zero<0>(zero[0]);
        x.addend[1] = nib_fold_addend_zero<1>(zero[1]);
    }
}

/* ---- the way back ------------------------------------------------------------------------- */

/* A warp needs a stage no more; `empty`: its barrier. */
NIB_DEVICE void release(uint32_t empty)
{
    if (nib_thread() % 32 == 0)
        nib_barrier_arrive(empty);
}

#endif
