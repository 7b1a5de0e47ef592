/* SPDX-License-Identifier: Apache-2.0
 *
 * cp.async: copies from global to shared memory that land when the lane that issued them waits, or
 * at a random moment before; until then their target must not be touched. PTX ISA, "cp.async".
 */
#include <stdlib.h>

#include "bulk.h"
#include "decode.h"

static bool land(sim_warp *warp, sim_copy *copy)
{
    sim_block *block = warp->block;
    uint8_t *to = block->shared + copy->target;
    if (copy->from_source != 0) {
        const uint8_t *from = sim_reach_global(warp, copy->in, copy->lane, copy->source,
                                               copy->from_source, SIM_READS, sim_is_early(warp));
        if (from == NULL) {
            return false;
        }
        memcpy(to, from, copy->from_source);
    }
    memset(to + copy->from_source, 0, (size_t)(copy->bytes - copy->from_source));
    copy->landed = true;
    return true;
}

/* Somebody waited: now it may be read. */
static bool settle(sim_warp *warp, sim_copy *copy)
{
    sim_block *block = warp->block;
    if (!copy->landed && !land(warp, copy)) {
        return false;
    }
    memset(block->state + copy->target, SIM_BYTE_SET, copy->bytes);
    return sim_race_write(warp, copy->in, copy->lane, (sim_place){block, copy->target}, copy->bytes,
                          false);
}

void sim_copy_land_random(sim_warp *warp)
{
    sim_copy *copy = &warp->copy[sim_random(warp->block) % warp->copies];
    if (!copy->landed) {
        land(warp, copy);
    }
}

static bool issue(sim_warp *warp, const sim_insn *in, int lane, uint32_t bytes,
                  uint32_t from_source)
{
    sim_block *block = warp->block;
    const uint64_t target = sim_address(warp, &in->arg[0], lane);
    const uint64_t source = sim_address(warp, &in->arg[1], lane);
    if (target % bytes != 0 || (from_source != 0 && source % bytes != 0)) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "shared address 0x%llx or global address 0x%llx is no multiple of %u",
                         (unsigned long long)target, (unsigned long long)source, bytes);
    }
    if (from_source > bytes) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "%u bytes from the source for a copy of %u",
                         from_source, bytes);
    }
    sim_place place;
    if (!sim_shared_place(warp, in, lane, target, bytes, &place) ||
        (from_source != 0 && sim_reach_global(warp, in, lane, source, from_source, SIM_READS,
                                              sim_is_early(warp)) == NULL)) {
        return false;
    }
    const uint32_t offset = place.offset;
    if (place.block != block) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "a cp.async into another block");
    }
    for (uint32_t i = 0; i < bytes; ++i) {
        if (block->state[offset + i] >= SIM_BYTE_COPIED) {
            return sim_fault(warp, in, lane, SIM_RACE, "shared offset %u %s", offset,
                             sim_held_by(block->state + offset, bytes));
        }
    }
    if (!sim_race_write(warp, in, lane, place, bytes, false)) {
        return false;
    }
    if (!sim_grow((void **)&warp->copy, warp->copies, &warp->copy_room, sizeof *warp->copy)) {
        return sim_fault(warp, in, lane, SIM_HOST, "out of memory");
    }
    memset(block->state + offset, SIM_BYTE_COPIED, bytes);
    warp->copy[warp->copies++] = (sim_copy){.source = source,
                                            .target = offset,
                                            .bytes = (uint8_t)bytes,
                                            .from_source = (uint8_t)from_source,
                                            .lane = (uint8_t)lane,
                                            .group = warp->copy_group[lane],
                                            .number = warp->copies_issued++,
                                            .in = in};
    return true;
}

static enum sim_step exec_copy(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t bytes = (uint32_t)in->arg[2].value;
    const sim_operand *size = in->mode2 != 0 ? &in->arg[3] : NULL;
    const bool ignores = size != NULL && size->width == 1;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        uint32_t from_source = bytes;
        if (ignores) {
            from_source = (sim_true_lanes(warp, size) >> lane & 1) != 0 ? 0 : bytes;
        } else if (size != NULL) {
            from_source = (uint32_t)sim_value(warp, size, lane);
        }
        if (!issue(warp, in, lane, bytes, from_source)) {
            break;
        }
    }
    return SIM_NEXT;
}

static enum sim_step exec_commit(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)in;
    for (; mask != 0; mask &= mask - 1) {
        ++warp->copy_group[__builtin_ctz(mask)];
    }
    return SIM_NEXT;
}

/* wait_group N: all but the N latest groups. wait_all: everything, committed or not. */
static enum sim_step exec_wait(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint32_t kept = 0;
    const bool all = in->mode != 0;
    const uint32_t keep = all ? 0 : (uint32_t)in->arg[0].value;
    for (uint32_t i = 0; i < warp->copies; ++i) {
        sim_copy *copy = &warp->copy[i];
        const uint32_t committed = warp->copy_group[copy->lane];
        const bool waited =
            (mask >> copy->lane & 1) != 0 && (all || copy->group + keep < committed);
        if (!waited) {
            warp->copy[kept++] = *copy;
        } else if (!settle(warp, copy)) {
            return SIM_NEXT;
        }
    }
    warp->copies = kept;
    return SIM_NEXT;
}

