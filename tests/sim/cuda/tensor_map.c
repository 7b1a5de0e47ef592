/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's own encoding of tensor maps. A magic number and a sum of the bytes tell them from
 * anything else; real ones differ from one generation of chips to the next and nobody reads them.
 */
#include "tensor_map.h"

#include <string.h>

/* 113 bytes that matter, packed. */
typedef struct packed_map {
    uint64_t magic;
    uint64_t address;
    uint64_t size[SIM_MAP_AXES];
    uint64_t stride[SIM_MAP_AXES - 1];
    uint16_t box[SIM_MAP_AXES];
    uint8_t step[SIM_MAP_AXES];
    uint8_t shape; /* rank, log2 of the element's bytes */
    uint8_t modes; /* swizzle, fill */
    uint8_t type;
    uint8_t unused[2];
    uint32_t sum;
} packed_map;

_Static_assert(sizeof(packed_map) <= SIM_MAP_BYTES, "a map does not fit");

static const uint64_t magic = UINT64_C(0x70616d2d726f736e);

static uint32_t sum_of(const packed_map *p)
{
    const uint8_t *bytes = (const uint8_t *)p;
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < offsetof(packed_map, sum); ++i) {
        sum = (sum ^ bytes[i]) * 16777619u;
    }
    return sum;
}

void sim_map_encode(const sim_map *map, void *bytes)
{
    packed_map p;
    memset(&p, 0, sizeof p);
    p.magic = magic;
    p.address = map->address;
    p.shape = (uint8_t)(map->rank | __builtin_ctz(map->element_bytes) << 4);
    p.modes = (uint8_t)(map->swizzle | map->nan_fill << 4);
    p.type = map->type;
    for (int i = 0; i < SIM_MAP_AXES; ++i) {
        p.size[i] = map->size[i];
        p.box[i] = map->box[i];
        p.step[i] = map->step[i];
        if (i > 0) {
            p.stride[i - 1] = map->stride[i];
        }
    }
    p.sum = sum_of(&p);
    memset(bytes, 0, SIM_MAP_BYTES);
    memcpy(bytes, &p, sizeof p);
}

bool sim_map_decode(const void *bytes, sim_map *map)
{
    packed_map p;
    memcpy(&p, bytes, sizeof p);
    if (p.magic != magic || p.sum != sum_of(&p)) {
        return false;
    }
    memset(map, 0, sizeof *map);
    map->address = p.address;
    map->rank = p.shape & 15;
    map->element_bytes = (uint8_t)(1u << (p.shape >> 4));
    map->swizzle = p.modes & 15;
    map->nan_fill = p.modes >> 4 != 0;
    map->type = p.type;
    for (int i = 0; i < SIM_MAP_AXES; ++i) {
        map->size[i] = p.size[i];
        map->box[i] = p.box[i];
        map->step[i] = p.step[i];
        map->stride[i] = i > 0 ? p.stride[i - 1] : map->element_bytes;
    }
    return true;
}

size_t sim_map_box_bytes(const sim_map *map)
{
    size_t elements = 1;
    for (int i = 0; i < map->rank; ++i) {
        elements *= map->box[i];
    }
    return elements * map->element_bytes;
}
