/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated driver's state: what stands behind each handle, and the functions its files share.
 * One lock guards all of it; an entry point of the interface begins with drv_enter and ends with
 * drv_leave. Work given to a stream is queued (queue.c) and done later, by whichever thread waits.
 */
#ifndef NIB_SIM_STATE_H
#define NIB_SIM_STATE_H

#include "api.h"
#include "sim.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

enum { DRV_MAX_DEVICES = 16, DRV_MAX_PARAM_BYTES = 4096, DRV_STACK = 64, DRV_MOST_FLYING = 64 };

typedef struct drv_op drv_op;
typedef struct drv_capture drv_capture;

/* ---- handles (objects.c) ------------------------------------------------------------------ */

typedef enum drv_kind {
    DRV_CONTEXT = 1,
    DRV_MODULE,
    DRV_FUNCTION,
    DRV_STREAM,
    DRV_EVENT,
    DRV_GRAPH,
    DRV_GRAPH_EXEC,
    DRV_GRAPH_NODE
} drv_kind;

/* The head of everything a handle points to. Dead objects stay known, so that a stale handle is an
 * error and never another object. */
typedef struct drv_object {
    drv_kind kind;
    bool alive;
} drv_object;

/* Zeroed memory of `bytes`, registered; NULL: no memory. */
void *drv_object_create(drv_kind kind, size_t bytes);
/* Whether the handle was ever one of this kind; `alive` tells the rest. */
bool drv_object_known(const void *handle, drv_kind kind);
bool drv_object_alive(const void *handle, drv_kind kind);

/* ---- devices (device.c) ------------------------------------------------------------------- */

typedef struct drv_chip {
    int cc;
    const char *name;
    int units, shared_block, shared_unit, blocks_unit, threads_unit;
    int clock_khz, memory_khz, bus_bits;
    int cache_bytes;
} drv_chip;

typedef struct drv_device {
    int ordinal;
    const drv_chip *chip;
    CUcontext primary; /* NULL: never retained */
    int primary_count;
    uint64_t range;        /* first address; nothing is mapped there for the host */
    uint64_t next;         /* addresses are never given twice */
    uint64_t used, memory; /* bytes */
    double clock_ns;       /* simulated time */
} drv_device;

/* What the environment says; read once by cuInit. */
typedef struct drv_settings {
    int cc, devices, threads;
    bool lazy, races, trace;
    uint64_t seed, memory;
    char report[512]; /* file that reports are added to; "" is none */
} drv_settings;

extern drv_settings drv_options;
extern drv_device drv_devices[DRV_MAX_DEVICES];

uint64_t drv_random(void);

/* ---- entry and exit (enter.c) ------------------------------------------------------------- */

/* Locks. Fails, unlocked, when cuInit was not called or was called by the process this was forked
 * from. */
CUresult drv_enter_any(void);
/* The same, with a current context that is not destroyed and has no sticky error. */
CUresult drv_enter(CUcontext *current);
/* Sometimes lets queued work proceed, unlocks, and returns its argument. */
CUresult drv_leave(CUresult result);
void drv_unlock_for_callback(void);
void drv_lock_after_callback(void);
void drv_wait_for_change(void);
void drv_tell_change(void);

/* A finding, with the word "simulator" in front, on stderr and in the report file. */
void drv_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- contexts (context.c) ----------------------------------------------------------------- */

struct CUctx_st {
    drv_object object;
    drv_device *device;
    bool primary;
    CUresult fault; /* sticky: what every later call returns */
    CUstream null_stream;
    CUstream *streams; /* the null stream included; destroyed ones leave when empty */
    int stream_count, stream_room;
    uint64_t id;
};

/* The calling thread's, or NULL. */
CUcontext drv_current(void);
/* Every queued operation of the context done, or the error it met. */
CUresult drv_context_drain(CUcontext ctx);
/* The context is unusable from now on; the first error stays. */
void drv_context_fault(CUcontext ctx, CUresult error);

/* ---- memory (memory.c) -------------------------------------------------------------------- */

typedef enum drv_memory_kind {
    DRV_DEVICE_MEMORY,
    DRV_PINNED_MEMORY,
    DRV_REGISTERED_MEMORY,
    DRV_MODULE_MEMORY /* a module's variable: addressed where it lies */
} drv_memory_kind;

