/* SPDX-License-Identifier: Apache-2.0
 *
 * .nib files: what is written reads back, damage is named, and a writer that does not finish leaves
 * nothing.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "config/desc.h"
#include "config/dtype.h"
#include "formats/file.h"
#include "formats/nib.h"
#include "layout/layout.h"
#include "support/files.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], path[96];

static void make_folder(void)
{
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/w.nib", folder);
}

static void remove_folder(void)
{
    test_folder_remove(folder);
}

#define NibTest(name) Test(nib, name, .init = make_folder, .fini = remove_folder)

#define OK(call) cr_assert_eq(call, NIB_OK, "%s", nib_last_message())

/* Logical weights in plain arrays. */
typedef struct logical {
    nib_weight_desc desc;
    nib_weight_source source;
    unsigned char *codes, *scales, *zeros; /* owned */
    int32_t *g_idx;
    float *table;
} logical;

static void fill(test_random *random, unsigned char *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (unsigned char)test_random_next(random);
}

/* Values of a float type without NaN and infinities. */
static void fill_floats(test_random *random, nib_type type, unsigned char *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        nib_dtype_store(type, to, (int64_t)i, type == NIB_E8M0 ? 0.25 : test_random_unit(random));
}

static logical make(const char *line)
{
    logical w = {.desc.size = sizeof(w.desc)};
    test_random random = {nib_hash_text(line)};
    size_t codes, scales, zeros;
    int64_t groups;
    OK(nib_weight_desc_parse(line, &w.desc));
    OK(nib_weight_desc_bytes(&w.desc, &codes, &scales, &zeros, &groups));
    nib_weight_desc *d = &w.desc;
    w.codes = calloc(1, codes + 1);
    w.scales = calloc(1, scales + 1);
    w.zeros = calloc(1, zeros + 1);
    w.g_idx = calloc((size_t)d->k, sizeof(int32_t));
    w.table = calloc(16, sizeof(float));
    fill(&random, w.codes, codes);
    if (d->scale_type)
        fill_floats(&random, d->scale_type, w.scales,
                    scales * 8 / (size_t)nib_type_bits(d->scale_type));
    if (d->zero_type)
        fill_floats(&random, d->zero_type, w.zeros,
                    zeros * 8 / (size_t)nib_type_bits(d->zero_type));
    for (size_t i = 0; d->zero == NIB_ZERO_CODE && i < zeros; i++)
        w.zeros[i] =
            (unsigned char)(test_random_next(&random) & ((1u << nib_type_bits(d->type)) - 1));
    for (int64_t k = 0; k < d->k; k++)
        w.g_idx[k] = (int32_t)test_random_below(&random, groups);
    for (int i = 0; i < 16; i++)
        w.table[i] = (float)test_random_unit(&random);
    w.source = (nib_weight_source){
        .size = sizeof(w.source),
        .codes = w.codes,
        .scales = d->scale_type ? w.scales : NULL,
        .zeros = d->zero ? w.zeros : NULL,
        .g_idx = d->flags & NIB_WEIGHT_G_IDX ? w.g_idx : NULL,
        .table = d->type == NIB_LUT4 ? w.table : NULL,
        .alpha = 1.5f,
        .codes_bytes = codes,
    };
    return w;
}

static void drop(logical *w)
{
    free(w->codes);
    free(w->scales);
    free(w->zeros);
    free(w->g_idx);
    free(w->table);
}

/* The definition, from the plain arrays. */
static double weight_at(const logical *w, int64_t n, int64_t k)
{
    const nib_weight_desc *d = &w->desc;
    int32_t bits = nib_type_bits(d->type);
    size_t row = (size_t)nib_ceil_div(d->k * bits, 8);
    uint32_t code = 0;
    for (int32_t b = 0; b < bits; b++) {
        size_t bit = (size_t)(k * bits + b);
        code |= (uint32_t)(w->codes[(size_t)n * row + bit / 8] >> bit % 8 & 1) << b;
    }
    double c = d->type == NIB_LUT4 ? w->table[code] : nib_dtype_decode(d->type, code);
    int64_t group = nib_desc_group_size(d);
    int64_t g = w->source.g_idx ? w->g_idx[k] : k / group;
    int64_t at = d->group == NIB_GROUP_TENSOR ? 0 : n * nib_desc_groups(d) + g;
    double s = d->scale_type ? nib_dtype_load(d->scale_type, w->scales, at) : 1;
    double z = d->zero == NIB_ZERO_CODE ? w->zeros[at]
               : d->zero                ? nib_dtype_load(d->zero_type, w->zeros, at)
                                        : 0;
    double value = d->zero == NIB_ZERO_RESCALE ? c * s - z : (c - z) * s;
    return value * (double)w->source.alpha;
}

