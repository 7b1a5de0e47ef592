/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits: the kernel of variants/quantize.h, loaded when a quantizer is made.
 */
#include "variants/quantize.h"

#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct nib_cuda_quantizer {
    nib_act_quantizer_desc desc;
    nib_cuda_module *module;
    nib_cu_function entry;
} nib_cuda_quantizer;

void nib_cuda_quantizer_label(const nib_act_quantizer_desc *desc, char *text, size_t bytes)
{
    snprintf(text, bytes, "quantize-%s-%s-%s", nib_cuda_host->type_name(desc->from),
             nib_cuda_host->type_name(desc->to),
             desc->scale == NIB_ACT_SCALE_TENSOR ? "tensor" : "row");
}

static nib_status load(nib_cuda_device *device, nib_cuda_quantizer *quantizer)
{
    char spec[NIB_CUDA_QUANTIZE_SPEC_BYTES], label[NIB_CUDA_LABEL_BYTES];
    nib_cuda_visit visit;
    nib_cuda_quantize_spec(&quantizer->desc, spec);
    nib_cuda_quantizer_label(&quantizer->desc, label, sizeof(label));
    nib_status status = nib_cuda_module_get(device, NIB_CUDA_QUANTIZE_SOURCE, spec, label, true,
                                            &quantizer->module);
    if (!status)
        status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    status =
        nib_cuda_result(device->driver->module_function(
                            &quantizer->entry, quantizer->module->handle, NIB_CUDA_QUANTIZE_ENTRY),
                        "cuModuleGetFunction(" NIB_CUDA_QUANTIZE_ENTRY ")");
    nib_cuda_leave(&visit);
    return status;
}

nib_status nib_cuda_act_quantizer_get(void *dev, const nib_act_quantizer_desc *desc,
                                      void **quantizer)
{
    nib_cuda_device *device = dev;
    if (!device->known)
        return nib_cuda_host->fail(NIB_UNSUPPORTED,
                                   "%s is a chip that this version does not know: its activations "
                                   "are quantised by the caller",
                                   device->name);
    nib_cuda_quantizer *made = calloc(1, sizeof(*made));
    if (!made)
        return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a quantizer");
    made->desc = *desc;
    nib_status status = load(device, made);
    if (status) {
        nib_cuda_act_quantizer_put(device, made);
        return status;
    }
    *quantizer = made;
    return NIB_OK;
}

void nib_cuda_act_quantizer_put(void *dev, void *quantizer)
{
    nib_cuda_quantizer *made = quantizer;
    if (made->module)
        nib_cuda_module_put(dev, made->module);
    free(made);
}

nib_status nib_cuda_quantize_activations(void *dev, void *quantizer,
                                         const nib_act_quantize_args *args)
{
    nib_cuda_device *device = dev;
    const nib_cuda_quantizer *made = quantizer;
    nib_cuda_quantize_job job;
    nib_cuda_visit visit;
    nib_status status = nib_cuda_enter(device, &visit);
    if (status)
        return status;
    nib_cuda_quantize_make(&made->desc, args, &job);
    nib_cu_launch_attribute dependent = {.id = NIB_CU_LAUNCH_PROGRAMMATIC, .value.allowed = 1};
    const nib_cu_launch launch = {.grid = {job.grid, 1, 1},
                                  .block = {job.block, 1, 1},
                                  .stream = args->stream,
                                  .attributes = &dependent,
                                  .attribute_count = nib_cuda_may_depend(device, made->module)};
    status = nib_cuda_result(nib_cuda_start(device, made->entry, &launch, &job.params),
                             NIB_CUDA_QUANTIZE_ENTRY);
    nib_cuda_leave(&visit);
    return status;
}
