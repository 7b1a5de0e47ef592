/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes of tensors between global memory and their swizzled places in shared memory; what lies
 * outside of the tensor is zero, or is not written. ops_bulk.c decides when.
 */
#include "bulk.h"

enum { PIECE = 16 }; /* bytes that the swizzle moves together */

/* One row of a box: where it begins in the tensor, and what part of it lies inside. */
typedef struct box_row {
    bool inside; /* in all axes but the innermost */
    uint64_t global;
    uint32_t first, end; /* bytes of the row that are inside */
} box_row;

uint32_t sim_box_row_bytes(const sim_map *map)
{
    return (uint32_t)map->box[0] * map->element_bytes;
}

static box_row row_of(const sim_flight *f, uint32_t row)
{
    const sim_map *map = &f->map;
    const int64_t size = (int64_t)map->size[0], start = f->at[0];
    const int64_t first = start < 0 ? -start : 0;
    const int64_t end = start + map->box[0] > size ? size - start : map->box[0];
    box_row r = {.inside = end > first, .global = map->address};
    for (int axis = 1; axis < map->rank; ++axis) {
        const int64_t at = (int64_t)f->at[axis] + row % map->box[axis];
        row /= map->box[axis];
        r.inside = r.inside && at >= 0 && at < (int64_t)map->size[axis];
        r.global += (uint64_t)at * map->stride[axis];
    }
    if (r.inside) {
        r.first = (uint32_t)first * map->element_bytes;
        r.end = (uint32_t)end * map->element_bytes;
        r.global += (uint64_t)(start * map->element_bytes + r.first);
    }
    return r;
}

/* A row between packed bytes and its place in shared memory, in the pieces that the swizzle moves.
 */
static void move_row(const sim_flight *f, uint32_t row, uint8_t *packed, bool to_shared)
{
    const uint32_t bytes = sim_box_row_bytes(&f->map);
    sim_block *home = f->shared.block;
    for (uint32_t i = 0; i < bytes; i += PIECE) {
        const uint32_t address = SIM_SHARED_BASE + f->shared.offset + row * bytes + i;
        const uint32_t at = sim_map_swizzle(f->map.swizzle, address) - SIM_SHARED_BASE;
        if (to_shared) {
            memcpy(home->shared + at, packed + i, PIECE);
        } else {
            memcpy(packed + i, home->shared + at, PIECE);
        }
    }
}

uint8_t *sim_flight_global(const sim_flight *f, uint64_t address, uint64_t bytes)
{
    return sim_reach_global(f->warp, f->in, f->lane, address, bytes,
                            f->kind == SIM_FLIGHT_STORE ? SIM_WRITES : SIM_READS, f->early);
}

bool sim_box_load(const sim_flight *f)
{
    const uint32_t bytes = sim_box_row_bytes(&f->map);
    uint8_t packed[256 * 8];
    for (uint32_t row = 0; row < f->bytes / bytes; ++row) {
        const box_row r = row_of(f, row);
        memset(packed, 0, bytes);
        if (r.inside) {
            const uint8_t *from = sim_flight_global(f, r.global, r.end - r.first);
            if (from == NULL) {
                return false;
            }
            memcpy(packed + r.first, from, r.end - r.first);
        }
        move_row(f, row, packed, true);
    }
    return true;
}

bool sim_box_store(const sim_flight *f)
{
    const uint32_t bytes = sim_box_row_bytes(&f->map);
    for (uint32_t row = 0; row < f->bytes / bytes; ++row) {
        const box_row r = row_of(f, row);
        if (r.inside) {
            uint8_t *to = sim_flight_global(f, r.global, r.end - r.first);
            if (to == NULL) {
                return false;
            }
            memcpy(to, f->data + (size_t)row * bytes + r.first, r.end - r.first);
        }
    }
    return true;
}

void sim_box_read(const sim_flight *f)
{
    const uint32_t bytes = sim_box_row_bytes(&f->map);
    for (uint32_t row = 0; row < f->bytes / bytes; ++row) {
        move_row(f, row, f->data + (size_t)row * bytes, false);
    }
}
