/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer sums, minima and maxima, quotients, signs, and sums with carry. Products are
 * ops_product.c's. PTX ISA, "Integer Arithmetic Instructions".
 */
#include "apply.h"
#include "decode.h"

static bool is_half(enum sim_type type)
{
    return type == SIM_F16 || type == SIM_BF16 || type == SIM_F16X2 || type == SIM_BF16X2;
}

static bool is_single(enum sim_type type)
{
    return type == SIM_F32 || type == SIM_F64;
}

static unsigned bits_of(const sim_insn *in)
{
    return sim_type_bits((enum sim_type)in->type);
}

static bool two_halves(const sim_insn *in)
{
    return in->type == SIM_U16X2 || in->type == SIM_S16X2;
}

/* Applies a function of 16-bit halves, or of the whole. */
static uint64_t by_halves(const sim_insn *in, uint64_t a, uint64_t b,
                          uint64_t (*f)(const sim_insn *, unsigned, uint64_t, uint64_t))
{
    if (!two_halves(in)) {
        return f(in, bits_of(in), a, b);
    }
    return sim_cut(16, f(in, 16, a & 0xffff, b & 0xffff)) | sim_cut(16, f(in, 16, a >> 16, b >> 16))
                                                                << 16;
}

/* ---- add, sub ---- */

static uint32_t add32(uint32_t a, uint32_t b)
{
    return a + b;
}

static uint32_t sub32(uint32_t a, uint32_t b)
{
    return a - b;
}

static uint64_t add64(uint64_t a, uint64_t b)
{
    return a + b;
}

static uint64_t sub64(uint64_t a, uint64_t b)
{
    return a - b;
}

static enum sim_step exec_add32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, add32);
}

static enum sim_step exec_sub32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, sub32);
}

static enum sim_step exec_add64(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map64_2(warp, in, mask, add64);
}

static enum sim_step exec_sub64(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map64_2(warp, in, mask, sub64);
}

static uint64_t sum_of(const sim_insn *in, unsigned bits, uint64_t a, uint64_t b)
{
    const bool minus = in->mode != 0;
    if (in->sat) {
        const int64_t x = sim_signed(bits, a), y = sim_signed(bits, b);
        const int64_t most = (INT64_C(1) << (bits - 1)) - 1, sum = minus ? x - y : x + y;
        return (uint64_t)(sum > most ? most : sum < -most - 1 ? -most - 1 : sum);
    }
    return minus ? a - b : a + b;
}

static uint64_t scalar_sum(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return by_halves(in, a, b, sum_of);
}

bool sim_decode_add(sim_linker *linker, sim_insn *in)
{
    const bool minus = linker->part[0][0] == 's';
    if (sim_take(linker, "cc")) {
        return sim_decode_carry(linker, in);
    }
    in->type = (uint8_t)sim_take_type(linker);
    if (is_single((enum sim_type)in->type)) {
        return sim_decode_float_binary(linker, in);
    }
    if (is_half((enum sim_type)in->type)) {
        return sim_decode_half(linker, in);
    }
    in->mode = minus;
    in->sat = sim_take(linker, "sat");
    in->result_bits = (uint8_t)bits_of(in);
    in->scalar = scalar_sum;
    in->exec = sim_apply2;
    if (!in->sat && !two_halves(in) && in->result_bits == 32) {
        in->exec = minus ? exec_sub32 : exec_add32;
    } else if (in->result_bits == 64) {
        in->exec = minus ? exec_sub64 : exec_add64;
    }
    return in->result_bits >= 16 && sim_operands(linker, in, "dss");
}

/* ---- add.cc, addc, sub.cc, subc, mad.cc, madc: the carry lives in the warp ---- */

enum carry_mode { CARRY_OUT = 1, CARRY_IN = 2, CARRY_MINUS = 4, CARRY_MAD = 8, CARRY_HIGH = 16 };

static uint64_t carry_addend(const sim_insn *in, uint64_t a, uint64_t b)
{
    if ((in->mode & CARRY_MAD) == 0) {
        return a;
    }
    const unsigned bits = bits_of(in);
    const bool is_signed = sim_type_signed((enum sim_type)in->type);
    const __int128 product = is_signed ? (__int128)sim_signed(bits, a) * sim_signed(bits, b)
                                       : (__int128)((unsigned __int128)a * b);
    const unsigned __int128 code = (unsigned __int128)product;
    return sim_cut(bits, (uint64_t)((in->mode & CARRY_HIGH) != 0 ? code >> bits : code));
}

