/* SPDX-License-Identifier: Apache-2.0
 *
 * Random operands. The same line and seed give the same product on every machine. Values are finite
 * and of ordinary size: what breaks kernels is for the tests, this is for measuring.
 */
#include "product.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(next(state) >> 11) * 0x1p-53;
}

/* Bits of x in a binary float of 16 bits, ties to even; x is far from overflow. */
static uint32_t float_bits(double x, int mantissa, int least_exponent)
{
    if (x == 0)
        return 0;
    int exponent = ilogb(x);
    if (exponent < least_exponent)
        exponent = least_exponent;
    /* The leading one of the quotient adds one to the exponent field, also when rounding carries.
     */
    uint32_t quotient = (uint32_t)nearbyint(ldexp(fabs(x), mantissa - exponent));
    uint32_t bits = ((uint32_t)(exponent - least_exponent) << mantissa) + quotient;
    return bits | (signbit(x) ? 0x8000u : 0);
}

static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 1023;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                    : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

double tool_load(nib_type type, const void *array, int64_t index)
{
    float real;
    int32_t integer;
    switch (type) {
    case NIB_F32:
        return ((const float *)array)[index];
    case NIB_F16:
        return half_value(((const uint16_t *)array)[index]);
    case NIB_BF16:
        integer = (int32_t)((uint32_t)((const uint16_t *)array)[index] << 16);
        memcpy(&real, &integer, sizeof(real));
        return real;
    case NIB_I32:
        return ((const int32_t *)array)[index];
    default:
        return (double)nib_type_decode(type, ((const uint8_t *)array)[index]);
    }
}

/* Fills with values in [low, high]; a type of 8 bits takes evenly from its codes there. */
static void fill(nib_type type, void *array, int64_t count, double low, double high,
                 uint64_t *state)
{
    uint8_t codes[256];
    int candidates = 0;
    if (nib_type_bits(type) == 8)
        for (int code = 0; code < 256; code++) {
            float value = nib_type_decode(type, (uint32_t)code);
            if ((double)value >= low && (double)value <= high)
                codes[candidates++] = (uint8_t)code;
        }
    for (int64_t i = 0; i < count; i++) {
        if (candidates)
            ((uint8_t *)array)[i] = codes[next(state) % (uint64_t)candidates];
        else if (type == NIB_F32)
            ((float *)array)[i] = (float)uniform(state, low, high);
        else if (type == NIB_F16)
            ((uint16_t *)array)[i] = (uint16_t)float_bits(uniform(state, low, high), 10, -14);
        else
            ((uint16_t *)array)[i] = (uint16_t)float_bits(uniform(state, low, high), 7, -126);
    }
}

