/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantisers on weights small enough to know the answer: rules of MX and NV, traps of published
 * libraries, and refusals. tests/property/quantize.c has what holds for all types.
 */
#include "support/random.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <nibblas/nibblas.h>
#include <string.h>

enum { MOST = 4096 };

static unsigned char codes[MOST], scales[MOST], zeros[MOST];
static float table[16];

static nib_quantize_options options_of(const char *line)
{
    nib_quantize_options o = {.size = sizeof(o), .threads = 1};
    o.weight.size = sizeof(o.weight);
    cr_assert_eq(nib_weight_desc_parse(line, &o.weight), NIB_OK, "%s", nib_last_message());
    return o;
}

static nib_quantize_result result_of(void)
{
    memset(codes, 0xaa, sizeof(codes));
    memset(scales, 0xaa, sizeof(scales));
    memset(zeros, 0xaa, sizeof(zeros));
    return (nib_quantize_result){.size = sizeof(nib_quantize_result),
                                 .codes = codes,
                                 .scales = scales,
                                 .zeros = zeros,
                                 .table = table};
}

static nib_quantize_report quantized(const nib_quantize_options *o, const float *w,
                                     nib_quantize_result *result)
{
    nib_quantize_report report = {.size = sizeof(report)};
    *result = result_of();
    cr_assert_eq(nib_quantize(o, w, o->weight.k, result), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_quantize_measure(&o->weight, result, w, o->weight.k, &report), NIB_OK, "%s",
                 nib_last_message());
    return report;
}

static uint32_t f16_at(const void *array, int i)
{
    const unsigned char *bytes = array;
    return bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8;
}

/* Weights on the grid of each description come back exactly. */
static void expect_exact(const char *line, const float *w)
{
    nib_quantize_result r;
    nib_quantize_options o = options_of(line);
    nib_quantize_report report = quantized(&o, w, &r);
    cr_expect(isinf(report.snr_db) && report.snr_db > 0, "%s: %g dB", line, report.snr_db);
    cr_expect_eq(report.abs_max, 0, "%s", line);
}

Test(quantize, weights_on_the_grid_come_back_exactly)
{
    float w[64];
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i % 15 - 7) * 0.25f;
    expect_exact("n=4 k=16 w=i4 g=row s=f16", w);
    expect_exact("n=2 k=32 w=i4 g=16 s=bf16", w);
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i % 31 - 15) * 3.5f;
    expect_exact("n=2 k=32 w=i5 g=tensor s=f32", w);
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i % 16 - 5) * 0.125f;
    expect_exact("n=4 k=16 w=u4 g=row s=f16 z=float:f16", w);
    expect_exact("n=4 k=16 w=u4 g=row s=f16 z=rescale:bf16", w);
    expect_exact("n=4 k=16 w=u4 g=row s=e8m0 z=code", w);
    static const float e2m1[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    for (int i = 0; i < 64; i++)
        w[i] = (i & 8 ? -0.5f : 0.5f) * e2m1[i % 8];
    expect_exact("n=4 k=16 w=e2m1 g=row s=f16", w);
    expect_exact("n=4 k=16 w=e2m1 g=row s=e8m0", w);
    for (int i = 0; i < 64; i++)
        w[i] = 0.5f * nib_type_decode(NIB_NF4, (uint32_t)i);
    expect_exact("n=4 k=16 w=nf4 g=16 s=f16", w);
    for (int i = 0; i < 64; i++)
        w[i] = i % 3 ? 0.75f : -0.75f;
    expect_exact("n=4 k=16 w=i1 g=5 s=f16", w);
}

Test(quantize, codes_without_scales_stand_for_themselves)
{
    float w[8] = {-8, -7.4f, -0.5f, 0.5f, 1.5f, 6.6f, 99, -99};
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=8 w=i4 s=none");
    quantized(&o, w, &r);
    static const unsigned char expected[4] = {0x10, 0x88, 0xfa, 0x0f};
    cr_expect_arr_eq(codes, expected, 4);
    cr_expect_eq(r.alpha, 1.0f);
}

/* A published library clamped int4 to +8, which spilled into the neighbour. */
Test(quantize, the_greatest_weight_does_not_spill_into_its_neighbour)
{
    float w[16] = {7.4f, 0, 7.4f, 0, 7.6f, 0, 100, 0, -100, 0, 7, 7, 0, 0, 1e30f, 0};
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=16 w=i4 s=none");
    quantized(&o, w, &r);
    for (int i = 0; i < 16; i++)
        if (w[i] == 0)
            cr_expect_eq(codes[i / 2] >> (i % 2 * 4) & 15, 8, "element %d", i);
    cr_expect_eq(codes[3] & 15, 15);
    cr_expect_eq(codes[4] & 15, 0);
}

