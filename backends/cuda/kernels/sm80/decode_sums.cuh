/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of the decode kernels: one block of 128 k of a warp, from a stage of its ring into the
 * warp's sums. The places in a stage are those of decode.cuh, or of kernels/sm90/decode.cuh. For
 * each group of k
 *
 *     sum += s (factor * acc - (z + offset) * asum)           zeros: float or code
 *     sum += s (factor * acc - offset * asum) - z asum        zeros: rescale
 *
 * acc are products of operands (dequant.cuh), asum the sum of the group's activations.
 */
#ifndef NIB_CUDA_SM80_DECODE_SUMS_CUH
#define NIB_CUDA_SM80_DECODE_SUMS_CUH

static constexpr bool NIB_BYTES = NIB_COMPUTE == NIB_COMPUTE_S8;
static constexpr bool NIB_NEEDS_ASUM = NIB_OFFSET != 0 || NIB_SPEC_ZERO != NIB_ZERO_NONE;

/* Products of 16 k, or with bytes of 32 k. */
static constexpr int NIB_PRODUCTS = NIB_BYTES ? 4 : 8;
static constexpr int NIB_GROUP_PRODUCTS = NIB_PRODUCTS / NIB_BLOCK_GROUPS;
static_assert(NIB_GROUP_PRODUCTS >= 1, "bytes go by 32 k: groups of 16 are not for them");

/* Units whose chains of products run side by side. Operands of several limbs fill the registers,
 * and their chains are several as it is. */
static constexpr int NIB_SIDE_UNITS = NIB_LIMBS > 1 || NIB_SPEC_UNITS == 1         ? 1
                                      : NIB_SPEC_UNITS == 2                        ? 2
                                      : NIB_TOKEN_TILES == 1 && NIB_CODE.bits <= 4 ? 4
                                                                                   : 2;
/* Short groups and operands of several limbs go by 32 k in a loop that is not unrolled: as straight
 * code they would need more registers than there are. */
static constexpr bool NIB_NARROW = NIB_LIMBS > 1 || NIB_BLOCK_GROUPS > NIB_STRAIGHT_GROUPS;

template <bool BYTES> struct nib_accumulator {
    typedef float type;
};
template <> struct nib_accumulator<true> {
    typedef int32_t type;
};
typedef nib_accumulator<NIB_BYTES>::type nib_acc;

/* B fragments of a block: all its products, all tokens. */
typedef uint32_t nib_tokens[NIB_PRODUCTS][NIB_TOKEN_TILES][2];
/* Sums of activations a group: tokens 2t and 2t + 1. */
typedef nib_acc nib_act_sums[NIB_BLOCK_GROUPS][NIB_TOKEN_TILES][2];

/* What a warp carries from block to block. With one group along k, `acc` and `asum` go on and are
 * scaled in the end; otherwise only `sum`. */
typedef struct nib_sums {
    float sum[NIB_SPEC_UNITS][NIB_TOKEN_TILES][4];
} nib_sums;

typedef struct nib_long_sums {
    nib_acc acc[NIB_SPEC_UNITS][NIB_TOKEN_TILES][4];
    nib_act_sums asum;
} nib_long_sums;

/* ---- activations -------------------------------------------------------------------------- */

/* Two bytes of act, neighbours in k, as a pair of f16; exact. */
NIB_DEVICE uint32_t nib_act_pair(uint32_t bytes)
{
    if constexpr (NIB_SPEC_ACT == NIB_E5M2) {
        return nib_permute(bytes, 0, 0x1404);
    } else if constexpr (NIB_SPEC_ACT == NIB_E4M3) {
        /* times 256 */
        return nib_fma_f16x2(nib_f16_pair_from_e4m3(nib_permute(bytes, 0, 0x4140)), 0x5c005c00u,
                             0x80008000u);
    } else {
        /* i8: 0x6400 | (v + 128) is 1024 + 128 + v; 1152 is 0x6480 */
        return nib_fma_f16x2(nib_permute(bytes ^ 0x8080u, 0x64646464u, 0x4140), 0x3c003c00u,
                             0xe480e480u);
    }
}

/* B fragments of 32 k, steps 2 * PAIR and 2 * PAIR + 1, of all tokens, from column `first` of the
 * block on. */
