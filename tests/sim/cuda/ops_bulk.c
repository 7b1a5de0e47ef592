/* SPDX-License-Identifier: Apache-2.0
 *
 * cp.async.bulk, plain and of tensors, its groups and waits; fence.proxy.async and
 * fence.mbarrier_init. When copies land is async.c's. PTX ISA, "cp.async.bulk",
 * "cp.async.bulk.tensor", "membar / fence".
 */
#include <stdlib.h>

#include "bulk.h"
#include "decode.h"

enum { BULK_ALIGN = 16, BOX_ALIGN = 128 };

/* ---- landing ---- */

static bool land_load(sim_flight *f)
{
    if (f->tensor) {
        if (!sim_box_load(f)) {
            return false;
        }
    } else {
        const uint8_t *from = sim_flight_global(f, f->global, f->bytes);
        if (from == NULL) {
            return false;
        }
        memcpy(f->shared.block->shared + f->shared.offset, from, f->bytes);
    }
    return sim_flight_arrived(f);
}

bool sim_flight_arrived(sim_flight *f)
{
    sim_block *home = f->shared.block;
    sim_mbarrier *m = home->async->mbarrier[f->mbarrier];
    memset(home->state + f->shared.offset, SIM_BYTE_SET, f->bytes);
    sim_race_landed(home, f->shared.offset, f->bytes, home->first_channel + f->mbarrier,
                    m->phase + 1);
    m->landed = m->phase + 1;
    m->sender = f->warp;
    m->sent = f->in;
    if (!sim_mbarrier_tx(f->warp, f->in, f->lane, home, f->mbarrier, -(int64_t)f->bytes)) {
        return false;
    }
    sim_mbarrier_check(home, f->mbarrier);
    return true;
}

bool sim_flight_read(sim_flight *f)
{
    const sim_block *home = f->shared.block;
    f->data = malloc(f->bytes);
    if (f->data == NULL) {
        return sim_fault(f->warp, f->in, f->lane, SIM_HOST, "out of memory");
    }
    f->was_read = true;
    if (!f->tensor) {
        memcpy(f->data, home->shared + f->shared.offset, f->bytes);
        return true;
    }
    sim_box_read(f);
    return true;
}

bool sim_flight_land(sim_flight *f)
{
    if (f->kind == SIM_FLIGHT_LOAD) {
        return land_load(f);
    }
    if (f->kind == SIM_FLIGHT_SEND) {
        return sim_send_land(f);
    }
    if (f->kind == SIM_FLIGHT_ARRIVE) {
        return sim_copy_arrived(f);
    }
    if (f->data == NULL) {
        return true;
    }
    if (f->tensor) {
        if (!sim_box_store(f)) {
            return false;
        }
    } else {
        uint8_t *to = sim_flight_global(f, f->global, f->bytes);
        if (to == NULL) {
            return false;
        }
        memcpy(to, f->data, f->bytes);
    }
    free(f->data);
    f->data = NULL;
    return true;
}

/* ---- issue ---- */

enum { LOAD, STORE }; /* in->mode */

typedef struct request {
    sim_place shared;
    uint32_t bytes;
    uint64_t global;
    bool tensor;
    sim_map map;
    int32_t at[SIM_MAP_AXES];
} request;

static bool fetch_map(sim_warp *warp, const sim_insn *in, int lane, const sim_operand *o,
                      sim_map *map)
{
    const uint64_t address = sim_address(warp, o, lane);
    const bool param = in->space == SIM_SPACE_PARAM;
    const enum sim_space space = param ? SIM_SPACE_PARAM : SIM_SPACE_GENERIC;
    const uint8_t *bytes = sim_reach(warp, in, lane, space, address, SIM_MAP_ALIGN, SIM_READS);
    if (bytes == NULL || sim_reach(warp, in, lane, space, address + SIM_MAP_ALIGN,
                                   SIM_MAP_BYTES - SIM_MAP_ALIGN, SIM_READS) == NULL) {
        return false;
    }
    return sim_map_decode(bytes, map)
               ? true
               : sim_fault(warp, in, lane, SIM_MEMORY, "address 0x%llx holds no tensor map",
                           (unsigned long long)address);
}

