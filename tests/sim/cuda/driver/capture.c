/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture: what is asked of a captured stream becomes a node of a graph, and calls that a
 * capture forbids fail with the real driver's code and spoil the capture. graph.c has the graphs.
 */
#include "state.h"

#include <stdlib.h>

static drv_capture *active;
static uint64_t last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void drv_capture_get(drv_capture *capture)
{
    capture->references++;
}

void drv_capture_put(drv_capture *capture)
{
    if (--capture->references == 0)
        free(capture);
}

/* leaves = the union of both. */
static bool add_leaves(CUstream stream, const int *more, int count)
{
    int *all = realloc(stream->leaves, (size_t)(stream->leaf_count + count + 1) * sizeof(*all));
    if (!all)
        return false;
    stream->leaves = all;
    for (int i = 0; i < count; i++) {
        bool there = false;
        for (int j = 0; j < stream->leaf_count; j++)
            there |= all[j] == more[i];
        if (!there)
            all[stream->leaf_count++] = more[i];
    }
    return true;
}

CUresult drv_capture_add(CUstream stream, drv_op *op)
{
    drv_capture *capture = stream->capture;
    if (capture->invalid) {
        drv_op_destroy(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    int node = drv_graph_add(capture->graph, op, stream->leaves, stream->leaf_count);
    if (node < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->leaf_count = 0;
    return add_leaves(stream, &node, 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult drv_capture_event(CUstream stream, CUevent event)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->leaves = malloc((size_t)(stream->leaf_count + 1) * sizeof(*event->leaves));
    if (!event->leaves)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < stream->leaf_count; i++)
        event->leaves[i] = stream->leaves[i];
    event->leaf_count = stream->leaf_count;
    event->capture = stream->capture;
    drv_capture_get(event->capture);
    return CUDA_SUCCESS;
}

CUresult drv_capture_wait(CUstream stream, CUevent event)
{
    if (!event->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->capture->ended)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture && stream->capture != event->capture) {
        stream->capture->invalid = event->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture) {
        if (stream == stream->ctx->null_stream) {
            event->capture->invalid = true;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
        stream->capture = event->capture;
        drv_capture_get(stream->capture);
    }
    return add_leaves(stream, event->leaves, event->leaf_count) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- what a capture forbids --------------------------------------------------------------- */

CUresult drv_capture_forbid_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t thread = drv_thread_id();
    for (drv_capture *c = active; c; c = c->next) {
        bool anywhere = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                        c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        bool here = thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread == thread &&
                    c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        if (!anywhere && !here)
            continue;
        c->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

/* Ends in `error` every capture of a stream of the context that `heeding` (the null stream) says.
 */
static CUresult forbid(CUcontext ctx, bool heeding_null, CUresult error)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < ctx->stream_count; i++) {
        CUstream stream = ctx->streams[i];
        if (!stream->capture || (heeding_null && !stream->blocking))
            continue;
        stream->capture->invalid = true;
        result = error;
    }
    return result;
}

CUresult drv_capture_forbid_null(CUcontext ctx)
{
    return forbid(ctx, true, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUresult drv_capture_forbid_context(CUcontext ctx)
{
    return forbid(ctx, false, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* ---- the interface ------------------------------------------------------------------------ */

SIM_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!mode)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!handle || handle == CU_STREAM_LEGACY)
        return drv_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    result = drv_stream_get(ctx, handle, &stream);
    if (!result && stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result)
        return drv_leave(result);
    drv_capture *capture = calloc(1, sizeof(*capture));
    CUgraph graph = capture ? drv_object_create(DRV_GRAPH, sizeof(*graph)) : NULL;
    if (!graph) {
        free(capture);
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *capture = (drv_capture){.origin = stream,
                             .graph = graph,
                             .mode = mode,
                             .thread = drv_thread_id(),
                             .id = ++last_id,
                             .references = 1,
                             .next = active};
    active = capture;
    stream->capture = capture;
    stream->leaf_count = 0;
    return drv_leave(CUDA_SUCCESS);
}

/* Whether every node that another stream of the capture ended with comes before the origin's end.
 */
static bool joined(const drv_capture *capture)
{
    const struct CUgraph_st *graph = capture->graph;
    bool *before = calloc((size_t)graph->count + 1, sizeof(*before)), good = before;
    for (int i = 0; good && i < capture->origin->leaf_count; i++)
        before[capture->origin->leaves[i]] = true;
    for (int i = graph->count; good && i-- > 0;) {
        for (int j = 0; before[i] && j < graph->nodes[i]->before_count; j++)
            before[graph->nodes[i]->before[j]] = true;
    }
    const struct CUctx_st *ctx = capture->origin->ctx;
    for (int i = 0; good && i < ctx->stream_count; i++) {
        for (int j = 0; ctx->streams[i]->capture == capture && j < ctx->streams[i]->leaf_count; j++)
            good &= before[ctx->streams[i]->leaves[j]];
    }
    free(before);
    return good;
}

static void end(drv_capture *capture)
{
    CUcontext ctx = capture->origin->ctx;
    for (drv_capture **c = &active; *c; c = &(*c)->next) {
        if (*c == capture) {
            *c = capture->next;
            break;
        }
    }
    capture->ended = true;
    for (int i = 0; i < ctx->stream_count; i++) {
        CUstream stream = ctx->streams[i];
        if (stream->capture != capture)
            continue;
        stream->capture = NULL;
        stream->leaf_count = 0;
        drv_capture_put(capture);
    }
}

SIM_API CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_object_alive(handle, DRV_STREAM) && out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    stream = handle;
    if (!result && !stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (!result && stream->capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (!result && stream->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        stream->capture->thread != drv_thread_id())
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (result)
        return drv_leave(result);
    drv_capture *capture = stream->capture;
    CUgraph graph = capture->graph;
    if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    end(capture);
    if (result)
        drv_graph_clear(graph);
    *out = result ? NULL : graph;
    return drv_leave(result);
}

static CUstreamCaptureStatus status_of(const struct CUstream_st *stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

SIM_API CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;
    CUresult result = drv_enter_stream(handle, status, &stream);
    if (result)
        return result;
    *status = status_of(stream);
    return drv_leave(CUDA_SUCCESS);
}

/* The simulator hands out no dependencies of a graph under construction. */
SIM_API CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **dependencies, size_t *count)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_stream_get(ctx, handle, &stream);
    if (!result && !status)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (dependencies || count))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result)
        return drv_leave(result);
    *status = status_of(stream);
    if (id && stream->capture)
        *id = stream->capture->id;
    if (graph && stream->capture)
        *graph = stream->capture->graph;
    return drv_leave(CUDA_SUCCESS);
}
