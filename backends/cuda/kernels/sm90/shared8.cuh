/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a consumer whose operands makers leave in shared memory (expand8.cuh): the
 * products of a unit (sums8.cuh), then its sums to the totals, while the other consumer multiplies.
 * A second set of sums would not fit into the registers. gemm8.cu calls it.
 */
#ifndef NIB_CUDA_SM90_SHARED8_CUH
#define NIB_CUDA_SM90_SHARED8_CUH

/* What a lane works on. */
struct state {
    float tot[HALVES][NIB_UNIT_COUNT];
    uint32_t operands, scales; /* places of the consumer and the lane in a buffer and in a stage */
    int one_scale;
};

NIB_DEVICE void state_begin(const nib_cuda_params &p, int thread, state &s)
{
    s.operands = thread / 128 * OPERAND_BLOCK;
    s.scales = scales_place(p, thread);
    s.one_scale = p.one_scale;
}

/* Products of a unit, 32 bytes of both operands' rows at a time. */
template <int INDEX = 0>
NIB_DEVICE void multiply(uint64_t a, uint64_t b, nib_sum (&acc)[NIB_UNIT_COUNT])
{
    nib_bytes_multiply<(INDEX > 0)>(acc, a + INDEX * STEP_K / 16, b + INDEX * STEP_K / 16);
    if constexpr (INDEX + 1 < UNIT_STEPS)
        multiply<INDEX + 1>(a, b, acc);
}

/* Units from CHUNK on of a stage that is there. */
template <int CHUNK>
NIB_DEVICE void run_units(uint64_t a, uint64_t b, uint32_t scales, uint32_t empty, state &s)
{
    nib_sum acc[NIB_UNIT_COUNT];
    float scale[2];
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        acc[i] = 0;
    nib_hold(acc);
    nib_unit_fence();
    multiply(a, b, acc);
    nib_unit_commit();
    fetch_scales<CHUNK>(scales, s.one_scale, scale);
    nib_unit_wait<0>();
    if (CHUNK + 1 == CHUNKS && nib_thread() % 32 == 0)
        nib_barrier_arrive(empty); /* scales are in registers, products are complete */
    add_up(acc, scale, s.tot[0]);
    if constexpr (CHUNK + 1 < CHUNKS)
        run_units<CHUNK + 1>(a + CHUNK_K / 16, b + CHUNK_K / 16, scales, empty, s);
}

/* Sums the products of `count` stages in s.tot. */
NIB_DEVICE void run_stages(int count, uint32_t shared, nib_slot &stage, nib_slot &buffer, state &s)
{
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        s.tot[0][i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        nib_barrier_wait(full_of(shared, stage), stage.parity);
        if constexpr (!EXPANDED)
            nib_barrier_wait(ready_of(shared, buffer), buffer.parity);
        run_units<0>(nib_bytes_matrix(operands_of(shared, buffer) + s.operands),
                     nib_bytes_matrix(act_of(shared, stage)), weights_of(shared, stage) + s.scales,
                     empty_of(shared, buffer), s);
        nib_slot_next<STAGES>(stage);
        nib_slot_next<RELEASES>(buffer);
    }
}

#endif
