/* SPDX-License-Identifier: Apache-2.0
 *
 * What lanes of a warp do together: shfl, vote, match, redux, elect, activemask. Each waits until
 * all lanes of its member mask are here. PTX ISA, "shfl.sync", "vote.sync", "match.sync",
 * "redux.sync", "elect.sync".
 */
#include "apply.h"
#include "decode.h"
#include "number.h"

bool sim_lanes_complete(sim_warp *warp, const sim_insn *in, uint32_t mask,
                        const sim_operand *members)
{
    bool complete = true;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t named = (uint32_t)sim_value(warp, members, lane);
        if ((named >> lane & 1) == 0) {
            return sim_fault(warp, in, lane, SIM_DIVERGED,
                             "the lane is not in its own member mask 0x%08x", named);
        }
        if ((named & warp->born & ~warp->alive) != 0) {
            return sim_fault(warp, in, lane, SIM_DIVERGED,
                             "the member mask 0x%08x names lanes that have left (0x%08x are here)",
                             named, warp->alive);
        }
        complete = complete && (named & warp->alive & ~mask) == 0;
    }
    return complete;
}

static uint32_t members_of(const sim_warp *warp, const sim_operand *members, int lane)
{
    return (uint32_t)sim_value(warp, members, lane);
}

/* ---- shfl ---- */

enum { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };

/* The lane that is read, and whether it is inside of the segment. */
static int shuffle_source(unsigned mode, int lane, uint32_t b, uint32_t c, bool *inside)
{
    const int clamp = (int)(c & 31), segment = (int)(c >> 8 & 31), distance = (int)(b & 31);
    const int least = lane & segment, most = least | (clamp & ~segment);
    int from;
    switch (mode) {
    case SHUFFLE_UP:
        from = lane - distance;
        *inside = from >= most;
        break;
    case SHUFFLE_DOWN:
        from = lane + distance;
        *inside = from <= most;
        break;
    case SHUFFLE_BFLY:
        from = lane ^ distance;
        *inside = from <= most;
        break;
    default:
        from = least | (distance & ~segment);
        *inside = from <= most;
        break;
    }
    return *inside ? from : lane;
}

static enum sim_step exec_shuffle(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    if (!sim_lanes_complete(warp, in, mask, &in->arg[4])) {
        return SIM_RETRY;
    }
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    const uint32_t *c = sim_row32(warp, &in->arg[3]);
    uint32_t r[SIM_LANES] = {0}, inside = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        bool fits;
        const int from = shuffle_source(in->mode, lane, b[lane], c[lane], &fits);
        if ((mask >> from & 1) == 0) {
            sim_fault(warp, in, lane, SIM_DIVERGED, "reads lane %d, which is not here", from);
            return SIM_NEXT;
        }
        r[lane] = a[from];
        inside |= (uint32_t)fits << lane;
    }
    const sim_operand *to = &in->arg[0];
    if (to->kind == SIM_REGISTER && to->width == 32) {
        sim_put32(warp, to, mask, r);
    }
    if (to->reg2 != SIM_NO_REGISTER) {
        uint32_t *p = &warp->predicate[to->slot2];
        *p = (*p & ~mask) | (inside & mask);
    }
    return SIM_NEXT;
}

bool sim_decode_shuffle(sim_linker *linker, sim_insn *in)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    const int mode = sim_take_of(linker, modes);
    const bool sync = sim_take(linker, "sync");
    in->mode = (uint8_t)mode;
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_shuffle;
    return sync && mode >= 0 && in->type == SIM_B32 && sim_operands(linker, in, "dswww");
}

/* ---- vote ---- */

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static enum sim_step exec_vote(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    if (!sim_lanes_complete(warp, in, mask, &in->arg[2])) {
        return SIM_RETRY;
    }
    const uint32_t votes = sim_true_lanes(warp, &in->arg[1]);
    uint32_t r[SIM_LANES] = {0}, holds = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t members = members_of(warp, &in->arg[2], lane) & warp->alive;
        const uint32_t yes = votes & members;
        const bool all = yes == members, none = yes == 0;
        const bool result = in->mode == VOTE_ALL ? all : in->mode == VOTE_ANY ? !none : all || none;
        holds |= (uint32_t)result << lane;
        r[lane] = yes;
    }
    if (in->mode == VOTE_BALLOT) {
        sim_put32(warp, &in->arg[0], mask, r);
    } else {
        sim_put_predicate(warp, &in->arg[0], mask, holds);
    }
    return SIM_NEXT;
}

bool sim_decode_vote(sim_linker *linker, sim_insn *in)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    const int mode = sim_take_of(linker, modes);
    const bool sync = sim_take(linker, "sync");
    in->mode = (uint8_t)mode;
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_vote;
    return sync && mode >= 0 && sim_operands(linker, in, mode == VOTE_BALLOT ? "dpw" : "Ppw");
}

