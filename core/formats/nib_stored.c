/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as a .nib file stores them: whether their parts fit each other, and their values. See
 * nib.h and nibfile.h.
 */
#include "base/checked.h"
#include "config/desc.h"
#include "config/dtype.h"
#include "formats/nib.h"
#include "formats/reader.h"
#include "layout/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const nib_element dense[] = {
    {"f32",  NIB_F32,  1, 4, nib_element_f32,  NULL},
    {"f16",  NIB_F16,  1, 2, nib_element_f16,  NULL},
    {"bf16", NIB_BF16, 1, 2, nib_element_bf16, NULL},
    {"i32",  NIB_I32,  1, 4, nib_element_i32,  NULL},
    {"i8",   NIB_I8,   1, 1, nib_element_i8,   NULL},
    {"u8",   NIB_U8,   1, 1, nib_element_u8,   NULL},
    {"e4m3", NIB_E4M3, 1, 1, nib_element_e4m3, NULL},
    {"e5m2", NIB_E5M2, 1, 1, nib_element_e5m2, NULL},
};
/* clang-format on */

enum { DENSE = sizeof(dense) / sizeof(dense[0]) };

const nib_element *nib_dense_element(nib_type type)
{
    for (int i = 0; i < DENSE; i++)
        if (dense[i].type == type)
            return &dense[i];
    return NULL;
}

const nib_element *nib_dense_element_named(const char *name)
{
    for (int i = 0; i < DENSE; i++)
        if (!strcmp(dense[i].name, name))
            return &dense[i];
    return NULL;
}

const char *nib_section_name(nib_section_kind kind)
{
    static const char *const names[NIB_SECTION_KINDS] = {"codes of plane 0",
                                                         "codes of plane 1",
                                                         "codes of plane 2",
                                                         "scales",
                                                         "zeros",
                                                         "g_idx",
                                                         "table"};
    return kind < NIB_SECTION_KINDS ? names[kind] : "?";
}

static nib_status check_bytes(const nib_stored_weights *w, nib_section_kind kind, size_t expected)
{
    if (w->bytes[kind] != expected)
        return nib_fail(NIB_INVALID, "the %s take %zu bytes, expected %zu", nib_section_name(kind),
                        w->bytes[kind], expected);
    return NIB_OK;
}

/* Layouts in files are texts: the meaning of a row's name may change. */
static nib_status make_layout(const char *text, int32_t bits, const char *what, nib_layout *out)
{
    if (!text || !strchr(text, '='))
        return nib_fail(NIB_INVALID, "the layout of the %s is '%s', expected a layout text", what,
                        text ? text : "");
    nib_status status = nib_layout_make(text, bits, out);
    return status ? nib_fail_within(status, "layout of the %s", what) : NIB_OK;
}

static nib_status check_codes(const nib_stored_weights *w)
{
    nib_layout layout;
    const nib_weight_desc *d = &w->desc;
    nib_status status = make_layout(w->layout, nib_type_bits(d->type), "codes", &layout);
    for (int p = 0; p < NIB_LAYOUT_PLANES && !status; p++) {
        size_t bytes = 0;
        if (p < layout.planes)
            status = nib_layout_plane_bytes(&layout, p, d->n, d->k, &bytes);
        if (!status)
            status = check_bytes(w, (nib_section_kind)(NIB_SECTION_CODES0 + p), bytes);
    }
    return status;
}

/* Scales or zeros: absent when they have no bits. */
static nib_status check_groups(const nib_stored_weights *w, nib_section_kind kind, int32_t bits,
                               const char *text)
{
    size_t bytes = 0;
    nib_layout layout;
    const char *what = nib_section_name(kind);
    if (!bits) {
        if (text && text[0])
            return nib_fail(NIB_INVALID, "there is a layout for %s, but the description has none",
                            what);
        return check_bytes(w, kind, 0);
    }
    nib_status status = make_layout(text, bits, what, &layout);
    if (!status)
        status = nib_layout_total_bytes(&layout, nib_desc_scale_rows(&w->desc),
                                        nib_desc_groups(&w->desc), &bytes);
    return status ? status : check_bytes(w, kind, bytes);
}

