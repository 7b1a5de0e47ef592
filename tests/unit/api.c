/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a product through the public interface, on the cpu seen through the check backend,
 * and on the null backend, whose memory is not the host's. Refusals come with their messages.
 */
#include "api/internal.h"

#include "base/status.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGINS NIB_BINARY_DIR "/lib/test-backends"

/* A product with weights, ready to run. */
typedef struct product {
    nib_context *ctx;
    nib_device *dev;
    nib_gemm *gemm;
    nib_weights *weights;
    nib_gemm_desc desc;
    unsigned char *codes; /* plain */
    float *scales;        /* [n, groups] f32 */
    void *workspace;
    size_t workspace_bytes;
} product;

static void *aligned(size_t bytes)
{
    return aligned_alloc(64, (bytes + 64) / 64 * 64);
}

static void make(product *p, const char *device, const char *line)
{
    nib_context_options options = {.size = sizeof(options), .backend_path = PLUGINS};
    memset(p, 0, sizeof(*p));
    cr_assert_eq(nib_context_create(&options, &p->ctx), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_device_open(p->ctx, device, &p->dev), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_desc_parse(line, &p->desc), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(p->dev, &p->desc, &p->gemm), NIB_OK, "%s", nib_last_message());
    size_t codes, scales;
    cr_assert_eq(nib_weight_desc_bytes(&p->desc.weight, &codes, &scales, NULL, NULL), NIB_OK);
    p->codes = calloc(1, codes);
    p->scales = malloc(scales + 1);
    test_random random = {test_seed(1)};
    for (size_t i = 0; i < codes; i++)
        p->codes[i] = (unsigned char)test_random_next(&random);
    for (size_t i = 0; i < scales / sizeof(float); i++)
        p->scales[i] = (float)(0.01 + 0.001 * test_random_unit(&random));
    nib_weight_source source = {.size = sizeof(source), .codes = p->codes, .scales = p->scales};
    cr_assert_eq(nib_weights_pack(p->gemm, &source, &p->weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_workspace(p->gemm, 64, &p->workspace_bytes), NIB_OK);
    p->workspace = aligned(p->workspace_bytes);
}

static void drop(product *p)
{
    free(p->workspace);
    free(p->scales);
    free(p->codes);
    nib_weights_destroy(p->weights);
    nib_gemm_destroy(p->gemm);
    nib_device_close(p->dev);
    nib_context_destroy(p->ctx);
}

#define LINE "n=48 k=96 w=i4 g=32 s=f32 a=f32 o=f32"

static nib_gemm_args args_of(const product *p, int64_t m, const float *act, float *out)
{
    return (nib_gemm_args){.size = sizeof(nib_gemm_args),
                           .m = m,
                           .act = act,
                           .lda = p->desc.weight.k,
                           .out = out,
                           .ldo = nib_desc_out_cols(&p->desc),
                           .workspace = p->workspace,
                           .workspace_bytes = p->workspace_bytes};
}

static void expect_run(product *p, const nib_gemm_args *args, nib_status status, const char *part)
{
    cr_expect_eq(nib_gemm_run(p->gemm, p->weights, args), status);
    if (status)
        cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
}

Test(run, refusals_say_what_would_be_right)
{
    product p;
    make(&p, "check", LINE);
    static float act[64 * 96], out[64 * 48];
    nib_gemm_args good = args_of(&p, 3, act, out), bad = good;
    expect_run(&p, &good, NIB_INVALID, "call nib_gemm_prepare");
    cr_assert_eq(nib_gemm_prepare(p.gemm, 0, 64), NIB_OK, "%s", nib_last_message());
    expect_run(&p, &good, NIB_OK, "");
    bad.m = -1;
    expect_run(&p, &bad, NIB_INVALID, "m is -1");
    bad = good, bad.act = NULL;
    expect_run(&p, &bad, NIB_INVALID, "act is NULL");
    bad = good, bad.out = NULL;
    expect_run(&p, &bad, NIB_INVALID, "out is NULL");
    bad = good, bad.lda = 95;
    expect_run(&p, &bad, NIB_INVALID, "lda is 95");
    bad = good, bad.ldo = 47;
    expect_run(&p, &bad, NIB_INVALID, "ldo is 47");
    bad = good, bad.m = INT64_MAX / 4;
    expect_run(&p, &bad, NIB_INVALID, "do not fit");
    bad = good, bad.size = 4;
    expect_run(&p, &bad, NIB_INVALID, "sizeof(nib_gemm_args)");
    if (p.workspace_bytes) {
        bad = good, bad.m = 64, bad.workspace_bytes = 1;
        expect_run(&p, &bad, NIB_INVALID, "ask nib_gemm_workspace");
        bad = good, bad.m = 64, bad.workspace = NULL;
        expect_run(&p, &bad, NIB_INVALID, "ask nib_gemm_workspace");
    }
    drop(&p);
}

Test(run, refuses_scaled_weights_for_an_i32_output)
{
    product p;
    make(&p, "check", "n=8 k=8 w=i4 g=tensor s=none a=i8 acc=f32 o=f32");
    nib_weight_source source = {.size = sizeof(source), .codes = p.codes, .alpha = 2.5f};
    nib_weights *scaled;
    cr_assert_eq(nib_weights_pack(p.gemm, &source, &scaled), NIB_OK, "%s", nib_last_message());
    nib_gemm *whole;
    p.desc.acc_type = p.desc.out_type = NIB_I32;
    cr_assert_eq(nib_gemm_create(p.dev, &p.desc, &whole), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_prepare(whole, 1, 1), NIB_OK);
    static signed char act[8];
    static int32_t out[8];
    nib_gemm_args args = args_of(&p, 1, NULL, NULL);
    args.act = act;
    args.out = out;
    cr_expect_eq(nib_gemm_run(whole, scaled, &args), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "alpha is 2.5"), "%s", nib_last_message());
    nib_gemm_destroy(whole);
    nib_weights_destroy(scaled);
    drop(&p);
}

