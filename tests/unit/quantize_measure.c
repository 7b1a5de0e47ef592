/* SPDX-License-Identifier: Apache-2.0
 *
 * The error report, against sums and sorted errors computed here.
 */
#include "support/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <nibblas/nibblas.h>
#include <stdlib.h>
#include <string.h>

enum { N = 50, K = 101, COUNT = N * K, ROW_BYTES = K };

static float w[COUNT];
static unsigned char codes[COUNT];
static float scale = 0.25f;

static nib_weight_desc desc_of(void)
{
    return (nib_weight_desc){.size = sizeof(nib_weight_desc),
                             .n = N,
                             .k = K,
                             .group = NIB_GROUP_TENSOR,
                             .type = NIB_I8,
                             .scale_type = NIB_F32};
}

static nib_quantize_result result_of(void)
{
    return (nib_quantize_result){
        .size = sizeof(nib_quantize_result), .alpha = 2, .codes = codes, .scales = &scale};
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

Test(quantize_measure, agrees_with_sorted_errors)
{
    static double absolute[COUNT], relative[COUNT];
    test_random random = {test_seed(5)};
    double error2 = 0, weight2 = 0, sum = 0, rel_sum = 0;
    int64_t nonzero = 0;
    for (int i = 0; i < COUNT; i++) {
        w[i] = i % 7 ? (float)(60 * test_random_unit(&random)) : 0;
        codes[i] = (unsigned char)test_random_below(&random, 256);
        double error = 2 * 0.25 * (int8_t)codes[i] - w[i];
        absolute[i] = fabs(error);
        sum += fabs(error);
        error2 += error * error;
        weight2 += (double)w[i] * w[i];
        if (w[i] != 0)
            rel_sum += relative[nonzero++] = fabs(error) / fabs(w[i]);
    }
    qsort(absolute, COUNT, sizeof(double), ascending);
    qsort(relative, (size_t)nonzero, sizeof(double), ascending);
    nib_weight_desc desc = desc_of();
    nib_quantize_result result = result_of();
    nib_quantize_report report = {.size = sizeof(report)};
    cr_assert_eq(nib_quantize_measure(&desc, &result, w, K, &report), NIB_OK);
    cr_expect_eq(report.count, COUNT);
    cr_expect_float_eq(report.abs_mean, sum / COUNT, 1e-9);
    cr_expect_eq(report.abs_max, absolute[COUNT - 1]);
    cr_expect_float_eq(report.rel_mean, rel_sum / (double)nonzero, 1e-6);
    cr_expect_eq(report.rel_max, relative[nonzero - 1]);
    cr_expect_float_eq(report.snr_db, 10 * log10(weight2 / error2), 1e-9);
    static const double fraction[4] = {0.5, 0.9, 0.99, 0.999};
    for (int q = 0; q < 4; q++) {
        double a = absolute[(int)ceil(fraction[q] * COUNT) - 1];
        double r = relative[(int)ceil(fraction[q] * (double)nonzero) - 1];
        cr_expect_float_eq(report.abs_quantile[q], a, 0.01 * a);
        cr_expect_float_eq(report.rel_quantile[q], r, 0.01 * r);
    }
    int64_t total = 0, low = 0;
    for (int b = 0; b < NIB_HISTOGRAM_BINS; b++)
        total += report.histogram[b];
    for (int i = 0; i < COUNT; i++)
        low += 0.5 * (int8_t)codes[i] - w[i] < 0;
    for (int b = 0; b < NIB_HISTOGRAM_BINS / 2; b++)
        low -= report.histogram[b];
    cr_expect_eq(total, COUNT);
    cr_expect_eq(low, 0, "negative errors are the lower half");
}

Test(quantize_measure, exact_weights_have_infinite_snr)
{
    for (int i = 0; i < COUNT; i++) {
        codes[i] = (unsigned char)i;
        w[i] = 0.5f * (int8_t)codes[i];
    }
    nib_weight_desc desc = desc_of();
    nib_quantize_result result = result_of();
    nib_quantize_report report = {.size = sizeof(report)};
    cr_assert_eq(nib_quantize_measure(&desc, &result, w, K, &report), NIB_OK);
    cr_expect(isinf(report.snr_db) && report.snr_db > 0);
    cr_expect_eq(report.histogram_limit, 0);
    cr_expect_eq(report.histogram[NIB_HISTOGRAM_BINS / 2], COUNT);
    w[3] += 0.125f; /* one error of them all sets the limit */
    cr_assert_eq(nib_quantize_measure(&desc, &result, w, K, &report), NIB_OK);
    cr_expect_eq(report.histogram_limit, 0.125);
    cr_expect_eq(report.histogram[0], 1, "dequantised less original is negative");
}

Test(quantize_measure, refuses_scales_that_are_not_finite)
{
    nib_weight_desc desc = desc_of();
    nib_quantize_result result = result_of();
    nib_quantize_report report = {.size = sizeof(report), .count = -7};
    float bad = NAN;
    memset(w, 0, sizeof(w));
    result.scales = &bad;
    cr_expect_eq(nib_quantize_measure(&desc, &result, w, K, &report), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "w[0, 0] is not finite"), "%s", nib_last_message());
    cr_expect_eq(report.count, -7);
    result = result_of();
    cr_expect_eq(nib_quantize_measure(&desc, &result, w, K - 1, &report), NIB_INVALID);
    cr_expect_eq(nib_quantize_measure(&desc, &result, w, K, NULL), NIB_INVALID);
}
