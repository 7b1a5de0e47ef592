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
    sim_cluster_check(warp->block->cluster);
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

/* Lanes whose results come from registers that were never written: compilers compute ahead of a
 * choice what it may not choose. Other instructions may not read such registers. */
static bool find_unset(sim_warp *warp, const sim_insn *in, uint32_t mask, uint32_t *unset)
{
    for (uint32_t i = 0; i < in->read_count; ++i) {
        *unset |= mask & ~warp->written[in->reads[i]];
    }
    return *unset == 0 || in->lanewise ? true
                                       : sim_fault(warp, in, __builtin_ctz(*unset), SIM_UNSET,
                                                   "a source register was never written");
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
    block->lane_instructions +=
        mask == SIM_ALL_LANES ? SIM_LANES : (uint32_t)__builtin_popcount(mask);
    uint32_t unset = 0;
    if (block->failed || (strict && !in->carries && !find_unset(warp, in, mask, &unset))) {
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
                uint32_t *written = &warp->written[in->writes[i]];
                *written = (*written | mask) & ~unset;
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

/* What the block's warps wait for, behind the text; and the likeliest culprit. */
typedef struct stuck {
    sim_warp *warp;
    const sim_group *at;
    uint32_t blame;
    char text[800];
    size_t used;
} stuck;

/* Lanes that others of their warp wait for are to blame, unless a barrier keeps these. */
static uint32_t blame_of(const sim_warp *warp, const sim_group *g)
{
    bool kept = false;
    for (uint32_t i = 0; i < warp->groups; ++i) {
        kept |= warp->group[i].state == SIM_WAITS_PHASE;
    }
    return g->state == SIM_WAITS_PHASE ? 1 : g->state == SIM_WAITS_LANES && !kept ? 2 : 0;
}

static void look_where(sim_block *block, stuck *s)
{
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        for (uint32_t j = 0; j < warp->groups; ++j) {
            const sim_group *g = &warp->group[j];
            const uint32_t blame = blame_of(warp, g);
            const bool better = s->at == NULL || blame > s->blame;
            s->blame = better ? blame : s->blame;
            s->warp = better ? warp : s->warp;
            s->at = better ? g : s->at;
            if (s->used < sizeof s->text - 1) {
                const sim_insn *in = where(warp, g);
                const char *const between = s->used != 0 ? "; " : "";
                const int n = block->cluster->blocks == 1
                                  ? snprintf(s->text + s->used, sizeof s->text - s->used,
                                             "%swarp %u lanes 0x%08x line %u `%.40s`", between, i,
                                             g->mask, in->line, in->text)
                                  : snprintf(s->text + s->used, sizeof s->text - s->used,
                                             "%sblock %u warp %u lanes 0x%08x line %u `%.40s`",
                                             between, block->rank, i, g->mask, in->line, in->text);
                s->used += n > 0 ? (size_t)n : 0;
            }
        }
    }
}

/* Nobody can run: says who waits where. */
static void report_stuck(const sim_cluster *cluster)
{
    stuck s = {.text = ""};
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        look_where(cluster->block[i], &s);
    }
    if (s.warp == NULL) {
        return;
    }
    const bool lanes = s.at->state == SIM_WAITS_LANES;
    sim_fault(s.warp, where(s.warp, s.at), -1, lanes ? SIM_DIVERGED : SIM_DEADLOCK,
              lanes ? "only lanes 0x%08x of 0x%08x came. %s"
                    : "nobody can go on (lanes 0x%08x of 0x%08x). %s",
              s.at->mask, s.warp->alive, s.text);
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

/* Lets a copy of some block land, or waits give up. False when there are none. */
static bool force_any(const sim_cluster *cluster, bool (*force)(sim_block *))
{
    const uint32_t first = sim_random(cluster->block[0]) % cluster->blocks;
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        if (force(cluster->block[(first + i) % cluster->blocks])) {
            return true;
        }
    }
    return false;
}

static void forget_polls(sim_cluster *cluster, uint32_t kept)
{
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        cluster->block[i]->polls = i == 0 ? kept : 0;
    }
}

/* Warps run and nothing changes: they may read a flag again and again that a copy that has not
 * landed keeps another warp from setting, or another block. */
static void help_quiet(sim_cluster *cluster)
{
    uint64_t events = 0, instructions = 0;
    uint32_t polls = 0;
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        events += cluster->block[i]->events;
        instructions += cluster->block[i]->instructions;
        polls += cluster->block[i]->polls;
    }
    if (cluster->events_seen != events) {
        cluster->events_seen = events;
        cluster->quiet_since = instructions;
        forget_polls(cluster, 0);
        return;
    }
    if (polls > POLLS_FOR_COPY && force_any(cluster, sim_async_force)) {
        return;
    }
    if (polls > POLLS_FOR_BLOCK) {
        forget_polls(cluster, POLLS_FOR_COPY);
        sim_grid_help(cluster);
    }
    if (instructions - cluster->quiet_since > IN_VAIN && cluster->block[0]->grid->threads == 1) {
        report_stuck(cluster);
    }
}

/* Nothing of a block is left to run. */
static void end_block(sim_block *block)
{
    block->left = true;
    sim_async_end(block);
    sim_registers_end(block);
}

/* Warps that can run; those of blocks that have left are no more. */
static uint32_t find_ready(const sim_cluster *cluster, sim_warp **ready, uint32_t *left)
{
    uint32_t count = 0;
    *left = 0;
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        sim_block *block = cluster->block[i];
        uint32_t alive = 0;
        for (uint32_t j = 0; j < block->warps && !block->left; ++j) {
            alive += block->warp[j].groups != 0;
            if (can_run(&block->warp[j])) {
                ready[count++] = &block->warp[j];
            }
        }
        if (alive == 0 && !block->left) {
            end_block(block);
        }
        *left += alive;
    }
    return count;
}

void sim_cluster_run(sim_cluster *cluster)
{
    sim_warp *ready[SIM_MAX_WARPS * SIM_MOST_BLOCKS];
    sim_block *first = cluster->block[0];
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        for (uint32_t j = 0; j < first->warps; ++j) {
            sim_special_fill(&cluster->block[i]->warp[j]);
        }
    }
    while (!first->failed) {
        uint32_t left = 0;
        const uint32_t count = find_ready(cluster, ready, &left);
        if (left == 0 || first->failed) {
            return;
        }
        if (count == 0) {
            if (force_any(cluster, sim_async_force) || force_any(cluster, sim_async_expire)) {
                continue;
            }
            report_stuck(cluster);
            return;
        }
        sim_warp *warp = ready[sim_random(first) % count];
        run_slice(warp);
        if (!over_limit(warp->block)) {
            help_quiet(cluster);
        }
    }
}
