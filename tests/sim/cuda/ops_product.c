/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer products: mul, mad, mul24, mad24, sad, dp4a, dp2a. PTX ISA, "Integer Arithmetic
 * Instructions".
 */
#include "apply.h"
#include "decode.h"

enum product { PRODUCT_LOW, PRODUCT_HIGH, PRODUCT_WIDE };

static unsigned bits_of(const sim_insn *in)
{
    return sim_type_bits((enum sim_type)in->type);
}

static bool is_signed(const sim_insn *in)
{
    return sim_type_signed((enum sim_type)in->type);
}

static uint32_t mul32(uint32_t a, uint32_t b)
{
    return a * b;
}

static uint32_t mad32(uint32_t a, uint32_t b, uint32_t c)
{
    return a * b + c;
}

static uint64_t mul64(uint64_t a, uint64_t b)
{
    return a * b;
}

static uint64_t wide_unsigned(uint32_t a, uint32_t b)
{
    return (uint64_t)a * b;
}

static uint64_t wide_signed(uint32_t a, uint32_t b)
{
    return (uint64_t)((int64_t)(int32_t)a * (int32_t)b);
}

static enum sim_step exec_mul32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, mul32);
}

static enum sim_step exec_mad32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_3(warp, in, mask, mad32);
}

static enum sim_step exec_mul64(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map64_2(warp, in, mask, mul64);
}

static enum sim_step exec_mul_wide_u(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map_wide(warp, in, mask, wide_unsigned, false);
}

static enum sim_step exec_mul_wide_s(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map_wide(warp, in, mask, wide_signed, false);
}

static enum sim_step exec_mad_wide_u(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map_wide(warp, in, mask, wide_unsigned, true);
}

static enum sim_step exec_mad_wide_s(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map_wide(warp, in, mask, wide_signed, true);
}

static unsigned __int128 product_of(const sim_insn *in, uint64_t a, uint64_t b)
{
    const unsigned bits = bits_of(in);
    return is_signed(in) ? (unsigned __int128)((__int128)sim_signed(bits, a) * sim_signed(bits, b))
                         : (unsigned __int128)a * b;
}