static void expect_values(const nib_file *file, const char *name, const logical *w)
{
    int64_t index, n = w->desc.n, k = w->desc.k;
    float *out = malloc((size_t)(n * k) * sizeof(float));
    OK(nib_file_find(file, name, &index));
    OK(nib_file_read_f32(file, index, 0, n, out));
    for (int64_t i = 0; i < n * k; i++)
        cr_assert_eq(out[i], (float)weight_at(w, i / k, i % k), "%s [%lld, %lld]: %g", name,
                     (long long)(i / k), (long long)(i % k), out[i]);
    free(out);
}

static const char *const lines[] = {
    "n=5 k=70 w=i4 g=32 s=f16",
    "n=33 k=64 w=u4 g=32 s=f16 z=rescale:f16",
    "n=3 k=50 w=u4 g=16 s=bf16 z=code",
    "n=7 k=21 w=u3 g=7 s=f32 z=float:f32",
    "n=4 k=40 w=u2 g=20 s=f16 z=code wf=g_idx",
    "n=9 k=17 w=i1 g=row s=f16",
    "n=2 k=33 w=lut4 g=tensor s=f32",
    "n=6 k=64 w=e2m1 g=32 s=e8m0",
    "n=6 k=64 w=e2m1 g=16 s=e4m3",
    "n=3 k=19 w=e4m3 g=tensor s=none",
    "n=3 k=19 w=i8 g=row s=f16",
    "n=3 k=19 w=u7 g=5 s=f16 z=float:bf16",
    "n=1 k=1 w=nf4 g=row s=f32",
};

enum { LINES = sizeof(lines) / sizeof(lines[0]) };

NibTest(logical_weights_of_every_kind_read_back)
{
    nib_writer *writer;
    nib_file *file;
    logical w[LINES];
    OK(nib_writer_create(path, &writer));
    for (int i = 0; i < LINES; i++) {
        w[i] = make(lines[i]);
        OK(nib_writer_add_source(writer, lines[i], &w[i].desc, &w[i].source));
    }
    cr_expect_eq(access(path, F_OK), -1, "nothing stands at the path before the end");
    OK(nib_writer_finish(writer));
    cr_expect_eq(test_folder_count(folder), 1, "no temporary is left");
    OK(nib_file_open(path, &file));
    cr_expect_str_eq(nib_file_format(file), "nib");
    cr_assert_eq(nib_file_tensor_count(file), LINES);
    for (int i = 0; i < LINES; i++) {
        nib_tensor tensor = {.size = sizeof(tensor)};
        char line[NIB_DESC_LINE_BYTES];
        OK(nib_file_tensor(file, i, &tensor));
        OK(nib_weight_desc_print(&w[i].desc, line, sizeof(line), NULL));
        cr_expect_str_eq(tensor.type_name, line);
        cr_expect(tensor.quantized && !tensor.data);
        cr_expect(tensor.shape[0] == w[i].desc.n && tensor.shape[1] == w[i].desc.k);
        expect_values(file, lines[i], &w[i]);
        drop(&w[i]);
    }
    nib_file_close(file);
}

