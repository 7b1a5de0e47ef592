/* SPDX-License-Identifier: Apache-2.0
 *
 * st.async: registers to shared memory of a block of the cluster, counted by an mbarrier there as
 * a bulk copy is, but by the threads' own proxy: nothing needs a fence. PTX ISA, "st.async".
 */
#include <stdlib.h>

#include "bulk.h"
#include "decode.h"

enum { MOST_ELEMENTS = 4 };

bool sim_send_land(sim_flight *f)
{
    memcpy(f->shared.block->shared + f->shared.offset, f->data, f->bytes);
    return sim_flight_arrived(f);
}

static bool send(sim_warp *warp, const sim_insn *in, int lane,
                 const uint64_t value[MOST_ELEMENTS][SIM_LANES])
{
    const unsigned each = sim_type_bits((enum sim_type)in->type) / 8, bytes = each * in->vector;
    uint64_t address = sim_address(warp, &in->arg[0], lane);
    sim_place place, counter;
    uint32_t slot;
    if (in->space == SIM_SPACE_GENERIC) {
        address = sim_shared_address(warp, in, lane, address);
    }
    if (address == UINT64_MAX || !sim_shared_place(warp, in, lane, address, bytes, &place) ||
        !sim_mbarrier_at(warp, in, lane, sim_address(warp, &in->arg[2], lane), &counter, &slot)) {
        return false;
    }
    if (place.offset % bytes != 0 || counter.block != place.block) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "shared offset %u is no multiple of %u, or not in the mbarrier's block",
                         place.offset, bytes);
    }
    uint8_t *state = place.block->state + place.offset;
    for (uint32_t i = 0; i < bytes; ++i) {
        if (state[i] >= SIM_BYTE_COPIED) {
            return sim_fault(warp, in, lane, SIM_RACE, "shared offset %u %s", place.offset + i,
                             sim_held_by(state + i, 1));
        }
    }
    if (!sim_race_write(warp, in, lane, place, bytes, false)) {
        return false;
    }
    sim_flight *f = sim_flight_new(warp, in, lane, SIM_FLIGHT_SEND, place);
    if (f == NULL) {
        return false;
    }
    f->bytes = bytes;
    f->mbarrier = slot;
    f->data = malloc(bytes);
    if (f->data == NULL) {
        return sim_fault(warp, in, lane, SIM_HOST, "out of memory");
    }
    for (unsigned i = 0; i < in->vector; ++i) {
        memcpy(f->data + (size_t)i * each, &value[i][lane], each);
    }
    memset(state, SIM_BYTE_FLYING, bytes);
    return true;
}

static enum sim_step exec_send(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint64_t value[MOST_ELEMENTS][SIM_LANES];
    for (unsigned i = 0; i < in->vector; ++i) {
        sim_values(warp, in->vector > 1 ? &in->arg[1].element[i] : &in->arg[1], value[i]);
    }
    for (; mask != 0; mask &= mask - 1) {
        if (!send(warp, in, __builtin_ctz(mask), value)) {
            break;
        }
    }
    ++warp->block->events;
    return SIM_NEXT;
}

bool sim_decode_send(sim_linker *linker, sim_insn *in)
{
    static const char *const vectors[] = {"v2", "v4", NULL};
    sim_take(linker, "weak");
    const int vector = sim_take_of(linker, vectors);
    in->vector = (uint8_t)(vector < 0 ? 1 : 2 << vector);
    in->space = sim_take(linker, "shared::cluster") ? SIM_SPACE_SHARED : SIM_SPACE_GENERIC;
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_send;
    const unsigned bits = sim_type_bits((enum sim_type)in->type);
    const bool vectored = in->args > 1 && in->arg[1].kind == SIM_VECTOR;
    if (!sim_take(linker, "mbarrier::complete_tx::bytes") || (bits != 32 && bits != 64) ||
        bits * in->vector > 128 || vectored != (in->vector > 1) ||
        (vectored && in->arg[1].elements != in->vector)) {
        return false;
    }
    return sim_operands(linker, in, vectored ? "mVm" : "mym");
}
