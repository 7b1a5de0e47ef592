/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention position by position. An f16 cache is widened to f32 once per layer and pass, because
 * several query heads and, in a prompt, many positions read the same keys. graph.c calls this.
 */
#include "attention.h"

#include "error.h"
#include "half.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
nib_status llama_cache_create(const llama_params *params, int64_t capacity, nib_type type,
                              llama_cache *cache)
{
    size_t elem_bytes = type == NIB_F16 ? 2 : 4;
    size_t position_bytes, layer_elems, total, wide = 0;
    int64_t width = params->kv_heads * params->head_dim;
    *cache = (llama_cache){.type = type, .capacity = capacity, .width = width};
    size_t score_elems = (size_t)capacity;
    if (__builtin_mul_overflow((size_t)width, (size_t)capacity, &layer_elems) ||
        __builtin_mul_overflow((size_t)params->layers, elem_bytes, &position_bytes) ||
        __builtin_mul_overflow(layer_elems, position_bytes, &total) || total > SIZE_MAX / 4)
        return llama_fail(NIB_INVALID, "a cache of %" PRId64 " positions does not fit in memory",
                          capacity);
    cache->keys = malloc(total);
    cache->values = malloc(total);
    cache->scores = malloc(score_elems * sizeof *cache->scores);
    if (type == NIB_F16) {
        wide = layer_elems * sizeof(float);
        cache->wide_keys = malloc(wide);
        cache->wide_values = malloc(wide);
    }
    if (!cache->keys || !cache->values || !cache->scores ||
        (wide && (!cache->wide_keys || !cache->wide_values)))
        return llama_fail(NIB_NO_MEMORY, "no memory for a cache of %" PRId64 " positions",
                          capacity);
    cache->bytes = 2 * (total + wide) + score_elems * sizeof *cache->scores;
    return NIB_OK;
}

void llama_cache_free(llama_cache *cache)
{
    free(cache->keys);
    free(cache->values);
    free(cache->scores);
    free(cache->wide_keys);
    free(cache->wide_values);
    *cache = (llama_cache){0};
}

void llama_rope_table(const llama_params *params, int64_t first, int64_t count, float *cosine,
                      float *sine)
{
    int64_t pairs = params->rope_dims / 2;
    for (int64_t i = 0; i < pairs; i++) {
        double frequency = pow(params->rope_base, -2.0 * (double)i / (double)params->rope_dims);
        for (int64_t t = 0; t < count; t++) {
            double angle = (double)(first + t) * params->rope_scale * frequency;
            cosine[t * pairs + i] = (float)cos(angle);
            sine[t * pairs + i] = (float)sin(angle);
        }
    }
}

void llama_rope(const llama_params *params, const float *cosine, const float *sine, int64_t count,
                int64_t heads, float *rows)
{
    int64_t pairs = params->rope_dims / 2;
    for (int64_t t = 0; t < count; t++)
        for (int64_t h = 0; h < heads; h++) {
            float *row = rows + (t * heads + h) * params->head_dim;
            for (int64_t i = 0; i < pairs; i++) {
                float c = cosine[t * pairs + i], s = sine[t * pairs + i];
                float x = row[2 * i], y = row[2 * i + 1];
                row[2 * i] = x * c - y * s;
                row[2 * i + 1] = x * s + y * c;
            }
        }
}

static void store(const llama_cache *cache, void *base, int64_t at, int64_t count,
                  const float *rows)
{
    if (cache->type == NIB_F32) {
        memcpy((float *)base + at, rows, (size_t)count * sizeof *rows);
        return;
    }
    uint16_t *to = (uint16_t *)base + at;
    for (int64_t i = 0; i < count; i++)
        to[i] = llama_half_from_float(rows[i]);
}

void llama_cache_store(llama_cache *cache, int64_t layer, int64_t first, int64_t count,
                       const float *keys, const float *values)
{
    int64_t at = (layer * cache->capacity + first) * cache->width;
    store(cache, cache->keys, at, count * cache->width, keys);
    store(cache, cache->values, at, count * cache->width, values);
}

/* The first `count` elements of a layer as f32: in the cache itself, or widened into `wide`. */
static const float *widen(const llama_cache *cache, const void *base, int64_t layer, int64_t count,
                          float *wide)
{
    int64_t at = layer * cache->capacity * cache->width;
    if (cache->type == NIB_F32)
        return (const float *)base + at;
    const uint16_t *from = (const uint16_t *)base + at;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        wide[i] = llama_half_to_float(from[i]);
    return wide;
}

static float dot(const float *a, const float *b, int64_t count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* One query head at one position: `length` keys and values, rows `stride` apart. */
static void attend_one(const float *query, const float *keys, const float *values, int64_t stride,
                       int64_t length, int64_t dim, float *scores, float *out)
{
    float scale = 1.0f / sqrtf((float)dim), most = -INFINITY, sum = 0;
    for (int64_t p = 0; p < length; p++) {
        scores[p] = dot(query, keys + p * stride, dim) * scale;
        most = fmaxf(most, scores[p]);
    }
    for (int64_t p = 0; p < length; p++) {
        scores[p] = expf(scores[p] - most);
        sum += scores[p];
    }
    for (int64_t i = 0; i < dim; i++)
        out[i] = 0;
    for (int64_t p = 0; p < length; p++) {
        float weight = scores[p] / sum;
        const float *value = values + p * stride;
#pragma omp simd
        for (int64_t i = 0; i < dim; i++)
            out[i] += weight * value[i];
    }
}

void llama_attend(const llama_params *params, llama_cache *cache, int64_t layer, int64_t first,
                  int64_t count, const float *queries, float *out)
{
    int64_t heads = params->heads, dim = params->head_dim, shared = heads / params->kv_heads;
    int64_t stored = (first + count) * cache->width;
    const float *keys = widen(cache, cache->keys, layer, stored, cache->wide_keys);
    const float *values = widen(cache, cache->values, layer, stored, cache->wide_values);
    for (int64_t i = 0; i < count * heads; i++) {
        int64_t t = i / heads, h = i % heads;
        int64_t kv = h / shared * dim;
        attend_one(queries + i * dim, keys + kv, values + kv, cache->width, first + t + 1, dim,
                   cache->scores, out + i * dim);
    }
}
