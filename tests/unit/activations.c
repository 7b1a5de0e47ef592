/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits: every type and both kinds of scale against the oracle, at any alignment
 * and width, with values that are no numbers; the same bits from every device; and products of what
 * comes out. The device is the CPU; NIB_TEST_DEVICE names another, cuda:0 for instance.
 */
#include "config/dtype.h"
#include "ref/ref.h"
#include "support/canary.h"
#include "support/problem.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGINS NIB_BINARY_DIR "/lib/test-backends"

enum { POISON = 0xa5 };

static nib_context *ctx;
static nib_device *dev, *cpu;

static void begin(void)
{
    const char *path = getenv("NIB_BACKEND_PATH"), *asked = getenv("NIB_TEST_DEVICE");
    nib_context_options options = {.size = sizeof(options), .backend_path = path ? path : PLUGINS};
    cr_assert_eq(nib_context_create(&options, &ctx), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_device_open(ctx, "cpu", &cpu), NIB_OK);
    cr_assert_eq(nib_device_open(ctx, asked ? asked : "check", &dev), NIB_OK, "%s",
                 nib_last_message());
}

static void end(void)
{
    nib_device_close(dev);
    nib_device_close(cpu);
    nib_context_destroy(ctx);
}

TestSuite(activations, .init = begin, .fini = end, .timeout = 300);

static const nib_type froms[] = {NIB_F32, NIB_F16, NIB_BF16}, tos[] = {NIB_I8, NIB_E4M3, NIB_E5M2};

/* A call on a device, and its arrays on the host. */
typedef struct call {
    nib_act_quantizer_desc desc;
    nib_act_quantize_args host; /* arrays in the canaries' images */
    test_canary act, out, scale;
} call;

static void make_call(nib_device *on, nib_type from, nib_type to, nib_act_scale scale, int64_t m,
                      int64_t k, int64_t more, call *c)
{
    size_t bytes = (size_t)nib_type_bits(from) / 8, shift = (size_t)more;
    *c =
        (call){.desc = {.size = sizeof(c->desc), .from = from, .to = to, .scale = scale},
               .host = {.size = sizeof(c->host), .m = m, .k = k, .lda = k + more, .ldo = k + more}};
    size_t cells = (size_t)(m * c->host.lda);
    cr_assert_eq(test_canary_create(on, cells * bytes, shift * bytes, &c->act), NIB_OK);
    cr_assert_eq(test_canary_create(on, cells, shift, &c->out), NIB_OK);
    cr_assert_eq(test_canary_create(on, (size_t)m * sizeof(float), 0, &c->scale), NIB_OK);
    cr_assert_eq(test_canary_poison(&c->act, POISON), NIB_OK);
    cr_assert_eq(test_canary_poison(&c->out, POISON), NIB_OK);
    cr_assert_eq(test_canary_poison(&c->scale, POISON), NIB_OK);
    c->host.act = test_canary_host(&c->act);
    c->host.out = test_canary_host(&c->out);
    c->host.scale = (float *)(void *)test_canary_host(&c->scale);
}

static void free_call(call *c)
{
    test_canary_destroy(&c->act);
    test_canary_destroy(&c->out);
    test_canary_destroy(&c->scale);
}

static void store(const call *c, int64_t m, int64_t k, double x)
{
    nib_dtype_store(c->desc.from, test_canary_host(&c->act), m * c->host.lda + k, x);
}

/* Rows of very different size; some of zeros, of one outlier, of values near ties, tiny ones. */
static void fill(const call *c, test_random *random)
{
    for (int64_t m = 0; m < c->host.m; m++) {
        double size = ldexp(1, (int)test_random_below(random, 24) - 12);
        int kind = (int)test_random_below(random, 5);
        for (int64_t k = 0; k < c->host.k; k++) {
            double x = size * test_random_unit(random);
            if (kind == 1)
                x = 0;
            if (kind == 2 && k % 97 == 5)
                x *= 1000;
            if (kind == 3)
                x = (k % 254 - 127 + 0.5) * size;
            if (kind == 4)
                x = c->desc.from == NIB_F16 ? x * 0x1p-14 : ldexp(x, -138);
            store(c, m, k, x);
        }
    }
    if (c->desc.scale == NIB_ACT_SCALE_TENSOR)
        c->host.scale[0] = 0.01f;
}

