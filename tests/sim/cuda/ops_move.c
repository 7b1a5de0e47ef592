/* SPDX-License-Identifier: Apache-2.0
 *
 * mov in all its forms (vectors packed and unpacked, addresses, special registers), cvta, isspacep,
 * createpolicy. Registers that were never written may be moved, not used. PTX ISA, "Data Movement
 * and Conversion Instructions".
 */
#include "apply.h"
#include "decode.h"

static enum sim_step exec_move32(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_put32(warp, &in->arg[0], mask, sim_row32(warp, &in->arg[1]));
    sim_carry_written(warp, &in->arg[0], mask, sim_written(warp, &in->arg[1]));
    return SIM_NEXT;
}

static enum sim_step exec_move64(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_put64(warp, &in->arg[0], mask, sim_row64(warp, &in->arg[1]));
    sim_carry_written(warp, &in->arg[0], mask, sim_written(warp, &in->arg[1]));
    return SIM_NEXT;
}

static enum sim_step exec_move_predicate(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_put_predicate(warp, &in->arg[0], mask, sim_true_lanes(warp, &in->arg[1]));
    sim_carry_written(warp, &in->arg[0], mask, sim_written(warp, &in->arg[1]));
    return SIM_NEXT;
}

static enum sim_step exec_move_clock(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t value[SIM_LANES];
    sim_special_refresh(warp);
    sim_values(warp, &in->arg[1], value);
    sim_put(warp, &in->arg[0], mask, value);
    sim_carry_written(warp, &in->arg[0], mask, SIM_ALL_LANES);
    return SIM_NEXT;
}

/* {a, b} -> d: the first element is the lowest part. */
static enum sim_step exec_pack(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_operand *from = &in->arg[1];
    const unsigned part = sim_type_bits((enum sim_type)in->type) / from->elements;
    uint64_t r[SIM_LANES] = {0}, a[SIM_LANES];
    uint32_t known = SIM_ALL_LANES;
    for (uint32_t i = 0; i < from->elements; ++i) {
        sim_values(warp, &from->element[i], a);
        known &= sim_written(warp, &from->element[i]);
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            r[lane] |= sim_cut(part, a[lane]) << (part * i);
        }
    }
    sim_put(warp, &in->arg[0], mask, r);
    sim_carry_written(warp, &in->arg[0], mask, known);
    return SIM_NEXT;
}

/* a -> {d, e}; either may be _. */
static enum sim_step exec_unpack(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_operand *to = &in->arg[0];
    const unsigned part = sim_type_bits((enum sim_type)in->type) / to->elements;
    uint64_t a[SIM_LANES], r[SIM_LANES];
    const uint32_t known = sim_written(warp, &in->arg[1]);
    sim_values(warp, &in->arg[1], a);
    for (uint32_t i = 0; i < to->elements; ++i) {
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            r[lane] = sim_cut(part, a[lane] >> (part * i));
        }
        sim_put(warp, &to->element[i], mask, r);
        sim_carry_written(warp, &to->element[i], mask, known);
    }
    return SIM_NEXT;
}

static bool fits(const sim_insn *in, const sim_operand *vector)
{
    const unsigned bits = sim_type_bits((enum sim_type)in->type);
    return vector->elements != 0 && bits % vector->elements == 0 && bits <= 64 &&
           bits / vector->elements >= 8;
}

bool sim_decode_move(sim_linker *linker, sim_insn *in)
{
    in->type = (uint8_t)sim_take_type(linker);
    in->carries = true;
    if (in->args != 2 || in->type == SIM_TYPE_NONE || in->type == SIM_B128) {
        return false;
    }
    if (in->arg[1].kind == SIM_VECTOR) {
        in->exec = exec_pack;
        return fits(in, &in->arg[1]) && sim_operands(linker, in, "dV");
    }
    if (in->arg[0].kind == SIM_VECTOR) {
        in->exec = exec_unpack;
        return fits(in, &in->arg[0]) && sim_operands(linker, in, "vs");
    }
    if (in->type == SIM_PRED) {
        in->exec = exec_move_predicate;
        return sim_operands(linker, in, "Pp");
    }
    const bool wide = sim_type_bits((enum sim_type)in->type) == 64;
    in->exec = wide ? exec_move64 : exec_move32;
    if (in->arg[1].kind == SIM_REGISTER && sim_is_clock(linker, &in->arg[1])) {
        in->exec = exec_move_clock;
        return sim_operands(linker, in, "dy");
    }
    return sim_operands(linker, in, "ds");
}

