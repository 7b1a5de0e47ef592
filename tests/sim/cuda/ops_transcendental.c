/* SPDX-License-Identifier: Apache-2.0
 *
 * rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh. The .approx forms are rounded right here, where a GPU
 * errs by a few units in the last place: tests must allow for that. PTX ISA, "Floating-Point
 * Instructions".
 */
#include "apply.h"
#include "decode.h"
#include "number.h"

enum function { RCP, SQRT, RSQRT, EX2, LG2, SIN, COS, TANH };

static double value_of(unsigned function, double x)
{
    switch (function) {
    case RCP:
        return 1 / x;
    case SQRT:
        return sqrt(x);
    case RSQRT:
        return 1 / sqrt(x);
    case EX2:
        return exp2(x);
    case LG2:
        return log2(x);
    case SIN:
        return sin(x);
    case COS:
        return cos(x);
    default:
        return tanh(x);
    }
}

/* Of a value that rounding to f64 made: to odd, for the directed modes. */
static double to_odd(unsigned function, double x, double r)
{
    const double rest = function == RCP ? fma(-r, x, 1) : function == SQRT ? fma(-r, r, x) : 0;
    if (rest == 0 || !isfinite(r) || !isfinite(rest)) {
        return r;
    }
    uint64_t bits = sim_bits64(r);
    const bool below = function == RCP ? (rest / x > 0) == (r > 0) : rest > 0;
    bits -= !below;
    return sim_f64(bits | 1);
}

static uint64_t scalar_single(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    if (in->type == SIM_F64) {
        const double r = value_of(in->mode, sim_f64(a));
        return r != r ? UINT64_C(0x7fffffffffffffff) : sim_bits64(r);
    }
    const float x = in->ftz ? sim_flush(sim_f32(a)) : sim_f32(a);
    const double r = to_odd(in->mode, x, value_of(in->mode, x));
    const float y = sim_round_f32(r, (enum sim_round)in->round);
    return sim_result32(in->ftz ? sim_flush(y) : y);
}

static uint64_t scalar_halves(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    const enum sim_type type = (enum sim_type)in->type;
    const sim_format *format = sim_format_of(type);
    const int count = type == SIM_F16X2 || type == SIM_BF16X2 ? 2 : 1;
    uint64_t r = 0;
    for (int i = 0; i < count; ++i) {
        const double x = sim_format_decode(format, (uint32_t)(a >> (16 * i)) & 0xffff);
        const uint64_t code = sim_format_encode(format, value_of(in->mode, x), SIM_RN, false);
        r |= code << (16 * i);
    }
    return r;
}

bool sim_decode_transcendental(sim_linker *linker, sim_insn *in)
{
    static const char *const roots[] = {"rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"};
    for (uint8_t i = 0; i < 8; ++i) {
        in->mode = strcmp(linker->part[0], roots[i]) == 0 ? i : in->mode;
    }
    sim_take(linker, "approx");
    in->round = (uint8_t)sim_take_round(linker);
    in->ftz = sim_take(linker, "ftz");
    in->type = (uint8_t)sim_take_type(linker);
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    in->exec = sim_apply1;
    switch (in->type) {
    case SIM_F32:
        in->scalar = scalar_single;
        break;
    case SIM_F64:
        in->scalar = scalar_single;
        if (in->mode > RSQRT || in->round != SIM_RN) {
            return false;
        }
        break;
    case SIM_F16:
    case SIM_F16X2:
    case SIM_BF16:
    case SIM_BF16X2:
        in->scalar = scalar_halves;
        if (in->mode != EX2 && in->mode != TANH) {
            return false;
        }
        break;
    default:
        return false;
    }
    return sim_operands(linker, in, "ds");
}
