/* SPDX-License-Identifier: Apache-2.0
 *
 * The three layouts of packed weights, and what their sections take.
 */
#include "api/internal.h"

#include "base/checked.h"
#include "base/hash.h"
#include "base/status.h"
#include "config/dtype.h"

#include <string.h>

static nib_status make_one(const char *what, const char *text, int32_t bits, nib_layout *layout,
                           char *out)
{
    nib_status status = nib_layout_make(text, bits, layout);
    if (!status)
        status = nib_layout_text(layout, out, NIB_LAYOUT_TEXT_BYTES, NULL);
    return status ? nib_fail_within(status, "layout of the %s", what) : NIB_OK;
}

nib_status nib_packing_make(const nib_weight_desc *desc, const char *codes, const char *scales,
                            const char *zeros, nib_packing *out)
{
    nib_packing packing;
    memset(&packing, 0, sizeof(packing));
    int32_t scale_bits = nib_type_bits(desc->scale_type);
    int32_t zero_bits = nib_desc_zero_bits(desc);
    nib_status status =
        make_one("codes", codes, nib_type_bits(desc->type), &packing.codes, packing.codes_text);
    if (!status && scale_bits)
        status = make_one("scales", scales, scale_bits, &packing.scales, packing.scales_text);
    if (!status && zero_bits)
        status = make_one("zeros", zeros, zero_bits, &packing.zeros, packing.zeros_text);
    if (status)
        return status;
    uint64_t parts[3] = {nib_hash_text(packing.codes_text), nib_hash_text(packing.scales_text),
                         nib_hash_text(packing.zeros_text)};
    packing.hash = nib_hash(parts, sizeof(parts));
    *out = packing;
    return NIB_OK;
}

nib_status nib_packing_bytes(const nib_packing *packing, const nib_weight_desc *desc,
                             size_t bytes[NIB_SECTION_KINDS])
{
    nib_status status = NIB_OK;
    int64_t rows = nib_desc_scale_rows(desc), groups = nib_desc_groups(desc);
    memset(bytes, 0, NIB_SECTION_KINDS * sizeof(bytes[0]));
    for (int32_t p = 0; p < packing->codes.planes && !status; p++)
        status = nib_layout_plane_bytes(&packing->codes, p, desc->n, desc->k, &bytes[p]);
    if (!status && desc->scale_type)
        status =
            nib_layout_plane_bytes(&packing->scales, 0, rows, groups, &bytes[NIB_SECTION_SCALES]);
    if (!status && desc->zero)
        status =
            nib_layout_plane_bytes(&packing->zeros, 0, rows, groups, &bytes[NIB_SECTION_ZEROS]);
    if (status)
        return status;
    if (desc->flags & NIB_WEIGHT_G_IDX)
        bytes[NIB_SECTION_G_IDX] = (size_t)desc->k * sizeof(int32_t);
    if (desc->type == NIB_LUT4)
        bytes[NIB_SECTION_TABLE] = 16 * sizeof(float);
    return NIB_OK;
}
