/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion in a device's memory gives the bits of the host's: all named layouts, regions,
 * changes, gaps and padding included, and packing, slicing and unpacking built on it. The device is
 * null's; NIB_TEST_DEVICE names another whose backend converts, cuda:0 for instance.
 */
#include "api/convert.h"

#include "api/internal.h"
#include "layout/map.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PLUGINS NIB_BINARY_DIR "/lib/test-backends"

enum { GAP = 0xa5 }; /* what target memory holds before */

static nib_context *ctx;
static nib_device *dev;

static void open_device(const char *name)
{
    const char *path = getenv("NIB_BACKEND_PATH"), *asked = getenv("NIB_TEST_DEVICE");
    nib_context_options options = {.size = sizeof(options), .backend_path = path ? path : PLUGINS};
    cr_assert_eq(nib_context_create(&options, &ctx), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_device_open(ctx, asked ? asked : name, &dev), NIB_OK, "%s",
                 nib_last_message());
}

static void close_device(void)
{
    nib_device_close(dev);
    nib_context_destroy(ctx);
}

/* A matrix on the host and its twin on the device; both hold the same bytes at first. */
typedef struct twins {
    nib_layout layout;
    nib_matrix host, device;
    unsigned char *memory;
    void *device_memory;
    size_t bytes;
} twins;

static void twins_make(const nib_layout *layout, int64_t n, int64_t k, test_random *random,
                       twins *t)
{
    t->layout = *layout;
    cr_assert_eq(nib_layout_total_bytes(layout, n, k, &t->bytes), NIB_OK);
    t->memory = malloc(t->bytes);
    for (size_t i = 0; i < t->bytes; i++)
        t->memory[i] = random ? (unsigned char)test_random_next(random) : GAP;
    cr_assert_eq(nib_memory_alloc(dev, t->bytes, &t->device_memory), NIB_OK);
    cr_assert_eq(
        nib_memory_copy(dev, t->device_memory, t->memory, t->bytes, NIB_COPY_TO_DEVICE, NULL),
        NIB_OK);
    cr_assert_eq(nib_matrix_at(&t->layout, t->memory, n, k, &t->host), NIB_OK);
    cr_assert_eq(nib_matrix_at(&t->layout, t->device_memory, n, k, &t->device), NIB_OK);
}

static void twins_free(twins *t)
{
    nib_memory_free(dev, t->device_memory);
    free(t->memory);
}

static void expect_equal(const twins *t, const char *from, const char *to)
{
    unsigned char *back = malloc(t->bytes);
    cr_assert_eq(nib_memory_copy(dev, back, t->device_memory, t->bytes, NIB_COPY_TO_HOST, NULL),
                 NIB_OK);
    cr_assert_eq(nib_stream_synchronize(dev, NULL), NIB_OK);
    for (size_t i = 0; i < t->bytes; i++)
        cr_assert_eq(back[i], t->memory[i],
                     "%s to %s [%ld, %ld]: byte %zu of %zu is %02x, on the host %02x", from, to,
                     (long)t->host.n, (long)t->host.k, i, t->bytes, back[i], t->memory[i]);
    free(back);
}

/* A region of [n + n0, k + k0] at (n0, k0), converted on both sides. */
static void check_pair(const nib_layout *from, const nib_layout *to, int64_t n, int64_t k,
                       int64_t n0, int64_t k0, const nib_copy_change *change, test_random *random)
{
    twins a, b;
    char from_text[NIB_LAYOUT_TEXT_BYTES], to_text[NIB_LAYOUT_TEXT_BYTES];
    cr_assert_eq(nib_layout_text(from, from_text, sizeof(from_text), NULL), NIB_OK);
    cr_assert_eq(nib_layout_text(to, to_text, sizeof(to_text), NULL), NIB_OK);
    twins_make(from, n + n0, k + k0, random, &a);
    twins_make(to, n, k, NULL, &b);
    cr_assert_eq(nib_matrix_copy(&a.host, n0, k0, &b.host, change), NIB_OK);
    cr_assert_eq(nib_convert_on_device(dev, &a.device, n0, k0, &b.device, change), NIB_OK, "%s",
                 nib_last_message());
    expect_equal(&b, from_text, to_text);
    twins_free(&b);
    twins_free(&a);
}

static void check_ways(const nib_layout *row, const nib_layout *other, test_random *random)
{
    static const int64_t shapes[][2] = {{1, 1}, {5, 37}, {67, 131}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        int64_t n = shapes[i][0], k = shapes[i][1];
        nib_copy_change change = {.add = (uint32_t)test_random_below(random, 3),
                                  .flip = (uint32_t)test_random_next(random)};
        check_pair(row, other, n, k, 0, 0, NULL, random);
        check_pair(other, row, n, k, test_random_below(random, 20), test_random_below(random, 40),
                   &change, random);
    }
}

