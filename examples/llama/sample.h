/* SPDX-License-Identifier: Apache-2.0
 *
 * From logits to the next token: greedy, or by temperature and nucleus (top-p).
 */
#ifndef LLAMA_SAMPLE_H
#define LLAMA_SAMPLE_H

#include <nibblas/nibblas.h>

typedef struct llama_candidate {
    int32_t id;
    float probability;
} llama_candidate;

typedef struct llama_sampler {
    float temperature; /* 0: greedy */
    float top_p;       /* the most probable tokens that hold this mass; 1: all */
    uint64_t state;
    llama_candidate *candidates; /* [vocab] */
    int64_t vocab;
} llama_sampler;

/* `seed` alone decides the random choices. NIB_INVALID: temperature negative or above 100, or top_p
 * not in (0, 1]. */
nib_status llama_sampler_create(double temperature, double top_p, uint64_t seed, int64_t vocab,
                                llama_sampler *out);
void llama_sampler_free(llama_sampler *sampler);

/* NIB_CORRUPT: a logit is NaN, or none is finite: the weights are broken. */
nib_status llama_sample(llama_sampler *sampler, const float *logits, int32_t *id);

#endif
