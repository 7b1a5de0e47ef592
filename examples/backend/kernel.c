/* SPDX-License-Identifier: Apache-2.0
 *
 * The tutorial backend's kernel: three loops. Codes come one a byte and scales row by row, because
 * backend.c asked for these layouts; the library has packed them so.
 */
#include "kernel.h"

#include <math.h>
#include <string.h>

const char *example_refusal(const nib_gemm_desc *desc)
{
    if (desc->act_type != NIB_F32 || desc->out_type != NIB_F32)
        return "it takes and gives f32 only";
    if (desc->act_scale != NIB_ACT_SCALE_NONE)
        return "it does not scale activations";
    if (desc->bias_type && desc->bias_type != NIB_F32)
        return "it adds a bias in f32 only";
    if (desc->epilogue != NIB_EPILOGUE_NONE && desc->epilogue != NIB_EPILOGUE_RELU)
        return "its only epilogue is relu";
    return NULL;
}

/* Element of an array of f32, f16, bf16 or a type of 8 bits. */
static float load(nib_type type, const float *bytes_table, const void *array, int64_t index)
{
    float value;
    if (type == NIB_F32)
        return ((const float *)array)[index];
    if (bytes_table)
        return bytes_table[((const uint8_t *)array)[index]];
    uint16_t bits = ((const uint16_t *)array)[index];
    if (type == NIB_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        memcpy(&value, &wide, sizeof(value));
        return value;
    }
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    value = exponent == 0    ? ldexpf((float)mantissa, -24)
            : exponent == 31 ? (mantissa ? NAN : INFINITY)
                             : ldexpf((float)(mantissa + 1024), exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* w[n, k], as nibblas.h defines the four zero modes. */
static float weight(const example_kernel *kernel, const nib_packed *w, int64_t n, int64_t k)
{
    const nib_weight_desc *d = &kernel->desc.weight;
    int64_t group = w->g_idx ? w->g_idx[k] : k / kernel->group;
    int64_t at = kernel->groups ? n * kernel->groups + group : 0;
    uint8_t code = ((const uint8_t *)w->codes[0])[n * d->k + k];
    float c = w->table ? w->table[code] : kernel->values[code];
    float s = w->scales ? load(d->scale_type, kernel->scale_values, w->scales, at) : 1;
    switch (d->zero) {
    case NIB_ZERO_FLOAT:
        return (c - load(d->zero_type, NULL, w->zeros, at)) * s;
    case NIB_ZERO_RESCALE:
        return c * s - load(d->zero_type, NULL, w->zeros, at);
    case NIB_ZERO_CODE:
        return (c - (float)((const uint8_t *)w->zeros)[at]) * s;
    default:
        return c * s;
    }
}

void example_run(const example_kernel *kernel, const nib_packed *w, const nib_gemm_args *args)
{
    const nib_weight_desc *d = &kernel->desc.weight;
    for (int64_t m = 0; m < args->m; m++) {
        const float *act = (const float *)args->act + m * args->lda;
        float *out = (float *)args->out + m * args->ldo;
        for (int64_t n = 0; n < d->n; n++) {
            /* A sum in double is far inside every bound of docs/numerics.md. */
            double sum = 0;
            for (int64_t k = 0; k < d->k; k++)
                sum += (double)act[k] * (double)weight(kernel, w, n, k);
            float x = (float)(sum * (double)w->alpha);
            if (args->bias)
                x += ((const float *)args->bias)[n];
            out[n] = kernel->desc.epilogue == NIB_EPILOGUE_RELU && x < 0 ? 0 : x;
        }
    }
}