/* ---- cvta ---- */

static uint64_t window_of(uint8_t space)
{
    switch (space) {
    case SIM_SPACE_SHARED:
        return SIM_WINDOW_SHARED;
    case SIM_SPACE_LOCAL:
        return SIM_WINDOW_LOCAL;
    case SIM_SPACE_PARAM:
        return SIM_WINDOW_PARAM;
    default:
        return 0;
    }
}

static uint64_t scalar_to_generic(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return a | window_of(in->space);
}

static uint64_t scalar_from_generic(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return window_of(in->space) != 0 ? a & ~SIM_WINDOW_MASK : a;
}

static const char *const space_names[] = {
    "global",      "shared",          "local",        "param",       "const",
    "shared::cta", "shared::cluster", "param::entry", "param::func", NULL};
static const uint8_t spaces[] = {SIM_SPACE_GLOBAL, SIM_SPACE_SHARED, SIM_SPACE_LOCAL,
                                 SIM_SPACE_PARAM,  SIM_SPACE_CONST,  SIM_SPACE_SHARED,
                                 SIM_SPACE_SHARED, SIM_SPACE_PARAM,  SIM_SPACE_LOCAL};

bool sim_decode_address(sim_linker *linker, sim_insn *in)
{
    const bool to_space = sim_take(linker, "to");
    const int space = sim_take_of(linker, space_names);
    in->type = (uint8_t)sim_take_type(linker);
    in->space = space < 0 ? 0 : spaces[space];
    in->result_bits = (uint8_t)sim_type_bits((enum sim_type)in->type);
    in->scalar = to_space ? scalar_from_generic : scalar_to_generic;
    in->exec = sim_apply1;
    return space >= 0 && in->type == SIM_U64 && sim_operands(linker, in, "ds");
}

static enum sim_step exec_space(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t a[SIM_LANES];
    uint32_t lanes = 0;
    sim_values(warp, &in->arg[1], a);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        const uint64_t window = a[lane] & SIM_WINDOW_MASK, wanted = window_of(in->space);
        const bool special =
            window == SIM_WINDOW_SHARED || window == SIM_WINDOW_LOCAL || window == SIM_WINDOW_PARAM;
        lanes |= (uint32_t)(wanted != 0 ? window == wanted : !special) << lane;
    }
    sim_put_predicate(warp, &in->arg[0], mask, lanes);
    return SIM_NEXT;
}

bool sim_decode_space(sim_linker *linker, sim_insn *in)
{
    const int space = sim_take_of(linker, space_names);
    in->space = space < 0 ? 0 : spaces[space];
    in->exec = exec_space;
    return space >= 0 && in->space != SIM_SPACE_CONST && sim_operands(linker, in, "Pl");
}

/* ---- createpolicy: caches are not modelled, so every policy is 0 ---- */

static enum sim_step exec_policy(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint64_t zero[SIM_LANES] = {0};
    sim_put(warp, &in->arg[0], mask, zero);
    return SIM_NEXT;
}

bool sim_decode_policy(sim_linker *linker, sim_insn *in)
{
    for (uint32_t i = 1; i < linker->parts; ++i) {
        linker->used[i] =
            linker->used[i] || strncmp(linker->part[i], "L2", 2) == 0 ||
            strcmp(linker->part[i], "fractional") == 0 || strcmp(linker->part[i], "range") == 0 ||
            strcmp(linker->part[i], "global") == 0 || strcmp(linker->part[i], "cvt") == 0;
    }
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_policy;
    return in->type == SIM_B64 && in->args >= 1 && in->args <= 4 &&
           sim_operands(linker, in, "d?yyy");
}