Test(run, no_rows_is_no_work)
{
    product p;
    make(&p, "check", LINE);
    nib_gemm_args args = args_of(&p, 0, NULL, NULL);
    expect_run(&p, &args, NIB_OK, "");
    drop(&p);
}

Test(run, refuses_weights_of_another_product)
{
    product a, b;
    make(&a, "check", LINE);
    make(&b, "check", "n=48 k=96 w=i4 g=16 s=f32 a=f32 o=f32");
    static float act[96], out[48];
    cr_assert_eq(nib_gemm_prepare(a.gemm, 1, 1), NIB_OK);
    nib_gemm_args args = args_of(&a, 1, act, out);
    cr_expect_eq(nib_gemm_run(a.gemm, b.weights, &args), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "packed for another product"));
    product c;
    make(&c, "cpu", LINE);
    cr_expect_eq(nib_gemm_run(a.gemm, c.weights, &args), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "on cpu:0"), "%s", nib_last_message());
    drop(&a);
    drop(&b);
    drop(&c);
}

Test(run, a_null_backend_leaves_the_output_alone)
{
    product p;
    make(&p, "null", LINE);
    static float act[96], out[48];
    out[7] = 42;
    cr_assert_eq(nib_gemm_prepare(p.gemm, 1, 1), NIB_OK);
    nib_gemm_args args = args_of(&p, 1, act, out);
    expect_run(&p, &args, NIB_OK, "");
    cr_expect_eq(out[7], 42);
    drop(&p);
}

