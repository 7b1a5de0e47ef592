/* SPDX-License-Identifier: Apache-2.0
 *
 * f16, f16x2, bf16 and bf16x2: add, sub, mul, fma, min, max, neg, abs. Sums and products of two
 * halves are rounded right by way of f32 (24 bits are more than twice 11 and two). PTX ISA, "Half
 * Precision Floating-Point Instructions".
 */
#include "apply.h"
#include "decode.h"
#include "number.h"

enum half_op { HALF_ADD, HALF_SUB, HALF_MUL, HALF_FMA, HALF_MIN, HALF_MAX, HALF_NEG, HALF_ABS };
enum half_flag { HALF_NAN = 1, HALF_XORSIGN = 2 };

static bool is_bfloat(const sim_insn *in)
{
    return in->type == SIM_BF16 || in->type == SIM_BF16X2;
}

static bool is_pair(const sim_insn *in)
{
    return in->type == SIM_F16X2 || in->type == SIM_BF16X2;
}

/* ---- the common ones, as vectors ---- */

SIM_INLINE uint32_t pair_of(uint32_t a, uint32_t b, float (*f)(float, float))
{
    const uint32_t low = sim_to_f16(f(sim_from_f16(a & 0xffff), sim_from_f16(b & 0xffff)));
    const uint32_t high = sim_to_f16(f(sim_from_f16(a >> 16), sim_from_f16(b >> 16)));
    return low | high << 16;
}

SIM_INLINE float add_float(float a, float b)
{
    return a + b;
}

SIM_INLINE float sub_float(float a, float b)
{
    return a - b;
}

SIM_INLINE float mul_float(float a, float b)
{
    return a * b;
}

static uint32_t add_pair(uint32_t a, uint32_t b)
{
    return pair_of(a, b, add_float);
}

static uint32_t sub_pair(uint32_t a, uint32_t b)
{
    return pair_of(a, b, sub_float);
}

static uint32_t mul_pair(uint32_t a, uint32_t b)
{
    return pair_of(a, b, mul_float);
}

static enum sim_step exec_add_pair(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, add_pair);
}

static enum sim_step exec_sub_pair(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, sub_pair);
}

static enum sim_step exec_mul_pair(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, mul_pair);
}

/* ---- all of them ---- */

static float decode(const sim_insn *in, uint32_t code)
{
    const float value = is_bfloat(in) ? sim_from_bf16(code) : sim_from_f16(code);
    return in->ftz && fabsf(value) < 0x1p-14f ? value * 0 : value;
}

/* value is rounded to odd where it may have more bits than the product of two halves. */
static uint32_t encode(const sim_insn *in, double value)
{
    if (in->sat) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    if (in->relu) {
        value = value > 0 || value != value ? value : 0;
    }
    if (in->round == SIM_RN && !in->ftz) {
        const float single = sim_odd_f32(value);
        return is_bfloat(in) ? sim_to_bf16(single) : sim_to_f16(single);
    }
    const enum sim_type type = is_bfloat(in) ? SIM_BF16 : SIM_F16;
    const sim_format *format = sim_format_of(type);
    const uint32_t code = sim_format_encode(format, value, (enum sim_round)in->round, false);
    const bool tiny = (code & 0x7c00) == 0 && !is_bfloat(in) && in->ftz;
    return tiny ? code & 0x8000 : code;
}

static uint32_t extreme(const sim_insn *in, uint32_t a, uint32_t b)
{
    const float x = decode(in, a), y = decode(in, b);
    const bool max = in->mode == HALF_MAX;
    if (isnan(x) || isnan(y)) {
        const bool both = isnan(x) && isnan(y);
        return both || (in->mode2 & HALF_NAN) != 0 ? 0x7fff : isnan(x) ? b : a;
    }
    if ((in->mode2 & HALF_XORSIGN) != 0) {
        const uint32_t p = a & 0x7fff, q = b & 0x7fff, sign = (a ^ b) & 0x8000;
        return (max == (p > q) ? p : q) | sign;
    }
    if (x == y) {
        return max == (signbit(x) != 0) ? b : a;
    }
    return max == (x > y) ? a : b;
}

static uint32_t half_of(const sim_insn *in, uint32_t a, uint32_t b, uint32_t c)
{
    switch (in->mode) {
    case HALF_ADD:
        return encode(in, sim_add_odd(decode(in, a), decode(in, b)));
    case HALF_SUB:
        return encode(in, sim_add_odd(decode(in, a), -decode(in, b)));
    case HALF_MUL:
        return encode(in, (double)decode(in, a) * decode(in, b));
    case HALF_FMA:
        return encode(in, sim_add_odd((double)decode(in, a) * decode(in, b), decode(in, c)));
    case HALF_NEG:
        return a ^ 0x8000;
    case HALF_ABS:
        return a & 0x7fff;
    default:
        return extreme(in, a, b);
    }
}

static uint64_t scalar_half(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const uint32_t low =
        half_of(in, (uint32_t)a & 0xffff, (uint32_t)b & 0xffff, (uint32_t)c & 0xffff);
    if (!is_pair(in)) {
        return low;
    }
    const uint32_t high = half_of(in, (uint32_t)a >> 16, (uint32_t)b >> 16, (uint32_t)c >> 16);
    return low | high << 16;
}

static enum sim_step exec_fma(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    const uint32_t *c = sim_row32(warp, &in->arg[3]);
    uint32_t r[SIM_LANES];
    for (int i = 0; i < SIM_LANES; ++i) {
        r[i] = (uint32_t)scalar_half(in, a[i], b[i], c[i]);
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static bool is_plain(const sim_insn *in)
{
    return in->round == SIM_RN && !in->ftz && !in->sat && !in->relu;
}

bool sim_decode_half(sim_linker *linker, sim_insn *in)
{
    static const char *const roots[] = {"add", "sub", "mul", "fma", "min", "max", "neg", "abs"};
    static sim_exec *const fast[] = {exec_add_pair, exec_sub_pair, exec_mul_pair};
    int op = -1;
    for (int i = 0; i < 8; ++i) {
        op = strcmp(linker->part[0], roots[i]) == 0 ? i : op;
    }
    if (op < 0 || !(in->type == SIM_F16 || in->type == SIM_BF16 || is_pair(in))) {
        return false;
    }
    in->mode = (uint8_t)op;
    in->round = (uint8_t)sim_take_round(linker);
    in->ftz = sim_take(linker, "ftz");
    in->sat = sim_take(linker, "sat");
    in->relu = sim_take(linker, "relu");
    in->mode2 = sim_take(linker, "NaN") ? HALF_NAN : 0;
    if (sim_take(linker, "xorsign")) {
        in->mode2 |= HALF_XORSIGN;
        sim_take(linker, "abs");
    }
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    in->scalar = scalar_half;
    if (op == HALF_FMA) {
        in->exec = exec_fma;
        return sim_operands(linker, in, "dsss");
    }
    if (op == HALF_NEG || op == HALF_ABS) {
        in->exec = sim_apply1;
        return sim_operands(linker, in, "ds");
    }
    in->exec = in->type == SIM_F16X2 && op <= HALF_MUL && is_plain(in) ? fast[op] : sim_apply2;
    return sim_operands(linker, in, "dss");
}
