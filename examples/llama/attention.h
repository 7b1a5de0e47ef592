/* SPDX-License-Identifier: Apache-2.0
 *
 * The key-value cache, rotary positions and causal attention. All of it is plain f32 arithmetic on
 * the host; only the cache is f16 (or f32 for comparisons).
 */
#ifndef LLAMA_ATTENTION_H
#define LLAMA_ATTENTION_H

#include "params.h"

typedef struct llama_cache {
    nib_type type;    /* NIB_F16 or NIB_F32 */
    int64_t capacity; /* positions */
    int64_t width;    /* kv_heads * head_dim */
    void *keys;       /* [layers][capacity][width] */
    void *values;
    float *wide_keys, *wide_values; /* one layer as f32, [capacity][width], when type is f16 */
    float *scores;                  /* [capacity] */
    uint64_t bytes;                 /* of all of the above */
} llama_cache;

/* `cache` must be zero; free it after a failure too. */
nib_status llama_cache_create(const llama_params *params, int64_t capacity, nib_type type,
                              llama_cache *cache);
void llama_cache_free(llama_cache *cache);

/* Cosines and sines of positions first..first+count: [count][rope_dims / 2] each. */
void llama_rope_table(const llama_params *params, int64_t first, int64_t count, float *cosine,
                      float *sine);
/* Rotates rows [count][heads][head_dim] in place. */
void llama_rope(const llama_params *params, const float *cosine, const float *sine, int64_t count,
                int64_t heads, float *rows);

/* Stores keys and values [count][width] of positions first..first+count of a layer. */
void llama_cache_store(llama_cache *cache, int64_t layer, int64_t first, int64_t count,
                       const float *keys, const float *values);

/* out[count][heads][head_dim]: attention of the queries of positions first..first+count over all
 * positions up to each. The layer's keys and values up to first + count must be stored. */
void llama_attend(const llama_params *params, llama_cache *cache, int64_t layer, int64_t first,
                  int64_t count, const float *queries, float *out);

#endif
