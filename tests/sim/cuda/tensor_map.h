/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor maps as the simulator encodes them into the 128 opaque bytes: the driver's
 * cuTensorMapEncodeTiled writes them, bulk tensor copies read them.
 */
#ifndef SIM_CUDA_TENSOR_MAP_H
#define SIM_CUDA_TENSOR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIM_MAP_AXES = 5, SIM_MAP_BYTES = 128, SIM_MAP_ALIGN = 64 };

enum sim_swizzle { SIM_SWIZZLE_NONE, SIM_SWIZZLE_32, SIM_SWIZZLE_64, SIM_SWIZZLE_128 };

typedef struct sim_map {
    uint64_t address;
    uint8_t rank, element_bytes, swizzle; /* enum sim_swizzle */
    bool nan_fill;                        /* beyond the tensor, instead of zeros */
    uint8_t type;                         /* the driver's CUtensorMapDataType */
    uint16_t box[SIM_MAP_AXES];           /* elements, innermost axis first */
    uint8_t step[SIM_MAP_AXES];           /* element strides */
    uint64_t size[SIM_MAP_AXES];          /* elements */
    uint64_t stride[SIM_MAP_AXES];        /* bytes; of the innermost axis an element's */
} sim_map;

/* Into 128 bytes, and back; false where the bytes are no map of ours. */
void sim_map_encode(const sim_map *map, void *bytes);
bool sim_map_decode(const void *bytes, sim_map *map);
/* Bytes of a box in shared memory. */
size_t sim_map_box_bytes(const sim_map *map);
/* Where a byte of a box lands: its offset is counted from a shared address, whose bits take part in
 * the swizzle. */
static inline uint32_t sim_map_swizzle(uint8_t swizzle, uint32_t address)
{
    static const uint32_t mask[] = {0, 1, 3, 7};
    return address ^ ((address >> 7 & mask[swizzle]) << 4);
}

#ifdef __cplusplus
}
#endif
#endif
