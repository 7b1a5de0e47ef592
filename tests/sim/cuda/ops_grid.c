/* SPDX-License-Identifier: Apache-2.0
 *
 * griddepcontrol, and global memory between launches that may be under way together. Launches run
 * one after the other here, so that nothing goes wrong by itself: each word of global memory keeps
 * who wrote and who read it last, and an access that needs an earlier launch to be over is a fault
 * where nothing says so. Inside a block that knowledge travels as clocks do. PTX ISA,
 * "griddepcontrol".
 */
#include "decode.h"
#include "machine.h"

static bool under_way(const sim_overlap *o, bool early, uint32_t number)
{
    const uint32_t *list = early ? o->before : o->behind;
    const uint32_t count = early ? o->befores : o->behinds;
    for (uint32_t i = 0; i < count; ++i) {
        if (list[i] == number) {
            return true;
        }
    }
    return false;
}

/* Host threads share the words; which of them comes last does not matter. */
static uint32_t get(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void put(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static bool too_soon(sim_warp *warp, const sim_insn *in, int lane, const sim_range *range,
                     uint64_t word, const char *what, bool early)
{
    return sim_fault(warp, in, lane, SIM_RACE,
                     "global address 0x%llx %s by a launch that may be under way still: %s",
                     (unsigned long long)(range->address + word * 4), what,
                     early ? "nothing says that a griddepcontrol.wait came before"
                           : "the launch between did not wait for it");
}

bool sim_grid_access(sim_warp *warp, const sim_insn *in, int lane, const sim_range *range,
                     uint64_t offset, uint64_t bytes, enum sim_access access, bool early)
{
    const sim_overlap *o = &warp->block->config->overlap;
    const bool check = (early ? o->befores : o->behinds) != 0;
    for (uint64_t word = offset / 4; word * 4 < offset + bytes; ++word) {
        uint32_t *written = &range->written[word], *read = &range->read[word];
        if (check && under_way(o, early, get(written))) {
            return too_soon(warp, in, lane, range, word, "was written", early);
        }
        if (check && access != SIM_READS && under_way(o, early, get(read))) {
            return too_soon(warp, in, lane, range, word, "is written here and was read", early);
        }
        if (access != SIM_WRITES) {
            put(read, o->number);
        }
        if (access != SIM_READS) {
            put(written, o->number);
        }
    }
    return true;
}

static enum sim_step exec_wait(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)in;
    (void)mask;
    warp->clock.at[warp->block->waited_entry] = 1;
    warp->block->report->waited = true;
    return SIM_NEXT;
}

/* When dependents start is open until they wait, so this says nothing. */
static enum sim_step exec_launch(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)warp;
    (void)in;
    (void)mask;
    return SIM_NEXT;
}

bool sim_decode_grid(sim_linker *linker, sim_insn *in)
{
    const bool waits = sim_take(linker, "wait");
    in->exec = waits ? exec_wait : exec_launch;
    return (waits || sim_take(linker, "launch_dependents")) && linker->module->target >= 90 &&
           sim_operands(linker, in, "");
}
