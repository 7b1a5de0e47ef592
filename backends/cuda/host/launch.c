/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and runs. Getting a kernel loads its code and sets its attributes; a launch fills the
 * parameters and starts it, and nothing else: no allocation, lock, environment or synchronisation.
 */
#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CARVEOUT_MOST = 100,
    ALIGN_BYTES = 16,
    REDUCE_THREADS = 256,
    BEFORE_THREADS = 128,
    MAP_BYTES = 128
};

static nib_status find_function(const nib_cuda_device *device, nib_cuda_module *module,
                                const char *name, nib_cu_function *out)
{
    char what[96];
    snprintf(what, sizeof(what), "cuModuleGetFunction(%s)", name);
    return nib_cuda_result(device->driver->module_function(out, module->handle, name), what);
}

/* The entry may use all the shared memory that the chip gives a block, less what it declares
 * itself; and as many blocks as fit are to be resident, hence the largest carve-out. */
static nib_status allow_shared(const nib_cuda_device *device, nib_cu_function entry)
{
    int declared = 0;
    const nib_cuda_driver *driver = device->driver;
    nib_status status = nib_cuda_result(
        driver->function_get(&declared, NIB_CU_FUNC_SHARED_STATIC, entry), "cuFuncGetAttribute");
    if (!status)
        status = nib_cuda_result(driver->function_set(entry, NIB_CU_FUNC_SHARED_DYNAMIC_MAX,
                                                      device->chip.shared_block - declared),
                                 "cuFuncSetAttribute(dynamic shared memory)");
    if (!status) /* a preference: refusing it changes no result */
        driver->function_set(entry, NIB_CU_FUNC_SHARED_CARVEOUT, CARVEOUT_MOST);
    return status;
}

static nib_status find_functions(const nib_cuda_device *device, nib_cuda_kernel *kernel)
{
    const nib_cuda_family *family = kernel->row->family;
    nib_cuda_visit visit;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = find_function(device, kernel->module, family->entry, &kernel->entry);
    if (!status && family->before)
        status = find_function(device, kernel->module, family->before, &kernel->before);
    if (!status && family->reduce)
        status = find_function(device, kernel->module, family->reduce, &kernel->reduce);
    if (!status)
        status = allow_shared(device, kernel->entry);
    nib_cuda_leave(&visit);
    return status;
}

/* On a chip that this version does not know, every image shows once that it computes. */
static nib_status check_unknown(nib_cuda_device *device, const nib_cuda_kernel *kernel)
{
    nib_status status = NIB_OK;
    if (device->known)
        return NIB_OK;
    pthread_mutex_lock(&kernel->module->lock);
    if (!kernel->module->tested)
        status = nib_cuda_selftest(device, kernel);
    kernel->module->tested = !status;
    pthread_mutex_unlock(&kernel->module->lock);
    return status;
}

nib_status nib_cuda_kernel_get(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                               void **kernel)
{
    nib_cuda_device *device = dev;
    char *spec = NULL, label[NIB_CUDA_LABEL_BYTES];
    nib_cuda_kernel *made = calloc(1, sizeof(*made));
    if (!made)
        return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a kernel");
    made->row = nib_cuda_row_of(variant);
    made->desc = *desc;
    made->act_bytes = nib_cuda_host->type_bits(desc->act_type) / 8;
    nib_cuda_label(made->row, desc, label, sizeof(label));
    nib_status status = nib_cuda_spec_make(made->row, &device->chip, desc, &spec);
    if (!status)
        status = nib_cuda_module_get(device, made->row->family->source, spec, label,
                                     made->row->portable, &made->module);
    free(spec);
    if (!status)
        status = find_functions(device, made);
    if (!status)
        status = check_unknown(device, made);
    if (status) {
        nib_cuda_kernel_put(device, made);
        return status;
    }
    *kernel = made;
    return NIB_OK;
}

void nib_cuda_kernel_put(void *dev, void *kernel)
{
    nib_cuda_kernel *made = kernel;
    if (made && made->module)
        nib_cuda_module_put(dev, made->module);
    free(made);
}

static int32_t blocks(int64_t extent, int64_t block)
{
    return (int32_t)((extent + block - 1) / block);
}

