/* SPDX-License-Identifier: Apache-2.0
 *
 * When the copies of the asynchronous proxy land, and what it may read: see async.h. In lazy mode a
 * copy lands when nobody can run any more, else at any moment as well.
 */
#include <stdlib.h>

#include "bulk.h"
#include "parse.h"

enum { MOST_EXPIRIES = 200 };

/* ---- reads of the proxy ---- */

const uint8_t *sim_async_look(sim_warp *warp, const sim_insn *in, uint32_t offset, uint32_t bytes)
{
    sim_block *block = warp->block;
    if (offset > block->shared_bytes || bytes > block->shared_bytes - offset) {
        sim_fault(warp, in, -1, SIM_MEMORY,
                  "shared offset %u (%u bytes) lies outside of the block's %u bytes", offset, bytes,
                  block->shared_bytes);
        return NULL;
    }
    const uint8_t *state = block->state + offset;
    for (uint32_t i = 0; i < bytes; ++i) {
        if (state[i] != SIM_BYTE_SET) {
            const bool unset = state[i] == SIM_BYTE_UNSET;
            sim_fault(warp, in, -1, unset ? SIM_UNSET : SIM_RACE, "shared offset %u %s", offset + i,
                      unset ? "was never written" : sim_held_by(state + i, 1));
            return NULL;
        }
    }
    return sim_race_async(warp, in, -1, (sim_place){block, offset}, bytes, false)
               ? block->shared + offset
               : NULL;
}

const uint8_t *sim_async_read(sim_warp *warp, const sim_insn *in, uint32_t offset, uint32_t bytes)
{
    const uint8_t *at = sim_async_look(warp, in, offset, bytes);
    if (at != NULL) {
        sim_async_done(warp, offset, bytes);
    }
    return at;
}

void sim_async_pin(sim_block *block, uint32_t offset, uint32_t bytes)
{
    for (uint32_t word = offset / 4; block->shadow != NULL && word * 4 < offset + bytes; ++word) {
        ++block->shadow[word].pins;
    }
}

void sim_async_unpin(sim_block *block, uint32_t offset, uint32_t bytes)
{
    for (uint32_t word = offset / 4; block->shadow != NULL && word * 4 < offset + bytes; ++word) {
        --block->shadow[word].pins;
    }
}

void sim_async_done(sim_warp *warp, uint32_t offset, uint32_t bytes)
{
    sim_race_note((sim_place){warp->block, offset}, bytes, warp->member,
                  warp->clock.at[warp->member]);
}

/* ---- copies under way ---- */

sim_flight *sim_flight_new(sim_warp *warp, const sim_insn *in, int lane, uint8_t kind,
                           sim_place shared)
{
    struct sim_async *a = shared.block->async;
    if (!sim_grow((void **)&a->flight, a->flights, &a->flight_room, sizeof *a->flight)) {
        sim_fault(warp, in, lane, SIM_HOST, "out of memory");
        return NULL;
    }
    sim_flight *f = &a->flight[a->flights++];
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->lane = (uint8_t)lane;
    f->warp = warp;
    f->in = in;
    f->shared = shared;
    f->early = sim_is_early(warp);
    return f;
}

void sim_flight_remove(sim_block *block, uint32_t index)
{
    struct sim_async *a = block->async;
    free(a->flight[index].data);
    free(a->flight[index].clock);
    a->flight[index] = a->flight[--a->flights];
}

/* One step of one copy; a store takes two. False after a fault. */
static bool advance(sim_block *block, uint32_t index)
{
    sim_flight *f = &block->async->flight[index];
    ++block->events;
    if (f->kind == SIM_FLIGHT_STORE && !f->was_read) {
        return sim_flight_read(f);
    }
    if (!sim_flight_land(f)) {
        return false;
    }
    /* A store that has nothing left to do stays until somebody waits. */
    if (f->kind != SIM_FLIGHT_STORE || f->waited) {
        sim_flight_remove(block, index);
    }
    return true;
}

