/* SPDX-License-Identifier: Apache-2.0
 *
 * nib_quantize_measure. Two passes over the weights: the first for moments and logarithmic
 * histograms, from which the quantiles follow, the second for the histogram of signed errors, whose
 * limit is one of those quantiles. Memory is fixed, about 4 MB.
 */
#include "quantize/quantize.h"

#include "base/status.h"
#include "base/struct.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A float's exponent and the 6 leading bits of its mantissa: bins at most 1/64 wide, relatively. */
enum { LOG_SHIFT = 17, LOG_BINS = 1 << (31 - LOG_SHIFT) };

typedef struct moments {
    int64_t nonzero; /* weights with a relative error */
    double abs_sum, abs_max, rel_sum, rel_max, error2, weight2;
    int64_t bad_row, bad_col;
    bool bad; /* not finite */
    int64_t abs_bin[LOG_BINS], rel_bin[LOG_BINS];
} moments;

typedef struct signed_bins {
    int64_t count[NIB_HISTOGRAM_BINS];
} signed_bins;

typedef struct subject {
    nib_weight_desc desc;
    nib_quantize_result result;
    nib_region all;
    int64_t groups, group_size, row_bytes;
    nib_grid grid;
    double alpha;
    double limit;
} subject;

/* What a pass does with a weight and the error of its code. */
typedef void (*visit_fn)(const subject *s, double w, double error, void *partial);

/* Calls visit for each weight of a row; the column of the first that is not finite, or -1. */
static int64_t visit_row(const subject *s, int64_t row, visit_fn visit, void *partial)
{
    const unsigned char *stream = (const unsigned char *)s->result.codes + row * s->row_bytes;
    const float *w = s->all.w + row * s->all.ldw;
    uint8_t codes[NIB_QUANTIZE_CHUNK];
    for (int64_t g = 0; g < s->groups; g++) {
        nib_affine map =
            nib_affine_load(&s->desc, s->alpha, s->result.scales, s->result.zeros, row, g);
        int64_t end = (g + 1) * s->group_size;
        end = end < s->desc.k ? end : s->desc.k;
        for (int64_t k = g * s->group_size; k < end; k += NIB_QUANTIZE_CHUNK) {
            int32_t count = (int32_t)(end - k < NIB_QUANTIZE_CHUNK ? end - k : NIB_QUANTIZE_CHUNK);
            nib_bits_get(stream, s->grid.bits, k, count, codes);
            for (int32_t i = 0; i < count; i++) {
                double error = map.step * s->grid.value[codes[i]] + map.offset - w[k + i];
                if (!isfinite(error))
                    return k + i;
                visit(s, w[k + i], error, partial);
            }
        }
    }
    return -1;
}

static int32_t log_bin(double x)
{
    float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    return (int32_t)(bits >> LOG_SHIFT);
}

static void add_moments(const subject *s, double w, double error, void *partial)
{
    (void)s;
    moments *m = partial;
    double magnitude = fabs(error);
    m->abs_sum += magnitude;
    m->abs_max = fmax(m->abs_max, magnitude);
    m->error2 += error * error;
    m->weight2 += w * w;
    m->abs_bin[log_bin(magnitude)]++;
    if (w == 0)
        return;
    double relative = magnitude / fabs(w);
    m->nonzero++;
    m->rel_sum += relative;
    m->rel_max = fmax(m->rel_max, relative);
    m->rel_bin[log_bin(relative)]++;
}

static void moments_part(const void *ctx, const nib_region *part, void *partial)
{
    const subject *s = ctx;
    moments *m = partial;
    int64_t first = (part->w - s->all.w) / s->all.ldw;
    for (int64_t r = first; r < first + part->rows && !m->bad; r++) {
        m->bad_col = visit_row(s, r, add_moments, m);
        m->bad_row = r;
        m->bad = m->bad_col >= 0;
    }
}

static void add_signed(const subject *s, double w, double error, void *partial)
{
    (void)w;
    signed_bins *b = partial;
    double place = NIB_HISTOGRAM_BINS / 2.0;
    if (s->limit > 0)
        place += error / s->limit * (NIB_HISTOGRAM_BINS / 2.0);
    int32_t bin = place < 0                         ? 0
                  : place >= NIB_HISTOGRAM_BINS - 1 ? NIB_HISTOGRAM_BINS - 1
                                                    : (int32_t)place;
    b->count[bin]++;
}

static void signed_part(const void *ctx, const nib_region *part, void *partial)
{
    const subject *s = ctx;
    int64_t first = (part->w - s->all.w) / s->all.ldw;
    for (int64_t r = first; r < first + part->rows; r++)
        visit_row(s, r, add_signed, partial);
}

