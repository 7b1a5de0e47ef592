/* SPDX-License-Identifier: Apache-2.0
 *
 * setp, set, selp, slct. PTX ISA, "Comparison and Selection Instructions".
 */
#include "apply.h"
#include "decode.h"
#include "number.h"

/* Ordered comparisons come first; from EQU on they hold for NaN as well. */
enum comparison { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NOT_NUM };
enum combination { COMBINE_NOT, COMBINE_AND, COMBINE_OR, COMBINE_XOR };

static const char *const comparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                          "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
                                          "lo",  "ls",  "hi",  "hs",  NULL};

static bool compare_order(unsigned how, bool less, bool equal)
{
    switch (how) {
    case EQ:
        return equal;
    case NE:
        return !equal;
    case LT:
        return less;
    case LE:
        return less || equal;
    case GT:
        return !less && !equal;
    default:
        return !less;
    }
}

static bool compare_float(unsigned how, double x, double y)
{
    const bool unordered = isnan(x) || isnan(y);
    if (how >= NUM) {
        return (how == NUM) != unordered;
    }
    if (unordered) {
        return how >= EQU;
    }
    return compare_order(how % EQU, x < y, x == y);
}

SIM_INLINE uint32_t lanes_of(const uint32_t *restrict truth)
{
    uint32_t lanes = 0;
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        lanes |= (truth[lane] & 1) << lane;
    }
    return lanes;
}

/* The 32-bit comparisons of loops and guards. */
static uint32_t compare32(unsigned how, bool is_signed, const uint32_t *a, const uint32_t *b)
{
    const uint32_t flip = is_signed ? 0x80000000u : 0;
    uint32_t less[SIM_LANES], equal[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        less[lane] = (a[lane] ^ flip) < (b[lane] ^ flip);
        equal[lane] = a[lane] == b[lane];
    }
    const uint32_t below = lanes_of(less), same = lanes_of(equal);
    switch (how) {
    case EQ:
        return same;
    case NE:
        return ~same;
    case LT:
        return below;
    case LE:
        return below | same;
    case GT:
        return ~(below | same);
    default:
        return ~below;
    }
}

static double float_of(const sim_insn *in, uint64_t code, int half)
{
    switch (in->from) {
    case SIM_F64:
        return sim_f64(code);
    case SIM_F32:
        return in->ftz ? sim_flush(sim_f32(code)) : sim_f32(code);
    case SIM_F16:
    case SIM_F16X2:
        return sim_from_f16((uint32_t)(code >> (16 * half)) & 0xffff);
    default:
        return sim_from_bf16((uint32_t)(code >> (16 * half)) & 0xffff);
    }
}

/* The lanes where the comparison holds, of one half of pairs. */
static uint32_t compare_lanes(sim_warp *warp, const sim_insn *in, int half)
{
    const enum sim_type type = (enum sim_type)in->from;
    const bool is_signed = sim_type_signed(type);
    const unsigned bits = sim_type_bits(type);
    if (bits == 32 && !sim_type_float(type)) {
        return compare32(in->mode, is_signed, sim_row32(warp, &in->arg[1]),
                         sim_row32(warp, &in->arg[2]));
    }
    uint64_t a[SIM_LANES], b[SIM_LANES];
    uint32_t lanes = 0;
    sim_values(warp, &in->arg[1], a);
    sim_values(warp, &in->arg[2], b);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        bool holds;
        if (sim_type_float(type)) {
            holds =
                compare_float(in->mode, float_of(in, a[lane], half), float_of(in, b[lane], half));
        } else {
            const int64_t x = sim_signed(bits, a[lane]), y = sim_signed(bits, b[lane]);
            const uint64_t p = sim_cut(bits, a[lane]), q = sim_cut(bits, b[lane]);
            holds = compare_order(in->mode, is_signed ? x < y : p < q, p == q);
        }
        lanes |= (uint32_t)holds << lane;
    }
    return lanes;
}

static uint32_t combine(sim_warp *warp, const sim_insn *in, uint32_t lanes)
{
    switch (in->mode2) {
    case COMBINE_AND:
        return lanes & sim_true_lanes(warp, &in->arg[3]);
    case COMBINE_OR:
        return lanes | sim_true_lanes(warp, &in->arg[3]);
    case COMBINE_XOR:
        return lanes ^ sim_true_lanes(warp, &in->arg[3]);
    default:
        return lanes;
    }
}

