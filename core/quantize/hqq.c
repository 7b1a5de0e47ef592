/* SPDX-License-Identifier: Apache-2.0
 *
 * Half-quadratic quantisation (Badri and Shaji 2023, "Half-Quadratic Quantization of Large Machine
 * Learning Models"), axis 1. Each iteration rounds, splits the residual of every weight by the
 * proximal operator of |x|^p into an outlier part e and the rest, and fits the map to w - e. Unlike
 * the original the scale is fitted along with the zero, residuals are measured in steps, so that
 * beta does not depend on the size of weights, and the map kept is the one of least squared error
 * among all iterates: an l_p optimum alone may lose squared error.
 */
#include "quantize/quantize.h"

#include <math.h>

static const double exponent_p = 0.7, first_beta = 10, growth = 1.01;
enum { patience = 2 }; /* iterations without a gain before giving up */

typedef struct sums {
    double value, value2, target, product; /* of codes' values v and targets t = x - e, in steps */
    double error2;                         /* of all of the residual */
} sums;

typedef struct sum_pass {
    const nib_grid *grid;
    const nib_affine *map;
    const float *power;
    float beta;
    float threshold; /* residuals up to here are no outliers: e = 0 */
} sum_pass;

void nib_hqq_tabulate(float *power)
{
    for (int i = 0; i <= NIB_HQQ_POWERS; i++)
        power[i] = powf((float)(i ? i : 1) / NIB_HQQ_POWERS, (float)exponent_p - 1);
}

/* |x|^(p-1): residuals beyond one step are rare, the others take a table. */
static float power_of(const float *table, float magnitude)
{
    if (magnitude >= 1)
        return powf(magnitude, (float)exponent_p - 1);
    float place = magnitude * NIB_HQQ_POWERS;
    int32_t i = (int32_t)place;
    return table[i] + (table[i + 1] - table[i]) * (place - (float)i);
}

/* Shrinks: |x| - |x|^(p-1) / beta, if that is positive. */
static float outlier(float residual, const sum_pass *pass)
{
    float magnitude = fabsf(residual);
    if (magnitude <= pass->threshold)
        return 0;
    return copysignf(magnitude - power_of(pass->power, magnitude) / pass->beta, residual);
}

static void add_sums(const void *ctx, const nib_region *part, void *partial)
{
    const sum_pass *pass = ctx;
    const nib_affine *map = pass->map;
    uint8_t codes[NIB_QUANTIZE_CHUNK];
    sums s = {0};
    double per_step = 1 / map->step;
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t first = 0; first < part->cols; first += NIB_QUANTIZE_CHUNK) {
            int64_t left = part->cols - first;
            int32_t count = left < NIB_QUANTIZE_CHUNK ? (int32_t)left : NIB_QUANTIZE_CHUNK;
            const float *w = part->w + r * part->ldw + first;
            nib_grid_encode(pass->grid, w, count, map, codes);
            for (int32_t i = 0; i < count; i++) {
                double value = pass->grid->value[codes[i]];
                double residual = ((double)w[i] - map->offset) * per_step - value;
                double target = value + residual - outlier((float)residual, pass);
                s.value += value;
                s.value2 += value * value;
                s.target += target;
                s.product += value * target;
                s.error2 += residual * residual;
            }
        }
    *(sums *)partial = s;
}

static sums sum_region(const nib_job *job, const nib_region *region, const nib_affine *map,
                       double beta)
{
    sums part[NIB_QUANTIZE_PARTS];
    sum_pass pass = {&job->grid, map, job->power, (float)beta,
                     (float)pow(beta, -1 / (2 - exponent_p))};
    int32_t parts = nib_region_reduce(region, job->threads, add_sums, &pass, part, sizeof(part[0]));
    for (int32_t i = 1; i < parts; i++) {
        part[0].value += part[i].value;
        part[0].value2 += part[i].value2;
        part[0].target += part[i].target;
        part[0].product += part[i].product;
        part[0].error2 += part[i].error2;
    }
    return part[0];
}

/* The map that fits the targets best for the codes as they are, rounded. False: there is none. */
static bool next_map(const nib_job *job, const sums *s, double count, nib_affine *map)
{
    const nib_weight_desc *d = &job->desc;
    double mean_value = s->value / count, mean_target = s->target / count;
    double slope, zero = 0;
    if (d->zero == NIB_ZERO_NONE) {
        slope = s->product / s->value2;
    } else {
        slope = (s->product - count * mean_value * mean_target) /
                (s->value2 - count * mean_value * mean_value);
    }
    if (d->zero == NIB_ZERO_CODE) {
        /* The zero is a whole number: round it first, then fit the scale again. */
        double offset = map->step * (mean_target - slope * mean_value) + map->offset;
        zero = nib_zero_round(d, -offset / (map->step * slope));
        double moved = s->value2 - 2 * zero * s->value + count * zero * zero;
        /* targets as weights over the step: t - old zero */
        slope = (s->product - zero * s->target - map->zero * (s->value - count * zero)) / moved;
    }
    double scale = map->step * slope / job->alpha;
    if (!isfinite(scale) || scale == 0 || (scale < 0 && d->scale_type == NIB_E8M0))
        return false;
    scale = nib_scale_round(d->scale_type, scale);
    double mean_weight = (map->step * mean_target + map->offset) / job->alpha;
    if (d->zero == NIB_ZERO_FLOAT)
        zero = nib_zero_round(d, mean_value - mean_weight / scale);
    else if (d->zero == NIB_ZERO_RESCALE)
        zero = nib_zero_round(d, mean_value * scale - mean_weight);
    nib_affine next = nib_affine_of(d, job->alpha, scale, zero);
    bool moves = next.scale != map->scale || next.zero != map->zero;
    *map = next;
    return moves;
}

void nib_hqq_refine(const nib_job *job, const nib_region *region, nib_affine *map)
{
    if (map->step == 0)
        return;
    double count = (double)region->rows * (double)region->cols;
    double beta = first_beta, least = INFINITY;
    nib_affine now = *map;
    int32_t worse = 0;
    for (int32_t i = 0; i <= job->iterations; i++) {
        sums s = sum_region(job, region, &now, beta);
        double error = s.error2 * now.step * now.step;
        worse = error < least ? 0 : worse + 1;
        if (error < least) {
            least = error;
            *map = now;
        }
        if (i == job->iterations || s.error2 == 0 || worse > patience ||
            !next_map(job, &s, count, &now))
            return;
        beta *= growth;
    }
}
