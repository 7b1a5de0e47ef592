/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits: rows in even shares over the crew. Next: kernels/common/quantize.c.
 */
#include "kernels/common/quantize.h"

#include "host/host.h"

#include <stdlib.h>

/* Fewer elements than this take less time than waking the crew. */
enum { WORTH_WAKING = 16384 };

typedef struct quantize_call {
    const nib_cpu_isa *isa;
    const nib_act_quantizer_desc *desc;
    const nib_act_quantize_args *args;
} quantize_call;

nib_status nib_cpu_act_quantizer_get(void *dev, const nib_act_quantizer_desc *desc,
                                     void **quantizer)
{
    nib_cpu_device *device = dev;
    nib_act_quantizer_desc *made = malloc(sizeof(*made));
    if (!made)
        return nib_cpu_host->fail(NIB_NO_MEMORY, "no memory for a quantizer");
    *made = *desc;
    nib_cpu_crew_start(device->crew);
    *quantizer = made;
    return NIB_OK;
}

void nib_cpu_act_quantizer_put(void *dev, void *quantizer)
{
    (void)dev;
    free(quantizer);
}

static void work(void *context, const nib_cpu_team *team)
{
    const quantize_call *call = context;
    int64_t begin, end;
    nib_cpu_share(team, call->args->m, &begin, &end);
    nib_cpu_quantize_rows(call->desc, call->isa->load, call->args, begin, end - begin);
}

nib_status nib_cpu_quantize_activations(void *dev, void *quantizer,
                                        const nib_act_quantize_args *args)
{
    const nib_cpu_device *device = dev;
    quantize_call call = {.isa = device->isa, .desc = quantizer, .args = args};
    if (args->m == 1 || args->m < WORTH_WAKING / args->k)
        nib_cpu_quantize_rows(call.desc, call.isa->load, args, 0, args->m);
    else
        nib_cpu_crew_run(device->crew, work, &call);
    return NIB_OK;
}
