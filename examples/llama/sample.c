/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling. Ties go to the lower id, so that equal logits and seed give equal text.
 */
#include "sample.h"

#include "error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

nib_status llama_sampler_create(double temperature, double top_p, uint64_t seed, int64_t vocab,
                                llama_sampler *out)
{
    if (!(temperature >= 0 && temperature <= 100))
        return llama_fail(NIB_INVALID, "a temperature of %g; it must be within 0..100",
                          temperature);
    if (!(top_p > 0 && top_p <= 1))
        return llama_fail(NIB_INVALID, "a top-p of %g; it must be above 0 and at most 1", top_p);
    llama_candidate *candidates = malloc((size_t)vocab * sizeof *candidates);
    if (!candidates)
        return llama_fail(NIB_NO_MEMORY, "no memory for %" PRId64 " candidates", vocab);
    *out = (llama_sampler){(float)temperature, (float)top_p, seed, candidates, vocab};
    return NIB_OK;
}

void llama_sampler_free(llama_sampler *sampler)
{
    free(sampler->candidates);
    *sampler = (llama_sampler){0};
}

/* splitmix64, its top 53 bits: uniform in [0, 1). */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int by_probability(const void *a, const void *b)
{
    const llama_candidate *x = a, *y = b;
    if (x->probability != y->probability)
        return x->probability < y->probability ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static nib_status find_largest(const float *logits, int64_t count, int32_t *id)
{
    int64_t best = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i]))
            return llama_fail(NIB_CORRUPT,
                              "the logit of token %" PRId64 " is not a number; are the "
                              "weights broken?",
                              i);
        if (logits[i] > logits[best])
            best = i;
    }
    if (!isfinite(logits[best]))
        return llama_fail(NIB_CORRUPT, "the largest logit is infinite; are the weights broken?");
    *id = (int32_t)best;
    return NIB_OK;
}

/* Leaves the nucleus, sorted, in sampler->candidates; returns its count and its mass. */
static int64_t nucleus(llama_sampler *sampler, const float *logits, float most, double *mass)
{
    double sum = 0;
    for (int64_t i = 0; i < sampler->vocab; i++)
        sum += exp((double)(logits[i] - most) / sampler->temperature);
    /* Tokens less probable than this cannot be in the nucleus: all of them together would hold less
     * than 1 - top_p. Few remain to be sorted. */
    double least = (1.0 - (double)sampler->top_p) / (double)sampler->vocab;
    int64_t count = 0;
    for (int64_t i = 0; i < sampler->vocab; i++) {
        double p = exp((double)(logits[i] - most) / sampler->temperature) / sum;
        if (p >= least)
            sampler->candidates[count++] = (llama_candidate){(int32_t)i, (float)p};
    }
    qsort(sampler->candidates, (size_t)count, sizeof *sampler->candidates, by_probability);
    int64_t kept = 0;
    *mass = 0;
    while (kept < count && (kept == 0 || *mass < (double)sampler->top_p))
        *mass += (double)sampler->candidates[kept++].probability;
    return kept;
}

nib_status llama_sample(llama_sampler *sampler, const float *logits, int32_t *id)
{
    int32_t largest = 0;
    nib_status status = find_largest(logits, sampler->vocab, &largest);
    if (status != NIB_OK)
        return status;
    if (sampler->temperature == 0) {
        *id = largest;
        return NIB_OK;
    }
    double mass;
    int64_t count = nucleus(sampler, logits, logits[largest], &mass);
    double left = uniform(&sampler->state) * mass;
    int64_t i = 0;
    while (i + 1 < count && (left -= (double)sampler->candidates[i].probability) >= 0)
        i++;
    *id = sampler->candidates[i].id;
    return NIB_OK;
}