/* Dequantised rows against a loop written here. */
static void expect_values(const product *p, const nib_weights *weights, int64_t n0, int64_t k0)
{
    nib_weights_info info = {.size = sizeof(info)};
    cr_assert_eq(nib_weights_get_info(weights, &info), NIB_OK);
    int64_t n = info.desc.n, k = info.desc.k, whole = p->desc.weight.k;
    float *values = malloc((size_t)(n * k) * sizeof(float));
    cr_assert_eq(nib_weights_dequantize(weights, 0, n, values, k), NIB_OK, "%s",
                 nib_last_message());
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            int64_t row = n0 + i, col = k0 + j;
            int code = p->codes[row * whole / 2 + col / 2] >> 4 * (col % 2) & 15;
            float expected = (float)(code - 8) * p->scales[row * 3 + col / 32];
            cr_assert_float_eq(values[i * k + j], expected, 1e-7, "w[%ld, %ld]", (long)row,
                               (long)col);
        }
    free(values);
}

static nib_gemm *other_gemm(const product *p, const char *line)
{
    nib_gemm_desc desc;
    nib_gemm *gemm;
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK);
    cr_assert_eq(nib_gemm_create(p->dev, &desc, &gemm), NIB_OK, "%s", nib_last_message());
    return gemm;
}

Test(weights, dequantize_unpack_and_convert_on_both_kinds_of_memory)
{
    static const char *const devices[] = {"check", "null"};
    for (int d = 0; d < 2; d++) {
        product p, q;
        make(&p, devices[d], LINE);
        make(&q, devices[1 - d], LINE);
        expect_values(&p, p.weights, 0, 0);
        unsigned char codes[48 * 48];
        float scales[48 * 3];
        cr_assert_eq(nib_weights_unpack(p.weights, NULL, codes, NULL, scales, NULL, NULL), NIB_OK);
        cr_expect_eq(memcmp(codes, p.codes, sizeof(codes)), 0);
        cr_expect_eq(memcmp(scales, p.scales, sizeof(scales)), 0);
        nib_weights *moved;
        cr_assert_eq(nib_weights_convert(p.weights, q.gemm, &moved), NIB_OK, "%s",
                     nib_last_message());
        expect_values(&p, moved, 0, 0);
        nib_weights_destroy(moved);
        drop(&q);
        drop(&p);
    }
}

Test(weights, dequantize_refuses_strides_past_memory)
{
    product p;
    make(&p, "check", LINE);
    float out[1];
    cr_expect_eq(nib_weights_dequantize(p.weights, 0, 3, out, INT64_MAX / 4), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "do not fit"), "%s", nib_last_message());
    drop(&p);
}

Test(weights, slices_along_both_axes)
{
    product p;
    make(&p, "check", LINE);
    nib_gemm *gemm = other_gemm(&p, "n=17 k=64 w=i4 g=32 s=f32 a=f32 o=f32");
    nib_weights *part = NULL;
    cr_assert_eq(nib_weights_slice(p.weights, 5, 22, 32, 96, gemm, &part), NIB_OK, "%s",
                 nib_last_message());
    expect_values(&p, part, 5, 32);
    nib_weights_destroy(part);
    part = NULL;
    cr_expect_eq(nib_weights_slice(p.weights, 5, 22, 16, 80, gemm, &part), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "inside a group"));
    cr_expect_eq(nib_weights_slice(p.weights, 40, 57, 32, 96, gemm, &part), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "not inside"));
    cr_expect_eq(nib_weights_slice(p.weights, 0, 18, 32, 96, gemm, &part), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "the gemm takes n=17"), "%s", nib_last_message());
    cr_expect_null(part);
    nib_gemm_destroy(gemm);
    /* A slice of one group has one scale a row: its canonical group is "row". */
    gemm = other_gemm(&p, "n=48 k=32 w=i4 g=row s=f32 a=f32 o=f32");
    cr_assert_eq(nib_weights_slice(p.weights, 0, 48, 64, 96, gemm, &part), NIB_OK, "%s",
                 nib_last_message());
    expect_values(&p, part, 0, 64);
    nib_weights_destroy(part);
    nib_gemm_destroy(gemm);
    drop(&p);
}