static void merge(moments *into, const moments *from)
{
    into->nonzero += from->nonzero;
    into->abs_sum += from->abs_sum;
    into->abs_max = fmax(into->abs_max, from->abs_max);
    into->rel_sum += from->rel_sum;
    into->rel_max = fmax(into->rel_max, from->rel_max);
    into->error2 += from->error2;
    into->weight2 += from->weight2;
    if (!into->bad && from->bad) {
        into->bad = true;
        into->bad_row = from->bad_row;
        into->bad_col = from->bad_col;
    }
    for (int i = 0; i < LOG_BINS; i++) {
        into->abs_bin[i] += from->abs_bin[i];
        into->rel_bin[i] += from->rel_bin[i];
    }
}

/* The middle of the bin where the quantile falls: within 1/128 of it. */
static double quantile(const int64_t *bin, int64_t count, double fraction, double most)
{
    int64_t rank = (int64_t)ceil(fraction * (double)count);
    int64_t seen = 0;
    for (uint32_t i = 0; i < LOG_BINS; i++) {
        seen += bin[i];
        if (seen < rank || !bin[i])
            continue;
        uint32_t bits = i ? i << LOG_SHIFT | 1u << (LOG_SHIFT - 1) : 0;
        float value;
        memcpy(&value, &bits, sizeof(value));
        return fmin(value, most);
    }
    return 0;
}

static void summarise(const moments *m, nib_quantize_report *out)
{
    static const double fraction[4] = {0.5, 0.9, 0.99, 0.999};
    out->abs_mean = m->abs_sum / (double)out->count;
    out->abs_max = m->abs_max;
    out->rel_mean = m->nonzero ? m->rel_sum / (double)m->nonzero : 0;
    out->rel_max = m->rel_max;
    for (int i = 0; i < 4; i++) {
        out->abs_quantile[i] = quantile(m->abs_bin, out->count, fraction[i], m->abs_max);
        out->rel_quantile[i] = quantile(m->rel_bin, m->nonzero, fraction[i], m->rel_max);
    }
    out->snr_db = m->error2 > 0 ? 10 * log10(m->weight2 / m->error2) : INFINITY;
    out->histogram_limit = out->abs_quantile[3] > 0 ? out->abs_quantile[3] : out->abs_max;
}

static nib_status measure(subject *s, nib_quantize_report *out)
{
    moments *parts = malloc(NIB_QUANTIZE_PARTS * sizeof(*parts));
    if (!parts)
        return nib_fail(NIB_NO_MEMORY, "no memory for the histograms of a report, %zu bytes",
                        NIB_QUANTIZE_PARTS * sizeof(*parts));
    nib_status status = NIB_OK;
    int32_t threads = nib_quantize_threads(0);
    int32_t count = nib_region_reduce(&s->all, threads, moments_part, s, parts, sizeof(*parts));
    for (int32_t i = 1; i < count; i++)
        merge(&parts[0], &parts[i]);
    if (parts[0].bad) {
        status =
            nib_fail(NIB_INVALID,
                     "the error of w[%" PRId64 ", %" PRId64 "] is not finite: weights, scales, "
                     "zeros, table and alpha must be",
                     parts[0].bad_row, parts[0].bad_col);
        goto fail;
    }
    out->count = s->desc.n * s->desc.k;
    summarise(&parts[0], out);
    s->limit = out->histogram_limit;
    signed_bins bins[NIB_QUANTIZE_PARTS];
    count = nib_region_reduce(&s->all, threads, signed_part, s, bins, sizeof(bins[0]));
    for (int32_t i = 0; i < count; i++)
        for (int b = 0; b < NIB_HISTOGRAM_BINS; b++)
            out->histogram[b] += bins[i].count[b];
fail:
    free(parts);
    return status;
}

nib_status nib_quantize_measure(const nib_weight_desc *desc, const nib_quantize_result *result,
                                const float *w, int64_t ldw, nib_quantize_report *report)
{
    subject s = {.limit = 0};
    nib_quantize_report out = {.size = sizeof(out)}, old;
    nib_status status = nib_weight_desc_check(desc, &s.desc);
    if (!status)
        status = nib_struct_read(&s.result, sizeof(s.result), result, sizeof(s.result),
                                 "nib_quantize_result");
    if (!status)
        status = nib_struct_read(&old, sizeof(old), report, sizeof(old), "nib_quantize_report");
    if (!status)
        status = nib_quantize_check_arrays(&s.desc, &s.result, w, ldw);
    if (status)
        return status;
    s.all = (nib_region){w, ldw, s.desc.n, s.desc.k};
    s.groups = nib_desc_groups(&s.desc);
    s.group_size = nib_desc_group_size(&s.desc);
    s.alpha = s.result.alpha != 0 ? s.result.alpha : 1;
    nib_grid_make(s.desc.type, &s.grid);
    s.row_bytes = nib_ceil_div(s.desc.k * s.grid.bits, 8);
    if (s.desc.type == NIB_LUT4)
        nib_grid_set_table(&s.grid, s.result.table);
    status = measure(&s, &out);
    if (status)
        return status;
    return nib_struct_write(report, &out, sizeof(out), sizeof(out), "nib_quantize_report");
}
