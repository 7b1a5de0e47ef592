/* SPDX-License-Identifier: Apache-2.0
 *
 * From codes to operands of one byte, for products with activations of 8 bits. Layout and types are
 * those of kernels/sm80/dequant.cuh. The layout is made for operands of 16 bits: lane t of a quad
 * has k = 2t, 2t + 1, 2t + 8, 2t + 9 of each step of 16. Activations stay in their natural order,
 * as tensor copies bring them, so the quad exchanges bytes, codes still packed, until each lane has
 * four columns side by side:
 *
 *     lane       0                 1                 2                 3
 *     has        0 1 8 9           2 3 10 11         4 5 12 13         6 7 14 15
 *     wants      0 1 2 3           4 5 6 7           8 9 10 11         12 13 14 15
 *     low from   0, low pair       2, low            0, high           2, high
 *     high from  1, low            3, low            1, high           3, high
 *
 * Each lane gives its low pair once and its high pair once; in two shuffles, of which in the first
 * even lanes give the low pair and odd ones the high pair, everybody has what it wants.
 *
 * Operands are exact, but for the factor NIB_FACTOR. Integers of 4 bits n = 0..15 are e4m3 as
 * they stand: bits 0 to 3 of e4m3 count units of 2^-9 up to 15, subnormals and the first binade
 * being one scale.
 */
#ifndef NIB_CUDA_SM90_DEQUANT8_CUH
#define NIB_CUDA_SM90_DEQUANT8_CUH

static constexpr bool NIB_BYTE_FLOAT = NIB_SPEC_ACT != NIB_I8; /* e4m3 or e5m2 */

static constexpr bool NIB_BYTE_SIGNED = NIB_CODE.type == NIB_I4 || NIB_CODE.type == NIB_I8;

/* variants/sm90_gemm8.c refuses other types. */
static_assert(!NIB_BYTE_OPERANDS || NIB_CODE.type == NIB_U4 || NIB_CODE.type == NIB_I4 ||
                  (NIB_BYTE_FLOAT ? NIB_CODE.type == NIB_E2M1 || NIB_CODE.type == NIB_E4M3 ||
                                        NIB_CODE.type == NIB_E5M2
                                  : NIB_CODE.type == NIB_U8 || NIB_CODE.type == NIB_I8),
              "the weight type has no operands of one byte");

/* ---- the exchange ------------------------------------------------------------------------- */

/* What a lane gives and takes, as selectors of nib_permute. Of codes of 4 bits two steps go
 * together, low[0] and low[1] make of both parts those of the first step and of the second; of 8
 * bits they make the rows g and the rows g + 8 of one step. */
typedef struct nib_operands {
    uint32_t give[2]; /* 4 bits only */
    uint32_t take[2];
    int from; /* the lane of the first shuffle; of the second, its neighbour */
    bool odd;
} nib_operands;

NIB_DEVICE nib_operands nib_operands_begin(void)
{
    const int lane = nib_thread() % 32, t = lane & 3;
    const bool odd = t & 1, upper = t & 2; /* lanes 2 and 3 take their first part second */
    nib_operands x;
    x.give[0] = odd ? 0x7531 : 0x6420;
    x.give[1] = odd ? 0x6420 : 0x7531;
    if constexpr (NIB_CODE.bits == 8) {
        x.take[0] = upper ? 0x2064 : 0x6420;
        x.take[1] = upper ? 0x3175 : 0x7531;
    } else {
        x.take[0] = upper ? 0x1054 : 0x5410;
        x.take[1] = upper ? 0x3276 : 0x7632;
    }
    x.from = (lane & ~3) | (t & 1) << 1 | t >> 1;
    x.odd = odd;
    return x;
}

NIB_DEVICE uint32_t nib_take_from(uint32_t word, int lane)
{
    uint32_t out;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                 : "=r"(out)
                 : "r"(word), "r"(lane));
    return out;
}

/* Words of two steps of 4-bit codes become: byte j has k = 4t + j, row g in its lower half and row
 * g + 8 in its upper. */
