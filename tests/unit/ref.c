/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle against hand-worked problems, and its bounds against a plain float kernel: they admit
 * honest rounding in any order and catch a single dropped term.
 */
#include "ref/ref.h"

#include "config/desc.h"
#include "config/dtype.h"
#include "support/problem.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static nib_gemm_desc desc_of(const char *line)
{
    nib_gemm_desc desc;
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK, "%s", nib_last_message());
    return desc;
}

static double one(const nib_ref_problem *problem)
{
    double out[16], bound[16];
    cr_assert_eq(nib_ref_gemm(problem, out, bound), NIB_OK, "%s", nib_last_message());
    return out[0];
}

/* Codes 1, 7, 12; scale 0.5; activations 1, 2, 3. */
static const uint8_t three_codes[] = {1, 7, 12};
static const float three_acts[] = {1, 2, 3}, half_scale[] = {0.5f};

static nib_ref_problem three(const nib_gemm_desc *desc)
{
    return (nib_ref_problem){.desc = desc,
                             .m = 1,
                             .codes = three_codes,
                             .scales = half_scale,
                             .alpha = 1,
                             .act = three_acts,
                             .lda = 3};
}

Test(ref, codes_without_zeros)
{
    nib_gemm_desc u4 = desc_of("n=1 k=3 w=u4 s=f32 a=f32"),
                  i4 = desc_of("n=1 k=3 w=i4 s=f32 a=f32");
    nib_ref_problem p = three(&u4);
    cr_expect_eq(one(&p), 0.5 * (1 + 14 + 36));
    p = three(&i4);
    cr_expect_eq(one(&p), 0.5 * (-7 - 2 + 12));
}

Test(ref, zeros_of_every_mode)
{
    static const float z[] = {1.5f};
    static const uint8_t code_zero[] = {9};
    nib_gemm_desc d = desc_of("n=1 k=3 w=u4 s=f32 z=float:f32 a=f32");
    nib_ref_problem p = three(&d);
    p.zeros = z;
    cr_expect_eq(one(&p), 0.5 * (-0.5 + 11 + 31.5));
    d = desc_of("n=1 k=3 w=u4 s=f32 z=rescale:f32 a=f32");
    cr_expect_eq(one(&p), (0.5 - 1.5) + 2 * (3.5 - 1.5) + 3 * (6 - 1.5));
    d = desc_of("n=1 k=3 w=u4 s=f32 z=code a=f32");
    p.zeros = code_zero;
    cr_expect_eq(one(&p), 0.5 * (-8 - 4 + 9));
    cr_expect_eq(nib_ref_weight(&p, 0, 2), 1.5);
}

Test(ref, a_ragged_group_and_act_order)
{
    static const float scales[] = {1, 10};
    static const int32_t g_idx[] = {1, 0, 1};
    nib_gemm_desc d = desc_of("n=1 k=3 w=u4 g=2 s=f32 a=f32");
    nib_ref_problem p = three(&d);
    p.scales = scales;
    cr_expect_eq(one(&p), 1 + 14 + 360);
    d = desc_of("n=1 k=3 w=u4 g=2 s=f32 wf=g_idx a=f32");
    p.g_idx = g_idx;
    cr_expect_eq(one(&p), 10 + 14 + 360);
}

Test(ref, one_scale_a_row_and_one_for_all)
{
    static const uint8_t codes[] = {1, 2, 3, 4};
    static const float acts[] = {1, 1}, scales[] = {2, 3};
    double out[2];
    nib_gemm_desc d = desc_of("n=2 k=2 w=u4 g=row s=f32 a=f32");
    nib_ref_problem p = {
        .desc = &d, .m = 1, .codes = codes, .scales = scales, .alpha = 1, .act = acts, .lda = 2};
    cr_assert_eq(nib_ref_gemm(&p, out, NULL), NIB_OK);
    cr_expect(out[0] == 6 && out[1] == 21);
    d = desc_of("n=2 k=2 w=u4 g=tensor s=f32 a=f32");
    cr_assert_eq(nib_ref_gemm(&p, out, NULL), NIB_OK);
    cr_expect(out[0] == 6 && out[1] == 14);
}

