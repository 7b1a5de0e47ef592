/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a block's warps in a seeded random order, each for a random number of instructions at a
 * time. The lanes of a warp fall into groups at the same instruction; the group that is furthest
 * behind usually runs (so that they meet again), sometimes another. Groups that meet become one.
 */
#include <stdio.h>

#include "async.h"
#include "grid.h"
#include "parse.h"
#include "wgmma.h"

enum { LONGEST_SLICE = 96 };
/* Looks at what may be a flag, without an event between, after which a block is taken to wait for a
 * copy, or for another block; and instructions after which it does so in vain. */
enum { POLLS_FOR_COPY = 24, POLLS_FOR_BLOCK = 200, IN_VAIN = 100000000 };

/* A group that came to an instruction where another one is, or waits, becomes one with it. */
static void merge_groups(sim_warp *warp)
{
    sim_group *g = &warp->group[warp->current];
    for (uint32_t i = 0; i < warp->groups; ++i) {
        const sim_group *other = &warp->group[i];
        if (i == warp->current || other->pc != g->pc || other->state == SIM_WAITS_BARRIER) {
            continue;
        }
        g->mask |= other->mask;
        g->state = SIM_RUNS;
        g->expired |= other->expired;
        warp->group[i] = warp->group[--warp->groups];
        if (warp->current == warp->groups) {
            warp->current = i;
            g = &warp->group[i];
        }
        --i;
    }
}

static void drop_group(sim_warp *warp, uint32_t index)
{
    warp->group[index] = warp->group[--warp->groups];
    warp->current = 0;
}

/* Collectives that lacked lanes may be complete without those that left. */
static void wake_groups(sim_warp *warp)
{
    for (uint32_t i = 0; i < warp->groups; ++i) {
        if (warp->group[i].state == SIM_WAITS_LANES) {
            warp->group[i].state = SIM_RUNS;
        }
    }
}

void sim_move_lanes(sim_warp *warp, uint32_t lanes, uint32_t pc)
{
    sim_group *g = &warp->group[warp->current];
    if (lanes == g->mask) {
        g->pc = pc;
        return;
    }
    g->mask &= ~lanes;
    warp->group[warp->groups++] = (sim_group){.pc = pc, .mask = lanes, .state = SIM_RUNS};
}

void sim_exit_lanes(sim_warp *warp, uint32_t lanes)
{
    sim_group *g = &warp->group[warp->current];
    warp->alive &= ~lanes;
    g->mask &= ~lanes;
    if (g->mask == 0) {
        drop_group(warp, warp->current);
    }
    wake_groups(warp);
    for (uint32_t i = 0; i < SIM_BARRIERS; ++i) {
        sim_barrier_check(warp->block, i);
    }
}

/* The group to run next: the one furthest behind, at times another; false when all wait. */
static bool choose_group(sim_warp *warp, bool any)
{
    uint32_t best = UINT32_MAX, runnable = 0;
    for (uint32_t i = 0; i < warp->groups; ++i) {
        const sim_group *g = &warp->group[i];
        if (g->state != SIM_RUNS) {
            continue;
        }
        ++runnable;
        const bool better = best == UINT32_MAX || g->pc < warp->group[best].pc;
        if (any ? sim_random(warp->block) % runnable == 0 : better) {
            best = i;
        }
    }
    warp->current = best == UINT32_MAX ? 0 : best;
    if (best != UINT32_MAX && warp->groups > 1) {
        merge_groups(warp);
    }
    return best != UINT32_MAX;
}

static bool read_unset(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    for (uint32_t i = 0; i < in->read_count; ++i) {
        const uint32_t missing = mask & ~warp->written[in->reads[i]];
        if (missing != 0) {
            return sim_fault(warp, in, __builtin_ctz(missing), SIM_UNSET,
                             "a source register was never written");
        }
    }
    return true;
}

static uint32_t guarded(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t missing = mask & ~warp->written[in->guard_reg];
    if (missing != 0 && !warp->block->config->options.no_registers) {
        sim_fault(warp, in, __builtin_ctz(missing), SIM_UNSET, "the guard was never written");
        return 0;
    }
    const uint32_t lanes = warp->predicate[in->guard];
    return mask & (in->guard_not ? ~lanes : lanes);
}

/* One instruction of the current group; false when the slice ends. */
static bool run_instruction(sim_warp *warp, bool strict)
{
    sim_block *block = warp->block;
    sim_group *g = &warp->group[warp->current];
    const sim_insn *in = &warp->function->code[g->pc];
    const uint32_t whole = g->mask;
    if (in->need != SIM_NEED_NOTHING && whole != warp->alive) {
        g->state = SIM_WAITS_LANES;
        return choose_group(warp, false);
    }
    uint32_t mask = whole;
    if (in->has_guard) {
        mask = guarded(warp, in, whole);
        if (in->need != SIM_NEED_NOTHING && mask != 0 && mask != whole) {
            return sim_fault(warp, in, -1, SIM_DIVERGED,
                             "the guard holds in lanes 0x%08x only, not in 0x%08x", mask, whole);
        }
    }
    if (mask != SIM_ALL_LANES && mask != 0 && in->need == SIM_NEED_ALL) {
        return sim_fault(warp, in, -1, SIM_DIVERGED, "the lanes 0x%08x have left", ~mask);
    }
    ++block->instructions;
    block->lane_instructions += (uint32_t)__builtin_popcount(mask);
    if (block->failed || (strict && !in->carries && !read_unset(warp, in, mask))) {
        return false;
    }
    if (warp->wgmma != NULL && mask != 0 && !sim_wgmma_touch(warp, in)) {
        return false;
    }
    enum sim_step step = SIM_NEXT;
    if (mask != 0) {
        step = in->exec(warp, in, mask);
        if (!in->carries) {
            for (uint32_t i = 0; i < in->write_count; ++i) {
                warp->written[in->writes[i]] |= mask;
            }
        }
    }
    switch (step) {
    case SIM_NEXT:
    case SIM_YIELD:
        ++warp->group[warp->current].pc;
        break;
    case SIM_RETRY:
        warp->group[warp->current].state = SIM_WAITS_LANES;
        break;
    case SIM_PARK:
        warp->group[warp->current].state = SIM_WAITS_PHASE;
        break;
    case SIM_MOVED:
        break;
    }
    if (block->failed || warp->groups == 0) {
        return false;
    }
    if (warp->groups > 1 || step != SIM_NEXT) {
        if (warp->group[warp->current].state == SIM_RUNS) {
            merge_groups(warp);
        }
        if (step == SIM_MOVED || warp->group[warp->current].state != SIM_RUNS) {
            return choose_group(warp, false);
        }
    }
    return step != SIM_YIELD;
}

