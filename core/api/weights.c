/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights: packing, slicing and conversion; unpack.c has the way out. All of them copy
 * matrices between layouts: in the device's memory where it can (convert.c), else in host memory
 * (layout/copy.c), with whole sections going up and down where the device has memory of its own.
 */
#include "api/convert.h"
#include "api/internal.h"

#include "base/checked.h"
#include "base/struct.h"
#include "config/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where each section starts in one buffer, and what the whole takes. */
static nib_status place_sections(const size_t bytes[NIB_SECTION_KINDS],
                                 size_t at[NIB_SECTION_KINDS], size_t *total)
{
    size_t end = 0;
    for (int i = 0; i < NIB_SECTION_KINDS; i++) {
        at[i] = end;
        size_t padded;
        if (!nib_add_size(bytes[i], NIB_LAYOUT_ALIGN - 1, &padded) ||
            !nib_add_size(end, padded / NIB_LAYOUT_ALIGN * NIB_LAYOUT_ALIGN, &end))
            return nib_fail(NIB_INVALID, "the packed weights do not fit in the address space");
    }
    *total = end;
    return NIB_OK;
}

static void point_sections(nib_weights *w, const unsigned char *base,
                           const size_t bytes[NIB_SECTION_KINDS],
                           const size_t at[NIB_SECTION_KINDS])
{
    nib_packed *p = &w->packed;
    *p = (nib_packed){.size = sizeof(*p),
                      .planes = (uint32_t)w->packing.codes.planes,
                      .desc = &w->desc,
                      .alpha = p->alpha};
    for (uint32_t i = 0; i < p->planes; i++) {
        p->codes[i] = base + at[i];
        p->codes_bytes[i] = bytes[i];
    }
    p->scales = bytes[NIB_SECTION_SCALES] ? base + at[NIB_SECTION_SCALES] : NULL;
    p->scales_bytes = bytes[NIB_SECTION_SCALES];
    p->zeros = bytes[NIB_SECTION_ZEROS] ? base + at[NIB_SECTION_ZEROS] : NULL;
    p->zeros_bytes = bytes[NIB_SECTION_ZEROS];
    p->g_idx = bytes[NIB_SECTION_G_IDX] ? (const int32_t *)(base + at[NIB_SECTION_G_IDX]) : NULL;
    p->table = bytes[NIB_SECTION_TABLE] ? (const float *)(base + at[NIB_SECTION_TABLE]) : NULL;
}

nib_status nib_weights_new(nib_gemm *gemm, float alpha, nib_weights **out)
{
    size_t bytes[NIB_SECTION_KINDS], at[NIB_SECTION_KINDS], total = 0;
    nib_status status = nib_packing_bytes(&gemm->packing, &gemm->desc.weight, bytes);
    if (!status)
        status = place_sections(bytes, at, &total);
    if (status)
        return status;
    nib_weights *w = calloc(1, sizeof(*w));
    if (!w)
        return nib_fail(NIB_NO_MEMORY, "no memory for weights");
    w->dev = gemm->dev;
    w->desc = gemm->desc.weight;
    w->packing = gemm->packing;
    w->packed.alpha = alpha;
    w->memory_bytes = total;
    status = nib_memory_alloc(gemm->dev, total, &w->memory);
    if (status) {
        free(w);
        return status;
    }
    point_sections(w, w->memory, bytes, at);
    *out = w;
    return NIB_OK;
}

void nib_weights_destroy(nib_weights *weights)
{
    if (!weights)
        return;
    nib_memory_free(weights->dev, weights->memory);
    nib_file_close(weights->file);
    free(weights);
}

nib_status nib_weights_get_info(const nib_weights *weights, nib_weights_info *info)
{
    if (!weights)
        return nib_fail(NIB_INVALID, "the weights are NULL");
    const nib_packed *p = &weights->packed;
    nib_weights_info full = {
        .size = sizeof(full),
        .alpha = p->alpha,
        .desc = weights->desc,
        .packed_bytes = p->scales_bytes + p->zeros_bytes,
        .layout_hash = weights->packing.hash,
        .layout = weights->packing.codes_text,
        .scale_layout = weights->packing.scales_text,
        .zero_layout = weights->packing.zeros_text,
    };
    for (uint32_t i = 0; i < p->planes; i++)
        full.packed_bytes += p->codes_bytes[i];
    return nib_struct_write(info, &full, sizeof(full), sizeof(full), "nib_weights_info");
}

