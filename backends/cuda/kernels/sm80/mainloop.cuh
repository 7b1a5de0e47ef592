/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of the gemm kernel: stages of 128 k through a ring in shared memory, and in a stage
 * steps of the matrix products, each with its operands made one step ahead. gemm.cu calls
 * mainloop_run; load.cuh fills stages, dequant.cuh makes operands.
 *
 *     ring     stage i           i + 1            i + 2
 *     memory   i + STAGES - 1    ...              copies, one group a stage
 *     barrier  |                 |                |       stage i is there, i - 1 is free
 *     step     0 1 2 ... 7       0 1 2 ... 7
 *     operands 1 2 3 ... 7       1 2 ...                  of the step after
 *     groups       tot += s acc  each CHUNK_K columns (or where a group ends, for sums in i32)
 *
 * A warp owns UNITS units of 16 rows of W, 8 TOKENS rows of act, and SLICE_K of each stage's
 * columns. The sum over a group is exact codes times activations; scales and zeros meet it in f32.
 */
#ifndef NIB_CUDA_SM80_MAINLOOP_CUH
#define NIB_CUDA_SM80_MAINLOOP_CUH

static constexpr int UNITS = TILE_N / 16 / NIB_SPEC_WARPS_N;
static constexpr int TOKENS = TILE_M / 8 / NIB_SPEC_WARPS_M; /* tiles of 8 */
static_assert(TOKENS % 2 == 0, "ldmatrix brings two tiles of tokens");

static constexpr int SLICE_K = STAGE_K / NIB_SPEC_WARPS_K;
static constexpr int STEP_K = INTEGERS ? 32 : 16;
static constexpr int STEPS = SLICE_K / STEP_K;
static constexpr int FLUSH_K = CHUNK_K < SLICE_K ? CHUNK_K : SLICE_K;
/* Groups of 16 columns in steps of 32: two products, each with half of the operand zero. */
static constexpr int HALVES = FLUSH_K < STEP_K ? 2 : 1;
static constexpr int FLUSH_STEPS = HALVES == 2 ? 1 : FLUSH_K / STEP_K;
/* Steps whose codes one load brings: 16 bytes a lane of 4 and 8 bits. */
static constexpr int CODE_STEPS = NIB_CODE.bits == 8 ? 2 : SLICE_K < 64 ? 2 : 4;

static constexpr bool FLOAT_ZERO =
    NIB_SPEC_ZERO == NIB_ZERO_FLOAT || NIB_SPEC_ZERO == NIB_ZERO_RESCALE;
static constexpr bool FOLD_ZERO = NIB_SPEC_ZERO == NIB_ZERO_CODE && NIB_FOLDS_ZERO;
static constexpr bool CODE_ZERO = NIB_SPEC_ZERO == NIB_ZERO_CODE && !FOLD_ZERO;
static constexpr bool ACT_SUMS = NIB_OFFSET != 0 || FLOAT_ZERO || CODE_ZERO;

/* Sums in i32 run over whole groups; with NIB_LATE_SCALE over all of k, and out of here as they
 * are.
 */
static constexpr bool WHOLE_GROUPS = NIB_SPEC_ACC == NIB_I32 || NIB_LATE_SCALE;
static_assert(!WHOLE_GROUPS || NIB_LATE_SCALE || NIB_SPEC_WARPS_K == 1,
              "the sum over a group is one warp's");

template <bool INTEGER> struct number {
    typedef float type;
};
template <> struct number<true> {
    typedef int32_t type;
};
typedef number<INTEGERS>::type sum_number;

/* Where a warp stands in its block's tile. */
struct warp_place {
    int unit, token, slice; /* first unit of 16 rows, first row of act, part of a stage's columns */
};

NIB_DEVICE warp_place warp_place_of(int thread)
{
    const int warp = thread / 32;
    warp_place place;
    place.unit = warp % NIB_SPEC_WARPS_N * UNITS;
    place.token = warp / NIB_SPEC_WARPS_N % NIB_SPEC_WARPS_M * TOKENS * 8;
    place.slice = warp / (NIB_SPEC_WARPS_N * NIB_SPEC_WARPS_M);
    return place;
}

