/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a loaded kernel, for people: what the compiler made of it, how it fills the chip and
 * what bounds it.
 */
#include "host/host.h"

#include <stdio.h>
#include <string.h>

/* What the driver says of a kernel's code. */
typedef struct facts {
    int registers, local, shared; /* of a thread, of a thread, static bytes of a block */
    int resident;                 /* blocks on a multiprocessor */
} facts;

static nib_status read_facts(const nib_cuda_device *device, const nib_cuda_kernel *kernel,
                             const nib_cuda_shape *shape, facts *out)
{
    const nib_cuda_driver *driver = device->driver;
    nib_cuda_visit visit;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    nib_cu_result result =
        driver->function_get(&out->registers, NIB_CU_FUNC_REGISTERS, kernel->entry);
    if (!result)
        result = driver->function_get(&out->local, NIB_CU_FUNC_LOCAL, kernel->entry);
    if (!result)
        result = driver->function_get(&out->shared, NIB_CU_FUNC_SHARED_STATIC, kernel->entry);
    if (!result)
        result = driver->occupancy(&out->resident, kernel->entry, (int)shape->block,
                                   shape->shared_bytes);
    nib_cuda_leave(&visit);
    return nib_cuda_result(result, "facts of a kernel");
}

static const char *origin_name(nib_image_origin origin)
{
    return origin == NIB_IMAGE_PACK ? "a pack" : origin == NIB_IMAGE_CACHE ? "the cache" : "NVRTC";
}

nib_status nib_cuda_explain(void *dev, void *kernel, int64_t m, char *text, size_t capacity,
                            size_t *needed)
{
    const nib_cuda_device *device = dev;
    const nib_cuda_kernel *k = kernel;
    const nib_cuda_family *family = k->row->family;
    nib_cuda_shape shape = {0};
    facts f = {0};
    const char *bound = "memory";
    char label[NIB_CUDA_LABEL_BYTES];
    if (m < 1)
        m = 1;
    family->shape(k->row, &device->chip, &k->desc, m, &shape);
    double us = family->predict(k->row, &device->chip, &k->desc, m, &bound);
    nib_status status = read_facts(device, k, &shape, &f);
    if (status)
        return status;
    nib_cuda_label(k->row, &k->desc, label, sizeof(label));
    double share =
        device->threads_unit > 0 ? 100.0 * f.resident * shape.block / device->threads_unit : 0;
    int length = snprintf(text, capacity,
                          "%s\n"
                          "  %d registers and %d bytes of spills a thread\n"
                          "  %d + %u bytes of shared memory a block (static + dynamic)\n"
                          "  %d blocks on a multiprocessor: occupancy %.0f%%\n"
                          "  grid %u x %u x %u of %u threads, K in %d parts\n"
                          "  workspace %llu bytes for m = %lld\n"
                          "  bound by %s: predicted %.1f us and %.1f us for the launch\n"
                          "  code for %s from %s in %.1f ms, loaded in %.1f ms",
                          label, f.registers, f.local, f.shared, shape.shared_bytes, f.resident,
                          share, shape.grid[0], shape.grid[1], shape.grid[2], shape.block,
                          shape.split > 1 ? shape.split : 1,
                          (unsigned long long)shape.workspace_bytes, (long long)m, bound, us,
                          NIB_CUDA_LAUNCH_US, k->module->isa, origin_name(k->module->origin),
                          k->module->image_us * 1e-3, k->module->load_us * 1e-3);
    if (needed)
        *needed = (size_t)length + 1;
    return NIB_OK;
}
