/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend's table and its entry function: start here, then host.h.
 */
#include "host/host.h"

const nib_host_api *nib_cuda_host;

static const nib_backend_api api = {
    .size = sizeof(api),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .name = "cuda",
    .preference = 100,
    .device_count = nib_cuda_device_count,
    .device_open = nib_cuda_device_open,
    .device_close = nib_cuda_device_close,
    .device_info = nib_cuda_device_info,
    .layout = nib_cuda_layout,
    .variant = nib_cuda_variant,
    .supports = nib_cuda_supports,
    .workspace = nib_cuda_workspace,
    .kernel_get = nib_cuda_kernel_get,
    .kernel_put = nib_cuda_kernel_put,
    .launch = nib_cuda_launch,
    .memory_alloc = nib_cuda_memory_alloc,
    .memory_free = nib_cuda_memory_free,
    .memory_copy = nib_cuda_memory_copy,
    .synchronize = nib_cuda_synchronize,
    .event_create = nib_cuda_event_create,
    .event_destroy = nib_cuda_event_destroy,
    .event_record = nib_cuda_event_record,
    .event_elapsed = nib_cuda_event_elapsed,
    .explain = nib_cuda_explain,
    .predict = nib_cuda_predict,
    .convert = nib_cuda_convert,
    .isa = nib_cuda_isa,
    .images = nib_cuda_images,
    .act_quantizer_get = nib_cuda_act_quantizer_get,
    .act_quantizer_put = nib_cuda_act_quantizer_put,
    .quantize_activations = nib_cuda_quantize_activations,
};

nib_status nib_backend_entry(const nib_host_api *host, const nib_backend_api **out)
{
    if (host->abi_minor < 1)
        return host->fail(NIB_UNSUPPORTED, "it needs backend ABI 1.1, this library has 1.%u",
                          host->abi_minor);
    nib_cuda_host = host;
    *out = &api;
    return NIB_OK;
}