Test(device_convert, every_row_gives_the_bytes_of_the_host)
{
    const char *row;
    test_random random = {test_seed(31)};
    open_device("null");
    for (uint32_t i = 0; nib_layout_row(i, &row, NULL) == NIB_OK; i++)
        for (int32_t bits = 1; bits <= 32; bits++) {
            static const char *const others[] = {"plain", "mma64x128", "mma64-scales", "gptq"};
            nib_layout layout, other;
            if (nib_layout_make(row, bits, &layout))
                continue;
            check_ways(&layout, &layout, &random);
            for (size_t j = 0; j < sizeof(others) / sizeof(others[0]); j++)
                if (nib_layout_make(others[j], bits, &other) == NIB_OK)
                    check_ways(&layout, &other, &random);
        }
    close_device();
}

/* Swizzles, cells wider than codes, gaps at odd bytes, cut rows and woven words. */
Test(device_convert, layouts_without_a_name_as_well)
{
    static const char *const texts[] = {
        "bits=4 tile=n8,k8 addr=k0,k1^n0,k2^n1,n0,n1,n2 order=nk",
        "bits=4 tile=n4,k4 addr=n1,k0^n0^n1,k1,n0 order=kn pitch=11 offset=3",
        "bits=4 tile=n1,k8 addr=k0,k1,k2 order=nk cell=6",
        "bits=4 tile=n1,k2 addr=k0 order=nk edge=cut",
        "bits=4 tile=n1,k16 addr=k3,k0,k1,k2 order=nk weave=words",
        "bits=3 tile=n8,k1 addr=n2,n0,n1 order=kn | bits=1 tile=n1,k8 addr=k0,k1,k2 order=nk "
        "shift=3",
        "bits=1 tile=n2,k64 addr=k5,k4,k3,k2,k1,k0,n0 order=kn shift=3 | "
        "bits=3 tile=n1,k8 addr=k0,k1,k2 order=nk edge=cut",
    };
    enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
    test_random random = {test_seed(32)};
    open_device("null");
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            nib_layout a, b;
            cr_assert_eq(nib_layout_make(texts[i], 4, &a), NIB_OK, "%s", nib_last_message());
            cr_assert_eq(nib_layout_make(texts[j], 4, &b), NIB_OK, "%s", nib_last_message());
            check_ways(&a, &b, &random);
        }
    close_device();
}

/* The numbers of a map lead to the code that nib_matrix_get finds. */
Test(device_convert, a_map_says_where_codes_lie)
{
    nib_layout layout;
    nib_matrix matrix;
    nib_matrix_map map;
    unsigned char memory[4096];
    enum { N = 70, K = 40 };
    test_random random = {test_seed(33)};
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)test_random_next(&random);
    cr_assert_eq(nib_layout_make("marlin", 4, &layout), NIB_OK);
    cr_assert_eq(nib_matrix_at(&layout, memory, N, K, &matrix), NIB_OK);
    cr_assert_eq(nib_matrix_map_make(&matrix, &map), NIB_OK);
    const nib_plane_map *plane = &map.plane[0];
    cr_assert_leq(plane->bytes, sizeof(memory));
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            uint32_t inside = (uint32_t)(n % 64) | (uint32_t)(k % 16) << 16, cell = 0;
            for (int32_t i = 0; i < plane->n_bits + plane->k_bits; i++)
                cell |= (uint32_t)__builtin_parity(inside & plane->addr[i]) << i;
            size_t tile = (size_t)(n / 64) * plane->stride_n + (size_t)(k / 16) * plane->stride_k;
            uint32_t code = memory[tile + cell / 2] >> 4 * (cell & 1) & 15;
            cr_assert_eq(code, nib_matrix_get(&matrix, n, k));
        }
}

Test(device_convert, gaps_are_seen)
{
    static const struct {
        const char *text;
        bool gaps;
    } cases[] = {{"gguf-q4_0", true},
                 {"plain", false},
                 {"bits=4 tile=n1,k2 addr=k0 order=nk offset=1", true},
                 {"bits=4 tile=n1,k2 addr=k0 order=nk edge=cut", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nib_layout layout;
        cr_assert_eq(nib_layout_make(cases[i].text, 4, &layout), NIB_OK);
        cr_expect_eq(nib_layout_has_gaps(&layout), cases[i].gaps, "%s", cases[i].text);
    }
}

/* Sources of one description, and what packing makes of them. */
typedef struct packed_case {
    nib_gemm *gemm;
    nib_weights *weights;
    unsigned char *codes, *scales, *zeros;
    int32_t *g_idx;
    float table[16];
    size_t codes_bytes, scales_bytes, zeros_bytes;
} packed_case;

static unsigned char *random_bytes(size_t bytes, test_random *random)
{
    unsigned char *out = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)test_random_next(random);
    return out;
}

