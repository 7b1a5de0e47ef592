/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. A record makes a mark (queue.c) that the stream reaches in its turn, with simulated time;
 * in a captured stream it only notes which nodes came before.
 */
#include "state.h"

#include <stdlib.h>

static CUresult check(CUcontext ctx, CUevent event)
{
    if (!drv_object_alive(event, DRV_EVENT) || event->ctx != ctx) {
        drv_report("an event was used that is %s",
                   drv_object_alive(event, DRV_EVENT)   ? "another context's"
                   : drv_object_known(event, DRV_EVENT) ? "destroyed"
                                                        : "none");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

SIM_API CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || flags > 7)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    CUevent event = drv_object_create(DRV_EVENT, sizeof(*event));
    if (!event)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    event->ctx = ctx;
    event->flags = flags;
    *out = event;
    return drv_leave(CUDA_SUCCESS);
}

static void forget(CUevent event)
{
    drv_mark_put(event->mark);
    event->mark = NULL;
    if (event->capture)
        drv_capture_put(event->capture);
    event->capture = NULL;
    free(event->leaves);
    event->leaves = NULL;
    event->leaf_count = 0;
}

SIM_API CUresult cuEventDestroy_v2(CUevent event)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = check(ctx, event);
    if (!result) {
        forget(event);
        event->object.alive = false;
    }
    return drv_leave(result);
}

static CUresult record(CUstream stream, CUevent event)
{
    forget(event);
    if (stream->capture)
        return drv_capture_event(stream, event);
    drv_mark *mark = drv_mark_create();
    drv_op *op = mark ? drv_op_create(DRV_OP_MARK) : NULL;
    if (!op) {
        drv_mark_put(mark);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->mark = mark;
    mark->references++;
    event->mark = mark;
    return drv_submit(stream, op);
}

SIM_API CUresult cuEventRecord(CUevent event, CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = check(ctx, event);
    if (!result)
        result = drv_stream_get(ctx, handle, &stream);
    if (!result)
        result = record(stream, event);
    return drv_leave(result);
}

SIM_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    return flags ? CUDA_ERROR_NOT_SUPPORTED : cuEventRecord(event, stream);
}

SIM_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (flags)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    /* A stream may wait for another device's event. */
    if (!drv_object_alive(event, DRV_EVENT))
        return drv_leave(check(ctx, event));
    result = drv_stream_get(ctx, handle, &stream);
    if (result)
        return drv_leave(result);
    if (stream->capture || event->capture)
        return drv_leave(drv_capture_wait(stream, event));
    if (!event->mark || event->mark->done)
        return drv_leave(CUDA_SUCCESS);
    drv_op *op = drv_op_create(DRV_OP_WAIT);
    if (!op)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    op->mark = event->mark;
    op->mark->references++;
    return drv_leave(drv_submit(stream, op));
}

static CUresult enter_event(CUevent event, CUcontext *ctx)
{
    CUresult result = drv_enter(ctx);
    if (result)
        return result;
    result = check(*ctx, event);
    if (!result && event->capture) {
        event->capture->invalid = true;
        result = CUDA_ERROR_CAPTURED_EVENT;
    }
    return result ? drv_leave(result) : CUDA_SUCCESS;
}

SIM_API CUresult cuEventSynchronize(CUevent event)
{
    CUcontext ctx;
    CUresult result = enter_event(event, &ctx);
    if (result)
        return result;
    drv_mark *mark = event->mark;
    if (mark) {
        mark->references++;
        drv_mark_drain(mark);
        if (mark->stream)
            drv_stream_seen(mark->stream, mark->sequence);
        drv_mark_put(mark);
    }
    return drv_leave(ctx->fault);
}

SIM_API CUresult cuEventQuery(CUevent event)
{
    CUcontext ctx;
    CUresult result = enter_event(event, &ctx);
    if (result)
        return result;
    drv_mark *mark = event->mark;
    bool done = !mark || mark->done;
    if (!done && !mark->stream->running)
        drv_stream_step(mark->stream);
    if (done && mark && mark->stream)
        drv_stream_seen(mark->stream, mark->sequence);
    result = ctx->fault;
    return drv_leave(result ? result : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

SIM_API CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
    CUcontext ctx;
    CUresult result = enter_event(from, &ctx);
    if (result)
        return result;
    result = check(ctx, to);
    if (!result && (!ms || ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)))
        result = ms ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (!result && (!from->mark || !to->mark))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && (!from->mark->done || !to->mark->done))
        result = CUDA_ERROR_NOT_READY;
    if (!result)
        *ms = (float)((to->mark->ns - from->mark->ns) / 1e6);
    return drv_leave(result);
}

SIM_API CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    return cuEventElapsedTime_v2(ms, from, to);
}