static bool is_idle(const sim_flight *f)
{
    return f->kind == SIM_FLIGHT_STORE && f->was_read && f->data == NULL && !f->waited;
}

void sim_async_slice(sim_block *block)
{
    struct sim_async *a = block->async;
    const bool random = block->config->options.delay == SIM_DELAY_RANDOM;
    if (a->flights != 0 && random && sim_random(block) % 4 == 0) {
        const uint32_t index = sim_random(block) % a->flights;
        if (!is_idle(&a->flight[index])) {
            advance(block, index);
        }
    }
}

bool sim_async_force(sim_block *block)
{
    struct sim_async *a = block->async;
    const uint32_t start = a->flights != 0 ? sim_random(block) % a->flights : 0;
    for (uint32_t i = 0; i < a->flights; ++i) {
        const uint32_t index = (start + i) % a->flights;
        const sim_flight *f = &a->flight[index];
        if (f->kind != SIM_FLIGHT_STORE) {
            advance(block, index);
            return true;
        }
    }
    return false;
}

bool sim_async_expire(sim_block *block)
{
    struct sim_async *a = block->async;
    uint32_t woken = 0;
    if (a->expired_at != block->events) {
        a->expired_at = block->events;
        a->expiries = 0;
    }
    if (a->expiries++ == MOST_EXPIRIES) {
        return false;
    }
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        for (uint32_t j = 0; j < warp->groups; ++j) {
            sim_group *g = &warp->group[j];
            if (g->state == SIM_WAITS_PHASE) {
                g->state = SIM_RUNS;
                g->expired = true;
                ++woken;
            }
        }
    }
    return woken != 0;
}

void sim_async_end(sim_block *block)
{
    struct sim_async *a = block->async;
    for (uint32_t i = 0; i < a->mbarriers && !block->failed; ++i) {
        const sim_mbarrier *m = a->mbarrier[i];
        if (m->landed > m->seen) {
            sim_fault(m->sender, m->sent, -1, SIM_RACE,
                      "the block ended and nobody waited for the copies to the mbarrier at shared "
                      "offset %u",
                      m->offset);
        }
    }
    while (!block->failed && a->flights != 0) {
        sim_flight *f = &a->flight[0];
        if (f->kind == SIM_FLIGHT_LOAD || f->kind == SIM_FLIGHT_SEND) {
            sim_fault(f->warp, f->in, f->lane, SIM_RACE,
                      "the block ended while a copy to shared offset %u was under way",
                      f->shared.offset);
        } else if (f->kind == SIM_FLIGHT_STORE && !f->waited) {
            sim_fault(f->warp, f->in, f->lane, SIM_RACE,
                      "the block ended and nobody waited until shared offset %u was read",
                      f->shared.offset);
        } else {
            advance(block, 0);
        }
    }
}

void sim_async_reset(sim_block *block)
{
    struct sim_async *a = block->async;
    while (a->flights != 0) {
        sim_flight_remove(block, a->flights - 1);
    }
    for (uint32_t i = 0; i < a->mbarriers; ++i) {
        free(a->mbarrier[i]);
    }
    a->mbarriers = 0;
    block->clocks = block->first_channel;
    memset(a->slot_at, 0, (block->shared_bytes / 8 + 1) * sizeof *a->slot_at);
    a->expired_at = a->expiries = 0;
    memset(a->group, 0, sizeof a->group);
}

bool sim_async_create(sim_block *block)
{
    block->async = calloc(1, sizeof *block->async);
    if (block->async == NULL) {
        return false;
    }
    block->async->slot_at = calloc(block->shared_bytes / 8 + 1, sizeof *block->async->slot_at);
    return block->async->slot_at != NULL;
}

void sim_async_destroy(sim_block *block)
{
    if (block->async != NULL) {
        if (block->async->slot_at != NULL) {
            sim_async_reset(block);
        }
        free(block->async->slot_at);
        free(block->async->flight);
        free(block->async);
    }
}
