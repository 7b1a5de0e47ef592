/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor maps: checked as the driver's manual asks, encoded as the interpreter's ../tensor_map.h
 * says. Packed types of four and six bits and interleaved layouts are refused.
 */
#include "state.h"

#include "tensor_map.h"

enum { MOST_BOX = 256, MOST_STEP = 8, ALIGN = 16 };

static unsigned element_bytes(CUtensorMapDataType type)
{
    switch ((int)type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
        return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
        return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
        return 8;
    default:
        return type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ ? 4 : 0;
    }
}

static bool is_float(CUtensorMapDataType type)
{
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

/* Sizes, strides, box and steps of each axis. */
static bool take_axes(sim_map *map, const cuuint64_t *size, const cuuint64_t *stride,
                      const cuuint32_t *box, const cuuint32_t *step)
{
    for (unsigned i = 0; i < map->rank; i++) {
        bool stepped = i > 0; /* the innermost step is passed over */
        if (!size[i] || size[i] > UINT64_C(1) << 32 || !box[i] || box[i] > MOST_BOX ||
            (stepped && (!step[i] || step[i] > MOST_STEP)))
            return false;
        if (i > 0 && (stride[i - 1] % ALIGN || stride[i - 1] >> 40))
            return false;
        map->size[i] = size[i];
        map->box[i] = (uint16_t)box[i];
        map->step[i] = stepped ? (uint8_t)step[i] : 1;
        map->stride[i] = i > 0 ? stride[i - 1] : map->element_bytes;
    }
    unsigned row = box[0] * map->element_bytes;
    return row % ALIGN == 0 && (map->swizzle == SIM_SWIZZLE_NONE || row <= 16u << map->swizzle);
}

SIM_API CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                        void *address, const cuuint64_t *size,
                                        const cuuint64_t *stride, const cuuint32_t *box,
                                        const cuuint32_t *step, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (ctx->device->chip->cc < 90)
        return drv_leave(CUDA_ERROR_NOT_SUPPORTED);
    sim_map map = {.address = (uint64_t)(uintptr_t)address,
                   .rank = (uint8_t)rank,
                   .element_bytes = (uint8_t)element_bytes(type),
                   .swizzle = (uint8_t)swizzle,
                   .nan_fill = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                   .type = (uint8_t)type};
    bool fine =
        out && (uintptr_t)out % SIM_MAP_ALIGN == 0 && rank >= 1 && rank <= SIM_MAP_AXES && size &&
        box && step && (rank == 1 || stride) && map.element_bytes && map.address % ALIGN == 0 &&
        interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle <= CU_TENSOR_MAP_SWIZZLE_128B &&
        promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B && (!map.nan_fill || is_float(type)) &&
        fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    if (!fine || !take_axes(&map, size, stride, box, step))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    sim_map_encode(&map, out);
    return drv_leave(CUDA_SUCCESS);
}
