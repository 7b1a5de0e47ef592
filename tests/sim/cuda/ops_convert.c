/* SPDX-License-Identifier: Apache-2.0
 *
 * cvt between all scalar types and the packed small floats, cvt.pack. PTX ISA, "cvt".
 */
#include "apply.h"
#include "decode.h"
#include "number.h"

enum { WHOLE_NUMBER = 1, SAT_FINITE = 2, FIRST_PAIR = 4 };

static bool is_signed(uint8_t type)
{
    return sim_type_signed((enum sim_type)type);
}

static bool is_float(uint8_t type)
{
    return sim_type_float((enum sim_type)type);
}

static unsigned bits_of(uint8_t type)
{
    return sim_type_bits((enum sim_type)type);
}

/* Packed types hold two of these. */
static unsigned element_bits(uint8_t type)
{
    switch (type) {
    case SIM_F16X2:
    case SIM_BF16X2:
        return 16;
    case SIM_E2M1X2:
        return 4;
    case SIM_E4M3X2:
    case SIM_E5M2X2:
    case SIM_E2M3X2:
    case SIM_E3M2X2:
    case SIM_UE8M0X2:
        return 8;
    default:
        return 0;
    }
}

static double decode(uint8_t type, uint64_t code)
{
    switch (type) {
    case SIM_F64:
        return sim_f64(code);
    case SIM_F32:
        return sim_f32(code);
    default:
        return sim_format_decode(sim_format_of((enum sim_type)type), (uint32_t)code);
    }
}

static uint64_t encode(const sim_insn *in, uint8_t type, double value)
{
    if (in->relu && !(value > 0) && value == value) {
        value = 0;
    }
    if (in->sat) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    if (type == SIM_F64) {
        return value != value ? UINT64_C(0x7fffffffffffffff) : sim_bits64(value);
    }
    if (type == SIM_F32) {
        const float single = sim_round_f32(value, (enum sim_round)in->round);
        return sim_result32(in->ftz ? sim_flush(single) : single);
    }
    const sim_format *format = sim_format_of((enum sim_type)type);
    const bool finite = (in->mode & SAT_FINITE) != 0;
    return sim_format_encode(format, value, (enum sim_round)in->round, finite);
}

/* ---- between integers ---- */

static uint64_t scalar_integer(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    const unsigned from = bits_of(in->from), to = bits_of(in->type);
    const int64_t x = is_signed(in->from) ? sim_signed(from, a) : (int64_t)sim_cut(from, a);
    if (!in->sat) {
        return is_signed(in->type) ? (uint64_t)sim_signed(to, (uint64_t)x) : (uint64_t)x;
    }
    const bool huge = !is_signed(in->from) && from == 64 && x < 0;
    if (is_signed(in->type)) {
        const int64_t most = (int64_t)(UINT64_MAX >> (65 - to));
        return (uint64_t)(huge || x > most ? most : x < -most - 1 ? -most - 1 : x);
    }
    const uint64_t most = UINT64_MAX >> (64 - to);
    return is_signed(in->from) && x < 0 ? 0 : (uint64_t)x > most ? most : (uint64_t)x;
}

/* ---- floats to integers: saturating, NaN is 0 ---- */

static uint64_t scalar_to_integer(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    double x = decode(in->from, a);
    if (in->ftz && in->from == SIM_F32) {
        x = sim_flush((float)x);
    }
    const double r = sim_round_integer(x, (enum sim_round)in->round);
    const unsigned bits = bits_of(in->type);
    if (r != r) {
        return 0;
    }
    if (!is_signed(in->type)) {
        const double end = ldexp(1, (int)bits);
        return r <= 0 ? 0 : r >= end ? UINT64_MAX >> (64 - bits) : (uint64_t)r;
    }
    const double end = ldexp(1, (int)bits - 1);
    const int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
    return (uint64_t)(r >= end ? most : r < -end ? -most - 1 : (int64_t)r);
}

/* ---- integers to floats ---- */

