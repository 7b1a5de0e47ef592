/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion in a device's memory: see convert.h. Matrices cross the bus as they lie on the host,
 * in temporary memory of the device.
 */
#include "api/convert.h"

#include "base/status.h"
#include "layout/map.h"

static nib_status check_device(const nib_device *dev)
{
    if (dev->host_memory || !dev->backend->api.convert)
        return nib_fail(NIB_UNSUPPORTED, "%s converts no layouts", dev->info.selector);
    return NIB_OK;
}

nib_status nib_convert_on_device(nib_device *dev, const nib_matrix *from, int64_t n0, int64_t k0,
                                 const nib_matrix *to, const nib_copy_change *change)
{
    nib_matrix_map from_map, to_map;
    nib_status status = check_device(dev);
    if (!status)
        status = nib_matrix_map_make(from, &from_map);
    if (!status)
        status = nib_matrix_map_make(to, &to_map);
    if (status)
        return status;
    nib_convert_args args = {.size = sizeof(args),
                             .n0 = n0,
                             .k0 = k0,
                             .from = &from_map,
                             .to = &to_map,
                             .add = change ? change->add : 0,
                             .flip = change ? change->flip : 0};
    status = dev->backend->api.convert(dev->handle, &args);
    return status ? status : nib_stream_synchronize(dev, NULL);
}

/* Temporary device memory for a matrix like `host`, laid out as one buffer. */
static nib_status make_twin(nib_device *dev, const nib_matrix *host, void **memory,
                            nib_matrix *twin)
{
    size_t bytes;
    nib_status status = nib_layout_total_bytes(host->layout, host->n, host->k, &bytes);
    if (!status)
        status = nib_memory_alloc(dev, bytes, memory);
    return status ? status : nib_matrix_at(host->layout, *memory, host->n, host->k, twin);
}

static nib_status copy_planes(nib_device *dev, const nib_matrix *from, const nib_matrix *to,
                              nib_copy_kind kind)
{
    nib_status status = NIB_OK;
    for (int32_t p = 0; p < from->layout->planes && !status; p++) {
        size_t bytes;
        status = nib_layout_plane_bytes(from->layout, p, from->n, from->k, &bytes);
        if (!status)
            status = nib_memory_copy(dev, to->planes[p], from->planes[p], bytes, kind, NULL);
    }
    return status;
}

nib_status nib_convert_to_device(nib_device *dev, const nib_matrix *from, int64_t n0, int64_t k0,
                                 const nib_matrix *to, const nib_copy_change *change)
{
    void *memory = NULL;
    nib_matrix twin;
    nib_status status = check_device(dev);
    if (!status)
        status = make_twin(dev, from, &memory, &twin);
    if (!status)
        status = copy_planes(dev, from, &twin, NIB_COPY_TO_DEVICE);
    if (!status)
        status = nib_convert_on_device(dev, &twin, n0, k0, to, change);
    nib_memory_free(dev, memory);
    return status;
}

nib_status nib_convert_to_host(nib_device *dev, const nib_matrix *from, const nib_matrix *to)
{
    void *memory = NULL;
    nib_matrix twin;
    /* What is in the gaps belongs to others, who may be writing there. */
    if (nib_layout_has_gaps(to->layout))
        return nib_fail(NIB_UNSUPPORTED, "the layout has gaps");
    nib_status status = check_device(dev);
    if (!status)
        status = make_twin(dev, to, &memory, &twin);
    if (!status)
        status = nib_convert_on_device(dev, from, 0, 0, &twin, NULL);
    if (!status)
        status = copy_planes(dev, &twin, to, NIB_COPY_TO_HOST);
    if (!status)
        status = nib_stream_synchronize(dev, NULL);
    nib_memory_free(dev, memory);
    return status;
}
