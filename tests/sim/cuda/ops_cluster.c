/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters: addresses in other blocks' shared memory, barrier.cluster. What may be touched there is
 * space.c's. PTX ISA, "mapa", "getctarank", "barrier.cluster".
 */
#include "decode.h"
#include "machine.h"

enum { ARRIVES, WAITS };
enum { RELEASES, RELAXED };

/* ---- addresses ---- */

static bool in_window(sim_warp *warp, const sim_insn *in, int lane, uint64_t address)
{
    return in->space == SIM_SPACE_SHARED || (address & SIM_WINDOW_MASK) == SIM_WINDOW_SHARED
               ? true
               : sim_fault(warp, in, lane, SIM_MEMORY, "address 0x%llx is not in shared memory",
                           (unsigned long long)address);
}

static enum sim_step exec_map(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint64_t ranks = UINT64_C(0xff) << SIM_RANK_SHIFT;
    uint64_t address[SIM_LANES], rank[SIM_LANES];
    sim_values(warp, &in->arg[1], address);
    sim_values(warp, &in->arg[2], rank);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t wanted = (uint32_t)rank[lane];
        if (!in_window(warp, in, lane, address[lane])) {
            return SIM_NEXT;
        }
        if (wanted >= warp->block->cluster->blocks) {
            sim_fault(warp, in, lane, SIM_MEMORY, "the cluster has no block %u", wanted);
            return SIM_NEXT;
        }
        address[lane] = (address[lane] & ~ranks) | (uint64_t)wanted << SIM_RANK_SHIFT;
    }
    sim_put(warp, &in->arg[0], mask, address);
    return SIM_NEXT;
}

static enum sim_step exec_rank(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t address[SIM_LANES];
    sim_values(warp, &in->arg[1], address);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        if (!in_window(warp, in, lane, address[lane])) {
            return SIM_NEXT;
        }
        address[lane] = address[lane] >> SIM_RANK_SHIFT & 0xff;
    }
    sim_put(warp, &in->arg[0], mask, address);
    return SIM_NEXT;
}

static bool decode_space(sim_linker *linker, sim_insn *in)
{
    in->space = sim_take(linker, "shared::cluster") ? SIM_SPACE_SHARED : SIM_SPACE_GENERIC;
    in->type = (uint8_t)sim_take_type(linker);
    return linker->module->target >= 90 && (in->type == SIM_U32 || in->type == SIM_U64) &&
           (in->space == SIM_SPACE_SHARED || in->type == SIM_U64);
}

bool sim_decode_map(sim_linker *linker, sim_insn *in)
{
    in->exec = exec_map;
    return decode_space(linker, in) && sim_operands(linker, in, "dsw");
}

bool sim_decode_rank(sim_linker *linker, sim_insn *in)
{
    in->exec = exec_rank;
    return decode_space(linker, in) && sim_operands(linker, in, "Ws");
}

/* ---- barrier.cluster ---- */

static void open_phase(sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        sim_block *block = cluster->block[i];
        cluster->done[i] = cluster->arriving[i];
        memset(&cluster->arriving[i], 0, sizeof cluster->arriving[i]);
        ++block->events;
        for (uint32_t j = 0; j < block->warps; ++j) {
            sim_warp *warp = &block->warp[j];
            warp->cluster_over |= warp->cluster_came;
            warp->cluster_came = 0;
            for (uint32_t k = 0; k < warp->groups; ++k) {
                sim_group *g = &warp->group[k];
                g->state = g->state == SIM_WAITS_PHASE ? (uint8_t)SIM_RUNS : g->state;
            }
        }
    }
}

void sim_cluster_check(sim_cluster *cluster)
{
    uint32_t missing = 0, came = 0;
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        const sim_block *block = cluster->block[i];
        for (uint32_t j = 0; j < block->warps; ++j) {
            missing |= block->warp[j].alive & ~block->warp[j].cluster_came;
            came |= block->warp[j].cluster_came;
        }
    }
    if (missing == 0 && came != 0) {
        open_phase(cluster);
    }
}

static enum sim_step exec_arrive(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_cluster *cluster = warp->block->cluster;
    if (((warp->cluster_came | warp->cluster_over) & mask) != 0) {
        sim_fault(warp, in, -1, SIM_DEADLOCK,
                  "threads arrive again that have not waited since they did");
        return SIM_NEXT;
    }
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        const sim_block *home = cluster->block[i];
        if (in->mode2 == RELEASES) {
            sim_race_publish(warp, &cluster->arriving[i], home);
        } else if (warp->fenced != NULL) {
            const uint32_t entries = home == warp->block ? home->clocks : home->first_channel;
            sim_race_join(&cluster->arriving[i], warp->fenced, entries);
        }
    }
    sim_race_tick(warp);
    warp->cluster_came |= mask;
    sim_cluster_check(cluster);
    return SIM_NEXT;
}

static enum sim_step exec_wait(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_cluster *cluster = warp->block->cluster;
    if (((warp->cluster_came | warp->cluster_over) & mask) != mask) {
        sim_fault(warp, in, -1, SIM_DEADLOCK, "threads wait that have not arrived");
        return SIM_NEXT;
    }
    if ((warp->cluster_over & mask) != mask) {
        return SIM_PARK;
    }
    warp->cluster_over &= ~mask;
    warp->peers |= (1u << cluster->blocks) - 1;
    sim_race_acquire(warp, &cluster->done[warp->block->rank], warp->block);
    return SIM_NEXT;
}

bool sim_decode_cluster_barrier(sim_linker *linker, sim_insn *in)
{
    const bool waits = sim_take(linker, "wait");
    if (!waits && !sim_take(linker, "arrive")) {
        return false;
    }
    in->mode = waits ? WAITS : ARRIVES;
    in->mode2 = !waits && sim_take(linker, "relaxed") ? RELAXED : RELEASES;
    sim_take(linker, waits ? "acquire" : "release");
    in->need = sim_take(linker, "aligned") ? SIM_NEED_LIVE : SIM_NEED_NOTHING;
    in->exec = waits ? exec_wait : exec_arrive;
    return linker->module->target >= 90 && sim_operands(linker, in, "");
}