/* One allocation. Kept when freed, so that a report can say so. */
typedef struct drv_block {
    uint64_t address, bytes;
    uint8_t *host;   /* of its first byte; NULL when freed */
    uint8_t *memory; /* what to free: `host` lies between red zones */
    drv_memory_kind kind;
    CUcontext ctx;
    unsigned flags;
    uint64_t serial;
    uint32_t *written, *read; /* sim_range's; NULL: not kept */
} drv_block;

/* The block around an address, living or dead; NULL: none was ever there. */
drv_block *drv_block_at(uint64_t address);
/* Host memory of [address, address + bytes), which must lie in one living block that the context
 * can reach; else NULL and a sentence. */
uint8_t *drv_memory_resolve(CUcontext ctx, uint64_t address, uint64_t bytes, char *why,
                            size_t why_bytes);
/* Whether a host address is pinned, [address, address + bytes) whole. */
bool drv_memory_pinned(const void *address, uint64_t bytes);
/* Memory of the host that the device may use at the host's own address. */
CUresult drv_memory_adopt(CUcontext ctx, void *memory, uint64_t bytes, unsigned flags,
                          drv_memory_kind kind);
/* Forgets adopted memory, and frees it when it is DRV_PINNED_MEMORY. */
void drv_memory_forget(const void *memory);
CUresult drv_memory_create(CUcontext ctx, uint64_t bytes, uint64_t *address);
CUresult drv_memory_release(CUcontext ctx, uint64_t address);
void drv_memory_release_context(CUcontext ctx);

/* ---- modules (module.c) ------------------------------------------------------------------- */

struct CUmod_st {
    drv_object object;
    CUcontext ctx;
    sim_module *program;
    CUfunction *functions; /* those that were asked for */
    int function_count;
    void **variables; /* those that became blocks */
    int variable_count;
};

struct CUfunc_st {
    drv_object object;
    CUmodule module;
    const sim_function *entry;
    const sim_function_info *info;
    uint32_t shared_dynamic; /* what cuFuncSetAttribute allowed */
    bool wide_cluster;       /* non-portable sizes allowed */
};

/* ---- launches (launch.c) ------------------------------------------------------------------ */

typedef struct drv_launch {
    CUfunction function;
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes;
    bool dependent;  /* may start while the launches before it run: griddepcontrol */
    uint64_t number; /* of all launches of the process, for reports */
    uint8_t params[DRV_MAX_PARAM_BYTES];
} drv_launch;

/* Launches that the next one of a stream or graph may meet, by the numbers of their runs; the first
 * `behind` of them even behind its griddepcontrol.wait, because the launch between did not wait. */
typedef struct drv_flying {
    uint32_t run[DRV_MOST_FLYING];
    int count, behind;
} drv_flying;

/* Runs it to its end; a fault is reported and stays with the context. *flying is what may still be
 * under way when it starts, and then what may be when the next one does. */
void drv_launch_run(CUcontext ctx, const drv_launch *launch, drv_flying *flying);

/* ---- queues (queue.c) --------------------------------------------------------------------- */

/* A moment in a stream, shared by events and the operations that wait for it. */
typedef struct drv_mark {
    int references;
    bool done;
    double ns;
    CUstream stream;
    uint64_t sequence;
} drv_mark;

typedef enum drv_op_kind {
    DRV_OP_COPY,
    DRV_OP_SET,
    DRV_OP_LAUNCH,
    DRV_OP_MARK,
    DRV_OP_WAIT,
    DRV_OP_CALL,
    DRV_OP_GRAPH,
    DRV_OP_FREE,
    DRV_OP_EMPTY
} drv_op_kind;

/* One end of a copy. */
typedef struct drv_place {
    bool host;
    uint64_t address;
} drv_place;

struct drv_op {
    drv_op *next;
    drv_op_kind kind;
    uint64_t sequence;
    drv_place to, from; /* copy; set and free: `to` */
    CUcontext from_ctx; /* copy between devices; else NULL */
    uint64_t bytes;
    void *staged;       /* copy: the source as it was at the call; owned */
    uint32_t value;     /* set */
    int width;          /* set: bytes of an element */
    drv_launch *launch; /* owned */
    drv_mark *mark;     /* mark, wait; a reference */
    CUhostFn call;
    void *user;
    CUgraphExec exec; /* graph; a reference */
};