/* Runs the call where its canaries are and brings all back. */
static void run(nib_device *on, call *c)
{
    nib_act_quantizer *quantizer = NULL;
    int64_t where;
    cr_assert_eq(nib_act_quantizer_create(on, &c->desc, &quantizer), NIB_OK, "%s",
                 nib_last_message());
    cr_assert_eq(test_canary_upload(&c->act), NIB_OK);
    cr_assert_eq(test_canary_upload(&c->scale), NIB_OK);
    nib_act_quantize_args args = c->host;
    args.act = test_canary_device(&c->act);
    args.out = test_canary_device(&c->out);
    args.scale = test_canary_device(&c->scale);
    cr_assert_eq(nib_quantize_activations(quantizer, &args), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_stream_synchronize(on, NULL), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(test_canary_download(&c->out), NIB_OK);
    cr_assert_eq(test_canary_download(&c->scale), NIB_OK);
    cr_expect(test_canary_intact(&c->out, POISON, &where), "byte %ld beside out was written",
              (long)where);
    cr_expect(test_canary_intact(&c->scale, POISON, &where), "byte %ld beside scale was written",
              (long)where);
    for (int64_t m = 0; m < c->host.m; m++)
        for (int64_t k = c->host.k; k < c->host.ldo; k++)
            cr_expect_eq(test_canary_host(&c->out)[m * c->host.ldo + k], POISON,
                         "row %ld was written beyond its end", (long)m);
    nib_act_quantizer_destroy(quantizer);
}

static void expect_right(const call *c)
{
    cr_expect_eq(nib_ref_quantize_check(&c->desc, &c->host), NIB_OK,
                 "%s to %s, %s scale, %ld x %ld: %s", nib_type_name(c->desc.from),
                 nib_type_name(c->desc.to), c->desc.scale == NIB_ACT_SCALE_ROW ? "row" : "tensor",
                 (long)c->host.m, (long)c->host.k, nib_last_message());
}

/* The same call on the CPU gives the same bytes. */
static void expect_same_on_cpu(const call *c)
{
    call own;
    make_call(cpu, c->desc.from, c->desc.to, c->desc.scale, c->host.m, c->host.k,
              c->host.lda - c->host.k, &own);
    memcpy(own.act.image, c->act.image, c->act.bytes);
    if (c->desc.scale == NIB_ACT_SCALE_TENSOR)
        own.host.scale[0] = c->host.scale[0];
    run(cpu, &own);
    cr_expect_arr_eq(own.out.image, c->out.image, c->out.bytes);
    cr_expect_arr_eq(own.scale.image, c->scale.image, c->scale.bytes);
    free_call(&own);
}

static void for_all(void (*use)(nib_type from, nib_type to, nib_act_scale scale))
{
    for (int f = 0; f < 3; f++)
        for (int t = 0; t < 3; t++) {
            use(froms[f], tos[t], NIB_ACT_SCALE_ROW);
            use(froms[f], tos[t], NIB_ACT_SCALE_TENSOR);
        }
}

static void check_shapes(nib_type from, nib_type to, nib_act_scale scale)
{
    /* k, and by how much rows and their begin are off: tails, misaligned rows, rows of more than a
     * block keeps. */
    static const int64_t shapes[][3] = {{1, 1, 0},   {9, 31, 0},   {9, 96, 0},   {5, 256, 3},
                                        {3, 250, 8}, {2, 4111, 1}, {2, 5000, 0}, {40, 512, 16}};
    test_random random = {(uint64_t)(from * 100 + to * 10 + scale)};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        call c;
        make_call(dev, from, to, scale, shapes[i][0], shapes[i][1], shapes[i][2], &c);
        fill(&c, &random);
        run(dev, &c);
        expect_right(&c);
        expect_same_on_cpu(&c);
        free_call(&c);
    }
}

Test(activations, every_type_shape_and_scale_is_as_the_oracle_says)
{
    for_all(check_shapes);
}

