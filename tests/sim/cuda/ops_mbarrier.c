/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarriers: phases that end when so many threads have arrived and so many bytes have come. The
 * object itself is kept beside shared memory; its eight bytes there can only be named. A wait parks
 * its lanes until the phase is over, and at times answers false before, as hardware may. PTX ISA,
 * "mbarrier".
 */
#include <stdlib.h>

#include "bulk.h"
#include "decode.h"

enum { MOST_COUNT = (1 << 20) - 1 };
enum { WAIT_STATE, WAIT_PARITY };

/* ---- the object ---- */

static sim_mbarrier *find(const sim_block *block, uint32_t offset, uint32_t *slot)
{
    const struct sim_async *a = block->async;
    const uint32_t found = a->slot_at[offset / 8];
    if (found == 0) {
        return NULL;
    }
    *slot = found - 1;
    return a->mbarrier[*slot];
}

static void wake(sim_block *block, uint32_t slot)
{
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        for (uint32_t j = 0; j < warp->groups; ++j) {
            sim_group *g = &warp->group[j];
            if (g->state == SIM_WAITS_PHASE && (g->slot == slot || g->slot == SIM_ANY_SLOT)) {
                g->state = SIM_RUNS;
            }
        }
    }
}

void sim_mbarrier_check(sim_block *block, uint32_t slot)
{
    sim_mbarrier *m = block->async->mbarrier[slot];
    ++block->events;
    if (m->pending != 0 || m->tx != 0) {
        return;
    }
    ++m->phase;
    m->pending = m->expected;
    memcpy(&m->done, &m->arriving, block->clocks * sizeof m->done.at[0]);
    m->done.at[block->first_channel + slot] = m->phase;
    memset(&m->arriving, 0, block->clocks * sizeof m->arriving.at[0]);
    wake(block, slot);
}

bool sim_mbarrier_find(sim_warp *warp, const sim_insn *in, int lane, sim_place place,
                       uint32_t *slot)
{
    if (place.offset % 8 != 0) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "shared offset %u is no multiple of 8",
                         place.offset);
    }
    const sim_mbarrier *m = find(place.block, place.offset, slot);
    if (m == NULL || !m->live) {
        return sim_fault(warp, in, lane, SIM_UNSET,
                         "no mbarrier was initialised at shared offset %u", place.offset);
    }
    return sim_race_read(warp, in, lane, place, 8);
}

bool sim_mbarrier_at(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                     sim_place *place, uint32_t *slot)
{
    if (in->space == SIM_SPACE_GENERIC) {
        address = sim_shared_address(warp, in, lane, address);
    }
    if (address == UINT64_MAX || !sim_shared_place(warp, in, lane, address, 8, place)) {
        return false;
    }
    return sim_mbarrier_find(warp, in, lane, *place, slot);
}

bool sim_mbarrier_arrive(sim_warp *warp, const sim_insn *in, int lane, sim_place place,
                         uint32_t slot, uint32_t count)
{
    sim_mbarrier *m = place.block->async->mbarrier[slot];
    if (count == 0 || count > m->pending) {
        return sim_fault(warp, in, lane, SIM_DEADLOCK,
                         "%u arrive at the mbarrier at shared offset %u, which waits for %u of %u",
                         count, m->offset, m->pending, m->expected);
    }
    m->pending -= count;
    sim_mbarrier_check(place.block, slot);
    return true;
}

bool sim_mbarrier_tx(sim_warp *warp, const sim_insn *in, int lane, sim_block *block, uint32_t slot,
                     int64_t bytes)
{
    sim_mbarrier *m = block->async->mbarrier[slot];
    const int64_t sum = m->tx + bytes;
    if (sum > MOST_COUNT || sum < -MOST_COUNT) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "the mbarrier at shared offset %u expects %lld bytes, at most %d can be",
                         m->offset, (long long)sum, MOST_COUNT);
    }
    m->tx = (int32_t)sum;
    return true;
}

/* ---- init, inval ---- */

static sim_mbarrier *make(sim_block *block, uint32_t offset, uint32_t *slot)
{
    struct sim_async *a = block->async;
    sim_mbarrier *m = find(block, offset, slot);
    if (m != NULL || a->mbarriers == SIM_MBARRIERS) {
        return m;
    }
    m = calloc(1, sizeof *m);
    if (m != NULL) {
        *slot = a->mbarriers;
        a->mbarrier[a->mbarriers++] = m;
        a->slot_at[offset / 8] = (uint16_t)a->mbarriers;
        m->offset = offset;
        ++block->clocks;
    }
    return m;
}

