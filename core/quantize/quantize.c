/* SPDX-License-Identifier: Apache-2.0
 *
 * nib_quantize: checks, the scale of the whole tensor, and the order of work. The first pass over
 * the weights looks for NaN and infinities, so that nothing is written when there are any. Rows
 * then are fitted and encoded one after the other, while they are in the cache; lut4 needs all
 * scales before its table, and the table before its codes.
 */
#include "quantize/quantize.h"

#include "base/status.h"
#include "base/struct.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct survey {
    float largest; /* magnitude */
    int64_t bad_row, bad_col;
    bool bad;
} survey;

static void survey_part(const void *ctx, const nib_region *part, void *partial)
{
    const nib_region *all = ctx;
    survey *s = partial;
    for (int64_t r = 0; r < part->rows; r++) {
        const float *w = part->w + r * part->ldw;
        for (int64_t i = 0; i < part->cols; i++) {
            float magnitude = fabsf(w[i]);
            if (!(magnitude < INFINITY)) {
                s->bad = true;
                s->bad_row = (part->w - all->w) / all->ldw + r;
                s->bad_col = i;
                return;
            }
            s->largest = magnitude > s->largest ? magnitude : s->largest;
        }
    }
}

static nib_status find_largest(const nib_job *job, double *largest)
{
    survey part[NIB_QUANTIZE_PARTS];
    int32_t parts =
        nib_region_reduce(&job->all, job->threads, survey_part, &job->all, part, sizeof(part[0]));
    *largest = 0;
    for (int32_t i = 0; i < parts; i++) {
        if (part[i].bad)
            return nib_fail(NIB_INVALID,
                            "w[%" PRId64 ", %" PRId64 "] is %g: weights must be finite",
                            part[i].bad_row, part[i].bad_col,
                            (double)job->all.w[part[i].bad_row * job->all.ldw + part[i].bad_col]);
        *largest = fmax(*largest, part[i].largest);
    }
    return NIB_OK;
}

/* e4m3 scales reach over 17 binades only: alpha moves them so that the greatest possible is 448.
 * Zeros of NIB_ZERO_RESCALE are in units of alpha, up to twice the weights, and must fit as well.
 */
static double find_alpha(const nib_job *job, double largest)
{
    const nib_weight_desc *d = &job->desc;
    if (d->scale_type != NIB_E4M3 || largest == 0)
        return 1;
    double reach = d->zero ? ((double)job->grid.high - job->grid.low) / 2 : job->grid.high;
    double alpha = largest / (448 * reach);
    if (d->zero == NIB_ZERO_RESCALE && d->zero_type == NIB_F16)
        alpha = fmax(alpha, 2 * largest / 65504);
    return (float)fmax(alpha, 0x1p-126);
}

static void store_map(const nib_job *job, int64_t index, const nib_affine *map)
{
    nib_dtype_store(job->desc.scale_type, job->scales, index, map->scale);
    if (job->desc.zero == NIB_ZERO_CODE)
        ((unsigned char *)job->zeros)[index] = (unsigned char)map->zero;
    else if (job->desc.zero)
        nib_dtype_store(job->desc.zero_type, job->zeros, index, map->zero);
}

static int64_t group_count(const nib_job *job, int64_t g)
{
    int64_t left = job->desc.k - g * job->group_size;
    return left < job->group_size ? left : job->group_size;
}

static void fit_row(void *ctx, int64_t row)
{
    const nib_job *job = ctx;
    for (int64_t g = 0; g < job->groups; g++) {
        const float *w = job->all.w + row * job->all.ldw + g * job->group_size;
        nib_region region = {w, job->all.ldw, 1, group_count(job, g)};
        nib_affine map = nib_fit(job, &region);
        store_map(job, row * job->groups + g, &map);
    }
}

static void encode_row(void *ctx, int64_t row)
{
    const nib_job *job = ctx;
    int64_t stride = nib_ceil_div(job->desc.k * job->grid.bits, 8);
    nib_bit_writer writer = {.out = (unsigned char *)job->codes + row * stride,
                             .bits = job->grid.bits};
    uint8_t codes[NIB_QUANTIZE_CHUNK];
    for (int64_t g = 0; g < job->groups; g++) {
        nib_affine map = nib_affine_load(&job->desc, job->alpha, job->scales, job->zeros, row, g);
        const float *w = job->all.w + row * job->all.ldw + g * job->group_size;
        int64_t cols = group_count(job, g);
        for (int64_t first = 0; first < cols; first += NIB_QUANTIZE_CHUNK) {
            int64_t left = cols - first;
            int32_t count = left < NIB_QUANTIZE_CHUNK ? (int32_t)left : NIB_QUANTIZE_CHUNK;
            nib_grid_encode(&job->grid, w + first, count, &map, codes);
            nib_bits_put(&writer, codes, count);
        }
    }
    nib_bits_end(&writer);
}

static void fit_and_encode_row(void *ctx, int64_t row)
{
    fit_row(ctx, row);
    encode_row(ctx, row);
}

