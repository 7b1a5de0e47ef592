/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of lut4: k-means in one dimension (Lloyd 1982) over weights normalised by their groups,
 * each weighed by the square of its group's step, so that what falls is the squared error of the
 * weights. Works on a histogram, which is small whatever the matrix; bins keep the mean of what
 * fell into them.
 */
#include "base/status.h"
#include "quantize/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 2048, ENTRIES = 16 };

typedef struct histogram {
    double weight[BINS], sum[BINS];
} histogram;

typedef struct fill_pass {
    const nib_job *job;
    double limit; /* normalised weights lie in [-limit, limit] */
} fill_pass;

static void fill_group(const fill_pass *pass, const nib_affine *map, const float *w, int64_t count,
                       histogram *h)
{
    double weight = (map->step / pass->job->alpha) * (map->step / pass->job->alpha);
    for (int64_t i = 0; i < count; i++) {
        double x = ((double)w[i] - map->offset) / map->step;
        double place = (x / pass->limit + 1) * (BINS / 2);
        int32_t bin = place < 0 ? 0 : place >= BINS ? BINS - 1 : (int32_t)place;
        h->weight[bin] += weight;
        h->sum[bin] += weight * x;
    }
}

static void fill_part(const void *ctx, const nib_region *part, void *partial)
{
    const fill_pass *pass = ctx;
    const nib_job *job = pass->job;
    int64_t first_row = (part->w - job->all.w) / job->all.ldw;
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t g = 0; g < job->groups; g++) {
            nib_affine map =
                nib_affine_load(&job->desc, job->alpha, job->scales, job->zeros, first_row + r, g);
            int64_t k = g * job->group_size, left = job->desc.k - k;
            if (map.step != 0)
                fill_group(pass, &map, part->w + r * part->ldw + k,
                           left < job->group_size ? left : job->group_size, partial);
        }
}

/* One step of Lloyd's: entries move to the means of the bins nearest to them. Returns the squared
 * error before, less a constant. Entries without bins stay. */
static double lloyd(const histogram *h, double *table)
{
    double weight[ENTRIES] = {0}, sum[ENTRIES] = {0}, error = 0;
    int entry = 0;
    for (int bin = 0; bin < BINS; bin++) {
        if (h->weight[bin] == 0)
            continue;
        double x = h->sum[bin] / h->weight[bin];
        while (entry + 1 < ENTRIES && x > (table[entry] + table[entry + 1]) / 2)
            entry++;
        weight[entry] += h->weight[bin];
        sum[entry] += h->sum[bin];
        error += h->weight[bin] * (x - table[entry]) * (x - table[entry]);
    }
    for (int i = 0; i < ENTRIES; i++)
        if (weight[i] != 0)
            table[i] = sum[i] / weight[i];
    return error;
}

/* Lloyd's finds the nearest local optimum, so it starts both from where normal weights would have
 * their entries and from equal steps. */
static void fit_entries(const histogram *h, double limit, int32_t iterations, float *table)
{
    const float *normal = nib_dtype_table(NIB_NF4);
    double best = INFINITY;
    for (int start = 0; start < 2; start++) {
        double entries[ENTRIES];
        for (int i = 0; i < ENTRIES; i++)
            entries[i] = limit * (start ? (2 * i + 1 - ENTRIES) / (ENTRIES - 1.0) : normal[i]);
        for (int32_t i = 0; i < iterations; i++)
            lloyd(h, entries);
        double after[ENTRIES];
        memcpy(after, entries, sizeof(after));
        double error = lloyd(h, after);
        if (error >= best)
            continue;
        best = error;
        for (int i = 0; i < ENTRIES; i++)
            table[i] = (float)entries[i];
    }
}

nib_status nib_lut_fit(const nib_job *job, float *table)
{
    /* Half a megabyte to a megabyte, whatever the matrix. */
    histogram *parts = malloc(NIB_QUANTIZE_PARTS * sizeof(*parts));
    if (!parts)
        return nib_fail(NIB_NO_MEMORY, "no memory for the histograms of lut4, %zu bytes",
                        NIB_QUANTIZE_PARTS * sizeof(*parts));
    fill_pass pass = {job, 1};
    if (!job->desc.scale_type) { /* nothing normalises: the weights themselves */
        double low, high;
        nib_range_of(job, &job->all, &low, &high);
        pass.limit = fmax(fabs(low), fabs(high));
        pass.limit = pass.limit > 0 ? pass.limit : 1;
    }
    int32_t count =
        nib_region_reduce(&job->all, job->threads, fill_part, &pass, parts, sizeof(*parts));
    for (int32_t p = 1; p < count; p++)
        for (int bin = 0; bin < BINS; bin++) {
            parts[0].weight[bin] += parts[p].weight[bin];
            parts[0].sum[bin] += parts[p].sum[bin];
        }
    fit_entries(&parts[0], pass.limit, job->iterations, table);
    free(parts);
    return NIB_OK;
}
