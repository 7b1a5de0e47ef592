/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a backend: everything the library calls, in the order of backend.h. Read it from the
 * bottom: the entry hands out the table, the table names the functions. A GPU's backend has the
 * same functions with driver calls in them.
 */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const nib_host_api *host;

/* The only device has no state. */
static int the_device;

/* One row: a kernel for any m, one row of W at a time. The numbers at the end feed the planner's
 * model; with a single row they decide nothing, yet `nib explain` shows them. */
static const nib_variant rows[] = {
    {.size = sizeof(nib_variant),
     .id = "example-naive",
     .isa = "portable",
     .source = "kernel.c",
     .m_min = 1,
     .m_tile = 1,
     .n_tile = 1,
     .k_tile = 1,
     .threads = 1,
     .decode_per_ns = 0.1,
     .decode_m = 1,
     .efficiency = 0.1,
     .math_type = NIB_F32,
     .batch_invariant = 1}, /* a row of act is summed alone, in one order */
};

static nib_status device_count(uint32_t *count, char *why, size_t why_bytes)
{
    /* On a machine without devices: *count = 0 and a sentence. */
    (void)why, (void)why_bytes;
    *count = 1;
    return NIB_OK;
}

static nib_status device_open(uint32_t index, void **dev)
{
    if (index > 0)
        return host->fail(NIB_MISSING, "there is one device, example:0");
    *dev = &the_device;
    return NIB_OK;
}

static void device_close(void *dev)
{
    (void)dev;
}

static nib_status device_info(void *dev, nib_device_info *info)
{
    (void)dev;
    snprintf(info->name, sizeof(info->name), "tutorial device");
    snprintf(info->isa, sizeof(info->isa), "portable");
    info->units = 1;
    info->read_gb_per_s = 1;
    info->f32_tflop_per_s = 0.001;
    return NIB_OK;
}

/* A kernel that wants the order of its matrix instruction names that layout here, or writes it as a
 * text (docs/formats.md); the library then packs, converts and unpacks it without more. */
static nib_status layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    (void)dev;
    out->codes = "bytes";
    out->scales = "plain";
    out->zeros = desc->zero == NIB_ZERO_CODE ? "bytes" : "plain";
    return NIB_OK;
}

static nib_status variant(void *dev, uint32_t index, const nib_variant **out)
{
    (void)dev;
    *out = index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
    return NIB_OK;
}

static nib_status supports(void *dev, const nib_variant *row, const nib_gemm_desc *desc, char *why,
                           size_t why_bytes)
{
    (void)dev, (void)row;
    const char *refusal = example_refusal(desc);
    if (!refusal)
        return NIB_OK;
    snprintf(why, why_bytes, "%s", refusal);
    return NIB_UNSUPPORTED;
}

static nib_status workspace(void *dev, const nib_variant *row, const nib_gemm_desc *desc, int64_t m,
                            uint64_t *bytes)
{
    (void)dev, (void)row, (void)desc, (void)m;
    *bytes = 0;
    return NIB_OK;
}

static nib_status kernel_get(void *dev, const nib_variant *row, const nib_gemm_desc *desc,
                             void **kernel)
{
    (void)dev, (void)row;
    const nib_weight_desc *w = &desc->weight;
    example_kernel *made = calloc(1, sizeof(*made));
    if (!made)
        return host->fail(NIB_NO_MEMORY, "no memory for a kernel");
    made->desc = *desc;
    made->values = host->decode_table(w->type);
    if (w->scale_type && host->type_bits(w->scale_type) == 8)
        made->scale_values = host->decode_table(w->scale_type);
    made->group = w->group > 0 ? w->group : w->k;
    made->groups = w->group == NIB_GROUP_TENSOR ? 0 : (w->k + made->group - 1) / made->group;
    *kernel = made;
    return NIB_OK;
}

static void kernel_put(void *dev, void *kernel)
{
    (void)dev;
    free(kernel);
}

/* Runs on the caller's thread and is done when it returns; a GPU's would only enqueue. */
static nib_status launch(void *dev, void *kernel, const nib_packed *weights,
                         const nib_gemm_args *args)
{
    (void)dev;
    example_run(kernel, weights, args);
    return NIB_OK;
}

static nib_status memory_alloc(void *dev, uint64_t bytes, void **out)
{
    (void)dev;
    void *memory = bytes > SIZE_MAX - 64 ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
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
    memmove(to, from, bytes);
    return NIB_OK;
}

static nib_status synchronize(void *dev, void *stream)
{
    (void)dev, (void)stream;
    return NIB_OK;
}

static int32_t host_memory(void *dev)
{
    (void)dev;
    return 1;
}

static const nib_backend_api api = {
    .size = sizeof(api),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .name = "example",
    .preference = -500, /* "auto" shall find any real device first */
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_info = device_info,
    .layout = layout,
    .variant = variant,
    .supports = supports,
    .workspace = workspace,
    .kernel_get = kernel_get,
    .kernel_put = kernel_put,
    .launch = launch,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_copy = memory_copy,
    .synchronize = synchronize,
    .host_memory = host_memory,
};

nib_status nib_backend_entry(const nib_host_api *given, const nib_backend_api **out)
{
    if (given->abi_major != NIB_BACKEND_ABI_MAJOR)
        return NIB_UNSUPPORTED;
    host = given;
    *out = &api;
    return NIB_OK;
}
