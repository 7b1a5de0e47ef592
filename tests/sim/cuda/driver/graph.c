/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of operations: made by capture, copied when instantiated, done node by node in a random
 * order that their dependencies allow.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

int drv_graph_add(CUgraph graph, drv_op *op, const int *before, int before_count)
{
    if (graph->count == graph->room) {
        int room = graph->room ? 2 * graph->room : 16;
        CUgraphNode *larger = realloc(graph->nodes, (size_t)room * sizeof(*larger));
        if (!larger)
            goto fail;
        graph->nodes = larger;
        graph->room = room;
    }
    CUgraphNode node = drv_object_create(DRV_GRAPH_NODE, sizeof(*node));
    if (!node)
        goto fail;
    node->before = malloc((size_t)(before_count + 1) * sizeof(*node->before));
    if (!node->before)
        goto fail;
    if (before_count)
        memcpy(node->before, before, (size_t)before_count * sizeof(*before));
    node->before_count = before_count;
    node->graph = graph;
    node->op = op;
    graph->nodes[graph->count] = node;
    return graph->count++;
fail:
    drv_op_destroy(op);
    return -1;
}

void drv_graph_clear(CUgraph graph)
{
    for (int i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        drv_op_destroy(node->op);
        free(node->before);
        node->op = NULL;
        node->before = NULL;
        node->object.alive = false;
    }
    free(graph->nodes);
    graph->nodes = NULL;
    graph->count = graph->room = 0;
    graph->object.alive = false;
}

CUgraph drv_graph_copy(const struct CUgraph_st *graph)
{
    CUgraph copy = drv_object_create(DRV_GRAPH, sizeof(*copy));
    for (int i = 0; copy && i < graph->count; i++) {
        const struct CUgraphNode_st *node = graph->nodes[i];
        drv_op *op = drv_op_copy(node->op);
        if (!op || drv_graph_add(copy, op, node->before, node->before_count) < 0) {
            drv_graph_clear(copy);
            return NULL;
        }
    }
    return copy;
}

static bool ready(const struct CUgraphNode_st *node, const bool *done)
{
    for (int i = 0; i < node->before_count; i++) {
        if (!done[node->before[i]])
            return false;
    }
    return true;
}

/* What may be under way when a node begins: that of all nodes it waits for. */
static drv_flying flying_before(const struct CUgraphNode_st *node, const drv_flying *after)
{
    drv_flying all = {.count = 0};
    for (int last = 0; last < 2; last++) {
        for (int i = 0; i < node->before_count; i++) {
            const drv_flying *part = &after[node->before[i]];
            const int end = last ? part->count : part->behind;
            for (int j = last ? part->behind : 0; j < end && all.count < DRV_MOST_FLYING; j++)
                all.run[all.count++] = part->run[j];
        }
        if (!last)
            all.behind = all.count;
    }
    return all;
}

/* The exec lives on while an operation holds it, whatever the program destroys meanwhile. */
void drv_graph_run(CUcontext ctx, CUgraphExec exec)
{
    const struct CUgraph_st *graph = exec->graph;
    bool *done = calloc((size_t)graph->count + 1, sizeof(*done));
    drv_flying *after = calloc((size_t)graph->count + 1, sizeof(*after));
    for (int left = graph->count; done && after && left > 0; left--) {
        int candidates = 0, chosen = -1;
        for (int i = 0; i < graph->count; i++) {
            if (!done[i] && ready(graph->nodes[i], done) &&
                drv_random() % (uint64_t)++candidates == 0)
                chosen = i;
        }
        after[chosen] = flying_before(graph->nodes[chosen], after);
        drv_op_run(ctx, graph->nodes[chosen]->op, &after[chosen]);
        done[chosen] = true;
    }
    if (!done || !after)
        drv_context_fault(ctx, CUDA_ERROR_OUT_OF_MEMORY);
    free(done);
    free(after);
}

void drv_exec_put(CUgraphExec exec)
{
    if (--exec->references == 0)
        drv_graph_clear(exec->graph);
}

/* ---- the interface ------------------------------------------------------------------------ */

SIM_API CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!out || flags)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraph graph = drv_object_create(DRV_GRAPH, sizeof(*graph));
    if (!graph)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = graph;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!drv_object_alive(graph, DRV_GRAPH))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    drv_graph_clear(graph);
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!drv_object_alive(graph, DRV_GRAPH) || !count)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < (size_t)graph->count ? graph->nodes[i] : NULL;
    if (!nodes || *count > (size_t)graph->count)
        *count = (size_t)graph->count;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!drv_object_alive(node, DRV_GRAPH_NODE) || !type)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    switch (node->op->kind) {
    case DRV_OP_LAUNCH:
        *type = CU_GRAPH_NODE_TYPE_KERNEL;
        break;
    case DRV_OP_COPY:
        *type = CU_GRAPH_NODE_TYPE_MEMCPY;
        break;
    case DRV_OP_SET:
        *type = CU_GRAPH_NODE_TYPE_MEMSET;
        break;
    case DRV_OP_CALL:
        *type = CU_GRAPH_NODE_TYPE_HOST;
        break;
    case DRV_OP_GRAPH:
        *type = CU_GRAPH_NODE_TYPE_GRAPH;
        break;
    default:
        *type = CU_GRAPH_NODE_TYPE_EMPTY;
        break;
    }
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                             unsigned long long flags)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    (void)flags;
    if (!out || !drv_object_alive(graph, DRV_GRAPH))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = drv_object_create(DRV_GRAPH_EXEC, sizeof(*exec));
    CUgraph copy = exec ? drv_graph_copy(graph) : NULL;
    if (!copy)
        return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    exec->ctx = ctx;
    exec->graph = copy;
    exec->references = 1;
    *out = exec;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                                       char *log, size_t log_bytes)
{
    if (error_node)
        *error_node = NULL;
    if (log && log_bytes)
        log[0] = '\0';
    return cuGraphInstantiateWithFlags(out, graph, 0);
}

static CUresult launch(CUcontext ctx, CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    if (!drv_object_alive(exec, DRV_GRAPH_EXEC) || exec->ctx != ctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = drv_stream_get(ctx, handle, &stream);
    if (result)
        return result;
    drv_op *op = drv_op_create(DRV_OP_GRAPH);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->exec = exec;
    exec->references++;
    return drv_submit(stream, op);
}

SIM_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    return result ? result : drv_leave(launch(ctx, exec, handle));
}

SIM_API CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!drv_object_alive(exec, DRV_GRAPH_EXEC))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    return drv_leave(drv_stream_get(ctx, handle, &stream));
}

SIM_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!drv_object_alive(exec, DRV_GRAPH_EXEC))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    exec->object.alive = false;
    drv_exec_put(exec);
    return drv_leave(CUDA_SUCCESS);
}
