/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, streams and events. Copies are asynchronous on the caller's stream, with the driver's
 * rules for host memory that it did not pin: a copy to the device returns when the source may be
 * changed again, one to the host when the data is there. None of them may be captured in a graph;
 * with pinned memory they may.
 */
#include "host/host.h"

#include <inttypes.h>

static nib_cu_pointer address(const void *memory)
{
    return (nib_cu_pointer)(uintptr_t)memory;
}

nib_status nib_cuda_memory_alloc(void *dev, uint64_t bytes, void **out)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    nib_cu_pointer memory = 0;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    /* Nothing is an invalid size to the driver. */
    nib_cu_result result = bytes > SIZE_MAX
                               ? NIB_CU_OUT_OF_MEMORY
                               : device->driver->memory_alloc(&memory, bytes ? (size_t)bytes : 1);
    if (result == NIB_CU_OUT_OF_MEMORY)
        status = nib_cuda_host->fail(NIB_NO_MEMORY, "%s has no memory for %" PRIu64 " bytes",
                                     device->name, bytes);
    else
        status = nib_cuda_result(result, "cuMemAlloc");
    nib_cuda_leave(&visit);
    if (!status)
        *out = (void *)(uintptr_t)memory;
    return status;
}

void nib_cuda_memory_free(void *dev, void *memory)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    if (nib_cuda_enter(device, &visit))
        return;
    nib_cu_result result = device->driver->memory_free(address(memory));
    if (result)
        nib_cuda_host->log(NIB_LOG_WARNING, "cuMemFree: %s (%u)", nib_cuda_result_name(result),
                           result);
    nib_cuda_leave(&visit);
}

nib_status nib_cuda_memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                                nib_copy_kind kind, void *stream)
{
    const nib_cuda_device *device = dev;
    const nib_cuda_driver *driver = device->driver;
    nib_cuda_visit visit;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    if (kind == NIB_COPY_TO_DEVICE)
        status = nib_cuda_result(driver->copy_to_device(address(to), from, bytes, stream),
                                 "cuMemcpyHtoDAsync");
    else if (kind == NIB_COPY_TO_HOST)
        status = nib_cuda_result(driver->copy_to_host(to, address(from), bytes, stream),
                                 "cuMemcpyDtoHAsync");
    else
        status = nib_cuda_result(driver->copy_on_device(address(to), address(from), bytes, stream),
                                 "cuMemcpyDtoDAsync");
    nib_cuda_leave(&visit);
    return status;
}

nib_status nib_cuda_synchronize(void *dev, void *stream)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = nib_cuda_result(device->driver->stream_synchronize(stream), "cuStreamSynchronize");
    nib_cuda_leave(&visit);
    return status;
}

nib_status nib_cuda_event_create(void *dev, void **event)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    nib_cu_event made = NULL;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = nib_cuda_result(device->driver->event_create(&made, 0), "cuEventCreate");
    nib_cuda_leave(&visit);
    if (!status)
        *event = made;
    return status;
}

void nib_cuda_event_destroy(void *dev, void *event)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    if (!event || nib_cuda_enter(device, &visit))
        return;
    device->driver->event_destroy(event);
    nib_cuda_leave(&visit);
}

nib_status nib_cuda_event_record(void *dev, void *event, void *stream)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = nib_cuda_result(device->driver->event_record(event, stream), "cuEventRecord");
    nib_cuda_leave(&visit);
    return status;
}

nib_status nib_cuda_event_elapsed(void *dev, void *from, void *to, double *us)
{
    const nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    float ms = 0;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = nib_cuda_result(device->driver->event_synchronize(to), "cuEventSynchronize");
    if (!status)
        status =
            nib_cuda_result(device->driver->event_elapsed(&ms, from, to), "cuEventElapsedTime");
    nib_cuda_leave(&visit);
    if (!status)
        *us = (double)ms * 1e3;
    return status;
}