nib_status nib_stored_check(const nib_stored_weights *w)
{
    const nib_weight_desc *d = &w->desc;
    bool indexed = d->flags & NIB_WEIGHT_G_IDX;
    if (w->alpha == 0)
        return nib_fail(NIB_INVALID, "alpha is 0, which would make all weights 0");
    nib_status status = check_codes(w);
    if (!status)
        status = check_groups(w, NIB_SECTION_SCALES, nib_type_bits(d->scale_type), w->scale_layout);
    if (!status)
        status = check_groups(w, NIB_SECTION_ZEROS, nib_desc_zero_bits(d), w->zero_layout);
    if (!status)
        status = check_bytes(w, NIB_SECTION_G_IDX, indexed ? (size_t)d->k * sizeof(int32_t) : 0);
    if (!status)
        status = check_bytes(w, NIB_SECTION_TABLE, d->type == NIB_LUT4 ? 16 * sizeof(float) : 0);
    return status;
}

/* ---- values ---- */

enum { CHUNK_BYTES = 1 << 20 };

/* Some rows of weights in the simplest form: one code a byte, scales and zeros as f32. */
typedef struct logical_rows {
    unsigned char *codes;
    float *scales, *zeros;
    unsigned char *raw; /* scales or zeros before they are decoded */
    float table[256];
    int64_t groups, group;
} logical_rows;

/* Rows n0..n0 + n of one of the arrays, through layout `to` ("bytes" or "plain"). */
static nib_status copy_rows(const char *text, const void *from, const char *to, int32_t bits,
                            int64_t rows, int64_t cols, int64_t n0, int64_t n, unsigned char *out)
{
    nib_layout source, target;
    nib_matrix whole, part;
    nib_status status = nib_layout_make(text, bits, &source);
    if (!status)
        status = nib_layout_make(to, bits, &target);
    if (!status)
        status = nib_matrix_at(&source, (void *)from, rows, cols, &whole);
    if (!status)
        status = nib_matrix_at(&target, out, n, cols, &part);
    return status ? status : nib_matrix_copy(&whole, n0, 0, &part, NULL);
}

static void decode_values(nib_type type, const unsigned char *raw, int64_t count, float *to)
{
    switch (type) {
    case NIB_F16:
        nib_element_f16(raw, count, to);
        break;
    case NIB_BF16:
        nib_element_bf16(raw, count, to);
        break;
    case NIB_E4M3:
        nib_element_e4m3(raw, count, to);
        break;
    case NIB_E8M0:
        nib_element_e8m0(raw, count, to);
        break;
    case NIB_F32:
        nib_element_f32(raw, count, to);
        break;
    default: /* the codes of NIB_ZERO_CODE */
        nib_element_u8(raw, count, to);
        break;
    }
}

static nib_status fetch_scales(const nib_stored_weights *w, int64_t n0, int64_t n,
                               logical_rows *rows)
{
    const nib_weight_desc *d = &w->desc;
    int64_t all = nib_desc_scale_rows(d), first = all == 1 ? 0 : n0, count = all == 1 ? 1 : n;
    nib_type zero_type = d->zero == NIB_ZERO_CODE ? d->type : d->zero_type;
    nib_status status = NIB_OK;
    if (d->scale_type) {
        status =
            copy_rows(w->scale_layout, w->section[NIB_SECTION_SCALES], "plain",
                      nib_type_bits(d->scale_type), all, rows->groups, first, count, rows->raw);
        if (!status)
            decode_values(d->scale_type, rows->raw, count * rows->groups, rows->scales);
    }
    if (d->zero && !status) {
        status = copy_rows(w->zero_layout, w->section[NIB_SECTION_ZEROS],
                           d->zero == NIB_ZERO_CODE ? "bytes" : "plain", nib_desc_zero_bits(d), all,
                           rows->groups, first, count, rows->raw);
        if (!status)
            decode_values(zero_type, rows->raw, count * rows->groups, rows->zeros);
    }
    return status;
}

