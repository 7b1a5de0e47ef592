/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights back to numbers: w[n, k] as f32, straight from the definition, some rows at a
 * time.
 */
#include "api/internal.h"

#include "base/checked.h"
#include "base/status.h"
#include "config/dtype.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_CODES = 1 << 16 }; /* codes held unpacked at a time, if a row is not longer */

typedef struct logical {
    const nib_weight_desc *desc;
    unsigned char *codes;          /* [rows of the chunk, k], a byte each */
    unsigned char *scales, *zeros; /* plain, whole */
    const int32_t *g_idx;
    float values[256];
    double alpha;
} logical;

static double value_of(const logical *l, int64_t row, int64_t n, int64_t k)
{
    const nib_weight_desc *d = l->desc;
    double w = l->values[l->codes[row * d->k + k]];
    int64_t group = l->g_idx ? l->g_idx[k] : d->group > 0 ? k / d->group : 0;
    int64_t at = d->group == NIB_GROUP_TENSOR ? 0 : n * nib_desc_groups(d) + group;
    double s = d->scale_type ? nib_dtype_load(d->scale_type, l->scales, at) : 1;
    switch (d->zero) {
    case NIB_ZERO_FLOAT:
        return (w - nib_dtype_load(d->zero_type, l->zeros, at)) * s * l->alpha;
    case NIB_ZERO_RESCALE:
        return (w * s - nib_dtype_load(d->zero_type, l->zeros, at)) * l->alpha;
    case NIB_ZERO_CODE:
        return (w - l->zeros[at]) * s * l->alpha;
    default:
        return w * s * l->alpha;
    }
}

/* Unpacks rows [n0, n0 + rows) of the codes to bytes. */
static nib_status unpack_rows(const nib_weights *weights, const nib_stored_weights *stored,
                              int64_t n0, int64_t rows, unsigned char *codes)
{
    nib_layout bytes;
    nib_matrix to;
    nib_matrix from = {
        .layout = &weights->packing.codes, .n = weights->desc.n, .k = weights->desc.k};
    for (int32_t i = 0; i < weights->packing.codes.planes; i++)
        from.planes[i] = (unsigned char *)stored->section[i];
    nib_status status = nib_layout_make("bytes", nib_type_bits(weights->desc.type), &bytes);
    if (!status)
        status = nib_matrix_at(&bytes, codes, rows, weights->desc.k, &to);
    return status ? status : nib_matrix_copy(&from, n0, 0, &to, NULL);
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
    size_t scale_bytes, zero_bytes;
    nib_stored_weights stored;
    void *owned = NULL;
    nib_weight_desc_bytes(d, NULL, &scale_bytes, &zero_bytes, NULL);
    nib_status status = nib_weights_host(weights, &stored, &owned);
    if (status)
        return status;
    int64_t chunk = CHUNK_CODES / d->k > 1 ? CHUNK_CODES / d->k : 1;
    logical l = {.desc = d, .g_idx = stored.section[NIB_SECTION_G_IDX], .alpha = stored.alpha};
    unsigned char *memory = malloc((size_t)(chunk * d->k) + scale_bytes + zero_bytes);
    if (!memory) {
        free(owned);
        return nib_fail(NIB_NO_MEMORY, "no memory for %" PRId64 " unpacked rows", chunk);
    }
    l.codes = memory;
    l.scales = memory + chunk * d->k;
    l.zeros = l.scales + scale_bytes;
    const float *table =
        d->type == NIB_LUT4 ? stored.section[NIB_SECTION_TABLE] : nib_dtype_table(d->type);
    memcpy(l.values, table, sizeof(float) << nib_type_bits(d->type));
    status = nib_weights_unpack(weights, NULL, NULL, NULL, d->scale_type ? l.scales : NULL, NULL,
                                d->zero ? l.zeros : NULL);
    for (int64_t n = n0; n < n1 && !status; n += chunk) {
        int64_t rows = n1 - n < chunk ? n1 - n : chunk;
        status = unpack_rows(weights, &stored, n, rows, l.codes);
        for (int64_t r = 0; r < rows && !status; r++)
            for (int64_t k = 0; k < d->k; k++)
                out[(n - n0 + r) * ldo + k] = (float)value_of(&l, r, n + r, k);
    }
    free(memory);
    free(owned);
    return status;
}