nib_status nib_weights_in_place(const nib_weights *weights, nib_stored_weights *out)
{
    const nib_packed *p = &weights->packed;
    nib_stored_weights stored = {
        .desc = weights->desc,
        .alpha = p->alpha,
        .layout = weights->packing.codes_text,
        .scale_layout = p->scales ? weights->packing.scales_text : NULL,
        .zero_layout = p->zeros ? weights->packing.zeros_text : NULL,
        .section = {p->codes[0], p->codes[1], p->codes[2], p->scales, p->zeros, p->g_idx, p->table},
    };
    nib_status status = nib_packing_bytes(&weights->packing, &weights->desc, stored.bytes);
    if (!status)
        *out = stored;
    return status;
}

nib_status nib_weights_host(const nib_weights *weights, nib_stored_weights *out, void **owned)
{
    nib_stored_weights stored;
    nib_status status = nib_weights_in_place(weights, &stored);
    if (status)
        return status;
    if (weights->dev->host_memory) {
        *owned = NULL;
        *out = stored;
        return NIB_OK;
    }
    unsigned char *copy = malloc(weights->memory_bytes);
    if (!copy)
        return nib_fail(NIB_NO_MEMORY, "no memory for %" PRIu64 " bytes of weights",
                        weights->memory_bytes);
    status = nib_memory_copy(weights->dev, copy, weights->memory, weights->memory_bytes,
                             NIB_COPY_TO_HOST, NULL);
    if (!status)
        status = nib_stream_synchronize(weights->dev, NULL);
    if (status) {
        free(copy);
        return status;
    }
    for (int i = 0; i < NIB_SECTION_KINDS; i++)
        if (stored.bytes[i])
            stored.section[i] = copy + ((const unsigned char *)stored.section[i] -
                                        (const unsigned char *)weights->memory);
    *owned = copy;
    *out = stored;
    return NIB_OK;
}

/* A matrix of packed weights under construction, in host memory at `base`. */
static nib_matrix section_matrix(const nib_layout *layout, int64_t n, int64_t k,
                                 unsigned char *base, const size_t at[NIB_SECTION_KINDS], int first)
{
    nib_matrix matrix = {.layout = layout, .n = n, .k = k};
    for (int32_t i = 0; i < layout->planes; i++)
        matrix.planes[i] = base + at[first + i];
    return matrix;
}

/* Where the data of new weights comes from: matrices in any layouts, a region of them, and changes.
 */
typedef struct nib_pack_job {
    nib_matrix codes, scales, zeros;
    nib_layout layouts[3];
    int64_t n0, k0, row0, group0;
    nib_copy_change zero_change;
    const int32_t *g_idx; /* already at k0 */
    const float *table;
    float alpha;
    bool on_device; /* all of it lies in the memory of the gemm's device */
} nib_pack_job;

/* How matrices get to the new weights' memory. */
typedef nib_status copy_fn(nib_device *dev, const nib_matrix *from, int64_t n0, int64_t k0,
                           const nib_matrix *to, const nib_copy_change *change);

static nib_status copy_on_host(nib_device *dev, const nib_matrix *from, int64_t n0, int64_t k0,
                               const nib_matrix *to, const nib_copy_change *change)
{
    (void)dev;
    return nib_matrix_copy(from, n0, k0, to, change);
}

/* Codes, scales and zeros. */
static nib_status fill_matrices(const nib_gemm *gemm, const nib_pack_job *job, copy_fn *copy,
                                unsigned char *base, const size_t at[NIB_SECTION_KINDS])
{
    const nib_weight_desc *d = &gemm->desc.weight;
    int64_t rows = nib_desc_scale_rows(d), groups = nib_desc_groups(d);
    nib_matrix to = section_matrix(&gemm->packing.codes, d->n, d->k, base, at, NIB_SECTION_CODES0);
    nib_status status = copy(gemm->dev, &job->codes, job->n0, job->k0, &to, NULL);
    if (!status && d->scale_type) {
        to = section_matrix(&gemm->packing.scales, rows, groups, base, at, NIB_SECTION_SCALES);
        status = copy(gemm->dev, &job->scales, job->row0, job->group0, &to, NULL);
    }
    if (!status && d->zero) {
        to = section_matrix(&gemm->packing.zeros, rows, groups, base, at, NIB_SECTION_ZEROS);
        status = copy(gemm->dev, &job->zeros, job->row0, job->group0, &to, &job->zero_change);
    }
    return status;
}

