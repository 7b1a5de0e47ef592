/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: what the driver checks when a kernel is asked for, and the call into the interpreter
 * when its turn comes. What the interpreter finds wrong is reported and kills the context, as a
 * fault on a device does.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PRIORITY_ATTRIBUTE = 8, MOST_CLUSTER = 8 };
enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_BYTES = 2 };

static uint64_t last_number;
static uint32_t last_run; /* graphs run a launch more than once */

/* ---- running ------------------------------------------------------------------------------ */

static bool find_memory(void *user, uint64_t address, sim_range *range)
{
    CUcontext ctx = user;
    char why[8];
    if (!drv_memory_resolve(ctx, address, 1, why, sizeof(why)))
        return false;
    const drv_block *block = drv_block_at(address);
    *range = (sim_range){.address = block->address,
                         .bytes = block->bytes,
                         .host = block->host,
                         .written = block->written,
                         .read = block->read};
    return true;
}

static CUresult error_of(enum sim_fault fault)
{
    switch (fault) {
    case SIM_OK:
        return CUDA_SUCCESS;
    case SIM_MEMORY:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case SIM_UNKNOWN:
        return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case SIM_DEADLOCK:
    case SIM_LIMIT:
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    case SIM_HOST:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A launch leaves to the next one itself, and those that it has not waited for: these the next one
 * cannot wait for either. */
static void end_flight(uint32_t run, bool waited, drv_flying *flying)
{
    if (waited)
        flying->count = flying->behind;
    if (flying->count == DRV_MOST_FLYING)
        memmove(flying->run, flying->run + 1, (size_t)--flying->count * sizeof(*flying->run));
    flying->behind = flying->count;
    flying->run[flying->count++] = run;
}

void drv_launch_run(CUcontext ctx, const drv_launch *launch, drv_flying *flying)
{
    const drv_chip *chip = ctx->device->chip;
    const sim_function_info *info = launch->function->info;
    sim_config config = {
        .dynamic_shared = launch->shared_bytes,
        .params = launch->params,
        .param_bytes = info->param_bytes,
        .capability = (unsigned)chip->cc,
        .shared_limit = (size_t)chip->shared_block,
        .memory = {find_memory, ctx},
        .options = {.seed = drv_options.seed * 0x9e3779b97f4a7c15u + launch->number,
                    .delay = drv_options.lazy ? SIM_DELAY_LAZY : SIM_DELAY_RANDOM,
                    .no_races = !drv_options.races,
                    .no_registers = !drv_options.races,
                    .threads = (unsigned)drv_options.threads}};
    sim_report report = {.fault = SIM_HOST};
    if (!launch->dependent)
        flying->count = flying->behind = 0;
    config.overlap = (sim_overlap){.number = ++last_run,
                                   .before = flying->run,
                                   .behind = flying->run,
                                   .befores = (uint32_t)flying->count,
                                   .behinds = (uint32_t)flying->behind};
    double begun = seconds();
    memcpy(config.grid, launch->grid, sizeof(config.grid));
    memcpy(config.block, launch->block, sizeof(config.block));
    memcpy(config.cluster, launch->cluster, sizeof(config.cluster));
    bool good = sim_launch(launch->function->entry, &config, &report);
    ctx->device->clock_ns += (double)report.warp_instructions / chip->units;
    end_flight(config.overlap.number, report.waited, flying);
    if (drv_options.trace)
        fprintf(stderr,
                "simulator: launch %" PRIu64
                " %s grid %ux%ux%u block %u shared %u: %.1f ms, %" PRIu64
                " warp instructions, %" PRIu64 " macs\n",
                launch->number, info->name, launch->grid[0], launch->grid[1], launch->grid[2],
                launch->block[0] * launch->block[1] * launch->block[2], launch->shared_bytes,
                (seconds() - begun) * 1e3, report.warp_instructions, report.macs);
    if (good)
        return;
    drv_report("launch %" PRIu64 ": %s", launch->number,
               report.text[0] ? report.text : sim_fault_name(report.fault));
    drv_context_fault(ctx, error_of(report.fault));
}

/* ---- checking ----------------------------------------------------------------------------- */

static CUresult refuse(const char *name, CUresult error, const char *why)
{
    drv_report("launch of %s refused: %s", name, why);
    return error;
}

static CUresult check_shape(const CUlaunchConfig *config, CUfunction function)
{
    const sim_function_info *info = function->info;
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    if (!config->gridDimX || !config->gridDimY || !config->gridDimZ || !threads)
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE, "an extent is 0");
    if (config->gridDimX > 0x7fffffff || config->gridDimY > 65535 || config->gridDimZ > 65535)
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE, "the grid is too large");
    if (threads > 1024 || config->blockDimZ > 64)
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE, "the block has too many threads");
    if (threads > info->max_threads)
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE,
                      "the block has more threads than the kernel was compiled for");
    const unsigned *required = info->required_block;
    if (required[0] && (config->blockDimX != required[0] || config->blockDimY != required[1] ||
                        config->blockDimZ != required[2]))
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE,
                      "the block is not the one the kernel was compiled for");
    if (config->sharedMemBytes > function->shared_dynamic)
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE,
                      "more dynamic shared memory than cuFuncSetAttribute allowed");
    return CUDA_SUCCESS;
}

