/* SPDX-License-Identifier: Apache-2.0
 *
 * The tutorial backend's kernel, as backend.c sees it.
 */
#ifndef EXAMPLE_KERNEL_H
#define EXAMPLE_KERNEL_H

#include <nibblas/backend.h>

/* One description, made ready: what a real backend would compile or load. */
typedef struct example_kernel {
    nib_gemm_desc desc;
    const float *values;       /* by code; NULL for lut4, whose table comes with the weights */
    const float *scale_values; /* by byte; NULL for scales of more than 8 bits */
    int64_t group;             /* k per scale */
    int64_t groups;            /* scales per row of W; 0 when one serves the whole matrix */
} example_kernel;

/* NULL if the kernel takes this description, else the reason, to follow "because ". */
const char *example_refusal(const nib_gemm_desc *desc);

void example_run(const example_kernel *kernel, const nib_packed *weights,
                 const nib_gemm_args *args);

#endif
