/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of groups. Quantiles are exact and need no copy: floats are ordered as integers, and their
 * digits are found one after the other by counting (four passes over the group).
 */
#include "quantize/quantize.h"

#include <math.h>
#include <string.h>

typedef struct extremes {
    float low, high;
} extremes;

static void find_extremes(const void *ctx, const nib_region *part, void *partial)
{
    (void)ctx;
    extremes e = {part->w[0], part->w[0]};
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t i = 0; i < part->cols; i++) {
            float x = part->w[r * part->ldw + i];
            e.low = x < e.low ? x : e.low;
            e.high = x > e.high ? x : e.high;
        }
    *(extremes *)partial = e;
}

static void min_max(const nib_job *job, const nib_region *region, double *low, double *high)
{
    extremes part[NIB_QUANTIZE_PARTS];
    int32_t parts =
        nib_region_reduce(region, job->threads, find_extremes, NULL, part, sizeof(part[0]));
    *low = part[0].low;
    *high = part[0].high;
    for (int32_t i = 1; i < parts; i++) {
        *low = fmin(*low, part[i].low);
        *high = fmax(*high, part[i].high);
    }
}

static void sum_abs(const void *ctx, const nib_region *part, void *partial)
{
    (void)ctx;
    double sum = 0;
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t i = 0; i < part->cols; i++)
            sum += fabsf(part->w[r * part->ldw + i]);
    *(double *)partial = sum;
}

double nib_range_mean_abs(const nib_job *job, const nib_region *region)
{
    double part[NIB_QUANTIZE_PARTS], sum = 0;
    int32_t parts = nib_region_reduce(region, job->threads, sum_abs, NULL, part, sizeof(part[0]));
    for (int32_t i = 0; i < parts; i++)
        sum += part[i];
    return sum / ((double)region->rows * (double)region->cols);
}

/* Unsigned numbers in the order of the floats. */
static uint32_t key_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static float float_of_key(uint32_t key)
{
    uint32_t bits = key >> 31 ? key & 0x7fffffffu : ~key;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Counts the next digit of keys whose higher digits are known. */
typedef struct digit_pass {
    uint32_t known, mask;
    int32_t shift;
} digit_pass;

typedef struct digit_counts {
    int64_t count[256];
} digit_counts;

static void count_digits(const void *ctx, const nib_region *part, void *partial)
{
    const digit_pass *pass = ctx;
    digit_counts *counts = partial;
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t i = 0; i < part->cols; i++) {
            uint32_t key = key_of(part->w[r * part->ldw + i]);
            if ((key & pass->mask) == pass->known)
                counts->count[key >> pass->shift & 255]++;
        }
}

static void next_key(const void *ctx, const nib_region *part, void *partial)
{
    uint32_t above = *(const uint32_t *)ctx, best = UINT32_MAX;
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t i = 0; i < part->cols; i++) {
            uint32_t key = key_of(part->w[r * part->ldw + i]);
            if (key > above && key < best)
                best = key;
        }
    *(uint32_t *)partial = best;
}

/* The rank-th smallest weight (from 0) and the one after it. */
static void select_pair(const nib_job *job, const nib_region *region, int64_t rank, double *value,
                        double *next)
{
    digit_counts part[NIB_QUANTIZE_PARTS];
    digit_pass pass = {0, 0, 24};
    int64_t equal = 0;
    for (; pass.shift >= 0; pass.shift -= 8) {
        int32_t parts =
            nib_region_reduce(region, job->threads, count_digits, &pass, part, sizeof(part[0]));
        for (int32_t p = 1; p < parts; p++)
            for (int d = 0; d < 256; d++)
                part[0].count[d] += part[p].count[d];
        uint32_t digit = 0;
        for (; digit < 255 && rank >= part[0].count[digit]; digit++)
            rank -= part[0].count[digit];
        equal = part[0].count[digit];
        pass.known |= digit << pass.shift;
        pass.mask |= 255u << pass.shift;
    }
    *value = *next = float_of_key(pass.known);
    if (rank + 1 < equal)
        return;
    uint32_t after[NIB_QUANTIZE_PARTS], best = UINT32_MAX;
    int32_t parts =
        nib_region_reduce(region, job->threads, next_key, &pass.known, after, sizeof(after[0]));
    for (int32_t p = 0; p < parts; p++)
        best = after[p] < best ? after[p] : best;
    if (best != UINT32_MAX)
        *next = float_of_key(best);
}

/* Linear between the two order statistics beside fraction * (count - 1). */
static double quantile(const nib_job *job, const nib_region *region, double fraction)
{
    double at = fraction * ((double)(region->rows * region->cols) - 1);
    double rank = floor(at), value, next;
    select_pair(job, region, (int64_t)rank, &value, &next);
    return value + (next - value) * (at - rank);
}

void nib_range_of(const nib_job *job, const nib_region *region, double *low, double *high)
{
    if (job->method == NIB_QUANTIZE_PERCENTILE && job->percentile < 100) {
        double tail = (1 - job->percentile / 100) / 2;
        *low = quantile(job, region, tail);
        *high = quantile(job, region, 1 - tail);
        if (*low < *high)
            return; /* else almost all weights are equal, and the others decide */
    }
    min_max(job, region, low, high);
}
