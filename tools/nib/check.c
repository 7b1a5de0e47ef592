/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of `nib gemm --check` and `nib bench`: the product in double, straight from the logical
 * operands, and a bound for each element. It shares nothing with the library but the decoding of
 * codes of at most 8 bits. The bound is looser than the tests' (docs/numerics.md), and finds what
 * is wrong rather than what is inexact.
 */
#include "product.h"

#include <math.h>
#include <stdlib.h>

/* A row of W, taken apart: weights, and the size of the parts a kernel may sum separately. */
typedef struct row_terms {
    double *w, *size;
} row_terms;

typedef struct element {
    double x, bound;
} element;

static uint32_t code_at(const tool_product *p, int64_t n, int64_t k)
{
    int bits = nib_type_bits(p->desc.weight.type);
    int64_t row_bytes = (p->desc.weight.k * bits + 7) / 8;
    const uint8_t *row = p->codes + n * row_bytes;
    int64_t bit = k * bits;
    uint32_t word = row[bit / 8];
    if (bit % 8 + bits > 8)
        word |= (uint32_t)row[bit / 8 + 1] << 8;
    return word >> bit % 8 & ((1u << bits) - 1);
}

static void fill_row(const tool_product *p, int64_t n, row_terms *row)
{
    const nib_weight_desc *d = &p->desc.weight;
    int bits = nib_type_bits(d->type);
    double half = d->type >= NIB_U1 && d->type <= NIB_I8 ? ldexp(1, bits - 1) : 0;
    int64_t group = d->group > 0 ? d->group : d->k;
    float values[256];
    for (uint32_t code = 0; code < 1u << bits; code++)
        values[code] = d->type == NIB_LUT4 ? p->table[code] : nib_type_decode(d->type, code);
    for (int64_t k = 0; k < d->k; k++) {
        int64_t g = p->g_idx ? p->g_idx[k] : k / group;
        int64_t at = d->group == NIB_GROUP_TENSOR ? 0 : n * p->groups + g;
        double c = (double)values[code_at(p, n, k)];
        double s = p->scales ? tool_load(d->scale_type, p->scales, at) : 1, z = 0;
        if (d->zero == NIB_ZERO_CODE)
            z = ((const uint8_t *)p->zeros)[at] * s;
        else if (d->zero)
            z = tool_load(d->zero_type, p->zeros, at) * (d->zero == NIB_ZERO_FLOAT ? s : 1);
        row->w[k] = c * s - z;
        row->size[k] = fabs(c * s) + fabs(z) + half * fabs(s);
    }
}

static double act_scale_at(const tool_product *p, int64_t m, int64_t k)
{
    switch (p->desc.act_scale) {
    case NIB_ACT_SCALE_TENSOR:
        return tool_load(NIB_F32, p->act_scale, 0);
    case NIB_ACT_SCALE_ROW:
        return tool_load(NIB_F32, p->act_scale, m);
    case NIB_ACT_SCALE_MX:
        return tool_load(NIB_E8M0, p->act_scale, m * ((p->desc.weight.k + 31) / 32) + k / 32);
    default:
        return 1;
    }
}

static void fill_act(const tool_product *p, int64_t m, double *act)
{
    for (int64_t k = 0; k < p->desc.weight.k; k++)
        act[k] =
            tool_load(p->desc.act_type, p->act, m * p->desc.weight.k + k) * act_scale_at(p, m, k);
}

/* The variance that rounding activations to i8 per 32 k adds: a step squared over 12 each. Columns
 * in act-order may meet in other blocks, so their steps come from the whole row. */
static double dynamic_noise(const tool_product *p, const double *act, const row_terms *row)
{
    int64_t k = p->desc.weight.k, block = p->g_idx ? k : 32;
    double noise = 0;
    for (int64_t from = 0; from < k; from += block) {
        int64_t to = from + block < k ? from + block : k;
        double largest = 0, squares = 0;
        for (int64_t i = from; i < to; i++) {
            largest = fmax(largest, fabs(act[i]));
            squares += row->size[i] * row->size[i];
        }
        noise += largest / 127 * largest / 127 / 12 * squares;
    }
    return noise;
}

