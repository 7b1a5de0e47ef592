/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a consumer: 64 rows of W, stages of 128 k from the ring. A unit is what one set
 * of sums collects: the k16 steps of a group (of 128 columns at most) times UNIT_M tokens. There
 * are two sets, so that one unit's products run while the sums of the one before are scaled and
 * added up; a tile of more than 64 tokens is two units a group, which share their operands.
 *
 *     stage                 i - 1 | i                           | i + 1
 *     tensor cores         unit 1 | unit 0        | unit 1      | unit 0
 *     dequantise                i |               |       i + 1 |
 *     add up               unit 0 |        unit 1 |      unit 0 |        unit 1
 *
 * A stage's operands are made while the stage before is multiplied, in registers of their own, and
 * all products of a unit then start together. The wait for the stage before is all that a
 * consumer's products stand still for, and those of others run then. Measured on an H200, and
 * worse: consumers that take turns (1.4 times as long: products of one alone do not fill the tensor
 * cores beside the other's arithmetic); operands made two steps at a time, their products following
 * at once (warps of a warpgroup wait for each other at each start). And the assembler does not see
 * which sums are complete if a stage's wait leaves products of the one before under way: it then
 * waits for every product.
 *
 * The sum over a group is exact codes times activations; scales and zeros meet it in f32:
 * tot += s acc.
 */
#ifndef NIB_CUDA_SM90_MAINLOOP_CUH
#define NIB_CUDA_SM90_MAINLOOP_CUH

static constexpr int UNIT_M = NIB_SPEC_UNIT_M, HALVES = TILE_M / UNIT_M;
static_assert(HALVES * UNIT_M == TILE_M && HALVES <= 2, "a set of sums for each half");

/* Where four consumers are on a multiprocessor they have registers for one set, and each other's
 * products to run beside what they do between their own. */
static constexpr int SETS = BLOCKS >= 4 ? 1 : 2;
static_assert(SETS >= HALVES, "a set of sums for each half");

/* Steps whose operands are made at a time, and whose products then start together. Operands of
 * tables have registers for two steps, not for a unit, beside those under way. */
static constexpr int BATCH = NIB_LIMBS == 1 || CHUNK_STEPS == 1 ? CHUNK_STEPS : 2;
static constexpr int UNIT_BATCHES = CHUNK_STEPS / BATCH;

/* Registers for operands: of each step, and others for the first batch of every second stage where
 * the stage before may still read the first ones. */
static constexpr bool A_ALTERNATES = CHUNKS == 1 && SETS == 2;
static constexpr int A_STEPS = A_ALTERNATES ? STEPS + BATCH : STEPS;

NIB_CONSTEXPR int a_place(int step, int parity)
{
    return A_ALTERNATES && step < BATCH && parity ? STEPS + step : step;
}

/* Whether sums of activations meet sums of codes before their scale. */
static constexpr bool INNER_SUMS = NIB_OFFSET != 0 || NIB_SPEC_ZERO == NIB_ZERO_FLOAT || CODE_ZERO;

/* Scales and zeros of a group for a lane's rows g and g + 8, as f32 numbers:
 * tot += scale (acc + inner sum) + outer sum. */
struct group_values {
    float scale[2], inner[2], outer[2];
    uint32_t sums; /* ACT_SUMS: address of those of the lane's first tokens */
};

/* What a lane works on. */
struct state {
    float tot[HALVES][NIB_UNIT_COUNT], acc[SETS][NIB_UNIT_COUNT];
    uint32_t a[A_STEPS][NIB_LIMBS][4];
    operand_source x;
    uint32_t sums;       /* place of the lane's first tokens' within a stage's weights */
    float unlift;        /* undoes the tables' lift */
    group_values before; /* of the unit that is under way or not added up yet */
};

NIB_DEVICE void state_begin(const nib_cuda_params &p, uint32_t shared, int thread, state &s)
{
    source_begin(p, shared, thread, s.x);
    s.sums = SUMS_AT + thread % 4 * 8;
    s.unlift = 1.0f;
    if constexpr (NIB_CODE.kind == NIB_KIND_TABLE)
        s.unlift = 1.0f / nib_table_lift(p.table);
}

/* The values of chunk CHUNK. Factors stay outside until the end, so zeros are divided by them. */
template <int CHUNK> NIB_DEVICE void fetch_group(uint32_t weights, state &s, group_values &v)
{
    uint32_t scale[2], zero[2];
    fetch_values<CHUNK>(weights, s.x, scale, zero);
    v.sums = weights + s.sums + CHUNK * TILE_M * 4;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        v.scale[row] = 1.0f;
        v.inner[row] = (float)-NIB_OFFSET / NIB_FACTOR;
        v.outer[row] = 0.0f;
        if constexpr (SCALED)
            v.scale[row] = nib_float_from<NIB_SPEC_SCALE>(scale[row]);
        if constexpr (CODE_ZERO)
            v.inner[row] -= (float)zero[row];
        if constexpr (FLOAT_ZERO) {
            const float value =
                nib_float_from<NIB_SPEC_ZERO_TYPE>(zero[row]) * (-1.0f / NIB_FACTOR);
            if constexpr (NIB_SPEC_ZERO == NIB_ZERO_FLOAT)
                v.inner[row] += value;
            else
                v.outer[row] = value;
        }
    }
}

