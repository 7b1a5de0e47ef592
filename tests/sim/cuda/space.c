/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an access goes and whether it may: windows of generic addresses, bounds, alignment,
 * uninitialised shared memory. Races are race.c's. See machine.h.
 */
#include <stdarg.h>
#include <stdio.h>

#include "machine.h"

bool sim_fault(sim_warp *warp, const sim_insn *in, int lane, enum sim_fault fault,
               const char *format, ...)
{
    sim_block *block = warp->block;
    sim_report *report = block->report;
    if (block->failed) {
        return false;
    }
    sim_cluster_fail(block->cluster);
    char what[900], where[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (lane >= 0) {
        snprintf(where, sizeof where, ", lane %d", lane);
    }
    report->fault = fault;
    snprintf(report->text, sizeof report->text,
             "%s: %s, block (%u, %u, %u), warp %u%s, PTX line %u `%.200s`: %s",
             sim_fault_name(fault), block->function->info.name, block->id[0], block->id[1],
             block->id[2], warp->index, where, in->line, in->text, what);
    return false;
}

void sim_values(const sim_warp *warp, const sim_operand *o, uint64_t *out)
{
    if (o->width == 64) {
        memcpy(out, sim_row64(warp, o), SIM_LANES * sizeof *out);
        return;
    }
    const uint32_t *row = sim_row32(warp, o);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        out[lane] = row[lane];
    }
}

void sim_put(sim_warp *warp, const sim_operand *o, uint32_t mask, const uint64_t *value)
{
    if (o->kind == SIM_SINK || o->width == 64) {
        sim_put64(warp, o, mask, value);
        return;
    }
    uint32_t low[SIM_LANES];
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        low[lane] = (uint32_t)value[lane];
    }
    sim_put32(warp, o, mask, low);
}

void sim_put_lane(sim_warp *warp, const sim_operand *o, int lane, uint64_t value)
{
    if (o->kind == SIM_SINK) {
        return;
    }
    if (o->width == 64) {
        ((uint64_t *)(void *)(warp->regs + o->slot))[lane] = value;
    } else {
        (warp->regs + o->slot)[lane] = (uint32_t)value;
    }
}

void sim_put_predicate(sim_warp *warp, const sim_operand *o, uint32_t mask, uint32_t lanes)
{
    if (o->kind != SIM_SINK && o->reg != SIM_NO_REGISTER) {
        uint32_t *p = &warp->predicate[o->slot];
        *p = (*p & ~mask) | (lanes & mask);
    }
    if (o->reg2 != SIM_NO_REGISTER) {
        uint32_t *q = &warp->predicate[o->slot2];
        *q = (*q & ~mask) | (~lanes & mask);
    }
}

/* The allocation around an address, from those that were met last. NULL after a fault. */
static const sim_range *range_of(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                                 uint64_t bytes)
{
    sim_block *block = warp->block;
    for (uint32_t i = 0; i < block->recent_count; ++i) {
        const sim_range *r = &block->recent[i];
        const uint64_t offset = address - r->address;
        if (offset < r->bytes && bytes <= r->bytes - offset) {
            return r;
        }
    }
    sim_range range;
    const sim_memory *memory = &block->config->memory;
    if (!sim_module_range(block->function->module, address, &range) &&
        (memory->find == NULL || !memory->find(memory->user, address, &range))) {
        sim_fault(warp, in, lane, SIM_MEMORY,
                  "global address 0x%llx (%llu bytes) lies in no allocation",
                  (unsigned long long)address, (unsigned long long)bytes);
        return NULL;
    }
    const uint64_t offset = address - range.address;
    if (bytes > range.bytes - offset) {
        sim_fault(warp, in, lane, SIM_MEMORY,
                  "global address 0x%llx (%llu bytes) ends beyond its allocation: offset %llu of "
                  "%llu",
                  (unsigned long long)address, (unsigned long long)bytes,
                  (unsigned long long)offset, (unsigned long long)range.bytes);
        return NULL;
    }
    const uint32_t kept = block->recent_count < SIM_RECENT ? block->recent_count++ : SIM_RECENT - 1;
    memmove(block->recent + 1, block->recent, kept * sizeof range);
    block->recent[0] = range;
    return &block->recent[0];
}