Test(weights, save_and_load_on_both_kinds_of_memory)
{
    static const char *const devices[] = {"check", "null"};
    char path[] = "/tmp/nib-test-XXXXXX";
    close(mkstemp(path));
    for (int d = 0; d < 2; d++) {
        product p, q;
        make(&p, devices[d], LINE);
        make(&q, devices[1 - d], LINE);
        cr_assert_eq(nib_weights_save(p.weights, path), NIB_OK, "%s", nib_last_message());
        nib_weights *same, *other;
        cr_assert_eq(nib_weights_load(p.gemm, path, &same), NIB_OK, "%s", nib_last_message());
        cr_assert_eq(nib_weights_load(q.gemm, path, &other), NIB_OK, "%s", nib_last_message());
        cr_expect_eq(same->memory == NULL, p.dev->host_memory,
                     "mapped where the device reads host memory");
        cr_expect(other->memory, "another layout is converted");
        expect_values(&p, same, 0, 0);
        expect_values(&p, other, 0, 0);
        nib_weights_destroy(same);
        nib_weights_destroy(other);
        nib_gemm *gemm = other_gemm(&p, "n=48 k=96 w=u4 g=32 s=f32 a=f32 o=f32");
        cr_expect_eq(nib_weights_load(gemm, path, &same), NIB_INVALID);
        cr_expect(strstr(nib_last_message(), "the gemm takes"), "%s", nib_last_message());
        nib_gemm_destroy(gemm);
        drop(&q);
        drop(&p);
    }
    unlink(path);
}

static void expect_pack(nib_gemm *gemm, const nib_weight_source *source, nib_status status,
                        const char *part)
{
    nib_weights *weights = NULL;
    cr_expect_eq(nib_weights_pack(gemm, source, &weights), status, "%s", part);
    if (status) {
        cr_expect_null(weights);
        cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
    }
    nib_weights_destroy(weights);
}

Test(weights, pack_refuses_sources_that_lack_something)
{
    product p;
    make(&p, "check", LINE);
    nib_weight_source good = {.size = sizeof(good), .codes = p.codes, .scales = p.scales},
                      bad = good;
    bad.codes = NULL;
    expect_pack(p.gemm, &bad, NIB_INVALID, "no codes");
    bad = good, bad.scales = NULL;
    expect_pack(p.gemm, &bad, NIB_INVALID, "no scales");
    bad = good, bad.codes_bytes = 48 * 48 - 1;
    expect_pack(p.gemm, &bad, NIB_INVALID, "takes 2304");
    bad = good, bad.scales_bytes = 4;
    expect_pack(p.gemm, &bad, NIB_INVALID, "scales have 4 bytes");
    bad = good, bad.layout = "no-such-row";
    expect_pack(p.gemm, &bad, NIB_INVALID, "no-such-row");
    bad = good, bad.flags = 8;
    expect_pack(p.gemm, &bad, NIB_INVALID, "flags");
    bad = good, bad.zero_offset = 1;
    expect_pack(p.gemm, &bad, NIB_INVALID, "zero_offset is for code zeros");
    nib_gemm *order = other_gemm(&p, "n=48 k=96 w=i4 g=32 s=f32 wf=g_idx a=f32 o=f32");
    expect_pack(order, &good, NIB_INVALID, "no g_idx");
    int32_t g_idx[96] = {0};
    bad = good, bad.g_idx = g_idx;
    expect_pack(order, &bad, NIB_OK, "");
    g_idx[95] = 3;
    expect_pack(order, &bad, NIB_INVALID, "g_idx[95] is 3, expected 0..2");
    g_idx[95] = -1;
    expect_pack(order, &bad, NIB_INVALID, "g_idx[95] is -1");
    nib_gemm_destroy(order);
    nib_gemm *lut = other_gemm(&p, "n=48 k=96 w=lut4 g=32 s=f32 a=f32 o=f32");
    expect_pack(lut, &good, NIB_INVALID, "table of 16 floats");
    nib_gemm_destroy(lut);
    drop(&p);
}