template <int PAIR>
NIB_DEVICE void nib_read_pair_tokens(uint32_t act, int first, int lane, nib_tokens &b)
{
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int m = 0; m < NIB_TOKEN_TILES; m++) {
        /* With one token all columns of the product are it. */
        if constexpr (NIB_ACT_BYTES == 2) {
            const int row = NIB_SPEC_TILE_M == 1 ? 0 : m * 8 + (lane & 7);
            uint32_t four[4];
            nib_load_matrix4(four, nib_act_place(act, row, first * 2 + (lane >> 3) * 16));
            b[2 * PAIR][m][0] = four[0];
            b[2 * PAIR][m][1] = four[1];
            b[2 * PAIR + 1][m][0] = four[2];
            b[2 * PAIR + 1][m][1] = four[3];
        } else {
            const int row = NIB_SPEC_TILE_M == 1 ? 0 : m * 8 + g;
            const uint32_t at = nib_act_place(act, row, first + 2 * t);
#pragma unroll
            for (int s = 0; s < 2; s++) {
                const uint32_t low = nib_shared_load16(at + s * 16);
                const uint32_t high = nib_shared_load16(at + s * 16 + 8);
                if constexpr (NIB_BYTES) {
                    b[PAIR][m][s] = nib_permute(low, high, 0x5140);
                } else {
                    b[2 * PAIR + s][m][0] = nib_act_pair(low);
                    b[2 * PAIR + s][m][1] = nib_act_pair(high);
                }
            }
        }
    }
}

NIB_DEVICE void nib_read_tokens(uint32_t act, int lane, nib_tokens &b)
{
    nib_read_pair_tokens<0>(act, 0, lane, b);
    nib_read_pair_tokens<1>(act, 32, lane, b);
    nib_read_pair_tokens<2>(act, 64, lane, b);
    nib_read_pair_tokens<3>(act, 96, lane, b);
}

/* Adds the activations of products AT .. END - 1: an A of ones makes every row of the product their
 * sum. */
template <int AT, int END>
NIB_DEVICE void nib_sum_products(const nib_tokens &b, nib_acc (&asum)[NIB_TOKEN_TILES][2])
{
    const uint32_t ones[4] = {NIB_ONES, NIB_ONES, NIB_ONES, NIB_ONES};
#pragma unroll
    for (int m = 0; m < NIB_TOKEN_TILES; m++) {
        nib_acc d[4] = {asum[m][0], asum[m][1], asum[m][0], asum[m][1]};
#pragma unroll
        for (int i = AT; i < END; i++)
            nib_mma_codes(d, ones, b[i][m]);
        asum[m][0] = d[0];
        asum[m][1] = d[1];
    }
}

template <int J> NIB_DEVICE void nib_sum_tokens(const nib_tokens &b, nib_act_sums &asum)
{
    if constexpr (J < NIB_BLOCK_GROUPS) {
        nib_sum_products<J * NIB_GROUP_PRODUCTS, (J + 1) * NIB_GROUP_PRODUCTS>(b, asum[J]);
        nib_sum_tokens<J + 1>(b, asum);
    }
}

/* ---- products ----------------------------------------------------------------------------- */

typedef nib_acc nib_tile[NIB_SIDE_UNITS][NIB_TOKEN_TILES][4];
typedef uint32_t nib_unit_words[NIB_SIDE_UNITS][NIB_WORDS];

/* Products AT .. END - 1, the units in turn: neighbouring instructions belong to different chains.
 */
template <int AT, int END>
NIB_DEVICE void nib_multiply(const nib_unit_words &q, const nib_tokens &b, uint32_t table,
                             nib_tile &acc)
{
    if constexpr (AT < END) {
        const uint32_t addend[2] = {nib_fold_addend(0), nib_fold_addend(1)};
#pragma unroll
        for (int u = 0; u < NIB_SIDE_UNITS; u++) {
            if constexpr (NIB_BYTES) {
                uint32_t a[4];
                nib_dequant_bytes<AT>(q[u], a);
#pragma unroll
                for (int m = 0; m < NIB_TOKEN_TILES; m++)
                    nib_mma_codes(acc[u][m], a, b[AT][m]);
            } else {
                uint32_t a[NIB_LIMBS][4];
                nib_dequant<AT>(q[u], table, addend, a);
#pragma unroll
                for (int l = 0; l < NIB_LIMBS; l++)
#pragma unroll
                    for (int m = 0; m < NIB_TOKEN_TILES; m++)
                        nib_mma_codes(acc[u][m], a[l], b[AT][m]);
            }
        }
        nib_multiply<AT + 1, END>(q, b, table, acc);
    }
}