Test(ref, a_table_and_alpha_and_bias)
{
    float table[16] = {[1] = -1, [7] = 0.25f, [12] = 2};
    static const float bias[] = {100};
    nib_gemm_desc d = desc_of("n=1 k=3 w=lut4 s=none a=f32 b=f32");
    nib_ref_problem p = three(&d);
    p.table = table;
    p.alpha = 3;
    p.bias = bias;
    cr_expect_eq(one(&p), 3 * (-1 + 0.5 + 6) + 100);
}

Test(ref, act_scales_of_every_kind)
{
    uint8_t codes[33], act[33];
    static const uint8_t mx[] = {128, 126}; /* 2, 1/2 */
    static const float scale[] = {0.25f};
    memset(codes, 3, sizeof(codes));
    memset(act, 1, sizeof(act));
    nib_gemm_desc d = desc_of("n=1 k=33 w=u4 s=none a=i8 as=mx o=f32");
    nib_ref_problem p = {
        .desc = &d, .m = 1, .codes = codes, .alpha = 1, .act = act, .lda = 33, .act_scale = mx};
    cr_expect_eq(one(&p), 3 * (32 * 2 + 0.5));
    p.act_scale = scale;
    d = desc_of("n=1 k=33 w=u4 s=none a=i8 as=tensor o=f32");
    cr_expect_eq(one(&p), 33 * 3 * 0.25);
    d = desc_of("n=1 k=33 w=u4 s=none a=i8 as=row acc=i32 o=f32");
    cr_expect_eq(one(&p), 33 * 3 * 0.25);
}

Test(ref, integer_sums_wrap_within_a_group_only)
{
    enum { K = 2 * 140000 };
    static uint8_t codes[K];
    static int8_t act[K];
    double out, bound;
    memset(codes, 127, sizeof(codes));
    memset(act, 127, sizeof(act));
    int64_t sum = (int64_t)K * 127 * 127, half = sum / 2;
    nib_gemm_desc d = desc_of("n=1 k=280000 w=i8 s=none a=i8 acc=i32 o=i32");
    nib_ref_problem p = {.desc = &d, .m = 1, .codes = codes, .alpha = 1, .act = act, .lda = K};
    cr_assert_eq(nib_ref_gemm(&p, &out, &bound), NIB_OK);
    cr_expect_eq(out, (double)(sum - (INT64_C(1) << 32)));
    cr_expect_eq(bound, 0);
    static const float scales[] = {1, 1};
    d = desc_of("n=1 k=280000 w=i8 g=140000 s=f32 a=i8 acc=i32 o=f32");
    p.scales = scales;
    cr_expect_eq(one(&p), 2.0 * (double)(half - (INT64_C(1) << 32)));
}

Test(ref, epilogues)
{
    static const float act[] = {-1.25f};
    static const uint8_t two[] = {9, 10}; /* 1, 2 */
    nib_gemm_desc d = desc_of("n=2 k=1 w=i4 s=none a=f32 e=relu");
    nib_ref_problem p = {.desc = &d, .m = 1, .codes = two, .alpha = 1, .act = act, .lda = 1};
    double silu = -1.25 / (1 + exp(1.25));
    cr_expect_eq(one(&p), 0);
    d = desc_of("n=2 k=1 w=i4 s=none a=f32 e=silu");
    cr_expect_float_eq(one(&p), silu, 1e-15);
    d = desc_of("n=2 k=1 w=i4 s=none a=f32 e=gelu");
    cr_expect_float_eq(one(&p), -1.25 * (1 + erf(-1.25 / sqrt(2))) / 2, 1e-15);
    d = desc_of("n=2 k=1 w=i4 s=none a=f32 e=silu_gated");
    cr_expect_float_eq(one(&p), silu * -2.5, 1e-15);
}

