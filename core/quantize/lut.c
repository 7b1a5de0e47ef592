/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of lut4: k-means over weights normalised by their groups, each weighed by the square of
 * its group's step, so that what falls is the squared error of the weights. Works on a histogram,
 * which is small whatever the matrix; bins keep the mean of what fell into them. In one dimension
 * the optimum can be found by dynamic programming (Wang and Song 2011, "Ckmeans.1d.dp"), so there
 * is nothing to start or to iterate.
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

typedef struct clustering {
    double weight[BINS + 1], sum[BINS + 1], square[BINS + 1]; /* of the bins before */
    double before[BINS + 1], after[BINS + 1];                 /* least errors of the bins before */
    int16_t start[ENTRIES][BINS]; /* of the last cluster, by entry and last bin */
} clustering;

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

/* Squared error of bins first..last around their mean, from running sums. */
static double cluster_error(const clustering *c, int32_t first, int32_t last)
{
    double weight = c->weight[last + 1] - c->weight[first];
    double sum = c->sum[last + 1] - c->sum[first];
    double error = c->square[last + 1] - c->square[first] - sum * sum / weight;
    return error > 0 ? error : 0;
}

/* Best error of bins 0..last in entries + 1 clusters, for last in low..high, given that of one
 * cluster less. Where the last cluster starts does not fall as `last` grows, so halving the range
 * halves what must be searched. */
static void extend(clustering *c, int32_t entry, int32_t low, int32_t high, int32_t from,
                   int32_t to)
{
    if (low > high)
        return;
    int32_t last = low + (high - low) / 2, best = entry;
    double least = INFINITY;
    for (int32_t start = from > entry ? from : entry; start <= to && start <= last; start++) {
        double error = c->before[start] + cluster_error(c, start, last);
        if (error < least) {
            least = error;
            best = start;
        }
    }
    c->after[last + 1] = least;
    c->start[entry][last] = (int16_t)best;
    extend(c, entry, low, last - 1, from, best);
    extend(c, entry, last + 1, high, best, to);
}

/* Moves the bins that hold anything to the front, with running sums over them; their number. */
static int32_t sum_bins(histogram *h, clustering *c)
{
    int32_t bins = 0;
    for (int32_t i = 0; i < BINS; i++) {
        if (h->weight[i] == 0)
            continue;
        c->weight[bins + 1] = c->weight[bins] + h->weight[i];
        c->sum[bins + 1] = c->sum[bins] + h->sum[i];
        c->square[bins + 1] = c->square[bins] + h->sum[i] * h->sum[i] / h->weight[i];
        h->weight[bins] = h->weight[i];
        h->sum[bins] = h->sum[i];
        bins++;
    }
    return bins;
}

/* Mean of bins first..last. Summed anew: light bins vanish from running sums behind heavy ones. */
static double cluster_mean(const histogram *h, int32_t first, int32_t last)
{
    double weight = 0, sum = 0;
    for (int32_t i = first; i <= last; i++) {
        weight += h->weight[i];
        sum += h->sum[i];
    }
    return sum / weight;
}

/* The best 16 clusters of the histogram. With fewer bins than that, the last entry repeats. */
static void find_clusters(histogram *h, clustering *c, float *table)
{
    memset(c, 0, sizeof(*c));
    int32_t bins = sum_bins(h, c);
    int32_t entries = bins < ENTRIES ? bins : ENTRIES;
    memset(table, 0, ENTRIES * sizeof(*table));
    for (int32_t i = 0; i <= bins; i++)
        c->before[i] = i ? INFINITY : 0;
    for (int32_t entry = 0; entry < entries; entry++) {
        for (int32_t i = 0; i <= bins; i++)
            c->after[i] = INFINITY;
        extend(c, entry, entry, bins - 1, 0, bins - 1);
        memcpy(c->before, c->after, sizeof(c->before));
    }
    for (int32_t entry = entries - 1, last = bins - 1; entry >= 0; entry--) {
        int32_t start = c->start[entry][last];
        table[entry] = (float)cluster_mean(h, start, last);
        last = start - 1;
    }
    for (int32_t entry = entries; entries && entry < ENTRIES; entry++)
        table[entry] = table[entries - 1];
}

nib_status nib_lut_fit(const nib_job *job, float *table)
{
    /* Below 1 MB, whatever the matrix. */
    size_t bytes = NIB_QUANTIZE_PARTS * sizeof(histogram) + sizeof(clustering);
    histogram *parts = malloc(bytes);
    if (!parts)
        return nib_fail(NIB_NO_MEMORY, "no memory for the clusters of lut4, %zu bytes", bytes);
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
    find_clusters(&parts[0], (clustering *)(void *)(parts + NIB_QUANTIZE_PARTS), table);
    free(parts);
    return NIB_OK;
}