static void check_strange(nib_type from, nib_type to, nib_act_scale scale)
{
    static const double strange[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 3e38, -3e38, 1e-38};
    enum { COUNT = sizeof(strange) / sizeof(strange[0]), WIDTH = 24 };
    call c;
    make_call(dev, from, to, scale, COUNT + 2, WIDTH, 0, &c);
    for (int64_t m = 0; m < c.host.m; m++)
        for (int64_t k = 0; k < WIDTH; k++)
            store(&c, m, k, m < COUNT && k == 7 ? strange[m] : m < COUNT + 1 ? (double)k - 12 : 0);
    store(&c, COUNT, 3, NAN); /* and an infinity with it: NaN wins */
    store(&c, COUNT, 4, INFINITY);
    if (scale == NIB_ACT_SCALE_TENSOR)
        c.host.scale[0] = 0.25f;
    run(dev, &c);
    expect_right(&c);
    expect_same_on_cpu(&c);
    if (scale == NIB_ACT_SCALE_ROW) {
        cr_expect(isnan(c.host.scale[0]) && isnan(c.host.scale[COUNT]));
        cr_expect(isinf(c.host.scale[1]) && isinf(c.host.scale[2]));
        cr_expect_eq(c.host.scale[COUNT + 1], 0x1p-126f, "a row of zeros");
    }
    free_call(&c);
}

Test(activations, what_is_no_number_stays_none)
{
    for_all(check_strange);
}

static void check_bad_scales(nib_type from, nib_type to, nib_act_scale scale)
{
    static const float scales[] = {0, -0.5f, NAN, INFINITY, 0x1p-149f, 0x1p100f};
    test_random random = {77};
    for (size_t i = 0; scale == NIB_ACT_SCALE_TENSOR && i < sizeof(scales) / sizeof(scales[0]);
         i++) {
        call c;
        make_call(dev, from, to, scale, 3, 40, 0, &c);
        fill(&c, &random);
        c.host.scale[0] = scales[i];
        run(dev, &c);
        expect_same_on_cpu(&c);
        free_call(&c);
    }
}

Test(activations, any_given_scale_gives_the_same_bits_everywhere)
{
    for_all(check_bad_scales);
}

Test(activations, the_oracle_sees_one_wrong_code_and_one_wrong_scale)
{
    call c;
    test_random random = {5};
    make_call(cpu, NIB_F16, NIB_E4M3, NIB_ACT_SCALE_ROW, 2, 64, 0, &c);
    for (int64_t i = 0; i < 128; i++)
        store(&c, i / 64, i % 64, test_random_unit(&random));
    run(cpu, &c);
    cr_expect_eq(nib_ref_quantize_check(&c.desc, &c.host), NIB_OK);
    test_canary_host(&c.out)[100] ^= 1;
    cr_expect_eq(nib_ref_quantize_check(&c.desc, &c.host), NIB_INTERNAL);
    cr_expect(strstr(nib_last_message(), "row 1, column 36"), "%s", nib_last_message());
    test_canary_host(&c.out)[100] ^= 1;
    c.host.scale[1] = nextafterf(c.host.scale[1], 1);
    cr_expect_eq(nib_ref_quantize_check(&c.desc, &c.host), NIB_INTERNAL);
    free_call(&c);
}

/* ---- products of quantised activations ---- */