static void fill_params(const nib_cuda_kernel *kernel, const nib_packed *weights,
                        const nib_gemm_args *args, int32_t split, nib_cuda_params *p)
{
    const nib_gemm_desc *desc = &kernel->desc;
    const nib_weight_desc *w = &desc->weight;
    int64_t group = w->group == NIB_GROUP_ROW || w->group == NIB_GROUP_TENSOR ? w->k : w->group;
    uint64_t bytes = (uint64_t)kernel->act_bytes;
    *p = (nib_cuda_params){
        .act = args->act,
        .act_scale = args->act_scale,
        .out = args->out,
        .bias = args->bias,
        .codes = {weights->codes[0], weights->codes[1], weights->codes[2]},
        .scales = weights->scales,
        .zeros = weights->zeros,
        .g_idx = weights->g_idx,
        .table = weights->table,
        .partial = args->workspace,
        .m = args->m,
        .n = w->n,
        .k = w->k,
        .lda = args->lda,
        .ldo = args->ldo,
        .group = group,
        .groups = (w->k + group - 1) / group,
        .n_blocks = blocks(w->n, 64),
        .k_blocks = blocks(w->k, 128),
        .one_scale = w->group == NIB_GROUP_TENSOR,
        .split = split,
        .alpha = weights->alpha,
        .out_type = desc->out_type,
        .bias_type = desc->bias_type,
        .epilogue = desc->epilogue,
        .act_scale_mode = desc->act_scale,
        .aligned = (uintptr_t)args->act % ALIGN_BYTES == 0 &&
                   (uint64_t)args->lda * bytes % ALIGN_BYTES == 0 &&
                   (uint64_t)w->k * bytes % ALIGN_BYTES == 0,
    };
}

/* A thread an element; the kernel strides, should that be more blocks than a grid may have. */
static uint32_t reduce_blocks(const nib_cuda_params *p)
{
    int64_t count = (p->m * p->n + REDUCE_THREADS - 1) / REDUCE_THREADS;
    return count > INT32_MAX ? INT32_MAX : (uint32_t)count;
}

nib_cu_result nib_cuda_start(const nib_cuda_device *device, nib_cu_function function,
                             const nib_cu_launch *launch, void *params)
{
    void *list[] = {params};
    return device->driver->launch((const nib_cu_launch_config *)(const void *)launch, function,
                                  list, NULL);
}

bool nib_cuda_may_depend(const nib_cuda_device *device, const nib_cuda_module *module)
{
    return device->depends && device->chip.cc >= 90 &&
           (!strncmp(module->isa, "sm_", 3) || !strcmp(module->isa, "compute_90a"));
}

static bool waits_itself(const nib_cuda_device *device, const nib_cuda_kernel *kernel)
{
    return kernel->row->family->waits && nib_cuda_may_depend(device, kernel->module);
}

/* Describes act to tensor copies; false where they may not read it. The limits are those of
 * cuTensorMapEncodeTiled. */
static bool map_act(const nib_cuda_device *device, const nib_cuda_kernel *kernel,
                    const nib_gemm_args *args, int32_t rows, nib_cuda_map *map)
{
    uint64_t bytes = (uint64_t)kernel->act_bytes, pitch = (uint64_t)args->lda * bytes;
    uint64_t dims[] = {(uint64_t)kernel->desc.weight.k, (uint64_t)args->m};
    unsigned int box[] = {MAP_BYTES / (unsigned int)bytes, (unsigned int)rows}, steps[] = {1, 1};
    nib_cu_attribute type = bytes == 1                          ? NIB_CU_MAP_U8
                            : kernel->desc.act_type == NIB_BF16 ? NIB_CU_MAP_BF16
                                                                : NIB_CU_MAP_F16;
    if (!device->driver->tensor_map || (uintptr_t)args->act % ALIGN_BYTES || pitch % ALIGN_BYTES ||
        pitch >> 40 || dims[0] >> 32 || dims[1] >> 32)
        return false;
    return !device->driver->tensor_map((nib_cu_tensor_map *)(void *)map, type, 2,
                                       (void *)(uintptr_t)args->act, dims, &pitch, box, steps, 0,
                                       NIB_CU_MAP_SWIZZLE_128, NIB_CU_MAP_PROMOTE_256, 0);
}