/* In the device's memory. Less than half of a matrix on the host is not worth sending all of it. */
static nib_status fill_device(const nib_gemm *gemm, const nib_pack_job *job, unsigned char *base,
                              const size_t bytes[NIB_SECTION_KINDS],
                              const size_t at[NIB_SECTION_KINDS])
{
    const nib_weight_desc *d = &gemm->desc.weight;
    nib_copy_kind kind = job->on_device ? NIB_COPY_ON_DEVICE : NIB_COPY_TO_DEVICE;
    if (!job->on_device && d->n * d->k < job->codes.n * job->codes.k / 2)
        return nib_fail(NIB_UNSUPPORTED, "the slice is small");
    nib_status status = fill_matrices(
        gemm, job, job->on_device ? nib_convert_on_device : nib_convert_to_device, base, at);
    if (!status && job->g_idx)
        status = nib_memory_copy(gemm->dev, base + at[NIB_SECTION_G_IDX], job->g_idx,
                                 bytes[NIB_SECTION_G_IDX], kind, NULL);
    if (!status && job->table)
        status = nib_memory_copy(gemm->dev, base + at[NIB_SECTION_TABLE], job->table,
                                 bytes[NIB_SECTION_TABLE], kind, NULL);
    return status ? status : nib_stream_synchronize(gemm->dev, NULL);
}

static nib_status fill_host(const nib_gemm *gemm, const nib_pack_job *job, unsigned char *base,
                            const size_t bytes[NIB_SECTION_KINDS],
                            const size_t at[NIB_SECTION_KINDS])
{
    nib_status status = fill_matrices(gemm, job, copy_on_host, base, at);
    if (status)
        return status;
    if (job->g_idx)
        memcpy(base + at[NIB_SECTION_G_IDX], job->g_idx, bytes[NIB_SECTION_G_IDX]);
    if (job->table)
        memcpy(base + at[NIB_SECTION_TABLE], job->table, bytes[NIB_SECTION_TABLE]);
    return NIB_OK;
}

/* In host memory, and up in one piece. */
static nib_status fill_staged(const nib_gemm *gemm, const nib_pack_job *job, unsigned char *base,
                              const size_t bytes[NIB_SECTION_KINDS],
                              const size_t at[NIB_SECTION_KINDS], size_t total)
{
    unsigned char *staging = malloc(total);
    if (!staging)
        return nib_fail(NIB_NO_MEMORY, "no memory for %zu bytes of weights", total);
    nib_status status = fill_host(gemm, job, staging, bytes, at);
    if (!status)
        status = nib_memory_copy(gemm->dev, base, staging, total, NIB_COPY_TO_DEVICE, NULL);
    if (!status)
        status = nib_stream_synchronize(gemm->dev, NULL);
    free(staging);
    return status;
}

static nib_status run_job(nib_gemm *gemm, const nib_pack_job *job, nib_weights **out)
{
    size_t bytes[NIB_SECTION_KINDS], at[NIB_SECTION_KINDS], total = 0;
    nib_weights *w = NULL;
    if (gemm->desc.out_type == NIB_I32 && job->alpha != 1)
        return nib_fail(NIB_INVALID, "alpha is %g, but a product with i32 output needs 1",
                        (double)job->alpha);
    nib_status status = nib_packing_bytes(&gemm->packing, &gemm->desc.weight, bytes);
    if (!status)
        status = place_sections(bytes, at, &total);
    if (!status)
        status = nib_weights_new(gemm, job->alpha, &w);
    if (status)
        return status;
    if (gemm->dev->host_memory) {
        status = fill_host(gemm, job, w->memory, bytes, at);
    } else {
        status = fill_device(gemm, job, w->memory, bytes, at);
        if (nib_convert_declined(status) && !job->on_device)
            status = fill_staged(gemm, job, w->memory, bytes, at, total);
    }
    if (status)
        nib_weights_destroy(w);
    else
        *out = w;
    return status;
}