/* ---- a unit ------------------------------------------------------------------------------- */

/* Operands of steps STEP .. STEP + COUNT - 1 of a stage. */
template <int STEP, int COUNT, int PARITY> NIB_DEVICE void make_operands(state &s)
{
    constexpr int at = a_place(STEP, PARITY);
    nib_dequant<STEP>(s.x.q, s.x.table, s.x.addend, s.a[at]);
#pragma unroll
    for (int limb = 0; limb < NIB_LIMBS; limb++)
        nib_hold(s.a[at][limb]);
    if constexpr (COUNT > 1)
        make_operands<STEP + 1, COUNT - 1, PARITY>(s);
}

/* Products of the same steps with the tokens of a half. ADD: not the first of their unit. */
template <int STEP, int COUNT, int PARITY, bool ADD>
NIB_DEVICE void multiply(uint32_t act, float (&acc)[NIB_UNIT_COUNT], const state &s)
{
    constexpr int at = a_place(STEP, PARITY);
    const uint32_t b = act + (STEP / 4 * ACT_BOX + STEP % 4 * 32) / 16;
    nib_unit_multiply<ADD>(acc, s.a[at][0], b);
#pragma unroll
    for (int limb = 1; limb < NIB_LIMBS; limb++)
        nib_unit_multiply<true>(acc, s.a[at][limb], b);
    if constexpr (COUNT > 1)
        multiply<STEP + 1, COUNT - 1, PARITY, true>(act, acc, s);
}

/* Starts all products of a unit, FIRST its first step in the stage. MAKE: and makes all operands
 * but those of the first batch. */
template <int FIRST, int PARITY, bool MAKE, int INDEX = 0>
NIB_DEVICE void start_unit(uint32_t act, float (&acc)[NIB_UNIT_COUNT], state &s)
{
    constexpr int step = FIRST + INDEX * BATCH;
    if constexpr (MAKE && INDEX > 0)
        make_operands<step, BATCH, PARITY>(s);
    nib_hold(acc);
    nib_unit_fence();
    multiply<step, BATCH, PARITY, (INDEX > 0)>(act, acc, s);
    nib_unit_commit();
    if constexpr (INDEX + 1 < UNIT_BATCHES)
        start_unit<FIRST, PARITY, MAKE, INDEX + 1>(act, acc, s);
}

/* Adds a unit's sums, whose products are complete, to the totals; `first` is its first token. */
NIB_DEVICE void add_up(float (&acc)[NIB_UNIT_COUNT], const group_values &v, int first,
                       const state &s, float (&tot)[NIB_UNIT_COUNT])
{
    nib_hold(acc);
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i += 4) {
        float sums[2] = {0.0f, 0.0f};
        if constexpr (ACT_SUMS) {
            uint32_t bits[2];
            nib_shared_load2(bits, v.sums + (first + i * 2) * 4);
            sums[0] = nib_float_from_bits(bits[0]);
            sums[1] = nib_float_from_bits(bits[1]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int row = j >> 1;
            float sum = acc[i + j];
            if constexpr (NIB_CODE.kind == NIB_KIND_TABLE)
                sum *= s.unlift; /* before the scale: a lifted sum times a large one may overflow */
            if constexpr (INNER_SUMS)
                sum += v.inner[row] * sums[j & 1];
            tot[i + j] += v.scale[row] * sum;
            if constexpr (NIB_SPEC_ZERO == NIB_ZERO_RESCALE)
                tot[i + j] += v.outer[row] * sums[j & 1];
        }
    }
    nib_hold(tot);
}