NibTest(a_source_of_a_file_is_the_source_it_came_from)
{
    nib_writer *writer;
    nib_file *file;
    OK(nib_writer_create(path, &writer));
    for (int i = 0; i < LINES; i++) {
        logical w = make(lines[i]);
        OK(nib_writer_add_source(writer, lines[i], &w.desc, &w.source));
        drop(&w);
    }
    OK(nib_writer_finish(writer));
    OK(nib_file_open(path, &file));
    for (int i = 0; i < LINES; i++) {
        logical w = make(lines[i]);
        nib_weight_desc d = {.size = sizeof(d)};
        nib_weight_source s = {.size = sizeof(s)};
        size_t codes, scales, zeros;
        OK(nib_file_source(file, i, &d, &s));
        OK(nib_weight_desc_bytes(&d, &codes, &scales, &zeros, NULL));
        cr_expect(nib_weight_desc_equal(&d, &w.desc));
        cr_expect(s.codes_bytes == codes && s.scales_bytes == scales && s.zeros_bytes == zeros);
        cr_expect_eq((uintptr_t)s.codes % 64, 0);
        cr_expect_eq(s.alpha, 1.5f);
        cr_expect(!d.scale_type || !memcmp(s.scales, w.scales, scales));
        cr_expect(!d.zero || !memcmp(s.zeros, w.zeros, zeros));
        cr_expect_eq(s.g_idx != NULL, w.source.g_idx != NULL);
        cr_expect(!s.g_idx || !memcmp(s.g_idx, w.g_idx, (size_t)d.k * sizeof(int32_t)));
        cr_expect(!s.table || !memcmp(s.table, w.table, 16 * sizeof(float)));
        drop(&w);
    }
    nib_file_close(file);
}

/* Blocks of GGUF: foreign layouts and negated zeros become plain ones. */
NibTest(foreign_sources_are_stored_plain)
{
    enum { N = 70, K = 64 };
    test_random random = {5};
    test_gguf gguf = test_gguf_begin();
    unsigned char *q = malloc(N * K / 32 * 20);
    fill(&random, q, N * K / 32 * 20);
    for (int b = 0; b < N * K / 32; b++)
        q[20 * b + 1] &= 0xbb, q[20 * b + 3] &= 0xbb; /* finite */
    test_gguf_tensor(&gguf, "w", 3, 2, (uint64_t[]){K, N}, q, N * K / 32 * 20);
    test_bytes bytes = test_gguf_end(&gguf);
    nib_file *from, *to;
    nib_weight_desc d = {.size = sizeof(d)};
    nib_weight_source s = {.size = sizeof(s)};
    nib_writer *writer;
    static float expected[N * K], got[N * K];
    OK(nib_file_open_memory(bytes.data, bytes.count, &from));
    OK(nib_file_source(from, 0, &d, &s));
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_source(writer, "w", &d, &s));
    OK(nib_writer_finish(writer));
    OK(nib_file_open(path, &to));
    OK(nib_file_read_f32(from, 0, 0, N, expected));
    OK(nib_file_read_f32(to, 0, 0, N, got));
    for (int i = 0; i < N * K; i++)
        cr_assert_eq(got[i], expected[i], "element %d: %g, expected %g", i, got[i], expected[i]);
    OK(nib_file_source(to, 0, &d, &s));
    cr_expect_eq(s.flags, 0);
    cr_expect(strstr(s.layout, "pitch") == NULL, "%s", s.layout);
    nib_file_close(from);
    nib_file_close(to);
    test_bytes_free(&bytes);
    free(q);
}

NibTest(zero_offsets_are_added_on_the_way)
{
    logical w = make(lines[2]);
    nib_writer *writer;
    nib_file *file;
    w.source.zero_offset = 17; /* 1 modulo 16 */
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_source(writer, "w", &w.desc, &w.source));
    OK(nib_writer_finish(writer));
    for (int i = 0; i < 3 * 4; i++)
        w.zeros[i] = (w.zeros[i] + 1) & 15;
    OK(nib_file_open(path, &file));
    expect_values(file, "w", &w);
    nib_file_close(file);
    drop(&w);
}

