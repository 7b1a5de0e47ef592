/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a consumer whose operands are bytes, in place of mainloop.cuh: 64 rows of W and
 * all tokens of the tile, stages of 128 k from the ring. A unit is a group's products, of 128
 * columns at most. While they run the operands of the next unit are made, in registers of their
 * own; then all wait, and the sums go to the totals in f32: tot += s acc. That is at once what the
 * scales of groups need and what keeps the sums of 8-bit floats exact enough (docs/numerics.md).
 *
 *     tensor cores  | unit 0          |          | unit 1          |          | unit 2
 *     consumer      | make operands 1 | add up 0 | make operands 2 | add up 1 |
 *
 * The gaps are the other consumer's. Products of bytes take half the time of those of 16 bits: a
 * stage of 128 tokens keeps the tensor cores 256 cycles for each of two consumers, beside which one
 * needs some 300 of issue for operands and totals. A second set of sums would not fit into the
 * registers.
 */
#ifndef NIB_CUDA_SM90_MAINLOOP8_CUH
#define NIB_CUDA_SM90_MAINLOOP8_CUH

static constexpr int UNIT_M = NIB_SPEC_UNIT_M, HALVES = 1;
static_assert(UNIT_M == TILE_M, "one set of sums is for all tokens of a tile");
static_assert(!ZEROED, "variants/sm90_gemm8.c refuses zeros");

/* Steps of 32 columns in a unit. */
static constexpr int STEP_K = 32, UNIT_STEPS = CHUNK_K / STEP_K;

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
    /* A pair, rows g and g + 8 of each unit of 16 rows: [block][chunk][64]. */
    const int pair = consumer * (CHUNKS * 64) + (p.one_scale ? 0 : unit * 16 + lane / 4 * 2);
    s.scales = SCALES_AT + pair * SCALE_BYTES;
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

/* A matrix with one scale has it in the first place. */
template <int CHUNK, int SET> NIB_DEVICE void fetch_scales(const nib_slot &slot, state &s)
{
    const uint32_t at = nib_slot_weights(slot) + s.scales + CHUNK * 64 * SCALE_BYTES;
    uint32_t pair[2] = {0, 0};
    if constexpr (SCALE_BYTES == 4) {
        nib_shared_load2(pair, at);
    } else if constexpr (SCALED) {
        const uint32_t both = SCALE_BYTES == 2 ? nib_shared_load(at) : nib_shared_load16(at);
        pair[0] = both & (SCALE_BYTES == 2 ? 0xffffu : 0xffu);
        pair[1] = both >> (8 * SCALE_BYTES);
    }
    if (NIB_SPEC_GROUP == 0 && s.one_scale)
        pair[1] = pair[0];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        s.scale[SET][row] = 1.0f;
        if constexpr (SCALED)
            s.scale[SET][row] = nib_float_from<NIB_SPEC_SCALE>(pair[row]);
    }
}

/* Unit CHUNK of a stage whose codes are fetched. */
template <int CHUNK, int SET> NIB_DEVICE void make_unit(const nib_slot &slot, state &s)
{
    make_operands<CHUNK * UNIT_STEPS, SET>(s);
    fetch_scales<CHUNK, SET>(slot, s);
}

/* ---- products and sums -------------------------------------------------------------------- */

template <int SET, int INDEX = 0> NIB_DEVICE void multiply(uint64_t act, state &s)
{
    nib_bytes_multiply<(INDEX > 0)>(s.acc, s.a[SET][INDEX], act + INDEX * STEP_K / 16);
    if constexpr (INDEX + 1 < UNIT_STEPS)
        multiply<SET, INDEX + 1>(act, s);
}

template <int SET> NIB_DEVICE void add_up(state &s)
{
    nib_hold(s.acc);
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        s.tot[0][i] += s.scale[SET][i >> 1 & 1] * nib_unit_sum(s.acc[i]);
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
    add_up<SET>(s);
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