/* 64-bit integers do not fit f64: to odd. */
static double integer_to_odd(const sim_insn *in, uint64_t a)
{
    const unsigned bits = bits_of(in->from);
    const bool negative = is_signed(in->from) && sim_signed(bits, a) < 0;
    const uint64_t size = negative ? 0 - (uint64_t)sim_signed(bits, a) : sim_cut(bits, a);
    const double high = (double)(size >> 32) * 0x1p32, low = (double)(size & UINT32_MAX);
    const double sum = sim_add_odd(high, low);
    return negative ? -sum : sum;
}

static uint64_t scalar_from_integer(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    if (in->type == SIM_F64) {
        const bool plain = is_signed(in->from);
        const int64_t x = sim_signed(bits_of(in->from), a);
        return sim_bits64(plain ? (double)x : (double)sim_cut(bits_of(in->from), a));
    }
    return encode(in, in->type, integer_to_odd(in, a));
}

/* ---- between floats ---- */

static uint64_t scalar_float(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    double x = decode(in->from, a);
    if (in->ftz && in->from == SIM_F32) {
        x = sim_flush((float)x);
    }
    if ((in->mode & WHOLE_NUMBER) != 0) {
        x = sim_round_integer(x, (enum sim_round)in->round);
    }
    return encode(in, in->type, x);
}

/* Two floats into a pair, the first one high; or a pair into a pair. */
static uint64_t scalar_pair(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const unsigned to = element_bits(in->type), from = element_bits(in->from);
    double high, low;
    if (from == 0) {
        high = decode(in->from, a);
        low = decode(in->from, b);
    } else {
        high = decode(in->from, sim_cut(from, a >> from));
        low = decode(in->from, sim_cut(from, a));
    }
    return encode(in, in->type, low) | encode(in, in->type, high) << to;
}

/* ---- the common ones ---- */