/* One array of a source: its layout made, its size checked, its matrix pointed at it. */
static nib_status source_matrix(const char *what, const char *layout, int32_t bits,
                                const void *data, size_t given, int64_t n, int64_t k,
                                nib_layout *made, nib_matrix *out)
{
    size_t need;
    if (!data)
        return nib_fail(NIB_INVALID, "the source has no %s, but the description has", what);
    nib_status status = nib_layout_make(layout, bits, made);
    if (!status)
        status = nib_layout_total_bytes(made, n, k, &need);
    if (status)
        return nib_fail_within(status, "layout of the source's %s", what);
    if (given && given < need)
        return nib_fail(NIB_INVALID,
                        "the source's %s have %zu bytes, [%" PRId64 ", %" PRId64 "] in this "
                        "layout takes %zu",
                        what, given, n, k, need);
    return nib_matrix_at(made, (void *)data, n, k, out);
}

nib_status nib_weights_pack(nib_gemm *gemm, const nib_weight_source *source, nib_weights **out)
{
    if (!gemm || !out)
        return nib_fail(NIB_INVALID, "nib_weights_pack needs a gemm and a place for the weights");
    nib_weight_source s;
    nib_status status = nib_struct_read(&s, sizeof(s), source, sizeof(s), "nib_weight_source");
    if (status)
        return status;
    const nib_weight_desc *d = &gemm->desc.weight;
    int64_t rows = nib_desc_scale_rows(d), groups = nib_desc_groups(d);
    bool code_zeros = d->zero == NIB_ZERO_CODE;
    nib_pack_job job = {
        .alpha = s.alpha == 0 ? 1 : s.alpha,
        .g_idx = d->flags & NIB_WEIGHT_G_IDX ? s.g_idx : NULL,
        .table = d->type == NIB_LUT4 ? s.table : NULL,
    };
    status = nib_source_check(d, &s);
    if (!status)
        status = source_matrix("codes", s.layout ? s.layout : "plain", nib_type_bits(d->type),
                               s.codes, s.codes_bytes, d->n, d->k, &job.layouts[0], &job.codes);
    if (!status && d->scale_type)
        status = source_matrix("scales", s.scale_layout ? s.scale_layout : "plain",
                               nib_type_bits(d->scale_type), s.scales, s.scales_bytes, rows, groups,
                               &job.layouts[1], &job.scales);
    if (!status && d->zero)
        status = source_matrix("zeros",
                               s.zero_layout ? s.zero_layout
                               : code_zeros  ? "bytes"
                                             : "plain",
                               nib_desc_zero_bits(d), s.zeros, s.zeros_bytes, rows, groups,
                               &job.layouts[2], &job.zeros);
    if (status)
        return status;
    job.zero_change = nib_source_zero_change(d, &s);
    return run_job(gemm, &job, out);
}

/* Whether weights `d` cut to [n1-n0, k1-k0] are what the gemm takes. Groups of a slice may have
 * become "row" by canonical form, so the comparison is of what a slice would be. */
static nib_status check_slice(const nib_weight_desc *d, int64_t n0, int64_t n1, int64_t k0,
                              int64_t k1, const nib_weight_desc *wanted)
{
    if (n0 < 0 || n1 <= n0 || n1 > d->n || k0 < 0 || k1 <= k0 || k1 > d->k)
        return nib_fail(NIB_INVALID,
                        "the slice [%" PRId64 ", %" PRId64 ") x [%" PRId64 ", %" PRId64
                        ") is not inside [%" PRId64 ", %" PRId64 "]",
                        n0, n1, k0, k1, d->n, d->k);
    if (d->group > 0 && k0 % d->group)
        return nib_fail(NIB_INVALID, "k0 = %" PRId64 " is inside a group of %" PRId64, k0,
                        d->group);
    if (d->flags & NIB_WEIGHT_G_IDX && (k0 != 0 || k1 != d->k))
        return nib_fail(NIB_UNSUPPORTED,
                        "act-order weights are sliced along n only: their groups are "
                        "spread over all of k");
    nib_weight_desc part = *d;
    part.n = n1 - n0;
    part.k = k1 - k0;
    if (part.group > part.k)
        part.group = NIB_GROUP_ROW;
    nib_status status = nib_weight_desc_check(&part, &part);
    if (status)
        return status;
    if (!nib_weight_desc_equal(&part, wanted)) {
        char is[NIB_DESC_LINE_BYTES], want[NIB_DESC_LINE_BYTES];
        nib_weight_desc_print(&part, is, sizeof(is), NULL);
        nib_weight_desc_print(wanted, want, sizeof(want), NULL);
        return nib_fail(NIB_INVALID, "the weights are %s, the gemm takes %s", is, want);
    }
    return NIB_OK;
}