Test(ref, bad_scales_reach_their_own_rows_only)
{
    static const uint8_t codes[] = {9, 9, 9, 9, 9, 9};
    static const float act[] = {1, 1}, scales[] = {1, NAN, INFINITY};
    double out[3], bound[3];
    nib_gemm_desc d = desc_of("n=3 k=2 w=i4 g=row s=f32 a=f32");
    nib_ref_problem p = {
        .desc = &d, .m = 1, .codes = codes, .scales = scales, .alpha = 1, .act = act, .lda = 2};
    cr_assert_eq(nib_ref_gemm(&p, out, bound), NIB_OK);
    cr_expect(out[0] == 2 && isnan(out[1]) && isnan(out[2]));
    cr_expect(bound[1] == 0 && isinf(bound[2]));
    float good[] = {2, NAN, -INFINITY}, bad[] = {2, INFINITY, NAN}, worse[] = {2, NAN, 3};
    cr_expect_eq(nib_ref_compare(&d, 1, out, bound, good, 3), NIB_OK);
    cr_expect_eq(nib_ref_compare(&d, 1, out, bound, bad, 3), NIB_INTERNAL);
    cr_expect_eq(nib_ref_compare(&d, 1, out, bound, worse, 3), NIB_INTERNAL);
}

Test(ref, overflow_of_the_cast_must_be_infinite)
{
    static const uint8_t codes[] = {15, 15};
    static const float act[] = {10000, 1000}, scale[] = {1};
    double out, bound;
    nib_gemm_desc d = desc_of("n=1 k=2 w=u4 g=tensor s=f32 a=f32 o=f16");
    nib_ref_problem p = {
        .desc = &d, .m = 1, .codes = codes, .scales = scale, .alpha = 1, .act = act, .lda = 2};
    cr_assert_eq(nib_ref_gemm(&p, &out, &bound), NIB_OK);
    uint16_t infinity = 0x7c00, largest = 0x7bff;
    cr_expect_eq(nib_ref_compare(&d, 1, &out, &bound, &infinity, 1), NIB_OK);
    cr_expect_eq(nib_ref_compare(&d, 1, &out, &bound, &largest, 1), NIB_INTERNAL);
}

Test(ref, refuses_missing_arrays_and_short_strides)
{
    double out = 7;
    nib_gemm_desc d = desc_of("n=1 k=3 w=u4 s=f32 a=f32");
    nib_ref_problem p = three(&d);
    p.scales = NULL;
    cr_expect_eq(nib_ref_gemm(&p, &out, NULL), NIB_INVALID);
    p = three(&d);
    p.lda = 2;
    cr_expect_eq(nib_ref_gemm(&p, &out, NULL), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "lda is 2"));
    cr_expect_eq(out, 7);
}

/* A plain float kernel: weights dequantised in f32, summed in order or in reverse, with one term
 * left out on request. */
typedef struct float_kernel {
    const test_problem *p;
    bool reverse;
    int64_t drop_m, drop_n, drop_k; /* -1: nothing */
} float_kernel;

static float kernel_element(const float_kernel *f, int64_t m, int64_t n)
{
    const nib_ref_problem *r = &f->p->ref;
    const nib_gemm_desc *d = r->desc;
    float sum = 0;
    for (int64_t i = 0; i < d->weight.k; i++) {
        int64_t k = f->reverse ? d->weight.k - 1 - i : i;
        if (m == f->drop_m && n == f->drop_n && k == f->drop_k)
            continue;
        float a = (float)nib_dtype_load(d->act_type, r->act, m * r->lda + k);
        sum += a * (float)nib_ref_weight(r, n, k);
    }
    return sum * r->alpha + (d->bias_type ? (float)nib_dtype_load(d->bias_type, r->bias, n) : 0);
}

static nib_status judge(const float_kernel *f, const double *expected, const double *bound)
{
    const nib_gemm_desc *d = f->p->ref.desc;
    int64_t count = f->p->given.m * d->weight.n;
    float *out = calloc((size_t)count, sizeof(*out));
    for (int64_t i = 0; i < count; i++)
        nib_dtype_store(d->out_type, out, i, kernel_element(f, i / d->weight.n, i % d->weight.n));
    nib_status status = nib_ref_compare(d, f->p->given.m, expected, bound, out, d->weight.n);
    free(out);
    return status;
}