static void pack_case(const char *line, const char *layout, const char *scale_layout,
                      packed_case *c)
{
    nib_gemm_desc desc;
    test_random random = {test_seed(34)};
    memset(c, 0, sizeof(*c));
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(dev, &desc, &c->gemm), NIB_OK, "%s", nib_last_message());
    const nib_weight_desc *w = &c->gemm->desc.weight;
    int64_t rows = nib_desc_scale_rows(w), groups = nib_desc_groups(w);
    cr_assert_eq(nib_layout_bytes(layout, nib_type_bits(w->type), w->n, w->k, &c->codes_bytes),
                 NIB_OK);
    if (w->scale_type)
        cr_assert_eq(nib_layout_bytes(scale_layout, nib_type_bits(w->scale_type), rows, groups,
                                      &c->scales_bytes),
                     NIB_OK);
    c->zeros_bytes = w->zero ? (size_t)(rows * groups * 4) : 0;
    c->codes = random_bytes(c->codes_bytes, &random);
    c->scales = random_bytes(c->scales_bytes, &random);
    c->zeros = random_bytes(c->zeros_bytes, &random);
    c->g_idx = malloc((size_t)w->k * sizeof(*c->g_idx));
    for (int64_t k = 0; k < w->k; k++)
        c->g_idx[k] = (int32_t)test_random_below(&random, groups);
    nib_weight_source source = {.size = sizeof(source),
                                .layout = layout,
                                .scale_layout = scale_layout,
                                .codes = c->codes,
                                .scales = c->scales,
                                .zeros = w->zero ? c->zeros : NULL,
                                .g_idx = w->flags & NIB_WEIGHT_G_IDX ? c->g_idx : NULL,
                                .table = w->type == NIB_LUT4 ? c->table : NULL,
                                .zero_offset = w->zero == NIB_ZERO_CODE};
    cr_assert_eq(nib_weights_pack(c->gemm, &source, &c->weights), NIB_OK, "%s", nib_last_message());
}

static void case_free(packed_case *c)
{
    free(c->codes);
    free(c->scales);
    free(c->zeros);
    free(c->g_idx);
    nib_weights_destroy(c->weights);
    nib_gemm_destroy(c->gemm);
}

/* All sections of weights, one behind the other. */
static unsigned char *sections_of(const nib_weights *weights, size_t *bytes)
{
    nib_stored_weights stored;
    void *owned;
    *bytes = 0;
    cr_assert_eq(nib_weights_host(weights, &stored, &owned), NIB_OK);
    for (int i = 0; i < NIB_SECTION_KINDS; i++)
        *bytes += stored.bytes[i];
    unsigned char *all = malloc(*bytes), *to = all;
    for (int i = 0; i < NIB_SECTION_KINDS; i++) {
        if (stored.bytes[i])
            memcpy(to, stored.section[i], stored.bytes[i]);
        to += stored.bytes[i];
    }
    free(owned);
    return all;
}

/* Everything that a user gets from one case: packed sections, those of a slice, unpacked arrays. */
typedef struct outcome {
    unsigned char *packed, *sliced, *codes, *scales;
    size_t packed_bytes, sliced_bytes, codes_bytes, scales_bytes;
} outcome;

static void take_outcome(const char *line, const char *slice_line, const char *layout,
                         const char *scale_layout, outcome *o)
{
    packed_case c;
    nib_gemm_desc desc;
    nib_gemm *gemm;
    nib_weights *part;
    pack_case(line, layout, scale_layout, &c);
    o->packed = sections_of(c.weights, &o->packed_bytes);
    cr_assert_eq(nib_gemm_desc_parse(slice_line, &desc), NIB_OK);
    cr_assert_eq(nib_gemm_create(dev, &desc, &gemm), NIB_OK);
    cr_assert_eq(nib_weights_slice(c.weights, 3, 3 + desc.weight.n, 0, desc.weight.k, gemm, &part),
                 NIB_OK, "%s", nib_last_message());
    o->sliced = sections_of(part, &o->sliced_bytes);
    nib_weights_destroy(part);
    nib_gemm_destroy(gemm);
    o->codes_bytes = c.codes_bytes;
    o->scales_bytes = c.scales_bytes;
    o->codes = malloc(c.codes_bytes + 1);
    o->scales = malloc(c.scales_bytes + 1);
    memset(o->codes, GAP, c.codes_bytes);
    memset(o->scales, GAP, c.scales_bytes);
    cr_assert_eq(nib_weights_unpack(c.weights, layout, o->codes, scale_layout,
                                    c.scales_bytes ? o->scales : NULL, NULL, NULL),
                 NIB_OK, "%s", nib_last_message());
    case_free(&c);
}