static nib_status fetch_rows(const nib_stored_weights *w, int64_t n0, int64_t n, logical_rows *rows)
{
    const nib_weight_desc *d = &w->desc;
    nib_status status = copy_rows(w->layout, w->section[NIB_SECTION_CODES0], "bytes",
                                  nib_type_bits(d->type), d->n, d->k, n0, n, rows->codes);
    return status ? status : fetch_scales(w, n0, n, rows);
}

/* w = ((code - before) * scale - after) * alpha: one form for all zero modes. */
typedef struct group_values {
    double scale, before, after;
} group_values;

static group_values values_of(const nib_weight_desc *d, const logical_rows *rows, int64_t index)
{
    group_values v = {.scale = d->scale_type ? rows->scales[index] : 1};
    if (d->zero == NIB_ZERO_RESCALE)
        v.after = rows->zeros[index];
    else if (d->zero)
        v.before = rows->zeros[index];
    return v;
}

/* One row. `first` is the index of its first group in scales and zeros. */
static void decode_row(const nib_stored_weights *w, const logical_rows *rows,
                       const unsigned char *codes, int64_t first, float *out)
{
    const nib_weight_desc *d = &w->desc;
    const unsigned char *g_idx = w->section[NIB_SECTION_G_IDX];
    double alpha = w->alpha;
    for (int64_t k = 0; k < d->k;) {
        int64_t g = g_idx ? (int32_t)nib_load_u32(g_idx + 4 * k) : k / rows->group;
        int64_t end = g_idx ? k + 1 : (g + 1) * rows->group;
        group_values v = values_of(d, rows, first + g);
        for (; k < end && k < d->k; k++)
            out[k] = (float)(((rows->table[codes[k]] - v.before) * v.scale - v.after) * alpha);
    }
}

/* Which rows: as many as keep the codes in a chunk, whole tiles of common layouts if possible. */
static int64_t rows_per_chunk(int64_t k, int64_t wanted)
{
    int64_t rows = CHUNK_BYTES / k;
    rows = rows >= 64 ? rows / 64 * 64 : rows >= 1 ? rows : 1;
    return rows < wanted ? rows : wanted;
}

static void fill_table(const nib_stored_weights *w, logical_rows *rows)
{
    const float *table = nib_dtype_table(w->desc.type);
    size_t entries = (size_t)1 << nib_type_bits(w->desc.type);
    if (w->desc.type == NIB_LUT4)
        memcpy(rows->table, w->section[NIB_SECTION_TABLE], entries * sizeof(float));
    else
        memcpy(rows->table, table, entries * sizeof(float));
}

/* Memory for scales, zeros and raw values (at most 4 bytes each), then codes, of `n` rows. */
static nib_status alloc_rows(const nib_weight_desc *d, int64_t n, logical_rows *rows)
{
    size_t values = (size_t)(n * rows->groups);
    rows->scales = malloc(3 * values * sizeof(float) + (size_t)(n * d->k));
    if (!rows->scales)
        return nib_fail(NIB_NO_MEMORY, "no memory to decode %" PRId64 " rows of %" PRId64, n, d->k);
    rows->zeros = rows->scales + values;
    rows->raw = (unsigned char *)(rows->zeros + values);
    rows->codes = rows->raw + values * sizeof(float);
    return NIB_OK;
}

nib_status nib_stored_read_f32(const nib_stored_weights *w, int64_t r0, int64_t r1, float *out,
                               int64_t ldo)
{
    const nib_weight_desc *d = &w->desc;
    int64_t step = rows_per_chunk(d->k, r1 - r0);
    logical_rows rows = {.groups = nib_desc_groups(d), .group = nib_desc_group_size(d)};
    fill_table(w, &rows);
    nib_status status = alloc_rows(d, step, &rows);
    for (int64_t n = r0; n < r1 && !status; n += step) {
        int64_t count = r1 - n < step ? r1 - n : step;
        status = fetch_rows(w, n, count, &rows);
        for (int64_t i = 0; i < count && !status; i++)
            decode_row(w, &rows, rows.codes + i * d->k,
                       d->group == NIB_GROUP_TENSOR ? 0 : i * rows.groups,
                       out + (n - r0 + i) * ldo);
    }
    free(rows.scales);
    return status;
}