/* What a lane works on. Fragment maps are in mma.cuh. */
struct state {
    float tot[UNITS][TOKENS][4];
    sum_number acc[UNITS][TOKENS][4], act_sum[ACT_SUMS ? TOKENS : 1][4];
    uint32_t q[UNITS][NIB_WORDS];
    uint32_t addend[UNITS][2];                      /* of integers */
    uint32_t act, codes[NIB_PLANES], scales, zeros; /* addresses of the lane within a stage */
    uint32_t table;
    float unlift; /* undoes the tables' lift */
    int one_scale;
};

struct operands {
    uint32_t a[UNITS][NIB_LIMBS][4];
    uint32_t b[TOKENS][2];
};

/* Of a step's codes in a unit, for lane 0: [step / 4][unit][lane][step % 4] and so on, the layout
 * mma64x128. Additive in steps that share no bits. */
NIB_CONSTEXPR int code_place(int bits, int step)
{
    return bits == 8   ? step / 2 * 2048 + step % 2 * 8
           : bits == 4 ? step / 4 * 2048 + step % 4 * 4
           : bits == 2 ? step / 2 * 4
                       : step / 4 * 4;
}

NIB_CONSTEXPR int code_unit_bytes(int bits)
{
    return bits == 1 ? 256 : 512;
}

NIB_CONSTEXPR int code_lane_bytes(int bits)
{
    return bits == 1 ? 8 : 16;
}

template <int PLANE> NIB_DEVICE void begin_plane(const warp_place &place, int lane, state &s)
{
    constexpr int bits = nib_plane_bits(PLANE);
    s.codes[PLANE] = codes_place<PLANE>() + place.unit / 4 * (PLANE_BLOCK * bits) +
                     place.unit % 4 * code_unit_bytes(bits) + lane * code_lane_bytes(bits) +
                     code_place(bits, place.slice * (SLICE_K / 16));
}

NIB_DEVICE void begin(const nib_cuda_params &p, const warp_place &place, uint32_t table, state &s)
{
    const int lane = nib_thread() % 32, row = place.token + (lane >> 4) * 8 + (lane & 7);
    s.act = act_place(row, place.slice * (SLICE_K / ACT_PIECE_K) + (lane >> 3 & 1));
    begin_plane<0>(place, lane, s);
    if constexpr (NIB_PLANES > 1)
        begin_plane<1>(place, lane, s);
    if constexpr (NIB_PLANES > 2)
        begin_plane<2>(place, lane, s);
    /* A pair, rows g and g + 8, of each unit; [block][chunk][64]. */
    const int chunk = place.unit / 4 * CHUNKS + place.slice * SLICE_K / CHUNK_K;
    const int pair = p.one_scale ? 0 : chunk * 64 + place.unit % 4 * 16 + lane / 4 * 2;
    s.scales = SCALES_AT + pair * SCALE_BYTES;
    s.zeros = ZEROS_AT + pair * ZERO_BYTES;
    s.one_scale = p.one_scale;
    s.table = table + lane * NIB_TABLE_ENTRY;
    s.unlift = 1.0f;
    if constexpr (NIB_CODE.kind == NIB_KIND_TABLE)
        s.unlift = 1.0f / nib_table_lift(p.table);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        s.addend[u][0] = nib_fold_addend(0);
        s.addend[u][1] = nib_fold_addend(1);
    }
}

template <int N> NIB_DEVICE void clear(sum_number (&sums)[N][4])
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sums[i][j] = 0;
}

NIB_DEVICE void clear_sums(state &s)
{
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        clear(s.acc[u]);
    clear(s.act_sum);
}

/* ---- operands of a step ------------------------------------------------------------------- */