static void outcome_free(outcome *o)
{
    free(o->packed);
    free(o->sliced);
    free(o->codes);
    free(o->scales);
}

static void expect_same(const char *what, const char *line, const unsigned char *a, size_t a_bytes,
                        const unsigned char *b, size_t b_bytes)
{
    cr_assert_eq(a_bytes, b_bytes);
    cr_expect_eq(memcmp(a, b, a_bytes), 0, "%s of %s differ", what, line);
}

Test(device_convert, packing_slicing_and_unpacking_give_the_bytes_of_the_host)
{
    static const struct {
        const char *line, *slice, *layout, *scale_layout;
    } cases[] = {
        {"n=70 k=96 w=u4 g=32 s=f16 z=code a=f16", "n=61 k=64 w=u4 g=32 s=f16 z=code a=f16", "gptq",
         "plain-kn"},
        {"n=33 k=75 w=i3 g=row s=f32 a=f32", "n=7 k=75 w=i3 g=row s=f32 a=f32", "plain", "plain"},
        {"n=64 k=64 w=i4 g=32 s=f16 a=f16", "n=40 k=32 w=i4 g=row s=f16 a=f16", "gguf-q4_0",
         "gguf-q4_0-scales"},
        {"n=48 k=40 w=lut4 g=8 s=bf16 a=f16", "n=24 k=40 w=lut4 g=8 s=bf16 a=f16", "plain",
         "plain"},
        {"n=48 k=40 w=u7 g=10 s=f16 wf=g_idx a=f16", "n=40 k=40 w=u7 g=10 s=f16 wf=g_idx a=f16",
         "bytes", "plain-kn"},
        {"n=48 k=40 w=i8 s=none a=i8 o=f32", "n=40 k=20 w=i8 s=none a=i8 o=f32", "plain", "plain"},
        {"n=48 k=40 w=u5 g=tensor s=f32 z=float:f16 a=f16",
         "n=40 k=20 w=u5 g=tensor s=f32 z=float:f16 a=f16", "plain", "plain"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        outcome with, without;
        /* On another device the same backend answers both; null tells the two paths apart. */
        setenv("NIB_NULL_CONVERT", "1", 1);
        open_device("null");
        take_outcome(cases[i].line, cases[i].slice, cases[i].layout, cases[i].scale_layout, &with);
        close_device();
        setenv("NIB_NULL_CONVERT", "0", 1);
        open_device("null");
        take_outcome(cases[i].line, cases[i].slice, cases[i].layout, cases[i].scale_layout,
                     &without);
        close_device();
        expect_same("sections", cases[i].line, with.packed, with.packed_bytes, without.packed,
                    without.packed_bytes);
        expect_same("slices", cases[i].line, with.sliced, with.sliced_bytes, without.sliced,
                    without.sliced_bytes);
        expect_same("codes", cases[i].line, with.codes, with.codes_bytes, without.codes,
                    without.codes_bytes);
        expect_same("scales", cases[i].line, with.scales, with.scales_bytes, without.scales,
                    without.scales_bytes);
        outcome_free(&with);
        outcome_free(&without);
    }
}

Test(device_convert, a_device_that_declines_says_so)
{
    nib_layout plain;
    nib_matrix matrix;
    unsigned char memory[64] = {0};
    setenv("NIB_NULL_CONVERT", "0", 1);
    open_device("null");
    cr_assert_eq(nib_layout_make("plain", 8, &plain), NIB_OK);
    cr_assert_eq(nib_matrix_at(&plain, memory, 4, 4, &matrix), NIB_OK);
    if (!getenv("NIB_TEST_DEVICE"))
        cr_expect_eq(nib_convert_on_device(dev, &matrix, 0, 0, &matrix, NULL), NIB_UNSUPPORTED);
    close_device();
    setenv("NIB_NULL_CONVERT", "1", 1);
    open_device("check");
    if (!getenv("NIB_TEST_DEVICE"))
        cr_expect_eq(nib_convert_on_device(dev, &matrix, 0, 0, &matrix, NULL), NIB_UNSUPPORTED);
    close_device();
}