static enum sim_step exec_setp(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_operand *to = &in->arg[0];
    const bool pair = in->from == SIM_F16X2 || in->from == SIM_BF16X2;
    const uint32_t first = compare_lanes(warp, in, 0);
    const uint32_t second = pair ? compare_lanes(warp, in, 1) : ~first;
    /* q of p|q: the opposite of the comparison, combined in the same way. */
    const sim_operand p = {
        .kind = to->kind, .slot = to->slot, .reg = to->reg, .reg2 = SIM_NO_REGISTER};
    const sim_operand q = {
        .kind = SIM_REGISTER, .slot = to->slot2, .reg = to->reg2, .reg2 = SIM_NO_REGISTER};
    const uint32_t left = combine(warp, in, first), right = combine(warp, in, second);
    sim_put_predicate(warp, &p, mask, left);
    if (to->reg2 != SIM_NO_REGISTER) {
        sim_put_predicate(warp, &q, mask, right);
    }
    return SIM_NEXT;
}

/* set: all ones or 1.0 where it holds. */
static enum sim_step exec_set(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    static const uint32_t one[SIM_TYPES] = {[SIM_F32] = 0x3f800000,
                                            [SIM_F16] = 0x3c00,
                                            [SIM_F16X2] = 0x3c00,
                                            [SIM_BF16] = 0x3f80,
                                            [SIM_BF16X2] = 0x3f80};
    const bool pair = in->from == SIM_F16X2 || in->from == SIM_BF16X2;
    const uint32_t unit = one[in->type];
    const unsigned bits = pair ? 16 : sim_type_bits((enum sim_type)in->type);
    const uint32_t yes = unit != 0 ? unit : (uint32_t)sim_cut(bits, UINT64_MAX);
    const uint32_t first = combine(warp, in, compare_lanes(warp, in, 0));
    const uint32_t second = pair ? combine(warp, in, compare_lanes(warp, in, 1)) : 0;
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = (first >> lane & 1) != 0 ? yes : 0;
        r[lane] |= (second >> lane & 1) != 0 ? yes << 16 : 0;
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

bool sim_decode_compare(sim_linker *linker, sim_insn *in)
{
    static const char *const combinations[] = {"and", "or", "xor", NULL};
    static const uint8_t same[] = {LT, LE, GT, GE}; /* lo, ls, hi, hs */
    const bool is_set = strcmp(linker->part[0], "set") == 0;
    const int how = sim_take_of(linker, comparisons);
    in->mode = (uint8_t)(how > NOT_NUM ? same[how - NOT_NUM - 1] : how);
    in->mode2 = (uint8_t)(sim_take_of(linker, combinations) + 1);
    in->ftz = sim_take(linker, "ftz");
    in->type = is_set ? (uint8_t)sim_take_type(linker) : SIM_PRED;
    in->from = (uint8_t)sim_take_type(linker);
    in->exec = is_set ? exec_set : exec_setp;
    const bool is_float = sim_type_float((enum sim_type)in->from);
    if (how < 0 || in->from == SIM_TYPE_NONE || (!is_float && in->mode > GE)) {
        return false;
    }
    if (is_set) {
        return sim_operands(linker, in, in->mode2 != 0 ? "dffp" : "dff");
    }
    return sim_operands(linker, in, in->mode2 != 0 ? "Pffp" : "Pff");
}

/* ---- selp, slct ---- */

static enum sim_step exec_select(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t a[SIM_LANES], b[SIM_LANES];
    uint32_t lanes = 0;
    sim_values(warp, &in->arg[1], a);
    sim_values(warp, &in->arg[2], b);
    if (in->from == SIM_PRED) {
        lanes = sim_true_lanes(warp, &in->arg[3]);
    } else {
        uint64_t c[SIM_LANES];
        sim_values(warp, &in->arg[3], c);
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            const bool first = in->from == SIM_F32 ? sim_f32(c[lane]) >= 0 : (int32_t)c[lane] >= 0;
            lanes |= (uint32_t)first << lane;
        }
    }
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        a[lane] = (lanes >> lane & 1) != 0 ? a[lane] : b[lane];
    }
    sim_put(warp, &in->arg[0], mask, a);
    const uint32_t known =
        (sim_written(warp, &in->arg[1]) & lanes) | (sim_written(warp, &in->arg[2]) & ~lanes);
    sim_carry_written(warp, &in->arg[0], mask, known & sim_written(warp, &in->arg[3]));
    return SIM_NEXT;
}

bool sim_decode_select(sim_linker *linker, sim_insn *in)
{
    const bool by_predicate = strcmp(linker->part[0], "selp") == 0;
    in->ftz = sim_take(linker, "ftz");
    in->type = (uint8_t)sim_take_type(linker);
    in->from = by_predicate ? SIM_PRED : (uint8_t)sim_take_type(linker);
    in->exec = exec_select;
    in->carries = true;
    return in->type != SIM_TYPE_NONE && in->type != SIM_PRED &&
           (by_predicate || in->from == SIM_S32 || in->from == SIM_F32) &&
           sim_operands(linker, in, by_predicate ? "dssp" : "dssf");
}