/* Codes of CODE_STEPS steps of 16 columns from the slice's STEP on. */
template <int PLANE, int STEP> NIB_DEVICE void fetch_plane(uint32_t stage, int slice, state &s)
{
    constexpr int bits = nib_plane_bits(PLANE), words = CODE_STEPS * bits / 4;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        const uint32_t at = stage + s.codes[PLANE] + u / 4 * (PLANE_BLOCK * bits) +
                            u % 4 * code_unit_bytes(bits) + code_place(bits, STEP);
        uint32_t *q = s.q[u] + 2 * nib_plane_shift(PLANE) + nib_plane_word(bits, STEP, 0);
        if constexpr (words == 4)
            nib_shared_load4(q, at);
        else if constexpr (words == 2)
            nib_shared_load2(q, at);
        else
            q[0] = nib_shared_load(at);
        if constexpr (words == 0) /* a plane of 1 bit: two steps are a byte of each half */
            q[0] >>= 8 * (slice & 1);
    }
}

template <int STEP> NIB_DEVICE void fetch_codes(uint32_t stage, int slice, state &s)
{
    fetch_plane<0, STEP>(stage, slice, s);
    if constexpr (NIB_PLANES > 1)
        fetch_plane<1, STEP>(stage, slice, s);
    if constexpr (NIB_PLANES > 2)
        fetch_plane<2, STEP>(stage, slice, s);
}

NIB_CONSTEXPR int group_place(int unit, int chunk, int bytes)
{
    return (unit / 4 * CHUNKS * 64 + chunk * 64 + unit % 4 * 16) * bytes;
}

/* Bits of the scales or zeros of rows g and g + 8 of a unit, BYTES each; `base` is the lane's pair
 * of the first unit. A matrix with one scale has it in the first place of all. */
template <int BYTES, int CHUNK>
NIB_DEVICE void fetch_pair(uint32_t base, int unit, int one_scale, uint32_t (&pair)[2])
{
    const bool one = NIB_SPEC_GROUP == 0 && one_scale;
    const uint32_t at = base + (one ? 0 : group_place(unit, CHUNK, BYTES));
    if constexpr (BYTES == 4) {
        nib_shared_load2(pair, at);
    } else {
        const uint32_t both = BYTES == 2 ? nib_shared_load(at) : nib_shared_load16(at);
        pair[0] = both & (BYTES == 2 ? 0xffffu : 0xffu);
        pair[1] = both >> (8 * BYTES);
    }
    if (one)
        pair[1] = pair[0];
}

/* Zeros that operands of a chunk already hold. */
template <int CHUNK> NIB_DEVICE void fetch_folded_zeros(uint32_t stage, state &s)
{
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        uint32_t zero[2];
        fetch_pair<1, CHUNK>(stage + s.zeros, u, s.one_scale, zero);
        s.addend[u][0] = nib_fold_addend_zero<0>(zero[0]);
        s.addend[u][1] = nib_fold_addend_zero<1>(zero[1]);
    }
}

template <int STEP>
NIB_DEVICE void fetch(uint32_t stage, const warp_place &place, state &s, operands &o)
{
    if constexpr (STEP * STEP_K % (CODE_STEPS * 16) == 0)
        fetch_codes<STEP * STEP_K / 16>(stage, place.slice, s);
    if constexpr (FOLD_ZERO && STEP % FLUSH_STEPS == 0)
        fetch_folded_zeros<STEP / FLUSH_STEPS>(stage, s);
    const uint32_t act = stage + (s.act ^ (STEP * 32));
#pragma unroll
    for (int t = 0; t < TOKENS; t += 2)
        nib_load_matrix4(&o.b[t][0], act + t * 8 * ACT_PITCH);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        if constexpr (INTEGERS)
            nib_dequant_bytes<STEP>(s.q[u], o.a[u][0]);
        else
            nib_dequant<STEP>(s.q[u], s.table, s.addend[u], o.a[u]);
    }
}

/* ---- products ----------------------------------------------------------------------------- */