static void fit_all(nib_job *job)
{
    if (!job->desc.scale_type)
        return;
    if (job->desc.group == NIB_GROUP_TENSOR) {
        nib_affine map = nib_fit(job, &job->all);
        store_map(job, 0, &map);
    } else {
        nib_quantize_parallel(job->threads, job->desc.n, fit_row, job);
    }
}

static nib_status run(nib_job *job, float *table)
{
    if (job->table_known && job->desc.scale_type && job->desc.group != NIB_GROUP_TENSOR) {
        nib_quantize_parallel(job->threads, job->desc.n, fit_and_encode_row, job);
        return NIB_OK;
    }
    fit_all(job);
    if (!job->table_known) {
        nib_status status = nib_lut_fit(job, table);
        if (status)
            return status;
        nib_grid_set_table(&job->grid, table);
        job->table_known = true;
        if (job->method == NIB_QUANTIZE_HQQ)
            fit_all(job);
    }
    nib_quantize_parallel(job->threads, job->desc.n, encode_row, job);
    return NIB_OK;
}

static nib_status check_options(const nib_quantize_options *o)
{
    if (o->method < NIB_QUANTIZE_RTN || o->method > NIB_QUANTIZE_HQQ)
        return nib_fail(NIB_INVALID, "method is %d, expected a NIB_QUANTIZE_ value", o->method);
    if (!(o->percentile >= 0 && o->percentile <= 100))
        return nib_fail(NIB_INVALID,
                        "percentile is %g, expected above 0 and up to 100, or 0 for "
                        "the default of 99.9",
                        o->percentile);
    if (o->iterations < 0)
        return nib_fail(NIB_INVALID,
                        "iterations is %d, expected 1 or more, or 0 for the default "
                        "of 20",
                        o->iterations);
    if (o->threads < 0)
        return nib_fail(NIB_INVALID, "threads is %d, expected 1 or more, or 0 for the default",
                        o->threads);
    return NIB_OK;
}

nib_status nib_quantize_check_arrays(const nib_weight_desc *d, const nib_quantize_result *r,
                                     const float *w, int64_t ldw)
{
    if (d->flags & NIB_WEIGHT_G_IDX)
        return nib_fail(NIB_UNSUPPORTED, "quantisers make groups of consecutive k: clear "
                                         "NIB_WEIGHT_G_IDX (act-order)");
    if (!w)
        return nib_fail(NIB_INVALID, "w is NULL, expected the weights [n, k]");
    if (ldw < d->k)
        return nib_fail(NIB_INVALID, "ldw is %" PRId64 ", expected at least k = %" PRId64, ldw,
                        d->k);
    if (!r->codes)
        return nib_fail(NIB_INVALID,
                        "result.codes is NULL: see nib_weight_desc_bytes for its size");
    if (d->scale_type && !r->scales)
        return nib_fail(NIB_INVALID, "result.scales is NULL but scale_type is %s",
                        nib_type_name(d->scale_type));
    if (d->zero && !r->zeros)
        return nib_fail(NIB_INVALID, "result.zeros is NULL but the description has zeros");
    if (d->type == NIB_LUT4 && !r->table)
        return nib_fail(NIB_INVALID, "result.table is NULL: lut4 needs room for 16 floats");
    return NIB_OK;
}

nib_status nib_quantize(const nib_quantize_options *options, const float *w, int64_t ldw,
                        nib_quantize_result *result)
{
    nib_quantize_options o;
    nib_quantize_result r;
    nib_job job = {.alpha = 1};
    nib_status status = nib_struct_read(&o, sizeof(o), options, sizeof(o), "nib_quantize_options");
    if (!status)
        status = nib_struct_read(&r, sizeof(r), result, sizeof(r), "nib_quantize_result");
    if (!status)
        status = nib_weight_desc_check(&o.weight, &job.desc);
    if (!status)
        status = check_options(&o);
    if (!status)
        status = nib_quantize_check_arrays(&job.desc, &r, w, ldw);
    if (status)
        return status;
    job.method = o.method;
    job.percentile = o.percentile > 0 ? o.percentile : 99.9;
    job.iterations = o.iterations ? o.iterations : 20;
    job.threads = nib_quantize_threads(o.threads);
    job.groups = nib_desc_groups(&job.desc);
    job.group_size = nib_desc_group_size(&job.desc);
    job.table_known = job.desc.type != NIB_LUT4;
    job.all = (nib_region){w, ldw, job.desc.n, job.desc.k};
    job.codes = r.codes;
    job.scales = r.scales;
    job.zeros = r.zeros;
    nib_grid_make(job.desc.type, &job.grid);
    nib_hqq_tabulate(job.power);
    double largest;
    status = find_largest(&job, &largest);
    if (status)
        return status;
    job.alpha = find_alpha(&job, largest);
    status = run(&job, r.table);
    if (status)
        return status;
    r.alpha = (float)job.alpha;
    return nib_struct_write(result, &r, sizeof(r), sizeof(r), "nib_quantize_result");
}