NibTest(dense_tensors_and_metadata_read_back)
{
    nib_writer *writer;
    nib_file *file;
    nib_tensor tensor = {.size = sizeof(tensor)};
    nib_meta meta = {.size = sizeof(meta)};
    float data[6] = {1, 2, 3, 4, 5, 6}, out[6];
    int32_t whole[2] = {-3, 1 << 20};
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_dense(writer, "f", NIB_F32, 3, (int64_t[]){1, 2, 3}, data));
    OK(nib_writer_add_dense(writer, "i", NIB_I32, 1, (int64_t[]){2}, whole));
    OK(nib_writer_add_dense(writer, "scalar", NIB_F16, 0, NULL, &(uint16_t){0x3c00}));
    OK(nib_writer_add_dense(writer, "empty", NIB_U8, 2, (int64_t[]){3, 0}, NULL));
    OK(nib_writer_add_meta(writer, "who", "a test"));
    OK(nib_writer_add_meta(writer, "what", ""));
    OK(nib_writer_finish(writer));
    OK(nib_file_open(path, &file));
    cr_assert_eq(nib_file_tensor_count(file), 4);
    OK(nib_file_read_f32(file, 0, 1, 2, out));
    cr_expect(out[0] == 4 && out[1] == 5 && out[2] == 6);
    OK(nib_file_tensor(file, 0, &tensor));
    cr_expect(tensor.rank == 3 && tensor.shape[2] == 3 && tensor.type == NIB_F32);
    cr_expect_str_eq(tensor.type_name, "f32");
    cr_expect_eq(tensor.offset % 64, 0);
    OK(nib_file_read_f32(file, 1, 0, 1, out));
    cr_expect(out[0] == -3 && out[1] == 1 << 20);
    OK(nib_file_read_f32(file, 2, 0, 1, out));
    cr_expect_eq(out[0], 1);
    OK(nib_file_tensor(file, 3, &tensor));
    cr_expect_eq(tensor.bytes, 0);
    cr_expect_eq(nib_file_meta_count(file), 2);
    OK(nib_file_meta_find(file, "who", &meta));
    cr_expect(meta.kind == NIB_META_STRING && meta.count == 6 && !memcmp(meta.text, "a test", 6));
    nib_file_close(file);
}

/* Stored weights in a layout of two planes: what core/api writes for packed weights. */
NibTest(planes_are_neighbours_as_layouts_want_them)
{
    enum { N = 20, K = 40 };
    nib_layout layout;
    nib_matrix matrix;
    nib_stored_weights stored = {.alpha = 2}, got;
    nib_writer *writer;
    nib_file *file;
    nib_weight_desc d = {.size = sizeof(d)};
    nib_weight_source s = {.size = sizeof(s)};
    char text[NIB_LAYOUT_TEXT_BYTES];
    size_t total;
    float out[K];
    OK(nib_weight_desc_parse("n=20 k=40 w=u3 g=tensor s=none", &stored.desc));
    OK(nib_layout_make("cpu16", 3, &layout));
    cr_assert_eq(layout.planes, 2);
    OK(nib_layout_text(&layout, text, sizeof(text), NULL));
    OK(nib_layout_total_bytes(&layout, N, K, &total));
    unsigned char *buffer = aligned_alloc(64, (total + 63) / 64 * 64);
    memset(buffer, 0, total);
    OK(nib_matrix_at(&layout, buffer, N, K, &matrix));
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++)
            nib_matrix_set(&matrix, n, k, (uint32_t)(n + k) & 7);
    stored.layout = text;
    for (int p = 0; p < 2; p++) {
        stored.section[p] = matrix.planes[p];
        OK(nib_layout_plane_bytes(&layout, p, N, K, &stored.bytes[p]));
    }
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_dense(writer, "before", NIB_U8, 1, (int64_t[]){1}, "x"));
    OK(nib_writer_add_stored(writer, "w", &stored));
    stored.bytes[0]--;
    cr_expect_eq(nib_writer_add_stored(writer, "v", &stored), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "codes of plane 0 take"), "%s", nib_last_message());
    OK(nib_writer_finish(writer));
    OK(nib_file_open(path, &file));
    cr_expect_eq(nib_file_stored_weights(file, 0, &got), NIB_INVALID);
    OK(nib_file_stored_weights(file, 1, &got));
    cr_expect_str_eq(got.layout, text);
    cr_expect(!memcmp(got.section[1], stored.section[1], got.bytes[1]));
    OK(nib_file_source(file, 1, &d, &s));
    cr_expect_eq(s.codes_bytes, total);
    OK(nib_matrix_at(&layout, (void *)s.codes, N, K, &matrix));
    cr_expect_eq((const void *)matrix.planes[1], got.section[1]);
    OK(nib_file_read_f32(file, 1, 7, 8, out));
    for (int k = 0; k < K; k++)
        cr_assert_eq(out[k], (float)(2 * ((7 + k) & 7)));
    nib_file_close(file);
    free(buffer);
}

/* ---- damage ---- */

