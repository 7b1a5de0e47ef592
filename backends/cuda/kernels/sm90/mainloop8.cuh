/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a consumer whose operands are bytes, in place of mainloop.cuh: 64 rows of W and
 * all tokens of the tile, stages of 128 k from the ring. While the products of a unit (sums8.cuh)
 * run the operands of the next one are made, in registers of their own; then all wait, and the sums
 * go to the totals.
 *
 *     tensor cores  | unit 0          |          | unit 1          |          | unit 2
 *     consumer      | make operands 1 | add up 0 | make operands 2 | add up 1 |
 *
 * The gaps are the other consumer's. A second set of sums would not fit into the registers. On an
 * H200 products and arithmetic meet at the ports of the registers, so that a stage of 128 tokens
 * takes 1300 cycles instead of 512: many tokens are gemm8.cu's.
 */
#ifndef NIB_CUDA_SM90_MAINLOOP8_CUH
#define NIB_CUDA_SM90_MAINLOOP8_CUH

/* What a lane works on. */
struct state {
    float tot[HALVES][NIB_UNIT_COUNT];
    nib_sum acc[NIB_UNIT_COUNT];
    uint32_t a[2][UNIT_STEPS][4];
    float scale[2][2];      /* of a unit's rows g and g + 8 */
    uint32_t q[NIB_WORDS];  /* of a stage */
    uint32_t codes, scales; /* places of the lane within a stage's weights */
    int one_scale;
    nib_operands operands;
};

NIB_DEVICE void state_begin(const nib_cuda_params &p, uint32_t shared, int thread, state &s)
{
    const int consumer = thread / 128, unit = thread / 32 % 4, lane = thread % 32;
    /* [block][16 bytes of a lane, 2048 apart][unit][lane] */
    s.codes = consumer * (PLANE_BLOCK * NIB_CODE.bits) + unit * 512 + lane * 16;
    s.scales = scales_place(p, thread);
    s.one_scale = p.one_scale;
    s.operands = nib_operands_begin();
}

/* ---- operands and scales ------------------------------------------------------------------ */

/* A lane's codes of a stage, when it is there. */
NIB_DEVICE void fetch_codes(const nib_slot &slot, state &s)
{
    const uint32_t codes = nib_slot_weights(slot) + s.codes;
    nib_barrier_wait(nib_slot_barrier(slot, BARRIER_FULL), slot.parity);
#pragma unroll
    for (int i = 0; i < NIB_CODE.bits / 2; i++)
        nib_shared_load4(s.q + 4 * i, codes + i * 2048);
}

template <int STEP, int SET, int INDEX = 0> NIB_DEVICE void make_operands(state &s)
{
    nib_dequant_pair<STEP + INDEX>(s.operands, s.q, s.a[SET][INDEX]);
    if constexpr (INDEX + 1 < UNIT_STEPS)
        make_operands<STEP, SET, INDEX + 1>(s);
}

/* Unit CHUNK of a stage whose codes are fetched. */
template <int CHUNK, int SET> NIB_DEVICE void make_unit(const nib_slot &slot, state &s)
{
    make_operands<CHUNK * UNIT_STEPS, SET>(s);
    fetch_scales<CHUNK>(nib_slot_weights(slot) + s.scales, s.one_scale, s.scale[SET]);
}

/* ---- products and sums -------------------------------------------------------------------- */

template <int SET, int INDEX = 0> NIB_DEVICE void multiply(uint64_t act, state &s)
{
    nib_bytes_multiply<(INDEX > 0)>(s.acc, s.a[SET][INDEX], act + INDEX * STEP_K / 16);
    if constexpr (INDEX + 1 < UNIT_STEPS)
        multiply<SET, INDEX + 1>(act, s);
}

NIB_DEVICE void release(const nib_slot &slot)
{
    if (nib_thread() % 32 == 0)
        nib_barrier_arrive(nib_slot_barrier(slot, BARRIER_EMPTY));
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Unit CHUNK of a stage, whose operands are made. Makes those of the unit that follows: of this
 * stage or, if there are more, of the next. */
template <int CHUNK, int SET>
NIB_DEVICE void run_unit(const nib_slot &slot, const nib_slot &next, bool more, state &s)
{
    const uint64_t act = nib_act_matrix(nib_slot_act(slot)) + CHUNK * CHUNK_K / 16;
    nib_hold(s.acc);
    nib_unit_fence();
    multiply<SET>(act, s);
    nib_unit_commit();
    if constexpr (CHUNK + 1 < CHUNKS) {
        make_unit<CHUNK + 1, SET ^ 1>(slot, s);
    } else if (more) {
        fetch_codes(next, s);
        make_unit<0, SET ^ 1>(next, s);
    }
    nib_unit_wait<0>();
    if constexpr (CHUNK + 1 == CHUNKS)
        release(slot); /* its codes are in registers, its products are complete */
    add_up(s.acc, s.scale[SET], s.tot[0]);
    if constexpr (CHUNK + 1 < CHUNKS)
        run_unit<CHUNK + 1, SET ^ 1>(slot, next, more, s);
}

/* Sums the products of `count` stages in s.tot, and leaves the stages to the loaders. Sets of
 * operands alternate from unit to unit. */
NIB_DEVICE void mainloop_run(int count, nib_slot &slot, state &s)
{
    constexpr int other = CHUNKS % 2;
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++) {
        s.tot[0][i] = 0.0f;
        s.acc[i] = 0;
    }
    fetch_codes(slot, s);
    make_unit<0, 0>(slot, s);
    for (int i = 0; i < count; i += 2) {
        nib_slot next = slot;
        nib_slot_next(next);
        run_unit<0, 0>(slot, next, i + 1 < count, s);
        slot = next;
        if (i + 1 == count)
            break;
        nib_slot_next(next);
        run_unit<0, other>(slot, next, i + 2 < count, s);
        slot = next;
    }
}

#endif