Test(quantize, symmetric_integers_use_the_side_that_loses_less)
{
    /* -8..7 times 1/2 has its long side negative, its negation positive: both are exact. */
    float w[16];
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=16 w=i4 g=row s=f16");
    for (int side = -1; side <= 1; side += 2) {
        for (int i = 0; i < 16; i++)
            w[i] = (float)side * (float)(i - 8) / 2;
        nib_quantize_report report = quantized(&o, w, &r);
        cr_expect(isinf(report.snr_db));
        cr_expect_eq(f16_at(scales, 0), side > 0 ? 0x3800 : 0xb800); /* +-0.5 */
    }
}

Test(quantize, rows_are_padded_to_whole_bytes_with_zero_bits)
{
    float w[6] = {0, 1, 2, 3, 4, 7};
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=2 k=3 w=u3 s=none");
    quantized(&o, w, &r);
    static const unsigned char row0[2] = {0x88, 0x00}; /* 0 1 2: 010 001 000 */
    static const unsigned char row1[2] = {0xe3, 0x01}; /* 3 4 7: 111 100 011 */
    cr_expect_arr_eq(codes, row0, 2);
    cr_expect_arr_eq(codes + 2, row1, 2);
    cr_expect_eq(codes[4], 0xaa, "nothing is written past the codes");
}

Test(quantize, mxfp4_follows_the_ocp_rule)
{
    /* absmax 7: floor(log2 7) - 2 = 0, so the scale is 1 and 7 saturates to 6; 5 ties to 4. */
    float w[64] = {7, 5, -0.25f, 0.75f, 2.5f, -3.5f};
    w[32] = 0.09f; /* second block: floor(log2 0.09) = -4, scale 2^-6; 0.09 * 64 = 5.76 -> 6 */
    w[33] = 0.03f; /* 1.92 -> 2 */
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=64 w=e2m1 g=32 s=e8m0");
    quantized(&o, w, &r);
    cr_expect_eq(scales[0], 127);
    cr_expect_eq(scales[1], 121);
    cr_expect_eq(codes[0], 0x67, "6, and 4 for the tie at 5");
    cr_expect_eq(codes[1], 0x28, "-0 for the tie at -0.25, 1 for the tie at 0.75");
    cr_expect_eq(codes[2], 0xe4, "2 for the tie at 2.5, -4 for the tie at -3.5");
    cr_expect_eq(codes[16], 0x47);
    cr_expect_eq(r.alpha, 1.0f);
}

Test(quantize, nvfp4_has_two_levels)
{
    /* alpha = 2688 / (448 * 6) = 1; the first block's scale is 2688 / 6 = 448, the largest e4m3;
     * the second's is 4.5 / 6 = 0.75. */
    float w[32] = {2688, 448, -224};
    w[16] = 4.5f;
    w[17] = 1.5f;
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=32 w=e2m1 g=16 s=e4m3");
    nib_quantize_report report = quantized(&o, w, &r);
    cr_expect_eq(r.alpha, 1.0f);
    cr_expect_eq(scales[0], 0x7e);
    cr_expect_eq(scales[1], 0x34);
    cr_expect_eq(codes[0], 0x27);
    cr_expect_eq(codes[1], 0x09);
    cr_expect_eq(codes[8], 0x47);
    cr_expect(isinf(report.snr_db));
    for (int i = 0; i < 32; i++)
        w[i] *= 0x1p-20f; /* alpha takes it all */
    quantized(&o, w, &r);
    cr_expect_eq(r.alpha, 0x1p-20f);
    cr_expect_eq(scales[0], 0x7e);
}

Test(quantize, scales_are_rounded_before_codes_are_chosen)
{
    /* 1/7 in bf16 is 0.142578125. Weights on that rounded grid are exact, and only there. */
    float w[16];
    for (int i = 0; i < 16; i++)
        w[i] = (float)(i % 15 - 7) * 0.142578125f;
    expect_exact("n=1 k=16 w=i4 g=row s=bf16", w);
    /* Halfway between two bf16 the scale is off by 1/256, half a step at 127: codes must answer to
     * what it became. */
    float v[2] = {127 * 1.0039f, 100.48f};
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=2 w=i8 g=row s=bf16");
    quantized(&o, v, &r);
    uint32_t bits = f16_at(scales, 0) << 16;
    float scale;
    memcpy(&scale, &bits, sizeof(scale));
    cr_expect_eq((int8_t)codes[1], (int8_t)lrintf(v[1] / scale));
}

