/* SPDX-License-Identifier: Apache-2.0
 *
 * From codes to operands of the matrix products. Knows the layout mma64x128 within a block of 64
 * rows x 128 k and every weight type; kernels know neither. A new weight type is a row of
 * nib_code_rows and, if it is of a new kind, one function.
 *
 * A lane (g = lane / 4, t = lane % 4) owns 2 * bits words of each unit of 16 rows of a block; `q`
 * below are these words, planes one after the other. They hold 8 k16 steps; in a step, register i
 * of the A fragment is row g + 8 (i & 1), k = 2t + 8 (i >> 1) + e, e = 0, 1. Where code (step s,
 * register i) of a plane stands, the code of e = 1 always 16 bits above that of e = 0:
 *
 *     plane of    word               bit
 *     1           s / 4              i + 4 (s % 4)
 *     2           s / 2              2 i + 8 (s % 2)
 *     4           s                  4 i
 *     8           2 s + (i >> 1)     8 (i & 1)
 *
 * An operand is the code's value, of integers minus a small integer (a zero) if wanted, exactly,
 * but for a factor (NIB_FACTOR) and an offset (NIB_OFFSET) of the type: products are multiplied by
 * the one, and the other times the sum of the activations is taken off. Codes of f16 where they
 * stand, as subnormals, would be cheaper, but the tensor core aligns a product by its operands'
 * exponent fields: up to 10 of its 25 bits of fraction would be lost.
 */
#ifndef NIB_CUDA_SM80_DEQUANT_CUH
#define NIB_CUDA_SM80_DEQUANT_CUH

/* ---- the table of weight types ------------------------------------------------------------ */

enum { NIB_KIND_INTEGER, NIB_KIND_FLOAT, NIB_KIND_TABLE };

typedef struct nib_code_row {
    int type, bits, kind;
    /* Integers: code = value + offset, of i8 with its top bit flipped; i1 is 2 code - offset. */
    int offset;
    int low, high;                /* and where a word has them in its halves, of rows g and g + 8 */
    int exponent, mantissa, bias; /* floats: bits below the sign */
    bool ieee;                    /* e5m2: the top exponent is special */
    bool nan;                     /* e4m3: all ones is NaN */
} nib_code_row;

/* clang-format off */
static constexpr nib_code_row nib_code_rows[] = {
    {NIB_U1, 1, NIB_KIND_INTEGER,   0, 0, 1}, {NIB_I1, 1, NIB_KIND_INTEGER,   1, 0, 1},
    {NIB_U2, 2, NIB_KIND_INTEGER,   0, 0, 2}, {NIB_I2, 2, NIB_KIND_INTEGER,   2, 0, 2},
    {NIB_U3, 3, NIB_KIND_INTEGER,   0, 0, 2}, {NIB_I3, 3, NIB_KIND_INTEGER,   4, 0, 2},
    {NIB_U4, 4, NIB_KIND_INTEGER,   0, 0, 4}, {NIB_I4, 4, NIB_KIND_INTEGER,   8, 0, 4},
    {NIB_U5, 5, NIB_KIND_INTEGER,   0, 0, 4}, {NIB_I5, 5, NIB_KIND_INTEGER,  16, 0, 4},
    {NIB_U6, 6, NIB_KIND_INTEGER,   0, 0, 4}, {NIB_I6, 6, NIB_KIND_INTEGER,  32, 0, 4},
    {NIB_U7, 7, NIB_KIND_INTEGER,   0, 0, 0}, {NIB_I7, 7, NIB_KIND_INTEGER,  64, 0, 0},
    {NIB_U8, 8, NIB_KIND_INTEGER,   0, 0, 0}, {NIB_I8, 8, NIB_KIND_INTEGER, 128, 0, 0},
    {NIB_NF4,  4, NIB_KIND_TABLE}, {NIB_LUT4, 4, NIB_KIND_TABLE},
    {NIB_E2M1, 4, NIB_KIND_FLOAT, 0, 0, 0, 2, 1, 1,  false, false},
    {NIB_E3M2, 6, NIB_KIND_FLOAT, 0, 0, 0, 3, 2, 3,  false, false},
    {NIB_E2M3, 6, NIB_KIND_FLOAT, 0, 0, 0, 2, 3, 1,  false, false},
    {NIB_E4M3, 8, NIB_KIND_FLOAT, 0, 0, 0, 4, 3, 7,  false, true},
    {NIB_E5M2, 8, NIB_KIND_FLOAT, 0, 0, 0, 5, 2, 15, true,  false},
};
/* clang-format on */

