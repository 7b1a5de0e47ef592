/* SPDX-License-Identifier: Apache-2.0
 *
 * bar.sync, bar.arrive, bar.red, barrier.* and bar.warp.sync. Barriers of a block order shared
 * memory: see race.c. PTX ISA, "bar", "barrier", "bar.warp.sync".
 */
#include "decode.h"
#include "machine.h"

enum { REDUCE_NONE, REDUCE_AND, REDUCE_OR, REDUCE_POPC };

static uint32_t threads_alive(const sim_block *block)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < block->warps; ++i) {
        count += (uint32_t)__builtin_popcount(block->warp[i].alive);
    }
    return count;
}

static void deliver_votes(sim_warp *warp, const sim_group *g, const sim_barrier *b)
{
    const sim_insn *in = &warp->function->code[g->pc - 1];
    if (in->mode == REDUCE_NONE) {
        return;
    }
    if (in->mode == REDUCE_POPC) {
        uint32_t value[SIM_LANES];
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            value[lane] = b->votes_true;
        }
        sim_put32(warp, &in->arg[0], g->mask, value);
        return;
    }
    const bool holds = in->mode == REDUCE_AND ? b->votes_true == b->votes : b->votes_true != 0;
    sim_put_predicate(warp, &in->arg[0], g->mask, holds ? SIM_ALL_LANES : 0);
}

void sim_barrier_check(sim_block *block, uint32_t index)
{
    sim_barrier *b = &block->barrier[index];
    const uint32_t alive = threads_alive(block);
    const uint32_t expected = b->counted ? b->expected : alive;
    if (b->arrived == 0 || b->arrived < expected) {
        return;
    }
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        for (uint32_t j = 0; j < warp->groups; ++j) {
            sim_group *g = &warp->group[j];
            if (g->state != SIM_WAITS_BARRIER || g->barrier != index) {
                continue;
            }
            deliver_votes(warp, g, b);
            sim_race_acquire(warp, &b->clock, block);
            g->state = SIM_RUNS;
        }
    }
    ++block->events;
    memset(b, 0, sizeof *b);
}

static bool uniform(sim_warp *warp, const sim_insn *in, const sim_operand *o, uint32_t mask,
                    uint32_t *value)
{
    *value = (uint32_t)sim_value(warp, o, __builtin_ctz(mask));
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        if ((uint32_t)sim_value(warp, o, __builtin_ctz(left)) != *value) {
            return sim_fault(warp, in, __builtin_ctz(left), SIM_DIVERGED,
                             "lanes name different barriers or counts");
        }
    }
    return true;
}

static enum sim_step exec_barrier(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_block *block = warp->block;
    sim_group *g = &warp->group[warp->current];
    const bool arrives = in->mode2 != 0;
    const uint32_t first = in->mode != REDUCE_NONE; /* operand of the barrier's number */
    const uint32_t operands = in->args - first - (in->mode != REDUCE_NONE);
    uint32_t index = 0, count = 0;
    if (!uniform(warp, in, &in->arg[first], mask, &index) ||
        (operands > 1 && !uniform(warp, in, &in->arg[first + 1], mask, &count))) {
        return SIM_NEXT;
    }
    if (index >= SIM_BARRIERS || (operands > 1 && (count == 0 || count % SIM_LANES != 0))) {
        sim_fault(warp, in, -1, SIM_MEMORY, "barrier %u for %u threads", index, count);
        return SIM_NEXT;
    }
    sim_barrier *b = &block->barrier[index];
    if (b->arrived != 0 && (b->counted != (operands > 1) || b->expected != count)) {
        sim_fault(warp, in, -1, SIM_DEADLOCK, "barrier %u is for %u threads here and for %u there",
                  index, count, b->expected);
        return SIM_NEXT;
    }
    b->counted = operands > 1;
    b->expected = count;
    /* With a count, an aligned warp stands for 32 threads however many it has. */
    const bool whole = in->need != SIM_NEED_NOTHING && operands > 1;
    b->arrived += whole ? (uint32_t)SIM_LANES : (uint32_t)__builtin_popcount(mask);
    if (b->counted && b->arrived > count) {
        sim_fault(warp, in, -1, SIM_DEADLOCK, "%u threads come to barrier %u of %u", b->arrived,
                  index, count);
        return SIM_NEXT;
    }
    if (in->mode != REDUCE_NONE) {
        const uint32_t votes = sim_true_lanes(warp, &in->arg[in->args - 1]) & mask;
        b->votes += (uint32_t)__builtin_popcount(mask);
        b->votes_true += (uint32_t)__builtin_popcount(votes);
    }
    sim_race_publish(warp, &b->clock, block);
    sim_race_tick(warp);
    const uint32_t pc = g->pc + 1;
    if (mask != g->mask) {
        sim_move_lanes(warp, g->mask & ~mask, pc);
        g = &warp->group[warp->current];
    }
    g->pc = pc;
    if (!arrives) {
        g->state = SIM_WAITS_BARRIER;
        g->barrier = (uint8_t)index;
    }
    sim_barrier_check(block, index);
    return SIM_MOVED;
}

static enum sim_step exec_warp_sync(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return sim_lanes_complete(warp, in, mask, &in->arg[0]) ? SIM_NEXT : SIM_RETRY;
}

bool sim_decode_barrier(sim_linker *linker, sim_insn *in)
{
    static const char *const kinds[] = {"sync", "arrive", "red", NULL};
    static const char *const reductions[] = {"and", "or", "popc", NULL};
    if (sim_take(linker, "cluster")) {
        return sim_decode_cluster_barrier(linker, in);
    }
    if (sim_take(linker, "warp")) {
        in->exec = exec_warp_sync;
        return sim_take(linker, "sync") && sim_operands(linker, in, "w");
    }
    sim_take(linker, "cta");
    const int kind = sim_take_of(linker, kinds);
    const bool aligned = sim_take(linker, "aligned") || linker->part[0][3] == 0;
    in->need = aligned ? SIM_NEED_LIVE : SIM_NEED_NOTHING;
    in->exec = exec_barrier;
    in->mode2 = kind == 1;
    if (kind < 0) {
        return false;
    }
    if (kind != 2) {
        return sim_operands(linker, in, kind == 1 ? "ww" : "w?w");
    }
    in->mode = (uint8_t)(sim_take_of(linker, reductions) + 1);
    in->type = (uint8_t)sim_take_type(linker);
    const bool counted = in->args == 4;
    return in->mode != 0 && sim_operands(linker, in,
                                         in->mode == REDUCE_POPC ? (counted ? "Wwwp" : "Wwp")
                                                                 : (counted ? "Pwwp" : "Pwp"));
}