static bool init(sim_warp *warp, const sim_insn *in, int lane)
{
    sim_block *block = warp->block;
    const uint32_t count = (uint32_t)sim_value(warp, &in->arg[1], lane);
    uint64_t address = sim_address(warp, &in->arg[0], lane);
    sim_place place;
    uint32_t slot = 0;
    if (in->space == SIM_SPACE_GENERIC) {
        address = sim_shared_address(warp, in, lane, address);
    }
    if (address == UINT64_MAX || !sim_shared_place(warp, in, lane, address, 8, &place)) {
        return false;
    }
    uint8_t *state = block->state + place.offset;
    if (place.block != block || place.offset % 8 != 0 || count == 0 || count > MOST_COUNT) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "an mbarrier of %u at shared offset %u", count,
                         place.offset);
    }
    for (uint32_t i = 0; i < 8; ++i) {
        if (state[i] >= SIM_BYTE_COPIED) {
            return sim_fault(warp, in, lane, SIM_RACE, "shared offset %u %s", place.offset,
                             sim_held_by(state, 8));
        }
    }
    sim_mbarrier *m = make(block, place.offset, &slot);
    if (m == NULL) {
        return sim_fault(warp, in, lane, SIM_UNKNOWN, "more than %d mbarriers are not modelled",
                         SIM_MBARRIERS);
    }
    if (!sim_race_write(warp, in, lane, place, 8, false)) {
        return false;
    }
    memset(state, SIM_BYTE_MBARRIER, 8);
    m->live = true;
    m->expected = m->pending = count;
    m->tx = 0;
    m->first = m->phase;
    m->maker = warp;
    m->maker_lanes = 1u << lane;
    m->made = warp->clock.at[warp->member];
    memset(&m->arriving, 0, sizeof m->arriving);
    memset(&m->done, 0, sizeof m->done);
    ++block->events;
    return true;
}

static bool invalidate(sim_warp *warp, const sim_insn *in, int lane)
{
    sim_place place;
    uint32_t slot;
    if (!sim_mbarrier_at(warp, in, lane, sim_address(warp, &in->arg[0], lane), &place, &slot) ||
        !sim_race_write(warp, in, lane, place, 8, false)) {
        return false;
    }
    const struct sim_async *a = place.block->async;
    for (uint32_t i = 0; i < a->flights; ++i) {
        if (a->flight[i].kind != SIM_FLIGHT_STORE && a->flight[i].mbarrier == slot &&
            a->flight[i].shared.block == place.block) {
            return sim_fault(warp, in, lane, SIM_RACE, "a copy under way is to signal it");
        }
    }
    a->mbarrier[slot]->live = false;
    memset(place.block->state + place.offset, SIM_BYTE_UNSET, 8);
    return true;
}

static enum sim_step exec_init(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        if (!(in->mode != 0 ? invalidate(warp, in, lane) : init(warp, in, lane))) {
            break;
        }
    }
    return SIM_NEXT;
}

/* ---- arrive, expect_tx ---- */

/* What an arrival answers: the phase it is of, and how many were missing. */
static uint64_t token_of(const sim_mbarrier *m)
{
    return UINT64_C(1) << 63 | (uint64_t)m->phase << 20 | m->pending;
}

enum { ARRIVES = 1, EXPECTS = 2, DROPS = 4, RELAXED = 8 };

static bool arrive(sim_warp *warp, const sim_insn *in, int lane, uint64_t *token)
{
    const bool answers = (in->mode & ARRIVES) != 0;
    const sim_operand *address = &in->arg[answers ? 1 : 0], *number = address + 1;
    const bool numbered = in->args > (answers ? 2 : 1);
    const uint32_t value = numbered ? (uint32_t)sim_value(warp, number, lane) : 1;
    sim_place place;
    uint32_t slot;
    if (!sim_mbarrier_at(warp, in, lane, sim_address(warp, address, lane), &place, &slot)) {
        return false;
    }
    sim_mbarrier *m = place.block->async->mbarrier[slot];
    if (place.block != warp->block && answers && in->arg[0].kind != SIM_SINK) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "an mbarrier of another block has no state");
    }
    *token = token_of(m);
    if ((in->mode & EXPECTS) != 0 && !sim_mbarrier_tx(warp, in, lane, place.block, slot, value)) {
        return false;
    }
    if (!answers) {
        ++place.block->events;
        return true;
    }
    if ((in->mode & RELAXED) == 0) {
        sim_race_publish(warp, &m->arriving, place.block);
    }
    const uint32_t count = (in->mode & EXPECTS) != 0 ? 1 : value;
    if ((in->mode & DROPS) != 0 && count <= m->pending) {
        m->expected -= count;
    }
    return sim_mbarrier_arrive(warp, in, lane, place, slot, count);
}

static enum sim_step exec_arrive(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t token[SIM_LANES] = {0};
    bool fine = true;
    for (uint32_t left = mask; left != 0 && fine; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        fine = arrive(warp, in, lane, &token[lane]);
    }
    sim_race_tick(warp);
    if ((in->mode & ARRIVES) != 0) {
        sim_put(warp, &in->arg[0], mask, token);
    }
    return SIM_NEXT;
}

static enum sim_step exec_pending(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t value[SIM_LANES];
    sim_values(warp, &in->arg[1], value);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        value[lane] &= MOST_COUNT;
    }
    sim_put(warp, &in->arg[0], mask, value);
    return SIM_NEXT;
}