static test_bytes small_file(void)
{
    nib_writer *writer;
    logical a = make(lines[4]), b = make("n=2 k=8 w=u3 g=4 s=f16");
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_dense(writer, "dense", NIB_F16, 2, (int64_t[]){3, 5},
                            "0123456789abcdef0123456789abcd"));
    OK(nib_writer_add_source(writer, "a", &a.desc, &a.source));
    OK(nib_writer_add_source(writer, "b", &b.desc, &b.source));
    OK(nib_writer_add_meta(writer, "key", "value"));
    OK(nib_writer_finish(writer));
    drop(&a);
    drop(&b);
    return test_file_read(path);
}

/* Makes the checksums of header and directory right again. */
static void reseal(test_bytes *bytes)
{
    unsigned char *h = bytes->data;
    uint64_t at = nib_load_u64(h + NIB_FILE_AT_DIRECTORY);
    uint64_t hash = nib_hash(h + at, bytes->count - at);
    memcpy(h + NIB_FILE_AT_DIRECTORY_HASH, &hash, 8);
    hash = nib_hash(h, NIB_FILE_AT_HEADER_HASH);
    memcpy(h + NIB_FILE_AT_HEADER_HASH, &hash, 8);
}

NibTest(broken_files_are_refused_not_followed)
{
    test_bytes bytes = small_file();
    test_sweep_broken(&bytes, 2000);
    test_bytes_free(&bytes);
}

/* The checksums would hide what lies behind them, so they are made right again. */
NibTest(directories_that_lie_are_refused)
{
    test_random random = {test_seed(77)};
    test_bytes bytes = small_file();
    size_t at = nib_load_u64(bytes.data + NIB_FILE_AT_DIRECTORY);
    int refused = 0;
    for (int i = 0; i < 20000; i++) {
        unsigned char *place =
            bytes.data + at + test_random_below(&random, (int64_t)(bytes.count - at));
        unsigned char before = *place;
        nib_file *file;
        *place ^= (unsigned char)(1u << test_random_below(&random, 8));
        reseal(&bytes);
        nib_status status = nib_file_open_memory(bytes.data, bytes.count, &file);
        if (status == NIB_OK)
            nib_file_close(file);
        else
            refused++;
        cr_assert(status == NIB_OK || status == NIB_CORRUPT || status == NIB_UNSUPPORTED, "%s",
                  nib_last_message());
        *place = before;
    }
    /* Names, hashes, alpha and metadata may change unnoticed here; the structure may not. */
    cr_expect_gt(refused, 5000);
    test_bytes_free(&bytes);
}

static void refuse_word(test_bytes *bytes, size_t at, uint64_t value, size_t width, int sealed,
                        nib_status status, const char *part)
{
    unsigned char kept[8];
    memcpy(kept, bytes->data + at, width);
    memcpy(bytes->data + at, &value, width);
    if (sealed)
        reseal(bytes);
    test_expect_refusal(bytes, status, part);
    memcpy(bytes->data + at, kept, width);
    reseal(bytes);
}

NibTest(refusals_name_field_and_byte)
{
    test_bytes b = small_file();
    size_t directory = nib_load_u64(b.data + NIB_FILE_AT_DIRECTORY);
    refuse_word(&b, NIB_FILE_AT_VERSION, 2, 4, 1, NIB_UNSUPPORTED, "version at byte 8 is 2");
    refuse_word(&b, NIB_FILE_AT_VERSION, 0, 4, 1, NIB_CORRUPT, "version at byte 8 is 0");
    refuse_word(&b, NIB_FILE_AT_FILE_BYTES, 7, 8, 0, NIB_CORRUPT, "header hash at byte 56");
    refuse_word(&b, NIB_FILE_AT_FILE_BYTES, 7, 8, 1, NIB_CORRUPT, "file bytes at byte 16 are 7");
    refuse_word(&b, NIB_FILE_AT_HEADER_BYTES, 65, 4, 1, NIB_CORRUPT, "header bytes at byte 12");
    refuse_word(&b, NIB_FILE_AT_RESERVED, 1, 8, 1, NIB_CORRUPT, "reserved word at byte 48 is 1");
    refuse_word(&b, NIB_FILE_AT_DIRECTORY_BYTES, 1, 8, 1, NIB_CORRUPT,
                "its bytes at byte 32 are 1");
    refuse_word(&b, directory, 9, 1, 0, NIB_CORRUPT, "directory hash at byte 40");
    refuse_word(&b, directory, UINT64_MAX, 8, 1, NIB_CORRUPT, "metadata count at byte");
    refuse_word(&b, directory + 8, 1000, 8, 1, NIB_CORRUPT, "tensor count at byte");
    refuse_word(&b, directory + 16, 1000000, 4, 1, NIB_CORRUPT, "metadata key at byte");
    test_bytes_free(&b);
}

