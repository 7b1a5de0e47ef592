/* SPDX-License-Identifier: Apache-2.0
 *
 * setmaxnreg: warpgroups give registers back to their block and get more of them. How many a thread
 * begins with is what the compiler has to assume (body.c); how many it needs nobody checks here.
 * PTX ISA, "setmaxnreg".
 */
#include "decode.h"
#include "machine.h"

enum { LEAST = 24, MOST = 256, UNIT = 8 };
enum { INCREASES = 1 };

static void wake(sim_block *block)
{
    ++block->events;
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        for (uint32_t j = 0; j < warp->groups; ++j) {
            sim_group *g = &warp->group[j];
            g->state = g->state == SIM_WAITS_PHASE ? (uint8_t)SIM_RUNS : g->state;
        }
    }
}

/* The warps of a group run the same setmaxnregs, and meet between two of them. */
static bool agrees(sim_warp *warp, const sim_insn *in)
{
    const uint32_t group = warp->index / SIM_GROUP_WARPS, n = warp->register_changes;
    sim_block *block = warp->block;
    if ((group + 1) * SIM_GROUP_WARPS > block->warps) {
        return sim_fault(warp, in, -1, SIM_DIVERGED, "the warpgroup is not whole");
    }
    if (n == block->registers[group].changes) {
        block->registers[group].in = in;
        ++block->registers[group].changes;
    }
    if (n + 1 != block->registers[group].changes) {
        return sim_fault(warp, in, -1, SIM_DIVERGED,
                         "another warp of the warpgroup is at a later setmaxnreg");
    }
    return block->registers[group].in == in
               ? true
               : sim_fault(warp, in, -1, SIM_DIVERGED,
                           "another warp of the warpgroup is at the setmaxnreg of PTX line %u",
                           block->registers[group].in->line);
}

static enum sim_step exec_registers(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_block *block = warp->block;
    const uint32_t wanted = (uint32_t)in->arg[0].value;
    const bool grows = in->mode == INCREASES;
    (void)mask;
    if (warp->registers == 0) {
        sim_fault(warp, in, -1, SIM_UNKNOWN, "setmaxnreg needs .maxntid or .maxnreg");
        return SIM_NEXT;
    }
    if (grows ? wanted < warp->registers : wanted > warp->registers) {
        sim_fault(warp, in, -1, SIM_MEMORY, "%u registers a thread, where it has %u", wanted,
                  warp->registers);
        return SIM_NEXT;
    }
    if (grows && wanted - warp->registers > block->spare_registers) {
        return SIM_PARK;
    }
    if (!agrees(warp, in)) {
        return SIM_NEXT;
    }
    block->spare_registers += warp->registers - wanted;
    warp->registers = wanted;
    ++warp->register_changes;
    if (!grows) {
        wake(block);
    }
    return SIM_NEXT;
}

void sim_registers_end(sim_block *block)
{
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_warp *warp = &block->warp[i];
        const uint32_t group = i / SIM_GROUP_WARPS;
        if (warp->register_changes != block->registers[group].changes) {
            sim_fault(warp, block->registers[group].in, -1, SIM_DIVERGED,
                      "this warp never came to it, others of its warpgroup did");
        }
    }
}

bool sim_decode_setmaxnreg(sim_linker *linker, sim_insn *in)
{
    static const char *const ways[] = {"dec", "inc", NULL};
    const int way = sim_take_of(linker, ways);
    if (way < 0 || !sim_take(linker, "sync") || !sim_take(linker, "aligned") ||
        !sim_take(linker, "u32")) {
        return false;
    }
    if (linker->module->target != 90 || !linker->module->exact) {
        return sim_parse_fail(linker, "setmaxnreg needs sm_90a");
    }
    in->mode = (uint8_t)way;
    in->need = SIM_NEED_ALL;
    in->exec = exec_registers;
    if (!sim_operands(linker, in, "i")) {
        return false;
    }
    const int64_t count = in->arg[0].value;
    return count >= LEAST && count <= MOST && count % UNIT == 0
               ? true
               : sim_parse_fail(linker, "%lld registers: no multiple of 8 from 24 to 256",
                                (long long)count);
}
