/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights back into arrays of the caller's: codes, scales and zeros in any layout, or
 * values. Copies run in the device's memory where it can (convert.c), else on the host.
 */
#include "api/convert.h"
#include "api/internal.h"

#include "base/checked.h"
#include "config/dtype.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One matrix on its way out to a caller's buffer: both layouts made, nothing copied yet. */
typedef struct unpacking {
    nib_layout from_layout, to_layout;
    nib_matrix from, to;
    bool wanted;
} unpacking;

static nib_status prepare_unpacking(const nib_stored_weights *stored, const char *stored_text,
                                    int32_t bits, int64_t n, int64_t k, int first,
                                    const char *layout, void *to, unpacking *out)
{
    out->wanted = to != NULL;
    if (!to)
        return NIB_OK;
    nib_status status =
        nib_stored_matrix(stored, stored_text, bits, n, k, first, &out->from_layout, &out->from);
    if (!status)
        status = nib_layout_make(layout, bits, &out->to_layout);
    return status ? status : nib_matrix_at(&out->to_layout, to, n, k, &out->to);
}

/* Where an unpacking goes to. */
typedef struct unpack_targets {
    const char *layout, *scale_layout, *zero_layout;
    void *codes, *scales, *zeros;
} unpack_targets;

/* All layouts before the first copy: a failed call leaves every array as it was. */
static nib_status prepare_all(const nib_stored_weights *stored, const unpack_targets *t,
                              unpacking parts[3])
{
    const nib_weight_desc *d = &stored->desc;
    int64_t rows = nib_desc_scale_rows(d), groups = nib_desc_groups(d);
    const char *zero_default = d->zero == NIB_ZERO_CODE ? "bytes" : "plain";
    nib_status status =
        prepare_unpacking(stored, stored->layout, nib_type_bits(d->type), d->n, d->k,
                          NIB_SECTION_CODES0, t->layout ? t->layout : "plain", t->codes, &parts[0]);
    if (!status)
        status = prepare_unpacking(
            stored, stored->scale_layout, nib_type_bits(d->scale_type), rows, groups,
            NIB_SECTION_SCALES, t->scale_layout ? t->scale_layout : "plain", t->scales, &parts[1]);
    if (!status)
        status = prepare_unpacking(
            stored, stored->zero_layout, nib_desc_zero_bits(d), rows, groups, NIB_SECTION_ZEROS,
            t->zero_layout ? t->zero_layout : zero_default, t->zeros, &parts[2]);
    return status;
}

static nib_status unpack_on_device(const nib_weights *weights, const unpack_targets *targets)
{
    nib_stored_weights stored;
    unpacking parts[3];
    nib_status status = nib_weights_in_place(weights, &stored);
    if (!status)
        status = prepare_all(&stored, targets, parts);
    for (int i = 0; i < 3 && !status; i++)
        if (parts[i].wanted)
            status = nib_convert_to_host(weights->dev, &parts[i].from, &parts[i].to);
    return status;
}

nib_status nib_weights_unpack(const nib_weights *weights, const char *layout, void *codes,
                              const char *scale_layout, void *scales, const char *zero_layout,
                              void *zeros)
{
    if (!weights)
        return nib_fail(NIB_INVALID, "the weights are NULL");
    const nib_weight_desc *d = &weights->desc;
    if ((scales && !d->scale_type) || (zeros && !d->zero))
        return nib_fail(NIB_INVALID, "these weights have no %s",
                        scales && !d->scale_type ? "scales" : "zeros");
    unpack_targets targets = {layout, scale_layout, zero_layout, codes, scales, zeros};
    nib_stored_weights stored;
    unpacking parts[3];
    void *owned;
    nib_status status = NIB_UNSUPPORTED;
    if (!weights->dev->host_memory)
        status = unpack_on_device(weights, &targets);
    if (!nib_convert_declined(status))
        return status;
    status = nib_weights_host(weights, &stored, &owned);
    if (status)
        return status;
    status = prepare_all(&stored, &targets, parts);
    for (int i = 0; i < 3 && !status; i++)
        if (parts[i].wanted)
            status = nib_matrix_copy(&parts[i].from, 0, 0, &parts[i].to, NULL);
    free(owned);
    return status;
}

nib_status nib_weights_unpack_extra(const nib_weights *weights, int32_t *g_idx, float *table)
{
    if (!weights)
        return nib_fail(NIB_INVALID, "the weights are NULL");
    if ((g_idx && !weights->packed.g_idx) || (table && !weights->packed.table))
        return nib_fail(NIB_INVALID, "these weights have no %s",
                        g_idx && !weights->packed.g_idx ? "g_idx" : "table");
    nib_stored_weights stored;
    void *owned;
    nib_status status = nib_weights_host(weights, &stored, &owned);
    if (status)
        return status;
    if (g_idx)
        memcpy(g_idx, stored.section[NIB_SECTION_G_IDX], stored.bytes[NIB_SECTION_G_IDX]);
    if (table)
        memcpy(table, stored.section[NIB_SECTION_TABLE], stored.bytes[NIB_SECTION_TABLE]);
    free(owned);
    return NIB_OK;
}

nib_status nib_weights_dequantize(const nib_weights *weights, int64_t n0, int64_t n1, float *out,
                                  int64_t ldo)
{
    if (!weights || !out)
        return nib_fail(NIB_INVALID,
                        "nib_weights_dequantize needs weights and a place for the values");
    const nib_weight_desc *d = &weights->desc;
    if (n0 < 0 || n1 < n0 || n1 > d->n || ldo < d->k)
        return nib_fail(NIB_INVALID,
                        "rows [%" PRId64 ", %" PRId64 ") with stride %" PRId64
                        ", expected rows inside 0..%" PRId64 " and a stride of at least %" PRId64,
                        n0, n1, ldo, d->n, d->k);
    int64_t span;
    if (!nib_mul_extent(n1 - n0, ldo, &span) ||
        !nib_mul_extent(span, (int64_t)sizeof(float), &span))
        return nib_fail(NIB_INVALID,
                        "%" PRId64 " rows of stride %" PRId64 " do not fit in 63 bits of bytes",
                        n1 - n0, ldo);
    nib_stored_weights stored;
    void *owned;
    nib_status status = nib_weights_host(weights, &stored, &owned);
    if (status)
        return status;
    status = nib_stored_read_f32(&stored, n0, n1, out, ldo);
    free(owned);
    return status;
}
