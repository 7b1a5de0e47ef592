/* SPDX-License-Identifier: Apache-2.0
 *
 * The other schedule of a consumer, NIB_SPEC_ROUND: each weight, code less zero times scale, is
 * rounded once to the type of the activations, and its products go into one set of sums through all
 * of K (docs/numerics.md, "Weights rounded to the activations' type"). Nothing has to be done to
 * sums between groups, so products never stand still:
 *
 *     stage           i                     | i + 1
 *     tensor cores    67 | 01 23 45 67 | 01 23 ...
 *     operands        01   23 45 67 | 01 23 ...
 *
 * Two steps' operands are made, and their products follow at once; the registers are filled again
 * when those products, four groups before, are complete. Has the names of mainloop.cuh.
 */
#ifndef NIB_CUDA_SM90_ROLLING_CUH
#define NIB_CUDA_SM90_ROLLING_CUH

static constexpr int UNIT_M = NIB_SPEC_UNIT_M, HALVES = 1;
static_assert(UNIT_M == TILE_M, "one set of sums");
static_assert(NIB_LIMBS == 1 && !ACT_SUMS, "an operand is a rounded weight");

static constexpr int BATCH = 2, BATCHES = STEPS / BATCH;

/* What a lane works on; sums are of weights, but floats' are their factor too small. */
struct state {
    float tot[1][NIB_UNIT_COUNT];
    uint32_t a[STEPS][1][4];
    uint32_t scale[2]; /* of rows g and g + 8: pairs of the operands' type */
    operand_source x;
};

NIB_DEVICE void state_begin(const nib_cuda_params &p, uint32_t shared, int thread, state &s)
{
    source_begin(p, shared, thread, s.x);
}

/* A scale as the operands' type: exact, sm90_gemm.c takes no others. */
NIB_DEVICE uint32_t scale_pair(uint32_t bits)
{
    if constexpr (NIB_SPEC_SCALE == NIB_SPEC_ACT)
        return nib_duplicate(bits);
    const float value = nib_float_from<NIB_SPEC_SCALE>(bits);
    return nib_duplicate(NIB_COMPUTE == NIB_COMPUTE_BF16 ? nib_bf16_from_float(value)
                                                         : nib_f16_from_float(value));
}

template <int STEP> NIB_DEVICE void fetch_scales(uint32_t weights, state &s)
{
    uint32_t scale[2], zero[2];
    fetch_values<STEP / CHUNK_STEPS>(weights, s.x, scale, zero);
    if constexpr (SCALED) {
        s.scale[0] = scale_pair(scale[0]);
        s.scale[1] = scale_pair(scale[1]);
    }
}

/* A pair times its row's scale, rounded once: operands are exact, and with their factor numbers of
 * the type that are far from its ends. */
NIB_DEVICE uint32_t scaled_pair(uint32_t pair, uint32_t scale)
{
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_BF16)
        return nib_fma_bf16x2(pair, scale, 0x80008000u);
    if constexpr (NIB_FACTOR != 1.0f)
        pair = nib_fma_f16x2(pair, nib_pair(nib_small_f16((int)NIB_FACTOR)), 0x80008000u);
    return nib_fma_f16x2(pair, scale, 0x80008000u);
}

template <int STEP> NIB_DEVICE void make_operands(uint32_t weights, state &s)
{
    if constexpr (STEP % CHUNK_STEPS == 0)
        fetch_scales<STEP>(weights, s);
    nib_dequant<STEP>(s.x.q, 0, s.x.addend, s.a[STEP]);
    if constexpr (SCALED)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s.a[STEP][0][i] = scaled_pair(s.a[STEP][0][i], s.scale[i & 1]);
}

template <int STEP> NIB_DEVICE void multiply(uint32_t act, state &s)
{
    nib_unit_multiply<true>(s.tot[0], s.a[STEP][0],
                            act + (STEP / 4 * ACT_BOX + STEP % 4 * 32) / 16);
}

template <int INDEX> NIB_DEVICE void run_batch(uint32_t weights, uint32_t act, state &s)
{
    constexpr int step = INDEX * BATCH;
    nib_unit_wait<BATCHES - 1>(); /* the stage before has read these registers */
    make_operands<step>(weights, s);
    make_operands<step + 1>(weights, s);
    nib_hold(s.tot[0]);
    nib_unit_fence();
    multiply<step>(act, s);
    multiply<step + 1>(act, s);
    nib_unit_commit();
    if constexpr (INDEX + 1 < BATCHES)
        run_batch<INDEX + 1>(weights, act, s);
}

/* Sums the products of `count` stages in s.tot, and leaves the stages to the loaders. */
NIB_DEVICE void mainloop_run(int count, nib_slot &slot, state &s)
{
    uint32_t last = 0;
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        s.tot[0][i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        const uint32_t weights = nib_slot_weights(slot);
        nib_barrier_wait(nib_slot_barrier(slot, BARRIER_WEIGHTS), slot.parity);
        nib_barrier_wait(nib_slot_barrier(slot, BARRIER_ACT), slot.parity);
        fetch_codes(weights, s.x);
        run_batch<0>(weights, nib_act_matrix(nib_slot_act(slot)), s);
        if (i > 0)
            release(last); /* all of its products are complete */
        last = nib_slot_barrier(slot, BARRIER_EMPTY);
        nib_slot_next(slot);
    }
    nib_unit_wait<0>();
    nib_hold(s.tot[0]);
    release(last);
}

#endif
