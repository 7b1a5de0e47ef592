/* SPDX-License-Identifier: Apache-2.0
 *
 * Bit fields and counts: bfe, bfi, bfind, bmsk, brev, clz, popc, szext. PTX ISA, "Integer
 * Arithmetic Instructions".
 */
#include "apply.h"
#include "decode.h"

static unsigned bits_of(const sim_insn *in)
{
    return sim_type_bits((enum sim_type)in->type);
}

static bool is_signed(const sim_insn *in)
{
    return sim_type_signed((enum sim_type)in->type);
}

static uint64_t low_ones(unsigned count)
{
    return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static uint64_t scalar_bfe(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const unsigned bits = bits_of(in), position = (unsigned)(b & 255), length = (unsigned)(c & 255);
    if (length == 0) {
        return 0;
    }
    const unsigned end = position + length - 1, top = end < bits - 1 ? end : bits - 1;
    const uint64_t sign = is_signed(in) && (a >> top & 1) != 0 ? UINT64_MAX : 0;
    if (position >= bits) {
        return sign;
    }
    const uint64_t field = low_ones(top - position + 1);
    return (a >> position & field) | (sign & ~field);
}

static enum sim_step exec_bfi(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const unsigned bits = bits_of(in);
    uint64_t a[SIM_LANES], b[SIM_LANES], c[SIM_LANES], d[SIM_LANES], r[SIM_LANES];
    sim_values(warp, &in->arg[1], a);
    sim_values(warp, &in->arg[2], b);
    sim_values(warp, &in->arg[3], c);
    sim_values(warp, &in->arg[4], d);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        const unsigned position = (unsigned)(c[lane] & 255), length = (unsigned)(d[lane] & 255);
        const uint64_t field = position >= bits ? 0 : low_ones(length) << position;
        const uint64_t moved = position >= bits ? 0 : a[lane] << position;
        r[lane] = (b[lane] & ~field) | (moved & field);
    }
    sim_put(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

static uint64_t scalar_clz(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return a == 0 ? bits_of(in) : (uint64_t)__builtin_clzll(a) - (64 - bits_of(in));
}

static uint64_t scalar_popc(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)in;
    (void)b;
    (void)c;
    return (uint64_t)__builtin_popcountll(a);
}

static uint64_t scalar_brev(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    uint64_t r = 0;
    for (unsigned i = 0; i < bits_of(in); ++i) {
        r = r << 1 | (a >> i & 1);
    }
    return r;
}

/* Position of the highest bit that differs from the sign; mode: as a shift to the top. */
static uint64_t scalar_bfind(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    const unsigned bits = bits_of(in);
    const bool negative = is_signed(in) && (a >> (bits - 1) & 1) != 0;
    const uint64_t x = sim_cut(bits, negative ? ~a : a);
    if (x == 0) {
        return UINT32_MAX;
    }
    const unsigned position = 63 - (unsigned)__builtin_clzll(x);
    return in->mode != 0 ? bits - 1 - position : position;
}

static uint64_t scalar_szext(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const uint32_t n = (uint32_t)b, count = in->mode != 0 ? n & 31 : n > 32 ? 32 : n;
    if (count == 0) {
        return 0;
    }
    return is_signed(in) ? (uint64_t)sim_signed(count, a) : sim_cut(count, a);
}

static uint64_t scalar_bmsk(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    const uint32_t start = in->mode != 0 ? x & 31 : x > 32 ? 32 : x;
    const uint32_t count = in->mode != 0 ? y & 31 : y > 32 ? 32 : y;
    return start >= 32 ? 0 : low_ones(count) << start;
}

static bool decode_two(sim_linker *linker, sim_insn *in, sim_scalar *scalar)
{
    static const char *const modes[] = {"clamp", "wrap", NULL};
    in->mode = sim_take_of(linker, modes) == 1;
    in->scalar = scalar;
    in->exec = sim_apply2;
    return sim_operands(linker, in, "dsw");
}

static bool decode_one(sim_linker *linker, sim_insn *in, sim_scalar *scalar, const char *shape)
{
    in->scalar = scalar;
    in->exec = sim_apply1;
    return sim_operands(linker, in, shape);
}

bool sim_decode_bits(sim_linker *linker, sim_insn *in)
{
    const char *root = linker->part[0];
    in->mode = sim_take(linker, "shiftamt");
    in->type = (uint8_t)sim_take_type(linker);
    in->result_bits = (uint8_t)bits_of(in);
    if (in->result_bits < 32 || sim_type_float((enum sim_type)in->type)) {
        return false;
    }
    if (strcmp(root, "bfe") == 0) {
        in->scalar = scalar_bfe;
        in->exec = sim_apply3;
        return sim_operands(linker, in, "dsww");
    }
    if (strcmp(root, "bfi") == 0) {
        in->exec = exec_bfi;
        return sim_operands(linker, in, "dssww");
    }
    if (strcmp(root, "brev") == 0) {
        return decode_one(linker, in, scalar_brev, "ds");
    }
    if (strcmp(root, "szext") == 0) {
        return decode_two(linker, in, scalar_szext);
    }
    if (strcmp(root, "bmsk") == 0) {
        return decode_two(linker, in, scalar_bmsk);
    }
    in->result_bits = 32;
    return decode_one(linker, in,
                      strcmp(root, "clz") == 0    ? scalar_clz
                      : strcmp(root, "popc") == 0 ? scalar_popc
                                                  : scalar_bfind,
                      "Ws");
}