NIB_DEVICE void nib_clear(nib_tile &acc, nib_acc (&asum)[NIB_TOKEN_TILES][2])
{
#pragma unroll
    for (int m = 0; m < NIB_TOKEN_TILES; m++) {
        asum[m][0] = asum[m][1] = 0;
#pragma unroll
        for (int u = 0; u < NIB_SIDE_UNITS; u++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[u][m][e] = 0;
    }
}

/* ---- scales ------------------------------------------------------------------------------- */

/* The neighbours (row g, row g + 8) of a line of scales or zeros in shared memory. */
template <int TYPE> NIB_DEVICE void nib_read_pair(uint32_t at, float (&out)[2])
{
    uint32_t bits[2];
    if constexpr (nib_element_bytes(TYPE) == 4) {
        nib_shared_load2(bits, at);
    } else if constexpr (nib_element_bytes(TYPE) == 2) {
        bits[0] = nib_shared_load(at);
        bits[1] = bits[0] >> 16;
    } else {
        bits[0] = nib_shared_load16(at);
        bits[1] = bits[0] >> 8;
    }
    out[0] = nib_float_from<TYPE>(bits[0]);
    out[1] = nib_float_from<TYPE>(bits[1]);
}

static constexpr int NIB_ZERO_AS = NIB_SPEC_ZERO == NIB_ZERO_CODE ? NIB_U8 : NIB_SPEC_ZERO_TYPE;

/* Scale and zero of rows g and g + 8 of a unit. */
typedef struct nib_pair_scale {
    float scale[2], zero[2];
} nib_pair_scale;

NIB_DEVICE nib_pair_scale nib_stage_scale(uint32_t stage, int lane, int group, int unit)
{
    nib_pair_scale out = {{1.0f, 1.0f}, {0.0f, 0.0f}};
    const int at = (group * NIB_SPEC_UNITS + unit) * 16 + (lane >> 2) * 2;
    if constexpr (NIB_SCALE_BYTES > 0)
        nib_read_pair<NIB_SPEC_SCALE>(stage + NIB_STAGE_SCALES + at * NIB_SCALE_BYTES, out.scale);
    if constexpr (NIB_ZERO_BYTES > 0)
        nib_read_pair<NIB_ZERO_AS>(stage + NIB_STAGE_ZEROS + at * NIB_ZERO_BYTES, out.zero);
    return out;
}

/* Adds a group's products to the sums of a unit. `lift`: 1 / that of nib_table_lift. */
NIB_DEVICE void nib_scale_group(const nib_acc (&acc)[NIB_TOKEN_TILES][4],
                                const nib_acc (&asum)[NIB_TOKEN_TILES][2], const nib_pair_scale &by,
                                float lift, float (&sum)[NIB_TOKEN_TILES][4])
{
#pragma unroll
    for (int m = 0; m < NIB_TOKEN_TILES; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int row = e >> 1;
            float value;
            if constexpr (NIB_BYTES) {
                /* exact; a sum of codes without their offset fits 32 bits as the product does */
                value = (float)((int32_t)NIB_FACTOR * acc[m][e] - NIB_OFFSET * asum[m][e & 1]);
            } else {
                const float factor = NIB_CODE.kind == NIB_KIND_TABLE ? lift : NIB_FACTOR;
                value = acc[m][e] * factor;
                if constexpr (NIB_OFFSET != 0)
                    value -= (float)NIB_OFFSET * asum[m][e & 1];
            }
            if constexpr (NIB_SPEC_ZERO == NIB_ZERO_FLOAT || NIB_SPEC_ZERO == NIB_ZERO_CODE)
                value -= by.zero[row] * (float)asum[m][e & 1];
            sum[m][e] += by.scale[row] * value;
            if constexpr (NIB_SPEC_ZERO == NIB_ZERO_RESCALE)
                sum[m][e] -= by.zero[row] * (float)asum[m][e & 1];
        }
}

/* ---- a block ------------------------------------------------------------------------------ */

template <int J>
NIB_DEVICE void nib_group_products(uint32_t stage, int lane, int first, const nib_unit_words &q,
                                   const nib_tokens &b, const nib_act_sums &asum, uint32_t table,
                                   float lift, nib_sums &sums)
{
    if constexpr (J < NIB_BLOCK_GROUPS) {
        nib_tile acc = {};
        nib_multiply<J * NIB_GROUP_PRODUCTS, (J + 1) * NIB_GROUP_PRODUCTS>(q, b, table, acc);
#pragma unroll
        for (int u = 0; u < NIB_SIDE_UNITS; u++)
            nib_scale_group(acc[u], asum[J], nib_stage_scale(stage, lane, J, first + u), lift,
                            sums.sum[first + u]);
        nib_group_products<J + 1>(stage, lane, first, q, b, asum, table, lift, sums);
    }
}

/* A block of 128 k whose groups end with it or within it. */
NIB_DEVICE void nib_block_products(uint32_t stage, uint32_t act, int lane, uint32_t table,
                                   float lift, nib_sums &sums)
{
    nib_tokens b;
    nib_act_sums asum = {};
    nib_read_tokens(act, lane, b);
    if constexpr (NIB_NEEDS_ASUM)
        nib_sum_tokens<0>(b, asum);
#pragma unroll
    for (int first = 0; first < NIB_SPEC_UNITS; first += NIB_SIDE_UNITS) {
        nib_unit_words q;
#pragma unroll
        for (int u = 0; u < NIB_SIDE_UNITS; u++)
            nib_read_weights(stage, lane, first + u, q[u]);
        nib_group_products<0>(stage, lane, first, q, b, asum, table, lift, sums);
    }
}

/* A block of 128 k where one group is all of k. */
NIB_DEVICE void nib_block_products(uint32_t stage, uint32_t act, int lane, uint32_t table,
                                   nib_long_sums &sums)
{
    nib_tokens b;
    nib_read_tokens(act, lane, b);
    if constexpr (NIB_NEEDS_ASUM)
        nib_sum_tokens<0>(b, sums.asum);
#pragma unroll
    for (int first = 0; first < NIB_SPEC_UNITS; first += NIB_SIDE_UNITS) {
        nib_unit_words q;
#pragma unroll
        for (int u = 0; u < NIB_SIDE_UNITS; u++)
            nib_read_weights(stage, lane, first + u, q[u]);
        nib_multiply<0, NIB_PRODUCTS>(q, b, table, *(nib_tile *)&sums.acc[first]);
    }
}

/* ---- a block by 32 k ---------------------------------------------------------------------- */

/* As nib_group_products for what ends within 32 k: groups of 16 and 32. */
template <int AT, int END>
NIB_DEVICE void nib_narrow_group(uint32_t stage, int lane, int group, int first,
                                 const nib_unit_words &q, const nib_tokens &b, uint32_t table,
                                 float lift, nib_sums &sums)
{
    nib_tile acc = {};
    nib_acc asum[NIB_TOKEN_TILES][2] = {};
    if constexpr (NIB_NEEDS_ASUM)
        nib_sum_products<AT, END>(b, asum);
    nib_multiply<AT, END>(q, b, table, acc);
#pragma unroll
    for (int u = 0; u < NIB_SIDE_UNITS; u++)
        nib_scale_group(acc[u], asum, nib_stage_scale(stage, lane, group, first + u), lift,
                        sums.sum[first + u]);
}

/* Words and tokens of 32 k, as steps 0 and 1. */
NIB_DEVICE void nib_read_narrow(uint32_t stage, uint32_t act, int lane, int pair, int first,
                                nib_unit_words &q, nib_tokens &b)
{
    nib_read_pair_tokens<0>(act, pair * 32, lane, b);
#pragma unroll
    for (int u = 0; u < NIB_SIDE_UNITS; u++)
        nib_read_pair_weights(stage, lane, first + u, pair, q[u]);
}

NIB_DEVICE void nib_narrow_products(uint32_t stage, uint32_t act, int lane, uint32_t table,
                                    float lift, nib_sums &sums)
{
    constexpr int products = NIB_PRODUCTS / 4, groups = NIB_BLOCK_GROUPS / 4;
#pragma unroll
    for (int first = 0; first < NIB_SPEC_UNITS; first += NIB_SIDE_UNITS) {
        nib_tile acc = {};
        nib_acc asum[NIB_TOKEN_TILES][2] = {};
#pragma unroll 1
        for (int pair = 0; pair < 4; pair++) {
            nib_unit_words q;
            nib_tokens b;
            nib_read_narrow(stage, act, lane, pair, first, q, b);
            if constexpr (groups == 2) {
                nib_narrow_group<0, 1>(stage, lane, 2 * pair, first, q, b, table, lift, sums);
                nib_narrow_group<1, 2>(stage, lane, 2 * pair + 1, first, q, b, table, lift, sums);
                continue;
            }
            if constexpr (NIB_NEEDS_ASUM)
                nib_sum_products<0, products>(b, asum);
            nib_multiply<0, products>(q, b, table, acc);
            if ((pair + 1) % (4 / NIB_BLOCK_GROUPS + (NIB_BLOCK_GROUPS > 4)))
                continue; /* the group goes on */
#pragma unroll
            for (int u = 0; u < NIB_SIDE_UNITS; u++) {
                const int group = pair * NIB_BLOCK_GROUPS / 4;
                nib_scale_group(acc[u], asum, nib_stage_scale(stage, lane, group, first + u), lift,
                                sums.sum[first + u]);
            }
            nib_clear(acc, asum);
        }
    }
}

NIB_DEVICE void nib_narrow_products(uint32_t stage, uint32_t act, int lane, uint32_t table,
                                    nib_long_sums &sums)
{
#pragma unroll
    for (int first = 0; first < NIB_SPEC_UNITS; first += NIB_SIDE_UNITS)
#pragma unroll 1
        for (int pair = 0; pair < 4; pair++) {
            nib_unit_words q;
            nib_tokens b;
            nib_read_narrow(stage, act, lane, pair, first, q, b);
            if constexpr (NIB_NEEDS_ASUM)
                if (first == 0)
                    nib_sum_products<0, NIB_PRODUCTS / 4>(b, sums.asum[0]);
            nib_multiply<0, NIB_PRODUCTS / 4>(q, b, table, *(nib_tile *)&sums.acc[first]);
        }
}

/* A block of 128 k: weights and scales in `stage`, activations in `act`. One group along k adds to
 * `whole`, others to `sums`. */
NIB_DEVICE void nib_take_block(uint32_t stage, uint32_t act, int lane, uint32_t table, float lift,
                               nib_long_sums &whole, nib_sums &sums)
{
    if constexpr (NIB_ONE_GROUP && NIB_NARROW)
        nib_narrow_products(stage, act, lane, table, whole);
    else if constexpr (NIB_ONE_GROUP)
        nib_block_products(stage, act, lane, table, whole);
    else if constexpr (NIB_NARROW)
        nib_narrow_products(stage, act, lane, table, lift, sums);
    else
        nib_block_products(stage, act, lane, table, lift, sums);
}

/* One group along k: its scales, in the end. With NIB_LATE_SCALE the sums stay integers. */
NIB_DEVICE void nib_scale_long(const nib_cuda_params &p, const nib_warp &warp, float lift,
                               const nib_long_sums &from, nib_sums &to)
{
#pragma unroll
    for (int u = 0; u < NIB_SPEC_UNITS; u++) {
        if constexpr (NIB_LATE_SCALE) {
#pragma unroll
            for (int m = 0; m < NIB_TOKEN_TILES; m++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    to.sum[u][m][e] = nib_float_from_bits(
                        (uint32_t)((int32_t)NIB_FACTOR * (int32_t)from.acc[u][m][e] -
                                   NIB_OFFSET * (int32_t)from.asum[0][m][e & 1]));
        } else {
            const int half = u / NIB_HALF_UNITS;
            const int64_t line = (int64_t)warp.unit_block[half] * 64 +
                                 (warp.unit[half] + u % NIB_HALF_UNITS) * 16 + (warp.lane >> 2) * 2;
            nib_pair_scale by = {{1.0f, 1.0f}, {0.0f, 0.0f}};
#pragma unroll
            for (int row = 0; row < 2; row++) {
                const int64_t at = p.one_scale ? 0 : line + row;
                if constexpr (NIB_SCALE_BYTES > 0)
                    by.scale[row] = nib_float_from<NIB_SPEC_SCALE>(
                        nib_load_element<NIB_SCALE_BYTES>(p.scales, at));
                if constexpr (NIB_ZERO_BYTES > 0)
                    by.zero[row] =
                        nib_float_from<NIB_ZERO_AS>(nib_load_element<NIB_ZERO_BYTES>(p.zeros, at));
            }
            nib_scale_group(from.acc[u], from.asum[0], by, lift, to.sum[u]);
        }
    }
}

#endif
