/* SPDX-License-Identifier: Apache-2.0
 *
 * A linear layer: a tensor of the file as nibblas weights.
 */
#ifndef LLAMA_LINEAR_H
#define LLAMA_LINEAR_H

#include "engine.h"

typedef struct llama_linear {
    int64_t n, k;
    nib_gemm *gemm; /* the engine's */
    nib_weights *weights;
    uint64_t packed_bytes;
    bool rounded; /* the file has 16 or 32 bits a weight, which became i8 in groups of 32 */
} llama_linear;

/* Loads a tensor [n, k] for products of up to m_max rows. Quantised tensors keep their codes,
 * scales and zeros exactly. Dense ones are quantised to i8 with one f16 scale per 32 weights. */
nib_status llama_linear_load(llama_engine *engine, const nib_file *file, const char *name,
                             int64_t n, int64_t k, int64_t m_max, llama_linear *out);
void llama_linear_free(llama_linear *linear);

/* The index of the tensor `name`, whose extents must be these; k 0: a vector of n. */
nib_status llama_tensor_find(const nib_file *file, const char *name, int64_t n, int64_t k,
                             int64_t *index, nib_tensor *tensor);

#endif