static enum sim_step exec_carry(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const unsigned bits = bits_of(in), last = (in->mode & CARRY_MAD) != 0 ? 3 : 2;
    const bool minus = (in->mode & CARRY_MINUS) != 0;
    uint64_t a[SIM_LANES], b[SIM_LANES], c[SIM_LANES], r[SIM_LANES] = {0};
    sim_values(warp, &in->arg[1], a);
    sim_values(warp, &in->arg[2], b);
    sim_values(warp, &in->arg[last], c);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint64_t carry = (in->mode & CARRY_IN) != 0 ? warp->carry >> lane & 1 : 0;
        const unsigned __int128 x = carry_addend(in, a[lane], b[lane]);
        const unsigned __int128 sum = minus ? x - c[lane] - carry : x + c[lane] + carry;
        r[lane] = sim_cut(bits, (uint64_t)sum);
        if ((in->mode & CARRY_OUT) != 0) {
            const uint32_t out = (uint32_t)(sum >> bits) & 1;
            warp->carry = (warp->carry & ~(1u << lane)) | out << lane;
        }
    }
    sim_put(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

bool sim_decode_carry(sim_linker *linker, sim_insn *in)
{
    const char *root = linker->part[0];
    const bool mad = root[0] == 'm', carry_in = root[3] == 'c';
    bool out = sim_take(linker, "cc");
    for (uint32_t i = 1; i < linker->parts; ++i) {
        out = out || (linker->used[i] && strcmp(linker->part[i], "cc") == 0);
    }
    const bool high = mad && sim_take(linker, "hi");
    if (mad && !high) {
        sim_take(linker, "lo");
    }
    in->type = (uint8_t)sim_take_type(linker);
    in->mode = (uint8_t)((out ? CARRY_OUT : 0) | (carry_in ? CARRY_IN : 0) |
                         (root[0] == 's' ? CARRY_MINUS : 0) | (mad ? CARRY_MAD : 0) |
                         (high ? CARRY_HIGH : 0));
    in->exec = exec_carry;
    return bits_of(in) >= 32 && sim_operands(linker, in, mad ? "dsss" : "dss");
}

/* ---- neg, abs ---- */

static uint64_t scalar_sign(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    const int64_t x = sim_signed(bits_of(in), a);
    return in->mode == 0 || x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

bool sim_decode_unary(sim_linker *linker, sim_insn *in)
{
    in->mode = linker->part[0][0] == 'a';
    in->type = (uint8_t)sim_take_type(linker);
    if (is_single((enum sim_type)in->type)) {
        return sim_decode_float_unary(linker, in);
    }
    if (is_half((enum sim_type)in->type)) {
        return sim_decode_half(linker, in);
    }
    in->result_bits = (uint8_t)bits_of(in);
    in->scalar = scalar_sign;
    in->exec = sim_apply1;
    return sim_type_signed((enum sim_type)in->type) && sim_operands(linker, in, "ds");
}

/* ---- min, max ---- */

static uint64_t extreme_of(const sim_insn *in, unsigned bits, uint64_t a, uint64_t b)
{
    const bool is_signed = sim_type_signed((enum sim_type)in->type);
    const bool less = is_signed ? sim_signed(bits, a) < sim_signed(bits, b) : a < b;
    const uint64_t r = less == (in->mode == 0) ? a : b;
    return in->relu && sim_signed(bits, r) < 0 ? 0 : r;
}

static uint64_t scalar_extreme(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return by_halves(in, a, b, extreme_of);
}

bool sim_decode_extreme(sim_linker *linker, sim_insn *in)
{
    in->mode = linker->part[0][1] == 'a'; /* of max */
    in->type = (uint8_t)sim_take_type(linker);
    if (is_single((enum sim_type)in->type)) {
        return sim_decode_float_extreme(linker, in);
    }
    if (is_half((enum sim_type)in->type)) {
        return sim_decode_half(linker, in);
    }
    in->relu = sim_take(linker, "relu");
    in->result_bits = (uint8_t)bits_of(in);
    in->scalar = scalar_extreme;
    in->exec = sim_apply2;
    return in->result_bits >= 16 && sim_operands(linker, in, "dss");
}

/* ---- div, rem: by zero all ones, and the dividend ---- */

static uint64_t scalar_divide(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const unsigned bits = bits_of(in);
    if (b == 0) {
        return in->mode != 0 ? a : UINT64_MAX;
    }
    if (!sim_type_signed((enum sim_type)in->type)) {
        return in->mode != 0 ? a % b : a / b;
    }
    const int64_t x = sim_signed(bits, a), y = sim_signed(bits, b);
    if (y == -1) {
        return in->mode != 0 ? 0 : 0 - (uint64_t)x;
    }
    return (uint64_t)(in->mode != 0 ? x % y : x / y);
}

bool sim_decode_divide(sim_linker *linker, sim_insn *in)
{
    in->mode = linker->part[0][0] == 'r';
    in->type = (uint8_t)sim_take_type(linker);
    if (is_single((enum sim_type)in->type)) {
        return sim_decode_float_divide(linker, in);
    }
    in->result_bits = (uint8_t)bits_of(in);
    in->scalar = scalar_divide;
    in->exec = sim_apply2;
    return in->result_bits >= 16 && !sim_type_float((enum sim_type)in->type) &&
           sim_operands(linker, in, "dss");
}