/* Any bits are codes, but for types with codes that are not finite, and behind the row's end. */
static void fill_codes(const nib_weight_desc *desc, uint8_t *codes, size_t bytes, uint64_t *state)
{
    if (desc->type == NIB_E4M3 || desc->type == NIB_E5M2) {
        fill(desc->type, codes, (int64_t)bytes, -16, 16, state);
        return;
    }
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = next(state);
        memcpy(codes + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
    size_t row_bytes = bytes / (size_t)desc->n;
    int64_t tail = desc->k % 8 * nib_type_bits(desc->type) % 8;
    if (tail)
        for (int64_t n = 0; n < desc->n; n++)
            codes[(size_t)(n + 1) * row_bytes - 1] &= (uint8_t)((1 << tail) - 1);
}

static void fill_weights(tool_product *p, size_t codes_bytes, int64_t scale_count, uint64_t *state)
{
    const nib_weight_desc *w = &p->desc.weight;
    double middle = ldexp(1, nib_type_bits(w->type) - 1);
    fill_codes(w, p->codes, codes_bytes, state);
    if (p->scales)
        fill(w->scale_type, p->scales, scale_count, 1.0 / 64, 1.0 / 8, state);
    if (w->zero == NIB_ZERO_FLOAT)
        fill(w->zero_type, p->zeros, scale_count, 0.5 * middle, 1.5 * middle, state);
    else if (w->zero == NIB_ZERO_RESCALE)
        fill(w->zero_type, p->zeros, scale_count, -1, 1, state);
    else if (w->zero == NIB_ZERO_CODE)
        for (int64_t i = 0; i < scale_count; i++)
            ((uint8_t *)p->zeros)[i] = (uint8_t)(next(state) % (uint64_t)(2 * middle));
    for (int64_t k = 0; p->g_idx && k < w->k; k++)
        p->g_idx[k] = (int32_t)(next(state) % (uint64_t)p->groups);
    for (int i = 0; p->table && i < 16; i++)
        p->table[i] = (float)uniform(state, -1, 1);
}

static bool allocate(void **out, size_t bytes)
{
    *out = bytes ? calloc(1, bytes) : NULL;
    return *out || !bytes;
}

/* rows * columns elements of whole bytes. False: no array is that large. */
static bool array_bytes(int64_t rows, int64_t columns, nib_type type, size_t *bytes)
{
    size_t unit = (size_t)(nib_type_bits(type) + 7) / 8;
    return !__builtin_mul_overflow((size_t)rows, (size_t)columns, bytes) &&
           !__builtin_mul_overflow(*bytes, unit, bytes) && *bytes <= PTRDIFF_MAX;
}

/* The sizes and counts of everything beside the weights. */
static tool_exit size_arrays(tool_product *p, int64_t *act_scales, nib_type act_scale_type)
{
    const nib_gemm_desc *desc = &p->desc;
    int64_t rows = 0, columns = 1;
    if (desc->act_scale == NIB_ACT_SCALE_TENSOR)
        rows = 1;
    else if (desc->act_scale)
        rows = p->m;
    if (desc->act_scale == NIB_ACT_SCALE_MX)
        columns = (desc->weight.k - 1) / 32 + 1;
    if (!array_bytes(p->m, desc->weight.k, desc->act_type, &p->act_bytes) ||
        !array_bytes(p->m, p->out_cols, desc->out_type, &p->out_bytes) ||
        !array_bytes(rows, columns, act_scale_type, &p->act_scale_bytes) ||
        !array_bytes(desc->bias_type ? desc->weight.n : 0, 1, desc->bias_type, &p->bias_bytes))
        return tool_error(TOOL_USAGE,
                          "m is %" PRId64
                          ": the activations [m, k] or the output [m, n] would have "
                          "more bytes than an address can count",
                          p->m);
    *act_scales = rows * columns;
    return TOOL_OK;
}

tool_exit tool_product_create(const nib_gemm_desc *desc, int64_t m, uint64_t seed,
                              tool_product *out)
{
    tool_product p = {.desc = *desc, .m = m};
    const nib_weight_desc *w = &p.desc.weight;
    size_t codes, scales, zeros;
    uint64_t state = seed;
    nib_status status = nib_weight_desc_bytes(w, &codes, &scales, &zeros, &p.groups);
    if (status)
        return tool_fail(status);
    bool gated = desc->epilogue == NIB_EPILOGUE_SILU_GATED;
    p.out_cols = gated ? w->n / 2 : w->n;
    int64_t act_scales = 0;
    nib_type act_scale_type = desc->act_scale == NIB_ACT_SCALE_MX ? NIB_E8M0 : NIB_F32;
    tool_exit code = size_arrays(&p, &act_scales, act_scale_type);
    if (code)
        return code;
    if (!allocate((void **)&p.codes, codes) || !allocate(&p.scales, scales) ||
        !allocate(&p.zeros, zeros) || !allocate(&p.act, p.act_bytes) ||
        !allocate(&p.bias, p.bias_bytes) || !allocate(&p.act_scale, p.act_scale_bytes) ||
        !allocate((void **)&p.g_idx, w->flags & NIB_WEIGHT_G_IDX ? (size_t)w->k * 4 : 0) ||
        !allocate((void **)&p.table, w->type == NIB_LUT4 ? 16 * sizeof(float) : 0)) {
        tool_product_destroy(&p);
        return tool_error(TOOL_NO_MEMORY, "no memory for the operands of this product");
    }
    fill_weights(&p, codes, w->group == NIB_GROUP_TENSOR ? 1 : w->n * p.groups, &state);
    fill(desc->act_type, p.act, m * w->k, desc->act_type == NIB_I8 ? -127 : -1,
         desc->act_type == NIB_I8 ? 127 : 1, &state);
    fill(act_scale_type, p.act_scale, act_scales, 0.5, 2, &state);
    fill(desc->bias_type, p.bias, desc->bias_type ? w->n : 0, -1, 1, &state);
    p.source = (nib_weight_source){.size = sizeof(p.source),
                                   .codes = p.codes,
                                   .scales = p.scales,
                                   .zeros = p.zeros,
                                   .g_idx = p.g_idx,
                                   .table = p.table,
                                   .alpha = desc->out_type == NIB_I32 ? 1.0f : 1.25f,
                                   .codes_bytes = codes,
                                   .scales_bytes = scales,
                                   .zeros_bytes = zeros};
    *out = p;
    return TOOL_OK;
}

tool_exit tool_product_widen(tool_product *p, nib_type from, uint64_t seed)
{
    uint64_t state = ~seed;
    int64_t k = p->desc.weight.k;
    if (nib_type_bits(p->desc.act_type) != 8 ||
        (p->desc.act_scale != NIB_ACT_SCALE_ROW && p->desc.act_scale != NIB_ACT_SCALE_TENSOR))
        return tool_error(TOOL_USAGE,
                          "activations are rounded to i8, e4m3 or e5m2 with a scale a row "
                          "or a tensor: a=e4m3 as=row, for instance");
    if (from != NIB_F32 && from != NIB_F16 && from != NIB_BF16)
        return tool_error(TOOL_USAGE, "activations are rounded from f32, f16 or bf16, not %s",
                          nib_type_name(from));
    if (!array_bytes(p->m, k, from, &p->wide_bytes) || !allocate(&p->wide, p->wide_bytes))
        return tool_error(TOOL_NO_MEMORY, "no memory for activations of %s", nib_type_name(from));
    fill(from, p->wide, p->m * k, -1, 1, &state);
    p->act_from = from;
    return TOOL_OK;
}

void tool_product_destroy(tool_product *p)
{
    free(p->wide);
    free(p->codes);
    free(p->scales);
    free(p->zeros);
    free(p->g_idx);
    free(p->table);
    free(p->act);
    free(p->bias);
    free(p->act_scale);
    *p = (tool_product){0};
}
