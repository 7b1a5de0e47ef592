/* SPDX-License-Identifier: Apache-2.0
 *
 * Logic and shifts: and, or, xor, not, cnot (also of predicates), lop3, shl, shr, shf, prmt. PTX
 * ISA, "Logic and Shift Instructions".
 */
#include "apply.h"
#include "decode.h"

enum logic { LOGIC_AND, LOGIC_OR, LOGIC_XOR, LOGIC_NOT, LOGIC_CNOT };

static unsigned bits_of(const sim_insn *in)
{
    return sim_type_bits((enum sim_type)in->type);
}

static uint32_t and32(uint32_t a, uint32_t b)
{
    return a & b;
}

static uint32_t or32(uint32_t a, uint32_t b)
{
    return a | b;
}

static uint32_t xor32(uint32_t a, uint32_t b)
{
    return a ^ b;
}

static enum sim_step exec_and32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, and32);
}

static enum sim_step exec_or32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, or32);
}

static enum sim_step exec_xor32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, xor32);
}

static uint64_t scalar_logic(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    switch (in->mode) {
    case LOGIC_AND:
        return a & b;
    case LOGIC_OR:
        return a | b;
    case LOGIC_XOR:
        return a ^ b;
    case LOGIC_NOT:
        return ~a;
    default:
        return a == 0;
    }
}

static enum sim_step exec_predicates(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t a = sim_true_lanes(warp, &in->arg[1]);
    const uint32_t b = in->args > 2 ? sim_true_lanes(warp, &in->arg[2]) : 0;
    const uint64_t lanes = in->mode == LOGIC_CNOT ? ~a : scalar_logic(in, a, b, 0);
    sim_put_predicate(warp, &in->arg[0], mask, (uint32_t)lanes);
    return SIM_NEXT;
}

bool sim_decode_logic(sim_linker *linker, sim_insn *in)
{
    static const char *const roots[] = {"and", "or", "xor", "not", "cnot"};
    static sim_exec *const fast[] = {exec_and32, exec_or32, exec_xor32};
    for (uint8_t i = 0; i < 5; ++i) {
        in->mode = strcmp(linker->part[0], roots[i]) == 0 ? i : in->mode;
    }
    const bool binary = in->mode < LOGIC_NOT;
    in->type = (uint8_t)sim_take_type(linker);
    if (in->type == SIM_PRED) {
        in->exec = exec_predicates;
        return sim_operands(linker, in, binary ? "Ppp" : "Pp");
    }
    in->result_bits = (uint8_t)bits_of(in);
    in->scalar = scalar_logic;
    in->exec = binary ? sim_apply2 : sim_apply1;
    if (binary && in->result_bits == 32) {
        in->exec = fast[in->mode];
    }
    return in->result_bits >= 16 && sim_operands(linker, in, binary ? "dss" : "ds");
}

/* ---- lop3: bit 4a+2b+c of the table ---- */

static enum sim_step exec_lop3(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t table = (uint32_t)in->arg[4].value;
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    const uint32_t *c = sim_row32(warp, &in->arg[3]);
    uint32_t r[SIM_LANES] = {0};
    for (uint32_t i = 0; i < 8; ++i) {
        if ((table >> i & 1) == 0) {
            continue;
        }
        const uint32_t na = (i & 4) != 0 ? 0 : SIM_ALL_LANES;
        const uint32_t nb = (i & 2) != 0 ? 0 : SIM_ALL_LANES;
        const uint32_t nc = (i & 1) != 0 ? 0 : SIM_ALL_LANES;
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            r[lane] |= (a[lane] ^ na) & (b[lane] ^ nb) & (c[lane] ^ nc);
        }
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

bool sim_decode_logic3(sim_linker *linker, sim_insn *in)
{
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_lop3;
    return in->type == SIM_B32 && sim_operands(linker, in, "dsssi");
}

/* ---- shl, shr: counts beyond the width shift everything out ---- */

static uint32_t shl32(uint32_t a, uint32_t b)
{
    return b > 31 ? 0 : a << b;
}

static uint32_t shr32(uint32_t a, uint32_t b)
{
    return b > 31 ? 0 : a >> b;
}

static uint32_t sar32(uint32_t a, uint32_t b)
{
    return (uint32_t)((int32_t)a >> (b > 31 ? 31 : b));
}

static enum sim_step exec_shl32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, shl32);
}