NIB_CONSTEXPR nib_code_row nib_code_find(int type)
{
    for (const nib_code_row &row : nib_code_rows)
        if (row.type == type)
            return row;
    return nib_code_row{};
}

static constexpr nib_code_row NIB_CODE = nib_code_find(NIB_SPEC_WEIGHT);
static_assert(NIB_CODE.bits > 0, "NIB_SPEC_WEIGHT has no row in nib_code_rows");

/* Families whose operands are all of one byte have them from kernels/sm90/dequant8.cuh. */
#ifdef NIB_SPEC_BYTES
static constexpr bool NIB_BYTE_OPERANDS = true;
#else
static constexpr bool NIB_BYTE_OPERANDS = false;
#endif

/* What the matrix products multiply. i8 activations meet float codes as f16, like those of 8-bit
 * floats: both are exact there. */
enum { NIB_COMPUTE_F16, NIB_COMPUTE_BF16, NIB_COMPUTE_S8, NIB_COMPUTE_BYTES };
static constexpr int NIB_COMPUTE = NIB_BYTE_OPERANDS          ? NIB_COMPUTE_BYTES
                                   : NIB_SPEC_ACT == NIB_BF16 ? NIB_COMPUTE_BF16
                                   : NIB_SPEC_ACT == NIB_I8 && NIB_CODE.kind == NIB_KIND_INTEGER
                                       ? NIB_COMPUTE_S8
                                       : NIB_COMPUTE_F16;

/* Operands that add up to the value: entries of tables take 22 bits as two f16, 24 as three bf16.
 */
static constexpr int NIB_LIMBS = NIB_CODE.kind != NIB_KIND_TABLE  ? 1
                                 : NIB_COMPUTE == NIB_COMPUTE_F16 ? 2
                                                                  : 3;
/* Words of a lane in a unit of a block. */
static constexpr int NIB_WORDS = 2 * NIB_CODE.bits;

/* Plane p of a code: 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2, 7 = 4 + 2 + 1, low bits first. */
NIB_CONSTEXPR int nib_plane_bits(int plane)
{
    int left = NIB_CODE.bits, size = 0;
    for (int p = 0; p <= plane; p++) {
        size = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : left;
        left -= size;
    }
    return size;
}

NIB_CONSTEXPR int nib_plane_shift(int plane)
{
    int shift = 0;
    for (int p = 0; p < plane; p++)
        shift += nib_plane_bits(p);
    return shift;
}

static constexpr int NIB_PLANES = nib_plane_bits(0) == NIB_CODE.bits                       ? 1
                                  : nib_plane_bits(0) + nib_plane_bits(1) == NIB_CODE.bits ? 2
                                                                                           : 3;

/* ---- places ------------------------------------------------------------------------------- */

NIB_CONSTEXPR int nib_plane_word(int bits, int step, int i)
{
    return bits == 8 ? 2 * step + (i >> 1) : step / (4 / bits);
}

NIB_CONSTEXPR int nib_plane_bit(int bits, int step, int i)
{
    return bits == 8 ? 8 * (i & 1) : bits * i + 4 * bits * (step % (4 / bits));
}

/* Both halves' bits [from, from + count) of a word, moved to bit `to`. Fields stay within their
 * half, so what a shift carries over from the other half is masked away. */
template <int FROM, int COUNT, int TO> NIB_DEVICE uint32_t nib_move_field(uint32_t word)
{
    constexpr uint32_t mask = (((1u << COUNT) - 1) << TO) * 0x00010001u;
    if constexpr (FROM >= TO)
        return word >> (FROM - TO) & mask;
    else
        return word << (TO - FROM) & mask;
}