/* HALF: 0 and 1 only the lower or upper 16 of 32 columns, -1 all of them. */
template <int HALF> NIB_DEVICE void multiply(const operands &o, state &s)
{
    constexpr uint32_t low = HALF == 1 ? 0 : ~0u, high = HALF == 0 ? 0 : ~0u;
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
        for (int l = 0; l < NIB_LIMBS; l++) {
            const uint32_t a[4] = {o.a[u][l][0] & low, o.a[u][l][1] & low, o.a[u][l][2] & high,
                                   o.a[u][l][3] & high};
#pragma unroll
            for (int t = 0; t < TOKENS; t++)
                nib_mma_codes(s.acc[u][t], a, o.b[t]);
        }
    if constexpr (ACT_SUMS) {
        const uint32_t ones[4] = {NIB_ONES & low, NIB_ONES & low, NIB_ONES & high, NIB_ONES & high};
#pragma unroll
        for (int t = 0; t < TOKENS; t++)
            nib_mma_codes(s.act_sum[t], ones, o.b[t]);
    }
}

/* ---- the end of a group ------------------------------------------------------------------- */

static constexpr float FACTOR = INTEGERS ? 1.0f : NIB_FACTOR;

/* Integers less their offset and zero, modulo 2^32. */
NIB_DEVICE int32_t group_integer(int32_t acc, int32_t act_sum, uint32_t zero)
{
    return acc * (int32_t)NIB_FACTOR - (NIB_OFFSET + (int32_t)zero) * act_sum;
}

/* The exact sum over a group as f32, in units of FACTOR; `zero` of CODE_ZERO. */
NIB_DEVICE float group_sum(int32_t acc, int32_t act_sum, uint32_t zero, const state &)
{
    return (float)group_integer(acc, act_sum, zero);
}

NIB_DEVICE float group_sum(float acc, float act_sum, uint32_t zero, const state &s)
{
    if constexpr (NIB_CODE.kind == NIB_KIND_TABLE)
        return acc * s.unlift; /* before the scale: a lifted sum times a large scale may overflow */
    if constexpr (NIB_OFFSET != 0 || CODE_ZERO)
        return acc - ((float)NIB_OFFSET / FACTOR + (float)zero) * act_sum;
    return acc;
}

/* Scales and zeros of a group for a lane's rows g and g + 8 of each unit. */
struct group_values {
    uint32_t scale[UNITS][2], zero[UNITS][2];
};

template <int CHUNK> NIB_DEVICE void read_group(uint32_t stage, const state &s, group_values &v)
{
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        if constexpr (SCALED)
            fetch_pair<SCALE_BYTES, CHUNK>(stage + s.scales, u, s.one_scale, v.scale[u]);
        if constexpr (FLOAT_ZERO || CODE_ZERO)
            fetch_pair<ZERO_BYTES, CHUNK>(stage + s.zeros, u, s.one_scale, v.zero[u]);
    }
}

/* tot += s (acc - z act_sum), or s acc - z act_sum. Factors stay outside until the end, so z is
 * divided by its. */
NIB_DEVICE void end_group(const group_values &v, state &s)
{
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        float scale[2] = {1.0f, 1.0f}, zero[2] = {0.0f, 0.0f};
#pragma unroll
        for (int row = 0; row < 2; row++) {
            if constexpr (SCALED)
                scale[row] = nib_float_from<NIB_SPEC_SCALE>(v.scale[u][row]);
            if constexpr (FLOAT_ZERO)
                zero[row] = nib_float_from<NIB_SPEC_ZERO_TYPE>(v.zero[u][row]) * (-1.0f / FACTOR);
        }
#pragma unroll
        for (int t = 0; t < TOKENS; t++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int row = j >> 1;
                const sum_number act_sum = s.act_sum[ACT_SUMS ? t : 0][j];
                float sum = group_sum(s.acc[u][t][j], act_sum, CODE_ZERO ? v.zero[u][row] : 0, s);
                if constexpr (NIB_SPEC_ZERO == NIB_ZERO_FLOAT)
                    sum += zero[row] * (float)act_sum;
                s.tot[u][t][j] += scale[row] * sum;
                if constexpr (NIB_SPEC_ZERO == NIB_ZERO_RESCALE)
                    s.tot[u][t][j] += zero[row] * (float)act_sum;
            }
    }
}