nib_status nib_stored_matrix(const nib_stored_weights *stored, const char *text, int32_t bits,
                             int64_t n, int64_t k, int first, nib_layout *made, nib_matrix *out)
{
    nib_status status = nib_layout_make(text, bits, made);
    if (status)
        return status;
    *out = (nib_matrix){.layout = made, .n = n, .k = k};
    for (int32_t i = 0; i < made->planes; i++)
        out->planes[i] = (unsigned char *)stored->section[first + i];
    return NIB_OK;
}

/* `on_device`: the sections lie in the memory of the gemm's device. */
static nib_status from_stored(const nib_stored_weights *stored, int64_t n0, int64_t n1, int64_t k0,
                              int64_t k1, nib_gemm *gemm, bool on_device, nib_weights **out)
{
    const nib_weight_desc *d = &stored->desc;
    nib_status status = check_slice(d, n0, n1, k0, k1, &gemm->desc.weight);
    if (status)
        return status;
    int64_t rows = nib_desc_scale_rows(d), groups = nib_desc_groups(d);
    nib_pack_job job = {
        .n0 = n0,
        .k0 = k0,
        .row0 = rows == 1 ? 0 : n0,
        .group0 = d->group > 0 ? k0 / d->group : 0,
        .table = stored->section[NIB_SECTION_TABLE],
        .g_idx = stored->section[NIB_SECTION_G_IDX],
        .alpha = stored->alpha,
        .on_device = on_device,
    };
    status = nib_stored_matrix(stored, stored->layout, nib_type_bits(d->type), d->n, d->k,
                               NIB_SECTION_CODES0, &job.layouts[0], &job.codes);
    if (!status && d->scale_type)
        status = nib_stored_matrix(stored, stored->scale_layout, nib_type_bits(d->scale_type), rows,
                                   groups, NIB_SECTION_SCALES, &job.layouts[1], &job.scales);
    if (!status && d->zero)
        status = nib_stored_matrix(stored, stored->zero_layout, nib_desc_zero_bits(d), rows, groups,
                                   NIB_SECTION_ZEROS, &job.layouts[2], &job.zeros);
    return status ? status : run_job(gemm, &job, out);
}

nib_status nib_weights_from_stored(const nib_stored_weights *stored, int64_t n0, int64_t n1,
                                   int64_t k0, int64_t k1, nib_gemm *gemm, nib_weights **out)
{
    return from_stored(stored, n0, n1, k0, k1, gemm, false, out);
}

nib_status nib_weights_slice(const nib_weights *weights, int64_t n0, int64_t n1, int64_t k0,
                             int64_t k1, nib_gemm *gemm, nib_weights **out)
{
    if (!weights || !gemm || !out)
        return nib_fail(NIB_INVALID, "weights, the gemm and a place for the result are needed");
    nib_stored_weights stored;
    void *owned;
    nib_status status;
    if (weights->dev == gemm->dev && !gemm->dev->host_memory) {
        status = nib_weights_in_place(weights, &stored);
        if (!status)
            status = from_stored(&stored, n0, n1, k0, k1, gemm, true, out);
        if (!nib_convert_declined(status))
            return status;
    }
    status = nib_weights_host(weights, &stored, &owned);
    if (status)
        return status;
    status = nib_weights_from_stored(&stored, n0, n1, k0, k1, gemm, out);
    free(owned);
    return status;
}

nib_status nib_weights_convert(const nib_weights *weights, nib_gemm *gemm, nib_weights **out)
{
    if (!weights)
        return nib_fail(NIB_INVALID, "weights, the gemm and a place for the result are needed");
    return nib_weights_slice(weights, 0, weights->desc.n, 0, weights->desc.k, gemm, out);
}