/* The part of bits [LOW, LOW + COUNT) of the codes of (STEP, I) that plane PLANE holds, for e = 0
 * in the lower half and e = 1 in the upper, LOW moved to bit TO. */
template <int PLANE, int STEP, int I, int LOW, int COUNT, int TO>
NIB_DEVICE uint32_t nib_plane_part(const uint32_t *q)
{
    constexpr int bits = nib_plane_bits(PLANE), shift = nib_plane_shift(PLANE);
    constexpr int from = LOW > shift ? LOW : shift;
    constexpr int to = LOW + COUNT < shift + bits ? LOW + COUNT : shift + bits;
    if constexpr (from < to)
        return nib_move_field<nib_plane_bit(bits, STEP, I) + from - shift, to - from,
                              TO + from - LOW>(q[2 * shift + nib_plane_word(bits, STEP, I)]);
    else
        return 0;
}

template <int STEP, int I, int LOW, int COUNT, int TO>
NIB_DEVICE uint32_t nib_code_bits(const uint32_t *q)
{
    uint32_t out = nib_plane_part<0, STEP, I, LOW, COUNT, TO>(q);
    if constexpr (NIB_PLANES > 1)
        out |= nib_plane_part<1, STEP, I, LOW, COUNT, TO>(q);
    if constexpr (NIB_PLANES > 2)
        out |= nib_plane_part<2, STEP, I, LOW, COUNT, TO>(q);
    return out;
}

/* ---- integers ----------------------------------------------------------------------------- */

/* Integer codes at bit TO; i8 becomes value + 128 by flipping its top bit. */
template <int STEP, int I, int TO> NIB_DEVICE uint32_t nib_integer(const uint32_t *q)
{
    const uint32_t code = nib_code_bits<STEP, I, 0, NIB_CODE.bits, TO>(q);
    if constexpr (NIB_CODE.type == NIB_I8)
        return code ^ (0x00800080u << TO);
    return code;
}

NIB_CONSTEXPR uint32_t nib_pair(uint32_t half)
{
    return half * 0x00010001u;
}

/* The same in front of `base`, which has no bits there. */
template <int STEP, int I, int TO>
NIB_DEVICE uint32_t nib_integer_over(const uint32_t *q, uint32_t base)
{
    constexpr int bits = nib_plane_bits(0), from = nib_plane_bit(bits, STEP, I);
    constexpr int right = from > TO ? from - TO : 0, left = from < TO ? TO - from : 0;
    uint32_t out = nib_and_xor(q[nib_plane_word(bits, STEP, I)] >> right << left,
                               nib_pair(((1u << bits) - 1) << TO),
                               NIB_CODE.type == NIB_I8 ? base ^ nib_pair(0x80u << TO) : base);
    if constexpr (NIB_PLANES > 1)
        out |= nib_plane_part<1, STEP, I, 0, NIB_CODE.bits, TO>(q);
    if constexpr (NIB_PLANES > 2)
        out |= nib_plane_part<2, STEP, I, 0, NIB_CODE.bits, TO>(q);
    return out;
}

/* Position of the code in an operand's mantissa. f16 takes rows g + 8 where they stand, 10
 * bits of mantissa are enough; bf16 has 7 bits. i1 sits at bit 1 for its 2 code - 1. */
NIB_CONSTEXPR int nib_fold_position(int i)
{
    if (NIB_CODE.type == NIB_I1)
        return 1;
    return NIB_COMPUTE != NIB_COMPUTE_F16 ? 0 : i & 1 ? NIB_CODE.high : NIB_CODE.low;
}

/* Integers from 0 to 2047 as f16, from 0 to 256 as bf16; exact. */
NIB_CONSTEXPR uint32_t nib_small_f16(int value)
{
    int exponent = 0;
    while (value >> exponent > 1)
        exponent++;
    return value == 0 ? 0 : (uint32_t)((15 + exponent) << 10 | ((value << 10 >> exponent) & 0x3ff));
}

NIB_CONSTEXPR uint32_t nib_small_bf16(int value)
{
    int exponent = 0;
    while (value >> exponent > 1)
        exponent++;
    return value == 0 ? 0 : (uint32_t)((127 + exponent) << 7 | ((value << 7 >> exponent) & 0x7f));
}

