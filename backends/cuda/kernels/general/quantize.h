/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands kernels/general/quantize.cu: one struct by value. Plain C that both compilers
 * read; variants/quantize.c fills it from nib_act_quantize_args.
 */
#ifndef NIB_CUDA_QUANTIZE_PARAMS_H
#define NIB_CUDA_QUANTIZE_PARAMS_H

enum { NIB_CUDA_QUANTIZE_BYTES = 16 }; /* of act that a thread loads at a time */

typedef struct nib_cuda_quantize_params {
    const void *act; /* [m, k], row stride lda elements */
    void *out;       /* [m, k], row stride ldo elements */
    float *scale;    /* [m], or [1] that is given */
    int64_t m, k, lda, ldo;
    int64_t vectors; /* of a row, that may be loaded and stored as such; the rest is elements */
} nib_cuda_quantize_params;

#endif