Test(quantize, all_zero_groups_are_exact_in_every_type)
{
    static const char *const lines[] = {
        "n=2 k=9 w=i1 g=4 s=f16",        "n=2 k=9 w=i4 g=4 s=f16",
        "n=2 k=9 w=u4 g=4 s=f16 z=code", "n=2 k=9 w=u2 g=4 s=e4m3 z=float:f16",
        "n=2 k=9 w=nf4 g=4 s=bf16",      "n=2 k=9 w=e2m1 g=4 s=e8m0",
        "n=2 k=9 w=lut4 g=4 s=f16",      "n=2 k=9 w=i1 g=4 s=f32 z=rescale:f32",
        "n=2 k=9 w=e4m3 g=tensor s=f32", "n=2 k=9 w=u8 g=row s=f16",
        "n=2 k=9 w=e2m1 g=4 s=e4m3",
    };
    float w[18] = {0};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        expect_exact(lines[i], w);
}

Test(quantize, tiny_weights_do_not_make_zero_scales)
{
    float w[8] = {1e-9f, -2e-9f, 3e-9f, 0, 1e-12f, -1e-12f, 2e-9f, 1e-10f};
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=8 w=i4 g=row s=f16");
    nib_quantize_report report = quantized(&o, w, &r);
    cr_expect_eq(f16_at(scales, 0) & 0x7fff, 1, "the least f16");
    cr_expect_leq(report.abs_max, 3e-9 * 1.0001, "they round to 0");
    for (int i = 0; i < 8; i++)
        w[i] *= 1e-30f; /* subnormal floats */
    o = options_of("n=1 k=8 w=u4 g=row s=f32 z=float:f32");
    report = quantized(&o, w, &r);
    cr_expect(isfinite(report.abs_max));
}

Test(quantize, huge_weights_do_not_make_infinite_scales)
{
    float w[8] = {1e30f, -1e30f, 1, 2, FLT_MAX, -FLT_MAX, 0, 1};
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=8 w=i4 g=row s=f16");
    nib_quantize_report report = quantized(&o, w, &r);
    cr_expect_eq(f16_at(scales, 0) & 0x7fff, 0x7bff, "65504");
    cr_expect(isfinite(report.abs_max));
    o = options_of("n=1 k=8 w=u4 g=row s=f32 z=rescale:f32");
    report = quantized(&o, w, &r);
    cr_expect_leq(report.abs_max, FLT_MAX / 15.0 * 1.001, "half a step of the whole range");
}

Test(quantize, lut4_finds_sixteen_clusters)
{
    static const float cluster[16] = {-1,    -.8f, -.62f, -.5f, -.38f, -.29f, -.2f, -.11f,
                                      -.02f, .07f, .17f,  .28f, .41f,  .55f,  .75f, 1};
    test_random random = {test_seed(11)};
    float w[1024];
    for (int i = 0; i < 1024; i++)
        w[i] = cluster[i % 16] * 0.5f + 0.0005f * (float)test_random_unit(&random);
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=16 k=64 w=lut4 g=row s=f16");
    nib_quantize_report report = quantized(&o, w, &r);
    cr_expect_gt(report.snr_db, 50);
    for (int i = 0; i < 15; i++)
        cr_expect_lt(table[i], table[i + 1], "entries ascend");
    o = options_of("n=16 k=64 w=nf4 g=row s=f16");
    cr_expect_lt(quantized(&o, w, &r).snr_db, 40, "no fixed table does");
}

Test(quantize, percentile_ignores_the_outlier)
{
    float w[1000];
    for (int i = 0; i < 1000; i++)
        w[i] = (float)(i - 500) / 500;
    w[999] = 1000;
    nib_quantize_result r;
    nib_quantize_options o = options_of("n=1 k=1000 w=u4 g=row s=f32 z=float:f32");
    o.method = NIB_QUANTIZE_PERCENTILE;
    o.percentile = 99;
    quantized(&o, w, &r);
    float scale;
    memcpy(&scale, scales, sizeof(scale));
    cr_expect_float_eq(scale, 1.98f / 15, 0.001f);
    o.percentile = 100;
    quantized(&o, w, &r);
    memcpy(&scale, scales, sizeof(scale));
    cr_expect_float_eq(scale, 1001.0f / 15, 0.01f, "100 is min and max");
}

