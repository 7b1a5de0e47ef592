/* SPDX-License-Identifier: Apache-2.0
 *
 * atom and red. Lanes take turns; a lock keeps the blocks of other host threads out of global
 * memory. PTX ISA, "atom", "red".
 */
#include "apply.h"
#include "decode.h"
#include "grid.h"
#include "number.h"

enum atomic { ADD, EXCH, CAS, MIN, MAX, INC, DEC, AND, OR, XOR };

static uint64_t add_halves(const sim_insn *in, uint64_t a, uint64_t b)
{
    const bool bfloat = in->type == SIM_BF16 || in->type == SIM_BF16X2;
    const bool pair = in->type == SIM_F16X2 || in->type == SIM_BF16X2;
    uint64_t r = 0;
    for (unsigned i = 0; i < (pair ? 2u : 1u); ++i) {
        const uint32_t x = (uint32_t)(a >> (16 * i)) & 0xffff;
        const uint32_t y = (uint32_t)(b >> (16 * i)) & 0xffff;
        const uint32_t sum = bfloat ? sim_to_bf16(sim_from_bf16(x) + sim_from_bf16(y))
                                    : sim_to_f16(sim_from_f16(x) + sim_from_f16(y));
        r |= (uint64_t)sum << (16 * i);
    }
    return r;
}

static uint64_t add(const sim_insn *in, uint64_t a, uint64_t b)
{
    switch (in->type) {
    case SIM_F32:
        return sim_result32(sim_f32(a) + sim_f32(b));
    case SIM_F64:
        return sim_bits64(sim_f64(a) + sim_f64(b));
    case SIM_F16:
    case SIM_F16X2:
    case SIM_BF16:
    case SIM_BF16X2:
        return add_halves(in, a, b);
    default:
        return a + b;
    }
}

static uint64_t combine(const sim_insn *in, uint64_t old, uint64_t b, uint64_t c)
{
    const unsigned bits = sim_type_bits((enum sim_type)in->type);
    const bool is_signed = sim_type_signed((enum sim_type)in->type);
    const bool less =
        is_signed ? sim_signed(bits, old) < sim_signed(bits, b) : old < sim_cut(bits, b);
    switch (in->mode) {
    case ADD:
        return add(in, old, b);
    case EXCH:
        return b;
    case CAS:
        return old == sim_cut(bits, b) ? c : old;
    case MIN:
        return less ? old : b;
    case MAX:
        return less ? b : old;
    case INC:
        return old >= b ? 0 : old + 1;
    case DEC:
        return old == 0 || old > b ? b : old - 1;
    case AND:
        return old & b;
    case OR:
        return old | b;
    default:
        return old ^ b;
    }
}

static enum sim_step exec_atomic(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const bool returns = in->mode2 != 0;
    const sim_operand *address = &in->arg[returns ? 1 : 0], *second = address + 1;
    const unsigned bytes = sim_type_bits((enum sim_type)in->type) / 8;
    sim_grid *grid = warp->block->grid;
    const bool lock = grid->threads > 1 && in->space != SIM_SPACE_SHARED;
    uint64_t b[SIM_LANES], c[SIM_LANES] = {0}, result[SIM_LANES] = {0};
    sim_values(warp, second, b);
    if (in->mode == CAS) {
        sim_values(warp, second + 1, c);
    }
    if (lock) {
        pthread_mutex_lock(&grid->atomics);
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        uint8_t *at = sim_reach(warp, in, lane, (enum sim_space)in->space,
                                sim_address(warp, address, lane), bytes, SIM_CHANGES);
        if (at == NULL) {
            break;
        }
        memcpy(&result[lane], at, bytes);
        const uint64_t changed = combine(in, result[lane], b[lane], c[lane]);
        const bool differs = memcmp(at, &changed, bytes) != 0;
        warp->block->events += differs;
        warp->block->polls += !differs;
        memcpy(at, &changed, bytes);
    }
    if (lock) {
        pthread_mutex_unlock(&grid->atomics);
    }
    if (returns) {
        sim_put(warp, &in->arg[0], mask, result);
    }
    return SIM_NEXT;
}

bool sim_decode_atomic(sim_linker *linker, sim_insn *in)
{
    static const char *const ops[] = {"add", "exch", "cas", "min", "max", "inc",
                                      "dec", "and",  "or",  "xor", NULL};
    static const char *const spaces[] = {"global", "shared", "shared::cta", "shared::cluster",
                                         NULL};
    const bool returns = strcmp(linker->part[0], "atom") == 0;
    const int op = sim_take_of(linker, ops), space = sim_take_of(linker, spaces);
    sim_take_scopes(linker);
    sim_take(linker, "noftz");
    const bool policy = sim_take(linker, "L2::cache_hint");
    in->type = (uint8_t)sim_take_type(linker);
    in->mode = (uint8_t)op;
    in->mode2 = returns;
    in->space = space < 0 ? SIM_SPACE_GENERIC : space == 0 ? SIM_SPACE_GLOBAL : SIM_SPACE_SHARED;
    in->exec = exec_atomic;
    const unsigned bits = sim_type_bits((enum sim_type)in->type);
    const bool is_float = sim_type_float((enum sim_type)in->type);
    if (op < 0 || bits < 16 || bits > 64 || (is_float && op != ADD)) {
        return false;
    }
    if (op == CAS) {
        return returns && sim_operands(linker, in, policy ? "dmssl" : "dmss");
    }
    return sim_operands(linker, in, returns ? (policy ? "dmsl" : "dms") : (policy ? "msl" : "ms"));
}