/* Extents as the launch gives them, else as the kernel was compiled for. */
static CUresult check_cluster(CUcontext ctx, drv_launch *launch)
{
    const sim_function_info *info = launch->function->info;
    uint64_t blocks = 1;
    for (int i = 0; i < 3; i++) {
        uint32_t required = info->required_cluster[i];
        if (!launch->cluster[i])
            launch->cluster[i] = required;
        uint32_t extent = launch->cluster[i];
        blocks *= extent ? extent : 1;
        if (required && extent != required)
            return refuse(info->name, CUDA_ERROR_INVALID_CLUSTER_SIZE,
                          "the cluster is not the one the kernel was compiled for");
        if (extent && launch->grid[i] % extent)
            return refuse(info->name, CUDA_ERROR_INVALID_VALUE,
                          "the cluster does not divide the grid");
    }
    if (blocks > 1 && ctx->device->chip->cc < 90)
        return refuse(info->name, CUDA_ERROR_INVALID_CLUSTER_SIZE, "this chip has no clusters");
    if (blocks > MOST_CLUSTER)
        return refuse(info->name, CUDA_ERROR_INVALID_CLUSTER_SIZE,
                      "clusters of more than 8 blocks, where a chip has them, are not modelled");
    return CUDA_SUCCESS;
}

static CUresult read_attributes(const CUlaunchConfig *config, drv_launch *launch)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        switch ((int)attribute->id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            launch->cluster[0] = attribute->value.clusterDim.x;
            launch->cluster[1] = attribute->value.clusterDim.y;
            launch->cluster[2] = attribute->value.clusterDim.z;
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            if (attribute->value.cooperative)
                return refuse(launch->function->info->name, CUDA_ERROR_NOT_SUPPORTED,
                              "blocks that wait for the whole grid are not modelled");
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            launch->dependent = attribute->value.programmaticStreamSerializationAllowed != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case PRIORITY_ATTRIBUTE:
            break;
        default:
            return refuse(launch->function->info->name, CUDA_ERROR_NOT_SUPPORTED,
                          "a launch attribute is not modelled");
        }
    }
    return CUDA_SUCCESS;
}

static CUresult read_params(const sim_function_info *info, void **params, void **extra,
                            uint8_t *out)
{
    if (info->param_bytes > DRV_MAX_PARAM_BYTES)
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE, "the parameters are too large");
    if (params) {
        for (size_t i = 0; i < info->params; i++) {
            if (!params[i])
                return refuse(info->name, CUDA_ERROR_INVALID_VALUE, "a parameter is NULL");
            memcpy(out + info->param[i].offset, params[i], info->param[i].bytes);
        }
        return CUDA_SUCCESS;
    }
    const void *buffer = NULL;
    size_t bytes = 0;
    for (int i = 0; extra && (uintptr_t)extra[i] != EXTRA_END; i += 2) {
        if ((uintptr_t)extra[i] == EXTRA_BUFFER)
            buffer = extra[i + 1];
        else if ((uintptr_t)extra[i] == EXTRA_BYTES)
            bytes = *(size_t *)extra[i + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (info->params && (!buffer || bytes < info->param_bytes))
        return refuse(info->name, CUDA_ERROR_INVALID_VALUE, "parameters are missing");
    if (info->param_bytes)
        memcpy(out, buffer, info->param_bytes);
    return CUDA_SUCCESS;
}

static CUresult submit(CUcontext ctx, const CUlaunchConfig *config, CUfunction function,
                       void **params, void **extra)
{
    CUstream stream;
    if (!drv_object_alive(function, DRV_FUNCTION) || function->module->ctx != ctx) {
        drv_report("a launch of a function that is %s", drv_object_alive(function, DRV_FUNCTION)
                                                            ? "another context's"
                                                            : "unloaded or none");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = drv_stream_get(ctx, config->hStream, &stream);
    if (!result)
        result = check_shape(config, function);
    if (result)
        return result;
    drv_op *op = drv_op_create(DRV_OP_LAUNCH);
    drv_launch *launch = op ? calloc(1, sizeof(*launch)) : NULL;
    if (!launch) {
        drv_op_destroy(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->launch = launch;
    launch->function = function;
    memcpy(launch->grid, &config->gridDimX, sizeof(launch->grid));
    memcpy(launch->block, &config->blockDimX, sizeof(launch->block));
    launch->shared_bytes = config->sharedMemBytes;
    launch->number = ++last_number;
    result = read_attributes(config, launch);
    if (!result)
        result = check_cluster(ctx, launch);
    if (!result)
        result = read_params(function->info, params, extra, launch->params);
    if (result) {
        drv_op_destroy(op);
        return result;
    }
    return drv_submit(stream, op);
}

SIM_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                  void **extra)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!config || (config->numAttrs && !config->attrs))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    return drv_leave(submit(ctx, config, function, params, extra));
}

SIM_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                void **params, void **extra)
{
    CUlaunchConfig config = {.gridDimX = grid_x,
                             .gridDimY = grid_y,
                             .gridDimZ = grid_z,
                             .blockDimX = block_x,
                             .blockDimY = block_y,
                             .blockDimZ = block_z,
                             .sharedMemBytes = shared_bytes,
                             .hStream = stream};
    return cuLaunchKernelEx(&config, function, params, extra);
}
