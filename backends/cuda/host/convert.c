/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion of layouts in device memory: the kernel of variants/convert.h, loaded at the first
 * conversion and kept. Core does on the host what this declines.
 */
#include "variants/convert.h"

#include "host/host.h"

/* The kernel, loaded once a device. Of several threads that come first all load, and share. */
static nib_status get_kernel(nib_cuda_device *device, nib_cu_function *out)
{
    nib_cuda_module *module = NULL;
    pthread_mutex_lock(&device->lock);
    bool kept = device->converter != NULL;
    pthread_mutex_unlock(&device->lock);
    if (!kept) {
        nib_status status =
            nib_cuda_module_get(device, NIB_CUDA_CONVERT_SOURCE, "", "convert", true, &module);
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
    status = get_kernel(device, &kernel);
    for (int32_t i = 0; !status && i < job.launches; i++) {
        const nib_cu_launch launch = {
            .grid = {job.grid[i], 1, 1}, .block = {job.block, 1, 1}, .stream = args->stream};
        status = nib_cuda_result(nib_cuda_start(device, kernel, &launch, &job.params[i]),
                                 NIB_CUDA_CONVERT_ENTRY);
    }
    nib_cuda_leave(&visit);
    return status;
}