/* Addends of integers' operands, negative: of rows g (0) and rows g + 8 (1), without a zero. f16:
 * the exponent 0x6400 makes 1024 + (c << p), times 2^-p that is 1024 / 2^p + c. bf16: 0x4300 makes
 * 128 + c; of 8 bits see nib_fold_integer. */
NIB_CONSTEXPR uint32_t nib_fold_addend(int parity)
{
    if (NIB_CODE.kind != NIB_KIND_INTEGER)
        return 0;
    if (NIB_COMPUTE == NIB_COMPUTE_BF16)
        return nib_pair(0x8000u | nib_small_bf16(128 + NIB_CODE.offset));
    const int lift = NIB_CODE.type == NIB_I1 ? 1024 : 1024 >> nib_fold_position(parity);
    return nib_pair(0x8000u | nib_small_f16(lift + NIB_CODE.offset));
}

/* Whether an unsigned code of NIB_CODE.bits may be added to an addend without rounding. */
static constexpr bool NIB_FOLDS_ZERO =
    NIB_CODE.kind == NIB_KIND_INTEGER &&
    (NIB_COMPUTE == NIB_COMPUTE_F16 || (NIB_COMPUTE == NIB_COMPUTE_BF16 && NIB_CODE.bits < 8 &&
                                        128 + NIB_CODE.offset + (1 << NIB_CODE.bits) - 1 < 256));

/* An addend less the zero of its row, for both elements of a pair. */
template <int PARITY> NIB_DEVICE uint32_t nib_fold_addend_zero(uint32_t zero)
{
    /* Both formats count whole units below 2048 and 256, so the sum is exact. */
    constexpr uint32_t base = nib_fold_addend(PARITY) & 0x7fffu;
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_BF16) {
        const float sum = nib_float_from_bits(base << 16) + (float)zero;
        return nib_duplicate(nib_bf16_from_float(-sum));
    } else {
        const float sum = nib_float_from_f16(base) + (float)zero;
        return nib_duplicate(nib_f16_from_float(-sum));
    }
}

template <int STEP, int I>
NIB_DEVICE uint32_t nib_fold_integer(const uint32_t *q, const uint32_t (&addend)[2])
{
    constexpr int at = nib_fold_position(I);
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_F16) {
        constexpr uint32_t unit = nib_pair((15 - (NIB_CODE.type == NIB_I1 ? 0 : at)) << 10);
        return nib_fma_f16x2(nib_integer_over<STEP, I, at>(q, 0x64006400u), unit, addend[I & 1]);
    } else if constexpr (NIB_CODE.bits < 8) {
        return nib_fma_bf16x2(nib_integer_over<STEP, I, at>(q, 0x43004300u), 0x3f803f80u,
                              addend[I & 1]);
    } else {
        /* 8 bits do not fit 7 of mantissa. 128 + (code & 127), plus -256 or, with the top bit,
         * -128 (0xc380 and 0xc300 differ in bit 7): code - 128, for unsigned codes too. */
        const uint32_t code = nib_integer<STEP, I, 0>(q);
        return nib_fma_bf16x2((code & 0x007f007fu) | 0x43004300u, 0x3f803f80u,
                              (code & 0x00800080u) ^ 0xc380c380u);
    }
}

/* ---- floats ------------------------------------------------------------------------------- */

/* The bits below the sign go where the format's exponent ends and mantissa begins: the value times
 * 2^(bias - 15) as f16. bf16's smallest exponents would be lost to subnormal products, so it is
 * multiplied back at once. Special values: one unit added to all ones (or to the exponent) carries
 * into the next bit, and that bit spreads upwards to a full exponent. */