/* The map and coordinates of a tensor operand. */
static bool read_map(sim_warp *warp, const sim_insn *in, int lane, const sim_operand *o, request *r)
{
    if (!fetch_map(warp, in, lane, o, &r->map)) {
        return false;
    }
    if (r->map.rank != o->elements || r->map.rank != in->vector) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "%u coordinates for a tensor of %u axes",
                         o->elements, r->map.rank);
    }
    for (uint32_t i = 0; i < o->elements; ++i) {
        r->at[i] = (int32_t)sim_value(warp, &o->element[i], lane);
        if (r->map.step[i] != 1) {
            return sim_fault(warp, in, lane, SIM_UNKNOWN, "element strides are not modelled");
        }
    }
    if (r->map.nan_fill) {
        return sim_fault(warp, in, lane, SIM_UNKNOWN, "filling with NaN is not modelled");
    }
    /* An H200 stops with an illegal instruction. */
    if (r->at[0] * r->map.element_bytes % BULK_ALIGN != 0) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "coordinate %d of %u bytes an element is no multiple of %d bytes",
                         r->at[0], r->map.element_bytes, BULK_ALIGN);
    }
    const uint32_t span = r->map.swizzle == SIM_SWIZZLE_NONE ? 0 : 16u << r->map.swizzle;
    if (span != 0 && sim_box_row_bytes(&r->map) != span) {
        return sim_fault(warp, in, lane, SIM_UNKNOWN,
                         "rows of %u bytes under a swizzle of %u are not modelled",
                         sim_box_row_bytes(&r->map), span);
    }
    r->bytes = (uint32_t)sim_map_box_bytes(&r->map);
    r->tensor = true;
    return true;
}

/* The shared and the global side, checked for alignment and bounds. */
static bool read_request(sim_warp *warp, const sim_insn *in, int lane, request *r)
{
    const sim_operand *shared = &in->arg[in->mode == LOAD ? 0 : 1];
    const sim_operand *global = &in->arg[in->mode == LOAD ? 1 : 0];
    memset(r, 0, sizeof *r);
    if (in->vector != 0) {
        if (!read_map(warp, in, lane, global, r)) {
            return false;
        }
    } else {
        r->global = sim_address(warp, global, lane);
        r->bytes = (uint32_t)sim_value(warp, &in->arg[2], lane);
    }
    const uint64_t address = sim_address(warp, shared, lane);
    const uint32_t align = r->tensor ? BOX_ALIGN : BULK_ALIGN;
    if (address % align != 0 || r->global % BULK_ALIGN != 0 || r->bytes % BULK_ALIGN != 0) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "shared address 0x%llx is no multiple of %u, or global address 0x%llx or "
                         "%u bytes of %d",
                         (unsigned long long)address, align, (unsigned long long)r->global,
                         r->bytes, BULK_ALIGN);
    }
    if (!sim_shared_place(warp, in, lane, address, r->bytes, &r->shared)) {
        return false;
    }
    return r->tensor || r->bytes == 0 ||
           sim_reach_global(warp, in, lane, r->global, r->bytes,
                            in->mode == LOAD ? SIM_READS : SIM_WRITES, sim_is_early(warp)) != NULL;
}

static void fill_flight(sim_flight *f, const request *r)
{
    f->bytes = r->bytes;
    f->global = r->global;
    f->tensor = r->tensor;
    f->map = r->map;
    memcpy(f->at, r->at, sizeof f->at);
}

/* A copy into one block's shared memory. */
static bool issue_load(sim_warp *warp, const sim_insn *in, int lane, const request *r,
                       sim_place shared, uint32_t slot)
{
    sim_block *home = shared.block;
    const sim_mbarrier *m = home->async->mbarrier[slot];
    uint8_t *state = home->state + shared.offset;
    if (!sim_race_fenced(warp, m->maker, m->maker_lanes, m->made, true)) {
        return sim_fault(warp, in, lane, SIM_RACE,
                         "no fence.mbarrier_init or fence.proxy.async followed the init of the "
                         "mbarrier at shared offset %u",
                         m->offset);
    }
    for (uint32_t i = 0; i < r->bytes; ++i) {
        if (state[i] >= SIM_BYTE_COPIED) {
            return sim_fault(warp, in, lane, SIM_RACE, "shared offset %u %s", shared.offset + i,
                             sim_held_by(state + i, 1));
        }
    }
    if (r->bytes == 0) {
        return true;
    }
    if (!sim_race_async(warp, in, lane, shared, r->bytes, true)) {
        return false;
    }
    sim_flight *f = sim_flight_new(warp, in, lane, SIM_FLIGHT_LOAD, shared);
    if (f == NULL) {
        return false;
    }
    memset(state, SIM_BYTE_FLYING, r->bytes);
    fill_flight(f, r);
    f->mbarrier = slot;
    return true;
}