NIB_DEVICE void nib_exchange_nibbles(const nib_operands &x, uint32_t &first, uint32_t &second)
{
    const uint32_t one = nib_take_from(nib_permute(first, second, x.give[0]), x.from);
    const uint32_t two = nib_take_from(nib_permute(first, second, x.give[1]), x.from ^ 1);
    first = nib_permute(one, two, x.take[0]);
    second = nib_permute(one, two, x.take[1]);
}

/* The two words of a step of 8-bit codes become rows g and rows g + 8. */
NIB_DEVICE void nib_exchange_bytes(const nib_operands &x, uint32_t &first, uint32_t &second)
{
    const uint32_t one = nib_take_from(x.odd ? second : first, x.from);
    const uint32_t two = nib_take_from(x.odd ? first : second, x.from ^ 1);
    first = nib_permute(one, two, x.take[0]);
    second = nib_permute(one, two, x.take[1]);
}

/* ---- operands ----------------------------------------------------------------------------- */

/* Bits of `one` where `mask` has ones, of `zero` elsewhere: one instruction, which the compiler
 * would take apart where it knows some bits to be zero. */
NIB_DEVICE uint32_t nib_select_bits(uint32_t mask, uint32_t one, uint32_t zero)
{
    uint32_t out;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(out) : "r"(mask), "r"(one), "r"(zero));
    return out;
}

/* Offset binary to sign and magnitude, eight codes at a time: of a negative one, 8 - c is the
 * complement of its three lower bits plus 1, which stays within the four. */
NIB_DEVICE void nib_signed_e4m3(uint32_t codes, uint32_t &g, uint32_t &g8)
{
    const uint32_t sign = ~codes & 0x88888888u, one = sign >> 3;
    const uint32_t size = ((codes ^ one * 7) & 0x77777777u) + one;
    g = nib_select_bits(0x0f0f0f0fu, size, sign << 4);
    g8 = nib_select_bits(0x0f0f0f0fu, size >> 4, sign);
}

/* Codes of rows g in the lower halves of bytes, of rows g + 8 in the upper, to operands. */
NIB_DEVICE void nib_expand_nibbles(uint32_t codes, uint32_t &g, uint32_t &g8)
{
    if constexpr (!NIB_BYTE_FLOAT) {
        constexpr uint32_t flip = NIB_BYTE_SIGNED ? 0x80808080u : 0;
        g = (codes << 4 & 0xf0f0f0f0u) ^ flip;
        g8 = (codes & 0xf0f0f0f0u) ^ flip;
    } else if constexpr (NIB_CODE.type == NIB_I4) {
        nib_signed_e4m3(codes, g, g8);
    } else if constexpr (NIB_CODE.type == NIB_E2M1) {
        /* Sign, and exponent and mantissa where those of e4m3 meet: the value times 2^-6. */
        g = (codes << 2 & 0x1c1c1c1cu) | (codes << 4 & 0x80808080u);
        g8 = (codes >> 2 & 0x1c1c1c1cu) | (codes & 0x80808080u);
    } else {
        g = codes & 0x0f0f0f0fu;
        g8 = codes >> 4 & 0x0f0f0f0fu;
    }
}

/* The A fragment of products from registers, for steps 2 PAIR and 2 PAIR + 1 of a block:
 *
 *     a[i]   row g + 8 (i & 1), k = 4t + 16 (i >> 1) + {0, 1, 2, 3}, a byte each
 *
 * `q` holds the lane's words of its unit and is used up. The whole warp calls it. */
template <int PAIR>
NIB_DEVICE void nib_dequant_pair(const nib_operands &x, uint32_t (&q)[NIB_WORDS], uint32_t (&a)[4])
{
    if constexpr (NIB_CODE.bits == 8) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = q[4 * PAIR + i];
        nib_exchange_bytes(x, a[0], a[1]);
        nib_exchange_bytes(x, a[2], a[3]);
    } else {
        nib_exchange_nibbles(x, q[2 * PAIR], q[2 * PAIR + 1]);
        nib_expand_nibbles(q[2 * PAIR], a[0], a[1]);
        nib_expand_nibbles(q[2 * PAIR + 1], a[2], a[3]);
    }
}

#endif
