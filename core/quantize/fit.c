/* SPDX-License-Identifier: Apache-2.0
 *
 * Round-to-nearest's scale and zero for one group. A rule seldom has one answer: a symmetric
 * integer's long side may be either, a coarse scale type has a neighbour on each side of the ideal
 * scale, a group beside zero may cover it or not. So a few candidates are tried, and the least
 * squared error wins; the first wins ties. docs/quantizers.md lists them.
 */
#include "quantize/quantize.h"

#include <math.h>

enum { MOST_CANDIDATES = 8 };

typedef struct candidates {
    const nib_job *job;
    int32_t count;
    nib_affine map[MOST_CANDIDATES];
} candidates;

typedef struct error_pass {
    const nib_grid *grid;
    const nib_affine *map;
} error_pass;

static void add_errors(const void *ctx, const nib_region *part, void *partial)
{
    const error_pass *pass = ctx;
    const nib_affine *map = pass->map;
    uint8_t codes[NIB_QUANTIZE_CHUNK];
    double sum = 0;
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t first = 0; first < part->cols; first += NIB_QUANTIZE_CHUNK) {
            int64_t left = part->cols - first;
            int32_t count = left < NIB_QUANTIZE_CHUNK ? (int32_t)left : NIB_QUANTIZE_CHUNK;
            const float *w = part->w + r * part->ldw + first;
            nib_grid_encode(pass->grid, w, count, map, codes);
            for (int32_t i = 0; i < count; i++) {
                double error = w[i] - (map->step * pass->grid->value[codes[i]] + map->offset);
                sum += error * error;
            }
        }
    *(double *)partial = sum;
}

double nib_fit_error(const nib_job *job, const nib_region *region, const nib_affine *map)
{
    double part[NIB_QUANTIZE_PARTS], sum = 0;
    error_pass pass = {&job->grid, map};
    int32_t parts =
        nib_region_reduce(region, job->threads, add_errors, &pass, part, sizeof(part[0]));
    for (int32_t i = 0; i < parts; i++)
        sum += part[i];
    return sum;
}

/* A candidate with a rounded scale, for weights around `middle`. */
static void add_map(candidates *c, double scale, double middle)
{
    const nib_weight_desc *d = &c->job->desc;
    double center = (c->job->grid.low + c->job->grid.high) / 2.0, zero = 0;
    if (d->zero == NIB_ZERO_RESCALE)
        zero = center * scale - middle;
    else if (d->zero)
        zero = center - middle / scale;
    if (c->count < MOST_CANDIDATES)
        c->map[c->count++] = nib_affine_of(d, c->job->alpha, scale, nib_zero_round(d, zero));
}

/* The nearest scale to `ideal` and, unless the method's rule is `strict`, the one on its other side
 * where scales lie so far apart that it may be better. */
static void add_scale(candidates *c, double ideal, double middle, bool strict)
{
    nib_type type = c->job->desc.scale_type;
    if (type == NIB_E8M0 && ideal < 0)
        return;
    double scale = nib_scale_round(type, ideal);
    add_map(c, scale, middle);
    if (!strict && fabs(scale - ideal) > fabs(ideal) / 256) {
        double beside = nib_scale_beside(type, scale, ideal);
        if (beside != scale)
            add_map(c, beside, middle);
    }
}

/* OCP MX 1.0, section 6.3: 2^(floor(log2 max) - emax), emax the exponent of the largest element. */
static double mx_scale(double extreme, double largest)
{
    int exponent, most;
    frexp(extreme, &exponent);
    frexp(largest, &most);
    return ldexp(1, exponent - most);
}

static void add_symmetric(candidates *c, const nib_region *region, double low, double high)
{
    const nib_job *job = c->job;
    const nib_grid *grid = &job->grid;
    double extreme = -low > high ? low : high;
    switch (grid->class_) {
    case NIB_CLASS_SIGN:
        add_scale(c, nib_range_mean_abs(job, region) / job->alpha, 0, false);
        return;
    case NIB_CLASS_UNSIGNED: /* one side only: the other becomes 0 */
        if (high > 0)
            add_scale(c, high / grid->high, 0, false);
        if (low < 0)
            add_scale(c, low / grid->high, 0, false);
        return;
    case NIB_CLASS_OFFSET:
    case NIB_CLASS_SIGNED:
        add_scale(c, fabs(extreme) / grid->high, 0, false);
        add_scale(c, extreme / grid->low, 0, false);
        return;
    case NIB_CLASS_FLOAT:
        if (job->desc.scale_type == NIB_E8M0)
            add_scale(c, mx_scale(fabs(extreme), grid->high), 0, true);
        else
            add_scale(c, fabs(extreme) / grid->high, 0, job->desc.scale_type == NIB_E4M3);
        return;
    default:
        add_scale(c, fabs(extreme) / grid->high, 0, false);
    }
}

static void add_asymmetric(candidates *c, double low, double high)
{
    double span = (double)c->job->grid.high - c->job->grid.low;
    if (c->job->desc.zero != NIB_ZERO_CODE && low < high)
        add_scale(c, (high - low) / span, (low + high) / 2, false);
    /* A zero code lies on the grid, so 0 is in the range. A float zero far from the codes is
     * coarse, and a range that reaches to 0 has none. */
    if (c->job->desc.zero == NIB_ZERO_CODE || low > 0 || high < 0 || low == high) {
        low = fmin(low, 0);
        high = fmax(high, 0);
        add_scale(c, (high - low) / span, (low + high) / 2, false);
    }
}

/* All weights are 0. Scales of 0 are left to grids without a 0. */
static nib_affine of_zeros(const nib_job *job)
{
    const nib_weight_desc *d = &job->desc;
    double scale = 1;
    if (job->grid.class_ == NIB_CLASS_SIGN || d->type == NIB_LUT4)
        scale = d->scale_type == NIB_E8M0 ? nib_scale_round(NIB_E8M0, 0) : 0;
    return nib_affine_of(d, job->alpha, scale, 0);
}

nib_affine nib_fit(const nib_job *job, const nib_region *region)
{
    double low, high;
    nib_range_of(job, region, &low, &high);
    if (low == 0 && high == 0)
        return of_zeros(job);
    candidates c = {.job = job};
    if (job->desc.zero == NIB_ZERO_NONE)
        add_symmetric(&c, region, low / job->alpha, high / job->alpha);
    else
        add_asymmetric(&c, low / job->alpha, high / job->alpha);
    if (!c.count) /* negative weights, which neither code nor scale can express */
        add_map(&c, nib_scale_round(job->desc.scale_type, 0), 0);
    nib_affine best = c.map[0];
    if (!job->table_known)
        return best;
    double least = c.count > 1 ? nib_fit_error(job, region, &best) : 0;
    for (int32_t i = 1; i < c.count; i++) {
        double error = nib_fit_error(job, region, &c.map[i]);
        if (error < least) {
            least = error;
            best = c.map[i];
        }
    }
    if (job->method == NIB_QUANTIZE_HQQ)
        nib_hqq_refine(job, region, &best);
    return best;
}