template <int STEP, int I> NIB_DEVICE uint32_t nib_minifloat(const uint32_t *q)
{
    constexpr int size = NIB_CODE.bits - 1;
    constexpr int mantissa = NIB_COMPUTE == NIB_COMPUTE_F16 ? 10 : 7;
    constexpr int at = mantissa - NIB_CODE.mantissa;
    uint32_t value = nib_code_bits<STEP, I, 0, size, at>(q);
    const uint32_t sign = nib_code_bits<STEP, I, size, 1, 15>(q);
    constexpr int top = at + size; /* the first bit above */
    if constexpr ((NIB_CODE.nan || NIB_CODE.ieee) && top < 15) {
        constexpr uint32_t unit = nib_pair(1u << (NIB_CODE.nan ? at : mantissa));
        const uint32_t special = (value + unit) & nib_pair(1u << top);
        /* bits top .. 14 */
        value |= special * ((1u << (15 - top)) - 1);
    }
    value |= sign;
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_BF16)
        /* 2^(127 - bias), exact; the addend -0 keeps the sign of zero */
        value = nib_fma_bf16x2(value, nib_pair((254 - NIB_CODE.bias) << 7), 0x80008000u);
    return value;
}

/* ---- tables ------------------------------------------------------------------------------- */

/* In shared memory each lane has its own copy, [16][32] entries, so that lookups of different codes
 * never meet in a bank. An entry is the limbs, the largest first: 4 bytes, or 8 with three. */
static constexpr int NIB_TABLE_ENTRY = NIB_LIMBS == 3 ? 8 : 4;
static constexpr int NIB_TABLE_BYTES =
    NIB_CODE.kind == NIB_KIND_TABLE ? 16 * 32 * NIB_TABLE_ENTRY : 0;

/* A chain of selections: an array with a variable index would live in local memory. */
NIB_DEVICE float nib_nf4(int code)
{
    float value = -1.0f;
    value = code == 1 ? -0.6961928009986877f : value;
    value = code == 2 ? -0.5250730514526367f : value;
    value = code == 3 ? -0.39491748809814453f : value;
    value = code == 4 ? -0.28444138169288635f : value;
    value = code == 5 ? -0.18477343022823334f : value;
    value = code == 6 ? -0.09105003625154495f : value;
    value = code == 7 ? 0.0f : value;
    value = code == 8 ? 0.07958029955625534f : value;
    value = code == 9 ? 0.16093020141124725f : value;
    value = code == 10 ? 0.24611230194568634f : value;
    value = code == 11 ? 0.33791524171829224f : value;
    value = code == 12 ? 0.44070982933044434f : value;
    value = code == 13 ? 0.5626170039176941f : value;
    value = code == 14 ? 0.7229568362236023f : value;
    value = code == 15 ? 1.0f : value;
    return value;
}

NIB_DEVICE float nib_table_value(const float *table, int code)
{
    if constexpr (NIB_CODE.type == NIB_NF4)
        return nib_nf4(code);
    return table[code];
}

/* The power of two that brings the largest finite entry to [2^14, 2^15), where f16 has most room
 * below; 1 for bf16. Products are divided by it. */
NIB_DEVICE float nib_table_lift(const float *table)
{
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_BF16)
        return 1.0f;
    uint32_t largest = 1;
    for (int i = 0; i < 16; i++) {
        const uint32_t exponent = nib_bits_from_float(nib_table_value(table, i)) >> 23 & 0xffu;
        if (exponent != 255 && exponent > largest)
            largest = exponent;
    }
    /* exponent field of 2^(14 - (largest - 127)), at most 2^126 so that the inverse is normal */
    const int field = 127 + 14 - ((int)largest - 127);
    return nib_float_from_bits((uint32_t)(field > 253 ? 253 : field) << 23);
}

/* Fills the table; all threads of the block, which then must meet at a barrier. */
NIB_DEVICE void nib_table_fill(uint32_t shared, const float *table, float lift, int thread,
                               int threads)
{
    for (int e = thread; e < 16 * 32; e += threads) {
        float rest = nib_table_value(table, e >> 5) * lift;
        const uint32_t to = shared + e * NIB_TABLE_ENTRY;
        if constexpr (NIB_COMPUTE == NIB_COMPUTE_F16) {
            const uint32_t high = nib_f16_from_float(rest);
            rest -= nib_float_from_f16(high);
            nib_shared_store(to, high | nib_f16_from_float(rest) << 16);
        } else {
            const uint32_t high = nib_bf16_from_float(rest);
            rest -= nib_float_from_bits(high << 16);
            const uint32_t middle = nib_bf16_from_float(rest);
            rest -= nib_float_from_bits(middle << 16);
            nib_shared_store(to, high | middle << 16);
            nib_shared_store(to + 4, nib_bf16_from_float(rest));
        }
    }
}