static const char *const kernel_lines[] = {
    "n=24 k=64 w=i4 g=32 s=f16 a=f16 m=5 seed=3 f=exact_weights",
    "n=24 k=64 w=u4 g=16 s=f16 z=float:f16 a=f16 o=f32 m=5 seed=4 f=exact_weights",
    "n=24 k=67 w=u3 g=16 s=f32 z=code a=bf16 o=f16 b=f32 m=5 seed=5 f=exact_weights",
    "n=24 k=64 w=u8 g=64 s=bf16 z=rescale:f32 a=f32 m=5 seed=6",
    "n=9 k=4096 w=i4 g=32 s=f16 a=f16 m=3 seed=7 f=exact_weights",
    "n=9 k=4096 w=nf4 g=64 s=f32 a=f32 m=3 seed=8",
    "n=9 k=4096 w=i8 g=row s=f32 a=bf16 o=f32 m=3 seed=9 data=positive f=exact_weights",
    "n=24 k=256 w=u4 g=32 s=f32 z=float:f32 a=f32 m=5 seed=10 data=positive",
    "n=24 k=256 w=e4m3 g=tensor s=f32 a=f32 m=5 seed=11 data=outlier alpha=0.5",
    "n=24 k=128 w=i4 g=32 s=f16 a=f16 m=5 seed=12 data=tiny b=f32 f=exact_weights",
    "n=24 k=128 w=i4 g=32 s=f32 a=f16 m=5 seed=13 data=huge f=exact_weights",
    "n=24 k=1 w=i4 g=row s=f32 a=f16 m=5 seed=14 f=exact_weights",
};

/* Typical: the middle of the sizes of one element's terms. */
static int64_t typical_term(const nib_ref_problem *r, int64_t m, int64_t n)
{
    double sum = 0;
    int64_t best = 0;
    for (int64_t k = 0; k < r->desc->weight.k; k++)
        sum += fabs(nib_dtype_load(r->desc->act_type, r->act, m * r->lda + k) *
                    nib_ref_weight(r, n, k));
    double mean = sum / (double)r->desc->weight.k, least = INFINITY;
    for (int64_t k = 0; k < r->desc->weight.k; k++) {
        double size = fabs(nib_dtype_load(r->desc->act_type, r->act, m * r->lda + k) *
                           nib_ref_weight(r, n, k));
        if (fabs(size - mean) < least) {
            least = fabs(size - mean);
            best = k;
        }
    }
    return best;
}