static enum sim_step exec_f16_f32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]);
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = sim_to_f16(sim_f32(a[lane]));
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static enum sim_step exec_f32_f16(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]);
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = sim_result32(sim_from_f16(a[lane]));
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static enum sim_step exec_f16x2_f32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = sim_to_f16(sim_f32(a[lane])) << 16 | sim_to_f16(sim_f32(b[lane]));
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static enum sim_step exec_f32_s32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]);
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = sim_bits32((float)(int32_t)a[lane]);
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static enum sim_step exec_64_32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]);
    const uint64_t extend = in->from == SIM_S32 ? UINT64_C(0x80000000) : 0;
    uint64_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = ((uint64_t)a[lane] ^ extend) - extend;
    }
    sim_put64(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static enum sim_step exec_32_64(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint64_t *a = sim_row64(warp, &in->arg[1]);
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = (uint32_t)a[lane];
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static sim_exec *fast_exec(const sim_insn *in)
{
    const bool plain = !in->sat && !in->relu && !in->ftz && in->mode == 0 && in->round == SIM_RN;
    const bool wide = in->arg[0].width == 64, from_wide = in->arg[1].width == 64;
    if (!plain || in->arg[0].kind == SIM_SINK) {
        return NULL;
    }
    if (in->type == SIM_F16 && in->from == SIM_F32) {
        return exec_f16_f32;
    }
    if (in->type == SIM_F32 && in->from == SIM_F16) {
        return exec_f32_f16;
    }
    if (in->type == SIM_F16X2 && in->from == SIM_F32) {
        return exec_f16x2_f32;
    }
    if (in->type == SIM_F32 && in->from == SIM_S32) {
        return exec_f32_s32;
    }
    if ((in->type == SIM_U64 || in->type == SIM_S64) &&
        (in->from == SIM_U32 || in->from == SIM_S32) && wide && !from_wide) {
        return exec_64_32;
    }
    if ((in->type == SIM_U32 || in->type == SIM_S32) && bits_of(in->from) == 64 &&
        !is_float(in->from) && !wide && from_wide) {
        return exec_32_64;
    }
    return NULL;
}

/* ---- cvt.pack: two saturated integers, and above them what c holds ---- */

static uint64_t scalar_pack(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const unsigned bits = bits_of(in->type);
    const int64_t least = is_signed(in->type) ? -(INT64_C(1) << (bits - 1)) : 0;
    const int64_t most = is_signed(in->type) ? -least - 1 : (INT64_C(1) << bits) - 1;
    int64_t x[2] = {sim_signed(32, b), sim_signed(32, a)};
    uint64_t r = in->args > 3 ? c << (2 * bits) : 0;
    for (unsigned i = 0; i < 2; ++i) {
        const int64_t v = x[i] > most ? most : x[i] < least ? least : x[i];
        r |= sim_cut(bits, (uint64_t)v) << (i * bits);
    }
    return r;
}

static bool decode_pack(sim_linker *linker, sim_insn *in)
{
    sim_take(linker, "sat");
    in->type = (uint8_t)sim_take_type(linker);
    in->from = (uint8_t)sim_take_type(linker);
    in->result_bits = 32;
    in->scalar = scalar_pack;
    in->exec = in->args > 3 ? sim_apply3 : sim_apply2;
    if (in->from != SIM_S32 || bits_of(in->type) > 16 ||
        (in->args > 3 && sim_take_type(linker) != SIM_B32)) {
        return false;
    }
    return sim_operands(linker, in, in->args > 3 ? "Wwww" : "Www");
}

/* ---- decoding ---- */

static bool take_modes(sim_linker *linker, sim_insn *in)
{
    static const char *const whole[] = {"rni", "rzi", "rmi", "rpi", NULL};
    const int integer = sim_take_of(linker, whole);
    in->mode = integer >= 0 ? WHOLE_NUMBER : 0;
    in->round = (uint8_t)(integer >= 0 ? integer : (int)sim_take_round(linker));
    in->ftz = sim_take(linker, "ftz");
    in->relu = sim_take(linker, "relu");
    in->mode |= sim_take(linker, "satfinite") ? SAT_FINITE : 0;
    in->sat = sim_take(linker, "sat");
    sim_take(linker, "scaled::n2::ue8m0");
    in->type = (uint8_t)sim_take_type(linker);
    in->from = (uint8_t)sim_take_type(linker);
    return in->type != SIM_TYPE_NONE && in->from != SIM_TYPE_NONE;
}

static bool decode_pair(sim_linker *linker, sim_insn *in)
{
    const bool two = element_bits(in->from) == 0;
    in->scalar = scalar_pair;
    in->exec = two ? sim_apply2 : sim_apply1;
    sim_exec *fast = two ? fast_exec(in) : NULL;
    in->exec = fast != NULL ? fast : in->exec;
    return (!two || in->from == SIM_F32) && sim_operands(linker, in, two ? "dff" : "df");
}

bool sim_decode_convert(sim_linker *linker, sim_insn *in)
{
    if (sim_take(linker, "pack")) {
        return decode_pack(linker, in);
    }
    if (!take_modes(linker, in) || in->args < 2) {
        return false;
    }
    in->result_bits = (uint8_t)bits_of(in->type);
    if (element_bits(in->type) != 0) {
        return decode_pair(linker, in);
    }
    const bool to_float = is_float(in->type), from_float = is_float(in->from);
    in->scalar = to_float ? (from_float ? scalar_float : scalar_from_integer)
                          : (from_float ? scalar_to_integer : scalar_integer);
    in->exec = sim_apply1;
    /* A wider register takes the extended value. */
    if (!to_float && in->arg[0].kind == SIM_REGISTER && is_signed(in->type) &&
        in->arg[0].bits > in->result_bits) {
        in->result_bits = in->arg[0].bits;
    }
    sim_exec *fast = fast_exec(in);
    in->exec = fast != NULL ? fast : in->exec;
    if (in->type == SIM_TF32) {
        in->result_bits = 32;
    }
    return sim_operands(linker, in, "xy");
}
