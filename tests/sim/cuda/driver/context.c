/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: each thread's stack of current ones, and a device's primary one with its count. As with
 * the real driver, a context that was destroyed may still be current, and then every call fails.
 */
#include "state.h"

#include <stdlib.h>

static _Thread_local CUcontext stack[DRV_STACK];
static _Thread_local int depth;
static uint64_t last_id;

CUcontext drv_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

void drv_context_fault(CUcontext ctx, CUresult error)
{
    if (!ctx->fault)
        ctx->fault = error;
}

static bool idle(const struct CUctx_st *ctx)
{
    for (int i = 0; i < ctx->stream_count; i++) {
        if (ctx->streams[i]->head)
            return false;
    }
    return true;
}

/* In random order, as nothing else is promised between streams. */
CUresult drv_context_drain(CUcontext ctx)
{
    while (!idle(ctx))
        drv_stream_step(ctx->streams[drv_random() % (uint64_t)ctx->stream_count]);
    for (int i = 0; i < ctx->stream_count; i++)
        drv_stream_seen(ctx->streams[i], UINT64_MAX);
    return ctx->fault;
}

static CUcontext create(drv_device *device, bool primary)
{
    CUcontext ctx = drv_object_create(DRV_CONTEXT, sizeof(*ctx));
    if (!ctx)
        return NULL;
    ctx->device = device;
    ctx->primary = primary;
    ctx->id = ++last_id;
    ctx->null_stream = drv_stream_create(ctx, CU_STREAM_DEFAULT, 0);
    return ctx->null_stream ? ctx : NULL;
}

static void destroy(CUcontext ctx)
{
    drv_context_drain(ctx);
    for (int i = 0; i < ctx->stream_count; i++)
        ctx->streams[i]->object.alive = false;
    drv_memory_release_context(ctx);
    ctx->object.alive = false;
}

/* Another context of the same thread or none: what cuCtxPushCurrent and the like put on the stack.
 */
static CUresult check(CUcontext ctx)
{
    if (!drv_object_known(ctx, DRV_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return ctx->object.alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult push(CUcontext ctx)
{
    if (depth == DRV_STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice number)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (number < 0 || number >= drv_options.devices)
        return drv_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!ctx)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    drv_device *device = &drv_devices[number];
    if (!device->primary || !device->primary->object.alive)
        device->primary = create(device, true);
    if (!device->primary)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    device->primary_count++;
    *ctx = device->primary;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (number < 0 || number >= drv_options.devices)
        return drv_leave(CUDA_ERROR_INVALID_DEVICE);
    drv_device *device = &drv_devices[number];
    if (!device->primary_count)
        return drv_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--device->primary_count == 0)
        destroy(device->primary);
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDevicePrimaryCtxRelease(CUdevice number)
{
    return cuDevicePrimaryCtxRelease_v2(number);
}

SIM_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice number)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (number < 0 || number >= drv_options.devices)
        return drv_leave(CUDA_ERROR_INVALID_DEVICE);
    drv_device *device = &drv_devices[number];
    if (device->primary && device->primary->object.alive)
        destroy(device->primary);
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDevicePrimaryCtxGetState(CUdevice number, unsigned int *flags, int *active)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (number < 0 || number >= drv_options.devices)
        return drv_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!flags || !active)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = 0;
    *active = drv_devices[number].primary && drv_devices[number].primary->object.alive;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice number, unsigned int flags)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    (void)flags;
    return drv_leave(number < 0 || number >= drv_options.devices ? CUDA_ERROR_INVALID_DEVICE
                                                                 : CUDA_SUCCESS);
}

SIM_API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice number)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    (void)flags;
    if (number < 0 || number >= drv_options.devices)
        return drv_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!ctx)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    CUcontext made = create(&drv_devices[number], false);
    result = made ? push(made) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        *ctx = made;
    return drv_leave(result);
}

SIM_API CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    result = check(ctx);
    if (!result && ctx->primary)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return drv_leave(result);
    destroy(ctx);
    if (drv_current() == ctx)
        depth--;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    result = check(ctx);
    return drv_leave(result ? result : push(ctx));
}

SIM_API CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!depth)
        return drv_leave(CUDA_ERROR_INVALID_CONTEXT);
    CUcontext top = stack[--depth];
    if (ctx)
        *ctx = top;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!ctx) {
        depth -= depth > 0;
        return drv_leave(CUDA_SUCCESS);
    }
    result = check(ctx);
    if (!result && depth)
        stack[depth - 1] = ctx;
    else if (!result)
        result = push(ctx);
    return drv_leave(result);
}

SIM_API CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!ctx)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *ctx = drv_current();
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuCtxGetDevice(CUdevice *device)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!device)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *device = ctx->device->ordinal;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    ctx = ctx ? ctx : drv_current();
    result = check(ctx);
    if (!result && !id)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *id = ctx->id;
    return drv_leave(result);
}

SIM_API CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    ctx = ctx ? ctx : drv_current();
    result = check(ctx);
    if (!result && !version)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *version = 3020;
    return drv_leave(result);
}

SIM_API CUresult cuCtxGetFlags(unsigned int *flags)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!flags)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = 0;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuCtxSynchronize(void)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_capture_forbid_context(ctx);
    return drv_leave(result ? result : drv_context_drain(ctx));
}
