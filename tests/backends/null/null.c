/* SPDX-License-Identifier: Apache-2.0
 *
 * The null backend: one device that accepts every description, packs plainly and computes nothing.
 * Its device memory is declared foreign, so that core's staging copies are exercised.
 */
#include <nibblas/backend.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const nib_host_api *host;

static const nib_variant variant = {.size = sizeof(variant),
                                    .id = "null",
                                    .isa = "none",
                                    .source = "null.c",
                                    .m_min = 1,
                                    .m_tile = 1,
                                    .n_tile = 1,
                                    .k_tile = 1,
                                    .efficiency = 1,
                                    .math_type = NIB_F32,
                                    .batch_invariant = 1};

static int device;

static nib_status device_count(uint32_t *count, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    *count = 1;
    return NIB_OK;
}

static nib_status device_open(uint32_t index, void **dev)
{
    (void)index;
    *dev = &device;
    return NIB_OK;
}

static void device_close(void *dev)
{
    (void)dev;
}

static nib_status device_info(void *dev, nib_device_info *info)
{
    (void)dev;
    strcpy(info->name, "nothing");
    strcpy(info->isa, "none");
    info->units = 1;
    info->read_gb_per_s = 1;
    info->f32_tflop_per_s = 1;
    return NIB_OK;
}

static nib_status layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    (void)dev, (void)desc;
    out->codes = out->scales = out->zeros = "plain";
    return NIB_OK;
}

static nib_status get_variant(void *dev, uint32_t index, const nib_variant **out)
{
    (void)dev;
    *out = index == 0 ? &variant : NULL;
    return NIB_OK;
}

static nib_status supports(void *dev, const nib_variant *v, const nib_gemm_desc *desc, char *why,
                           size_t why_bytes)
{
    (void)dev, (void)v, (void)desc, (void)why, (void)why_bytes;
    return NIB_OK;
}

static nib_status workspace(void *dev, const nib_variant *v, const nib_gemm_desc *desc, int64_t m,
                            uint64_t *bytes)
{
    (void)dev, (void)v, (void)desc, (void)m;
    *bytes = 0;
    return NIB_OK;
}

static nib_status kernel_get(void *dev, const nib_variant *v, const nib_gemm_desc *desc,
                             void **kernel)
{
    (void)dev, (void)v, (void)desc;
    *kernel = &device;
    return NIB_OK;
}

static void kernel_put(void *dev, void *kernel)
{
    (void)dev, (void)kernel;
}

static nib_status launch(void *dev, void *kernel, const nib_packed *weights,
                         const nib_gemm_args *args)
{
    (void)dev, (void)kernel, (void)weights, (void)args;
    return NIB_OK;
}

static nib_status memory_alloc(void *dev, uint64_t bytes, void **out)
{
    (void)dev;
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!memory)
        return host->fail(NIB_NO_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    *out = memory;
    return NIB_OK;
}

static void memory_free(void *dev, void *memory)
{
    (void)dev;
    free(memory);
}

static nib_status memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                              nib_copy_kind kind, void *stream)
{
    (void)dev, (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return NIB_OK;
}

static nib_status synchronize(void *dev, void *stream)
{
    (void)dev, (void)stream;
    return NIB_OK;
}

/* Events keep the host's time: every run is over before it returns. */
static nib_status event_create(void *dev, void **event)
{
    (void)dev;
    struct timespec *time = calloc(1, sizeof(*time));
    if (!time)
        return host->fail(NIB_NO_MEMORY, "no memory for an event");
    *event = time;
    return NIB_OK;
}

static void event_destroy(void *dev, void *event)
{
    (void)dev;
    free(event);
}

static nib_status event_record(void *dev, void *event, void *stream)
{
    (void)dev, (void)stream;
    clock_gettime(CLOCK_MONOTONIC, event);
    return NIB_OK;
}

static nib_status event_elapsed(void *dev, void *from, void *to, double *us)
{
    const struct timespec *a = from, *b = to;
    (void)dev;
    *us = (double)(b->tv_sec - a->tv_sec) * 1e6 + (double)(b->tv_nsec - a->tv_nsec) * 1e-3;
    return NIB_OK;
}

static nib_status predict(void *dev, const nib_variant *v, const nib_gemm_desc *desc, int64_t m,
                          double *us, const char **bound)
{
    (void)dev, (void)v, (void)desc, (void)m;
    *us = 1;
    *bound = "nothing";
    return NIB_OK;
}

static const nib_backend_api api = {
    .size = sizeof(api),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .name = "null",
    .preference = -1000,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_info = device_info,
    .layout = layout,
    .variant = get_variant,
    .supports = supports,
    .workspace = workspace,
    .kernel_get = kernel_get,
    .kernel_put = kernel_put,
    .launch = launch,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_copy = memory_copy,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_elapsed = event_elapsed,
    .predict = predict,
};

nib_status nib_backend_entry(const nib_host_api *given, const nib_backend_api **out)
{
    host = given;
    *out = &api;
    return NIB_OK;
}
