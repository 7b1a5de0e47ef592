/* SPDX-License-Identifier: Apache-2.0
 *
 * From sums to results: out = cast(act(alpha * act_scale * x + bias)), in f32 with one cast at the
 * end. Each ISA's epilogue.c includes it, so that its loops are compiled for that ISA, and supplies
 * the cast.
 */
#ifndef NIB_CPU_EPILOGUE_H
#define NIB_CPU_EPILOGUE_H

#include "kernels/common/convert.h"
#include "kernels/kernel.h"

#include <math.h>

enum { NIB_CPU_STORE_COLUMNS = 64 };

/* Casts `count` floats to the elements `to`, of f16 or bf16, at any address. */
typedef void (*nib_cpu_cast_fn)(nib_type type, const float *from, int64_t count, void *to);

static inline float nib_cpu_gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

static inline float nib_cpu_silu(float x)
{
    return x / (1.0f + expf(-x));
}

/* y = alpha * act_scale * x + bias for columns n .. n + count - 1. */
static inline void nib_cpu_store_linear(const nib_cpu_store *store, const float *x, int64_t n,
                                        int64_t count, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * store->act_scale * store->alpha;
    if (!store->bias)
        return;
    if (store->bias_type == NIB_F32)
        for (int64_t i = 0; i < count; i++)
            y[i] += nib_cpu_f32_at(store->bias, n + i);
    else if (store->bias_type == NIB_F16)
        for (int64_t i = 0; i < count; i++)
            y[i] += nib_cpu_from_f16(nib_cpu_u16_at(store->bias, n + i));
    else
        for (int64_t i = 0; i < count; i++)
            y[i] += nib_cpu_from_bf16(nib_cpu_u16_at(store->bias, n + i));
}

static inline void nib_cpu_store_activate(nib_epilogue epilogue, int64_t count, float *y)
{
    if (epilogue == NIB_EPILOGUE_RELU)
        for (int64_t i = 0; i < count; i++)
            y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays */
    else if (epilogue == NIB_EPILOGUE_GELU)
        for (int64_t i = 0; i < count; i++)
            y[i] = nib_cpu_gelu(y[i]);
    else if (epilogue == NIB_EPILOGUE_SILU)
        for (int64_t i = 0; i < count; i++)
            y[i] = nib_cpu_silu(y[i]);
}

static inline void nib_cpu_store_columns(const nib_cpu_store *store, const float *x,
                                         const float *x2, int64_t n0, int64_t count,
                                         nib_cpu_cast_fn cast)
{
    float y[NIB_CPU_STORE_COLUMNS], y2[NIB_CPU_STORE_COLUMNS];
    int64_t bytes = store->out_type == NIB_F32 ? 4 : 2;
    for (int64_t i = 0; i < count; i += NIB_CPU_STORE_COLUMNS) {
        int64_t some = count - i < NIB_CPU_STORE_COLUMNS ? count - i : NIB_CPU_STORE_COLUMNS;
        unsigned char *out = (unsigned char *)store->out + (n0 + i) * bytes;
        nib_cpu_store_linear(store, x + i, n0 + i, some, y);
        if (x2) {
            nib_cpu_store_linear(store, x2 + i, store->gate + n0 + i, some, y2);
            for (int64_t j = 0; j < some; j++)
                y[j] = nib_cpu_silu(y[j]) * y2[j];
        } else {
            nib_cpu_store_activate(store->epilogue, some, y);
        }
        if (store->out_type == NIB_F32)
            memcpy(out, y, sizeof(float) * (size_t)some);
        else
            cast(store->out_type, y, some, out);
    }
}

#endif
