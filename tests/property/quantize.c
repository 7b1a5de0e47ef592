/* SPDX-License-Identifier: Apache-2.0
 *
 * What every quantiser promises, over all weight types, zero modes, scale types, groups and odd
 * shapes: errors within half a step of the range codes must cover, the same bits from any number of
 * threads, nothing written past the arrays, and HQQ no worse than rounding.
 */
#include "support/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <nibblas/nibblas.h>
#include <stdlib.h>
#include <string.h>

static const nib_type weight_types[] = {NIB_U1,   NIB_U2,   NIB_U3,   NIB_U4,   NIB_U5,  NIB_U6,
                                        NIB_U7,   NIB_U8,   NIB_I1,   NIB_I2,   NIB_I3,  NIB_I4,
                                        NIB_I5,   NIB_I6,   NIB_I7,   NIB_I8,   NIB_NF4, NIB_E2M1,
                                        NIB_E4M3, NIB_E5M2, NIB_E3M2, NIB_E2M3, NIB_LUT4};
static const nib_type scale_types[] = {NIB_F16, NIB_BF16, NIB_F32, NIB_E8M0, NIB_E4M3};
static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 130}, {9, 33}};
static const int64_t groups[] = {NIB_GROUP_TENSOR, NIB_GROUP_ROW, 1, 3, 32};

enum { GUARD = 16 };
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

typedef struct arrays {
    unsigned char *memory[3];
    size_t bytes[3];
    float table[16];
    nib_quantize_result result;
} arrays;

static void take(arrays *a, const nib_weight_desc *d)
{
    if (nib_weight_desc_bytes(d, &a->bytes[0], &a->bytes[1], &a->bytes[2], NULL))
        cr_assert_fail("%s", nib_last_message());
    for (int i = 0; i < 3; i++) {
        a->memory[i] = malloc(a->bytes[i] + GUARD);
        if (!a->memory[i])
            cr_assert_fail("no memory");
        memset(a->memory[i], 0xc3, a->bytes[i] + GUARD);
    }
    a->result = (nib_quantize_result){.size = sizeof(a->result),
                                      .codes = a->memory[0],
                                      .scales = a->memory[1],
                                      .zeros = a->memory[2],
                                      .table = a->table};
}

/* Criterion's assertions are slow, and cases are many: they speak up only on failure. */
static void expect_guards(const arrays *a, const char *line)
{
    for (int i = 0; i < 3; i++)
        for (size_t b = 0; b < GUARD; b++)
            if (a->memory[i][a->bytes[i] + b] != 0xc3)
                cr_expect_fail("%s: written past array %d", line, i);
}

static void drop(arrays *a)
{
    for (int i = 0; i < 3; i++)
        free(a->memory[i]);
}