/* One flipped bit of a section is found when its tensor is used, and not before. */
NibTest(checksums_name_the_section_that_is_off)
{
    test_bytes bytes = small_file();
    nib_file *file;
    nib_weight_desc d = {.size = sizeof(d)};
    nib_weight_source s = {.size = sizeof(s)};
    float out[64];
    OK(nib_file_open_memory(bytes.data, bytes.count, &file));
    OK(nib_file_source(file, 1, &d, &s));
    size_t scales = (size_t)((const unsigned char *)s.scales - bytes.data);
    nib_file_close(file);
    bytes.data[scales] ^= 1;
    OK(nib_file_open_memory(bytes.data, bytes.count, &file));
    cr_expect_eq(nib_file_source(file, 1, &d, &s), NIB_CORRUPT);
    char part[64];
    snprintf(part, sizeof(part), "scales of tensor 'a' at byte %zu: the checksum", scales);
    cr_expect(strstr(nib_last_message(), part), "%s", nib_last_message());
    cr_expect_eq(nib_file_read_f32(file, 1, 0, 1, out), NIB_CORRUPT);
    OK(nib_file_read_f32(file, 2, 0, 1, out));
    OK(nib_file_read_f32(file, 0, 0, 1, out));
    nib_file_close(file);
    test_bytes_free(&bytes);
}

/* ---- writers ---- */

static void expect_invalid(nib_status status, const char *part)
{
    cr_expect_eq(status, NIB_INVALID);
    cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
}

NibTest(writers_refuse_what_makes_no_sense)
{
    nib_writer *writer;
    logical w = make(lines[4]);
    nib_weight_source s = w.source;
    float data[4] = {0};
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_dense(writer, "a", NIB_F32, 1, (int64_t[]){4}, data));
    expect_invalid(nib_writer_add_dense(writer, "a", NIB_F32, 1, (int64_t[]){4}, data),
                   "the tensor name 'a' stands in the file already");
    expect_invalid(nib_writer_add_dense(writer, "", NIB_F32, 1, (int64_t[]){4}, data), "is empty");
    expect_invalid(nib_writer_add_dense(writer, "b", NIB_U4, 1, (int64_t[]){4}, data), "not u4");
    expect_invalid(nib_writer_add_dense(writer, "b", NIB_F32, 9, (int64_t[]){4}, data),
                   "the rank is 9");
    expect_invalid(nib_writer_add_dense(writer, "b", NIB_F32, 1, (int64_t[]){-4}, data),
                   "extent 0 is -4");
    expect_invalid(
        nib_writer_add_dense(writer, "b", NIB_F32, 2, (int64_t[]){INT64_MAX, INT64_MAX}, data),
        "63 bits");
    expect_invalid(nib_writer_add_dense(writer, "b", NIB_F32, 1, (int64_t[]){4}, NULL),
                   "data of tensor 'b' is NULL");
    OK(nib_writer_add_meta(writer, "k", "v"));
    expect_invalid(nib_writer_add_meta(writer, "k", "v"), "stands in the file already");
    expect_invalid(nib_writer_add_meta(writer, "l", NULL), "is NULL");
    s.codes_bytes--;
    expect_invalid(nib_writer_add_source(writer, "b", &w.desc, &s), "the codes have 39 bytes");
    s = w.source;
    s.scales = NULL;
    expect_invalid(nib_writer_add_source(writer, "b", &w.desc, &s), "the scales are NULL");
    s = w.source;
    s.g_idx = NULL;
    expect_invalid(nib_writer_add_source(writer, "b", &w.desc, &s), "no g_idx");
    s = w.source;
    s.flags = NIB_SOURCE_NEGATE_ZEROS;
    expect_invalid(nib_writer_add_source(writer, "b", &w.desc, &s), "is for float zeros");
    s = w.source;
    s.layout = "no such layout";
    expect_invalid(nib_writer_add_source(writer, "b", &w.desc, &s), "layout of the codes");
    w.g_idx[3] = 2;
    expect_invalid(nib_writer_add_source(writer, "b", &w.desc, &w.source),
                   "g_idx[3] is 2, expected 0..1");
    /* Refusals do no harm to what has been added. */
    OK(nib_writer_finish(writer));
    nib_file *file;
    OK(nib_file_open(path, &file));
    cr_expect_eq(nib_file_tensor_count(file), 1);
    nib_file_close(file);
    drop(&w);
}

