/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums over k of the oracle, for eight rows of act at a time. Plain loops in double: this is
 * the only hot code of the oracle, about a thousand million terms a second.
 */
#include "config/desc.h"
#include "ref/terms.h"

#include <math.h>

bool ref_wraps(const nib_gemm_desc *desc)
{
    /* Blocks of MX scales are too short to wrap, and end the integer sum. */
    return desc->acc_type == NIB_I32 && desc->act_scale != NIB_ACT_SCALE_MX;
}

static void sum_float(const ref_row *row, const ref_act *act, int64_t k, ref_sums *sums)
{
    double x[REF_LANES] = {0}, fold[REF_LANES] = {0}, size2[REF_LANES] = {0};
    for (int64_t i = 0; i < k; i++) {
        const double *a = act->value + i * REF_LANES;
        for (int l = 0; l < REF_LANES; l++) {
            x[l] += a[l] * row->w[i];
            fold[l] += a[l] * row->fold[i];
            size2[l] += a[l] * a[l] * row->size2[i];
        }
    }
    for (int l = 0; l < REF_LANES; l++)
        sums[l] = (ref_sums){.x = x[l], .fold = fold[l], .size2 = size2[l], .length = (double)k};
}

static void sum_reach(const nib_ref_problem *problem, const ref_row *row, const ref_act *act,
                      ref_sums *sums)
{
    for (int64_t i = 0; i < problem->desc->weight.k; i++) {
        double weight = row->code[i] * row->scale[ref_group(problem, i)];
        for (int l = 0; l < REF_LANES; l++) {
            double reach = act->reach[i * REF_LANES + l];
            sums[l].reach2 += reach * reach * row->reach2[i];
            sums[l].drift += act->value[i * REF_LANES + l] * weight;
        }
    }
}

int ref_weight_bits(const nib_gemm_desc *desc)
{
    if (desc->flags & NIB_GEMM_EXACT_WEIGHTS)
        return 0;
    return desc->act_type == NIB_F16 ? 11 : desc->act_type == NIB_BF16 ? 8 : 0;
}

/* A rounding's error is near uniform over half a unit in the last place to either side, at most
 * 2^-bits of the weight; f16 has subnormal numbers, whose unit is 2^-24. */
static void sum_rounding(const ref_row *row, const ref_act *act, int64_t k, int bits,
                         ref_sums *sums)
{
    double unit = ldexp(1, -bits), least = bits == 11 ? 0x1p-25 : 0;
    double largest = 0;
    for (int64_t i = 0; i < k; i++) {
        double most = fmax(fabs(row->w[i]) * unit, least);
        largest = fmax(largest, fabs(row->w[i]));
        for (int l = 0; l < REF_LANES; l++) {
            double a = act->value[i * REF_LANES + l];
            sums[l].round2 += a * a * (most * most / 3);
        }
    }
    for (int l = 0; l < REF_LANES; l++)
        sums[l].largest = largest;
}

static void sum_noise(const ref_row *row, const ref_act *act, int64_t k, ref_sums *sums)
{
    for (int64_t i = 0; i < k; i++)
        for (int l = 0; l < REF_LANES; l++)
            sums[l].noise2 += act->noise2[i * REF_LANES + l] * row->noise2[i];
}

/* Integer sums of one group, which may hold any k. A sum of int8 products has at most 2^63 / 2^15
 * terms without overflow of 64 bits, and k is far below that. */
static int32_t group_sum(const nib_ref_problem *problem, const ref_row *row, int64_t m, int64_t g)
{
    const nib_weight_desc *d = &problem->desc->weight;
    int64_t size = nib_desc_group_size(d), from = g * size, to = from + size;
    const int8_t *a = (const int8_t *)problem->act + m * problem->lda;
    int64_t sum = 0;
    if (problem->g_idx) {
        from = 0;
        to = d->k;
    }
    if (to > d->k)
        to = d->k;
    for (int64_t k = from; k < to; k++)
        if (!problem->g_idx || problem->g_idx[k] == g)
            sum += a[k] * (int64_t)row->code[k];
    return (int32_t)(uint32_t)(uint64_t)sum;
}

static ref_sums sum_wrapping(const nib_ref_problem *problem, const ref_row *row, int64_t m,
                             double act_scale)
{
    int64_t groups = nib_desc_groups(&problem->desc->weight);
    ref_sums sums = {.length = (double)groups};
    for (int64_t g = 0; g < groups; g++) {
        double term = group_sum(problem, row, m, g) * row->scale[g] * act_scale;
        sums.x += term;
        sums.size2 += term * term;
    }
    return sums;
}

void ref_sum(const nib_ref_problem *problem, const ref_row *row, const ref_act *act, int64_t m,
             int64_t rows, ref_sums sums[REF_LANES])
{
    if (ref_wraps(problem->desc)) {
        for (int lane = 0; lane < rows; lane++)
            sums[lane] = sum_wrapping(problem, row, m + lane, act->scale[lane]);
        return;
    }
    sum_float(row, act, problem->desc->weight.k, sums);
    if (ref_weight_bits(problem->desc))
        sum_rounding(row, act, problem->desc->weight.k, ref_weight_bits(problem->desc), sums);
    if (act->noise2)
        sum_noise(row, act, problem->desc->weight.k, sums);
    if (act->reach)
        sum_reach(problem, row, act, sums);
}