static void expect_refusal(const nib_quantize_options *o, const float *w, int64_t ldw,
                           nib_quantize_result result, nib_status status, const char *part)
{
    result.alpha = -77;
    memset(codes, 0xaa, sizeof(codes));
    cr_expect_eq(nib_quantize(o, w, ldw, &result), status, "%s", part);
    cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
    cr_expect_eq(result.alpha, -77.0f, "the output of a failed call is untouched");
    cr_expect_eq(codes[0], 0xaa);
}

Test(quantize, refuses_weights_that_are_not_finite_with_their_place)
{
    float w[24] = {0};
    nib_quantize_options o = options_of("n=3 k=7 w=i4 g=row s=f16");
    w[8 + 7] = NAN; /* padding beyond k is nobody's business */
    nib_quantize_result r = result_of();
    cr_expect_eq(nib_quantize(&o, w, 8, &r), NIB_OK);
    w[2 * 8 + 3] = INFINITY;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "w[2, 3] is inf");
    w[8 + 6] = NAN;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "w[1, 6] is");
}

Test(quantize, refuses_act_order)
{
    float w[8] = {0};
    nib_quantize_options o = options_of("n=1 k=8 w=i4 g=4 s=f16");
    o.weight.flags = NIB_WEIGHT_G_IDX;
    expect_refusal(&o, w, 8, result_of(), NIB_UNSUPPORTED, "NIB_WEIGHT_G_IDX");
}

Test(quantize, refuses_options_that_make_no_sense)
{
    float w[8] = {0};
    nib_quantize_options good = options_of("n=1 k=8 w=i4 g=4 s=f16"), o = good;
    o.method = 3;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "method is 3");
    o = good;
    o.percentile = 101;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "percentile is 101");
    o.percentile = -1;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "percentile is -1");
    o.percentile = NAN;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "percentile is");
    o = good;
    o.iterations = -1;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "iterations is -1");
    o = good;
    o.threads = -2;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "threads is -2");
    o = good;
    o.size = 8;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "nib_quantize_options.size is 8");
    o = good;
    o.weight.n = 0;
    expect_refusal(&o, w, 8, result_of(), NIB_INVALID, "n is 0");
    expect_refusal(NULL, w, 8, result_of(), NIB_INVALID, "nib_quantize_options is NULL");
}

Test(quantize, refuses_missing_arrays)
{
    float w[8] = {0};
    nib_quantize_options o = options_of("n=1 k=8 w=i4 g=4 s=f16");
    nib_quantize_result r = result_of();
    expect_refusal(&o, NULL, 8, r, NIB_INVALID, "w is NULL");
    expect_refusal(&o, w, 7, r, NIB_INVALID, "ldw is 7");
    r.codes = NULL;
    expect_refusal(&o, w, 8, r, NIB_INVALID, "result.codes is NULL");
    r = result_of();
    r.scales = NULL;
    expect_refusal(&o, w, 8, r, NIB_INVALID, "result.scales is NULL");
    o = options_of("n=1 k=8 w=u4 g=4 s=f16 z=code");
    r = result_of();
    r.zeros = NULL;
    expect_refusal(&o, w, 8, r, NIB_INVALID, "result.zeros is NULL");
    o = options_of("n=1 k=8 w=lut4 g=4 s=f16");
    r = result_of();
    r.table = NULL;
    expect_refusal(&o, w, 8, r, NIB_INVALID, "result.table is NULL");
    cr_expect_eq(nib_quantize(&o, w, 8, NULL), NIB_INVALID);
}

Test(quantize, a_lut_of_groups_of_very_different_size_is_finite)
{
    float w[35], entries[16];
    unsigned char plain[20];
    uint16_t steps[15], offsets[15];
    nib_quantize_options options = {
        .size = sizeof(options), .method = NIB_QUANTIZE_PERCENTILE, .threads = 1};
    nib_quantize_result result = {.size = sizeof(result),
                                  .codes = plain,
                                  .scales = steps,
                                  .zeros = offsets,
                                  .table = entries};
    options.weight.size = sizeof(options.weight);
    cr_assert_eq(nib_weight_desc_parse("n=5 k=7 w=lut4 g=3 s=bf16 z=float:f16", &options.weight),
                 NIB_OK);
    for (int i = 0; i < 35; i++)
        w[i] = i % 3 ? -1e-45f : 1e-8f;
    cr_assert_eq(nib_quantize(&options, w, 7, &result), NIB_OK, "%s", nib_last_message());
    for (int i = 0; i < 16; i++)
        cr_expect(isfinite(entries[i]), "entry %d is %g", i, entries[i]);
}