NibTest(what_is_no_file_is_neither_read_nor_replaced)
{
    nib_file *file;
    nib_writer *writer;
    struct stat info;
    cr_assert_eq(mkfifo(path, 0600), 0);
    /* Opening the FIFO must not wait for somebody to write to it. */
    alarm(10);
    expect_invalid(nib_file_open(path, &file), "not a regular file");
    alarm(0);
    expect_invalid(nib_writer_create(path, &writer), "not a regular file");
    cr_expect_eq(stat(path, &info), 0);
    cr_expect(S_ISFIFO(info.st_mode));
    expect_invalid(nib_writer_create(folder, &writer), "not a regular file");
    cr_expect_eq(test_folder_count(folder), 1);
}

NibTest(no_file_and_no_place_are_told_not_followed)
{
    nib_writer *writer;
    nib_file *file;
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_finish(writer));
    OK(nib_file_open(path, &file));
    expect_invalid(nib_file_find(file, "a", NULL), "index is NULL");
    nib_file_close(file);
    cr_expect_str_eq(nib_file_format(NULL), "");
    cr_expect_eq(nib_file_tensor_count(NULL), 0);
    cr_expect_eq(nib_file_meta_count(NULL), 0);
}

NibTest(writers_that_give_up_leave_nothing)
{
    nib_writer *writer;
    OK(nib_writer_create(path, &writer));
    OK(nib_writer_add_dense(writer, "a", NIB_U8, 1, (int64_t[]){4}, "abcd"));
    nib_writer_discard(writer);
    cr_expect_eq(test_folder_count(folder), 0);
    nib_writer_discard(NULL);
    snprintf(path, sizeof(path), "%s/none/w.nib", folder);
    writer = NULL;
    cr_expect_eq(nib_writer_create(path, &writer), NIB_MISSING);
    cr_expect(strstr(nib_last_message(), path), "%s", nib_last_message());
    cr_expect_null(writer);
}

NibTest(a_full_disk_leaves_nothing_and_says_so)
{
    nib_writer *writer;
    static unsigned char data[1 << 16];
    struct rlimit limit = {1 << 17, RLIM_INFINITY};
    int64_t extent = sizeof(data);
    nib_status status = NIB_OK;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    OK(nib_writer_create(path, &writer));
    for (int i = 0; i < 4 && !status; i++) {
        char name[] = {(char)('a' + i), 0};
        status = nib_writer_add_dense(writer, name, NIB_U8, 1, &extent, data);
    }
    cr_expect_eq(status, NIB_MISSING, "%s", nib_last_message());
    cr_expect(strstr(nib_last_message(), path), "%s", nib_last_message());
    expect_invalid(nib_writer_add_dense(writer, "z", NIB_U8, 1, &extent, data), "an earlier write");
    cr_expect_neq(nib_writer_finish(writer), NIB_OK);
    cr_expect_eq(test_folder_count(folder), 0);
}

NibTest(a_killed_writer_leaves_nothing_at_the_path)
{
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        nib_writer *writer;
        if (nib_writer_create(path, &writer) == NIB_OK &&
            nib_writer_add_dense(writer, "a", NIB_U8, 1, (int64_t[]){4}, "abcd") == NIB_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_expect_eq(access(path, F_OK), -1);
}

NibTest(a_new_file_replaces_an_old_one_that_is_open)
{
    nib_writer *writer;
    nib_file *old;
    float out[4];
    for (int i = 0; i < 2; i++) {
        OK(nib_writer_create(path, &writer));
        OK(nib_writer_add_dense(writer, i ? "new" : "old", NIB_U8, 1, (int64_t[]){4}, "abcd"));
        OK(nib_writer_finish(writer));
        if (i == 0)
            OK(nib_file_open(path, &old));
    }
    OK(nib_file_read_f32(old, 0, 0, 1, out));
    cr_expect_eq(out[3], 'd');
    int64_t index;
    cr_expect_eq(nib_file_find(old, "new", &index), NIB_MISSING);
    nib_file_close(old);
}
