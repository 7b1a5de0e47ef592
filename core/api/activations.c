/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits: the backend's quantizers, with the device they belong to. A quantizer is
 * constant after creation.
 */
#include "base/checked.h"
#include "base/status.h"
#include "base/struct.h"
#include "registry/device.h"

#include <inttypes.h>
#include <stdlib.h>

struct nib_act_quantizer {
    nib_device *dev;
    nib_act_quantizer_desc desc;
    void *handle; /* the backend's own */
};

static nib_status check_desc(const nib_act_quantizer_desc *d)
{
    if (d->from != NIB_F32 && d->from != NIB_F16 && d->from != NIB_BF16)
        return nib_fail(NIB_INVALID, "from is %s (%d), expected f32, f16 or bf16",
                        nib_type_name(d->from), d->from);
    if (d->to != NIB_I8 && d->to != NIB_E4M3 && d->to != NIB_E5M2)
        return nib_fail(NIB_INVALID, "to is %s (%d), expected i8, e4m3 or e5m2",
                        nib_type_name(d->to), d->to);
    if (d->scale != NIB_ACT_SCALE_ROW && d->scale != NIB_ACT_SCALE_TENSOR)
        return nib_fail(NIB_INVALID,
                        "scale is %d, expected NIB_ACT_SCALE_ROW or NIB_ACT_SCALE_TENSOR",
                        d->scale);
    return NIB_OK;
}

nib_status nib_act_quantizer_create(nib_device *dev, const nib_act_quantizer_desc *desc,
                                    nib_act_quantizer **out)
{
    nib_act_quantizer_desc given;
    if (!dev || !out)
        return nib_fail(NIB_INVALID,
                        "nib_act_quantizer_create needs a device and a place for the quantizer");
    nib_status status =
        nib_struct_read(&given, sizeof(given), desc, sizeof(given), "nib_act_quantizer_desc");
    if (!status)
        status = check_desc(&given);
    if (status)
        return status;
    const nib_backend_api *api = &dev->backend->api;
    if (!api->act_quantizer_get || !api->act_quantizer_put || !api->quantize_activations)
        return nib_fail(NIB_UNSUPPORTED, "%s does not quantise activations", dev->info.selector);
    nib_act_quantizer *quantizer = malloc(sizeof(*quantizer));
    if (!quantizer)
        return nib_fail(NIB_NO_MEMORY, "no memory for a quantizer");
    *quantizer = (nib_act_quantizer){.dev = dev, .desc = given};
    status = api->act_quantizer_get(dev->handle, &given, &quantizer->handle);
    if (status) {
        free(quantizer);
        return status;
    }
    *out = quantizer;
    return NIB_OK;
}

void nib_act_quantizer_destroy(nib_act_quantizer *quantizer)
{
    if (!quantizer)
        return;
    quantizer->dev->backend->api.act_quantizer_put(quantizer->dev->handle, quantizer->handle);
    free(quantizer);
}

static nib_status check_args(const nib_act_quantize_args *args)
{
    int64_t elements;
    if (args->m < 0 || args->k < 0)
        return nib_fail(NIB_INVALID, "act is [%" PRId64 ", %" PRId64 "], expected at least [0, 0]",
                        args->m, args->k);
    if (args->m == 0 || args->k == 0)
        return NIB_OK;
    if (!args->act || !args->out || !args->scale)
        return nib_fail(NIB_INVALID, "%s is NULL",
                        !args->act   ? "act"
                        : !args->out ? "out"
                                     : "scale");
    if (args->lda < args->k || args->ldo < args->k)
        return nib_fail(NIB_INVALID, "%s is %" PRId64 ", expected at least k = %" PRId64,
                        args->lda < args->k ? "lda" : "ldo",
                        args->lda < args->k ? args->lda : args->ldo, args->k);
    if (!nib_mul_extent(args->m, args->lda, &elements) || !nib_mul_extent(elements, 4, &elements) ||
        !nib_mul_extent(args->m, args->ldo, &elements))
        return nib_fail(NIB_INVALID, "m = %" PRId64 " rows do not fit in 63 bits of bytes",
                        args->m);
    return NIB_OK;
}

nib_status nib_quantize_activations(nib_act_quantizer *quantizer, const nib_act_quantize_args *args)
{
    nib_act_quantize_args given;
    if (!quantizer)
        return nib_fail(NIB_INVALID, "nib_quantize_activations needs a quantizer");
    nib_status status =
        nib_struct_read(&given, sizeof(given), args, sizeof(given), "nib_act_quantize_args");
    if (!status)
        status = check_args(&given);
    if (status || given.m == 0 || given.k == 0)
        return status;
    const nib_device *dev = quantizer->dev;
    return dev->backend->api.quantize_activations(dev->handle, quantizer->handle, &given);
}
