/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planner asks: layouts, rows, which row can serve what, how long it takes, and its
 * workspace. All of it depends on the chip's facts alone.
 */
#include "host/host.h"

#include <stdio.h>

/* Most special first: of equals the planner takes the first. */
static const nib_cuda_row *const tables[] = {
    nib_cuda_sm90_decode_rows, nib_cuda_sm80_decode_rows, nib_cuda_sm90_gemm_rows,
    nib_cuda_sm90_gemm8_rows,  nib_cuda_sm80_gemm_rows,   nib_cuda_general_rows,
};

const nib_cuda_row *nib_cuda_row_of(const nib_variant *variant)
{
    return (const nib_cuda_row *)(const void *)variant;
}

const nib_cuda_row *nib_cuda_row_at(uint32_t index)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const nib_cuda_row *row = tables[t]; row->variant.id; row++)
            if (index-- == 0)
                return row;
    return NULL;
}

const char *nib_cuda_row_refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                                 const nib_gemm_desc *desc)
{
    if (chip->cc < row->cc_min)
        return "it is for newer chips";
    if (row->cc_max && chip->cc > row->cc_max)
        return "it is for older chips";
    return row->family->refusal(row, chip, desc);
}

nib_status nib_cuda_layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    (void)dev, (void)desc;
    out->codes = "mma64x128";
    out->scales = out->zeros = "mma64-scales";
    return NIB_OK;
}

nib_status nib_cuda_variant(void *dev, uint32_t index, const nib_variant **out)
{
    (void)dev;
    const nib_cuda_row *row = nib_cuda_row_at(index);
    *out = row ? &row->variant : NULL;
    return NIB_OK;
}

nib_status nib_cuda_supports(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                             char *why, size_t why_bytes)
{
    const nib_cuda_device *device = dev;
    const nib_cuda_row *row = nib_cuda_row_of(variant);
    const char *reason = nib_cuda_row_refusal(row, &device->chip, desc);
    if (!reason && !device->known && !row->portable)
        reason = "this chip is not known, and only portable kernels may run on it";
    if (!reason)
        return NIB_OK;
    snprintf(why, why_bytes, "%s", reason);
    return nib_cuda_host->fail(NIB_UNSUPPORTED, "%s: %s", variant->id, reason);
}

nib_status nib_cuda_workspace(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                              int64_t m, uint64_t *bytes)
{
    const nib_cuda_device *device = dev;
    const nib_cuda_row *row = nib_cuda_row_of(variant);
    nib_cuda_shape shape = {0};
    if (m > 0)
        nib_cuda_shape_find(device, row, desc, m, &shape);
    *bytes = shape.workspace_bytes;
    return NIB_OK;
}

nib_status nib_cuda_predict(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                            int64_t m, double *us, const char **bound)
{
    const nib_cuda_device *device = dev;
    const nib_cuda_row *row = nib_cuda_row_of(variant);
    const char *limit = "memory";
    *us = NIB_CUDA_LAUNCH_US + row->family->predict(row, &device->chip, desc, m, &limit);
    if (bound)
        *bound = limit;
    return NIB_OK;
}