/* ---- a stage ------------------------------------------------------------------------------ */

/* Ends the unit before; with a stage's first also the stage before, whose barrier is `last`, 0 in
 * front of all. A branch, so that it does not move in front of the products that it is to run
 * beside. */
template <int CHUNK>
NIB_DEVICE void end_before(float (&acc)[NIB_UNIT_COUNT], uint32_t last, state &s)
{
    if (CHUNK > 0 || last != 0) {
        add_up(acc, s.before, (HALVES - 1) * UNIT_M, s, s.tot[HALVES - 1]);
        if (CHUNK == 0)
            release(last);
    }
}

/* The group CHUNK of a stage, and the end of the unit before. PARITY: of the stage, where sets of
 * sums and registers alternate from stage to stage. `last`: barrier of the stage before. */
template <int CHUNK, int PARITY>
NIB_DEVICE void run_group(const nib_slot &slot, uint32_t last, state &s)
{
    constexpr int step = CHUNK * CHUNK_STEPS, unit = HALVES == 2 ? 0 : CHUNK + PARITY;
    constexpr int set = unit % SETS, other = (unit + 1) % SETS;
    const uint32_t weights = nib_slot_weights(slot), act = nib_act_matrix(nib_slot_act(slot));
    group_values v;
    fetch_group<CHUNK>(weights, s, v);
    if constexpr (SETS == 2)
        make_operands<step, BATCH, PARITY>(s);
    if constexpr (CHUNK == 0)
        nib_barrier_wait(nib_slot_barrier(slot, BARRIER_ACT), slot.parity);
    if constexpr (CHUNK == 0 || SETS == 1)
        nib_unit_wait<0>();
    if constexpr (SETS == 1) {
        make_operands<step, BATCH, PARITY>(s);
        end_before<CHUNK>(s.acc[other], last, s);
    }
    start_unit<step, PARITY, true>(act, s.acc[set], s);
    if constexpr (SETS == 2) {
        nib_unit_wait<UNIT_BATCHES>(); /* the unit before is complete */
        end_before<CHUNK>(s.acc[other], last, s);
    }
    if constexpr (HALVES == 2) {
        start_unit<step, PARITY, false>(act + UNIT_M * 128 / 16, s.acc[1], s);
        nib_unit_wait<UNIT_BATCHES>(); /* the first half is complete */
        add_up(s.acc[0], v, 0, s, s.tot[0]);
    }
    s.before = v;
    if constexpr (CHUNK + 1 < CHUNKS)
        run_group<CHUNK + 1, PARITY>(slot, last, s);
}

template <int PARITY> NIB_DEVICE void run_stage(const nib_slot &slot, uint32_t last, state &s)
{
    const uint32_t weights = nib_slot_weights(slot);
    nib_barrier_wait(nib_slot_barrier(slot, BARRIER_WEIGHTS), slot.parity);
    if constexpr (ACT_SUMS)
        nib_barrier_wait(nib_slot_barrier(slot, BARRIER_SUMS), slot.parity);
    fetch_codes(weights, s.x);
    run_group<0, PARITY>(slot, last, s);
}

NIB_DEVICE void clear(state &s)
{
#pragma unroll
    for (int half = 0; half < HALVES; half++)
#pragma unroll
        for (int i = 0; i < NIB_UNIT_COUNT; i++)
            s.tot[half][i] = 0.0f;
}

/* Sums the products of `count` stages in s.tot, and leaves the stages to the loaders. */
NIB_DEVICE void mainloop_run(int count, nib_slot &slot, state &s)
{
    constexpr int alternates = CHUNKS == 1 ? 1 : 0;
    uint32_t last = 0;
    clear(s);
    for (int i = 0; i < count; i += 2) {
        run_stage<0>(slot, last, s);
        last = nib_slot_barrier(slot, BARRIER_EMPTY);
        nib_slot_next(slot);
        if (i + 1 == count)
            break;
        run_stage<alternates>(slot, last, s);
        last = nib_slot_barrier(slot, BARRIER_EMPTY);
        nib_slot_next(slot);
    }
    nib_unit_wait<0>();
    if (alternates && HALVES == 1 && count % 2 == 1)
        add_up(s.acc[0], s.before, 0, s, s.tot[0]);
    else
        add_up(s.acc[SETS - 1], s.before, (HALVES - 1) * UNIT_M, s, s.tot[HALVES - 1]);
    release(last);
}

#endif
