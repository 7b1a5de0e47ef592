/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the oracle as double: rows of W from codes, scales and zeros, and rows of act with
 * their scales. The definition of a weight stands here once.
 */
#include "base/checked.h"
#include "base/status.h"
#include "config/desc.h"
#include "config/dtype.h"
#include "ref/terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32 }; /* k per scale of MX activations and of dynamic i8 */

int64_t ref_group(const nib_ref_problem *problem, int64_t k)
{
    return problem->g_idx ? problem->g_idx[k] : k / nib_desc_group_size(&problem->desc->weight);
}

static const float *code_values(const nib_ref_problem *problem)
{
    nib_type type = problem->desc->weight.type;
    return type == NIB_LUT4 ? problem->table : nib_dtype_table(type);
}

static uint32_t code_mask(nib_type type)
{
    return (1u << nib_type_bits(type)) - 1;
}

static int64_t scale_index(const nib_weight_desc *d, int64_t n, int64_t group)
{
    return d->group == NIB_GROUP_TENSOR ? 0 : n * nib_desc_groups(d) + group;
}

static double scale_value(const nib_ref_problem *problem, int64_t n, int64_t group)
{
    const nib_weight_desc *d = &problem->desc->weight;
    if (!d->scale_type)
        return 1;
    return nib_dtype_load(d->scale_type, problem->scales, scale_index(d, n, group));
}

static double zero_value(const nib_ref_problem *problem, int64_t n, int64_t group)
{
    const nib_weight_desc *d = &problem->desc->weight;
    int64_t index = scale_index(d, n, group);
    if (d->zero == NIB_ZERO_NONE)
        return 0;
    if (d->zero == NIB_ZERO_CODE)
        return ((const uint8_t *)problem->zeros)[index] & code_mask(d->type);
    return nib_dtype_load(d->zero_type, problem->zeros, index);
}

static double combine(nib_zero mode, double c, double s, double z)
{
    switch (mode) {
    case NIB_ZERO_FLOAT:
    case NIB_ZERO_CODE:
        return (c - z) * s;
    case NIB_ZERO_RESCALE:
        return c * s - z;
    default:
        return c * s;
    }
}

double nib_ref_weight(const nib_ref_problem *problem, int64_t n, int64_t k)
{
    const nib_weight_desc *d = &problem->desc->weight;
    int64_t group = ref_group(problem, k);
    double c = code_values(problem)[problem->codes[n * d->k + k] & code_mask(d->type)];
    return combine(d->zero, c, scale_value(problem, n, group), zero_value(problem, n, group));
}

/* The least normal number of an 8-bit float: tensor cores align operands by their exponent's field,
 * which a smaller number has too. 0 for other types. */
static double least_normal(nib_type type)
{
    return type == NIB_E4M3 ? 0x1p-6 : type == NIB_E5M2 ? 0x1p-14 : 0;
}

bool ref_coarse(const nib_gemm_desc *desc)
{
    if (desc->acc_type != NIB_F32 || (desc->act_type != NIB_E4M3 && desc->act_type != NIB_E5M2))
        return false;
    switch (desc->weight.type) {
    case NIB_E2M1:
    case NIB_E3M2:
    case NIB_E2M3:
    case NIB_E4M3:
    case NIB_E5M2:
        return true;
    default: /* e4m3 has the integers from -16 to 16 */
        return (desc->weight.type >= NIB_U1 && desc->weight.type <= NIB_U4) ||
               (desc->weight.type >= NIB_I1 && desc->weight.type <= NIB_I5);
    }
}

nib_status ref_row_create(const nib_gemm_desc *desc, ref_row *row)
{
    size_t k = (size_t)desc->weight.k, groups = (size_t)nib_desc_groups(&desc->weight);
    /* desc->weight was checked, so these sizes fit. */
    double *memory = malloc((6 * k + 2 * groups) * sizeof(double));
    if (!memory)
        return nib_fail(NIB_NO_MEMORY, "no memory for a row of %zu weights", k);
    *row = (ref_row){.w = memory,
                     .fold = memory + k,
                     .size2 = memory + 2 * k,
                     .noise2 = memory + 3 * k,
                     .code = memory + 4 * k,
                     .reach2 = memory + 5 * k,
                     .scale = memory + 6 * k,
                     .zero = memory + 6 * k + groups};
    return NIB_OK;
}

void ref_row_destroy(ref_row *row)
{
    free(row->w);
}

static void note(double value, bool *nan, bool *inf)
{
    *nan |= isnan(value) != 0;
    *inf |= isinf(value) != 0;
}

