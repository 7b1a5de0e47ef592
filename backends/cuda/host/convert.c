/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion of layouts in device memory: the kernel of variants/convert.h, loaded at the first
 * conversion and kept. Core does on the host what this declines: also small matrices as long as the
 * kernel would have to be compiled for them.
 */
#include "variants/convert.h"

#include "host/host.h"

/* The host converts 64 MiB in 150 ms, the kernel compiles in 220. Once the host has done as much,
 * the next conversion is worth compiling for. */
#define WORTH_COMPILING (UINT64_C(64) << 20)

static uint64_t target_bytes(const nib_matrix_map *to)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < to->planes; i++)
        bytes += to->plane[i].bytes;
    return bytes;
}

/* Whether the kernel is in a pack or in the cache. */
static bool is_compiled(nib_cuda_device *device)
{
    const char *isa = atomic_load(&device->refuses_cubin) ? "compute_80" : device->target->isa;
    nib_cuda_recipe recipe;
    nib_image_origin origin;
    if (nib_cuda_recipe_make(NIB_CUDA_CONVERT_SOURCE, "", NIB_CUDA_CONVERT_LABEL, isa, &recipe))
        return false;
    nib_status status = nib_cuda_host->image_find(&recipe.request, &origin);
    nib_cuda_recipe_free(&recipe);
    return !status;
}

/* Whether the host had better convert `bytes` than wait for a compiler; counts what it is left. */
static bool leave_to_host(nib_cuda_device *device, uint64_t bytes)
{
    if (device->converts_always || is_compiled(device))
        return false;
    pthread_mutex_lock(&device->lock);
    device->left_to_host += bytes;
    bool leave = device->left_to_host <= WORTH_COMPILING;
    pthread_mutex_unlock(&device->lock);
    return leave;
}

/* The kernel, loaded once a device. Of several threads that come first all load, and share. */
static nib_status get_kernel(nib_cuda_device *device, uint64_t bytes, nib_cu_function *out)
{
    nib_cuda_module *module = NULL;
    pthread_mutex_lock(&device->lock);
    bool kept = device->converter != NULL;
    pthread_mutex_unlock(&device->lock);
    if (!kept) {
        if (leave_to_host(device, bytes))
            return nib_cuda_host->fail(NIB_UNSUPPORTED,
                                       "the conversion is not worth compiling its kernel for");
        nib_status status = nib_cuda_module_get(device, NIB_CUDA_CONVERT_SOURCE, "",
                                                NIB_CUDA_CONVERT_LABEL, true, &module);
        if (status)
            return status;
        pthread_mutex_lock(&device->lock);
        if (!device->converter) {
            device->converter = module;
            module = NULL;
        }
        pthread_mutex_unlock(&device->lock);
        if (module)
            nib_cuda_module_put(device, module);
    }
    return nib_cuda_result(
        device->driver->module_function(out, device->converter->handle, NIB_CUDA_CONVERT_ENTRY),
        "cuModuleGetFunction(" NIB_CUDA_CONVERT_ENTRY ")");
}

nib_status nib_cuda_convert(void *dev, const nib_convert_args *args)
{
    nib_cuda_device *device = dev;
    nib_cuda_convert_job job;
    nib_cuda_visit visit;
    nib_cu_function kernel = NULL;
    const char *reason = nib_cuda_convert_make(args, &job);
    if (reason)
        return nib_cuda_host->fail(NIB_UNSUPPORTED, "%s", reason);
    if (!device->known)
        return nib_cuda_host->fail(NIB_UNSUPPORTED,
                                   "conversions on a chip that is not known are the host's");
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status = get_kernel(device, target_bytes(args->to), &kernel);
    for (int32_t i = 0; !status && i < job.launches; i++) {
        const nib_cu_launch launch = {
            .grid = {job.grid[i], 1, 1}, .block = {job.block, 1, 1}, .stream = args->stream};
        status = nib_cuda_result(nib_cuda_start(device, kernel, &launch, &job.params[i]),
                                 NIB_CUDA_CONVERT_ENTRY);
    }
    nib_cuda_leave(&visit);
    return status;
}