static element dot(const tool_product *p, const double *act, const row_terms *row, int64_t n)
{
    int64_t k = p->desc.weight.k;
    double sum = 0, size = 0, squares = 0, alpha = (double)p->source.alpha;
    double unit = p->desc.acc_type == NIB_F16 ? 0x1p-11 : 0x1p-24, exact = 0;
    bool rounds = !(p->desc.flags & NIB_GEMM_EXACT_WEIGHTS);
    for (int64_t i = 0; i < k; i++) {
        sum += act[i] * row->w[i];
        size += fabs(act[i]) * row->size[i];
        exact += act[i] * act[i] * row->w[i] * row->w[i];
        squares += act[i] * act[i] * row->size[i] * row->size[i];
    }
    element e = {.x = alpha * sum, .bound = unit * size * (8 + 2 * sqrt((double)k))};
    if (p->desc.flags & NIB_GEMM_ACT_DYNAMIC_I8)
        e.bound += 8 * sqrt(dynamic_noise(p, act, row));
    if (rounds && (p->desc.act_type == NIB_F16 || p->desc.act_type == NIB_BF16)) /* weights */
        e.bound += 4 * (p->desc.act_type == NIB_F16 ? 0x1p-11 : 0x1p-8) * sqrt(exact);
    if (p->desc.act_type == NIB_E4M3 || p->desc.act_type == NIB_E5M2)
        e.bound += 32 * 0x1p-13 * (fabs(sum) + sqrt(squares)); /* tensor cores keep 14 bits */
    e.bound *= fabs(alpha);
    if (p->bias)
        e.x += tool_load(p->desc.bias_type, p->bias, n);
    e.bound += 4 * 0x1p-24 * fabs(e.x);
    return e;
}

static element epilogue(nib_epilogue kind, element a, element b)
{
    /* gelu and silu have slopes of at most 1.13. */
    element silu = {a.x / (1 + exp(-a.x)), 1.13 * a.bound};
    switch (kind) {
    case NIB_EPILOGUE_RELU:
        return (element){a.x > 0 ? a.x : 0, a.bound};
    case NIB_EPILOGUE_GELU:
        return (element){a.x * (1 + erf(a.x / sqrt(2))) / 2, 1.13 * a.bound + 0x1p-21 * fabs(a.x)};
    case NIB_EPILOGUE_SILU:
        return (element){silu.x, silu.bound + 0x1p-21 * fabs(a.x)};
    case NIB_EPILOGUE_SILU_GATED:
        return (element){silu.x * b.x, fabs(silu.x) * b.bound + fabs(b.x) * silu.bound +
                                           silu.bound * b.bound + 0x1p-21 * fabs(a.x * b.x)};
    default:
        return a;
    }
}

static void judge(const tool_product *p, const void *out, int64_t m, int64_t n, element e,
                  tool_check *check)
{
    static const double units[][2] = {{0x1p-24, 0}, {0x1p-11, 0x1p-25}, {0x1p-8, 0}};
    nib_type type = p->desc.out_type;
    double found = tool_load(type, out, m * p->out_cols + n), expected = e.x, bound = 0;
    if (type == NIB_I32)
        expected = (double)(int32_t)(uint32_t)(uint64_t)llrint(e.x);
    else
        bound = e.bound + units[type - NIB_F32][0] * fabs(e.x) + units[type - NIB_F32][1];
    /* A value beyond the type's largest may become infinite. */
    bool overflow = type == NIB_F16 && fabs(expected) + bound > 65504 && isinf(found) &&
                    (found > 0) == (expected > 0);
    double error = fabs(found - expected);
    double share = overflow || error == 0 ? 0 : bound > 0 ? error / bound : INFINITY;
    if (isnan(share))
        share = INFINITY;
    check->checked++;
    check->wrong += share > 1;
    if (share >= check->worst) {
        check->worst = share;
        check->expected = expected;
        check->found = found;
        check->bound = bound;
        check->row = m;
        check->col = n;
    }
}

tool_exit tool_product_check(const tool_product *p, int64_t m, const void *out, double budget,
                             tool_check *check)
{
    int64_t k = p->desc.weight.k, cols = p->out_cols;
    bool gated = p->desc.epilogue == NIB_EPILOGUE_SILU_GATED;
    *check = (tool_check){.outputs = m * cols};
    if (!check->outputs)
        return TOOL_OK;
    /* At most 64 rows of act are held as double; all columns if the budget allows, else every
     * stride-th, last one included. */
    int64_t rows = m < 64 ? m : 64;
    double wanted = budget / ((double)k * (double)rows);
    int64_t stride = (double)cols <= wanted ? 1 : (int64_t)((double)cols / wanted) + 1;
    double *memory = malloc((size_t)(rows + 4) * (size_t)k * sizeof(double));
    if (!memory)
        return tool_error(TOOL_NO_MEMORY, "no memory for the check");
    double *act = memory + 4 * k;
    row_terms first = {memory, memory + k}, second = {memory + 2 * k, memory + 3 * k};
    for (int64_t r = 0; r < rows; r++)
        fill_act(p, r * (m - 1) / (rows > 1 ? rows - 1 : 1), act + r * k);
    for (int64_t n = (cols - 1) % stride; n < cols; n += stride) {
        fill_row(p, n, &first);
        if (gated)
            fill_row(p, n + cols, &second);
        for (int64_t r = 0; r < rows; r++) {
            element a = dot(p, act + r * k, &first, n), b = {0, 0};
            if (gated)
                b = dot(p, act + r * k, &second, n + cols);
            judge(p, out, r * (m - 1) / (rows > 1 ? rows - 1 : 1), n,
                  epilogue(p->desc.epilogue, a, b), check);
        }
    }
    free(memory);
    return TOOL_OK;
}
