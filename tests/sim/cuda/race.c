/* SPDX-License-Identifier: Apache-2.0
 *
 * Races in shared memory. Each warp has a vector clock that barriers and mbarriers join. Each
 * 32-bit word remembers its last writer with the writer's time, and when each warp read it since.
 * An access is ordered after another one when the accessing warp's clock knows the other's time.
 * Within a warp nothing is checked.
 *
 * Behind the warps the clock has an entry for each warpgroup: how many of its products are known to
 * be over, in whose name they read; and one for each mbarrier of the block: the phases of it that
 * are known to be over. A bulk copy writes in the name of its mbarrier, at the time when the phase
 * ends.
 */
#include <stdio.h>

#include "machine.h"
#include "parse.h"

sim_warp *sim_member(sim_block *block, uint32_t member)
{
    return &block->cluster->block[member / block->warps]->warp[member % block->warps];
}

/* Who an entry of the clock is, as words. */
static const char *name_of(const sim_block *home, uint32_t entry, char *text, size_t bytes)
{
    if (entry >= home->first_channel) {
        snprintf(text, bytes, "a bulk copy");
    } else if (entry >= home->members) {
        snprintf(text, bytes, "a wgmma");
    } else if (entry - home->first_member < home->warps) {
        snprintf(text, bytes, "warp %u", entry - home->first_member);
    } else {
        snprintf(text, bytes, "warp %u of the cluster", entry);
    }
    return text;
}

static bool ordered_after_write(const sim_warp *warp, const sim_block *home, const sim_shadow *s)
{
    const uint32_t writer = s->writer - 1u;
    if (writer >= home->first_channel && warp->block != home) {
        /* Whoever led it here waited for the copy: other blocks' mbarriers have no entries. */
        return true;
    }
    return writer == warp->member || s->write_time <= warp->clock.at[writer];
}

/* Which bytes of word `word` an access touches, as four bits. */
static uint8_t touched(uint32_t word, uint32_t offset, uint32_t bytes)
{
    const uint32_t first = word * 4, low = offset > first ? offset - first : 0;
    const uint32_t end = offset + bytes - first, high = end < 4 ? end : 4;
    return (uint8_t)((1u << high) - (1u << low));
}

static uint32_t *readers_of(const sim_block *home, uint32_t word)
{
    return home->read_time + (size_t)word * home->readers;
}

static void note_read(const sim_block *home, uint32_t word, uint8_t mine, uint32_t entry,
                      uint32_t time)
{
    sim_shadow *s = &home->shadow[word];
    uint32_t *readers = readers_of(home, word);
    if (s->read_bytes == 0) {
        memset(readers, 0, home->readers * sizeof *readers);
    }
    s->read_bytes |= mine;
    readers[entry] = time;
}

/* Whether what was written there was so before. */
static bool may_read(sim_warp *warp, const sim_insn *in, int lane, const sim_block *home,
                     uint32_t word, uint8_t mine)
{
    const sim_shadow *s = &home->shadow[word];
    char who[48];
    return s->writer == 0 || ordered_after_write(warp, home, s) || (s->bytes & mine) == 0
               ? true
               : sim_fault(warp, in, lane, SIM_RACE,
                           s->writer > home->first_channel
                               ? "shared offset %u was written by %s whose mbarrier was not "
                                 "waited for"
                               : "shared offset %u was written by %s with no barrier since",
                           word * 4, name_of(home, s->writer - 1u, who, sizeof who));
}

bool sim_race_read(sim_warp *warp, const sim_insn *in, int lane, sim_place place, uint32_t bytes)
{
    sim_block *home = place.block;
    if (home->shadow == NULL) {
        return true;
    }
    for (uint32_t word = place.offset / 4; word <= (place.offset + bytes - 1) / 4; ++word) {
        const uint8_t mine = touched(word, place.offset, bytes);
        if (!may_read(warp, in, lane, home, word, mine)) {
            return false;
        }
        note_read(home, word, mine, warp->member, warp->clock.at[warp->member]);
    }
    return true;
}

void sim_race_note(sim_place place, uint32_t bytes, uint32_t entry, uint32_t time)
{
    for (uint32_t word = place.offset / 4;
         place.block->shadow != NULL && word <= (place.offset + bytes - 1) / 4; ++word) {
        note_read(place.block, word, touched(word, place.offset, bytes), entry, time);
    }
}

static bool ordered_after_reads(const sim_warp *warp, const sim_block *home, uint32_t word,
                                uint32_t *reader)
{
    const uint32_t *readers = readers_of(home, word);
    for (uint32_t i = 0; i < home->readers; ++i) {
        if (readers[i] > warp->clock.at[i] && i != warp->member) {
            *reader = i;
            return false;
        }
    }
    return true;
}

/* Whether the warp may write these bytes of a word now. */
static bool may_write(sim_warp *warp, const sim_insn *in, int lane, sim_block *home, uint32_t word,
                      uint8_t mine, bool atomic)
{
    const sim_shadow *s = &home->shadow[word];
    char who[48];
    uint32_t reader;
    if (s->pins != 0) {
        return sim_fault(warp, in, lane, SIM_RACE,
                         "shared offset %u is being read by a bulk copy or wgmma that has not been "
                         "waited for",
                         word * 4);
    }
    if (s->writer != 0 && !(atomic && s->atomic) && !ordered_after_write(warp, home, s) &&
        (s->bytes & mine) != 0) {
        return sim_fault(warp, in, lane, SIM_RACE,
                         "shared offset %u was written by %s as well, with no barrier between",
                         word * 4, name_of(home, s->writer - 1u, who, sizeof who));
    }
    if ((s->read_bytes & mine) != 0 && !ordered_after_reads(warp, home, word, &reader)) {
        return sim_fault(warp, in, lane, SIM_RACE,
                         "shared offset %u was read by %s with no barrier since", word * 4,
                         name_of(home, reader, who, sizeof who));
    }
    return true;
}