/* ---- match ---- */

static enum sim_step exec_match(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    if (!sim_lanes_complete(warp, in, mask, &in->arg[2])) {
        return SIM_RETRY;
    }
    uint64_t a[SIM_LANES];
    uint32_t r[SIM_LANES] = {0}, all = 0;
    sim_values(warp, &in->arg[1], a);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t members = members_of(warp, &in->arg[2], lane) & warp->alive;
        uint32_t same = 0;
        for (uint32_t others = members; others != 0; others &= others - 1) {
            const int other = __builtin_ctz(others);
            same |= (uint32_t)(a[other] == a[lane]) << other;
        }
        const bool every = same == members;
        r[lane] = in->mode == 0 || every ? same : 0;
        all |= (uint32_t)every << lane;
    }
    sim_put32(warp, &in->arg[0], mask, r);
    if (in->arg[0].reg2 != SIM_NO_REGISTER) {
        uint32_t *p = &warp->predicate[in->arg[0].slot2];
        *p = (*p & ~mask) | (all & mask);
    }
    return SIM_NEXT;
}

bool sim_decode_match(sim_linker *linker, sim_insn *in)
{
    static const char *const modes[] = {"any", "all", NULL};
    const int mode = sim_take_of(linker, modes);
    const bool sync = sim_take(linker, "sync");
    in->mode = (uint8_t)mode;
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_match;
    return sync && mode >= 0 && sim_type_bits((enum sim_type)in->type) >= 32 &&
           sim_operands(linker, in, "Wsw");
}

/* ---- redux ---- */

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

static uint32_t reduce_two(const sim_insn *in, uint32_t x, uint32_t y)
{
    const bool less = in->type == SIM_S32   ? (int32_t)x < (int32_t)y
                      : in->type == SIM_F32 ? sim_f32(x) < sim_f32(y)
                                            : x < y;
    switch (in->mode) {
    case REDUX_ADD:
        return x + y;
    case REDUX_MIN:
        return less ? x : y;
    case REDUX_MAX:
        return less ? y : x;
    case REDUX_AND:
        return x & y;
    case REDUX_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static enum sim_step exec_redux(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    if (!sim_lanes_complete(warp, in, mask, &in->arg[2])) {
        return SIM_RETRY;
    }
    const uint32_t *a = sim_row32(warp, &in->arg[1]);
    uint32_t r[SIM_LANES] = {0};
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        uint32_t members = members_of(warp, &in->arg[2], lane) & warp->alive;
        uint32_t value = a[__builtin_ctz(members)];
        for (members &= members - 1; members != 0; members &= members - 1) {
            value = reduce_two(in, value, a[__builtin_ctz(members)]);
        }
        r[lane] = value;
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

bool sim_decode_redux(sim_linker *linker, sim_insn *in)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
    const int op = sim_take_of(linker, ops);
    const bool sync = sim_take(linker, "sync");
    in->mode = (uint8_t)op;
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_redux;
    const bool ordered = op == REDUX_MIN || op == REDUX_MAX;
    return sync && op >= 0 &&
           (in->type == SIM_U32 || in->type == SIM_S32 || in->type == SIM_B32 ||
            (in->type == SIM_F32 && ordered)) &&
           sim_operands(linker, in, "dsw");
}

/* ---- elect, activemask ---- */

static enum sim_step exec_elect(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    if (!sim_lanes_complete(warp, in, mask, &in->arg[1])) {
        return SIM_RETRY;
    }
    const sim_operand *to = &in->arg[0];
    uint32_t r[SIM_LANES] = {0}, elected = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t members = members_of(warp, &in->arg[1], lane) & warp->alive;
        r[lane] = (uint32_t)__builtin_ctz(members);
        elected |= (uint32_t)(r[lane] == (uint32_t)lane) << lane;
    }
    if (to->kind == SIM_REGISTER && to->width == 32 && to->reg != SIM_NO_REGISTER) {
        sim_put32(warp, to, mask, r);
    }
    if (to->reg2 != SIM_NO_REGISTER) {
        uint32_t *p = &warp->predicate[to->slot2];
        *p = (*p & ~mask) | (elected & mask);
    }
    return SIM_NEXT;
}

bool sim_decode_elect(sim_linker *linker, sim_insn *in)
{
    in->exec = exec_elect;
    return sim_take(linker, "sync") && in->args == 2 && in->arg[0].reg2 != SIM_NO_REGISTER &&
           sim_operands(linker, in, "xw");
}

static enum sim_step exec_activemask(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint32_t r[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        r[lane] = mask;
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

bool sim_decode_activemask(sim_linker *linker, sim_insn *in)
{
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_activemask;
    return in->type == SIM_B32 && sim_operands(linker, in, "d");
}