void ref_row_fill(const nib_ref_problem *problem, int64_t n, ref_row *row)
{
    const nib_weight_desc *d = &problem->desc->weight;
    /* A kernel may keep integer codes offset by half their range and subtract that later. */
    double half = nib_dtype_is_integer(d->type) ? ldexp(1, nib_type_bits(d->type) - 1) : 0;
    const float *values = code_values(problem);
    const uint8_t *codes = problem->codes + n * d->k;
    uint32_t mask = code_mask(d->type);
    row->nan = row->inf = false;
    for (int64_t g = 0; g < nib_desc_groups(d); g++) {
        row->scale[g] = scale_value(problem, n, g);
        row->zero[g] = zero_value(problem, n, g);
    }
    for (int64_t k = 0; k < d->k; k++) {
        int64_t g = ref_group(problem, k);
        double c = values[codes[k] & mask], s = row->scale[g], z = row->zero[g];
        double size = fabs(c * s);
        double fold = (d->zero == NIB_ZERO_RESCALE ? fabs(z) : fabs(z * s)) + half * fabs(s);
        note(s, &row->nan, &row->inf);
        note(z, &row->nan, &row->inf);
        note(c, &row->nan, &row->inf);
        row->code[k] = c;
        row->w[k] = combine(d->zero, c, s, z);
        row->fold[k] = fold;
        row->size2[k] = (size + fold) * (size + fold);
        row->noise2[k] = fmax(row->w[k] * row->w[k], size * size);
        double reach = (c != 0 ? fmax(fabs(c), least_normal(d->type)) : 0) * fabs(s);
        row->reach2[k] = fmax(row->w[k] * row->w[k], reach * reach);
    }
}

nib_status ref_act_create(const nib_gemm_desc *desc, ref_act *act)
{
    size_t cells = (size_t)desc->weight.k * REF_LANES;
    bool dynamic = desc->flags & NIB_GEMM_ACT_DYNAMIC_I8;
    bool extra = dynamic || ref_coarse(desc); /* never both: the types differ */
    double *memory = malloc(cells * sizeof(double) * (extra ? 2 : 1));
    if (!memory)
        return nib_fail(NIB_NO_MEMORY, "no memory for %d rows of activations", REF_LANES);
    *act = (ref_act){.value = memory,
                     .noise2 = dynamic ? memory + cells : NULL,
                     .reach = extra && !dynamic ? memory + cells : NULL};
    return NIB_OK;
}

void ref_act_destroy(ref_act *act)
{
    free(act->value);
}

static double act_scale(const nib_ref_problem *problem, int64_t m, int64_t k)
{
    switch (problem->desc->act_scale) {
    case NIB_ACT_SCALE_TENSOR:
        return nib_dtype_load(NIB_F32, problem->act_scale, 0);
    case NIB_ACT_SCALE_ROW:
        return nib_dtype_load(NIB_F32, problem->act_scale, m);
    case NIB_ACT_SCALE_MX:
        return nib_dtype_load(NIB_E8M0, problem->act_scale,
                              m * nib_ceil_div(problem->desc->weight.k, BLOCK) + k / BLOCK);
    default:
        return 1;
    }
}

/* Variance of rounding to i8 with one scale per block: a step squared over 12. Kernels of permuted
 * columns (g_idx) form other blocks, so the largest of the row counts there. */
static void fill_noise(const nib_ref_problem *problem, int lane, ref_act *act)
{
    int64_t k = problem->desc->weight.k, block = problem->g_idx ? k : BLOCK;
    for (int64_t from = 0; from < k; from += block) {
        int64_t to = from + block < k ? from + block : k;
        double largest = 0;
        for (int64_t i = from; i < to; i++)
            largest = fmax(largest, fabs(act->value[i * REF_LANES + lane]));
        double step = largest / 127;
        for (int64_t i = from; i < to; i++)
            act->noise2[i * REF_LANES + lane] = step * step / 12;
    }
}

void ref_act_fill(const nib_ref_problem *problem, int64_t m, int64_t rows, ref_act *act)
{
    int64_t k = problem->desc->weight.k;
    size_t cells = (size_t)k * REF_LANES;
    memset(act->value, 0, cells * sizeof(double));
    if (act->noise2)
        memset(act->noise2, 0, cells * sizeof(double));
    if (act->reach)
        memset(act->reach, 0, cells * sizeof(double));
    for (int lane = 0; lane < REF_LANES; lane++)
        act->nan[lane] = act->inf[lane] = false;
    for (int lane = 0; lane < rows; lane++) {
        act->scale[lane] = act_scale(problem, m + lane, 0);
        for (int64_t i = 0; i < k; i++) {
            double a = nib_dtype_load(problem->desc->act_type, problem->act,
                                      (m + lane) * problem->lda + i);
            double s = act_scale(problem, m + lane, i);
            note(a, &act->nan[lane], &act->inf[lane]);
            note(s, &act->nan[lane], &act->inf[lane]);
            act->value[i * REF_LANES + lane] = a * s;
            if (act->reach && a != 0)
                act->reach[i * REF_LANES + lane] =
                    fmax(fabs(a), least_normal(problem->desc->act_type)) * fabs(s);
        }
        if (act->noise2)
            fill_noise(problem, lane, act);
    }
}