uint8_t *sim_reach_global(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                          uint64_t bytes, enum sim_access access, bool early)
{
    const sim_range *r = range_of(warp, in, lane, address, bytes);
    if (r == NULL) {
        return NULL;
    }
    const uint64_t offset = address - r->address;
    const bool fine =
        r->written == NULL || sim_grid_access(warp, in, lane, r, offset, bytes, access, early);
    return fine ? r->host + offset : NULL;
}

sim_block *sim_peer(sim_warp *warp, const sim_insn *in, int lane, uint32_t rank)
{
    const sim_cluster *cluster = warp->block->cluster;
    sim_block *home = rank < cluster->blocks ? cluster->block[rank] : NULL;
    if (home == NULL) {
        sim_fault(warp, in, lane, SIM_MEMORY, "the cluster has no block %u", rank);
        return NULL;
    }
    if (home->left) {
        sim_fault(warp, in, lane, SIM_RACE, "block %u of the cluster has left", rank);
        return NULL;
    }
    if ((warp->peers >> rank & 1) == 0) {
        sim_fault(warp, in, lane, SIM_RACE,
                  "nothing says that block %u of the cluster has started: no barrier.cluster.wait "
                  "came before",
                  rank);
        return NULL;
    }
    return home;
}

bool sim_shared_place(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                      uint32_t bytes, sim_place *place)
{
    sim_block *block = warp->block;
    const uint32_t rank = (uint32_t)address >> SIM_RANK_SHIFT;
    const uint32_t inside = (uint32_t)address & ((1u << SIM_RANK_SHIFT) - 1);
    const uint32_t offset = inside - SIM_SHARED_BASE;
    if (rank != block->rank) {
        if (in->space == SIM_SPACE_SHARED && !in->cluster) {
            return sim_fault(warp, in, lane, SIM_MEMORY,
                             "shared address 0x%x is not this block's, and the instruction has no "
                             ".shared::cluster",
                             (uint32_t)address);
        }
        block = sim_peer(warp, in, lane, rank);
    }
    if (block == NULL) {
        return false;
    }
    if (inside < SIM_SHARED_BASE || offset > block->shared_bytes ||
        bytes > block->shared_bytes - offset) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "shared offset %lld (%u bytes) lies outside of the block's %u bytes",
                         (long long)(int32_t)offset, bytes, block->shared_bytes);
    }
    *place = (sim_place){block, offset};
    return true;
}

uint64_t sim_shared_address(sim_warp *warp, const sim_insn *in, int lane, uint64_t address)
{
    if ((address & SIM_WINDOW_MASK) != SIM_WINDOW_SHARED) {
        sim_fault(warp, in, lane, SIM_MEMORY, "address 0x%llx is not in shared memory",
                  (unsigned long long)address);
        return UINT64_MAX;
    }
    return address & ~SIM_WINDOW_MASK;
}

const char *sim_held_by(const uint8_t *state, uint32_t bytes)
{
    if (memchr(state, SIM_BYTE_MBARRIER, bytes) != NULL) {
        return "is part of an mbarrier, which only mbarrier instructions may touch";
    }
    return memchr(state, SIM_BYTE_FLYING, bytes) != NULL
               ? "is the target of a copy that has not landed"
               : "is the target of a cp.async that has not been waited for";
}

/* Whether some of the bytes must not be written. */
static bool any_held(const uint8_t *state, uint32_t bytes)
{
    uint8_t all = 0;
    for (uint32_t i = 0; i < bytes; ++i) {
        all |= state[i];
    }
    return all >= SIM_BYTE_COPIED;
}

