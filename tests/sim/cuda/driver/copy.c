/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills. What the real driver promises and no more: a copy from pageable memory takes
 * the source at the call but lands later; one to pageable memory is done on return; pinned memory
 * is read and written when the stream comes to it. queue.c does the work.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where a universal address lies. */
static drv_place place_of(uint64_t address)
{
    const drv_block *block = drv_block_at(address);
    bool device = false;
    for (int i = 0; i < drv_options.devices; i++)
        device |= address - drv_devices[i].range < (uint64_t)1 << 41;
    return (drv_place){.host = !device && !block, .address = address};
}

static drv_place host_place(const void *memory)
{
    return (drv_place){.host = true, .address = (uint64_t)(uintptr_t)memory};
}

static drv_place device_place(uint64_t address)
{
    return (drv_place){.host = false, .address = address};
}

static CUresult check(CUcontext ctx, const char *call, drv_place place, uint64_t bytes)
{
    char why[256];
    if (place.host)
        return place.address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (drv_memory_resolve(ctx, place.address, bytes, why, sizeof(why)))
        return CUDA_SUCCESS;
    drv_report("%s: %s", call, why);
    return CUDA_ERROR_INVALID_VALUE;
}

static bool pageable(drv_place place, uint64_t bytes)
{
    return place.host && !drv_memory_pinned((const void *)(uintptr_t)place.address, bytes);
}

typedef struct copy_request {
    const char *call;
    drv_place to, from;
    CUcontext from_ctx; /* between devices */
    uint64_t bytes;
    bool asynchronous;
} copy_request;

static drv_op *copy_op(const copy_request *r, bool take_source)
{
    drv_op *op = drv_op_create(DRV_OP_COPY);
    if (!op)
        return NULL;
    op->to = r->to;
    op->from = r->from;
    op->from_ctx = r->from_ctx;
    op->bytes = r->bytes;
    if (!take_source)
        return op;
    op->staged = malloc(r->bytes);
    if (!op->staged) {
        drv_op_destroy(op);
        return NULL;
    }
    memcpy(op->staged, (const void *)(uintptr_t)r->from.address, r->bytes);
    return op;
}

static CUresult submit_copy(CUcontext ctx, CUstream stream, const copy_request *r)
{
    CUresult result = check(ctx, r->call, r->to, r->bytes);
    if (!result)
        result = check(r->from_ctx ? r->from_ctx : ctx, r->call, r->from, r->bytes);
    if (result)
        return result;
    bool from_pageable = pageable(r->from, r->bytes), to_pageable = pageable(r->to, r->bytes);
    /* Even a synchronous copy is not waited for when it stays inside the device. */
    bool whole = r->from.host || r->to.host;
    bool captured = stream->capture;
    if (captured && (from_pageable || to_pageable)) {
        drv_report("%s: pageable memory in a captured stream", r->call);
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (!r->asynchronous && r->from.host)
        drv_stream_drain(stream);
    drv_op *op = copy_op(r, from_pageable);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = drv_submit(stream, op);
    bool wait = !captured && (to_pageable || (!r->asynchronous && whole && !from_pageable));
    if (!result && wait) {
        drv_stream_drain(stream);
        result = ctx->fault;
    }
    return result;
}

static CUresult copy(copy_request request, CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!request.asynchronous)
        result = drv_capture_forbid_unsafe();
    if (!result)
        result = drv_stream_get(ctx, handle, &stream);
    if (!result && request.bytes)
        result = submit_copy(ctx, stream, &request);
    return drv_leave(result);
}

SIM_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy(
        (copy_request){"cuMemcpyHtoD", device_place(to), host_place(from), NULL, bytes, false},
        NULL);
}

SIM_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(
        (copy_request){"cuMemcpyDtoH", host_place(to), device_place(from), NULL, bytes, false},
        NULL);
}

SIM_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(
        (copy_request){"cuMemcpyDtoD", device_place(to), device_place(from), NULL, bytes, false},
        NULL);
}

SIM_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                      CUstream stream)
{
    return copy(
        (copy_request){"cuMemcpyHtoDAsync", device_place(to), host_place(from), NULL, bytes, true},
        stream);
}

SIM_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(
        (copy_request){"cuMemcpyDtoHAsync", host_place(to), device_place(from), NULL, bytes, true},
        stream);
}

SIM_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                      CUstream stream)
{
    return copy((copy_request){"cuMemcpyDtoDAsync", device_place(to), device_place(from), NULL,
                               bytes, true},
                stream);
}

/* With universal addresses the ends tell what they are; only inside the lock is that known. */
static CUresult copy_universal(const char *call, uint64_t to, uint64_t from, size_t bytes,
                               CUstream stream, bool asynchronous)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    copy_request request = {call, place_of(to), place_of(from), NULL, bytes, asynchronous};
    result = drv_leave(CUDA_SUCCESS);
    return result ? result : copy(request, stream);
}

SIM_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_universal("cuMemcpy", to, from, bytes, NULL, false);
}

SIM_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_universal("cuMemcpyAsync", to, from, bytes, stream, true);
}

static CUresult copy_between(copy_request request, CUcontext to_ctx, CUcontext from_ctx,
                             CUstream stream)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    bool good = drv_object_alive(to_ctx, DRV_CONTEXT) && drv_object_alive(from_ctx, DRV_CONTEXT);
    if (good && to_ctx != ctx)
        good = false; /* the simulator has the copy done by the side that receives */
    /* What the other device still has to do comes first. */
    if (good && from_ctx != ctx)
        result = drv_context_drain(from_ctx);
    result = drv_leave(good ? result : CUDA_ERROR_INVALID_CONTEXT);
    request.from_ctx = from_ctx;
    return result ? result : copy(request, stream);
}

SIM_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                              CUcontext from_ctx, size_t bytes)
{
    return copy_between(
        (copy_request){"cuMemcpyPeer", device_place(to), device_place(from), NULL, bytes, false},
        to_ctx, from_ctx, NULL);
}

SIM_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                                   CUcontext from_ctx, size_t bytes, CUstream stream)
{
    return copy_between((copy_request){"cuMemcpyPeerAsync", device_place(to), device_place(from),
                                       NULL, bytes, true},
                        to_ctx, from_ctx, stream);
}

/* ---- fills: never waited for -------------------------------------------------------------- */

static CUresult fill(uint64_t to, uint32_t value, int width, size_t count, CUstream handle,
                     bool asynchronous)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!asynchronous)
        result = drv_capture_forbid_unsafe();
    if (!result)
        result = drv_stream_get(ctx, handle, &stream);
    if (!result && (to % (unsigned)width || count > SIZE_MAX / 4))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && count)
        result = check(ctx, "cuMemset", device_place(to), count * (unsigned)width);
    if (result || !count)
        return drv_leave(result);
    drv_op *op = drv_op_create(DRV_OP_SET);
    if (!op)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    op->to = device_place(to);
    op->bytes = count * (unsigned)width;
    op->value = value;
    op->width = width;
    return drv_leave(drv_submit(stream, op));
}

SIM_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill(to, value, 1, count, NULL, false);
}

SIM_API CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill(to, value, 2, count, NULL, false);
}

SIM_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    return fill(to, value, 4, count, NULL, false);
}

SIM_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(to, value, 1, count, stream, true);
}

SIM_API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                  CUstream stream)
{
    return fill(to, value, 2, count, stream, true);
}

SIM_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return fill(to, value, 4, count, stream, true);
}