/* `table` is the shared address of the lane's first entry. */
template <int STEP, int I>
NIB_DEVICE void nib_look_up(const uint32_t *q, uint32_t table, uint32_t (&a)[NIB_LIMBS][4])
{
    /* A row of the table is 32 entries: the code goes to bit 7, or 8 with three limbs. */
    constexpr int row = NIB_LIMBS == 3 ? 8 : 7, low = 4 * I, high = 4 * I + 16;
    const uint32_t word = q[STEP];
    const uint32_t at0 = low < row ? word << (row - low) : word >> (low - row);
    const uint32_t at1 = word >> (high - row);
    uint32_t e0[2], e1[2];
    if constexpr (NIB_LIMBS == 3) {
        nib_shared_load2(e0, table + (at0 & 15u << row));
        nib_shared_load2(e1, table + (at1 & 15u << row));
        a[2][I] = nib_permute(e0[1], e1[1], 0x5410);
    } else {
        e0[0] = nib_shared_load(table + (at0 & 15u << row));
        e1[0] = nib_shared_load(table + (at1 & 15u << row));
    }
    a[0][I] = nib_permute(e0[0], e1[0], 0x5410);
    a[1][I] = nib_permute(e0[0], e1[0], 0x7632);
}

/* ---- operands ----------------------------------------------------------------------------- */

template <int STEP, int I>
NIB_DEVICE void nib_dequant_register(const uint32_t *q, uint32_t table, const uint32_t (&addend)[2],
                                     uint32_t (&a)[NIB_LIMBS][4])
{
    if constexpr (NIB_CODE.kind == NIB_KIND_TABLE)
        nib_look_up<STEP, I>(q, table, a);
    else if constexpr (NIB_CODE.kind == NIB_KIND_FLOAT)
        a[0][I] = nib_minifloat<STEP, I>(q);
    else
        a[0][I] = nib_fold_integer<STEP, I>(q, addend);
}

/* The A fragments of k16 step STEP (0..7). `table`: of value tables only. `addend`: of
 * integers, from nib_fold_addend or nib_fold_addend_zero, rows g and rows g + 8. */
template <int STEP>
NIB_DEVICE void nib_dequant(const uint32_t *q, uint32_t table, const uint32_t (&addend)[2],
                            uint32_t (&a)[NIB_LIMBS][4])
{
    nib_dequant_register<STEP, 0>(q, table, addend, a);
    nib_dequant_register<STEP, 1>(q, table, addend, a);
    nib_dequant_register<STEP, 2>(q, table, addend, a);
    nib_dequant_register<STEP, 3>(q, table, addend, a);
}

/* Bytes of 4-bit codes: integers in the upper half of s8 and u8, or as the subnormals that they are
 * in e4m3; e2m1 where exponents of e4m3 are. */
static constexpr float NIB_BYTE_FACTOR = NIB_CODE.bits != 4          ? 1.0f
                                         : NIB_SPEC_ACT == NIB_I8    ? 0.0625f
                                         : NIB_CODE.type == NIB_E2M1 ? 64.0f
                                                                     : 512.0f;

/* What the products of operands must be multiplied with; of tables, times 1 / lift. */
static constexpr float NIB_FACTOR =
    NIB_BYTE_OPERANDS                                          ? NIB_BYTE_FACTOR
    : NIB_COMPUTE == NIB_COMPUTE_S8 && NIB_CODE.type == NIB_I1 ? 2.0f
    : NIB_COMPUTE == NIB_COMPUTE_F16 && NIB_CODE.kind == NIB_KIND_FLOAT
        ? (float)(1 << (15 - NIB_CODE.bias))
        : 1.0f;