static void check_kernel_line(const char *line)
{
    test_case given;
    test_problem p;
    cr_assert_eq(test_case_parse(line, &given), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(given.desc_status, NIB_OK, "%s", line);
    cr_assert_eq(test_problem_create(&given, &p), NIB_OK);
    size_t count = (size_t)(given.m * given.desc.weight.n);
    double *expected = calloc(count, sizeof(double)), *bound = calloc(count, sizeof(double));
    cr_assert_eq(nib_ref_gemm(&p.ref, expected, bound), NIB_OK);
    float_kernel f = {.p = &p, .drop_m = -1};
    cr_expect_eq(judge(&f, expected, bound), NIB_OK, "%s: %s", line, nib_last_message());
    f.reverse = true;
    cr_expect_eq(judge(&f, expected, bound), NIB_OK, "%s: %s", line, nib_last_message());
    f.drop_m = given.m / 2;
    f.drop_n = given.desc.weight.n / 3;
    f.drop_k = typical_term(&p.ref, f.drop_m, f.drop_n);
    if (given.data != TEST_HUGE && given.data != TEST_TINY)
        cr_expect_eq(judge(&f, expected, bound), NIB_INTERNAL, "%s: a dropped term goes unseen",
                     line);
    free(expected);
    free(bound);
    test_problem_destroy(&p);
}

Test(ref_bound, admits_float_kernels_and_catches_a_dropped_term)
{
    for (size_t i = 0; i < sizeof(kernel_lines) / sizeof(kernel_lines[0]); i++)
        check_kernel_line(kernel_lines[i]);
}

/* ---- tensor cores of 8-bit floats ---- */

static double exponent_unit(int exponent)
{
    return ldexp(1, exponent - 13);
}

/* Exponent of a number as its field says it. */
static int field_exponent(double x, int least)
{
    int exponent;
    frexp(x, &exponent);
    return exponent - 1 < least ? least : exponent - 1;
}

/* One block of 32 products on top of a sum: all cut to 13 bits behind the leading one of the
 * largest, so is the result. `a` are activations, `c` codes; `least` the exponents of their least
 * normal numbers. */
static double coarse_block(double sum, const double *a, const double *c, int count,
                           const int least[2])
{
    int most = sum != 0 ? field_exponent(sum, -1000) : -1000;
    for (int i = 0; i < count; i++) {
        int exponent = field_exponent(a[i], least[0]) + field_exponent(c[i], least[1]);
        if (a[i] * c[i] != 0 && exponent > most)
            most = exponent;
    }
    double unit = exponent_unit(most), out = trunc(sum / unit) * unit;
    for (int i = 0; i < count; i++)
        out += trunc(a[i] * c[i] / unit) * unit;
    unit = exponent_unit(field_exponent(out, -1000));
    return out == 0 ? 0 : trunc(out / unit) * unit;
}

/* A kernel on them: each group's sum, at most 128 columns of it, goes to f32 and is scaled there.
 */
static float coarse_element(const float_kernel *f, int64_t m, int64_t n)
{
    const nib_ref_problem *r = &f->p->ref;
    const nib_weight_desc *w = &r->desc->weight;
    int64_t group = nib_desc_group_size(w);
    int least[2] = {r->desc->act_type == NIB_E4M3 ? -6 : -14, -6};
    bool per_row = r->desc->act_scale == NIB_ACT_SCALE_ROW;
    float total = 0;
    for (int64_t from = 0, to; from < w->k; from = to) {
        double a[32], c[32], sum = 0;
        int64_t end = (from / group + 1) * group;
        to = from + 128 < end ? from + 128 : end < w->k ? end : w->k;
        for (int64_t block = from; block < to; block += 32) {
            int count = (int)(to - block < 32 ? to - block : 32);
            for (int i = 0; i < count; i++) {
                bool drop = m == f->drop_m && n == f->drop_n && block + i == f->drop_k;
                a[i] = nib_dtype_load(r->desc->act_type, r->act, m * r->lda + block + i);
                c[i] = drop ? 0 : nib_dtype_decode(w->type, r->codes[n * w->k + block + i]);
            }
            sum = coarse_block(sum, a, c, count, least);
        }
        int64_t at = w->group == NIB_GROUP_TENSOR ? 0 : n * nib_desc_groups(w) + from / group;
        total += (float)sum * (float)nib_dtype_load(w->scale_type, r->scales, at);
    }
    return total * (per_row ? (float)nib_dtype_load(NIB_F32, r->act_scale, m) : 1.0f);
}

static nib_status judge_coarse(const float_kernel *f, const double *expected, const double *bound)
{
    const nib_gemm_desc *d = f->p->ref.desc;
    int64_t count = f->p->given.m * d->weight.n;
    float *out = calloc((size_t)count, sizeof(*out));
    for (int64_t i = 0; i < count; i++)
        out[i] = coarse_element(f, i / d->weight.n, i % d->weight.n);
    nib_status status = nib_ref_compare(d, f->p->given.m, expected, bound, out, d->weight.n);
    free(out);
    return status;
}

/* Activations as a quantizer leaves them: values of all sizes, the largest of a row at the top of
 * the format. */
static void fill_coarse(const test_problem *p, bool positive)
{
    const nib_gemm_desc *d = p->ref.desc;
    test_random random = {p->given.seed};
    double most = d->act_type == NIB_E4M3 ? 448 : 57344;
    for (int64_t m = 0; m < p->given.m; m++)
        for (int64_t k = 0; k < d->weight.k; k++) {
            double x = test_random_unit(&random) + test_random_unit(&random) +
                       test_random_unit(&random) + test_random_unit(&random);
            nib_dtype_store(d->act_type, p->act, m * p->ref.lda + k,
                            most / 4 * (positive ? fabs(x) : x));
        }
}

static void check_coarse_line(const char *line)
{
    test_case given;
    test_problem p;
    cr_assert_eq(test_case_parse(line, &given), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(given.desc_status, NIB_OK, "%s", line);
    cr_assert_eq(test_problem_create(&given, &p), NIB_OK);
    bool positive = given.data == TEST_POSITIVE;
    fill_coarse(&p, positive);
    size_t count = (size_t)(given.m * given.desc.weight.n);
    double *expected = calloc(count, sizeof(double)), *bound = calloc(count, sizeof(double));
    cr_assert_eq(nib_ref_gemm(&p.ref, expected, bound), NIB_OK);
    float_kernel f = {.p = &p, .drop_m = -1};
    cr_expect_eq(judge_coarse(&f, expected, bound), NIB_OK, "%s: %s", line, nib_last_message());
    f.drop_m = given.m / 2;
    f.drop_n = given.desc.weight.n / 3;
    f.drop_k = typical_term(&p.ref, f.drop_m, f.drop_n);
    /* Where all terms have one sign, a sum as large as all of them hides one of hundreds. */
    if (!positive || given.desc.weight.k <= 128)
        cr_expect_eq(judge_coarse(&f, expected, bound), NIB_INTERNAL,
                     "%s: a dropped term goes unseen", line);
    free(expected);
    free(bound);
    test_problem_destroy(&p);
}

static const char *const coarse_lines[] = {
    "n=24 k=128 w=i4 g=128 s=f16 a=e4m3 as=row o=f32 m=5 seed=3",
    "n=24 k=1024 w=i4 g=128 s=f16 a=e4m3 as=row o=f32 m=5 seed=4",
    "n=24 k=4096 w=i4 g=128 s=f16 a=e4m3 as=row o=f32 m=5 seed=5",
    "n=24 k=4096 w=u4 g=row s=f32 a=e4m3 o=f32 m=5 seed=6",
    "n=24 k=4096 w=e2m1 g=32 s=f16 a=e4m3 as=row o=f32 m=5 seed=7",
    "n=24 k=2048 w=i4 g=64 s=bf16 a=e5m2 as=row o=f32 m=5 seed=8",
    "n=24 k=1000 w=i5 g=tensor s=f32 a=e4m3 o=f32 m=5 seed=9",
    "n=24 k=128 w=u4 g=128 s=f16 a=e4m3 as=row o=f32 m=5 seed=10 data=positive",
    "n=24 k=4096 w=u4 g=128 s=f16 a=e4m3 as=row o=f32 m=5 seed=11 data=positive",
};

Test(ref_bound, admits_tensor_cores_of_8_bit_floats_and_catches_a_dropped_term)
{
    for (size_t i = 0; i < sizeof(coarse_lines) / sizeof(coarse_lines[0]); i++)
        check_coarse_line(coarse_lines[i]);
}

Test(ref_bound, other_products_stay_as_exact_as_they_were)
{
    static const char *const lines[] = {
        "n=8 k=64 w=i4 g=32 s=f16 a=f16 o=f32 m=3 seed=1 f=exact_weights",
        "n=8 k=64 w=i4 g=32 s=f16 a=i8 o=f32 m=3 seed=1",
        "n=8 k=64 w=u6 g=32 s=f16 a=e4m3 o=f32 m=3 seed=1",
        "n=8 k=64 w=nf4 g=32 s=f16 a=e4m3 o=f32 m=3 seed=1"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        test_case given;
        test_problem p;
        double expected[24], bound[24];
        cr_assert_eq(test_case_parse(lines[i], &given), NIB_OK);
        cr_assert_eq(test_problem_create(&given, &p), NIB_OK);
        cr_assert_eq(nib_ref_gemm(&p.ref, expected, bound), NIB_OK);
        for (int j = 0; j < 24; j++)
            cr_expect_lt(bound[j], 1e-4, "%s: %g", lines[i], bound[j]);
        test_problem_destroy(&p);
    }
}

Test(ref_bound, the_norm_catches_what_each_element_hides)
{
    enum { COUNT = 100 };
    double expected[COUNT], bound[COUNT];
    float out[COUNT];
    nib_gemm_desc d = desc_of("n=10 k=64 w=i4 s=f16 a=f32");
    for (int i = 0; i < COUNT; i++) {
        expected[i] = 1;
        bound[i] = 1e-3;
        out[i] = 1.0008f;
    }
    cr_expect_eq(nib_ref_compare(&d, 10, expected, bound, out, 10), NIB_INTERNAL);
    cr_expect(strstr(nib_last_message(), "systematic"));
    cr_expect_eq(nib_ref_compare(&d, 2, expected, bound, out, 10), NIB_OK);
}
