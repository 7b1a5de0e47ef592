/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a consumer that has its operands in registers: while the products of a unit
 * (sums8.cuh) run it makes those of the next one, in registers of their own; then it waits, and the
 * sums go to the totals. gemm8.cu calls it.
 *
 *     tensor cores  | unit 0          |          | unit 1          |          | unit 2
 *     consumer      | make operands 1 | add up 0 | make operands 2 | add up 1 |
 *
 * The gaps are the other consumer's. A second set of sums would not fit into the registers.
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

NIB_DEVICE void state_begin(const nib_cuda_params &p, int thread, state &s)
{
    const int consumer = thread / 128, unit = thread / 32 % 4, lane = thread % 32;
    /* [block][16 bytes of a lane, 2048 apart][unit][lane] */
    s.codes = consumer * CODE_BLOCK + unit * 512 + lane * 16;
    s.scales = scales_place(p, thread);
    s.one_scale = p.one_scale;
    s.operands = nib_operands_begin();
}

/* ---- operands and scales ------------------------------------------------------------------ */

/* A lane's codes of a stage, when it is there. */
NIB_DEVICE void fetch_codes(uint32_t shared, const nib_slot &stage, state &s)
{
    const uint32_t codes = weights_of(shared, stage) + s.codes;
    nib_barrier_wait(full_of(shared, stage), stage.parity);
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
template <int CHUNK, int SET>
NIB_DEVICE void make_unit(uint32_t shared, const nib_slot &stage, state &s)
{
    make_operands<CHUNK * UNIT_STEPS, SET>(s);
    fetch_scales<CHUNK>(weights_of(shared, stage) + s.scales, s.one_scale, s.scale[SET]);
}

/* ---- products and sums -------------------------------------------------------------------- */

template <int SET, int INDEX = 0> NIB_DEVICE void multiply(uint64_t act, state &s)
{
    nib_bytes_multiply<(INDEX > 0)>(s.acc, s.a[SET][INDEX], act + INDEX * STEP_K / 16);
    if constexpr (INDEX + 1 < UNIT_STEPS)
        multiply<SET, INDEX + 1>(act, s);
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Unit CHUNK of a stage, whose operands are made. Makes those of the unit that follows: of this
 * stage or, if there are more, of the next. */
template <int CHUNK, int SET>
NIB_DEVICE void run_unit(uint32_t shared, const nib_slot &stage, const nib_slot &next, bool more,
                         state &s)
{
    const uint64_t act = nib_bytes_matrix(act_of(shared, stage)) + CHUNK * CHUNK_K / 16;
    nib_hold(s.acc);
    nib_unit_fence();
    multiply<SET>(act, s);
    nib_unit_commit();
    if constexpr (CHUNK + 1 < CHUNKS) {
        make_unit<CHUNK + 1, SET ^ 1>(shared, stage, s);
    } else if (more) {
        fetch_codes(shared, next, s);
        make_unit<0, SET ^ 1>(shared, next, s);
    }
    nib_unit_wait<0>();
    if (CHUNK + 1 == CHUNKS && nib_thread() % 32 == 0)
        nib_barrier_arrive(empty_of(shared, stage)); /* codes are in registers, products complete */
    add_up(s.acc, s.scale[SET], s.tot[0]);
    if constexpr (CHUNK + 1 < CHUNKS)
        run_unit<CHUNK + 1, SET ^ 1>(shared, stage, next, more, s);
}

/* Sums the products of `count` stages in s.tot, and leaves the stages to the makers. Sets of
 * operands alternate from unit to unit. */
NIB_DEVICE void run_stages(int count, uint32_t shared, nib_slot &stage, nib_slot &buffer, state &s)
{
    constexpr int other = CHUNKS % 2;
    (void)buffer;
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++) {
        s.tot[0][i] = 0.0f;
        s.acc[i] = 0;
    }
    fetch_codes(shared, stage, s);
    make_unit<0, 0>(shared, stage, s);
    for (int i = 0; i < count; i += 2) {
        nib_slot next = stage;
        nib_slot_next<STAGES>(next);
        run_unit<0, 0>(shared, stage, next, i + 1 < count, s);
        stage = next;
        if (i + 1 == count)
            break;
        nib_slot_next<STAGES>(next);
        run_unit<0, other>(shared, stage, next, i + 2 < count, s);
        stage = next;
    }
}

#endif
