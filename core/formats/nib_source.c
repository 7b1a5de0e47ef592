/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing logical or foreign weights to a .nib file in the plain layouts, a chunk of rows at a
 * time: layouts, signs and offsets of the source are resolved on the way, so that what stands in
 * the file needs no flags.
 */
#include "base/checked.h"
#include "base/struct.h"
#include "config/desc.h"
#include "formats/nib_write.h"
#include "layout/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4 << 20 };

/* One array of the source on its way into a section. Not there when bits is 0. */
typedef struct array {
    nib_section_kind kind;
    int32_t bits;
    int64_t rows, cols;
    const void *data;
    size_t given; /* bytes, 0: unknown */
    nib_layout from, to;
    nib_copy_change change;
    char text[NIB_LAYOUT_TEXT_BYTES]; /* of `to` */
} array;

static nib_status check_g_idx(const nib_weight_desc *d, const int32_t *g_idx)
{
    int64_t groups = nib_desc_groups(d);
    if (!g_idx)
        return nib_fail(NIB_INVALID, "the source has no g_idx, but the description has");
    for (int64_t k = 0; k < d->k; k++)
        if (g_idx[k] < 0 || g_idx[k] >= groups)
            return nib_fail(NIB_INVALID,
                            "g_idx[%" PRId64 "] is %d, expected 0..%" PRId64
                            " (k / group rounded up, less one)",
                            k, g_idx[k], groups - 1);
    return NIB_OK;
}

nib_status nib_source_check(const nib_weight_desc *d, const nib_weight_source *s)
{
    bool floats = d->zero == NIB_ZERO_FLOAT || d->zero == NIB_ZERO_RESCALE;
    const char *zeros = floats ? "floats" : d->zero ? "codes" : "none";
    if (s->flags & ~(uint32_t)NIB_SOURCE_NEGATE_ZEROS)
        return nib_fail(NIB_INVALID, "source flags 0x%x have bits that mean nothing", s->flags);
    if (s->flags & NIB_SOURCE_NEGATE_ZEROS && !floats)
        return nib_fail(NIB_INVALID, "NIB_SOURCE_NEGATE_ZEROS is for float zeros, these are %s",
                        zeros);
    if (s->zero_offset && d->zero != NIB_ZERO_CODE)
        return nib_fail(NIB_INVALID, "zero_offset is for code zeros, these are %s", zeros);
    if (d->type == NIB_LUT4 && !s->table)
        return nib_fail(NIB_INVALID, "lut4 weights need the table of 16 floats");
    return d->flags & NIB_WEIGHT_G_IDX ? check_g_idx(d, s->g_idx) : NIB_OK;
}

nib_copy_change nib_source_zero_change(const nib_weight_desc *d, const nib_weight_source *s)
{
    nib_copy_change change = {.add = (uint32_t)s->zero_offset};
    if (s->flags & NIB_SOURCE_NEGATE_ZEROS)
        change.flip = 1u << (nib_desc_zero_bits(d) - 1);
    return change;
}

/* Checks that the array is there and long enough, and makes its layouts. */
static nib_status prepare(array *a, const char *from, const char *to)
{
    size_t need = 0;
    const char *what = nib_section_name(a->kind);
    if (a->kind == NIB_SECTION_CODES0)
        what = "codes";
    if (!a->bits)
        return NIB_OK;
    if (!a->data)
        return nib_fail(NIB_INVALID, "the %s are NULL", what);
    nib_status status = nib_layout_make(from ? from : to, a->bits, &a->from);
    if (!status)
        status = nib_layout_total_bytes(&a->from, a->rows, a->cols, &need);
    if (status)
        return nib_fail_within(status, "layout of the %s", what);
    if (a->given && a->given < need)
        return nib_fail(NIB_INVALID,
                        "the %s have %zu bytes, expected %zu for [%" PRId64 ", %" PRId64 "]", what,
                        a->given, need, a->rows, a->cols);
    status = nib_layout_make(to, a->bits, &a->to);
    return status ? status : nib_layout_text(&a->to, a->text, sizeof(a->text), NULL);
}

/* Rows of the target that fit a chunk, whole tiles of any source if possible. */
static int64_t rows_per_chunk(const array *a, size_t row_bytes)
{
    int64_t rows = row_bytes ? CHUNK_BYTES / (int64_t)row_bytes : a->rows;
    rows = rows >= 64 ? rows / 64 * 64 : rows >= 1 ? rows : 1;
    return rows < a->rows ? rows : a->rows;
}