/* Normal, and with heavy tails: the ratio of two normals cut at 30. */
static float draw(test_random *random, bool heavy)
{
    double normal[2];
    for (int j = 0; j < 2; j++) {
        normal[j] = 0;
        for (int i = 0; i < 12; i++)
            normal[j] += test_random_unit(random) / 2;
    }
    double x = heavy ? normal[0] / fmax(fabs(normal[1]), 0.03) : normal[0];
    return (float)(0.05 * fmax(-30, fmin(30, x)));
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The widest gap between neighbouring values, and the greatest value, of a weight type. */
static void grid_of(nib_type type, double *gap, double *high)
{
    float value[256];
    size_t count = 0;
    for (uint32_t code = 0; code < 1u << nib_type_bits(type); code++)
        if (isfinite(nib_type_decode(type, code)))
            value[count++] = nib_type_decode(type, code);
    qsort(value, count, sizeof(value[0]), ascending);
    *gap = 0;
    *high = count ? value[count - 1] : 0;
    for (size_t i = 1; i < count; i++)
        *gap = fmax(*gap, value[i] - value[i - 1]);
}

/* Half of the widest gap, when codes span from -absmax to absmax, with what rounding the scale can
 * add, and what may be cut off where that loses less on the whole: up to half of the range between
 * two powers of two, and one step of the short side of symmetric integers. */
static double error_bound(const nib_weight_desc *d, double absmax)
{
    double gap, high, slack = 1.02, cut = 1e-6;
    grid_of(d->type, &gap, &high);
    if (d->scale_type == NIB_E4M3) {
        slack = 1.13;
        cut = 0.125;
    }
    if (d->scale_type == NIB_E8M0) {
        slack = 2;
        cut = 0.5;
    }
    if (d->scale_type == NIB_BF16)
        cut = 1.0 / 256;
    if (d->zero == NIB_ZERO_NONE && d->type >= NIB_I2 && d->type <= NIB_I8)
        cut += 1 / (high + 1);
    bool is_unsigned = d->type >= NIB_U1 && d->type <= NIB_U8;
    if (is_unsigned && d->zero == NIB_ZERO_NONE)
        return absmax; /* one side is all lost */
    if (d->type == NIB_LUT4 || d->type == NIB_I1)
        return 2 * absmax;
    double span = is_unsigned ? high : 2 * high;
    return fmax(slack * gap / 2 * 2 * absmax / span, gap * absmax / span + cut * absmax);
}

static void check_case(const nib_quantize_options *o, const float *w, int64_t ldw, double absmax)
{
    char line[320];
    arrays a;
    nib_quantize_report report = {.size = sizeof(report)};
    nib_weight_desc_print(&o->weight, line, sizeof(line), NULL);
    take(&a, &o->weight);
    if (nib_quantize(o, w, ldw, &a.result) ||
        nib_quantize_measure(&o->weight, &a.result, w, ldw, &report))
        cr_assert_fail("%s: %s", line, nib_last_message());
    expect_guards(&a, line);
    double bound = error_bound(&o->weight, absmax);
    if (o->method == NIB_QUANTIZE_RTN && !(report.abs_max <= bound))
        cr_expect_fail("%s: error %g, absmax %g", line, report.abs_max, absmax);
    bool one_sided = o->weight.zero == NIB_ZERO_NONE && o->weight.type <= NIB_U8;
    /* Coarser ranges may lose to all zeros. */
    if (nib_type_bits(o->weight.type) > 2 && !one_sided && !(report.snr_db > 0))
        cr_expect_fail("%s: %g dB", line, report.snr_db);
    if (report.count != o->weight.n * o->weight.k)
        cr_expect_fail("%s: %lld weights counted", line, (long long)report.count);
    drop(&a);
}

static void check_shape(nib_quantize_options *o, test_random *random)
{
    int64_t ldw = o->weight.k + 3;
    float *w = malloc((size_t)(o->weight.n * ldw) * sizeof(*w));
    double absmax = 0;
    if (!w)
        cr_assert_fail("no memory");
    for (int64_t r = 0; r < o->weight.n; r++)
        for (int64_t i = 0; i < ldw; i++) {
            w[r * ldw + i] = i < o->weight.k ? draw(random, false) : NAN;
            if (i < o->weight.k)
                absmax = fmax(absmax, fabsf(w[r * ldw + i]));
        }
    for (o->method = NIB_QUANTIZE_RTN; o->method <= NIB_QUANTIZE_HQQ; o->method++)
        check_case(o, w, ldw, absmax);
    free(w);
}

/* All scale types, zero modes and groups of one weight type. */
static void check_type(nib_type type, uint64_t seed)
{
    test_random random = {seed};
    for (size_t s = 0; s < COUNT_OF(scale_types); s++)
        for (nib_zero zero = NIB_ZERO_NONE; zero <= NIB_ZERO_CODE; zero++)
            for (size_t g = 0; g < COUNT_OF(groups); g++)
                for (size_t i = 0; i < COUNT_OF(shapes); i++) {
                    nib_quantize_options o = {.size = sizeof(o), .threads = 1};
                    o.weight = (nib_weight_desc){.size = sizeof(o.weight),
                                                 .n = shapes[i][0],
                                                 .k = shapes[i][1],
                                                 .group = groups[g],
                                                 .type = type,
                                                 .scale_type = scale_types[s],
                                                 .zero = zero};
                    if (zero == NIB_ZERO_FLOAT || zero == NIB_ZERO_RESCALE)
                        o.weight.zero_type = g % 2 ? NIB_F16 : NIB_F32;
                    bool is_unsigned = type >= NIB_U1 && type <= NIB_U8;
                    if ((zero == NIB_ZERO_CODE && !is_unsigned) || groups[g] > o.weight.k)
                        continue;
                    check_shape(&o, &random);
                }
}

Test(quantize_property, errors_stay_within_half_a_step_whatever_the_description)
{
    uint64_t seed = test_seed(2024);
    for (size_t t = 0; t < COUNT_OF(weight_types); t++)
        check_type(weight_types[t], seed + t);
}

static double snr_of(nib_quantize_options *o, const float *w)
{
    arrays a;
    nib_quantize_report report = {.size = sizeof(report)};
    take(&a, &o->weight);
    cr_assert_eq(nib_quantize(o, w, o->weight.k, &a.result), NIB_OK);
    cr_assert_eq(nib_quantize_measure(&o->weight, &a.result, w, o->weight.k, &report), NIB_OK);
    drop(&a);
    return report.snr_db;
}

Test(quantize_property, hqq_gains_over_rounding)
{
    static const struct {
        const char *line;
        double gain; /* dB, at least */
    } cases[] = {
        {"n=64 k=256 w=u4 g=64 s=f16 z=float:f16", 0.3},
        {"n=64 k=256 w=u4 g=64 s=f16 z=rescale:f16", 0.3},
        {"n=64 k=256 w=u4 g=64 s=f16 z=code", 0.1},
        {"n=64 k=256 w=u2 g=64 s=f16 z=float:f16", 1},
        {"n=64 k=256 w=u2 g=32 s=f16 z=float:bf16", 1},
        {"n=64 k=256 w=u2 g=64 s=f16 z=code", 0.5},
        {"n=64 k=256 w=i4 g=64 s=f16", 0.1},
        {"n=64 k=256 w=i2 g=64 s=f16", 0.2},
        {"n=64 k=256 w=u2 g=tensor s=f32 z=float:f32", 1},
        {"n=64 k=256 w=nf4 g=64 s=f16", 0},
        {"n=64 k=256 w=e2m1 g=16 s=e4m3", 0},
    };
    static float w[64 * 256];
    test_random random = {test_seed(7)};
    for (int heavy = 0; heavy < 2; heavy++) {
        for (size_t i = 0; i < COUNT_OF(w); i++)
            w[i] = draw(&random, heavy);
        for (size_t c = 0; c < COUNT_OF(cases); c++) {
            nib_quantize_options o = {.size = sizeof(o), .threads = 2};
            o.weight.size = sizeof(o.weight);
            cr_assert_eq(nib_weight_desc_parse(cases[c].line, &o.weight), NIB_OK);
            double rtn = snr_of(&o, w);
            o.method = NIB_QUANTIZE_HQQ;
            double hqq = snr_of(&o, w);
            cr_expect_geq(hqq, rtn + cases[c].gain, "%s, %s tails: HQQ %.2f dB, RTN %.2f dB",
                          cases[c].line, heavy ? "heavy" : "light", hqq, rtn);
        }
    }
}

Test(quantize_property, the_number_of_threads_changes_no_bit)
{
    enum { ROWS = 211, COLS = 501 };
    static float w[ROWS * COLS];
    static const char *const lines[] = {
        "n=211 k=501 w=u4 g=tensor s=f32 z=float:f32", "n=211 k=501 w=lut4 g=64 s=f16",
        "n=211 k=501 w=u3 g=32 s=f16 z=rescale:f16", "n=211 k=501 w=e2m1 g=16 s=e4m3",
        "n=211 k=501 w=i1 g=tensor s=f32"};
    test_random random = {test_seed(31)};
    for (size_t i = 0; i < COUNT_OF(w); i++)
        w[i] = draw(&random, true);
    for (size_t c = 0; c < 3 * COUNT_OF(lines); c++) {
        nib_quantize_options o = {.size = sizeof(o), .method = (nib_quantizer)(c % 3)};
        o.weight.size = sizeof(o.weight);
        cr_assert_eq(nib_weight_desc_parse(lines[c / 3], &o.weight), NIB_OK);
        arrays one, many;
        take(&one, &o.weight);
        take(&many, &o.weight);
        o.threads = 1;
        cr_assert_eq(nib_quantize(&o, w, COLS, &one.result), NIB_OK);
        o.threads = 7;
        cr_assert_eq(nib_quantize(&o, w, COLS, &many.result), NIB_OK);
        for (int i = 0; i < 3; i++)
            cr_expect_arr_eq(one.memory[i], many.memory[i], one.bytes[i], "%s", lines[c / 3]);
        cr_expect_eq(one.result.alpha, many.result.alpha);
        if (o.weight.type == NIB_LUT4)
            cr_expect_arr_eq(one.table, many.table, sizeof(one.table));
        drop(&one);
        drop(&many);
    }
}

Test(quantize_property, exact_quantiles_equal_those_of_sorted_weights)
{
    /* The scale of u8 with float zeros is (q_high - q_low) / 255: read the quantiles off it. */
    enum { COUNT = 777 };
    float w[COUNT];
    for (int i = 0; i < COUNT; i++)
        w[i] = (float)(i * 389 % COUNT) / COUNT - 0.5f;
    nib_quantize_options o = {
        .size = sizeof(o), .method = NIB_QUANTIZE_PERCENTILE, .percentile = 90};
    o.weight.size = sizeof(o.weight);
    cr_assert_eq(nib_weight_desc_parse("n=1 k=777 w=u8 g=row s=f32 z=float:f32", &o.weight),
                 NIB_OK);
    arrays a;
    take(&a, &o.weight);
    cr_assert_eq(nib_quantize(&o, w, COUNT, &a.result), NIB_OK);
    float scale;
    memcpy(&scale, a.memory[1], sizeof(scale));
    double at = 0.05 * (COUNT - 1), low = at / COUNT, high = (COUNT - 1 - at) / COUNT;
    cr_expect_float_eq(scale, (high - low) / 255, 1e-6);
    drop(&a);
}
