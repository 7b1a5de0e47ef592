/* SPDX-License-Identifier: Apache-2.0
 *
 * The host side of the CPU backend: what its files share. backend.c has the table and the entry,
 * device.c devices and their facts, launch.c kernels and runs, quantize.c activations to 8 bits,
 * memory.c memory and events.
 */
#ifndef NIB_CPU_HOST_H
#define NIB_CPU_HOST_H

#include "kernels/common/schedule.h"

typedef struct nib_cpu_device {
    const nib_cpu_isa *isa; /* its rows come first, the portable ones behind */
    int32_t threads;
    nib_cpu_crew *crew;
    char isa_name[32];
} nib_cpu_device;

/* Set once by the entry function, before anything else here runs. */
extern const nib_host_api *nib_cpu_host;

nib_status nib_cpu_device_count(uint32_t *count, char *why, size_t why_bytes);
nib_status nib_cpu_device_open(uint32_t index, void **dev);
void nib_cpu_device_close(void *dev);
nib_status nib_cpu_device_info(void *dev, nib_device_info *info);
nib_status nib_cpu_layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out);
nib_status nib_cpu_variant(void *dev, uint32_t index, const nib_variant **out);

/* The most capable ISA this processor has among those `wanted` allows (NULL: all); NULL when
 * `wanted` names none or one the processor lacks. */
const nib_cpu_isa *nib_cpu_isa_choose(const char *wanted);

nib_status nib_cpu_supports(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                            char *why, size_t why_bytes);
nib_status nib_cpu_workspace(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                             int64_t m, uint64_t *bytes);
nib_status nib_cpu_kernel_get(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                              void **kernel);
void nib_cpu_kernel_put(void *dev, void *kernel);
nib_status nib_cpu_launch(void *dev, void *kernel, const nib_packed *weights,
                          const nib_gemm_args *args);
nib_status nib_cpu_explain(void *dev, void *kernel, int64_t m, char *text, size_t capacity,
                           size_t *needed);

nib_status nib_cpu_act_quantizer_get(void *dev, const nib_act_quantizer_desc *desc,
                                     void **quantizer);
void nib_cpu_act_quantizer_put(void *dev, void *quantizer);
nib_status nib_cpu_quantize_activations(void *dev, void *quantizer,
                                        const nib_act_quantize_args *args);

nib_status nib_cpu_memory_alloc(void *dev, uint64_t bytes, void **out);
void nib_cpu_memory_free(void *dev, void *memory);
nib_status nib_cpu_memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                               nib_copy_kind kind, void *stream);
nib_status nib_cpu_synchronize(void *dev, void *stream);
nib_status nib_cpu_event_create(void *dev, void **event);
void nib_cpu_event_destroy(void *dev, void *event);
nib_status nib_cpu_event_record(void *dev, void *event, void *stream);
nib_status nib_cpu_event_elapsed(void *dev, void *from, void *to, double *us);

#endif