static bool load(sim_warp *warp, const sim_insn *in, int lane)
{
    const sim_operand *mbarrier = &in->arg[in->vector != 0 ? 2 : 3];
    request r;
    sim_place place;
    uint32_t slot;
    if (!read_request(warp, in, lane, &r) ||
        !sim_mbarrier_at(warp, in, lane, sim_address(warp, mbarrier, lane), &place, &slot)) {
        return false;
    }
    if (place.block != r.shared.block) {
        return sim_fault(warp, in, lane, SIM_MEMORY,
                         "the copy goes to one block and its mbarrier is another one's");
    }
    if (in->mode2 == 0) {
        return issue_load(warp, in, lane, &r, r.shared, slot);
    }
    uint32_t ranks = (uint32_t)sim_value(warp, mbarrier + 1, lane) & 0xffff;
    for (; ranks != 0; ranks &= ranks - 1) {
        const uint32_t rank = (uint32_t)__builtin_ctz(ranks);
        sim_block *home = sim_peer(warp, in, lane, rank);
        const sim_place to = {home, r.shared.offset};
        if (home == NULL ||
            !sim_mbarrier_find(warp, in, lane, (sim_place){home, place.offset}, &slot) ||
            !issue_load(warp, in, lane, &r, to, slot)) {
            return false;
        }
    }
    return true;
}

static bool store(sim_warp *warp, const sim_insn *in, int lane)
{
    sim_block *block = warp->block;
    request r;
    if (!read_request(warp, in, lane, &r)) {
        return false;
    }
    if (r.shared.block != block) {
        return sim_fault(warp, in, lane, SIM_MEMORY, "a copy from another block's shared memory");
    }
    if (r.bytes == 0) {
        return true;
    }
    sim_flight *f = sim_async_read(warp, in, r.shared.offset, r.bytes) != NULL
                        ? sim_flight_new(warp, in, lane, SIM_FLIGHT_STORE, r.shared)
                        : NULL;
    if (f == NULL) {
        return false;
    }
    fill_flight(f, &r);
    f->group = block->async->group[warp->index][lane];
    sim_async_pin(block, r.shared.offset, r.bytes);
    return true;
}

static enum sim_step exec_bulk(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        if (!(in->mode == LOAD ? load(warp, in, lane) : store(warp, in, lane))) {
            break;
        }
    }
    ++warp->block->events;
    return SIM_NEXT;
}

/* prefetch.tensormap: nothing but a look whether there is one. */
static enum sim_step exec_prefetch(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        sim_map map;
        if (!fetch_map(warp, in, __builtin_ctz(mask), &in->arg[0], &map)) {
            break;
        }
    }
    return SIM_NEXT;
}

bool sim_decode_prefetch(sim_linker *linker, sim_insn *in)
{
    static const char *const spaces[] = {"param", "const", NULL};
    if (!sim_take(linker, "tensormap")) {
        return sim_decode_hint(linker, in);
    }
    in->space = sim_take_of(linker, spaces) == 0 ? SIM_SPACE_PARAM : SIM_SPACE_GENERIC;
    in->exec = exec_prefetch;
    return sim_operands(linker, in, "m");
}

/* ---- groups of stores ---- */

static enum sim_step exec_commit(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)in;
    for (; mask != 0; mask &= mask - 1) {
        ++warp->block->async->group[warp->index][__builtin_ctz(mask)];
    }
    return SIM_NEXT;
}

/* The source is free again, and unless `reads` the destination is written. */
static bool finish_store(sim_warp *warp, sim_flight *f, bool reads)
{
    if (!f->was_read && !sim_flight_read(f)) {
        return false;
    }
    if (!f->waited) {
        sim_async_unpin(warp->block, f->shared.offset, f->bytes);
        f->waited = true;
    }
    sim_async_done(warp, f->shared.offset, f->bytes);
    return reads || sim_flight_land(f);
}