struct CUstream_st {
    drv_object object;
    CUcontext ctx;
    bool blocking; /* orders itself with the null stream */
    bool running;  /* its first operation is being done */
    unsigned flags;
    int priority;
    uint64_t id, thread; /* thread: of a per-thread default stream, else 0 */
    drv_op *head, **tail;
    int pending;
    drv_flying flying;
    uint64_t flying_since; /* sequence of the last launch in it */
    drv_capture *capture;  /* NULL: not capturing */
    int *leaves;           /* nodes that the next captured one depends on */
    int leaf_count;
};

drv_op *drv_op_create(drv_op_kind kind);
drv_op *drv_op_copy(const drv_op *op);
void drv_op_destroy(drv_op *op);
/* Takes the operation: queued, or made a node of the graph the stream is captured into. */
CUresult drv_submit(CUstream stream, drv_op *op);
/* The stream of a handle, special ones included; also checks what may not be used while another
 * stream is captured. */
CUresult drv_stream_get(CUcontext ctx, CUstream handle, CUstream *out);
/* drv_enter and a stream, to write something of it to `answer`, which may not be NULL. A failure
 * has left already. */
CUresult drv_enter_stream(CUstream handle, const void *answer, CUstream *out);
CUstream drv_stream_create(CUcontext ctx, unsigned flags, int priority);
/* Does the first operation of a stream, after what it depends on. */
void drv_stream_step(CUstream stream);
void drv_stream_drain(CUstream stream);
/* Drains until the mark is done. */
void drv_mark_drain(drv_mark *mark);
drv_mark *drv_mark_create(void);
void drv_mark_put(drv_mark *mark);
/* Does one operation; its stream has let go of it. flying: what it and what comes behind it may
 * meet. */
void drv_op_run(CUcontext ctx, drv_op *op, drv_flying *flying);
/* The program knows that what the stream did until then is over. */
void drv_stream_seen(CUstream stream, uint64_t sequence);
/* Lets some stream of the context go on, perhaps. */
void drv_progress(CUcontext ctx);

/* ---- events, capture, graphs (event.c, capture.c, graph.c) --------------------------------- */

struct CUevent_st {
    drv_object object;
    CUcontext ctx;
    unsigned flags;
    drv_mark *mark;       /* of the last record; NULL: none */
    drv_capture *capture; /* the last record was captured into it */
    int *leaves;
    int leaf_count;
};

struct CUgraphNode_st {
    drv_object object;
    CUgraph graph;
    drv_op *op;
    int *before; /* numbers of the nodes it waits for */
    int before_count;
};

struct CUgraph_st {
    drv_object object;
    CUgraphNode *nodes;
    int count, room;
};

struct CUgraphExec_st {
    drv_object object;
    CUcontext ctx;
    CUgraph graph; /* its own copy */
    int references;
};

struct drv_capture {
    CUstream origin;
    CUgraph graph;
    CUstreamCaptureMode mode;
    uint64_t thread, id;
    bool invalid, ended;
    int references;
    drv_capture *next; /* of those that have not ended */
};

/* Makes the operation a node behind the stream's leaves. Takes it. */
CUresult drv_capture_add(CUstream stream, drv_op *op);
CUresult drv_capture_event(CUstream stream, CUevent event);
CUresult drv_capture_wait(CUstream stream, CUevent event);
void drv_capture_get(drv_capture *capture);
void drv_capture_put(drv_capture *capture);
/* A call that might synchronise: an error when a capture forbids it, which ends that capture. */
CUresult drv_capture_forbid_unsafe(void);
/* The null stream is used: an error while a stream that waits for it is captured. */
CUresult drv_capture_forbid_null(CUcontext ctx);
CUresult drv_capture_forbid_context(CUcontext ctx);
uint64_t drv_thread_id(void);

CUgraph drv_graph_copy(const struct CUgraph_st *graph);
int drv_graph_add(CUgraph graph, drv_op *op, const int *before, int before_count);
void drv_graph_clear(CUgraph graph);
void drv_graph_run(CUcontext ctx, CUgraphExec exec);
void drv_exec_put(CUgraphExec exec);

#endif