static nib_status copy_chunks(nib_writer *writer, const array *a, nib_section *section)
{
    nib_matrix whole, part;
    size_t row_bytes = 0, bytes = 0;
    unsigned char *chunk = NULL;
    nib_status status = nib_layout_total_bytes(&a->to, 1, a->cols, &row_bytes);
    if (!status)
        status = nib_matrix_at(&a->from, (void *)a->data, a->rows, a->cols, &whole);
    if (status)
        return status;
    int64_t step = rows_per_chunk(a, row_bytes);
    chunk = malloc((size_t)step * row_bytes);
    if (!chunk)
        return nib_fail(NIB_NO_MEMORY, "no memory for %" PRId64 " rows of %zu bytes", step,
                        row_bytes);
    for (int64_t n = 0; n < a->rows && !status; n += step) {
        int64_t count = a->rows - n < step ? a->rows - n : step;
        status = nib_layout_total_bytes(&a->to, count, a->cols, &bytes);
        if (!status)
            status = nib_matrix_at(&a->to, chunk, count, a->cols, &part);
        if (!status)
            status = nib_matrix_copy(&whole, n, 0, &part, &a->change);
        if (!status)
            status = nib_writer_section_add(writer, chunk, bytes);
    }
    free(chunk);
    nib_writer_section_end(writer, section);
    return status;
}

static nib_status write_array(nib_writer *writer, const array *a, nib_stored_weights *stored,
                              nib_section *sections)
{
    if (!a->bits)
        return NIB_OK;
    nib_section *section = &sections[a->kind];
    nib_status status = nib_writer_section_begin(writer, section);
    if (!status)
        status = copy_chunks(writer, a, section);
    stored->bytes[a->kind] = (size_t)section->bytes;
    return status;
}

static nib_status write_plain(nib_writer *writer, nib_section_kind kind, const void *data,
                              size_t bytes, nib_stored_weights *stored, nib_section *sections)
{
    if (!bytes)
        return NIB_OK;
    nib_status status = nib_writer_section_begin(writer, &sections[kind]);
    if (!status)
        status = nib_writer_section_add(writer, data, bytes);
    nib_writer_section_end(writer, &sections[kind]);
    stored->bytes[kind] = bytes;
    return status;
}

static nib_status write_weights(nib_writer *writer, const char *name, const nib_weight_desc *d,
                                const nib_weight_source *s, const array *arrays)
{
    nib_section sections[NIB_SECTION_KINDS] = {{0}};
    nib_stored_weights stored = {
        .desc = *d,
        .alpha = s->alpha == 0 ? 1 : s->alpha,
        .layout = arrays[0].text,
        .scale_layout = arrays[1].text,
        .zero_layout = arrays[2].text,
    };
    nib_status status = NIB_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = write_array(writer, &arrays[i], &stored, sections);
    if (!status)
        status = write_plain(writer, NIB_SECTION_G_IDX, s->g_idx,
                             d->flags & NIB_WEIGHT_G_IDX ? (size_t)d->k * sizeof(int32_t) : 0,
                             &stored, sections);
    if (!status)
        status = write_plain(writer, NIB_SECTION_TABLE, s->table,
                             d->type == NIB_LUT4 ? 16 * sizeof(float) : 0, &stored, sections);
    if (!status)
        status = nib_writer_describe(writer, name, &stored, sections);
    if (status)
        nib_writer_spoil(writer);
    return status;
}

nib_status nib_writer_add_source(nib_writer *writer, const char *name, const nib_weight_desc *desc,
                                 const nib_weight_source *source)
{
    nib_weight_desc d;
    nib_weight_source s;
    nib_status status = nib_writer_check_name(writer, name);
    if (!status)
        status = nib_weight_desc_check(desc, &d);
    if (!status)
        status = nib_struct_read(&s, sizeof(s), source, sizeof(s), "nib_weight_source");
    if (!status)
        status = nib_source_check(&d, &s);
    if (status)
        return status;
    int64_t rows = nib_desc_scale_rows(&d), groups = nib_desc_groups(&d);
    array arrays[3] = {
        {.kind = NIB_SECTION_CODES0,
         .bits = nib_type_bits(d.type),
         .rows = d.n,
         .cols = d.k,
         .data = s.codes,
         .given = s.codes_bytes},
        {.kind = NIB_SECTION_SCALES,
         .bits = nib_type_bits(d.scale_type),
         .rows = rows,
         .cols = groups,
         .data = s.scales,
         .given = s.scales_bytes},
        {.kind = NIB_SECTION_ZEROS,
         .bits = nib_desc_zero_bits(&d),
         .rows = rows,
         .cols = groups,
         .data = s.zeros,
         .given = s.zeros_bytes,
         .change = nib_source_zero_change(&d, &s)},
    };
    status = prepare(&arrays[0], s.layout, "plain");
    if (!status)
        status = prepare(&arrays[1], s.scale_layout, "plain");
    if (!status)
        status = prepare(&arrays[2], s.zero_layout, d.zero == NIB_ZERO_CODE ? "bytes" : "plain");
    return status ? status : write_weights(writer, name, &d, &s, arrays);
}