bool sim_race_write(sim_warp *warp, const sim_insn *in, int lane, sim_place place, uint32_t bytes,
                    bool atomic)
{
    sim_block *home = place.block;
    if (home->shadow == NULL) {
        return true;
    }
    for (uint32_t word = place.offset / 4; word <= (place.offset + bytes - 1) / 4; ++word) {
        sim_shadow *s = &home->shadow[word];
        const uint8_t mine = touched(word, place.offset, bytes);
        const uint32_t now = warp->clock.at[warp->member];
        if (!may_write(warp, in, lane, home, word, mine, atomic)) {
            return false;
        }
        const bool again = s->writer == warp->member + 1 && s->write_time == now;
        s->lane = again && s->lane != (uint8_t)lane && (s->bytes & ~mine) != 0 ? SIM_MANY_LANES
                                                                               : (uint8_t)lane;
        s->bytes = again ? s->bytes | mine : mine;
        s->writer = (uint16_t)(warp->member + 1);
        s->write_time = now;
        s->atomic = atomic;
        s->read_bytes &= (uint8_t)~mine;
    }
    return true;
}

bool sim_race_async(sim_warp *warp, const sim_insn *in, int lane, sim_place place, uint32_t bytes,
                    bool writes)
{
    sim_block *home = place.block;
    if (home->shadow == NULL) {
        return true;
    }
    for (uint32_t word = place.offset / 4; word <= (place.offset + bytes - 1) / 4; ++word) {
        const sim_shadow *s = &home->shadow[word];
        const uint8_t mine = touched(word, place.offset, bytes);
        if (writes && !may_write(warp, in, lane, home, word, mine, false)) {
            return false;
        }
        if (!writes && !may_read(warp, in, lane, home, word, mine)) {
            return false;
        }
        if (s->writer == 0 || s->writer > home->first_channel || (s->bytes & mine) == 0) {
            continue;
        }
        const sim_warp *writer = sim_member(home, s->writer - 1u);
        const uint32_t lanes = s->lane == SIM_MANY_LANES ? writer->born : 1u << s->lane;
        if (!sim_race_fenced(warp, writer, lanes, s->write_time, false)) {
            char who[48];
            return sim_fault(warp, in, lane, SIM_RACE,
                             "shared offset %u was stored by %s without a fence.proxy.async since",
                             word * 4, name_of(home, s->writer - 1u, who, sizeof who));
        }
    }
    return true;
}

void sim_race_landed(sim_block *block, uint32_t offset, uint32_t bytes, uint32_t entry,
                     uint32_t time)
{
    if (block->shadow == NULL) {
        return;
    }
    for (uint32_t word = offset / 4; word <= (offset + bytes - 1) / 4; ++word) {
        sim_shadow *s = &block->shadow[word];
        s->writer = (uint16_t)(entry + 1);
        s->write_time = time;
        s->bytes = 0xf;
        s->read_bytes = 0;
        s->atomic = false;
    }
}

/* ---- clocks ---- */

void sim_race_join(sim_clock *into, const sim_clock *from, uint32_t entries)
{
    for (uint32_t i = 0; i < entries; ++i) {
        into->at[i] = into->at[i] > from->at[i] ? into->at[i] : from->at[i];
    }
}

/* Entries that mean the same to a warp and in a block. */
static uint32_t common(const sim_warp *warp, const sim_block *home)
{
    return warp->block == home ? home->clocks : home->first_channel;
}

void sim_race_publish(const sim_warp *warp, sim_clock *into, const sim_block *home)
{
    sim_race_join(into, &warp->clock, common(warp, home));
}

void sim_race_acquire(sim_warp *warp, const sim_clock *from, const sim_block *home)
{
    sim_race_join(&warp->clock, from, common(warp, home));
}

/* ---- fences between threads and the asynchronous proxy ---- */

bool sim_race_fence(sim_warp *warp, const sim_insn *in, uint32_t lanes, bool only_init)
{
    if (!sim_grow((void **)&warp->fence, warp->fences, &warp->fence_room, sizeof *warp->fence)) {
        return sim_fault(warp, in, -1, SIM_HOST, "out of memory");
    }
    warp->fence[warp->fences++] = (sim_fence){warp->clock.at[warp->member], lanes, only_init};
    sim_race_tick(warp);
    sim_race_fence_threads(warp);
    return true;
}

void sim_race_fence_threads(sim_warp *warp)
{
    if (warp->fenced != NULL) {
        *warp->fenced = warp->clock;
        sim_race_tick(warp);
    }
}

bool sim_race_fenced(const sim_warp *warp, const sim_warp *writer, uint32_t lanes, uint32_t time,
                     bool init)
{
    const uint32_t known = warp->clock.at[writer->member];
    for (uint32_t i = writer->fences; i-- > 0 && writer->fence[i].time >= time;) {
        const sim_fence *f = &writer->fence[i];
        if (f->time < known && (init || !f->only_init)) {
            lanes &= ~f->lanes;
        }
    }
    return lanes == 0;
}