static bool all_set(const uint8_t *state, uint32_t bytes)
{
    static const uint8_t set[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (; bytes > 16; bytes -= 16, state += 16) {
        if (memcmp(state, set, 16) != 0) {
            return false;
        }
    }
    return memcmp(state, set, bytes) == 0;
}

static uint8_t *reach_shared(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                             uint32_t bytes, enum sim_access access)
{
    sim_place place;
    if (!sim_shared_place(warp, in, lane, address, bytes, &place)) {
        return NULL;
    }
    sim_block *block = place.block;
    uint8_t *state = block->state + place.offset;
    if (access == SIM_WRITES) {
        if (any_held(state, bytes)) {
            sim_fault(warp, in, lane, SIM_RACE, "shared offset %u %s", place.offset,
                      sim_held_by(state, bytes));
            return NULL;
        }
        memset(state, SIM_BYTE_SET, bytes);
    } else if (!all_set(state, bytes)) {
        const bool held = any_held(state, bytes);
        sim_fault(warp, in, lane, held ? SIM_RACE : SIM_UNSET, "shared offset %u %s", place.offset,
                  held ? sim_held_by(state, bytes) : "was never written");
        return NULL;
    }
    const bool fine = access == SIM_READS
                          ? sim_race_read(warp, in, lane, place, bytes)
                          : sim_race_write(warp, in, lane, place, bytes, access == SIM_CHANGES);
    return fine ? block->shared + place.offset : NULL;
}

static uint8_t *reach_local(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                            uint32_t bytes)
{
    const uint64_t size = warp->function->info.local;
    const uint64_t offset = (address & ~SIM_WINDOW_MASK) - SIM_LOCAL_BASE;
    if (offset > size || bytes > size - offset) {
        sim_fault(warp, in, lane, SIM_MEMORY,
                  "local offset %lld (%u bytes) lies outside of the thread's %llu bytes",
                  (long long)offset, bytes, (unsigned long long)size);
        return NULL;
    }
    return warp->local + (size_t)lane * size + offset;
}

static uint8_t *reach_param(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                            uint32_t bytes, enum sim_access access)
{
    const uint64_t size = warp->function->info.param_bytes;
    const uint64_t offset = address & ~SIM_WINDOW_MASK;
    if (access != SIM_READS || offset > size || bytes > size - offset) {
        sim_fault(warp, in, lane, SIM_MEMORY,
                  access != SIM_READS ? "parameter offset %llu (%u bytes) cannot be written (%llu)"
                                      : "parameter offset %llu (%u bytes) lies outside of the "
                                        "kernel's %llu bytes",
                  (unsigned long long)offset, bytes, (unsigned long long)size);
        return NULL;
    }
    return (uint8_t *)(uintptr_t)warp->block->config->params + offset;
}

uint8_t *sim_reach(sim_warp *warp, const sim_insn *in, int lane, enum sim_space space,
                   uint64_t address, uint32_t bytes, enum sim_access access)
{
    if ((address & (bytes - 1)) != 0) {
        sim_fault(warp, in, lane, SIM_MEMORY, "address 0x%llx is no multiple of the %u bytes",
                  (unsigned long long)address, bytes);
        return NULL;
    }
    if (space == SIM_SPACE_GENERIC) {
        const uint64_t window = address & SIM_WINDOW_MASK;
        space = window == SIM_WINDOW_SHARED  ? SIM_SPACE_SHARED
                : window == SIM_WINDOW_LOCAL ? SIM_SPACE_LOCAL
                : window == SIM_WINDOW_PARAM ? SIM_SPACE_PARAM
                                             : SIM_SPACE_GLOBAL;
    }
    warp->block->events += access == SIM_WRITES;
    switch (space) {
    case SIM_SPACE_SHARED:
        return reach_shared(warp, in, lane, address, bytes, access);
    case SIM_SPACE_LOCAL:
        return reach_local(warp, in, lane, address, bytes);
    case SIM_SPACE_PARAM:
        return reach_param(warp, in, lane, address, bytes, access);
    default:
        return sim_reach_global(warp, in, lane, address, bytes, access, sim_is_early(warp));
    }
}
