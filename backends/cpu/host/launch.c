/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and runs: which rows serve a description, how much workspace they take, and the step from
 * a run to its schedule.
 */
#include "host/host.h"
#include "kernels/common/shape.h"

#include <stdio.h>
#include <stdlib.h>

static const nib_cpu_row *row_of(const nib_variant *variant)
{
    return (const nib_cpu_row *)(const void *)variant;
}

static void make_kernel(const nib_cpu_device *device, const nib_cpu_row *row,
                        const nib_gemm_desc *desc, nib_cpu_kernel *kernel)
{
    nib_cpu_shape_make(nib_cpu_host, desc, &kernel->shape);
    kernel->row = row;
    kernel->dequant = row->isa->dequant(desc->weight.type);
    kernel->threads = device->threads;
    kernel->crew = device->crew;
}

/* NULL when the row can serve the description. */
static const char *refusal(const nib_cpu_kernel *kernel)
{
    const nib_cpu_row *row = kernel->row;
    bool integer = kernel->shape.desc.acc_type == NIB_I32;
    if (!kernel->dequant)
        return "it does not decode this weight type";
    switch (row->schedule) {
    case NIB_CPU_PANEL:
        return integer ? "acc_type i32 sums in integers" : NULL;
    case NIB_CPU_INTEGER:
        return integer ? NULL : "it is for acc_type i32";
    default:
        if (row->bits && row->bits != kernel->shape.bits)
            return "it is for codes of other widths";
        return nib_cpu_direct_refusal(&kernel->shape, row->schedule);
    }
}

nib_status nib_cpu_supports(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                            char *why, size_t why_bytes)
{
    nib_cpu_kernel kernel;
    make_kernel(dev, row_of(variant), desc, &kernel);
    const char *reason = refusal(&kernel);
    if (!reason)
        return NIB_OK;
    snprintf(why, why_bytes, "%s", reason);
    return nib_cpu_host->fail(NIB_UNSUPPORTED, "%s: %s", variant->id, reason);
}

static uint64_t workspace(const nib_cpu_kernel *kernel, int64_t m)
{
    switch (kernel->row->schedule) {
    case NIB_CPU_PANEL:
        return nib_cpu_panel_workspace(kernel, m);
    case NIB_CPU_INTEGER:
        return nib_cpu_integer_workspace(kernel, m);
    default:
        return nib_cpu_direct_workspace(kernel, m);
    }
}

nib_status nib_cpu_workspace(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                             int64_t m, uint64_t *bytes)
{
    nib_cpu_kernel kernel;
    make_kernel(dev, row_of(variant), desc, &kernel);
    *bytes = m > 0 ? workspace(&kernel, m) : 0;
    return NIB_OK;
}

nib_status nib_cpu_kernel_get(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                              void **kernel)
{
    nib_cpu_kernel *made = malloc(sizeof(*made));
    if (!made)
        return nib_cpu_host->fail(NIB_NO_MEMORY, "no memory for a kernel");
    make_kernel(dev, row_of(variant), desc, made);
    nib_cpu_crew_start(made->crew);
    *kernel = made;
    return NIB_OK;
}

void nib_cpu_kernel_put(void *dev, void *kernel)
{
    (void)dev;
    free(kernel);
}

nib_status nib_cpu_launch(void *dev, void *kernel, const nib_packed *weights,
                          const nib_gemm_args *args)
{
    (void)dev;
    nib_cpu_call call = {.kernel = kernel, .weights = weights, .args = args};
    if (args->m <= 0)
        return NIB_OK;
    switch (call.kernel->row->schedule) {
    case NIB_CPU_PANEL:
        nib_cpu_panel_launch(&call);
        break;
    case NIB_CPU_INTEGER:
        nib_cpu_integer_launch(&call);
        break;
    default:
        nib_cpu_direct_launch(&call);
        break;
    }
    return NIB_OK;
}

static const char *schedule_name(nib_cpu_schedule schedule)
{
    switch (schedule) {
    case NIB_CPU_PANEL:
        return "decodes panels to f32 and multiplies them";
    case NIB_CPU_INTEGER:
        return "decodes a tile to i32 and sums modulo 2^32";
    case NIB_CPU_DIRECT:
        return "decodes in registers against f32 activations";
    default:
        return "decodes to bytes in registers against i8 activations";
    }
}

nib_status nib_cpu_explain(void *dev, void *kernel, int64_t m, char *text, size_t capacity,
                           size_t *needed)
{
    const nib_cpu_device *device = dev;
    const nib_cpu_kernel *k = kernel;
    const nib_cpu_isa *isa = k->row->isa;
    bool panel = k->row->schedule == NIB_CPU_PANEL;
    int rows = panel ? isa->panel_rows : isa->direct_rows ? isa->direct_rows : 4;
    int tiles = panel ? isa->panel_tiles : isa->direct_tiles ? isa->direct_tiles : 1;
    uint64_t bytes = 0;
    for (int p = 0; p < k->shape.planes; p++)
        bytes += (uint64_t)k->shape.n_tiles * k->shape.tile_bytes[p];
    int length = snprintf(
        text, capacity,
        "%s: %s; at most %d rows of act x %d rows of W at a time, sums in registers; %d threads "
        "of %s; %llu bytes of codes, workspace %llu bytes for m = %lld\n",
        k->row->variant.id, schedule_name(k->row->schedule), rows, tiles * NIB_CPU_LANES,
        device->threads, device->isa_name, (unsigned long long)bytes,
        (unsigned long long)(m > 0 ? workspace(k, m) : 0), (long long)m);
    if (needed)
        *needed = (size_t)length + 1;
    return NIB_OK;
}