/* What leaves the main loop: f32 sums in their true size, or the bits of i32 (NIB_LATE_SCALE). */
NIB_DEVICE float final_sum(const state &s, int u, int t, int j)
{
    if constexpr (NIB_LATE_SCALE)
        return nib_float_from_bits((uint32_t)group_integer(
            (int32_t)s.acc[u][t][j], (int32_t)s.act_sum[ACT_SUMS ? t : 0][j], 0));
    return s.tot[u][t][j] * (FACTOR * ACT_FACTOR);
}

/* ---- the ring ----------------------------------------------------------------------------- */

/* Activations of a stage that need registers on the way: fetched when the stage's copies start,
 * stored before the next barrier. */
struct held_act {
    uint32_t words[ACT_PASSES][4];
};

/* What is on its way into the ring, and where its stages are. */
struct supply {
    act_source act;
    codes_source codes;
    held_act held;
    uint32_t held_for; /* stage that held belongs to, 0: none */
    uint32_t ring, read, write;
    int n_block, k, k_end; /* k: block of the next stage to fetch */
    int left;              /* stages to compute, the present one included */
    int64_t group_left;    /* columns to the end of the group, of WHOLE_GROUPS */
};

NIB_DEVICE uint32_t stage_after(const supply &x, uint32_t stage)
{
    const uint32_t next = stage + STAGE_BYTES;
    return next == x.ring + NIB_SPEC_STAGES * STAGE_BYTES ? x.ring : next;
}

NIB_DEVICE void store_held(supply &x)
{
    if constexpr (!ACT_COPIED) {
        if (x.held_for == 0)
            return;
#pragma unroll
        for (int i = 0; i < ACT_PASSES; i++)
            act_store(x.act, i, x.held.words[i], x.held_for);
        x.held_for = 0;
    }
}

NIB_DEVICE void start_act(const nib_cuda_params &p, supply &x)
{
    if constexpr (!ACT_COPIED) {
#pragma unroll
        for (int i = 0; i < ACT_PASSES; i++)
            act_fetch(p, x.act, i, x.held.words[i]);
        x.held_for = x.write;
    } else if (p.aligned) {
        act_copy(x.act, x.write);
    } else {
#pragma unroll 1
        for (int i = 0; i < ACT_PASSES; i++) {
            act_fetch(p, x.act, i, x.held.words[0]);
            act_store(x.act, i, x.held.words[0], x.write);
        }
    }
}

/* Starts the copies of the next stage, if there is one, as a group of their own; `weights`: those
 * of codes, scales and zeros too. */
NIB_DEVICE void start_stage(const nib_cuda_params &p, bool weights, supply &x)
{
    if (x.k < x.k_end) {
        if (weights) {
            codes_copy(x.codes, x.write);
            groups_copy(p, x.n_block, x.k, x.write);
        }
        start_act(p, x);
    }
    nib_copy_commit();
    act_advance(x.act);
    x.write = stage_after(x, x.write);
    x.k++;
}

/* The first stages. A dependent launch has the weights of all of them in the first group. */
NIB_DEVICE void fill_ring(const nib_cuda_params &p, supply &x)
{
    if constexpr (NIB_DEPENDENT) {
#pragma unroll 1
        for (int i = 0; i < NIB_SPEC_STAGES; i++)
            if (x.k + i < x.k_end) {
                codes_copy(x.codes, x.ring + i * STAGE_BYTES);
                groups_copy(p, x.n_block, x.k + i, x.ring + i * STAGE_BYTES);
            }
        nib_wait_for_primary(); /* act may be its output, out its input */
    }
#pragma unroll 1
    for (int i = 0; i < NIB_SPEC_STAGES; i++) {
        start_stage(p, !NIB_DEPENDENT, x);
        store_held(x);
    }
}

