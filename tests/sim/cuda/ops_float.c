/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 and f64: add, sub, mul, fma, mad, div, min, max, neg, abs, copysign, testp. PTX ISA,
 * "Floating-Point Instructions". NaN results are canonical. Halves are ops_half.c's.
 */
#include "apply.h"
#include "decode.h"
#include "number.h"

enum binary { BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_DIV_APPROX };

static uint32_t add_f32(uint32_t a, uint32_t b)
{
    return sim_result32(sim_f32(a) + sim_f32(b));
}

static uint32_t sub_f32(uint32_t a, uint32_t b)
{
    return sim_result32(sim_f32(a) - sim_f32(b));
}

static uint32_t mul_f32(uint32_t a, uint32_t b)
{
    return sim_result32(sim_f32(a) * sim_f32(b));
}

static uint32_t fma_f32(uint32_t a, uint32_t b, uint32_t c)
{
    return sim_result32(fmaf(sim_f32(a), sim_f32(b), sim_f32(c)));
}

static enum sim_step exec_add(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, add_f32);
}

static enum sim_step exec_sub(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, sub_f32);
}

static enum sim_step exec_mul(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, mul_f32);
}

static enum sim_step exec_fma(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    const uint32_t *c = sim_row32(warp, &in->arg[3]);
    uint32_t r[SIM_LANES];
    for (int i = 0; i < SIM_LANES; ++i) {
        r[i] = fma_f32(a[i], b[i], c[i]);
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static float input(const sim_insn *in, uint64_t bits)
{
    return in->ftz ? sim_flush(sim_f32(bits)) : sim_f32(bits);
}

static uint64_t output(const sim_insn *in, float value)
{
    value = in->ftz ? sim_flush(value) : value;
    if (in->sat) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    return sim_result32(value);
}

static uint64_t output64(double value)
{
    return value != value ? UINT64_C(0x7fffffffffffffff) : sim_bits64(value);
}

static double two(const sim_insn *in, double x, double y)
{
    switch (in->mode) {
    case BINARY_ADD:
        return x + y;
    case BINARY_SUB:
        return x - y;
    case BINARY_MUL:
        return x * y;
    default:
        return x / y;
    }
}

/* Sums of two f32 may need more than 53 bits, quotients do not end: to odd before rounding. */
static double exact(const sim_insn *in, double x, double y)
{
    if (in->mode == BINARY_ADD || in->mode == BINARY_SUB) {
        return sim_add_odd(x, in->mode == BINARY_SUB ? -y : y);
    }
    const double r = two(in, x, y);
    if (in->mode >= BINARY_DIV && isfinite(r) && r != 0) {
        const double rest = fma(-r, y, x);
        if (rest != 0) {
            uint64_t bits = sim_bits64(r);
            bits -= (rest / y > 0) != (r > 0);
            return sim_f64(bits | 1);
        }
    }
    return r;
}

/* div.approx multiplies by a reciprocal that is 0 from divisors above 2^126 on (PTX ISA, div): a
 * finite number then gives 0, an infinity NaN. */
static bool reciprocal_is_lost(const sim_insn *in, float divisor)
{
    return in->mode == BINARY_DIV_APPROX && fabsf(divisor) > 0x1p126f;
}

static uint64_t scalar_binary(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    if (in->type == SIM_F64) {
        return output64(two(in, sim_f64(a), sim_f64(b)));
    }
    if (reciprocal_is_lost(in, input(in, b))) {
        return output(in, input(in, a) * copysignf(0.0f, input(in, b)));
    }
    const double r = exact(in, (double)input(in, a), (double)input(in, b));
    return output(in, sim_round_f32(r, (enum sim_round)in->round));
}

static bool take_float_modes(sim_linker *linker, sim_insn *in)
{
    in->round = (uint8_t)sim_take_round(linker);
    in->ftz = sim_take(linker, "ftz");
    in->sat = sim_take(linker, "sat");
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    return in->type == SIM_F32 || (in->round == SIM_RN && !in->sat && !in->ftz);
}

bool sim_decode_float_binary(sim_linker *linker, sim_insn *in)
{
    static sim_exec *const fast[] = {exec_add, exec_sub, exec_mul};
    const char root = linker->part[0][0];
    in->mode = root == 'a' ? BINARY_ADD : root == 's' ? BINARY_SUB : BINARY_MUL;
    if (!take_float_modes(linker, in)) {
        return false;
    }
    in->scalar = scalar_binary;
    in->exec = sim_apply2;
    if (in->type == SIM_F32 && in->round == SIM_RN && !in->ftz && !in->sat) {
        in->exec = fast[in->mode];
    }
    return sim_operands(linker, in, "dss");
}

bool sim_decode_float_divide(sim_linker *linker, sim_insn *in)
{
    static const char *const inexact[] = {"approx", "full", NULL};
    if (in->mode != 0) {
        return false; /* rem */
    }
    in->mode = sim_take_of(linker, inexact) == 0 ? BINARY_DIV_APPROX : BINARY_DIV;
    in->scalar = scalar_binary;
    in->exec = sim_apply2;
    return take_float_modes(linker, in) && sim_operands(linker, in, "dss");
}

static uint64_t scalar_fma(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    if (in->type == SIM_F64) {
        return output64(fma(sim_f64(a), sim_f64(b), sim_f64(c)));
    }
    const double product = (double)input(in, a) * input(in, b);
    const double sum = sim_add_odd(product, input(in, c));
    return output(in, sim_round_f32(sum, (enum sim_round)in->round));
}

bool sim_decode_fma(sim_linker *linker, sim_insn *in)
{
    if (in->type == SIM_TYPE_NONE) {
        in->type = (uint8_t)sim_take_type(linker);
    }
    if (in->type != SIM_F32 && in->type != SIM_F64) {
        return sim_decode_half(linker, in);
    }
    if (!take_float_modes(linker, in)) {
        return false;
    }
    in->scalar = scalar_fma;
    in->exec =
        in->type == SIM_F32 && in->round == SIM_RN && !in->ftz && !in->sat ? exec_fma : sim_apply3;
    return sim_operands(linker, in, "dsss");
}

/* ---- neg, abs, copysign, testp ---- */

static uint64_t scalar_sign(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    if (in->ftz) {
        a = sim_bits32(sim_flush(sim_f32(a)));
    }
    const uint64_t sign = UINT64_C(1) << (in->result_bits - 1);
    return in->mode != 0 ? a & ~sign : a ^ sign;
}

bool sim_decode_float_unary(sim_linker *linker, sim_insn *in)
{
    in->ftz = sim_take(linker, "ftz");
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    in->scalar = scalar_sign;
    in->exec = sim_apply1;
    return sim_operands(linker, in, "ds");
}

/* The sign of a on b. */
static uint64_t scalar_copysign(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const uint64_t sign = UINT64_C(1) << (in->result_bits - 1);
    return (a & sign) | (b & ~sign);
}

bool sim_decode_copysign(sim_linker *linker, sim_insn *in)
{
    in->type = (uint8_t)sim_take_type(linker);
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    in->scalar = scalar_copysign;
    in->exec = sim_apply2;
    return (in->type == SIM_F32 || in->type == SIM_F64) && sim_operands(linker, in, "dss");
}

static bool test_property(const sim_insn *in, uint64_t a)
{
    const double x = in->type == SIM_F64 ? sim_f64(a) : (double)sim_f32(a);
    const double least = in->type == SIM_F64 ? 0x1p-1022 : 0x1p-126;
    switch (in->mode) {
    case 0:
        return isfinite(x);
    case 1:
        return isinf(x);
    case 2:
        return !isnan(x);
    case 3:
        return isnan(x);
    case 4:
        return isfinite(x) && fabs(x) >= least;
    default:
        return x != 0 && fabs(x) < least;
    }
}

static enum sim_step exec_testp(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t a[SIM_LANES];
    uint32_t lanes = 0;
    sim_values(warp, &in->arg[1], a);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        lanes |= (uint32_t)test_property(in, a[lane]) << lane;
    }
    sim_put_predicate(warp, &in->arg[0], mask, lanes);
    return SIM_NEXT;
}

bool sim_decode_testp(sim_linker *linker, sim_insn *in)
{
    static const char *const tests[] = {"finite", "infinite",  "number", "notanumber",
                                        "normal", "subnormal", NULL};
    const int test = sim_take_of(linker, tests);
    in->mode = (uint8_t)test;
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_testp;
    return test >= 0 && (in->type == SIM_F32 || in->type == SIM_F64) &&
           sim_operands(linker, in, "Ps");
}

/* ---- min, max: of a number and a NaN the number, unless .NaN ---- */

enum { EXTREME_MAX = 1, EXTREME_NAN = 2, EXTREME_XORSIGN = 4 };

static double extreme_of(unsigned mode, double x, double y)
{
    double r;
    if (isnan(x) || isnan(y)) {
        r = (mode & EXTREME_NAN) != 0 ? NAN : isnan(x) ? y : x;
    } else if ((mode & EXTREME_XORSIGN) != 0) {
        const double p = fabs(x), q = fabs(y);
        r = ((mode & EXTREME_MAX) != 0) == (p > q) ? p : q;
        return signbit(x) != signbit(y) ? -r : r;
    } else if (x == y) {
        /* -0 is less than +0 */
        r = ((mode & EXTREME_MAX) != 0) == (signbit(x) != 0) ? y : x;
    } else {
        r = ((mode & EXTREME_MAX) != 0) == (x > y) ? x : y;
    }
    return r;
}

static uint64_t scalar_extreme(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    if (in->type == SIM_F64) {
        return output64(extreme_of(in->mode, sim_f64(a), sim_f64(b)));
    }
    double r = extreme_of(in->mode, input(in, a), input(in, b));
    if (in->args > 3) {
        r = extreme_of(in->mode, r, input(in, c));
    }
    return sim_result32((float)r);
}

bool sim_decode_float_extreme(sim_linker *linker, sim_insn *in)
{
    in->ftz = sim_take(linker, "ftz");
    in->mode |= sim_take(linker, "NaN") ? EXTREME_NAN : 0;
    if (sim_take(linker, "xorsign")) {
        in->mode |= EXTREME_XORSIGN;
        if (!sim_take(linker, "abs")) {
            return false;
        }
    }
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    in->scalar = scalar_extreme;
    in->exec = in->args > 3 ? sim_apply3 : sim_apply2;
    return sim_operands(linker, in, in->args > 3 ? "dsss" : "dss");
}