static nib_cu_result start_before(nib_cuda_device *device, const nib_cuda_kernel *kernel,
                                  const nib_cuda_shape *shape, const nib_gemm_args *args,
                                  nib_cuda_params *params)
{
    nib_cu_launch_attribute dependent = {.id = NIB_CU_LAUNCH_PROGRAMMATIC, .value.allowed = 1};
    nib_cu_launch launch = {.grid = {shape->before, 1, 1},
                            .block = {BEFORE_THREADS, 1, 1},
                            .stream = args->stream,
                            .attributes = &dependent,
                            .attribute_count = waits_itself(device, kernel)};
    return nib_cuda_start(device, kernel->before, &launch, params);
}

/* The kernel of the product itself. */
static nib_cu_result start_main(nib_cuda_device *device, const nib_cuda_kernel *kernel,
                                const nib_cuda_shape *shape, const nib_gemm_args *args,
                                const nib_cuda_params *params)
{
    nib_cu_launch_attribute attributes[2];
    nib_cuda_mapped_params mapped = {.p = *params};
    nib_cu_launch launch = {.grid = {shape->grid[0], shape->grid[1], shape->grid[2]},
                            .block = {shape->block, 1, 1},
                            .shared_bytes = shape->shared_bytes,
                            .stream = args->stream,
                            .attributes = attributes};
    /* Chains of kernels and reductions that start early take up to twice as long on an H200. */
    if (waits_itself(device, kernel) && (params->split == 1 || !kernel->reduce))
        attributes[launch.attribute_count++] =
            (nib_cu_launch_attribute){.id = NIB_CU_LAUNCH_PROGRAMMATIC, .value.allowed = 1};
    if (shape->cluster > 1)
        attributes[launch.attribute_count++] = (nib_cu_launch_attribute){
            .id = NIB_CU_LAUNCH_CLUSTER, .value.cluster = {(unsigned int)shape->cluster, 1, 1}};
    mapped.p.nonce = atomic_fetch_add_explicit(&device->nonce, 2, memory_order_relaxed) | 1;
    if (shape->map_rows == 0)
        return nib_cuda_start(device, kernel->entry, &launch, &mapped.p);
    mapped.mapped = map_act(device, kernel, args, shape->map_rows, &mapped.act_map);
    return nib_cuda_start(device, kernel->entry, &launch, &mapped);
}

nib_status nib_cuda_launch_here(nib_cuda_device *device, const nib_cuda_kernel *kernel,
                                const nib_packed *weights, const nib_gemm_args *args)
{
    const nib_cuda_row *row = kernel->row;
    nib_cuda_shape shape;
    nib_cuda_params params;
    nib_cuda_shape_find(device, row, &kernel->desc, args->m, &shape);
    if (shape.workspace_bytes > args->workspace_bytes)
        return nib_cuda_host->fail(NIB_INVALID, "workspace has %zu bytes, %llu are needed",
                                   args->workspace_bytes,
                                   (unsigned long long)shape.workspace_bytes);
    fill_params(kernel, weights, args, shape.split > 1 ? shape.split : 1, &params);
    nib_cu_result result = shape.before && kernel->before
                               ? start_before(device, kernel, &shape, args, &params)
                               : NIB_CU_SUCCESS;
    if (!result)
        result = start_main(device, kernel, &shape, args, &params);
    if (!result && params.split > 1 && kernel->reduce) {
        nib_cu_launch_attribute dependent = {.id = NIB_CU_LAUNCH_PROGRAMMATIC, .value.allowed = 1};
        nib_cu_launch reduce = {.grid = {reduce_blocks(&params), 1, 1},
                                .block = {REDUCE_THREADS, 1, 1},
                                .stream = args->stream,
                                .attributes = &dependent,
                                .attribute_count = waits_itself(device, kernel)};
        result = nib_cuda_start(device, kernel->reduce, &reduce, &params);
    }
    return nib_cuda_result(result, row->variant.id);
}

nib_status nib_cuda_launch(void *dev, void *kernel, const nib_packed *weights,
                           const nib_gemm_args *args)
{
    nib_cuda_device *device = dev;
    nib_cuda_visit visit;
    if (args->m <= 0)
        return NIB_OK;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = nib_cuda_launch_here(device, kernel, weights, args);
    nib_cuda_leave(&visit);
    return status;
}