NIB_DEVICE void turn_ring(const nib_cuda_params &p, supply &x)
{
    store_held(x);
    nib_copy_wait<NIB_SPEC_STAGES - 2>();
    /* Orders all threads' copies into the stage that comes before its reads, and the reads of the
     * stage before it, all done, before the copies into its place. */
    __syncthreads();
    start_stage(p, true, x);
}

/* ---- the schedule ------------------------------------------------------------------------- */

/* Steps from STEP on. Operands are in o[STEP & 1] already. In the last step the ring turns, so that
 * the first operands of the next stage are made beside its products. */
template <int STEP>
NIB_DEVICE void run_steps(const nib_cuda_params &p, const warp_place &place, supply &x, state &s,
                          operands (&o)[2])
{
    constexpr bool last = STEP + 1 == STEPS, ends = (STEP + 1) % FLUSH_STEPS == 0;
    constexpr int chunk = HALVES * STEP / FLUSH_STEPS;
    operands &now = o[STEP & 1], &next = o[(STEP + 1) & 1];
    group_values lower, values;
    if constexpr (HALVES == 2)
        read_group<chunk>(x.read, s, lower);
    if constexpr (ends && !NIB_LATE_SCALE)
        read_group<chunk + HALVES - 1>(x.read, s, values);
    const bool over =
        x.left == 1; /* the last stage then stays, and is read once more for nothing */
    if constexpr (last) {
        turn_ring(p, x);
        x.read = over ? x.read : stage_after(x, x.read);
        fetch<0>(x.read, place, s, next);
        x.left--;
    } else {
        fetch<STEP + 1>(x.read, place, s, next);
    }
    if constexpr (!WHOLE_GROUPS && STEP % FLUSH_STEPS == 0)
        clear_sums(s);
    if constexpr (HALVES == 2) {
        multiply<0>(now, s);
        end_group(lower, s);
        clear_sums(s);
        multiply<1>(now, s);
    } else {
        multiply<-1>(now, s);
    }
    if constexpr (ends && !WHOLE_GROUPS) {
        end_group(values, s);
    } else if constexpr (ends && !NIB_LATE_SCALE) {
        x.group_left -= FLUSH_K;
        if (x.group_left <= 0 || (last && over)) {
            end_group(values, s);
            clear_sums(s);
            x.group_left = p.group;
        }
    }
    if constexpr (!last)
        run_steps<STEP + 1>(p, place, x, s, o);
    else if constexpr (STEPS % 2 == 1)
        o[0] = next;
}

NIB_DEVICE void clear_totals(state &s)
{
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
        for (int t = 0; t < TOKENS; t++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                s.tot[u][t][j] = 0.0f;
    clear_sums(s);
}

/* Sums the products of k blocks [k_begin, k_end) in s.tot (with NIB_LATE_SCALE: in s.acc). */
NIB_DEVICE void mainloop_run(const nib_cuda_params &p, const warp_place &place, int n_block,
                             int64_t m0, int k_begin, int k_end, uint32_t ring, state &s)
{
    clear_totals(s);
    if (k_begin >= k_end) {
        nib_wait_for_primary(); /* what it reads may be overwritten */
        return;
    }
    supply x;
    x.act = act_begin(p, m0, k_begin * STAGE_K);
    codes_begin(p, n_block, k_begin, x.codes);
    x.held_for = 0;
    x.ring = x.read = x.write = ring;
    x.n_block = n_block;
    x.k = k_begin;
    x.k_end = k_end;
    x.left = k_end - k_begin;
    x.group_left = p.group - (int64_t)k_begin * STAGE_K % p.group;
    fill_ring(p, x);
    operands o[2];
    nib_copy_wait<NIB_SPEC_STAGES - 1>();
    __syncthreads(); /* the first stage is there */
    fetch<0>(x.read, place, s, o[0]);
#pragma unroll 1
    while (x.left > 0)
        run_steps<0>(p, place, x, s, o);
}

#endif
