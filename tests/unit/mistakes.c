/* SPDX-License-Identifier: Apache-2.0
 *
 * Callers' mistakes that api.c has no room for: arguments that are NULL, structs of other versions,
 * buffers a run must refuse, ranges that are none. Each is told with its status and a sentence, and
 * leaves the outputs alone.
 */
#include "support/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGINS NIB_BINARY_DIR "/lib/test-backends"

/* Opened anew for every test: through the check backend, which notices what is left behind. */
static nib_context *ctx;
static nib_device *dev;

static void open_device(void)
{
    nib_context_options options = {.size = sizeof(options), .backend_path = PLUGINS};
    cr_assert_eq(nib_context_create(&options, &ctx), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_device_open(ctx, "check", &dev), NIB_OK, "%s", nib_last_message());
}

static void close_device(void)
{
    nib_device_close(dev);
    nib_context_destroy(ctx);
}

TestSuite(mistakes, .init = open_device, .fini = close_device);

static void expect(nib_status got, nib_status status, const char *part)
{
    cr_expect_eq(got, status, "%s instead of %s: %s", nib_status_name(got), nib_status_name(status),
                 nib_last_message());
    cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
}

static nib_gemm *gemm_of(const char *line)
{
    nib_gemm_desc desc;
    nib_gemm *gemm = NULL;
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(dev, &desc, &gemm), NIB_OK, "%s", nib_last_message());
    return gemm;
}

/* Arrays that are long enough for every description here, and valid as any of its types. */
static unsigned char codes[4096], values[4096], zeros[4096];

static nib_weights *weights_of(nib_gemm *gemm, const nib_weight_source *given)
{
    nib_weight_source source = given ? *given : (nib_weight_source){0};
    nib_weights *weights = NULL;
    source.size = sizeof(source);
    source.codes = codes;
    source.scales = values;
    source.zeros = zeros;
    cr_assert_eq(nib_weights_pack(gemm, &source, &weights), NIB_OK, "%s", nib_last_message());
    return weights;
}

#define LINE "n=16 k=64 w=u3 g=32 s=f32 z=float:f32 a=i8 as=row b=f32 o=f32"