/* A product whose activations are what the quantizer made of `c`. */
static void check_product(const char *line, const call *c)
{
    test_case given;
    test_problem p;
    nib_gemm *gemm;
    nib_weights *weights;
    size_t bytes, cells;
    void *workspace = NULL;
    test_canary out;
    cr_assert_eq(test_case_parse(line, &given), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(test_problem_create(&given, &p), NIB_OK);
    p.ref.act = c->host.out;
    p.ref.lda = c->host.ldo;
    p.ref.act_scale = c->host.scale;
    cr_assert_eq(nib_gemm_create(dev, &given.desc, &gemm), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_weights_pack(gemm, &p.plain, &weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_prepare(gemm, given.m, given.m), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_workspace(gemm, given.m, &bytes), NIB_OK);
    cr_assert_eq(nib_memory_alloc(dev, bytes + 64, &workspace), NIB_OK);
    cells = (size_t)(given.m * given.desc.weight.n);
    cr_assert_eq(test_canary_create(dev, cells * sizeof(float), 0, &out), NIB_OK);
    nib_gemm_args args = {.size = sizeof(args),
                          .m = given.m,
                          .act = test_canary_device(&c->out),
                          .lda = c->host.ldo,
                          .act_scale = test_canary_device(&c->scale),
                          .out = test_canary_device(&out),
                          .ldo = given.desc.weight.n,
                          .workspace = workspace,
                          .workspace_bytes = bytes};
    cr_assert_eq(nib_gemm_run(gemm, weights, &args), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(test_canary_download(&out), NIB_OK);
    double *expected = calloc(cells, sizeof(double)), *bound = calloc(cells, sizeof(double));
    cr_assert_eq(nib_ref_gemm(&p.ref, expected, bound), NIB_OK);
    cr_expect_eq(nib_ref_compare(&given.desc, given.m, expected, bound, test_canary_host(&out),
                                 given.desc.weight.n),
                 NIB_OK, "%s: %s", line, nib_last_message());
    free(expected);
    free(bound);
    test_canary_destroy(&out);
    nib_memory_free(dev, workspace);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
    test_problem_destroy(&p);
}

static void check_chain(nib_type from, nib_type to, nib_act_scale scale)
{
    enum { ROWS = 5, WIDTH = 224 };
    char line[TEST_LINE_BYTES];
    test_random random = {9};
    call c;
    make_call(dev, from, to, scale, ROWS, WIDTH, 0, &c);
    fill(&c, &random);
    if (scale == NIB_ACT_SCALE_ROW)
        store(&c, 2, 100, NAN); /* reaches the outputs of its row, and no others */
    run(dev, &c);
    snprintf(line, sizeof(line), "n=40 k=%d w=i4 g=32 s=f16 a=%s as=%s o=f32 m=%d seed=3", WIDTH,
             nib_type_name(to), scale == NIB_ACT_SCALE_ROW ? "row" : "tensor", ROWS);
    check_product(line, &c);
    free_call(&c);
}

Test(activations, products_take_them_as_they_are)
{
    for_all(check_chain);
}

/* ---- refusals ---- */

Test(activations, refusals_say_what_would_be_right)
{
    float x[4] = {1, 2, 3, 4}, scale[1];
    uint8_t codes[4] = {POISON, POISON, POISON, POISON};
    nib_act_quantizer *quantizer = NULL;
    nib_act_quantizer_desc desc = {
        .size = sizeof(desc), .from = NIB_F32, .to = NIB_U8, .scale = NIB_ACT_SCALE_ROW};
    cr_expect_eq(nib_act_quantizer_create(cpu, &desc, &quantizer), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "to is u8"), "%s", nib_last_message());
    desc.to = NIB_I8;
    desc.from = NIB_I8;
    cr_expect_eq(nib_act_quantizer_create(cpu, &desc, &quantizer), NIB_INVALID);
    desc.from = NIB_F32;
    desc.scale = NIB_ACT_SCALE_MX;
    cr_expect_eq(nib_act_quantizer_create(cpu, &desc, &quantizer), NIB_INVALID);
    desc.scale = NIB_ACT_SCALE_ROW;
    cr_expect_eq(nib_act_quantizer_create(NULL, &desc, &quantizer), NIB_INVALID);
    cr_expect_eq(nib_act_quantizer_create(cpu, NULL, &quantizer), NIB_INVALID);
    cr_expect_null(quantizer);
    cr_assert_eq(nib_act_quantizer_create(cpu, &desc, &quantizer), NIB_OK);
    nib_act_quantize_args args = {.size = sizeof(args),
                                  .m = 1,
                                  .k = 4,
                                  .act = x,
                                  .lda = 3,
                                  .out = codes,
                                  .ldo = 4,
                                  .scale = scale};
    cr_expect_eq(nib_quantize_activations(quantizer, &args), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "lda is 3"), "%s", nib_last_message());
    args.lda = 4;
    args.scale = NULL;
    cr_expect_eq(nib_quantize_activations(quantizer, &args), NIB_INVALID);
    cr_expect_eq(nib_quantize_activations(NULL, &args), NIB_INVALID);
    args.m = -1;
    cr_expect_eq(nib_quantize_activations(quantizer, &args), NIB_INVALID);
    args.m = 0;
    cr_expect_eq(nib_quantize_activations(quantizer, &args), NIB_OK);
    cr_expect_eq(codes[0], POISON);
    nib_act_quantizer_destroy(quantizer);
    nib_act_quantizer_destroy(NULL);
}

Test(activations, a_backend_without_quantizers_is_no_error_of_the_caller)
{
    nib_device *null;
    nib_act_quantizer *quantizer = NULL;
    nib_act_quantizer_desc desc = {
        .size = sizeof(desc), .from = NIB_F32, .to = NIB_I8, .scale = NIB_ACT_SCALE_ROW};
    cr_assert_eq(nib_device_open(ctx, "null", &null), NIB_OK);
    cr_expect_eq(nib_act_quantizer_create(null, &desc, &quantizer), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "null:0"), "%s", nib_last_message());
    nib_device_close(null);
}