/* ---- arrivals at an mbarrier when the copies have landed ---- */

/* What was copied is known to those who know the lane's time when it first asked: a later arrival,
 * for more copies, may be the first to hear of it. */
static bool settle_asked(sim_warp *warp, sim_copy *copy)
{
    sim_block *block = warp->block;
    if (!copy->landed && !land(warp, copy)) {
        return false;
    }
    memset(block->state + copy->target, SIM_BYTE_SET, copy->bytes);
    sim_race_landed(block, copy->target, copy->bytes, warp->member, copy->asked);
    return true;
}

bool sim_copy_arrived(sim_flight *f)
{
    sim_warp *warp = f->warp;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < warp->copies; ++i) {
        sim_copy *copy = &warp->copy[i];
        if (copy->lane != f->lane || copy->number >= f->copies) {
            warp->copy[kept++] = *copy;
        } else if (!settle_asked(warp, copy)) {
            return false;
        }
    }
    warp->copies = kept;
    sim_block *home = f->shared.block;
    sim_race_join(&home->async->mbarrier[f->mbarrier]->arriving, f->clock,
                  home == warp->block ? home->clocks : home->first_channel);
    return sim_mbarrier_arrive(warp, f->in, f->lane, f->shared, f->mbarrier, 1);
}

static bool ask_arrival(sim_warp *warp, const sim_insn *in, int lane)
{
    sim_place place;
    uint32_t slot;
    if (!sim_mbarrier_at(warp, in, lane, sim_address(warp, &in->arg[0], lane), &place, &slot)) {
        return false;
    }
    sim_flight *f = sim_flight_new(warp, in, lane, SIM_FLIGHT_ARRIVE, place);
    if (f == NULL) {
        return false;
    }
    f->clock = malloc(sizeof *f->clock);
    if (f->clock == NULL) {
        return sim_fault(warp, in, lane, SIM_HOST, "out of memory");
    }
    *f->clock = warp->clock;
    f->mbarrier = slot;
    f->copies = warp->copies_issued;
    for (uint32_t i = 0; i < warp->copies; ++i) {
        sim_copy *copy = &warp->copy[i];
        if (copy->lane == lane && copy->asked == 0) {
            copy->asked = warp->clock.at[warp->member];
        }
    }
    if (in->mode == 0) {
        /* Without .noinc the phase waits for this one on top. */
        ++place.block->async->mbarrier[slot]->pending;
    }
    return true;
}

static enum sim_step exec_arrival(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        if (!ask_arrival(warp, in, __builtin_ctz(mask))) {
            break;
        }
    }
    sim_race_tick(warp);
    return SIM_NEXT;
}

static bool decode_arrival(sim_linker *linker, sim_insn *in)
{
    static const char *const spaces[] = {"shared", "shared::cta", NULL};
    in->mode = sim_take(linker, "noinc");
    in->space = sim_take_of(linker, spaces) < 0 ? SIM_SPACE_GENERIC : SIM_SPACE_SHARED;
    in->exec = exec_arrival;
    return sim_take(linker, "arrive") && sim_take(linker, "b64") && sim_operands(linker, in, "m");
}

static bool decode_wait(sim_linker *linker, sim_insn *in)
{
    in->exec = exec_wait;
    in->mode = sim_take(linker, "wait_all");
    return in->mode != 0 ? sim_operands(linker, in, "")
                         : sim_take(linker, "wait_group") && sim_operands(linker, in, "i");
}

bool sim_decode_copy(sim_linker *linker, sim_insn *in)
{
    static const char *const caches[] = {"ca", "cg", NULL};
    if (!sim_take(linker, "async")) {
        return false;
    }
    if (sim_take(linker, "bulk")) {
        return sim_decode_bulk(linker, in);
    }
    if (sim_take(linker, "mbarrier")) {
        return decode_arrival(linker, in);
    }
    if (sim_take(linker, "commit_group")) {
        in->exec = exec_commit;
        return sim_operands(linker, in, "");
    }
    const int cache = sim_take_of(linker, caches);
    if (cache < 0) {
        return decode_wait(linker, in);
    }
    const bool shared = sim_take(linker, "shared") || sim_take(linker, "shared::cta");
    const bool global = sim_take(linker, "global");
    const bool policy = sim_take(linker, "L2::cache_hint");
    sim_take_prefix(linker, "L2::");
    if (!shared || !global || in->args < 3 || in->arg[2].kind != SIM_IMMEDIATE) {
        return false;
    }
    const int64_t bytes = in->arg[2].value;
    if (bytes != 16 && (cache == 1 || (bytes != 4 && bytes != 8))) {
        return sim_parse_fail(linker, "%lld bytes cannot be copied", (long long)bytes);
    }
    in->exec = exec_copy;
    in->mode2 = in->args - policy > 3;
    if (in->mode2 == 0) {
        return sim_operands(linker, in, policy ? "mmil" : "mmi");
    }
    const bool ignores = in->arg[3].width == 1;
    return sim_operands(linker, in,
                        ignores ? (policy ? "mmipl" : "mmip") : (policy ? "mmiwl" : "mmiw"));
}