Test(mistakes, arguments_that_are_null)
{
    nib_gemm *gemm = gemm_of(LINE);
    nib_weights *weights = weights_of(gemm, NULL), *none = NULL;
    nib_event *event = NULL;
    nib_weight_desc weight;
    nib_gemm_desc desc = {.size = sizeof(desc)};
    cr_assert_eq(nib_gemm_get_desc(gemm, &desc), NIB_OK);
    weight = desc.weight;
    nib_file *file = NULL;
    nib_type type;
    const nib_status calls[] = {
        nib_type_parse(NULL, &type),
        nib_type_parse("f16", NULL),
        nib_weight_desc_check(NULL, &weight),
        nib_weight_desc_check(&weight, NULL),
        nib_gemm_desc_check(NULL, &desc),
        nib_gemm_desc_check(&desc, NULL),
        nib_weight_desc_parse(NULL, &weight),
        nib_weight_desc_parse("n=1 k=1", NULL),
        nib_gemm_desc_parse(NULL, &desc),
        nib_gemm_desc_parse("n=1 k=1", NULL),
        nib_weight_desc_print(NULL, NULL, 0, NULL),
        nib_gemm_desc_print(NULL, NULL, 0, NULL),
        nib_weight_desc_bytes(NULL, NULL, NULL, NULL, NULL),
        nib_context_create(NULL, NULL),
        nib_device_count(NULL, NULL),
        nib_device_describe(NULL, 0, NULL),
        nib_device_describe(ctx, 0, NULL),
        nib_device_open(NULL, "cpu", &dev),
        nib_device_open(ctx, "cpu", NULL),
        nib_device_get_info(NULL, NULL),
        nib_device_get_info(dev, NULL),
        nib_memory_alloc(dev, 1, NULL),
        nib_memory_copy(dev, NULL, codes, 1, NIB_COPY_ON_DEVICE, NULL),
        nib_memory_copy(dev, codes, codes, 0, (nib_copy_kind)9, NULL),
        nib_stream_synchronize(NULL, NULL),
        nib_event_create(NULL, &event),
        nib_event_create(dev, NULL),
        nib_event_record(NULL, NULL),
        nib_event_elapsed(NULL, NULL, NULL),
        nib_gemm_supports(dev, NULL),
        nib_gemm_supports(NULL, &desc),
        nib_gemm_create(dev, NULL, &gemm),
        nib_gemm_create(dev, &desc, NULL),
        nib_gemm_get_desc(NULL, &desc),
        nib_gemm_get_desc(gemm, NULL),
        nib_gemm_explain(NULL, 1, NULL, 0, NULL),
        nib_gemm_workspace(gemm, 1, NULL),
        nib_gemm_prepare(NULL, 0, 1),
        nib_gemm_run(NULL, weights, NULL),
        nib_gemm_run(gemm, NULL, NULL),
        nib_gemm_run(gemm, weights, NULL),
        nib_weights_pack(gemm, NULL, &none),
        nib_weights_get_info(NULL, NULL),
        nib_weights_get_info(weights, NULL),
        nib_weights_unpack(NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        nib_weights_unpack_extra(NULL, NULL, NULL),
        nib_weights_slice(weights, 0, 1, 0, 1, NULL, &none),
        nib_weights_convert(weights, gemm, NULL),
        nib_weights_dequantize(weights, 0, 1, NULL, 64),
        nib_weights_save(weights, NULL),
        nib_weights_load(gemm, NULL, &none),
        nib_layout_print(NULL, 4, NULL, 0, NULL),
        nib_layout_bytes("plain", 4, 1, 1, NULL),
        nib_layout_convert("plain", NULL, "plain", codes, 4, 1, 1),
        nib_layout_explain(NULL, NULL, 4, NULL, 0, NULL),
        nib_quantize(NULL, NULL, 0, NULL),
        nib_quantize_measure(&weight, NULL, NULL, 0, NULL),
        nib_file_open(NULL, &file),
        nib_file_tensor(NULL, 0, NULL),
        nib_file_find(NULL, "x", NULL),
        nib_file_source(NULL, 0, NULL, NULL),
        nib_file_read_f32(NULL, 0, 0, 1, NULL),
        nib_file_weights(NULL, 0, gemm, &none),
        nib_file_meta_find(NULL, "x", NULL),
        nib_file_meta_item(NULL, NULL, 0, NULL),
        nib_writer_create(NULL, NULL),
        nib_writer_add_weights(NULL, "x", weights),
        nib_writer_add_source(NULL, "x", &weight, NULL),
        nib_writer_add_dense(NULL, "x", NIB_F32, 0, NULL, NULL),
        nib_writer_add_meta(NULL, "x", "y"),
        nib_writer_finish(NULL),
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        cr_expect_eq(calls[i], NIB_INVALID, "call %zu: %s", i, nib_status_name(calls[i]));
    cr_expect_str_eq(nib_file_format(NULL), "");
    cr_expect_eq(nib_file_tensor_count(NULL), 0);
    cr_expect_eq(nib_file_meta_count(NULL), 0);
    cr_expect(!none && !file);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
}

/* LINE, three rows, ready to run. */
typedef struct ready {
    nib_gemm *gemm;
    nib_weights *weights;
    nib_gemm_args args;
    signed char act[3 * 64];
    float act_scale[3], bias[16], out[3 * 16];
} ready;

static void get_ready(ready *r)
{
    size_t bytes;
    memset(r, 0, sizeof(*r));
    r->gemm = gemm_of(LINE);
    r->weights = weights_of(r->gemm, NULL);
    cr_assert_eq(nib_gemm_workspace(r->gemm, 3, &bytes), NIB_OK);
    cr_assert_gt(bytes, 0, "the refusals below need a product with a workspace");
    cr_assert_eq(nib_gemm_prepare(r->gemm, 3, 3), NIB_OK, "%s", nib_last_message());
    r->args = (nib_gemm_args){.size = sizeof(nib_gemm_args),
                              .m = 3,
                              .act = r->act,
                              .lda = 64,
                              .act_scale = r->act_scale,
                              .out = r->out,
                              .ldo = 16,
                              .bias = r->bias,
                              .workspace = aligned_alloc(64, (bytes + 127) / 64 * 64),
                              .workspace_bytes = bytes};
    r->out[0] = 42;
}

static void refused(ready *r, const void *args, nib_status status, const char *part)
{
    expect(nib_gemm_run(r->gemm, r->weights, args), status, part);
    cr_expect_eq(r->out[0], 42, "a refused run leaves the output alone");
}

Test(mistakes, runs_with_buffers_that_will_not_do)
{
    ready r;
    get_ready(&r);
    nib_gemm_args bad = r.args;
    bad.act_scale = NULL;
    refused(&r, &bad, NIB_INVALID, "act_scale is NULL");
    bad = r.args, bad.bias = NULL;
    refused(&r, &bad, NIB_INVALID, "bias is NULL");
    bad = r.args, bad.workspace_bytes--;
    refused(&r, &bad, NIB_INVALID, "ask nib_gemm_workspace");
    bad = r.args, bad.workspace = NULL;
    refused(&r, &bad, NIB_INVALID, "the workspace has 0 bytes");
    bad = r.args, bad.workspace = (char *)bad.workspace + 4;
    refused(&r, &bad, NIB_INVALID, "not aligned to 64 bytes");
    bad = r.args, bad.m = 4000; /* its kernel may be another's, but its workspace is larger */
    refused(&r, &bad, NIB_INVALID, "m = 4000");
    cr_expect_eq(nib_gemm_run(r.gemm, r.weights, &r.args), NIB_OK, "%s", nib_last_message());
    cr_expect_neq(r.out[0], 42);
    free(r.args.workspace);
    nib_weights_destroy(r.weights);
    nib_gemm_destroy(r.gemm);
}

Test(mistakes, structs_of_other_sizes)
{
    ready r;
    get_ready(&r);
    struct {
        nib_gemm_args args;
        uint64_t more;
    } newer = {r.args, 1};
    newer.args.size = sizeof(newer);
    refused(&r, &newer, NIB_UNSUPPORTED, "newer header");
    newer.args.size = sizeof(newer.args) - 8;
    refused(&r, &newer, NIB_INVALID, "set it to sizeof(nib_gemm_args)");
    newer.args.size = 0xffffffff;
    refused(&r, &newer, NIB_INVALID, "nib_gemm_args.size is 4294967295");
    newer.args.size = sizeof(newer);
    newer.more = 0;
    cr_expect_eq(nib_gemm_run(r.gemm, r.weights, &newer.args), NIB_OK, "%s", nib_last_message());

    nib_gemm_desc desc = {.size = 8};
    expect(nib_gemm_get_desc(r.gemm, &desc), NIB_INVALID, "sizeof(nib_gemm_desc)");
    nib_context_options options = {.size = 4};
    nib_context *none = NULL;
    expect(nib_context_create(&options, &none), NIB_INVALID, "sizeof(nib_context_options)");
    nib_weight_source source = {.size = 12};
    nib_weights *nothing = NULL;
    expect(nib_weights_pack(r.gemm, &source, &nothing), NIB_INVALID, "sizeof(nib_weight_source)");
    cr_expect(!none && !nothing);
    free(r.args.workspace);
    nib_weights_destroy(r.weights);
    nib_gemm_destroy(r.gemm);
}

Test(mistakes, ranges_of_rows_that_are_none)
{
    nib_gemm *gemm = gemm_of("n=16 k=64 w=i4 g=32 s=f32 a=f32 o=f32");
    nib_weights *weights = weights_of(gemm, NULL);
    size_t bytes = 42;
    float out[64] = {42};
    expect(nib_gemm_workspace(gemm, -1, &bytes), NIB_INVALID, "m_max is -1");
    cr_expect_eq(bytes, 42);
    expect(nib_gemm_prepare(gemm, -1, 4), NIB_INVALID, "m from -1 to 4");
    expect(nib_gemm_prepare(gemm, 5, 4), NIB_INVALID, "expected 0 <= m_min <= m_max");
    expect(nib_weights_dequantize(weights, 15, 17, out, 64), NIB_INVALID, "inside 0..16");
    expect(nib_weights_dequantize(weights, 0, 1, out, 63), NIB_INVALID, "at least 64");
    cr_expect_eq(out[0], 42);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
}

Test(mistakes, what_a_device_cannot_do_is_not_an_error_of_the_caller)
{
    nib_gemm_desc desc;
    nib_device *example;
    nib_context *other;
    nib_context_options options = {.size = sizeof(options),
                                   .backend_path = NIB_BINARY_DIR "/lib/example-backends"};
    cr_assert_eq(nib_context_create(&options, &other), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_device_open(other, "example", &example), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_desc_parse("n=16 k=64 a=f16", &desc), NIB_OK);
    expect(nib_gemm_supports(example, &desc), NIB_UNSUPPORTED, "f32");
    desc.weight.n = 0;
    expect(nib_gemm_supports(example, &desc), NIB_INVALID, "n is 0");
    cr_assert_eq(nib_gemm_desc_parse("n=16 k=64 a=f32", &desc), NIB_OK);
    cr_expect_eq(nib_gemm_supports(example, &desc), NIB_OK, "%s", nib_last_message());
    nib_device_close(example);
    nib_context_destroy(other);
}

Test(mistakes, sources_whose_flags_do_not_fit)
{
    nib_gemm *gemm = gemm_of("n=16 k=64 w=i4 g=32 s=f32 a=f32 o=f32");
    nib_weight_source source = {
        .size = sizeof(source), .flags = NIB_SOURCE_NEGATE_ZEROS, .codes = codes, .scales = values};
    nib_weights *weights = NULL;
    expect(nib_weights_pack(gemm, &source, &weights), NIB_INVALID, "these are none");
    nib_gemm_destroy(gemm);
    gemm = gemm_of("n=16 k=64 w=i8 s=none a=i8 acc=i32 o=i32");
    source = (nib_weight_source){.size = sizeof(source), .codes = codes, .alpha = 2};
    expect(nib_weights_pack(gemm, &source, &weights), NIB_INVALID, "i32 output needs 1");
    cr_expect_null(weights);
    nib_gemm_destroy(gemm);
}

Test(mistakes, a_failed_unpack_leaves_every_array_alone)
{
    nib_gemm *gemm = gemm_of("n=16 k=64 w=u4 g=32 s=f32 z=code a=f32 o=f32");
    nib_weights *weights = weights_of(gemm, NULL);
    unsigned char to[512] = {0}, before[512] = {0};
    memset(to, 0x5a, sizeof(to));
    memset(before, 0x5a, sizeof(before));
    expect(nib_weights_unpack(weights, NULL, to, "no-such-row", to, NULL, NULL), NIB_INVALID,
           "no-such-row");
    expect(nib_weights_unpack(weights, NULL, to, NULL, NULL, "gptq-zeros=", to), NIB_INVALID,
           "layout text");
    cr_expect_arr_eq(to, before, sizeof(to));
    int32_t g_idx[64] = {42};
    float table[16] = {42};
    expect(nib_weights_unpack_extra(weights, g_idx, NULL), NIB_INVALID, "no g_idx");
    expect(nib_weights_unpack_extra(weights, NULL, table), NIB_INVALID, "no table");
    cr_expect(g_idx[0] == 42 && table[0] == 42);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
    gemm = gemm_of("n=16 k=64 w=i4 s=none a=f32 o=f32");
    weights = weights_of(gemm, NULL);
    expect(nib_weights_unpack(weights, NULL, NULL, NULL, to, NULL, NULL), NIB_INVALID, "no scales");
    expect(nib_weights_unpack(weights, NULL, NULL, NULL, NULL, NULL, to), NIB_INVALID, "no zeros");
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
}

Test(mistakes, tables_and_indices_come_back)
{
    nib_gemm *gemm = gemm_of("n=16 k=64 w=lut4 g=32 s=f32 wf=g_idx a=f32 o=f32");
    int32_t g_idx[64], g_idx_back[64];
    float table[16], table_back[16];
    for (int i = 0; i < 64; i++)
        g_idx[i] = i % 2;
    for (int i = 0; i < 16; i++)
        table[i] = (float)i / 8 - 1;
    nib_weight_source source = {.g_idx = g_idx, .table = table};
    nib_weights *weights = weights_of(gemm, &source);
    cr_assert_eq(nib_weights_unpack_extra(weights, g_idx_back, table_back), NIB_OK, "%s",
                 nib_last_message());
    cr_expect_eq(memcmp(g_idx, g_idx_back, sizeof(g_idx)), 0);
    cr_expect_eq(memcmp(table, table_back, sizeof(table)), 0);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
}

Test(mistakes, a_file_of_several_tensors_is_not_one_weight)
{
    char folder[64], path[96];
    nib_writer *writer;
    nib_file *file;
    nib_weights *loaded = NULL;
    nib_gemm *gemm = gemm_of("n=16 k=64 w=i4 g=32 s=f32 a=f32 o=f32");
    nib_weights *weights = weights_of(gemm, NULL);
    float dense[2] = {1, 2};
    int64_t shape = 2, index;
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/two.nib", folder);
    cr_assert_eq(nib_writer_create(path, &writer), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_writer_add_weights(writer, "a", weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_writer_add_dense(writer, "b", NIB_F32, 1, &shape, dense), NIB_OK);
    cr_assert_eq(nib_writer_finish(writer), NIB_OK, "%s", nib_last_message());
    expect(nib_weights_load(gemm, path, &loaded), NIB_INVALID, "exactly one tensor");
    cr_assert_eq(nib_file_open(path, &file), NIB_OK, "%s", nib_last_message());
    expect(nib_file_find(file, "a", NULL), NIB_INVALID, "index is NULL");
    cr_assert_eq(nib_file_find(file, "b", &index), NIB_OK);
    expect(nib_file_weights(file, index, gemm, &loaded), NIB_INVALID, "no weights tensor");
    cr_expect_null(loaded);
    cr_assert_eq(nib_file_find(file, "a", &index), NIB_OK);
    cr_assert_eq(nib_file_weights(file, index, gemm, &loaded), NIB_OK, "%s", nib_last_message());
    nib_weights_destroy(loaded);
    nib_file_close(file);
    test_folder_remove(folder);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
}

static void count_messages(void *user, nib_log_level level, const char *message)
{
    (void)level, (void)message;
    ++*(int *)user;
}

Test(mistakes, a_context_takes_only_its_own_log_hook_away)
{
    int first = 0, second = 0;
    nib_context *a, *b;
    nib_context_options options = {
        .size = sizeof(options), .log = count_messages, .log_user = &first};
    uint32_t count;
    setenv("NIB_BACKEND_PATH", "", 1);
    cr_assert_eq(nib_context_create(&options, &a), NIB_OK, "%s", nib_last_message());
    options.log_user = &second;
    cr_assert_eq(nib_context_create(&options, &b), NIB_OK, "%s", nib_last_message());
    nib_context_destroy(a);
    options.backend_path = NIB_BINARY_DIR "/lib/example-backends"; /* new, so it is logged */
    options.log = NULL;
    cr_assert_eq(nib_context_create(&options, &a), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_device_count(a, &count), NIB_OK);
    cr_expect_gt(second, 0, "the hook of the context that lives");
    nib_context_destroy(a);
    nib_context_destroy(b);
}