static enum sim_step exec_shr32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, shr32);
}

static enum sim_step exec_sar32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_map32_2(warp, in, mask, sar32);
}

static uint64_t scalar_shift(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const unsigned bits = bits_of(in);
    const uint32_t count = (uint32_t)b;
    if (in->mode == 0) {
        return count >= bits ? 0 : a << count;
    }
    if (!sim_type_signed((enum sim_type)in->type)) {
        return count >= bits ? 0 : a >> count;
    }
    return (uint64_t)(sim_signed(bits, a) >> (count >= bits ? bits - 1 : count));
}

bool sim_decode_shift(sim_linker *linker, sim_insn *in)
{
    in->mode = linker->part[0][2] == 'r';
    in->type = (uint8_t)sim_take_type(linker);
    in->result_bits = (uint8_t)bits_of(in);
    in->scalar = scalar_shift;
    in->exec = sim_apply2;
    if (in->result_bits == 32) {
        in->exec = in->mode == 0                              ? exec_shl32
                   : sim_type_signed((enum sim_type)in->type) ? exec_sar32
                                                              : exec_shr32;
    }
    return in->result_bits >= 16 && sim_operands(linker, in, "dsw");
}

/* ---- shf: of the 64 bits b:a ---- */

static uint64_t scalar_funnel(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    const bool right = (in->mode & 1) != 0, wrap = (in->mode & 2) != 0;
    const uint32_t count = (uint32_t)c, n = wrap ? count & 31 : count > 32 ? 32 : count;
    const uint64_t both = b << 32 | a;
    return right ? both >> n : (both << n) >> 32;
}

bool sim_decode_funnel(sim_linker *linker, sim_insn *in)
{
    static const char *const way[] = {"l", "r", NULL}, *const mode[] = {"clamp", "wrap", NULL};
    const int right = sim_take_of(linker, way), wrap = sim_take_of(linker, mode);
    in->type = (uint8_t)sim_take_type(linker);
    in->mode = (uint8_t)(right | wrap << 1);
    in->result_bits = 32;
    in->scalar = scalar_funnel;
    in->exec = sim_apply3;
    return right >= 0 && wrap >= 0 && in->type == SIM_B32 && sim_operands(linker, in, "dsss");
}

/* ---- prmt ---- */

static uint32_t permute_selector(uint8_t mode, uint32_t c)
{
    static const uint16_t selectors[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e */
        {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e */
        {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8 */
        {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl */
        {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr */
        {0x1010, 0x3232, 0x1010, 0x3232}, /* rc16 */
    };
    return mode == 0 ? c : selectors[mode - 1][c & 3];
}

static enum sim_step exec_permute(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    const uint32_t *c = sim_row32(warp, &in->arg[3]);
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        const uint64_t both = (uint64_t)b[lane] << 32 | a[lane];
        const uint32_t selector = permute_selector(in->mode, c[lane]);
        uint32_t word = 0;
        for (int i = 0; i < 4; ++i) {
            const uint32_t s = selector >> (4 * i) & 15;
            const uint32_t byte = (uint32_t)(both >> (8 * (s & 7))) & 255;
            const uint32_t sign = (byte & 128) != 0 ? 255 : 0;
            word |= ((s & 8) != 0 ? sign : byte) << (8 * i);
        }
        r[lane] = word;
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

bool sim_decode_permute(sim_linker *linker, sim_insn *in)
{
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
    in->mode = (uint8_t)(sim_take_of(linker, modes) + 1);
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_permute;
    return in->type == SIM_B32 && sim_operands(linker, in, "dsss");
}
