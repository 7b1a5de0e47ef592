/* SPDX-License-Identifier: Apache-2.0
 *
 * Races in shared memory. Each warp has a vector clock that barriers join; each 32-bit word
 * remembers its last writer with the writer's clock, and its readers since the last barrier of the
 * whole block (an epoch). A write is ordered before an access when the accessing warp's clock knows
 * the writer's; reads before a write when they lie in an earlier epoch or some barrier led from the
 * reader to the writer since. Within a warp nothing is checked.
 */
#include "machine.h"

static bool ordered_after_write(const sim_warp *warp, const sim_shadow *s)
{
    const uint32_t writer = s->writer - 1u;
    return writer == warp->index || s->write_clock <= warp->clock[writer];
}

/* Which bytes of word `word` an access touches, as four bits. */
static uint8_t touched(uint32_t word, uint32_t offset, uint32_t bytes)
{
    const uint32_t first = word * 4, low = offset > first ? offset - first : 0;
    const uint32_t end = offset + bytes - first, high = end < 4 ? end : 4;
    return (uint8_t)((1u << high) - (1u << low));
}

bool sim_race_read(sim_warp *warp, const sim_insn *in, int lane, uint32_t offset, uint32_t bytes)
{
    sim_block *block = warp->block;
    if (block->shadow == NULL) {
        return true;
    }
    for (uint32_t word = offset / 4; word <= (offset + bytes - 1) / 4; ++word) {
        sim_shadow *s = &block->shadow[word];
        const uint8_t mine = touched(word, offset, bytes);
        if (s->writer != 0 && !ordered_after_write(warp, s) && (s->bytes & mine) != 0) {
            return sim_fault(warp, in, lane, SIM_RACE,
                             "shared offset %u was written by warp %u with no barrier since",
                             word * 4, s->writer - 1u);
        }
        if (s->read_epoch != block->epoch) {
            s->read_epoch = block->epoch;
            s->readers = 0;
            s->read_bytes = 0;
        }
        s->read_bytes |= mine;
        s->readers |= 1u << warp->index;
    }
    return true;
}

static bool ordered_after_reads(const sim_warp *warp, const sim_shadow *s, uint32_t *reader)
{
    const sim_block *block = warp->block;
    uint32_t readers = s->read_epoch == block->epoch ? s->readers & ~(1u << warp->index) : 0;
    for (; readers != 0; readers &= readers - 1) {
        const uint32_t r = (uint32_t)__builtin_ctz(readers);
        if (warp->clock[r] <= block->epoch_clock[r]) {
            *reader = r;
            return false;
        }
    }
    return true;
}

bool sim_race_write(sim_warp *warp, const sim_insn *in, int lane, uint32_t offset, uint32_t bytes,
                    bool atomic)
{
    sim_block *block = warp->block;
    if (block->shadow == NULL) {
        return true;
    }
    for (uint32_t word = offset / 4; word <= (offset + bytes - 1) / 4; ++word) {
        sim_shadow *s = &block->shadow[word];
        const uint8_t mine = touched(word, offset, bytes);
        uint32_t reader;
        if (s->writer != 0 && !(atomic && s->atomic) && !ordered_after_write(warp, s) &&
            (s->bytes & mine) != 0) {
            return sim_fault(warp, in, lane, SIM_RACE,
                             "shared offset %u was written by warp %u as well, with no barrier "
                             "between",
                             word * 4, s->writer - 1u);
        }
        if ((s->read_bytes & mine) != 0 && !ordered_after_reads(warp, s, &reader)) {
            return sim_fault(warp, in, lane, SIM_RACE,
                             "shared offset %u was read by warp %u with no barrier since", word * 4,
                             reader);
        }
        const bool again =
            s->writer == warp->index + 1 && s->write_clock == warp->clock[warp->index];
        s->bytes = again ? s->bytes | mine : mine;
        s->writer = (uint8_t)(warp->index + 1);
        s->write_clock = warp->clock[warp->index];
        s->atomic = atomic;
    }
    return true;
}

static void join(uint32_t *into, const uint32_t *from)
{
    for (int i = 0; i < SIM_MAX_WARPS; ++i) {
        into[i] = into[i] > from[i] ? into[i] : from[i];
    }
}

/* What the warp did until now is published; what follows has a later clock. */
void sim_race_arrive(sim_warp *warp, sim_barrier *barrier)
{
    join(barrier->clock, warp->clock);
    ++warp->clock[warp->index];
}

void sim_race_release(sim_warp *warp, const sim_barrier *barrier)
{
    join(warp->clock, barrier->clock);
}

void sim_race_epoch(sim_block *block)
{
    ++block->epoch;
    for (uint32_t i = 0; i < block->warps; ++i) {
        block->epoch_clock[i] = block->warp[i].clock[i] - 1;
    }
}