Test(gemm, a_handle_is_small)
{
    product p;
    make(&p, "check", LINE);
    size_t bytes = sizeof(*p.gemm) +
                   (size_t)p.gemm->plan.count * (sizeof(nib_candidate) + sizeof(*p.gemm->kernels));
    cr_expect_lt(bytes, 64 * 1024);
    drop(&p);
}

Test(gemm, explains_layout_and_candidates)
{
    product p;
    char text[8192];
    size_t needed;
    make(&p, "check", LINE);
    cr_assert_eq(nib_gemm_explain(p.gemm, 3, text, sizeof(text), &needed), NIB_OK);
    cr_expect_eq(needed, strlen(text) + 1);
    cr_expect(strstr(text, "product n=48 k=96") && strstr(text, "chosen") &&
                  strstr(text, "tile=n16"),
              "%s", text);
    cr_expect_eq(nib_gemm_explain(p.gemm, 0, text, sizeof(text), NULL), NIB_INVALID);
    drop(&p);
}

static void time_a_pause(const char *device)
{
    product p;
    nib_event *from, *to;
    double us = -1;
    make(&p, device, LINE);
    cr_assert_eq(nib_event_create(p.dev, &from), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_event_create(p.dev, &to), NIB_OK, "%s", nib_last_message());
    cr_expect_eq(nib_event_record(from, NULL), NIB_OK);
    usleep(2000);
    cr_expect_eq(nib_event_record(to, NULL), NIB_OK);
    cr_expect_eq(nib_event_elapsed(from, to, &us), NIB_OK);
    cr_expect_geq(us, 2000);
    nib_event_destroy(from);
    nib_event_destroy(to);
    drop(&p);
}

Test(events, time_what_lies_between)
{
    time_a_pause("cpu");
    time_a_pause("check");
    time_a_pause("null");
}

Test(events, of_a_device_opened_twice_are_told_apart)
{
    product p[2];
    nib_event *from, *to;
    double us = -1;
    for (int i = 0; i < 2; i++)
        make(&p[i], "null", LINE);
    cr_assert_eq(nib_event_create(p[0].dev, &from), NIB_OK);
    cr_assert_eq(nib_event_create(p[1].dev, &to), NIB_OK);
    cr_expect_eq(nib_event_elapsed(from, to, &us), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "opened again"), "%s", nib_last_message());
    cr_expect_eq(us, -1);
    nib_event_destroy(from);
    nib_event_destroy(to);
    for (int i = 0; i < 2; i++)
        drop(&p[i]);
}

Test(gemm, the_environment_names_the_variant_to_run)
{
    product p;
    char text[8192];
    nib_gemm *gemm = NULL;
    make(&p, "cpu", LINE);
    const char *id = NULL;
    for (int32_t i = 0; i < nib_gemm_variant_count(p.gemm); i++)
        if (!nib_gemm_variant(p.gemm, i)->why[0])
            id = nib_gemm_variant(p.gemm, i)->variant->id; /* the last is the slowest */
    cr_assert(id);
    setenv("NIB_VARIANT", id, 1);
    cr_assert_eq(nib_gemm_create(p.dev, &p.desc, &gemm), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_explain(gemm, 3, text, sizeof(text), NULL), NIB_OK);
    char *chosen = strstr(text, "\n* ");
    cr_assert(chosen && !strncmp(chosen + 3, id, strlen(id)), "%s", text);
    nib_gemm_destroy(gemm);
    setenv("NIB_VARIANT", "nonesuch", 1);
    cr_expect_eq(nib_gemm_create(p.dev, &p.desc, &gemm), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "nonesuch"), "%s", nib_last_message());
    unsetenv("NIB_VARIANT");
    drop(&p);
}

Test(gemm, destroying_nothing_is_harmless)
{
    nib_event_destroy(NULL);
    nib_context_destroy(NULL);
    nib_device_close(NULL);
    nib_gemm_destroy(NULL);
    nib_weights_destroy(NULL);
    nib_file_close(NULL);
    nib_writer_discard(NULL);
}