/* And the multiple of the activations' sum that must then be taken off. */
NIB_CONSTEXPR int nib_offset(void)
{
    if (NIB_CODE.kind != NIB_KIND_INTEGER || NIB_COMPUTE == NIB_COMPUTE_F16 || NIB_BYTE_OPERANDS)
        return 0;
    if (NIB_COMPUTE == NIB_COMPUTE_S8)
        return NIB_CODE.type == NIB_I8 ? 0 : NIB_CODE.offset;
    return NIB_CODE.type == NIB_U8 ? -128 : 0;
}

static constexpr int NIB_OFFSET = nib_offset();

/* ---- bytes -------------------------------------------------------------------------------- */

/* Four codes of one plane of step STEP, rows g + 8 * N3, a byte each: k = 2t, 2t + 8, 2t + 1,
 * 2t + 9. Planes of 1 and 2 bits hold (k3 = 0) and (k3 = 1) in different bits of a byte, and two
 * steps in the even and odd bytes. */
template <int BITS, int STEP, int N3> NIB_DEVICE uint32_t nib_plane_bytes(const uint32_t *q)
{
    constexpr uint32_t rows8 = N3 ? 0x7351 : 0x6240;
    if constexpr (BITS == 8)
        return nib_permute(q[2 * STEP], q[2 * STEP + 1], rows8);
    if constexpr (BITS == 4)
        return q[STEP] >> (4 * N3) & 0x0f0f0f0fu;
    constexpr uint32_t mask = BITS == 2 ? 0x03030303u : 0x01010101u;
    constexpr int bit = BITS == 2 ? 2 * N3 : N3 + 4 * (STEP & 1);
    constexpr bool odd = BITS == 2 ? STEP & 1 : STEP >> 1 & 1;
    const uint32_t word = q[nib_plane_word(BITS, STEP, 0)];
    return nib_permute(word >> bit & mask, word >> (bit + 2 * BITS) & mask, odd ? 0x7351 : 0x6240);
}

template <int STEP, int N3> NIB_DEVICE uint32_t nib_code_bytes(const uint32_t *q)
{
    uint32_t out = nib_plane_bytes<nib_plane_bits(0), STEP, N3>(q);
    if constexpr (NIB_PLANES > 1)
        out |= nib_plane_bytes<nib_plane_bits(1), STEP, N3>(q + 2 * nib_plane_shift(1))
               << nib_plane_shift(1);
    if constexpr (NIB_PLANES > 2)
        out |= nib_plane_bytes<nib_plane_bits(2), STEP, N3>(q + 2 * nib_plane_shift(2))
               << nib_plane_shift(2);
    return out;
}

/* The A fragment of m16n8k32 for steps 2 * PAIR and 2 * PAIR + 1: unsigned codes, i8 as it is. A
 * lane's four k of a step are 2t, 2t + 8, 2t + 1, 2t + 9: B must have them in this order. */
template <int PAIR> NIB_DEVICE void nib_dequant_bytes(const uint32_t *q, uint32_t (&a)[4])
{
    a[0] = nib_code_bytes<2 * PAIR, 0>(q);
    a[1] = nib_code_bytes<2 * PAIR, 1>(q);
    a[2] = nib_code_bytes<2 * PAIR + 1, 0>(q);
    a[3] = nib_code_bytes<2 * PAIR + 1, 1>(q);
}

/* The product that fits NIB_COMPUTE, chosen by the sums' type. */
NIB_DEVICE void nib_mma_codes(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (NIB_CODE.type == NIB_I8)
        nib_mma_s8(d, a, b);
    else
        nib_mma_u8(d, a, b);
}

NIB_DEVICE void nib_mma_codes(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_BF16)
        nib_mma_bf16(d, a, b);
    else
        nib_mma_f16(d, a, b);
}

/* 1 as a pair of the operands' type, and as four bytes: an A of ones sums the activations. */
static constexpr uint32_t NIB_ONES = NIB_COMPUTE == NIB_COMPUTE_F16    ? 0x3c003c00u
                                     : NIB_COMPUTE == NIB_COMPUTE_BF16 ? 0x3f803f80u
                                                                       : 0x01010101u;

#endif
