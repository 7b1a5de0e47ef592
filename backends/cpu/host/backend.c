/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend's table and its entry function: start here.
 */
#include "host/host.h"

const nib_host_api *nib_cpu_host;

/* Device memory is host memory: packed weights may stay in a mapped file. */
static int32_t host_memory(void *dev)
{
    (void)dev;
    return 1;
}

static const nib_backend_api api = {
    .size = sizeof(api),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .name = "cpu",
    .preference = 0, /* every accelerator comes first */
    .device_count = nib_cpu_device_count,
    .device_open = nib_cpu_device_open,
    .device_close = nib_cpu_device_close,
    .device_info = nib_cpu_device_info,
    .layout = nib_cpu_layout,
    .variant = nib_cpu_variant,
    .supports = nib_cpu_supports,
    .workspace = nib_cpu_workspace,
    .kernel_get = nib_cpu_kernel_get,
    .kernel_put = nib_cpu_kernel_put,
    .launch = nib_cpu_launch,
    .memory_alloc = nib_cpu_memory_alloc,
    .memory_free = nib_cpu_memory_free,
    .memory_copy = nib_cpu_memory_copy,
    .synchronize = nib_cpu_synchronize,
    .event_create = nib_cpu_event_create,
    .event_destroy = nib_cpu_event_destroy,
    .event_record = nib_cpu_event_record,
    .event_elapsed = nib_cpu_event_elapsed,
    .explain = nib_cpu_explain,
    .host_memory = host_memory,
    .act_quantizer_get = nib_cpu_act_quantizer_get,
    .act_quantizer_put = nib_cpu_act_quantizer_put,
    .quantize_activations = nib_cpu_quantize_activations,
};

nib_status nib_backend_entry(const nib_host_api *host, const nib_backend_api **out)
{
    nib_cpu_host = host;
    *out = &api;
    return NIB_OK;
}