/* ---- test_wait, try_wait ---- */

/* Whether the lane's phase is over; acquires what those that ended it released. */
static bool is_over(sim_warp *warp, const sim_insn *in, int lane, bool *over, uint32_t *waits)
{
    sim_place place;
    uint32_t slot;
    if (!sim_mbarrier_at(warp, in, lane, sim_address(warp, &in->arg[1], lane), &place, &slot)) {
        return false;
    }
    *waits = *waits == UINT32_MAX || *waits == slot ? slot : SIM_ANY_SLOT;
    if (place.block != warp->block) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "a wait for an mbarrier of another block");
    }
    sim_mbarrier *m = place.block->async->mbarrier[slot];
    const uint64_t wanted = sim_value(warp, &in->arg[2], lane);
    if (in->mode == WAIT_PARITY) {
        if (wanted > 1) {
            return sim_fault(warp, in, lane, SIM_MEMORY, "%llu is no parity",
                             (unsigned long long)wanted);
        }
        *over = ((m->phase - m->first) & 1) != wanted;
    } else {
        const uint32_t since = m->phase - (uint32_t)(wanted >> 20);
        if (wanted >> 63 == 0 || since > 1) {
            return sim_fault(warp, in, lane, SIM_MEMORY,
                             "the state is not of this mbarrier's phase or the one before");
        }
        *over = since == 1;
    }
    if (*over) {
        m->seen = m->phase;
    }
    if (*over && in->mode2 == 0) {
        sim_race_acquire(warp, &m->done, place.block);
    }
    return true;
}

static enum sim_step exec_wait(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_group *g = &warp->group[warp->current];
    uint32_t over = 0, slot = UINT32_MAX;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        bool lane_over = false;
        if (!is_over(warp, in, lane, &lane_over, &slot)) {
            return SIM_NEXT;
        }
        over |= (uint32_t)lane_over << lane;
    }
    if (over == 0 && !g->expired && sim_random(warp->block) % 8 != 0) {
        g->slot = (uint16_t)slot;
        return SIM_PARK;
    }
    g->expired = false;
    sim_put_predicate(warp, &in->arg[0], mask, over);
    return over == mask ? SIM_NEXT : SIM_YIELD;
}

/* ---- decoding ---- */

static bool take_space(sim_linker *linker, sim_insn *in)
{
    static const char *const names[] = {"shared", "shared::cta", "shared::cluster", NULL};
    const int space = sim_take_of(linker, names);
    in->space = space < 0 ? SIM_SPACE_GENERIC : SIM_SPACE_SHARED;
    return sim_take(linker, "b64");
}

static bool decode_wait(sim_linker *linker, sim_insn *in)
{
    static const char *const scopes[] = {"cta", "cluster", NULL};
    const bool may_sleep = sim_take(linker, "try_wait");
    if (!may_sleep && !sim_take(linker, "test_wait")) {
        return false;
    }
    in->mode = sim_take(linker, "parity") ? WAIT_PARITY : WAIT_STATE;
    in->mode2 = sim_take(linker, "relaxed");
    sim_take(linker, "acquire");
    sim_take_of(linker, scopes);
    in->exec = exec_wait;
    const char *shape =
        in->mode == WAIT_PARITY ? (may_sleep ? "Pmw?w" : "Pmw") : (may_sleep ? "Pml?w" : "Pml");
    return take_space(linker, in) && sim_operands(linker, in, shape);
}

static bool decode_arrive(sim_linker *linker, sim_insn *in)
{
    static const char *const scopes[] = {"cta", "cluster", NULL};
    const bool drops = sim_take(linker, "arrive_drop");
    const bool arrives = drops || sim_take(linker, "arrive");
    const bool expects = sim_take(linker, "expect_tx");
    if (!arrives && !expects) {
        return false;
    }
    const bool relaxed = sim_take(linker, "relaxed");
    sim_take(linker, "release");
    sim_take_of(linker, scopes);
    in->mode = (uint8_t)((arrives ? ARRIVES : 0) | (expects ? EXPECTS : 0) | (drops ? DROPS : 0) |
                         (relaxed ? RELAXED : 0));
    in->exec = exec_arrive;
    in->type = SIM_B64;
    return take_space(linker, in) && sim_operands(linker, in,
                                                  !arrives  ? "mw"
                                                  : expects ? "dmw"
                                                            : "dm?w");
}

bool sim_decode_mbarrier(sim_linker *linker, sim_insn *in)
{
    if (sim_take(linker, "init")) {
        in->exec = exec_init;
        return take_space(linker, in) && sim_operands(linker, in, "mw");
    }
    if (sim_take(linker, "inval")) {
        in->exec = exec_init;
        in->mode = 1;
        return take_space(linker, in) && sim_operands(linker, in, "m");
    }
    if (sim_take(linker, "pending_count")) {
        in->exec = exec_pending;
        return sim_take(linker, "b64") && sim_operands(linker, in, "Wl");
    }
    return decode_wait(linker, in) || decode_arrive(linker, in);
}