static void run_slice(sim_warp *warp)
{
    sim_block *block = warp->block;
    const bool strict = !block->config->options.no_registers;
    if (!choose_group(warp, warp->groups > 1 && sim_random(block) % 8 == 0)) {
        return;
    }
    if (warp->copies != 0 && block->config->options.delay == SIM_DELAY_RANDOM &&
        sim_random(block) % 4 == 0) {
        sim_copy_land_random(warp);
    }
    sim_async_slice(block);
    if (warp->wgmma != NULL && block->config->options.delay == SIM_DELAY_RANDOM &&
        sim_random(block) % 4 == 0) {
        sim_wgmma_advance(warp);
    }
    uint32_t left = 1 + sim_random(block) % LONGEST_SLICE;
    while (left-- != 0 && run_instruction(warp, strict)) {
    }
}

static bool can_run(const sim_warp *warp)
{
    for (uint32_t i = 0; i < warp->groups; ++i) {
        if (warp->group[i].state == SIM_RUNS) {
            return true;
        }
    }
    return false;
}

static const sim_insn *where(const sim_warp *warp, const sim_group *g)
{
    return &warp->function->code[g->state == SIM_WAITS_BARRIER ? g->pc - 1 : g->pc];
}

/* Nobody can run: says who waits where. A collective that lacks lanes is the likelier culprit. */
static void report_stuck(sim_block *block)
{
    sim_warp *culprit = NULL;
    const sim_group *at = NULL;
    char text[800];
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        for (uint32_t j = 0; j < warp->groups; ++j) {
            const sim_group *g = &warp->group[j];
            const bool better =
                at == NULL || (at->state != SIM_WAITS_LANES && g->state == SIM_WAITS_LANES);
            culprit = better ? warp : culprit;
            at = better ? g : at;
            if (used < sizeof text - 1) {
                const sim_insn *in = where(warp, g);
                const int n = snprintf(text + used, sizeof text - used,
                                       "%swarp %u lanes 0x%08x line %u `%.40s`",
                                       used != 0 ? "; " : "", i, g->mask, in->line, in->text);
                used += n > 0 ? (size_t)n : 0;
            }
        }
    }
    if (culprit == NULL) {
        return;
    }
    const bool lanes = at->state == SIM_WAITS_LANES;
    sim_fault(culprit, where(culprit, at), -1, lanes ? SIM_DIVERGED : SIM_DEADLOCK,
              lanes ? "only lanes 0x%08x of 0x%08x came. %s"
                    : "nobody can go on (lanes 0x%08x of 0x%08x). %s",
              at->mask, culprit->alive, text);
}

static bool over_limit(sim_block *block)
{
    const uint64_t limit = block->config->options.limit;
    if (block->instructions <= (limit != 0 ? limit : UINT64_C(4000000000))) {
        return false;
    }
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        if (warp->groups != 0) {
            sim_fault(warp, where(warp, &warp->group[0]), -1, SIM_LIMIT,
                      "the block ran %llu instructions", (unsigned long long)block->instructions);
        }
    }
    return true;
}

/* Warps run and nothing changes: they may read a flag again and again that a copy that has not
 * landed keeps another warp from setting, or another block. */
static void help_quiet(sim_block *block)
{
    if (block->events_seen != block->events) {
        block->events_seen = block->events;
        block->quiet_since = block->instructions;
        block->polls = 0;
        return;
    }
    if (block->polls > POLLS_FOR_COPY && sim_async_force(block)) {
        return;
    }
    if (block->polls > POLLS_FOR_BLOCK) {
        block->polls = POLLS_FOR_COPY;
        sim_grid_help(block);
    }
    if (block->instructions - block->quiet_since > IN_VAIN && block->grid->threads == 1) {
        report_stuck(block);
    }
}

void sim_block_run(sim_block *block)
{
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_special_fill(&block->warp[i]);
    }
    while (!block->failed && !over_limit(block)) {
        uint32_t ready[SIM_MAX_WARPS], count = 0, left = 0;
        for (uint32_t i = 0; i < block->warps; ++i) {
            left += block->warp[i].groups != 0;
            if (can_run(&block->warp[i])) {
                ready[count++] = i;
            }
        }
        if (left == 0) {
            sim_async_end(block);
            sim_registers_end(block);
            return;
        }
        if (count == 0) {
            if (sim_async_force(block) || sim_async_expire(block)) {
                continue;
            }
            report_stuck(block);
            return;
        }
        run_slice(&block->warp[ready[sim_random(block) % count]]);
        help_quiet(block);
    }
}