static uint64_t scalar_product(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const unsigned __int128 product = product_of(in, a, b);
    const unsigned bits = bits_of(in);
    const uint64_t part = (uint64_t)(in->mode == PRODUCT_HIGH ? product >> bits : product);
    if (in->sat) {
        const int64_t sum = sim_signed(bits, part) + sim_signed(bits, c);
        return (uint64_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    }
    return part + c;
}

/* The 48-bit product of the low 24 bits: its low 32 bits, or its high ones. */
static uint64_t scalar_product24(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t x = is_signed(in) ? (uint64_t)sim_signed(24, a) : sim_cut(24, a);
    const uint64_t y = is_signed(in) ? (uint64_t)sim_signed(24, b) : sim_cut(24, b);
    const uint64_t product = x * y;
    return (in->mode == PRODUCT_HIGH ? product >> 16 : product) + c;
}

static uint64_t scalar_sad(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const unsigned bits = bits_of(in);
    const bool less = is_signed(in) ? sim_signed(bits, a) < sim_signed(bits, b) : a < b;
    return c + (less ? b - a : a - b);
}

static void choose_exec(sim_insn *in, bool mad)
{
    in->exec = mad ? sim_apply3 : sim_apply2;
    if (in->sat || in->scalar != scalar_product) {
        return;
    }
    const unsigned bits = bits_of(in);
    if (in->mode == PRODUCT_LOW && bits == 32) {
        in->exec = mad ? exec_mad32 : exec_mul32;
    } else if (in->mode == PRODUCT_LOW && bits == 64 && !mad) {
        in->exec = exec_mul64;
    } else if (in->mode == PRODUCT_WIDE && bits == 32) {
        in->exec = mad ? (is_signed(in) ? exec_mad_wide_s : exec_mad_wide_u)
                       : (is_signed(in) ? exec_mul_wide_s : exec_mul_wide_u);
    }
}

static bool decode_product(sim_linker *linker, sim_insn *in, bool mad)
{
    static const char *const parts[] = {"lo", "hi", "wide", NULL};
    const int part = sim_take_of(linker, parts);
    const unsigned bits = bits_of(in);
    in->mode = (uint8_t)part;
    in->sat = mad && sim_take(linker, "sat");
    in->result_bits = (uint8_t)(part == PRODUCT_WIDE ? bits * 2 : bits);
    in->scalar = strstr(linker->part[0], "24") != NULL ? scalar_product24 : scalar_product;
    choose_exec(in, mad);
    if (part < 0 || bits < 16 || (part == PRODUCT_WIDE && bits == 64) ||
        sim_type_float((enum sim_type)in->type)) {
        return false;
    }
    return sim_operands(linker, in,
                        part == PRODUCT_WIDE ? (mad ? "DssS" : "Dss")
                        : mad                ? "dsss"
                                             : "dss");
}

bool sim_decode_mul(sim_linker *linker, sim_insn *in)
{
    in->type = (uint8_t)sim_take_type(linker);
    switch (in->type) {
    case SIM_F32:
    case SIM_F64:
        return sim_decode_float_binary(linker, in);
    case SIM_F16:
    case SIM_BF16:
    case SIM_F16X2:
    case SIM_BF16X2:
        return sim_decode_half(linker, in);
    default:
        return decode_product(linker, in, false);
    }
}

bool sim_decode_mad(sim_linker *linker, sim_insn *in)
{
    if (sim_take(linker, "cc")) {
        return sim_decode_carry(linker, in);
    }
    in->type = (uint8_t)sim_take_type(linker);
    if (in->type == SIM_F32 || in->type == SIM_F64) {
        return sim_decode_fma(linker, in);
    }
    if (linker->part[0][0] == 's') {
        in->scalar = scalar_sad;
        in->exec = sim_apply3;
        in->result_bits = (uint8_t)bits_of(in);
        return sim_operands(linker, in, "dsss");
    }
    return decode_product(linker, in, true);
}

/* ---- dp4a, dp2a ---- */

enum dot_mode { DOT_A_SIGNED = 1, DOT_B_SIGNED = 2, DOT_PAIRS = 4, DOT_HIGH = 8 };

static int64_t dot_element(uint64_t word, int index, unsigned bits, bool extend)
{
    const uint64_t value = sim_cut(bits, word >> ((unsigned)index * bits));
    return extend ? sim_signed(bits, value) : (int64_t)value;
}

static uint64_t scalar_dot(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const bool pairs = (in->mode & DOT_PAIRS) != 0;
    const int first = (in->mode & DOT_HIGH) != 0 ? 2 : 0;
    int64_t sum = (int64_t)c;
    for (int i = 0; i < (pairs ? 2 : 4); ++i) {
        sum += dot_element(a, i, pairs ? 16 : 8, (in->mode & DOT_A_SIGNED) != 0) *
               dot_element(b, i + first, 8, (in->mode & DOT_B_SIGNED) != 0);
    }
    return (uint64_t)sum;
}

bool sim_decode_dot(sim_linker *linker, sim_insn *in)
{
    const bool pairs = linker->part[0][2] == '2';
    const bool high = pairs && sim_take(linker, "hi");
    if (pairs && !high && !sim_take(linker, "lo")) {
        return false;
    }
    const enum sim_type a = sim_take_type(linker), b = sim_take_type(linker);
    in->type = SIM_B32;
    in->result_bits = 32;
    in->mode = (uint8_t)((a == SIM_S32 ? DOT_A_SIGNED : 0) | (b == SIM_S32 ? DOT_B_SIGNED : 0) |
                         (pairs ? DOT_PAIRS : 0) | (high ? DOT_HIGH : 0));
    in->scalar = scalar_dot;
    in->exec = sim_apply3;
    return (a == SIM_S32 || a == SIM_U32) && (b == SIM_S32 || b == SIM_U32) &&
           sim_operands(linker, in, "dsss");
}
