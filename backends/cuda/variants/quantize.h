/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of kernels/general/quantize.cu, which rounds activations to 8 bits. host/ compiles the
 * source with the constants that nib_cuda_quantize_spec writes and launches what
 * nib_cuda_quantize_make answers.
 */
#ifndef NIB_CUDA_QUANTIZE_H
#define NIB_CUDA_QUANTIZE_H

#include "variants/variants.h"

#include "kernels/general/quantize.h"

#define NIB_CUDA_QUANTIZE_SOURCE "kernels/general/quantize.cu"
#define NIB_CUDA_QUANTIZE_ENTRY  "nib_quantize"

enum { NIB_CUDA_QUANTIZE_SPEC_BYTES = 256 };

typedef struct nib_cuda_quantize_job {
    uint32_t grid, block; /* along x */
    nib_cuda_quantize_params params;
} nib_cuda_quantize_job;

/* The text of nib_spec.h. */
void nib_cuda_quantize_spec(const nib_act_quantizer_desc *desc,
                            char text[NIB_CUDA_QUANTIZE_SPEC_BYTES]);
void nib_cuda_quantize_make(const nib_act_quantizer_desc *desc, const nib_act_quantize_args *args,
                            nib_cuda_quantize_job *out);

#endif
