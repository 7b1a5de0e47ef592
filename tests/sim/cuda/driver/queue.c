/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams' queues. Nothing is done when it is asked for: an operation waits until somebody waits
 * for it, or until chance (settings permitting) lets its stream go on, so that a program that
 * forgot to wait sees old bytes. What orders streams is what CUDA promises: a stream's own order,
 * events, and the null stream for those that did not opt out.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* As many as a stream holds back; the real driver blocks about there, too. */
enum { MAX_PENDING = 1024 };
/* Simulated speeds: bytes a nanosecond across the bus and inside memory, and an operation's start.
 */
static const double bus_speed = 20, memory_speed = 1000, start_ns = 1500;

static uint64_t last_sequence, last_stream;

drv_op *drv_op_create(drv_op_kind kind)
{
    drv_op *op = calloc(1, sizeof(*op));
    if (op)
        op->kind = kind;
    return op;
}

drv_op *drv_op_copy(const drv_op *op)
{
    drv_op *copy = malloc(sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *op;
    copy->next = NULL;
    copy->staged = NULL;
    if (op->launch) {
        copy->launch = malloc(sizeof(*copy->launch));
        if (!copy->launch) {
            free(copy);
            return NULL;
        }
        *copy->launch = *op->launch;
    }
    if (op->mark)
        op->mark->references++;
    if (op->exec)
        op->exec->references++;
    return copy;
}

void drv_op_destroy(drv_op *op)
{
    if (!op)
        return;
    free(op->staged);
    free(op->launch);
    if (op->mark)
        drv_mark_put(op->mark);
    if (op->exec)
        drv_exec_put(op->exec);
    free(op);
}

drv_mark *drv_mark_create(void)
{
    drv_mark *mark = calloc(1, sizeof(*mark));
    if (mark)
        mark->references = 1;
    return mark;
}

void drv_mark_put(drv_mark *mark)
{
    if (mark && --mark->references == 0)
        free(mark);
}

/* ---- streams ------------------------------------------------------------------------------ */

CUstream drv_stream_create(CUcontext ctx, unsigned flags, int priority)
{
    if (ctx->stream_count == ctx->stream_room) {
        int room = ctx->stream_room ? 2 * ctx->stream_room : 8;
        CUstream *larger = realloc(ctx->streams, (size_t)room * sizeof(*larger));
        if (!larger)
            return NULL;
        ctx->streams = larger;
        ctx->stream_room = room;
    }
    CUstream stream = drv_object_create(DRV_STREAM, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->ctx = ctx;
    stream->flags = flags;
    stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    stream->priority = priority;
    stream->id = ++last_stream;
    stream->tail = &stream->head;
    ctx->streams[ctx->stream_count++] = stream;
    return stream;
}

/* A thread's own default stream, made when first used. */
static CUstream per_thread(CUcontext ctx)
{
    uint64_t thread = drv_thread_id();
    for (int i = 0; i < ctx->stream_count; i++) {
        if (ctx->streams[i]->thread == thread)
            return ctx->streams[i];
    }
    CUstream stream = drv_stream_create(ctx, CU_STREAM_DEFAULT, 0);
    if (stream)
        stream->thread = thread;
    return stream;
}

CUresult drv_stream_get(CUcontext ctx, CUstream handle, CUstream *out)
{
    if (!handle || handle == CU_STREAM_LEGACY) {
        *out = ctx->null_stream;
        return drv_capture_forbid_null(ctx);
    }
    if (handle == CU_STREAM_PER_THREAD) {
        *out = per_thread(ctx);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!drv_object_alive(handle, DRV_STREAM)) {
        drv_report("a stream handle that is %s was used",
                   drv_object_known(handle, DRV_STREAM) ? "destroyed" : "no stream");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (handle->ctx != ctx) {
        drv_report("a stream of another context was used");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = handle;
    return CUDA_SUCCESS;
}

CUresult drv_submit(CUstream stream, drv_op *op)
{
    if (stream->capture)
        return drv_capture_add(stream, op);
    op->sequence = ++last_sequence;
    if (op->kind == DRV_OP_MARK) {
        op->mark->stream = stream;
        op->mark->sequence = op->sequence;
    }
    *stream->tail = op;
    stream->tail = &op->next;
    if (++stream->pending > MAX_PENDING)
        drv_stream_step(stream);
    return CUDA_SUCCESS;
}

/* ---- doing the work ----------------------------------------------------------------------- */

static void fault(CUcontext ctx, const char *what, const char *why)
{
    drv_report("%s: %s", what, why);
    drv_context_fault(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static uint8_t *resolve(CUcontext ctx, drv_place place, uint64_t bytes, const char *what)
{
    char why[256];
    if (place.host)
        return (uint8_t *)(uintptr_t)place.address;
    uint8_t *memory = drv_memory_resolve(ctx, place.address, bytes, why, sizeof(why));
    if (!memory)
        fault(ctx, what, why);
    return memory;
}

static void run_copy(CUcontext ctx, const drv_op *op)
{
    uint8_t *to = resolve(ctx, op->to, op->bytes, "a queued copy's destination");
    const uint8_t *from = op->staged;
    if (to && !from)
        from = resolve(op->from_ctx ? op->from_ctx : ctx, op->from, op->bytes,
                       "a queued copy's source");
    if (!to || !from)
        return;
    memmove(to, from, op->bytes);
    bool bus = op->to.host || op->from.host;
    ctx->device->clock_ns += (double)op->bytes / (bus ? bus_speed : memory_speed);
}

static void run_set(CUcontext ctx, const drv_op *op)
{
    uint8_t *to = resolve(ctx, op->to, op->bytes, "a queued fill");
    for (uint64_t i = 0; to && i < op->bytes; i += (unsigned)op->width)
        memcpy(to + i, &op->value, (size_t)op->width);
    ctx->device->clock_ns += (double)op->bytes / memory_speed;
}

static void run_call(const drv_op *op)
{
    CUhostFn call = op->call;
    void *user = op->user;
    drv_unlock_for_callback();
    call(user);
    drv_lock_after_callback();
}

/* Whether launches on both sides of it may be under way together. */
static bool lets_overlap(drv_op_kind kind)
{
    return kind == DRV_OP_LAUNCH || kind == DRV_OP_MARK || kind == DRV_OP_WAIT ||
           kind == DRV_OP_EMPTY;
}

/* After a fault nothing is done any more, but whoever waits must not wait for ever. */
void drv_op_run(CUcontext ctx, drv_op *op, drv_flying *flying)
{
    bool dead = ctx->fault != CUDA_SUCCESS;
    ctx->device->clock_ns += start_ns;
    if (!lets_overlap(op->kind))
        flying->count = flying->behind = 0;
    switch (op->kind) {
    case DRV_OP_COPY:
        if (!dead)
            run_copy(ctx, op);
        break;
    case DRV_OP_SET:
        if (!dead)
            run_set(ctx, op);
        break;
    case DRV_OP_LAUNCH:
        if (!dead)
            drv_launch_run(ctx, op->launch, flying);
        break;
    case DRV_OP_MARK:
        op->mark->done = true;
        op->mark->ns = ctx->device->clock_ns;
        break;
    case DRV_OP_WAIT:
        drv_mark_drain(op->mark);
        break;
    case DRV_OP_CALL:
        if (!dead)
            run_call(op);
        break;
    case DRV_OP_GRAPH:
        if (!dead)
            drv_graph_run(ctx, op->exec);
        break;
    case DRV_OP_FREE:
        if (!dead && drv_memory_release(ctx, op->to.address))
            drv_context_fault(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        break;
    case DRV_OP_EMPTY:
        break;
    }
}

/* Does everything in a stream that was asked for before `sequence`. */
static void drain_before(CUstream stream, uint64_t sequence)
{
    while (stream->head && stream->head->sequence < sequence)
        drv_stream_step(stream);
}

/* The null stream and those that heed it wait for each other's earlier work. Sequence numbers grow,
 * so this ends. */
static void drain_for_null(CUstream stream, uint64_t sequence)
{
    CUcontext ctx = stream->ctx;
    if (stream != ctx->null_stream) {
        if (stream->blocking)
            drain_before(ctx->null_stream, sequence);
        return;
    }
    for (int i = 0; i < ctx->stream_count; i++) {
        CUstream other = ctx->streams[i];
        if (other != stream && other->blocking)
            drain_before(other, sequence);
    }
}

static void forget(CUstream stream)
{
    CUcontext ctx = stream->ctx;
    for (int i = 0; i < ctx->stream_count; i++) {
        if (ctx->streams[i] == stream)
            ctx->streams[i] = ctx->streams[--ctx->stream_count];
    }
}

/* Only one thread works on a stream at a time: the lock is open while the host is called back. The
 * operation that is being done stays the first of the queue. */
void drv_stream_step(CUstream stream)
{
    if (stream->running) {
        drv_wait_for_change();
        return;
    }
    drv_op *op = stream->head;
    if (!op)
        return;
    stream->running = true;
    drain_for_null(stream, op->sequence);
    drv_op_run(stream->ctx, op, &stream->flying);
    if (op->kind == DRV_OP_LAUNCH)
        stream->flying_since = op->sequence;
    stream->head = op->next;
    if (!stream->head)
        stream->tail = &stream->head;
    stream->pending--;
    stream->running = false;
    drv_op_destroy(op);
    if (!stream->object.alive && !stream->head)
        forget(stream);
    drv_tell_change();
}

void drv_stream_drain(CUstream stream)
{
    while (stream->head)
        drv_stream_step(stream);
}

void drv_stream_seen(CUstream stream, uint64_t sequence)
{
    if (stream->flying_since < sequence)
        stream->flying.count = stream->flying.behind = 0;
}

void drv_mark_drain(drv_mark *mark)
{
    while (!mark->done && mark->stream)
        drv_stream_step(mark->stream);
}

/* One chance in four for each call into the driver. */
void drv_progress(CUcontext ctx)
{
    if (!ctx->stream_count || drv_random() % 4)
        return;
    CUstream stream = ctx->streams[drv_random() % (uint64_t)ctx->stream_count];
    if (!stream->running)
        drv_stream_step(stream);
}

/* ---- the interface ------------------------------------------------------------------------ */

SIM_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || flags > 1)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    CUstream stream = drv_stream_create(ctx, flags, priority);
    if (!stream)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = stream;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

/* What is queued will still be done. */
SIM_API CUresult cuStreamDestroy_v2(CUstream handle)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!drv_object_alive(handle, DRV_STREAM) || handle == handle->ctx->null_stream)
        return drv_leave(CUDA_ERROR_INVALID_HANDLE);
    if (handle->capture)
        handle->capture->invalid = true;
    handle->object.alive = false;
    if (!handle->head)
        forget(handle);
    return drv_leave(CUDA_SUCCESS);
}

static CUresult forbid_capture(CUstream stream)
{
    if (!stream->capture)
        return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

SIM_API CUresult cuStreamSynchronize(CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_stream_get(ctx, handle, &stream);
    if (!result)
        result = forbid_capture(stream);
    if (result)
        return drv_leave(result);
    if (stream == ctx->null_stream)
        drain_for_null(stream, UINT64_MAX);
    drv_stream_drain(stream);
    drv_stream_seen(stream, UINT64_MAX);
    return drv_leave(ctx->fault);
}

/* Each question lets one operation be done: whoever asks again and again is answered at last. */
SIM_API CUresult cuStreamQuery(CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_stream_get(ctx, handle, &stream);
    if (!result)
        result = forbid_capture(stream);
    if (result)
        return drv_leave(result);
    bool pending = stream->head;
    if (pending && !stream->running)
        drv_stream_step(stream);
    if (!pending)
        drv_stream_seen(stream, UINT64_MAX);
    result = ctx->fault;
    return drv_leave(result ? result : pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

SIM_API CUresult cuLaunchHostFunc(CUstream handle, CUhostFn call, void *user)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_stream_get(ctx, handle, &stream);
    if (!result && !call)
        result = CUDA_ERROR_INVALID_VALUE;
    drv_op *op = result ? NULL : drv_op_create(DRV_OP_CALL);
    if (op) {
        op->call = call;
        op->user = user;
        result = drv_submit(stream, op);
    }
    return drv_leave(result);
}

CUresult drv_enter_stream(CUstream handle, const void *answer, CUstream *out)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_stream_get(ctx, handle, out);
    if (!result && !answer)
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? drv_leave(result) : CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    CUstream stream;
    CUresult result = drv_enter_stream(handle, flags, &stream);
    if (result)
        return result;
    *flags = stream->flags;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    CUstream stream;
    CUresult result = drv_enter_stream(handle, priority, &stream);
    if (result)
        return result;
    *priority = stream->priority;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUstream stream;
    CUresult result = drv_enter_stream(handle, id, &stream);
    if (result)
        return result;
    *id = stream->id;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuStreamGetCtx(CUstream handle, CUcontext *out)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        *out = ctx;
    else if (drv_object_alive(handle, DRV_STREAM))
        *out = handle->ctx;
    else
        return drv_leave(CUDA_ERROR_INVALID_HANDLE);
    return drv_leave(CUDA_SUCCESS);
}
