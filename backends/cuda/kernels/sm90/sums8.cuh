/* SPDX-License-Identifier: Apache-2.0
 *
 * What a consumer of byte operands does with sums: a unit, a group's columns in one stage, has its
 * products in one set of sums, which then goes to the totals in f32: tot += s acc. That is at once
 * what the scales of groups need and what keeps the sums of 8-bit floats exact enough
 * (docs/numerics.md). gemm8.cu has the schedule.
 */
#ifndef NIB_CUDA_SM90_SUMS8_CUH
#define NIB_CUDA_SM90_SUMS8_CUH

/* One set of sums is for all tokens of a tile; output.cuh knows tiles of two halves. */
static constexpr int UNIT_M = TILE_M, HALVES = 1;

/* Steps of 32 columns in a unit. */
static constexpr int STEP_K = 32, UNIT_STEPS = CHUNK_K / STEP_K;

/* Place of a lane's first scale within a stage's weights: a pair, rows g and g + 8 of each unit of
 * 16 rows, [block][chunk][64]. */
NIB_DEVICE uint32_t scales_place(const nib_cuda_params &p, int thread)
{
    const int consumer = thread / 128, unit = thread / 32 % 4, lane = thread % 32;
    const int pair = consumer * (CHUNKS * 64) + (p.one_scale ? 0 : unit * 16 + lane / 4 * 2);
    return SCALES_AT + pair * SCALE_BYTES;
}

/* The scales of chunk CHUNK, `at` its lane's place. A matrix with one has it in the first place. */
template <int CHUNK> NIB_DEVICE void fetch_scales(uint32_t at, int one_scale, float (&scale)[2])
{
    constexpr uint32_t offset = CHUNK * 64 * SCALE_BYTES;
    uint32_t pair[2] = {0, 0};
    if constexpr (SCALE_BYTES == 4) {
        nib_shared_load2(pair, at + offset);
    } else if constexpr (SCALED) {
        const uint32_t both =
            SCALE_BYTES == 2 ? nib_shared_load(at + offset) : nib_shared_load16(at + offset);
        pair[0] = both & (SCALE_BYTES == 2 ? 0xffffu : 0xffu);
        pair[1] = both >> (8 * SCALE_BYTES);
    }
    if (NIB_SPEC_GROUP == 0 && one_scale)
        pair[1] = pair[0];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        scale[row] = 1.0f;
        if constexpr (SCALED)
            scale[row] = nib_float_from<NIB_SPEC_SCALE>(pair[row]);
    }
}

/* The unit's products are complete. */
NIB_DEVICE void add_up(nib_sum (&acc)[NIB_UNIT_COUNT], const float (&scale)[2],
                       float (&tot)[NIB_UNIT_COUNT])
{
    nib_hold(acc);
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        tot[i] += scale[i >> 1 & 1] * nib_unit_sum(acc[i]);
}

#endif