static enum sim_step exec_wait(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    struct sim_async *a = warp->block->async;
    const uint32_t keep = (uint32_t)in->arg[0].value;
    const bool reads = in->mode != 0;
    for (uint32_t i = 0; i < a->flights;) {
        sim_flight *f = &a->flight[i];
        const bool mine = f->kind == SIM_FLIGHT_STORE && f->warp == warp &&
                          (mask >> f->lane & 1) != 0 &&
                          f->group + keep < a->group[warp->index][f->lane];
        if (mine && !finish_store(warp, f, reads)) {
            return SIM_NEXT;
        }
        if (mine && f->data == NULL) {
            sim_flight_remove(warp->block, i);
        } else {
            ++i;
        }
    }
    return SIM_NEXT;
}

/* ---- fences ---- */

static enum sim_step exec_fence(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_race_fence(warp, in, mask, in->mode != 0);
    return SIM_NEXT;
}

static enum sim_step exec_fence_nothing(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)warp;
    (void)in;
    (void)mask;
    return SIM_NEXT;
}

bool sim_decode_proxy_fence(sim_linker *linker, sim_insn *in)
{
    static const char *const spaces[] = {"global", "shared::cta", "shared::cluster", NULL};
    in->exec = exec_fence;
    if (sim_take(linker, "mbarrier_init")) {
        in->mode = 1;
        return sim_take(linker, "release") && sim_take(linker, "cluster") &&
               sim_operands(linker, in, "");
    }
    if (!sim_take(linker, "proxy") || !sim_take(linker, "async")) {
        return false;
    }
    in->exec = sim_take_of(linker, spaces) == 0 ? exec_fence_nothing : exec_fence;
    return sim_operands(linker, in, "");
}

/* ---- decoding ---- */

static bool decode_group(sim_linker *linker, sim_insn *in)
{
    if (sim_take(linker, "commit_group")) {
        in->exec = exec_commit;
        return sim_operands(linker, in, "");
    }
    in->exec = exec_wait;
    if (!sim_take(linker, "wait_group")) {
        return false;
    }
    in->mode = sim_take(linker, "read");
    return sim_operands(linker, in, "i");
}

/* Coordinates of a tensor are read as well. */
static bool read_coordinates(sim_linker *linker, sim_operand *o)
{
    for (uint32_t i = 0; i < o->elements; ++i) {
        sim_operand *e = &o->element[i];
        const bool number = e->kind == SIM_IMMEDIATE;
        if (!(number ? sim_use_immediate(linker, e, 32)
                     : e->kind == SIM_REGISTER && e->width == 32 && sim_reads(linker, e))) {
            return sim_parse_fail(linker, "a coordinate is no register of 32 bits");
        }
    }
    return true;
}

bool sim_decode_bulk(sim_linker *linker, sim_insn *in)
{
    static const char *const axes[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    static const char *const clusters[] = {"shared::cluster", "shared::cta", NULL};
    const bool tensor = sim_take(linker, "tensor");
    const int rank = tensor ? sim_take_of(linker, axes) : -1;
    in->vector = (uint8_t)(rank + 1);
    in->space = SIM_SPACE_SHARED;
    in->exec = exec_bulk;
    if (tensor && (rank < 0 || in->args < 2)) {
        return false;
    }
    if (tensor) {
        sim_take(linker, "tile");
    }
    const bool loads = sim_take(linker, "mbarrier::complete_tx::bytes");
    if (!loads && !sim_take(linker, "bulk_group")) {
        return !tensor && decode_group(linker, in);
    }
    in->mode = loads ? LOAD : STORE;
    in->mode2 = loads && sim_take(linker, "multicast::cluster");
    const bool policy = sim_take(linker, "L2::cache_hint");
    if (!sim_take(linker, "global") || sim_take_of(linker, clusters) < 0 ||
        (tensor && !read_coordinates(linker, &in->arg[loads ? 1 : 0]))) {
        return false;
    }
    char shape[8] = "mm";
    strcat(shape, tensor ? "" : "w");
    strcat(shape, loads ? "m" : "");
    strcat(shape, in->mode2 != 0 ? "y" : "");
    strcat(shape, policy ? "l" : "");
    return sim_operands(linker, in, shape);
}
